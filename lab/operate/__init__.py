# SPDX-License-Identifier: GPL-2.0-only
"""For operators of KVM hosts: settings of VMs, diagnosis, metrics; no package is needed."""
