# SPDX-License-Identifier: GPL-2.0-only
"""What all rooms of the lab use: data, errors, paths, the cache, statistics, progress."""
