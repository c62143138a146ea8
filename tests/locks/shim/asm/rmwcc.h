/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_RMWCC_H
#define PVSYNC_TEST_RMWCC_H

/* One instruction, and a condition of its flags as its value. */
#define GEN_BINARY_RMWcc(op, variable, condition, constraint, value, argument)	\
({										\
	bool holds__;								\
										\
	__asm__ __volatile__(op " %[val], " argument				\
			     : "=@cc" #condition (holds__), [var] "+m" (variable)	\
			     : [val] constraint (value) : "memory");		\
	holds__;								\
})

#endif
