/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_MODEL_H
#define PVSYNC_TEST_MODEL_H

/*
 * Accesses to shared memory as requests to a model of the machine (model.h in the
 * folder above): the CPU stops, and goes on with the answer. The order that an
 * access asks for is part of the request. cpu_relax() is no access.
 */

enum model_kind {
	MODEL_LOAD, MODEL_STORE,
	/* Atomic: what is answered is the value before. */
	MODEL_CMPXCHG, MODEL_XCHG, MODEL_add, MODEL_sub, MODEL_or, MODEL_and,
	/* No access. */
	MODEL_NEXT, MODEL_ENTER, MODEL_LEAVE, MODEL_COUNT, MODEL_DONE,
};

u32 model_request(enum model_kind kind, const volatile void *address, unsigned int size,
		  int order, u32 operand, u32 expected);
#define MODEL(kind, p, order, operand, expected)			\
	model_request(kind, p, sizeof(*(p)), order, (u32)(operand), (u32)(expected))
#define model_count(counter)						\
	((void)model_request(MODEL_COUNT, NULL, 0, 0, counter, 0))

#define cpu_relax()		barrier()
#define smp_mb()		__builtin_trap()	/* none of these locks has one */
#define smp_rmb()		barrier()
#define smp_wmb()		barrier()

#define SHIM_LOAD(p, order)	((__typeof__(*(p)))MODEL(MODEL_LOAD, p, order, 0, 0))
#define SHIM_STORE(p, v, order)	((void)MODEL(MODEL_STORE, p, order, v, 0))
#define SHIM_XCHG(p, v, order)	((__typeof__(*(p)))MODEL(MODEL_XCHG, p, order, v, 0))
#define SHIM_TRY_CMPXCHG(p, old, new, order)				\
	({								\
		__typeof__(*(p)) __was = *(old);			\
		*(old) = MODEL(MODEL_CMPXCHG, p, order, new, __was);	\
		*(old) == __was;					\
	})
#define SHIM_RMW_add(p, i, order)	((int)MODEL(MODEL_add, p, order, i, 0))
#define SHIM_RMW_sub(p, i, order)	((int)MODEL(MODEL_sub, p, order, i, 0))
#define SHIM_RMW_or(p, i, order)	((int)MODEL(MODEL_or, p, order, i, 0))
#define SHIM_RMW_and(p, i, order)	((int)MODEL(MODEL_and, p, order, i, 0))
#define SHIM_APPLY_add(value, i)	((value) + (i))
#define SHIM_APPLY_sub(value, i)	((value) - (i))
#define SHIM_APPLY_or(value, i)		((value) | (i))
#define SHIM_APPLY_and(value, i)	((value) & (i))
#define SHIM_FETCH(name, suffix, builtin, order)			\
static inline int atomic_fetch_##name##suffix(int i, atomic_t *v)	\
{									\
	return SHIM_RMW_##builtin(&v->counter, i, order);		\
}									\
static inline int atomic_##name##_return##suffix(int i, atomic_t *v)	\
{									\
	return SHIM_APPLY_##builtin(SHIM_RMW_##builtin(&v->counter, i, order), i); \
}

#endif /* PVSYNC_TEST_MODEL_H */
