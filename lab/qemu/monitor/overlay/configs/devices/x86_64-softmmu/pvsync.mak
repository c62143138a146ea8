# SPDX-License-Identifier: GPL-2.0-only
#
# What guests of the lab have (lab/machine/guest.py); nothing else.
CONFIG_MICROVM=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_SERIAL=y
