# SPDX-License-Identifier: GPL-2.0-only
"""Pages with sessions: what a test takes for the same."""

from pathlib import Path

import pytest

from tests import recorded

PAGE = """# Sessions

## One
```
# look
web  2  50 %, 0.123
db   1   - %, 9.5e-05
```
"""


@pytest.mark.parametrize(("said", "exactly", "loosely"), [
    ("web  2  50 %, 0.123\ndb   1   - %, 9.5e-05\n", True, True),
    ("db 1  7.5 %,\n 10k\nweb 2  9 %, 6\n", False, True),
    ("web  2  50 %, 0.123\n", False, False),
    ("web  2  50 %, 0.123\ndb   1   - s, 9.5e-05\n", False, False),
    ("web1 2  50 %, 0.123\ndb   1   - %, 9.5e-05\n", False, False)])
def test_words_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str,
                           exactly: bool, loosely: bool) -> None:
    """Without the figures, order and lines may be others; what is said may not."""
    monkeypatch.delenv("PVSYNC_RECORD", raising=False)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for figures, same in ((True, exactly), (False, loosely)):
        if same:
            recorded.compare(page, "One", [("other", ""), ("look", said)], figures)
        else:
            with pytest.raises(AssertionError, match="One"):
                recorded.compare(page, "One", [("look", said)], figures)
    with pytest.raises(AssertionError, match="nobody has typed"):
        recorded.compare(page, "One", [], figures=False)
