/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_SHIM_H
#define PVSYNC_TEST_SHIM_H

/*
 * The part of the kernel's language that the lock headers speak, in user space
 * on x86-64: types, READ_ONCE() and friends, atomic_t, barriers, cpu_relax().
 * The headers are compiled byte for byte as the kernel has them; whatever a
 * test wants to happen between two of their steps happens in here.
 *
 * Every access to shared memory and every cpu_relax() first announces itself
 * through PVSYNC_FAULT(). Without PVSYNC_NO_HOOKS that calls pvsync_hook, which
 * a runner points at a scheduler of its own, at a source of delays, or at a
 * counter of accesses; with it (benchmarks) it is nothing. With PVSYNC_MODEL no
 * memory is accessed at all, see model.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __LITTLE_ENDIAN
#define __LITTLE_ENDIAN	1234
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#ifndef U16_MAX
#define U16_MAX		((u16)~0U)
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S32_MAX		((s32)(U32_MAX >> 1))
#endif

#ifndef CONFIG_NR_CPUS
#define CONFIG_NR_CPUS	4096
#endif

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif
#define noinline	__attribute__((__noinline__))
#ifndef __maybe_unused
#define __maybe_unused	__attribute__((__unused__))
#endif
#define __aligned(n)	__attribute__((__aligned__(n)))
#define __pure		__attribute__((__pure__))
#define __read_mostly
#define __ro_after_init
#define __cacheline_aligned __aligned(64)
#define __lockfunc
#define notrace
#define EXPORT_SYMBOL(sym)
#define EXPORT_SYMBOL_GPL(sym)

#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), #cond)
#undef static_assert
#define static_assert(expr, ...) __static_assert(expr, ##__VA_ARGS__, #expr)
#define __static_assert(expr, msg, ...) _Static_assert(expr, msg)
#define BUG_ON(cond)		do { if (cond) __builtin_trap(); } while (0)
#define WARN_ON_ONCE(cond)	({ bool __c = (cond); if (__c) __builtin_trap(); __c; })

enum pvsync_point { PVSYNC_RELAX, PVSYNC_LOAD, PVSYNC_STORE, PVSYNC_RMW };

#ifdef PVSYNC_NO_HOOKS
#define PVSYNC_FAULT(point, size)	do { } while (0)
#else
extern void (*pvsync_hook)(enum pvsync_point point, unsigned int size);
#define PVSYNC_FAULT(point, size)					\
	do {								\
		if (pvsync_hook)					\
			pvsync_hook(point, size);			\
	} while (0)
#endif

#define barrier()	__asm__ __volatile__("" ::: "memory")

#ifdef PVSYNC_MODEL
#include "model.h"
#else

static inline void cpu_relax(void)
{
	PVSYNC_FAULT(PVSYNC_RELAX, 0);
	__asm__ __volatile__("pause" ::: "memory");
}

/* ThreadSanitizer knows no fences: there, a read-modify-write stands for one. */
#if defined(__SANITIZE_THREAD__)
#define SHIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHIM_TSAN 1
#endif
#endif

#ifdef SHIM_TSAN
extern int pvsync_fence_word;
#define SHIM_FENCE(order) ((void)__atomic_fetch_add(&pvsync_fence_word, 0, __ATOMIC_ACQ_REL))
#else
#define SHIM_FENCE(order) __atomic_thread_fence(order)
#endif
#define smp_mb()	SHIM_FENCE(__ATOMIC_SEQ_CST)
#define smp_rmb()	SHIM_FENCE(__ATOMIC_ACQUIRE)
#define smp_wmb()	SHIM_FENCE(__ATOMIC_RELEASE)

#define SHIM_LOAD(p, order)						\
	({								\
		PVSYNC_FAULT(PVSYNC_LOAD, sizeof(*(p)));		\
		__atomic_load_n(p, order);				\
	})
#define SHIM_STORE(p, v, order)						\
	do {								\
		__auto_type __v = (__typeof__(*(p)))(v);		\
		PVSYNC_FAULT(PVSYNC_STORE, sizeof(*(p)));		\
		__atomic_store_n(p, __v, order);			\
	} while (0)

#define SHIM_XCHG(p, v, order)						\
	({								\
		PVSYNC_FAULT(PVSYNC_RMW, sizeof(*(p)));			\
		__atomic_exchange_n(p, v, order);			\
	})

/* As in the kernel: false leaves the value that was found in *old. */
#define SHIM_TRY_CMPXCHG(p, old, new, order)				\
	({								\
		PVSYNC_FAULT(PVSYNC_RMW, sizeof(*(p)));			\
		__atomic_compare_exchange_n(p, old, new, false, order,	\
					    __ATOMIC_RELAXED);		\
	})

/* name, builtin: atomic_fetch_NAME{,_acquire,_release,_relaxed}() and NAME_return. */
#define SHIM_FETCH(name, suffix, builtin, order)			\
static inline int atomic_fetch_##name##suffix(int i, atomic_t *v)	\
{									\
	PVSYNC_FAULT(PVSYNC_RMW, sizeof(*v));				\
	return __atomic_fetch_##builtin(&v->counter, i, order);		\
}									\
static inline int atomic_##name##_return##suffix(int i, atomic_t *v)	\
{									\
	PVSYNC_FAULT(PVSYNC_RMW, sizeof(*v));				\
	return __atomic_##builtin##_fetch(&v->counter, i, order);	\
}

#endif /* PVSYNC_MODEL */

#define READ_ONCE(x)		SHIM_LOAD(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	SHIM_STORE(&(x), v, __ATOMIC_RELAXED)
#define smp_load_acquire(p)	SHIM_LOAD(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	SHIM_STORE(p, v, __ATOMIC_RELEASE)

#define SHIM_COND_LOAD(p, cond, order)					\
	({								\
		__auto_type VAL = SHIM_LOAD(p, order);			\
		while (!(cond)) {					\
			cpu_relax();					\
			VAL = SHIM_LOAD(p, order);			\
		}							\
		VAL;							\
	})
#define smp_cond_load_relaxed(p, cond)	SHIM_COND_LOAD(p, cond, __ATOMIC_RELAXED)
#define smp_cond_load_acquire(p, cond)	SHIM_COND_LOAD(p, cond, __ATOMIC_ACQUIRE)

#define xchg(p, v)		SHIM_XCHG(p, v, __ATOMIC_SEQ_CST)
#define xchg_acquire(p, v)	SHIM_XCHG(p, v, __ATOMIC_ACQUIRE)
#define xchg_release(p, v)	SHIM_XCHG(p, v, __ATOMIC_RELEASE)
#define xchg_relaxed(p, v)	SHIM_XCHG(p, v, __ATOMIC_RELAXED)

#define try_cmpxchg(p, o, n)		SHIM_TRY_CMPXCHG(p, o, n, __ATOMIC_SEQ_CST)
#define try_cmpxchg_acquire(p, o, n)	SHIM_TRY_CMPXCHG(p, o, n, __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(p, o, n)	SHIM_TRY_CMPXCHG(p, o, n, __ATOMIC_RELEASE)
#define try_cmpxchg_relaxed(p, o, n)	SHIM_TRY_CMPXCHG(p, o, n, __ATOMIC_RELAXED)

#define SHIM_CMPXCHG(p, o, n, order)					\
	({								\
		__typeof__(*(p)) __o = (o);				\
		SHIM_TRY_CMPXCHG(p, &__o, n, order);			\
		__o;							\
	})
#define cmpxchg(p, o, n)		SHIM_CMPXCHG(p, o, n, __ATOMIC_SEQ_CST)
#define cmpxchg_acquire(p, o, n)	SHIM_CMPXCHG(p, o, n, __ATOMIC_ACQUIRE)
#define cmpxchg_release(p, o, n)	SHIM_CMPXCHG(p, o, n, __ATOMIC_RELEASE)
#define cmpxchg_relaxed(p, o, n)	SHIM_CMPXCHG(p, o, n, __ATOMIC_RELAXED)

typedef struct {
	int counter;
} atomic_t;

#define ATOMIC_INIT(i)	{ (i) }

#define atomic_read(v)		SHIM_LOAD(&(v)->counter, __ATOMIC_RELAXED)
#define atomic_read_acquire(v)	SHIM_LOAD(&(v)->counter, __ATOMIC_ACQUIRE)
#define atomic_set(v, i)	SHIM_STORE(&(v)->counter, i, __ATOMIC_RELAXED)
#define atomic_set_release(v, i) SHIM_STORE(&(v)->counter, i, __ATOMIC_RELEASE)
#define atomic_cond_read_relaxed(v, cond) smp_cond_load_relaxed(&(v)->counter, cond)
#define atomic_cond_read_acquire(v, cond) smp_cond_load_acquire(&(v)->counter, cond)

#define SHIM_FETCH_ORDERS(name, builtin)				\
	SHIM_FETCH(name, , builtin, __ATOMIC_SEQ_CST)			\
	SHIM_FETCH(name, _acquire, builtin, __ATOMIC_ACQUIRE)		\
	SHIM_FETCH(name, _release, builtin, __ATOMIC_RELEASE)		\
	SHIM_FETCH(name, _relaxed, builtin, __ATOMIC_RELAXED)		\
static inline void atomic_##name(int i, atomic_t *v)			\
{									\
	atomic_fetch_##name##_relaxed(i, v);				\
}
SHIM_FETCH_ORDERS(add, add)
SHIM_FETCH_ORDERS(sub, sub)
SHIM_FETCH_ORDERS(or, or)
SHIM_FETCH_ORDERS(and, and)

#define atomic_inc(v)		atomic_add(1, v)
#define atomic_dec(v)		atomic_sub(1, v)
#define atomic_andnot(i, v)	atomic_and(~(i), v)

#define SHIM_ATOMIC_XCHG(suffix, order)					\
static inline int atomic_xchg##suffix(atomic_t *v, int n)		\
{									\
	return SHIM_XCHG(&v->counter, n, order);			\
}									\
static inline int atomic_cmpxchg##suffix(atomic_t *v, int o, int n)	\
{									\
	return SHIM_CMPXCHG(&v->counter, o, n, order);			\
}									\
static inline bool atomic_try_cmpxchg##suffix(atomic_t *v, int *o, int n) \
{									\
	return SHIM_TRY_CMPXCHG(&v->counter, o, n, order);		\
}
SHIM_ATOMIC_XCHG(, __ATOMIC_SEQ_CST)
SHIM_ATOMIC_XCHG(_acquire, __ATOMIC_ACQUIRE)
SHIM_ATOMIC_XCHG(_release, __ATOMIC_RELEASE)
SHIM_ATOMIC_XCHG(_relaxed, __ATOMIC_RELAXED)

#endif /* PVSYNC_TEST_SHIM_H */
