# SPDX-License-Identifier: GPL-2.0-only
"""From a result directory to cells, tables, plots and pages; nothing runs."""
