/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_EACH_CPU_H
#define _KERNEL_PVSYNC_EACH_CPU_H

/* For modules that test hosts: the same work on every CPU at once. */

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

/**
 * struct pvsync_crew - threads that do the same on CPUs of their own
 * @work: what each thread does
 * @at_work: threads that have not ended, and the task that waits for them
 * @done: all threads have ended
 */
struct pvsync_crew {
	void			(*work)(void);
	atomic_t		at_work;
	struct completion	done;
};

static inline void pvsync_crew_leave(struct pvsync_crew *crew)
{
	if (atomic_dec_and_test(&crew->at_work))
		complete(&crew->done);
}

static inline int pvsync_crew_member(void *data)
{
	struct pvsync_crew *crew = data;

	crew->work();
	pvsync_crew_leave(crew);
	return 0;
}

static inline struct task_struct *pvsync_crew_hire(struct pvsync_crew *crew, int cpu)
{
	struct task_struct *task = kthread_create_on_cpu(pvsync_crew_member, crew, cpu,
							 "pvsync-crew/%u");

	if (IS_ERR(task))
		return NULL;
	get_task_struct(task);
	atomic_inc(&crew->at_work);
	wake_up_process(task);
	return task;
}

/**
 * pvsync_on_each_cpu - do something in a thread of every online CPU, and wait for all
 * @work: what; it may sleep
 * @most: on at most so many CPUs, on all of them if 0
 *
 * Does without a thread that cannot be made. No CPU goes off or comes up meanwhile: what a
 * thread shares of its CPU is its CPU's to take back. When this returns, no thread runs the
 * module's text.
 *
 * Context: may sleep.
 */
static inline void pvsync_on_each_cpu(void (*work)(void), unsigned int most)
{
	struct pvsync_crew crew = { .work = work, .at_work = ATOMIC_INIT(1) };
	struct task_struct **tasks = kcalloc(nr_cpu_ids, sizeof(*tasks), GFP_KERNEL);
	int cpu;

	if (!tasks)
		return;
	init_completion(&crew.done);
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		tasks[cpu] = pvsync_crew_hire(&crew, cpu);
		if (most && !--most)
			break;
	}
	pvsync_crew_leave(&crew);
	/* A wait as long as asked for is no task that hangs. */
	wait_for_completion_state(&crew.done, TASK_IDLE);
	cpus_read_unlock();
	for_each_possible_cpu(cpu) {
		if (tasks[cpu])
			kthread_stop_put(tasks[cpu]);
	}
	kfree(tasks);
}

#endif /* _KERNEL_PVSYNC_EACH_CPU_H */
