# SPDX-License-Identifier: GPL-2.0-only
"""Programs of our own for the guests, built and run here."""
