// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lists and orders of <linux/pvsync/hvs.h>: against a model that sorts time
 * stamps, and in small schedulers that show loops and starvation, with 8, 64 and
 * 255 vCPUs.
 */
#include <pthread.h>
#include <time.h>

#include <kernel.h>
#include <linux/types.h>
#include <linux/pvsync/hvs.h>

#include "check.h"
#include "random.h"

#define MOST	255

/* How many there are, of whom the last ones may never wait. */
static unsigned int nr_vcpus = MOST;

static const unsigned int sizes[] = { 8, 64, MOST };
#define for_each_size(n)							\
	for (unsigned int __i = 0, n; __i < 3 && (n = nr_vcpus = sizes[__i], check_ok()); __i++)

static struct pvsync_waiter vcpus[MOST];
static s64 now;		/* Another one at each step. */

static void reset(void)
{
	memset(vcpus, 0, sizeof(vcpus));
	now = 0;
}

static enum pvsync_list_of list_of(unsigned int i)
{
	return pvsync_place_list(atomic64_read(&vcpus[i].place));
}

static bool is_chosen(unsigned int i)
{
	return atomic64_read(&vcpus[i].place) & PVSYNC_PLACE_CHOSEN;
}

static void join(unsigned int i, enum pvsync_list_of why)
{
	pvsync_join(&vcpus[i], why, ++now);
}

static void leave(unsigned int i)
{
	pvsync_leave(&vcpus[i]);
}

static struct pvsync_first look_at_all(enum pvsync_order order, const struct pvsync_tried *tried)
{
	struct pvsync_first first = { };

	for (unsigned int i = 0; i < nr_vcpus; i++)
		pvsync_look_at(&first, order, tried, &vcpus[i]);
	return first;
}

/* The next choice of a search, after those in @tried were refused. */
static int choose_next(enum pvsync_order order, struct pvsync_tried *tried)
{
	struct pvsync_first first = look_at_all(order, tried);

	if (!first.waiter)
		return -1;
	CHECK(pvsync_choose_first(&first, order, tried, ++now));
	return first.waiter - vcpus;
}

static int choose(enum pvsync_order order)
{
	struct pvsync_tried tried = { };

	return choose_next(order, &tried);
}

/* Who it is that waits: sections 3.2 and 4.4 of the paper, then what guests say. */
static void waiters_are_told_apart(void)
{
	for (int order = 0; order < PVSYNC_NR_ORDERS; order++) {
		bool asks = order == PVSYNC_ECS_FIRST;

		for (int bits = 0; bits < 4; bits++) {
			bool waiter = bits & 1, section = bits & 2;

			CHECK_EQ(pvsync_list_for(order, true, false, waiter, section), PVSYNC_LOCK);
			CHECK_EQ(pvsync_list_for(order, false, true, waiter, section), PVSYNC_LOCK);
			CHECK_EQ(pvsync_list_for(order, true, true, waiter, section), PVSYNC_LOCK);
		}
		CHECK_EQ(pvsync_list_for(order, false, false, false, false), PVSYNC_RESOURCE);
		CHECK_EQ(pvsync_list_for(order, false, false, false, true),
			 asks ? PVSYNC_SECTION : PVSYNC_RESOURCE);
		CHECK_EQ(pvsync_list_for(order, false, false, true, false),
			 asks ? PVSYNC_LOCK : PVSYNC_RESOURCE);
		CHECK_EQ(pvsync_list_for(order, false, false, true, true),
			 asks ? PVSYNC_LOCK : PVSYNC_RESOURCE);
	}
}

/* The model */

/**
 * struct stamped - a vCPU as the paper has it
 * @list: where it is
 * @stamp: its preemption time; one that was chosen counts as last in its list
 * @chosen: the mark of section 3.3
 * @tried: the search that it was last chosen in
 */
struct stamped {
	int	list;
	long	stamp;
	bool	chosen;
	long	tried;
};

static struct stamped model[MOST];
static long first_stamp, last_stamp;

static void model_join(unsigned int i, int why)
{
	if (why == PVSYNC_RESOURCE && model[i].chosen) {
		model[i].chosen = false;
		why = PVSYNC_YIELDED;
	}
	model[i].list = why;
	model[i].stamp = ++last_stamp;
}

/* Sections 3.2, 3.3 and 4.4 of the paper, read once more. */
static bool latest_first(enum pvsync_order order, int list)
{
	if (list == PVSYNC_RESOURCE)
		return order != PVSYNC_CPTH_R;
	return list == PVSYNC_LOCK && order == PVSYNC_CPTH_L;
}

static int rank(enum pvsync_order order, int list)
{
	switch (list) {
	case PVSYNC_SECTION:
		return order == PVSYNC_ECS_FIRST ? 0 : 9;
	case PVSYNC_RESOURCE:
		return order == PVSYNC_CCH ? 3 : 1;
	case PVSYNC_LOCK:
		return 2;
	default:
		return 5;
	}
}

static int model_choose(enum pvsync_order order, unsigned int n, long search)
{
	int best = -1;

	for (unsigned int i = 0; i < n; i++) {
		int list = model[i].list;

		if (!list || model[i].tried == search)
			continue;
		if (best < 0 || rank(order, list) < rank(order, model[best].list) ||
		    (list == model[best].list &&
		     (latest_first(order, list) ? model[i].stamp > model[best].stamp :
						  model[i].stamp < model[best].stamp)))
			best = i;
	}
	if (best >= 0) {
		model[best].chosen = true;
		model[best].tried = search;
		model[best].stamp = latest_first(order, model[best].list) ? --first_stamp :
									    ++last_stamp;
	}
	return best;
}

/*
 * All operations at random, and a policy that changes now and then. A search goes on while
 * others do the rest, as one does whose yields are refused.
 */
static void lists_are_the_model(void)
{
	random_state = 1;
	for_each_size(n) {
		enum pvsync_order order = PVSYNC_HVS;
		struct pvsync_tried tried = { };
		long search = 1;

		reset();
		memset(model, 0, sizeof(model));
		for (int step = 0; step < 60000 && check_ok(); step++) {
			unsigned int i = random_below(n);

			if (!random_below(500))
				order = random_below(PVSYNC_NR_ORDERS);
			if (!random_below(3)) {
				if (tried.nr == PVSYNC_TRIES || random_below(2)) {
					memset(&tried, 0, sizeof(tried));
					search++;
				}
				CHECK_EQ(choose_next(order, &tried),
					 model_choose(order, n, search));
			} else if (list_of(i)) {
				leave(i);
				model[i].list = PVSYNC_NO_LIST;
			} else {
				static const int lists[] = {
					PVSYNC_RESOURCE, PVSYNC_LOCK, PVSYNC_SECTION,
				};
				int why = lists[random_below(3)];

				join(i, why);
				model_join(i, why);
			}
			CHECK_EQ(list_of(i), model[i].list);
			CHECK_EQ(is_chosen(i), model[i].chosen);
		}
	}
}

/* Each of them, in the order in which it chooses vCPUs that then run. */
static void expect_order(enum pvsync_order order, const int *expected)
{
	/* Preempted in this order: two resource waiters, two lock waiters, in turn. */
	static const int why[] = {
		PVSYNC_RESOURCE, PVSYNC_LOCK, PVSYNC_RESOURCE, PVSYNC_LOCK, PVSYNC_SECTION,
		PVSYNC_SECTION, PVSYNC_RESOURCE,
	};

	reset();
	atomic64_set(&vcpus[6].place, PVSYNC_PLACE_CHOSEN);
	for (int i = 0; i < 7; i++)
		join(i, why[i]);
	for (int i = 0; i < 7 && check_ok(); i++) {
		int chosen = choose(order);

		if (!CHECK_EQ(chosen, expected[i]))
			return;
		leave(chosen);
	}
	CHECK_EQ(choose(order), -1);
}

static void orders_are_the_papers(void)
{
	expect_order(PVSYNC_HVS, (int []) { 2, 0, 1, 3, 6, 4, 5 });
	expect_order(PVSYNC_CPTH_R, (int []) { 0, 2, 1, 3, 6, 4, 5 });
	expect_order(PVSYNC_CPTH_L, (int []) { 2, 0, 3, 1, 6, 4, 5 });
	expect_order(PVSYNC_CCH, (int []) { 1, 3, 2, 0, 6, 4, 5 });
	expect_order(PVSYNC_ECS_FIRST, (int []) { 4, 5, 2, 0, 1, 3, 6 });
}

/*
 * As when the scheduler refuses those in front, because their group has used up its bandwidth:
 * the next ones in the order of the policy, whatever list they are in, and none twice.
 */
static void refused_ones_are_passed_by(void)
{
	for_each_size(n) {
		static const int why[] = { PVSYNC_RESOURCE, PVSYNC_LOCK, PVSYNC_LOCK };

		for (int order = 0; order < PVSYNC_NR_ORDERS && check_ok(); order++) {
			struct pvsync_tried tried = { };
			bool lock_first = order == PVSYNC_CCH;
			bool latest_first = order == PVSYNC_CPTH_L;

			reset();
			for (int i = 0; i < 3; i++)
				join(n - 1 - i, why[i]);
			CHECK_EQ(n - 1 - choose_next(order, &tried), lock_first ? 1 : 0);
			CHECK_EQ(n - 1 - choose_next(order, &tried),
				 lock_first || latest_first ? 2 : 1);
			CHECK_EQ(n - 1 - choose_next(order, &tried),
				 lock_first ? 0 : latest_first ? 1 : 2);
			CHECK_EQ(choose_next(order, &tried), -1);
		}
	}
}

/* Who was chosen and refused is to be had for the next search, and counts as chosen. */
static void refused_ones_stay(void)
{
	struct pvsync_tried tried = { };

	reset();
	join(0, PVSYNC_RESOURCE);
	CHECK_EQ(choose_next(PVSYNC_HVS, &tried), 0);
	CHECK_EQ(choose_next(PVSYNC_HVS, &tried), -1);
	CHECK_EQ(choose(PVSYNC_HVS), 0);
	leave(0);
	join(0, PVSYNC_RESOURCE);
	CHECK_EQ(list_of(0), PVSYNC_YIELDED);
}

/* However many wait: no more than a few, so that a choice is short. */
static void a_search_ends(void)
{
	for_each_size(n) {
		struct pvsync_tried tried = { };

		reset();
		for (unsigned int i = 0; i < n; i++)
			join(i, PVSYNC_RESOURCE);
		for (unsigned int i = 0; i < PVSYNC_TRIES; i++)
			CHECK_EQ(choose_next(PVSYNC_HVS, &tried), n - 1 - i);
		CHECK_EQ(choose_next(PVSYNC_HVS, &tried), -1);
	}
}

static void nobody_waits(void)
{
	reset();
	for (int order = 0; order < PVSYNC_NR_ORDERS; order++)
		CHECK_EQ(choose(order), -1);
	leave(0);
}

/* vCPUs that spin at the same time: all choose before one of the chosen runs. */
static void spinners_choose_different_ones(void)
{
	for_each_size(n) {
		for (int order = 0; order < PVSYNC_NR_ORDERS && check_ok(); order++) {
			for (int why = PVSYNC_RESOURCE; why <= PVSYNC_LOCK; why++) {
				bool seen[MOST] = { };

				reset();
				for (unsigned int i = 0; i < n; i++)
					join(i, why);
				for (unsigned int i = 0; i < n && check_ok(); i++) {
					int chosen = choose(order);

					CHECK(!seen[chosen]);
					seen[chosen] = true;
				}
			}
		}
	}
}

/* Whatever happens to a vCPU, it is one word of its own, so vCPUs share nothing. */
static void a_step_changes_one_vcpu(void)
{
	static struct pvsync_waiter before[MOST];

	random_state = 2;
	for_each_size(n) {
		reset();
		for (int step = 0; step < 20000 && check_ok(); step++) {
			unsigned int i = random_below(n), changed = 0;
			bool one = random_below(3), waits = list_of(i);

			memcpy(before, vcpus, sizeof(before));
			if (!one)
				choose(random_below(PVSYNC_NR_ORDERS));
			else if (waits)
				leave(i);
			else
				join(i, 1 + random_below(2));
			for (unsigned int j = 0; j < n; j++) {
				bool differs = memcmp(&before[j], &vcpus[j], sizeof(before[j]));

				changed += differs;
				CHECK(!differs || !one || j == i);
			}
			CHECK_BETWEEN(0, changed, 1);
		}
	}
}

/* Between a look and the choice: who has got a CPU is not chosen, nor has it a mark. */
static void who_runs_meanwhile_is_not_chosen(void)
{
	struct pvsync_tried tried = { };
	struct pvsync_first first;

	reset();
	join(0, PVSYNC_RESOURCE);
	first = look_at_all(PVSYNC_HVS, &tried);
	leave(0);
	CHECK(!pvsync_choose_first(&first, PVSYNC_HVS, &tried, ++now));
	CHECK(!is_chosen(0) && !list_of(0) && !tried.nr);
	/* It may be back by then, with another stamp. */
	join(0, PVSYNC_RESOURCE);
	CHECK(!pvsync_choose_first(&first, PVSYNC_HVS, &tried, ++now));
	CHECK_EQ(list_of(0), PVSYNC_RESOURCE);
	CHECK(!is_chosen(0));
}

/* Chosen while it runs already: the mark is from before, and counts when it is back. */
static void who_was_chosen_in_time_has_its_mark(void)
{
	reset();
	join(0, PVSYNC_RESOURCE);
	CHECK_EQ(choose(PVSYNC_HVS), 0);
	leave(0);
	CHECK(is_chosen(0) && !list_of(0));
	join(0, PVSYNC_LOCK);
	CHECK(is_chosen(0));
	CHECK_EQ(list_of(0), PVSYNC_LOCK);
	leave(0);
	join(0, PVSYNC_RESOURCE);
	CHECK(!is_chosen(0));
	CHECK_EQ(list_of(0), PVSYNC_YIELDED);
}

#define CHOOSERS	4

static unsigned int chosen_times[MOST];
static unsigned int ready_choosers;

/* As many choices as there are vCPUs for each of them. */
static void *choose_some(void *nr)
{
	__atomic_add_fetch(&ready_choosers, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&ready_choosers, __ATOMIC_SEQ_CST) < CHOOSERS)
		;
	for (unsigned int i = 0; i < *(unsigned int *)nr; ) {
		struct pvsync_tried tried = { };
		struct pvsync_first first = look_at_all(PVSYNC_HVS, &tried);
		s64 time = __atomic_add_fetch(&now, 1, __ATOMIC_SEQ_CST);

		if (!pvsync_choose_first(&first, PVSYNC_HVS, &tried, time))
			continue;
		__atomic_add_fetch(&chosen_times[first.waiter - vcpus], 1, __ATOMIC_SEQ_CST);
		i++;
	}
	return NULL;
}

/* In threads of their own, at the same time: each waits for a CPU, and each is chosen once. */
static void threads_choose_different_ones(void)
{
	for (int why = PVSYNC_RESOURCE; why <= PVSYNC_LOCK; why++) {
		unsigned int each = MOST / CHOOSERS;
		pthread_t threads[CHOOSERS];

		reset();
		memset(chosen_times, 0, sizeof(chosen_times));
		ready_choosers = 0;
		for (unsigned int i = 0; i < each * CHOOSERS; i++)
			join(i, why);
		for (int i = 0; i < CHOOSERS; i++)
			pthread_create(&threads[i], NULL, choose_some, &each);
		for (int i = 0; i < CHOOSERS; i++)
			pthread_join(threads[i], NULL);
		for (unsigned int i = 0; i < each * CHOOSERS && check_ok(); i++)
			CHECK_EQ(chosen_times[i], 1);
	}
}

static double ns_since(const struct timespec *begin, int times)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - begin->tv_sec) * 1e9 + end.tv_nsec - begin->tv_nsec) / times;
}

/* What a switch has, a vCPU leaving and joining, and what a choice; to be read, not checked. */
static void time_steps(void)
{
	const int switches = 1000000, choices = 20000;

	for_each_size(n) {
		struct timespec begin;
		double ns;

		reset();
		for (unsigned int i = 0; i < n; i++)
			join(i, i % 2 ? PVSYNC_RESOURCE : PVSYNC_LOCK);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (int i = 0; i < switches; i++) {
			leave(i % n);
			join(i % n, i % 2 ? PVSYNC_RESOURCE : PVSYNC_LOCK);
		}
		ns = ns_since(&begin, switches);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (int i = 0; i < choices && check_ok(); i++)
			choose(PVSYNC_HVS);
		printf("# %u vCPUs: %.1f ns to leave and to join, %.0f ns for a choice\n", n, ns,
		       ns_since(&begin, choices));
	}
}

/* Loops */

/*
 * The loop of section 3.3: one vCPU, preempted first, holds a lock, all others want
 * it. Who is chosen runs: it releases the lock, or it is soon preempted, as it has had
 * its share, or it spins and becomes a lock waiter. The number of choices that it takes
 * until the owner runs; up to @most.
 */
static unsigned int choices_until_the_owner(enum pvsync_order order, unsigned int n,
					    bool spins, unsigned int most)
{
	reset();
	for (unsigned int i = 0; i < n; i++)
		join(i, PVSYNC_RESOURCE);
	for (unsigned int choices = 1; choices <= most; choices++) {
		int chosen = choose(order);

		if (chosen == 0)
			return choices;
		if (!CHECK(chosen > 0))
			break;
		leave(chosen);
		join(chosen, spins ? PVSYNC_LOCK : PVSYNC_RESOURCE);
	}
	return most + 1;
}

static void owner_runs_before_anyone_twice(void)
{
	for_each_size(n) {
		for (int spins = 0; spins < 2; spins++) {
			CHECK_EQ(choices_until_the_owner(PVSYNC_HVS, n, spins, 10 * n), n);
			CHECK_EQ(choices_until_the_owner(PVSYNC_CPTH_R, n, spins, 10 * n), 1);
			CHECK_EQ(choices_until_the_owner(PVSYNC_CPTH_L, n, spins, 10 * n), n);
			CHECK_EQ(choices_until_the_owner(PVSYNC_ECS_FIRST, n, spins, 10 * n), n);
		}
	}
}

/* With the counter of the causality heuristic, lock waiters choose each other for ever. */
static void cch_loops(void)
{
	for_each_size(n)
		CHECK_EQ(choices_until_the_owner(PVSYNC_CCH, n, true, 100 * n), 100 * n + 1);
}

/* With the guest's word, the owner is the first choice wherever it is. */
static void section_is_chosen_first(void)
{
	for_each_size(n) {
		for (unsigned int owner = 0; owner < n && check_ok(); owner++) {
			reset();
			for (unsigned int i = 0; i < n; i++)
				join(i, i == owner ? PVSYNC_SECTION :
						i % 2 ? PVSYNC_RESOURCE : PVSYNC_LOCK);
			CHECK_EQ(choose(PVSYNC_ECS_FIRST), owner);
		}
	}
}

/* A guest that claims to be in sections all the time: each of its vCPUs in turn. */
static void endless_sections_take_turns(void)
{
	for_each_size(n) {
		reset();
		for (unsigned int i = 0; i < n; i++)
			join(i, PVSYNC_SECTION);
		for (unsigned int i = 0; i < 5 * n && check_ok(); i++) {
			int chosen = choose(PVSYNC_ECS_FIRST);

			CHECK_EQ(chosen, i % n);
			leave(chosen);
			join(chosen, PVSYNC_SECTION);
		}
	}
}

/* Starvation */

/**
 * struct worker - a vCPU in a small scheduler
 * @ran: virtual run time, ticks
 * @since: when it was last on a CPU
 * @slice: what is left of its time slice
 * @spins: it spins now
 */
struct worker {
	long	ran;
	long	since;
	int	slice;
	bool	spins;
};

#define SLICE	4
#define LONGEST_WAIT	(100 * SLICE)

static struct worker workers[MOST];

/* Who is behind its share most; -1 if none waits. */
static int most_behind(unsigned int n)
{
	int found = -1;

	for (unsigned int i = 0; i < n; i++) {
		if (list_of(i) && (found < 0 || workers[i].ran < workers[found].ran))
			found = i;
	}
	return found;
}

/*
 * One CPU for every four vCPUs. Each tick, who runs on it goes on, or spins in vain
 * and yields to whom the policy chooses, unless that one is ahead of its share by more
 * than the scheduler allows; at the end of a slice, the one that is most behind runs.
 * The longest time that any of them waited, in ticks.
 */
static long longest_wait(enum pvsync_order order, unsigned int n, unsigned int spin_percent)
{
	unsigned int cpus = n / 4;
	const long ticks = n > 64 ? 2000 : 20000;	/* Each choice looks at all. */
	long worst = 0, total = 0;
	int running[MOST];

	reset();
	memset(workers, 0, sizeof(workers));
	for (unsigned int i = 0; i < n; i++) {
		if (i < cpus)
			running[i] = i, workers[i].slice = SLICE;
		else
			join(i, PVSYNC_RESOURCE);
	}
	for (long tick = 1; tick < ticks && check_ok(); tick++) {
		for (unsigned int cpu = 0; cpu < cpus; cpu++) {
			int next = -1, now = running[cpu];
			bool spun = random_below(100) < spin_percent;

			total++;
			workers[now].ran++;
			workers[now].since = tick;
			if (spun) {
				next = choose(order);
				if (next >= 0 && workers[next].ran > total / n + 2 * SLICE)
					next = -1;
			}
			if (next < 0 && --workers[now].slice <= 0)
				next = most_behind(n);
			if (next < 0)
				continue;
			if (workers[next].since && tick - workers[next].since > worst)
				worst = tick - workers[next].since;
			leave(next);
			join(now, spun ? PVSYNC_LOCK : PVSYNC_RESOURCE);
			workers[next].slice = SLICE;
			running[cpu] = next;
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		if (ticks - workers[i].since > worst)
			worst = ticks - workers[i].since;
	}
	return worst;
}

/*
 * Round robin is three slices. With yields it is longer: vCPUs of the last list are put
 * off until the scheduler finds all others too far ahead, however many there are. A
 * policy alone would let them wait for as long as others spin.
 */
static void nobody_starves(void)
{
	random_state = 3;
	for_each_size(n) {
		for (int order = 0; order < PVSYNC_NR_ORDERS && check_ok(); order++) {
			for (unsigned int percent = 0; percent <= 100; percent += 20) {
				long worst = longest_wait(order, n, percent);

				if (order == PVSYNC_HVS)
					printf("# %u vCPUs, %u %% spins: waited %ld ticks\n",
					       n, percent, worst);
				CHECK_BETWEEN(1, worst, LONGEST_WAIT);
			}
		}
	}
}

int main(void)
{
	RUN_TEST(waiters_are_told_apart);
	RUN_TEST(lists_are_the_model);
	RUN_TEST(orders_are_the_papers);
	RUN_TEST(refused_ones_are_passed_by);
	RUN_TEST(refused_ones_stay);
	RUN_TEST(a_search_ends);
	RUN_TEST(nobody_waits);
	RUN_TEST(spinners_choose_different_ones);
	RUN_TEST(a_step_changes_one_vcpu);
	RUN_TEST(who_runs_meanwhile_is_not_chosen);
	RUN_TEST(who_was_chosen_in_time_has_its_mark);
	RUN_TEST(threads_choose_different_ones);
	RUN_TEST(time_steps);
	RUN_TEST(owner_runs_before_anyone_twice);
	RUN_TEST(cch_loops);
	RUN_TEST(section_is_chosen_first);
	RUN_TEST(endless_sections_take_turns);
	RUN_TEST(nobody_starves);
	return check_summary();
}
