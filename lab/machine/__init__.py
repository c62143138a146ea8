# SPDX-License-Identifier: GPL-2.0-only
"""What plays the KVM host: backends, QEMU, the control channel, consoles, guests' commands."""
