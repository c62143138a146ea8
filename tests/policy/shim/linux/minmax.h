/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_MINMAX_H
#define PVSYNC_TEST_MINMAX_H

/* As strict as the kernel's: both sides have to be of one type. */
#define __same(a, b)							\
	_Static_assert(__builtin_types_compatible_p(__typeof__(a), __typeof__(b)), "types differ")
#define min(a, b)							\
	({								\
		__auto_type __a = (a);					\
		__auto_type __b = (b);					\
		__same(__a, __b);					\
		__a < __b ? __a : __b;					\
	})
#define max(a, b)							\
	({								\
		__auto_type __c = (a);					\
		__auto_type __d = (b);					\
		__same(__c, __d);					\
		__c > __d ? __c : __d;					\
	})
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp(x, low, high)	min(max(x, low), high)

#endif
