/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_CONTEXT_H
#define PVSYNC_TEST_CONTEXT_H

/*
 * Compiled code as a table: from where it stopped for a request to the model, and
 * the answer, to where it stops next. Where it stopped is what is on its stack,
 * saved registers included; equal stacks are one context, whichever CPU it is that
 * has come there. Code runs once per context and answer.
 */
#include "shim/shim.h"

/* An access whose order is nobody's business: data that the lock protects. */
#define ORDER_PLAIN	7

struct request {
	const volatile void *address;
	u32 operand;
	u32 expected;
	u8 kind;
	u8 size;
	u8 order;
};

/* Up to the first request of @fn, which does not return but by MODEL_DONE. */
unsigned int context_first(void (*fn)(void));

/* Up to the next request. */
unsigned int context_next(unsigned int context, u32 answer);

const struct request *context_request(unsigned int context);
unsigned int contexts(void);

#endif /* PVSYNC_TEST_CONTEXT_H */
