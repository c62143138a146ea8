/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_INIT_H
#define PVSYNC_SHIM_INIT_H

#define __init

#endif
