/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_SCHED_H
#define PVSYNC_TEST_SCHED_H

/* As much of the scheduler as a loan looks at: one run queue, whose task runs. */

#include <kernel.h>

#define TICK_NSEC		1000000UL
#define NICE_0_LOAD		(1L << 20)
#define div64_ul(a, b)		((u64)(a) / (u64)(b))

struct cfs_rq;
struct rq;

struct sched_entity {
	struct sched_entity	*parent;
	struct cfs_rq		*cfs_rq;
	struct {
		unsigned long	weight;
	} load;
	u64			slice, vruntime, deadline;
	s64			vlag;
	bool			is_group;
};

struct cfs_rq {
	struct rq		*rq;
	struct sched_entity	*next, *curr;
	struct {
		unsigned long	weight;
	} load;
	unsigned int	nr_running;
	u64	average;
	int	idle, throttle_count, runtime_enabled;
	s64	runtime_remaining;
	unsigned int	h_nr_delayed;
};

struct sched_class {
	int unused;
};

struct hlist_head {
	void *first;
};

struct rb_node {
	bool queued;
};

struct task_struct {
	const struct sched_class	*sched_class;
	struct sched_entity		se;
	struct hlist_head		preempt_notifiers;
	unsigned int			__state;
	bool				idle_policy, queued, need_resched, on_scx, atomic;
};

struct rq {
	bool			core_enabled, skip_update, locked, preempt_request;
	int			cpu;
	unsigned int		nr_running;
	struct cfs_rq		cfs;
	struct {
		unsigned int	rt_nr_running;
	} rt;
	struct {
		unsigned int	dl_nr_running;
	} dl;
	struct {
		struct rb_node	rb_node;
	} fair_server;
	struct task_struct	*stop;
};

struct rq_flags {
	int unused;
};

static const struct sched_class fair_sched_class __attribute__((__unused__));
static const struct sched_class idle_sched_class __attribute__((__unused__));
static struct task_struct *current __attribute__((__unused__));
static struct rq *the_rq __attribute__((__unused__));

#define hlist_empty(head)	(!(head)->first)
#define RB_EMPTY_NODE(node)	(!(node)->queued)
#define this_rq()		the_rq
#define sched_core_enabled(rq)	((rq)->core_enabled)
#define task_on_rq_queued(task)	((task)->queued)
#define task_has_idle_policy(task)	((task)->idle_policy)
#define task_on_scx(task)	((task)->on_scx)
#define in_atomic_preempt_off()	(current->atomic)
#define rq_of(cfs_rq)		((cfs_rq)->rq)
#define cpu_of(rq)		((rq)->cpu)
#define entity_is_task(entity)	(!(entity)->is_group)
#define cfs_rq_of(entity)	((entity)->cfs_rq)
#define raw_smp_processor_id()	cpu_of(the_rq)
#define tif_need_resched()	(current->need_resched)

/* A test may have other ones. */
#ifndef PVSYNC_TEST_OWN_AVERAGE
static inline u64 avg_vruntime(struct cfs_rq *cfs_rq)
{
	return cfs_rq->average;
}
#endif

static inline struct rq *this_rq_lock_irq(struct rq_flags *rf)
{
	kernel_holds++;
	the_rq->locked = true;
	return the_rq;
}

/* What comes as soon as interrupts are enabled again, once. */
static void (*interrupt)(void) __attribute__((__unused__));

static inline void rq_unlock_irq(struct rq *rq, struct rq_flags *rf)
{
	kernel_holds--;
	rq->locked = false;
	if (interrupt)
		interrupt();
	interrupt = NULL;
}

/* A request may be made by anybody but while the run queue is locked. */
static inline void clear_tsk_need_resched(struct task_struct *task)
{
	if (!the_rq->locked)
		__builtin_trap();
	task->need_resched = false;
}

static inline void clear_preempt_need_resched(void)
{
	if (!the_rq->locked)
		__builtin_trap();
	the_rq->preempt_request = false;
}

static inline void rq_clock_cancel_skipupdate(struct rq *rq)
{
	if (!rq->locked)
		__builtin_trap();
	rq->skip_update = false;
}

#endif
