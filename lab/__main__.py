# SPDX-License-Identifier: GPL-2.0-only
"""`python -m lab`, which is what ./pvsync runs."""

from lab.cli.main import main

main()
