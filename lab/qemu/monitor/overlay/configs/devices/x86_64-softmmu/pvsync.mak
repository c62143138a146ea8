# SPDX-License-Identifier: GPL-2.0-only
#
# What guests of the lab have (lab/machine/guest.py); nothing else.
CONFIG_MICROVM=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_SERIAL=y
# What libvirt gives each of its machines (tests/kernel/test_domains.py).
CONFIG_Q35=y
CONFIG_PCIE_PORT=y
CONFIG_VIRTIO_PCI=y
