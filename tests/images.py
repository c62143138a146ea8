# SPDX-License-Identifier: GPL-2.0-only
"""Fetch and build what all tests with machines need: python -m tests.images.

Userlands, the emulator, the kernel of the variant `test` with its images, the KVM selftests of the
short set, and the monitor that knows pvsync. What the cache has is not made again.
"""

import sys

from lab.build import images, monitor, selftests
from lab.core.errors import LabError
from lab.core.progress import Silent
from tests.kernel.suites import SHORT

VARIANT = "test"


def main() -> int:
    """0 when all is there."""
    try:
        made = images.prepare(VARIANT, None, (), Silent())
        suite = selftests.image(SHORT)
        program = monitor.prepare()
    except LabError as error:
        print(error)
        return 1
    print(f"kernel {made.kernel}, {made.qemu}, {made.images}, {suite.parent.name},"
          f" {program.parent.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
