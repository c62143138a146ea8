# SPDX-License-Identifier: GPL-2.0-only
"""The lab: builds the kernels, boots an overcommitted KVM host, compares schemes."""
