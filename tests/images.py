# SPDX-License-Identifier: GPL-2.0-only
"""Fetch and build what all tests with machines need: python -m tests.images.

Userlands, the emulator, and the kernel of the variant `test` with its images. What the cache
has is not made again.
"""

import sys

from lab import images
from lab.errors import LabError
from lab.progress import Silent

VARIANT = "test"


def main() -> int:
    """0 when all is there."""
    try:
        made = images.prepare(VARIANT, None, (), Silent())
    except LabError as error:
        print(error)
        return 1
    print(f"kernel {made.kernel}, {made.qemu}, {made.images}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
