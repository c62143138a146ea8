/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/kvm_host.h>
