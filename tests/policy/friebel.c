// SPDX-License-Identifier: GPL-2.0-only
/* Whose turn it is, <linux/pvsync/friebel.h>: against a model that sorts. */
#include <linux/pvsync/friebel.h>

#include "check.h"
#include "random.h"

#define MOST	255

static const unsigned int sizes[] = { 1, 2, 8, 64, MOST };
#define for_each_size(n)							\
	for (unsigned int __i = 0, n; __i < 5 && (n = sizes[__i], check_ok()); __i++)

/**
 * struct sibling - a vCPU other than the one that spins
 * @since: when it lost its CPU
 * @in_kernel: it was in kernel mode then
 * @ready: it waits for a CPU
 */
struct sibling {
	u64	since;
	bool	in_kernel;
	bool	ready;
};

static struct sibling siblings[MOST];
static unsigned int looks;

/* As friebel.c does it; no more than three looks, however it ends. */
static int pick(struct pvsync_friebel *search, unsigned int n)
{
	looks = 0;
	while (pvsync_friebel_begin(search)) {
		int best = -1;

		if (!CHECK(++looks <= 3))
			break;
		for (unsigned int i = 0; i < n; i++) {
			if (siblings[i].ready &&
			    pvsync_friebel_better(search, siblings[i].since,
						  siblings[i].in_kernel))
				best = i;
		}
		if (pvsync_friebel_end(search))
			return best;
	}
	return -1;
}

/* Kernel mode first; of these, and of the rest, who has waited longest. */
static bool goes_before(const struct sibling *one, const struct sibling *other)
{
	if (one->in_kernel != other->in_kernel)
		return one->in_kernel;
	return one->since < other->since;
}

/* The one after @last in that order, or the first; -1 if there is none. */
static int model_next(int last, unsigned int n)
{
	int best = -1;

	for (unsigned int i = 0; i < n; i++) {
		if (!siblings[i].ready || !siblings[i].since ||
		    (last >= 0 && !goes_before(&siblings[last], &siblings[i])))
			continue;
		if (best < 0 || goes_before(&siblings[i], &siblings[best]))
			best = i;
	}
	return best;
}

/* Many or few time stamps, so that some are alike; who never ran has none. */
static void make_siblings(unsigned int n, bool alike)
{
	for (unsigned int i = 0; i < n; i++)
		siblings[i] = (struct sibling) {
			.since = alike ? random_below(n) : random_u64() >> 1,
			.in_kernel = random_below(2),
			.ready = random_below(4),
		};
}

static void order_is_the_models(void)
{
	random_state = 1;
	for_each_size(n) {
		for (int round = 0; round < 300 && check_ok(); round++) {
			struct pvsync_friebel search = { };
			int expected = -1;

			make_siblings(n, round % 2);
			do {
				expected = model_next(expected, n);
				CHECK_EQ(pick(&search, n), expected);
			} while (expected >= 0 && check_ok());
			/* And there it stays. */
			CHECK_EQ(pick(&search, n), -1);
			CHECK_EQ(looks, 0);
		}
	}
}

static void kernel_mode_is_first(void)
{
	struct pvsync_friebel search = { };

	siblings[0] = (struct sibling) { .since = 10, .in_kernel = false, .ready = true };
	siblings[1] = (struct sibling) { .since = 40, .in_kernel = true, .ready = true };
	siblings[2] = (struct sibling) { .since = 30, .in_kernel = true, .ready = true };
	siblings[3] = (struct sibling) { .since = 20, .in_kernel = false, .ready = true };
	CHECK_EQ(pick(&search, 4), 2);
	CHECK_EQ(pick(&search, 4), 1);
	CHECK_EQ(pick(&search, 4), 0);
	CHECK_EQ(pick(&search, 4), 3);
	CHECK_EQ(pick(&search, 4), -1);
}

/* A search is not a picture of one moment: siblings run, and lose their CPUs again. */
static void siblings_change_meanwhile(void)
{
	struct pvsync_friebel search = { };

	for (int i = 0; i < 4; i++)
		siblings[i] = (struct sibling) {
			.since = 10 + i, .in_kernel = i < 3, .ready = true,
		};
	CHECK_EQ(pick(&search, 4), 0);
	/* Refused as it ran already; it has lost its CPU again since. */
	siblings[0].since = 20;
	siblings[1].ready = false;
	CHECK_EQ(pick(&search, 4), 2);
	CHECK_EQ(pick(&search, 4), 0);
	/* Its turn is over, though it is in kernel mode now. */
	siblings[1] = (struct sibling) { .since = 5, .in_kernel = true, .ready = true };
	CHECK_EQ(pick(&search, 4), 3);
	CHECK_EQ(pick(&search, 4), -1);
}

static void nobody_waits(void)
{
	struct pvsync_friebel search = { };

	for (int i = 0; i < 4; i++)
		siblings[i] = (struct sibling) { .since = 10, .in_kernel = i % 2 };
	CHECK_EQ(pick(&search, 0), -1);
	search = (struct pvsync_friebel) { };
	CHECK_EQ(pick(&search, 4), -1);
	CHECK_EQ(looks, 2);
}

/* However many there are: each is looked at once for a choice, once more between the turns. */
static void looks_are_few(void)
{
	random_state = 2;
	for_each_size(n) {
		struct pvsync_friebel search = { };
		unsigned int total = 0, choices = 0;

		make_siblings(n, false);
		while (pick(&search, n) >= 0 && check_ok()) {
			choices++;
			total += looks;
		}
		CHECK_EQ(total + looks, choices + 2);
	}
}

int main(void)
{
	RUN_TEST(order_is_the_models);
	RUN_TEST(kernel_mode_is_first);
	RUN_TEST(siblings_change_meanwhile);
	RUN_TEST(nobody_waits);
	RUN_TEST(looks_are_few);
	return check_summary();
}
