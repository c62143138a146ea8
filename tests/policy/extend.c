// SPDX-License-Identifier: GPL-2.0-only
/*
 * To whom the scheduler lends time: kernel/pvsync/extend.c. A guest asks for it, so each
 * refusal is here: of some no load is known that meets them in the lab.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_PREEMPT_NOTIFIERS
#define CONFIG_CFS_BANDWIDTH
#define CONFIG_FAIR_GROUP_SCHED

#include "check.h"

#include <../kernel/pvsync/extend.c>

#define LEVELS	3	/* The task, its group, the group's group. */
#define SLICE	3000000
/* Of the entity of each level, so that a limit in virtual time differs from one in time. */
static const unsigned long weights[LEVELS] = { NICE_0_LOAD, NICE_0_LOAD / 4, NICE_0_LOAD * 2 };

static struct task_struct task, stopper;
static struct sched_entity groups[LEVELS - 1];
static struct cfs_rq queues[LEVELS];
static struct rq rq;

static struct sched_entity *entity(int level)
{
	return level ? &groups[level - 1] : &task.se;
}

/* A vCPU that has all that a loan takes, and is to be switched. */
static void set_up(void)
{
	int level;

	memset(&task, 0, sizeof(task));
	memset(&stopper, 0, sizeof(stopper));
	memset(&rq, 0, sizeof(rq));
	memset(queues, 0, sizeof(queues));
	for (level = 0; level < LEVELS; level++) {
		*entity(level) = (struct sched_entity) {
			.parent = level + 1 < LEVELS ? entity(level + 1) : NULL,
			.cfs_rq = &queues[level],
			.load.weight = weights[level],
			.slice = SLICE,
			.vruntime = 1000,
		};
		queues[level].average = 1000;
	}
	task.sched_class = &fair_sched_class;
	task.need_resched = true;
	rq.stop = &stopper;
	rq.nr_running = 2;
	rq.preempt_request = true;
	rq.skip_update = true;
	current = &task;
	the_rq = &rq;
}

/* Whether time was lent, with the request taken back only then. */
static bool lent(void)
{
	bool may = pvsync_put_off_switch();

	CHECK_EQ(task.need_resched, !may);
	CHECK_EQ(rq.preempt_request, !may);
	CHECK_EQ(rq.skip_update, !may);
	CHECK(!rq.locked && kernel_is_left());
	return may;
}

static void it_is_lent_otherwise(void)
{
	set_up();
	CHECK(lent());
	set_up();
	rq.stop = NULL;		/* Early, or the CPU goes. */
	CHECK(lent());
}

#define REFUSED_WITH(change)		\
	do {				\
		set_up();		\
		change;			\
		CHECK(!lent());		\
	} while (0)

static void not_while_another_class_waits(void)
{
	REFUSED_WITH(rq.rt.rt_nr_running = 1);
	REFUSED_WITH(rq.dl.dl_nr_running = 1);
	REFUSED_WITH(stopper.queued = true);
}

/* It runs fair tasks, that of the vCPU maybe, and is counted as if it were one of its own. */
static void the_server_of_the_fair_class_is_nobody_else(void)
{
	set_up();
	rq.fair_server.rb_node.queued = true;
	rq.dl.dl_nr_running = 1;
	CHECK(lent());
	REFUSED_WITH((rq.fair_server.rb_node.queued = true, rq.dl.dl_nr_running = 2));
	REFUSED_WITH((rq.fair_server.rb_node.queued = true, rq.dl.dl_nr_running = 1,
		      rq.rt.rt_nr_running = 1));
	/* Alone, and the server is counted besides. */
	set_up();
	rq.fair_server.rb_node.queued = true;
	rq.nr_running = 2;
	CHECK(!pvsync_cpu_wanted());
	rq.nr_running = 3;
	CHECK(pvsync_cpu_wanted());
}

/* As RCU does it: on its own CPU, with interrupts disabled, and without a lock. */
static void ask_for_switch(void)
{
	task.need_resched = true;
	rq.preempt_request = true;
}

static void a_request_without_the_lock_stays_if_it_comes_after(void)
{
	set_up();
	interrupt = ask_for_switch;
	CHECK(pvsync_put_off_switch());
	CHECK(task.need_resched && rq.preempt_request);
}

static void not_to_another_class(void)
{
	REFUSED_WITH(task.sched_class = &idle_sched_class);
}

/* Its class need not be known here, and it is said why. */
static void not_to_tasks_of_sched_ext(void)
{
	kernel_said = 0;
	set_up();
	CHECK(lent() && !kernel_said);
	REFUSED_WITH(task.on_scx = true);
	CHECK_EQ(kernel_said, 1);
}

static void not_with_core_scheduling(void)
{
	REFUSED_WITH(rq.core_enabled = true);
}

static void not_to_who_runs_only_when_nobody_wants_to(void)
{
	int level;

	REFUSED_WITH(task.idle_policy = true);
	for (level = 0; level < LEVELS; level++)
		REFUSED_WITH(queues[level].idle = 1);
}

static void not_beyond_the_bandwidth_of_a_group(void)
{
	int level;

	for (level = 0; level < LEVELS; level++) {
		struct cfs_rq *queue = &queues[level];

		REFUSED_WITH(queue->throttle_count = 1);
		REFUSED_WITH((queue->runtime_enabled = 1, queue->runtime_remaining = 0));
		REFUSED_WITH((queue->runtime_enabled = 1, queue->runtime_remaining = -1));
		set_up();
		queue->runtime_enabled = 1;
		queue->runtime_remaining = 1;
		CHECK(lent());
		set_up();
		queue->runtime_remaining = -1;
		CHECK(lent());
	}
}

/* In virtual time: twice a slice, but a tick at least, of one with this weight. */
static s64 limit(int level, u64 slice)
{
	u64 ns = 2 * slice > TICK_NSEC ? 2 * slice : TICK_NSEC;

	return (unsigned __int128)ns * NICE_0_LOAD / weights[level];
}

static void not_to_who_is_far_ahead(void)
{
	static const u64 slices[] = { 100000, TICK_NSEC / 2, TICK_NSEC, SLICE, 100000000 };
	unsigned int i;
	int level;

	for (level = 0; level < LEVELS; level++) {
		for (i = 0; i < ARRAY_SIZE(slices); i++) {
			s64 most = limit(level, slices[i]);
			struct sched_entity *one = entity(level);

			REFUSED_WITH((one->slice = slices[i], one->vruntime += most + 1));
			set_up();
			one->slice = slices[i];
			one->vruntime += most;
			CHECK(lent());
		}
	}
}

static void virtual_time_may_wrap(void)
{
	s64 most = limit(0, SLICE);

	for (int sign = 0; sign < 2; sign++) {
		u64 average = (sign ? 1ULL << 63 : 0) - 10;

		set_up();
		queues[0].average = average;
		task.se.vruntime = average;
		CHECK(lent());
		task.need_resched = rq.preempt_request = rq.skip_update = true;
		task.se.vruntime = average + most;
		CHECK(lent());
		REFUSED_WITH((queues[0].average = average,
			      task.se.vruntime = average + most + 1));
	}
	/* Behind its share, by as much as can be told. */
	set_up();
	task.se.vruntime = queues[0].average - (1ULL << 62);
	CHECK(lent());
}

static unsigned int asked;
static bool answer;

static bool ask(void)
{
	asked++;
	return answer;
}

/* KVM is asked about vCPUs that are to be preempted, and about no others. */
static void who_is_asked_about(void)
{
	int vcpu, enabled, wanted, sleeps, installed;

	for (enabled = 0; enabled < 2; enabled++)
	for (installed = 0; installed < 2; installed++)
	for (vcpu = 0; vcpu < 2; vcpu++)
	for (wanted = 0; wanted < 2; wanted++)
	for (sleeps = 0; sleeps < 2; sleeps++)
	for (answer = false; ; answer = true) {
		bool all = enabled && installed && vcpu && wanted && !sleeps;

		set_up();
		asked = 0;
		pvsync_extend_key.enabled = enabled;
		pvsync_extend_by(installed ? ask : NULL);
		task.preempt_notifiers.first = vcpu ? &task : NULL;
		task.need_resched = wanted;
		task.__state = sleeps;
		CHECK_EQ(pvsync_extended(), all && answer);
		CHECK_EQ(asked, all);
		if (answer)
			break;
	}
}

/* Of a vCPU, or of any task with preemption notifiers. */
static bool is_asked(void)
{
	asked = 0;
	task.preempt_notifiers.first = &task;
	task.need_resched = true;
	pvsync_extended();
	return asked;
}

/* What schedule_debug() complains of stays for it to see. */
static void nobody_is_asked_where_no_task_may_be_switched(void)
{
	set_up();
	pvsync_extend_key.enabled = true;
	pvsync_extend_by(ask);
	CHECK(is_asked());
	task.atomic = true;
	CHECK(!is_asked());
	task.atomic = false;
	kernel_irqs_off = true;
	CHECK(!is_asked());
	kernel_irqs_off = false;
	CHECK(is_asked());
}

/* Once KVM's module goes nobody is asked, and another module's going changes nothing. */
static void nobody_is_asked_in_a_module_that_is_gone(void)
{
	unsigned long here = (unsigned long)ask;
	struct module kvm = { here - 8, here + 8 }, other = { here + 8, here + 16 };

	set_up();
	CHECK_EQ(pvsync_extend_init(), 0);
	pvsync_extend_key.enabled = true;
	pvsync_extend_by(ask);
	module_notifier->notifier_call(module_notifier, MODULE_STATE_GOING, &other);
	CHECK(is_asked());
	module_notifier->notifier_call(module_notifier, MODULE_STATE_COMING, &kvm);
	CHECK(is_asked());
	module_notifier->notifier_call(module_notifier, MODULE_STATE_GOING, &kvm);
	CHECK(!is_asked());
	module_notifier->notifier_call(module_notifier, MODULE_STATE_GOING, &kvm);
	CHECK(!is_asked());
	/* Loaded again. */
	pvsync_extend_by(ask);
	CHECK(is_asked());
}

static void who_wants_the_cpu(void)
{
	set_up();
	CHECK(pvsync_cpu_wanted());
	rq.nr_running = 1;
	CHECK(!pvsync_cpu_wanted());
	/* Asleep, but queued. */
	rq.nr_running = 2;
	rq.cfs.h_nr_delayed = 1;
	CHECK(!pvsync_cpu_wanted());
	rq.nr_running = 3;
	CHECK(pvsync_cpu_wanted());
}

int main(void)
{
	RUN_TEST(it_is_lent_otherwise);
	RUN_TEST(not_while_another_class_waits);
	RUN_TEST(the_server_of_the_fair_class_is_nobody_else);
	RUN_TEST(a_request_without_the_lock_stays_if_it_comes_after);
	RUN_TEST(not_to_another_class);
	RUN_TEST(not_to_tasks_of_sched_ext);
	RUN_TEST(not_with_core_scheduling);
	RUN_TEST(not_to_who_runs_only_when_nobody_wants_to);
	RUN_TEST(not_beyond_the_bandwidth_of_a_group);
	RUN_TEST(not_to_who_is_far_ahead);
	RUN_TEST(virtual_time_may_wrap);
	RUN_TEST(who_is_asked_about);
	RUN_TEST(nobody_is_asked_where_no_task_may_be_switched);
	RUN_TEST(nobody_is_asked_in_a_module_that_is_gone);
	RUN_TEST(who_wants_the_cpu);
	return check_summary();
}
