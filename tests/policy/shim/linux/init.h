/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_INIT_H
#define PVSYNC_SHIM_INIT_H

#define __init
#define __ro_after_init
#define core_initcall(fn)	_Static_assert(sizeof(&(fn)), #fn)
#define late_initcall_sync(fn)	core_initcall(fn)

#endif
