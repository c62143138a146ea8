/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_CHECK_H
#define PVSYNC_TEST_CHECK_H

/*
 * A test is a function; CHECK() notes the first thing in it that does not hold.
 * Each test prints one line, "ok NAME" or "not ok NAME: file:line: what".
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static char check_why[256];
static unsigned int check_passed, check_failed;

__attribute__((__format__(__printf__, 1, 2), __unused__))
static void check_note(const char *format, ...)
{
	va_list args;

	if (check_why[0])
		return;
	va_start(args, format);
	vsnprintf(check_why, sizeof(check_why), format, args);
	va_end(args);
}

/* Returns whether the condition holds, so that a loop can stop at the first failure. */
#define CHECK(cond)								\
	({									\
		bool __holds = (cond);						\
		if (!__holds)							\
			check_note("%s:%d: %s", __FILE__, __LINE__, #cond);	\
		__holds;							\
	})
#define CHECK_EQ(a, b)								\
	({									\
		long long __a = (a), __b = (b);					\
		if (__a != __b)							\
			check_note("%s:%d: %s is %lld, not %lld (%s)", __FILE__, \
				   __LINE__, #a, __a, __b, #b);			\
		__a == __b;							\
	})
#define CHECK_BETWEEN(low, x, high)						\
	({									\
		long long __l = (low), __x = (x), __h = (high);			\
		if (__x < __l || __x > __h)					\
			check_note("%s:%d: %s is %lld, not %lld to %lld",	\
				   __FILE__, __LINE__, #x, __x, __l, __h);	\
		__l <= __x && __x <= __h;					\
	})

static inline bool check_ok(void)
{
	return !check_why[0];
}

/*
 * How long a test may take; CHECK_SECONDS in the environment shortens it for
 * what is known to be bad, whose runner ends with the first test that fails. A
 * lock that never comes ends the runner with a signal, which is a failure.
 * CHECK_TIMER is processor time where that tells a hang from a busy machine.
 */
#ifndef CHECK_TIMER
#define CHECK_TIMER	ITIMER_REAL
#endif

static void check_timer(unsigned int seconds)
{
	struct itimerval timer = { .it_value.tv_sec = seconds };

	setitimer(CHECK_TIMER, &timer, NULL);
}

static unsigned int check_seconds(void)
{
	const char *given = getenv("CHECK_SECONDS");

	return given ? atoi(given) : 60;
}

static int check_summary(void)
{
	printf("# %u passed, %u failed\n", check_passed, check_failed);
	return check_failed || !check_passed;
}

#define RUN_TEST(test) run_test(#test, test)
static void run_test(const char *name, void (*test)(void))
{
	check_why[0] = 0;
	check_timer(check_seconds());
	test();
	check_timer(0);
	if (check_ok()) {
		check_passed++;
		printf("ok %s\n", name);
	} else {
		check_failed++;
		printf("not ok %s: %s\n", name, check_why);
	}
	fflush(stdout);
	if (!check_ok() && getenv("CHECK_SECONDS"))
		exit(check_summary());
}

#endif /* PVSYNC_TEST_CHECK_H */
