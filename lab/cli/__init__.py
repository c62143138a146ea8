# SPDX-License-Identifier: GPL-2.0-only
"""The command line, a file for each group of commands."""
