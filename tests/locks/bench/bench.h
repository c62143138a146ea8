/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_BENCH_H
#define PVSYNC_BENCH_H

#include <stdbool.h>

enum shape {
	TIGHT,		/* one lock, lock and unlock inline, nothing in between */
	TIGHT_64,	/* the same with 64 locks in turn */
	CALL,		/* one lock, lock and unlock called, as _raw_spin_lock() is */
	WORK,		/* one lock, inline, about 32 instructions and a store inside and outside */
	SHAPES
};

struct bench_lock {
	const char *name;
	void (*pairs[SHAPES])(long pairs);	/* that many lock+unlock pairs */
	/* Turns on one shared lock until *stop; how many. */
	unsigned long (*turns)(const bool *stop);
};

#endif
