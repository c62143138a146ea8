/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_ECS_H
#define _LINUX_PVSYNC_ECS_H

/*
 * Critical sections that the host is told of, the guest's side. kernel/pvsync/ecs.c says
 * what they are, and when which of these functions may be called. After S. Kashyap,
 * C. Min and T. Kim, "Scaling Guest OS Critical Sections with eCS", USENIX
 * ATC 2018, sections 3.1 and 5.
 */

#include <linux/types.h>

struct qspinlock;
struct task_struct;

#ifdef CONFIG_PVSYNC_ECS

#include <linux/jump_label.h>

#include <asm/percpu.h>

#include <linux/pvsync/abi.h>

DECLARE_PER_CPU_ALIGNED(struct pvsync_ecs, pvsync_ecs);
DECLARE_STATIC_KEY_FALSE(pvsync_ecs_free_key);
void __pvsync_ecs_reschedule(void);

/**
 * pvsync_ecs_reschedule - this CPU is about to choose a task
 *
 * With pvsync.ecs=free, the guest gives borrowed time back here.
 *
 * Context: __schedule(), before it has changed anything: preemption disabled,
 * interrupts enabled.
 */
static __always_inline void pvsync_ecs_reschedule(void)
{
	if (static_branch_unlikely(&pvsync_ecs_free_key))
		__pvsync_ecs_reschedule();
}

#ifdef CONFIG_PVSYNC_ECS_COUNT
DECLARE_STATIC_KEY_FALSE(pvsync_ecs_count_key);
#endif

static __always_inline bool pvsync_ecs_counting(void)
{
#ifdef CONFIG_PVSYNC_ECS_COUNT
	return static_branch_unlikely(&pvsync_ecs_count_key);
#else
	return false;
#endif
}

static __always_inline bool pvsync_ecs_telling(void)
{
	return pvsync_ecs_counting() || static_branch_unlikely(&pvsync_ecs_free_key);
}

/**
 * pvsync_ecs_wait_begins - this CPU waits for others to answer its interrupts
 *
 * Counts with either form. Until pvsync_ecs_wait_ends() this CPU is in no section, whatever
 * it has locked: it would keep a CPU of the host that one of the others may need.
 *
 * Context: any, preemption disabled.
 */
static __always_inline void pvsync_ecs_wait_begins(void)
{
	if (pvsync_ecs_telling())
		this_cpu_add(pvsync_ecs.non_preemptable, PVSYNC_ECS_SPINNER);
}

/**
 * pvsync_ecs_wait_ends - the wait of this CPU is over
 *
 * Context: as pvsync_ecs_wait_begins().
 */
static __always_inline void pvsync_ecs_wait_ends(void)
{
	if (pvsync_ecs_telling())
		this_cpu_sub(pvsync_ecs.non_preemptable, PVSYNC_ECS_SPINNER);
}

/**
 * is_vcpu_preempted - does a CPU wait for one of the host's? (table 1 of the paper)
 * @cpu_id: the CPU
 *
 * Context: any.
 *
 * Return: what the host said last; false with pvsync.ecs=off, as the host says nothing.
 */
static inline bool is_vcpu_preempted(int cpu_id)
{
	return READ_ONCE(per_cpu(pvsync_ecs.preempted, cpu_id));
}

/**
 * is_pcpu_overcommitted - does something else want the host's CPU? (table 1)
 * @cpu_id: a CPU of this guest that a CPU of the host runs
 *
 * Context: any.
 *
 * Return: as it was when the host last switched to @cpu_id; false with pvsync.ecs=off.
 */
static inline bool is_pcpu_overcommitted(int cpu_id)
{
	return READ_ONCE(per_cpu(pvsync_ecs.overcommitted, cpu_id));
}

#else

static __always_inline void pvsync_ecs_reschedule(void) { }
static __always_inline void pvsync_ecs_wait_begins(void) { }
static __always_inline void pvsync_ecs_wait_ends(void) { }
static inline bool is_vcpu_preempted(int cpu_id) { return false; }
static inline bool is_pcpu_overcommitted(int cpu_id) { return false; }

#endif /* CONFIG_PVSYNC_ECS */

#ifdef CONFIG_PVSYNC_ECS_COUNT

#include <asm/asm.h>
#include <asm/rmwcc.h>

void pvsync_ecs_spin(struct qspinlock *lock, u32 val);
void __pvsync_ecs_switch(struct task_struct *prev, struct task_struct *next);

/**
 * pvsync_ecs_enter - a critical section begins
 * @word: non_preemptable or preemptable, as in struct pvsync_ecs
 * @section: which, PVSYNC_ECS_*
 *
 * Call it after the lock is got. The same task calls pvsync_ecs_leave(), on the same CPU if
 * the section is not preemptable. It is one instruction, as the next thing may be an
 * interrupt, or another CPU for the task.
 *
 * Context: any, NMI included; preemption disabled if @word is non_preemptable.
 */
#define pvsync_ecs_enter(word, section)						\
do {										\
	if (pvsync_ecs_counting())						\
		this_cpu_add(pvsync_ecs.word, section);				\
} while (0)

/**
 * pvsync_ecs_enter_if - a critical section begins, or not
 * @got: whether it does
 * @word: as pvsync_ecs_enter()
 * @section: as pvsync_ecs_enter()
 *
 * Context: as pvsync_ecs_enter().
 */
#define pvsync_ecs_enter_if(got, word, section)					\
do {										\
	if (pvsync_ecs_counting() && (got))					\
		this_cpu_add(pvsync_ecs.word, section);				\
} while (0)

/**
 * pvsync_ecs_entered - a critical section begins, as an expression
 * @word: as pvsync_ecs_enter()
 * @section: as pvsync_ecs_enter()
 *
 * Context: as pvsync_ecs_enter().
 *
 * Return: true.
 */
#define pvsync_ecs_entered(word, section)					\
({										\
	pvsync_ecs_enter(word, section);					\
	true;									\
})

/*
 * The thunk keeps all registers but the register of the result, which
 * PV_CALLEE_SAVE_REGS_THUNK() does not save. So code with a section in it need not make room.
 */
static __always_inline void __pvsync_ecs_left(void)
{
	asm volatile("call __raw_callee_save_pvsync_ecs_left"
		     : ASM_CALL_CONSTRAINT : : "rax", "memory");
}

/**
 * pvsync_ecs_leave - a critical section has ended
 * @word: as pvsync_ecs_enter()
 * @section: as pvsync_ecs_enter()
 *
 * Call it after the lock is released. If that was the last section and the CPU runs on
 * borrowed time, the host gets the rest of the time back here.
 *
 * Context: as pvsync_ecs_enter().
 */
#define pvsync_ecs_leave(word, section)						\
do {										\
	if (pvsync_ecs_counting() &&						\
	    unlikely(GEN_BINARY_RMWcc("subq", __my_cpu_var(pvsync_ecs.word), s,	\
				      "er", section,				\
				      __percpu_arg([var]))))			\
		__pvsync_ecs_left();						\
} while (0)

/**
 * pvsync_ecs_drop - a wait has ended
 * @word: as pvsync_ecs_enter()
 * @section: PVSYNC_ECS_SPINNER or PVSYNC_ECS_WAITER
 *
 * As pvsync_ecs_leave(), but never gives time back. A waiter whose wait has ended either has
 * the lock, and enters its section next, or goes to sleep.
 *
 * Context: as pvsync_ecs_enter().
 */
#define pvsync_ecs_drop(word, section)						\
do {										\
	if (pvsync_ecs_counting())						\
		this_cpu_sub(pvsync_ecs.word, section);				\
} while (0)

/**
 * pvsync_ecs_waits - wait, awake, for a lock whose waiters may sleep
 * @wait: an expression that waits
 *
 * Context: task.
 *
 * Return: the value of @wait.
 */
#define pvsync_ecs_waits(wait)							\
({										\
	typeof(wait) value__;							\
										\
	pvsync_ecs_enter(preemptable, PVSYNC_ECS_WAITER);			\
	value__ = (wait);							\
	pvsync_ecs_drop(preemptable, PVSYNC_ECS_WAITER);			\
	value__;								\
})

static __always_inline void __pvsync_ecs_mutex_unlocked(const bool *unused)
{
	pvsync_ecs_leave(preemptable, PVSYNC_ECS_MUTEX);
}

/**
 * pvsync_ecs_leave_mutex_at_return - this function releases a mutex
 *
 * Calls pvsync_ecs_leave() wherever the function returns. Has to be its first line.
 */
#define pvsync_ecs_leave_mutex_at_return()					\
	const bool unused__ __cleanup(__pvsync_ecs_mutex_unlocked) __maybe_unused = true

/**
 * pvsync_ecs_downgrade - a section of an rwsem goes on as a reader's
 *
 * Context: task.
 */
#define pvsync_ecs_downgrade()							\
do {										\
	pvsync_ecs_enter(preemptable, PVSYNC_ECS_RWSEM_READ);			\
	pvsync_ecs_leave(preemptable, PVSYNC_ECS_MUTEX);			\
} while (0)

/**
 * pvsync_ecs_switch - this CPU switches to another task
 * @prev: the task that it switches from
 * @next: the task that it switches to
 *
 * Context: context_switch(): the run queue is locked, interrupts are disabled.
 */
static __always_inline void pvsync_ecs_switch(struct task_struct *prev,
					      struct task_struct *next)
{
	if (pvsync_ecs_counting())
		__pvsync_ecs_switch(prev, next);
}

#else

static __always_inline void pvsync_ecs_switch(struct task_struct *prev,
					      struct task_struct *next)
{
}

/* Macros that drop their arguments, which are not declared everywhere. */
#define pvsync_ecs_enter(...)				do { } while (0)
#define pvsync_ecs_enter_if(...)			do { } while (0)
#define pvsync_ecs_entered(...)				true
#define pvsync_ecs_leave(...)				do { } while (0)
#define pvsync_ecs_drop(...)				do { } while (0)
#define pvsync_ecs_waits(wait)				(wait)
#define pvsync_ecs_leave_mutex_at_return()		do { } while (0)
#define pvsync_ecs_downgrade()				do { } while (0)
#define pvsync_ecs_spin(lock, val)			queued_spin_lock_slowpath(lock, val)

#endif /* CONFIG_PVSYNC_ECS_COUNT */

/**
 * activate_non_preemptable_ecs - a section of a driver's own begins (table 1)
 * @cpu_id: the CPU that this runs on; no CPU can write to another one's record
 *
 * For work that others wait for and that holds none of the locks whose sections the kernel
 * announces by itself. Without pvsync.ecs=count it is a no-op instruction. With
 * pvsync.ecs=free, disabled preemption says the same.
 *
 * Context: any, preemption disabled until deactivate_non_preemptable_ecs().
 */
static inline void activate_non_preemptable_ecs(int cpu_id)
{
	pvsync_ecs_enter(non_preemptable, PVSYNC_ECS_LOCK);
}

/**
 * deactivate_non_preemptable_ecs - a section of a driver's own has ended (table 1)
 * @cpu_id: as activate_non_preemptable_ecs()
 *
 * Context: as activate_non_preemptable_ecs().
 */
static inline void deactivate_non_preemptable_ecs(int cpu_id)
{
	pvsync_ecs_leave(non_preemptable, PVSYNC_ECS_LOCK);
}

/**
 * activate_preemptable_ecs - a section that may sleep begins (table 1)
 * @cpu_id: the CPU that this runs on; the task may be on another CPU by then, which does
 *	not matter, as the section follows the task
 *
 * As activate_non_preemptable_ecs(). With pvsync.ecs=free, nothing tells such a section.
 *
 * Context: task; the same task calls deactivate_preemptable_ecs().
 */
static inline void activate_preemptable_ecs(int cpu_id)
{
	pvsync_ecs_enter(preemptable, PVSYNC_ECS_MUTEX);
}

/**
 * deactivate_preemptable_ecs - a section that may sleep has ended (table 1)
 * @cpu_id: as activate_preemptable_ecs()
 *
 * Context: as activate_preemptable_ecs().
 */
static inline void deactivate_preemptable_ecs(int cpu_id)
{
	pvsync_ecs_leave(preemptable, PVSYNC_ECS_MUTEX);
}

#endif /* _LINUX_PVSYNC_ECS_H */
