// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual machines whose vCPUs share records with pvsync on the host, make all of its
 * hypercalls and write to what they share, all at once, while their monitor takes the
 * memory away, puts it back elsewhere, protects it and punches holes into it. Every other
 * machine is killed in the midst of that. Runs on the host, as root.
 *
 * Status 1 and a line, if the host gives an answer that it does not have, does not let a
 * machine end, or keeps one that has ended. Whether it has warned or lost memory has to be
 * looked at besides; "given back" is how many pages went while they were shared.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "small-vm.h"

#define USAGE		"[-S SECONDS] [-s SEED] [-v VCPUS]"
#define ROUND		(2 * NS_PER_S)
#define PATIENCE	(60 * NS_PER_S)		/* for a machine to end */
#define CALLS		256u			/* in the table of a vCPU, a power of 2 */
#define TABLE_SIZE	(4 * PAGE)
#define TABLES_AT	0x10000ul
#define PAGES		(SHARED_SIZE / PAGE)
#define LEAST_GONE	4000u			/* pages, to find a leak by */
#define ELSEWHERE	(16ul << 20)		/* where slot 1 is moved to */

_Static_assert(CALLS * sizeof(struct call) <= TABLE_SIZE, "a table does not fit");
_Static_assert(TABLES_AT + MAX_VCPUS * TABLE_SIZE <= OWN_SIZE, "the tables do not fit");

static const char *const counters[] = {
	"tlb_calls", "tlb_refused", "spin_events", "extend_granted",
	"preempt_irq", "preempt_kernel", "preempt_unknown",
};

#define NR_COUNTERS	(sizeof(counters) / sizeof(*counters))

/* Of all machines; the processes share it. */
static struct {
	_Atomic uint64_t answers[4], slots, mappings, given_back, faults, accesses, ended, killed;
	_Atomic uint64_t counters[NR_COUNTERS];
} *sum;

static uint64_t duration = 10 * NS_PER_S;
static unsigned long seed = 1, vcpus = MAX_VCPUS;
static struct vm vm;
static char *memory[2];		/* anonymous, and of a file */
static int file, claims;	/* its memory; what is read into either */
static pthread_barrier_t start;		/* nothing is mapped elsewhere after that */
static volatile bool stop;

static uint64_t one_of(uint64_t *random, uint64_t number)
{
	return random_next(random) % number;
}

/* Most often a record in one of the first pages, so that vCPUs share some. */
static uint64_t address(uint64_t *random)
{
	uint64_t base = one_of(random, 8) ? SHARED : ELSEWHERE;

	switch (one_of(random, 8)) {
	case 0:
		return one_of(random, 2) ? random_next(random) : 0;
	case 1:
		return base + one_of(random, 2 * SHARED_SIZE);
	default:
		return base + one_of(random, BUSY_PAGES * PAGE / ECS_SIZE) * ECS_SIZE;
	}
}

static struct call random_call(uint64_t *random)
{
	uint64_t task = one_of(random, 4) ? address(random) & ~7ul : 0;

	switch (one_of(random, 16)) {
	case 0:
		return (struct call){ .nr = HC_FEATURES + one_of(random, 6) };
	case 1:
		return (struct call){ HC_TLB, random_next(random) & 0x1ff, 0,
				      one_of(random, 40) << 32, one_of(random, 1024) << 12 | 12 };
	case 2:
	case 3:
		return (struct call){ HC_TLB, one_of(random, 256), 0, 0, 0 };
	case 4:
	case 5:
		return (struct call){ HC_ECS, address(random) |
				      (one_of(random, 4) ? ECS_COUNT : ECS_SILENT), 0, 0, 0 };
	case 6:
		return (struct call){ HC_ECS, address(random) | ECS_FREE, address(random) & ~3ul,
				      task, task ? ~TASK_MASK | one_of(random, 4096) * 4 : 0 };
	default:
		return (struct call){ .nr = one_of(random, 8) ? HC_HELP : HC_GIVE_BACK };
	}
}

static struct answers *answers_of(unsigned long vcpu)
{
	return (struct answers *)(vm.own + FREE_FROM) + vcpu;
}

static void prepare(unsigned long number, uint64_t *random)
{
	unsigned long table = TABLES_AT + number * TABLE_SIZE;
	struct call *calls = (struct call *)(vm.own + table);
	struct kvm_regs regs = {
		.rip = code_at(guest_storm), .rflags = FLAGS, .r8 = table, .r9 = CALLS - 1,
		.r11 = SHARED, .r12 = random_next(random),
		.r13 = (char *)answers_of(number) - vm.own,
	};
	unsigned int i;

	for (i = 0; i < CALLS; i++)
		calls[i] = random_call(random);
	MUST(vm.vcpu[number].fd, KVM_SET_REGS, &regs);
}

static void *run_vcpu(void *argument)
{
	struct vcpu *vcpu = argument;

	running = vcpu->run;
	pthread_barrier_wait(&start);
	while (!stop) {
		int error = enter(vcpu);

		if (error == EFAULT)		/* the monitor has no memory there now */
			sum->faults++;
		else if (!error && vcpu->run->exit_reason == KVM_EXIT_MMIO)
			sum->accesses++;	/* the guest has none */
		else if (error != EINTR)
			fail(FAILED, "a vCPU ended with error %d, exit %u", error,
			     vcpu->run->exit_reason);
	}
	return NULL;
}

/* Before the vCPUs, so that what was taken away is soon there again. */
static void go_first(void)
{
	if (setpriority(PRIO_PROCESS, gettid(), -20))
		fail(FAILED, "no priority: %s", strerror(errno));
}

/* What the guest has, and where: deleted and put back, moved, read-only, logged. */
static void *change_slots(void *unused)
{
	uint64_t bits[PAGES / 64], random = random_seed(seed + 1000);
	struct kvm_dirty_log log = { .slot = SHARED_SLOT, .dirty_bitmap = bits };

	(void)unused;
	go_first();
	pthread_barrier_wait(&start);
	while (!stop) {
		char *what = memory[one_of(&random, 2)];
		unsigned long where = one_of(&random, 8) ? SHARED : ELSEWHERE;

		switch (one_of(&random, 8)) {
		case 0:
			set_slot(&vm, SHARED_SLOT, 0, NULL, 0, 0);
			set_slot(&vm, SHARED_SLOT, where, what, SHARED_SIZE, KVM_MEM_READONLY);
			break;
		case 1:
		case 2:			/* only if the memory is the same: moved */
			set_slot(&vm, SHARED_SLOT, where, what, SHARED_SIZE, 0);
			break;
		case 3:
			set_slot(&vm, SHARED_SLOT, where, what, SHARED_SIZE,
				 KVM_MEM_LOG_DIRTY_PAGES);
			ioctl(vm.fd, KVM_GET_DIRTY_LOG, &log);
			break;
		default:
			set_slot(&vm, SHARED_SLOT, 0, NULL, 0, 0);
			set_slot(&vm, SHARED_SLOT, where, what, SHARED_SIZE, 0);
		}
		sum->slots++;
		usleep(one_of(&random, 100000));
	}
	return NULL;
}

/* Those that the guest writes to: no more of them have been there. */
static void count_pages(unsigned long gone)
{
	sum->given_back += gone < BUSY_PAGES ? gone : BUSY_PAGES;
}

static void give_back(char *where, unsigned long pages)
{
	if (where >= memory[1] && where < memory[1] + SHARED_SIZE)
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, where - memory[1],
			  pages * PAGE);
	else
		madvise(where, pages * PAGE, MADV_DONTNEED);
	count_pages(pages);
}

/*
 * Other memory; the same of the file, if it is of that. It is full of claims; should another
 * thread have taken it away again, there is an error and no signal.
 */
static void map_again(char *where, unsigned long pages)
{
	bool of_file = where >= memory[1] && where < memory[1] + SHARED_SIZE;
	int kind = of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;

	if (mmap(where, pages * PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | kind,
		 of_file ? file : -1, of_file ? where - memory[1] : 0) == MAP_FAILED)
		fail(FAILED, "no memory: %s", strerror(errno));
	if (!of_file)
		count_pages(pages);
	(void)!pread(claims, where, BUSY_PAGES * PAGE, 0);
}

static int make_claims(uint64_t *random)
{
	uint64_t words[BUSY_PAGES * PAGE / sizeof(uint64_t)];
	int made = memfd_create("claims", MFD_CLOEXEC);
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		words[i] = random_next(random) & random_next(random) & random_next(random);
	if (made < 0 || write(made, words, sizeof(words)) != sizeof(words))
		fail(FAILED, "no file in memory: %s", strerror(errno));
	return made;
}

static void fork_once(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* What the monitor has there: protected, unmapped, punched, cut, copied on write. */
static void *change_mappings(void *unused)
{
	uint64_t random = random_seed(seed + 2000);

	(void)unused;
	go_first();
	pthread_barrier_wait(&start);
	while (!stop) {
		/* Mostly the few pages in which records are; now and then all. */
		unsigned long first = one_of(&random, BUSY_PAGES);
		unsigned long pages = 1 + one_of(&random, BUSY_PAGES - first);
		char *where = memory[one_of(&random, 2)];

		if (!one_of(&random, 16))
			first = 0, pages = PAGES;
		where += first * PAGE;
		switch (one_of(&random, 8)) {
		case 0:
			mprotect(where, pages * PAGE, PROT_NONE);
			break;
		case 1:
			mprotect(where, pages * PAGE, PROT_READ);
			break;
		case 2:
			munmap(where, pages * PAGE);
			break;
		case 3:
			if (ftruncate(file, 0) || ftruncate(file, SHARED_SIZE))
				fail(FAILED, "the file has no size: %s", strerror(errno));
			break;
		case 4:
			if (!one_of(&random, 8))
				fork_once();
			break;
		default:
			give_back(where, pages);
		}
		usleep(one_of(&random, 500));
		map_again(where, pages);
		sum->mappings++;
		/* Now and then for so long that vCPUs are preempted with all in place. */
		usleep(one_of(&random, 8) ? one_of(&random, 1000) : one_of(&random, 40000));
	}
	return NULL;
}

/* In a process of its own, which ends with it. */
static void __attribute__((noreturn)) run_machine(unsigned long round)
{
	pthread_t threads[MAX_VCPUS + 3];
	uint64_t random = random_seed(seed + round);
	unsigned long i, number = 0;

	file = memfd_create("shared", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, SHARED_SIZE))
		fail(FAILED, "no file in memory: %s", strerror(errno));
	memory[0] = map_memory(NULL, SHARED_SIZE, -1);
	memory[1] = map_memory(NULL, SHARED_SIZE, file);
	claims = make_claims(&random);
	vm = make_vm(vcpus, 0, true);
	seed += round;
	pthread_barrier_init(&start, NULL, vcpus + 4);
	for (i = 0; i < vcpus; i++) {
		prepare(i, &random);
		start_thread(&threads[number++], run_vcpu, &vm.vcpu[i]);
	}
	start_thread(&threads[number++], change_slots, NULL);
	start_thread(&threads[number++], change_mappings, NULL);
	start_thread(&threads[number++], change_mappings, NULL);
	pthread_barrier_wait(&start);
	usleep(ROUND / 1000);
	stop = true;
	for (i = 0; i < vcpus; i++)
		pthread_kill(threads[i], SIGUSR1);
	for (i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < vcpus; i++)
		for (number = 0; number < 4; number++)
			sum->answers[number] += ((uint64_t *)answers_of(i))[number];
	for (i = 0; i < NR_COUNTERS; i++)
		sum->counters[i] += counted(&vm, counters[i]);
	sum->ended++;
	_exit(0);
}

/* Whether the host still has a machine of that process. */
static bool is_there(pid_t process)
{
	DIR *folder = opendir("/sys/kernel/debug/kvm");
	struct dirent *entry;
	bool found = false;
	char name[16];

	if (!folder)
		fail(FAILED, "/sys/kernel/debug/kvm: %s", strerror(errno));
	snprintf(name, sizeof(name), "%d-", process);
	while ((entry = readdir(folder)))
		found |= !strncmp(entry->d_name, name, strlen(name));
	closedir(folder);
	return found;
}

static void wait_for_end(pid_t process, bool killed)
{
	uint64_t began = now_ns();
	int status;

	while (waitpid(process, &status, WNOHANG) != process) {
		if (now_ns() - began > PATIENCE)
			fail(FAILED, "a machine does not end");
		usleep(1000);
	}
	if (killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL :
		     !WIFEXITED(status) || WEXITSTATUS(status))
		fail(FAILED, "a machine has ended with status %#x", status);
	while (is_there(process)) {
		if (now_ns() - began > PATIENCE)
			fail(FAILED, "a machine that has ended is still there");
		usleep(1000);
	}
}

static void run_round(unsigned long round)
{
	bool killed = round & 1;
	uint64_t random = random_seed(seed + round);
	pid_t process = fork();

	if (process < 0)
		fail(FAILED, "no process: %s", strerror(errno));
	if (!process)
		run_machine(round);
	if (killed) {
		/* While it is made or runs. */
		usleep(one_of(&random, ROUND / 1000 * 3 / 4));
		kill(process, SIGKILL);
		sum->killed++;
	}
	wait_for_end(process, killed);
}

static void read_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, ":S:s:v:")) != -1) {
		switch (option) {
		case 'S':
			duration = seconds(option, optarg);
			break;
		case 's':
			seed = whole_number(option, optarg, 1, 1000000000);
			break;
		case 'v':
			vcpus = whole_number(option, optarg, 1, MAX_VCPUS);
			break;
		default:
			wrong_option(option, optopt, USAGE);
		}
	}
	no_arguments(argc, argv, USAGE);
}

int main(int argc, char **argv)
{
	unsigned long round = 0;
	uint64_t began = now_ns();
	size_t i;

	read_options(argc, argv);
	on_signal_leave();
	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED)
		fail(FAILED, "no memory: %s", strerror(errno));
	do {
		run_round(round++);
	} while (now_ns() - began < duration || round < 2 || sum->given_back < LEAST_GONE);
	printf("machines: %lu ended, %lu killed\n", sum->ended, sum->killed);
	printf("calls: %lu accepted, %lu refused, %lu not offered, %lu unexpected\n",
	       sum->answers[0], sum->answers[1], sum->answers[2], sum->answers[3]);
	printf("changes: %lu slots, %lu mappings, %lu pages given back\n", sum->slots,
	       sum->mappings, sum->given_back);
	printf("not there: %lu accesses of guests, %lu of the host for them\n", sum->accesses,
	       sum->faults);
	for (i = 0; i < NR_COUNTERS; i++)
		printf("%s: %lu\n", counters[i], sum->counters[i]);
	return sum->answers[3] ? FAILED : 0;
}
