// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a program slow to poll: each second ppoll() begins milliseconds late.
 *
 * To be preloaded. At the end, how often it was late goes to the file that SLOW_POLL names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LATE_NS = 3000000 };

static atomic_ulong calls;

static void late(void)
{
	const struct timespec pause = { .tv_nsec = LATE_NS };

	if (atomic_fetch_add(&calls, 1) % 2)
		nanosleep(&pause, NULL);
}

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("SLOW_POLL");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%lu\n", atomic_load(&calls) / 2);
	fclose(file);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
	int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
		dlsym(RTLD_NEXT, "ppoll");

	late();
	return next(fds, count, limit, mask);
}

/* What ppoll() is called when the program was compiled with _FORTIFY_SOURCE. */
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit,
		const sigset_t *mask, size_t size)
{
	(void)size;
	return ppoll(fds, count, limit, mask);
}
