# SPDX-License-Identifier: GPL-2.0-only
"""Thousands of configurations: planned, made on a cluster, kept, and shown."""
