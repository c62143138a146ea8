/* SPDX-License-Identifier: GPL-2.0-only */
/* What the workload programs share: errors, options, the clock and random numbers. */
#ifndef PVSYNC_WORKLOADS_COMMON_H
#define PVSYNC_WORKLOADS_COMMON_H

#include <cpuid.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAILED		1		/* exit status: something went wrong */
#define WRONG_USAGE	2
#define NS_PER_S	1000000000ull
#define CACHE_LINE	64

/* End at once with one line; any thread may call it. */
static inline void __attribute__((noreturn, format(printf, 2, 3)))
fail(int status, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
	_exit(status);
}

/* The whole number that was given to an option. */
static inline unsigned long
whole_number(char option, const char *text, unsigned long least, unsigned long most)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || value < least || value > most)
		fail(WRONG_USAGE, "-%c needs a whole number from %lu to %lu, not '%s'",
		     option, least, most, text);
	return value;
}

/* The time that was given to an option, in nanoseconds. */
static inline uint64_t seconds(char option, const char *text)
{
	double value;
	char *end;

	value = strtod(text, &end);
	if (!isdigit((unsigned char)*text) || *end || !(value >= 0.01 && value <= 3600))
		fail(WRONG_USAGE, "-%c needs seconds from 0.01 to 3600, not '%s'", option, text);
	return value * NS_PER_S;
}

/* What getopt() returned is no option, or lacks its argument: say so and end. */
static inline void __attribute__((noreturn))
wrong_option(int returned, int option, const char *usage)
{
	if (returned == ':')
		fail(WRONG_USAGE, "-%c needs an argument; options: %s", option, usage);
	fail(WRONG_USAGE, "there is no option -%c; options: %s", option, usage);
}

/* What is left after the options: nothing. */
static inline void no_arguments(int argc, char **argv, const char *usage)
{
	if (optind < argc)
		fail(WRONG_USAGE, "'%s' is too much; options: %s", argv[optind], usage);
}

static inline void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
	int error = pthread_create(thread, NULL, run, argument);

	if (error)
		fail(FAILED, "a thread cannot start: %s", strerror(error));
}

static inline unsigned long online_cpus(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > 0 ? cpus : 1;
}

/* Which instruction makes hypercalls: the other vendor's would be an invalid one. */
static inline int is_intel(void)
{
	unsigned int max, b, c, d;

	return __get_cpuid(0, &max, &b, &c, &d) && b == signature_INTEL_ebx;
}

/* Keep the calling thread on one of the CPUs it may use, @index counting them round and round. */
static inline int pin(unsigned long index)
{
	cpu_set_t all, one;
	int cpu, left;

	if (sched_getaffinity(0, sizeof(all), &all))
		fail(FAILED, "the CPUs are not known: %s", strerror(errno));
	left = index % CPU_COUNT(&all);
	for (cpu = 0; !CPU_ISSET(cpu, &all) || left--; cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail(FAILED, "a thread cannot be kept on CPU %d: %s", cpu, strerror(errno));
	return cpu;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Spread the bits of a number; the same number gives the same bits. */
static inline uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 32) * 0xd6e8feb86659fd93ull;
	value = (value ^ value >> 32) * 0xd6e8feb86659fd93ull;
	return value ^ value >> 32;
}

/* Start of the random numbers of a thread: fixed, of its own, never 0. */
static inline uint64_t random_seed(unsigned long number)
{
	return mix(number + 1) | 1;
}

/* The next number of a xorshift generator. */
static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif /* PVSYNC_WORKLOADS_COMMON_H */
