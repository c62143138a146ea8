# SPDX-License-Identifier: GPL-2.0-only
"""What the kernels count: a topic a file, from texts of two snapshots to figures."""
