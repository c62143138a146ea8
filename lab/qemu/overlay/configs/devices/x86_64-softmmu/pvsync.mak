# SPDX-License-Identifier: GPL-2.0-only
#
# The machine that plays the KVM host (lab/machine/machine.py), and the guests' for a
# host that is this machine itself (lab/machine/guest.py); nothing else.
CONFIG_Q35=y
CONFIG_MICROVM=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_PVPANIC_ISA=y
