// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtual machine's monitor that takes the memory away which a vCPU shares with pvsync
 * on the host, in every way that there is, and looks what the host makes of it: a line
 * "ok" or "not ok" for each, status 1 if one is not. Runs on the host, as root.
 *
 * The vCPU runs on the same CPU as the monitor, so that it has been preempted whenever the
 * monitor runs after it. The host says so in the record then ("told"), and counts what it
 * has read there as the reason; what it cannot read it counts as preempt_unknown.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "small-vm.h"

#define LOOKS		20		/* preemptions after which nothing is expected any more */
#define MARKS		100		/* preemptions that all have to be marked, or not all */
#define PATIENCE	(5 * NS_PER_S)
#define PATTERN		0x5a
#define ELSEWHERE	(64ul << 20)	/* where slot 1 is moved to */
#define NOWHERE		(512ul << 20)	/* no memory of the guest's */
#define RING		16384ul		/* bytes: 1,024 entries, 64 or, with VMX, 576 of them KVM's own */
#define RING_ENTRIES	(RING / sizeof(struct kvm_dirty_gfn))
#define APIC_ID		0x20
#define OUTSIDE		8ul		/* an address of no use */
#define FIRMWARE_SLOT	2u
#define RESET		0xfffffff0ul	/* what runs first after an INIT */
#define MSR_STEAL_TIME	0x4b564d03ul
#define MSR_PV_EOI	0x4b564d04ul
#define STEAL_TIME	(SHARED + PAGE)	/* KVM's record for it */

/* As in the ABI; the rest of it is reserved. */
struct record {
	uint64_t non_preemptable, preemptable, guest_reserved[6];
	uint32_t preempted, overcommitted, borrowed, host_reserved[13];
};

static unsigned int failures;
static struct vm vm;
static pthread_t spinner;
static volatile bool stop, rival_stops;
static struct record *record;		/* at SHARED, while it is there */
static int file;			/* memory of the other kind */
static const struct call none;		/* registers without a meaning */
static cpu_set_t home, elsewhere;	/* where the vCPU runs, and where it does not */

static volatile uint64_t *turns(void)
{
	return (volatile uint64_t *)(vm.own + FREE_FROM);
}

static void say(bool good, const char *what)
{
	printf("%sok %s\n", good ? "" : "not ", what);
	fflush(stdout);
	failures += !good;
}

static void set_registers(const char *code, const struct call *call)
{
	struct kvm_regs regs = {
		.rip = code_at(code), .rflags = FLAGS, .rax = call->nr, .rbx = call->a0,
		.rcx = call->a1, .rdx = call->a2, .rsi = call->a3, .rdi = FREE_FROM,
	};

	MUST(vm.vcpu[0].fd, KVM_SET_REGS, &regs);
}

/* What the host answers. */
static long hypercall(uint64_t nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	struct vcpu *vcpu = &vm.vcpu[0];
	struct call call = { nr, a0, a1, a2, a3 };
	struct kvm_regs regs;
	int error;

	set_registers(guest_call, &call);
	vcpu->run->immediate_exit = 0;
	error = enter(vcpu);
	if (error || vcpu->run->exit_reason != KVM_EXIT_IO)
		fail(FAILED, "a hypercall ended with error %d, exit %u", error,
		     vcpu->run->exit_reason);
	MUST(vcpu->fd, KVM_GET_REGS, &regs);
	return regs.rax;
}

static long share(unsigned long gpa)
{
	return hypercall(HC_ECS, gpa | ECS_COUNT, 0, 0, 0);
}

static void *spin(void *unused)
{
	struct vcpu *vcpu = &vm.vcpu[0];
	int error = 0;

	(void)unused;
	running = vcpu->run;
	pin(0);
	while (!stop) {
		error = enter(vcpu);
		/* A full ring is what one of the tests is about; signals end it. */
		if (error != EINTR && (error || vcpu->run->exit_reason != KVM_EXIT_DIRTY_RING_FULL))
			fail(FAILED, "a vCPU ended with error %d, exit %u", error,
			     vcpu->run->exit_reason);
	}
	return NULL;
}

static void begin_with(const char *code, const struct call *registers)
{
	set_registers(code, registers);
	vm.vcpu[0].run->immediate_exit = 0;
	stop = false;
	start_thread(&spinner, spin, NULL);
}

static void begin(void)
{
	begin_with(guest_spin, &none);
}

static void end(void)
{
	stop = true;
	pthread_kill(spinner, SIGUSR1);
	pthread_join(spinner, NULL);
}

/* Let the vCPU run for a while and be preempted; false when it does not run any more. */
static bool look(void)
{
	uint64_t before = *turns(), began = now_ns();
	struct timespec moment = { .tv_nsec = 200000 };

	do {
		nanosleep(&moment, NULL);
		if (now_ns() - began > PATIENCE)
			return false;
	} while (*turns() == before);
	return true;
}

/* Whether next to all of some preemptions are counted as this. */
static bool counted_as(const char *kind)
{
	unsigned long long before = counted(&vm, kind);
	unsigned int i;

	for (i = 0; i < LOOKS; i++)
		if (!look())
			return false;
	return counted(&vm, kind) - before >= LOOKS * 9 / 10;
}

/* Whether the host says in this record that the vCPU was preempted. */
static bool told(volatile struct record *where)
{
	uint64_t began = now_ns();

	where->preempted = 0;
	do {
		if (!look())
			return false;
	} while (where->preempted != 1 && now_ns() - began < PATIENCE);
	return where->preempted == 1;
}

/* Whether the host leaves these bytes alone, of a record of another time. */
static bool untouched(void *where)
{
	unsigned char *bytes = where;
	unsigned int i;

	memset(bytes, PATTERN, ECS_SIZE);
	for (i = 0; i < LOOKS; i++)
		if (!look())
			return false;
	for (i = 0; i < ECS_SIZE; i++)
		if (bytes[i] != PATTERN)
			return false;
	return true;
}

/* Whether the host reads claims, or does not: of next to all preemptions. */
static bool claims_are(bool read)
{
	unsigned long long before = counted(&vm, "preempt_unknown"), unknown;
	unsigned int i;

	for (i = 0; i < LOOKS; i++)
		if (!look())
			return false;
	unknown = counted(&vm, "preempt_unknown") - before;
	return read ? unknown <= LOOKS / 10 : unknown >= LOOKS / 2;
}

static void put_slot(unsigned long gpa, void *memory, unsigned int flags)
{
	if (set_slot(&vm, SHARED_SLOT, gpa, memory, SHARED_SIZE, flags))
		fail(FAILED, "slot 1: %s", strerror(errno));
}

static void delete_slot(void)
{
	if (set_slot(&vm, SHARED_SLOT, SHARED, NULL, 0, 0))
		fail(FAILED, "slot 1 cannot be deleted: %s", strerror(errno));
}

/* Another kind of memory in slot 1. */
static void put_memory(void *memory)
{
	delete_slot();
	record = memory;
	put_slot(SHARED, memory, 0);
}

static bool is_present(void *page)
{
	unsigned char there;

	if (mincore(page, PAGE, &there))
		fail(FAILED, "mincore: %s", strerror(errno));
	return there & 1;
}

/* What every mechanism answers to arguments that have a meaning and to those that do not. */
/* Linux's: NMIs, interrupts, soft ones; sections; what a wait counts in, and what it adds. */
static void name_layout(void)
{
	static const uint32_t layout[6] = { 1, 0xff0100, 0xfeff, 0xff, 1, 0 };

	memcpy((char *)record + ECS_LAYOUT, layout, sizeof(layout));
}

static void check_answers(void)
{
	const struct {
		const char *what;
		struct call call;
		long answer;
	} known[] = {
		{ "features", { HC_FEATURES, 0, 0, 0, 0 }, ALL_FEATURES },
		{ "features with an argument", { HC_FEATURES, 1, 0, 0, 0 }, REFUSED },
		{ "help", { HC_HELP, 0, 0, 0, 0 }, 0 },
		{ "help with an argument", { HC_HELP, 1, 0, 0, 0 }, REFUSED },
		{ "give back without a loan", { HC_GIVE_BACK, 0, 0, 0, 0 }, 0 },
		{ "give back with an argument", { HC_GIVE_BACK, 1, 0, 0, 0 }, REFUSED },
		{ "an unknown number", { HC_TLB + 1, 0, 0, 0, 0 }, NOT_OFFERED },
		{ "a number that is no more", { HC_FEATURES + 2, 1, 0, 0, 0 }, NOT_OFFERED },
		{ "flush of oneself", { HC_TLB, 1, 0, 0, 0 }, 0 },
		{ "flush of a vCPU that is not there", { HC_TLB, 1u << MAX_VCPUS, 0, 0, 0 },
		  REFUSED },
		{ "record", { HC_ECS, SHARED | 1, 0, 0, 0 }, 0 },
		{ "no record any more", { HC_ECS, 0, 0, 0, 0 }, 0 },
		{ "no record, with an argument", { HC_ECS, 0, 8, 0, 0 }, REFUSED },
		{ "record in no slot", { HC_ECS, NOWHERE | 1, 0, 0, 0 }, REFUSED },
		{ "record right behind a slot", { HC_ECS, (SHARED + SHARED_SIZE) | 1, 0, 0, 0 },
		  REFUSED },
		{ "record beyond all addresses", { HC_ECS, -ECS_SIZE | 1, 0, 0, 0 }, REFUSED },
		{ "record that is not aligned", { HC_ECS, (SHARED + 64) | 1, 0, 0, 0 }, REFUSED },
		{ "record without a form", { HC_ECS, SHARED, 0, 0, 0 }, REFUSED },
		{ "record that says nothing", { HC_ECS, SHARED | 3, 0, 0, 0 }, 0 },
		{ "record that says nothing, with a preempt count", { HC_ECS, SHARED | 3,
		  SHARED + PAGE, 0, 0 }, REFUSED },
		{ "record that counts, with a preempt count", { HC_ECS, SHARED | 1, SHARED + PAGE,
		  0, 0 }, REFUSED },
		{ "form that no host knows any more", { HC_ECS, SHARED | 2, SHARED + PAGE, 0, 0 },
		  REFUSED },
		{ "preempt count", { HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, 0, 0 }, 0 },
		{ "preempt count missing", { HC_ECS, SHARED | ECS_FREE, 0, 0, 0 }, REFUSED },
		{ "preempt count in no slot", { HC_ECS, SHARED | ECS_FREE, NOWHERE, 0, 0 }, REFUSED },
		{ "preempt count that is not aligned", { HC_ECS, SHARED | ECS_FREE, SHARED + 2, 0, 0 },
		  REFUSED },
		{ "task", { HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, SHARED + 2 * PAGE,
		  ~TASK_MASK | 16 }, 0 },
		{ "task in no slot", { HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, NOWHERE, ~TASK_MASK },
		  REFUSED },
		{ "task that is not aligned", { HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, SHARED + 4,
		  ~TASK_MASK }, REFUSED },
		{ "nesting without a task", { HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, 0, 16 }, REFUSED },
		{ "nesting that is not aligned", { HC_ECS, SHARED | ECS_FREE, SHARED + PAGE,
		  SHARED + 2 * PAGE, 2 }, REFUSED },
	};
	char text[128];
	size_t i;

	name_layout();
	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const struct call *call = &known[i].call;
		long answer = hypercall(call->nr, call->a0, call->a1, call->a2, call->a3);

		snprintf(text, sizeof(text), "answer: %s: %ld", known[i].what, answer);
		say(answer == known[i].answer, text);
	}
	delete_slot();
	put_slot(SHARED, record, KVM_MEM_READONLY);
	say(share(SHARED) == REFUSED, "answer: record that cannot be written");
	put_memory(record);
}

/* Whether the vCPU is seen to run, and is told this of its CPU; from another CPU. */
static bool runs_told(uint32_t overcommitted)
{
	const volatile uint64_t *both = (const volatile uint64_t *)&record->preempted;
	uint64_t began = now_ns();

	while (now_ns() - began < PATIENCE)
		if (*both == (uint64_t)overcommitted << 32)
			return true;
	return false;
}

static void move_to(const cpu_set_t *cpus)
{
	if (sched_setaffinity(0, sizeof(*cpus), cpus))
		fail(FAILED, "a thread cannot change its CPU: %s", strerror(errno));
}

static void *compute(void *unused)
{
	(void)unused;
	move_to(&home);
	while (!rival_stops)
		;
	return NULL;
}

static void check_overcommitted(void)
{
	bool shared = !share(SHARED);
	pthread_t rival;

	begin();
	say(shared && told(record), "told: a record, for what a CPU is wanted for");
	move_to(&elsewhere);
	say(runs_told(0), "told: it runs, and nobody else wants its CPU");
	start_thread(&rival, compute, NULL);
	say(runs_told(1), "told: it runs, and somebody else wants its CPU");
	rival_stops = true;
	pthread_join(rival, NULL);
	say(runs_told(0), "told: it runs, and nobody else wants its CPU any more");
	move_to(&home);
	end();
}

static void check_refusal_ends_sharing(void)
{
	bool shared = !share(SHARED);

	begin();
	say(shared && told(record), "told: a record that is shared");
	end();
	shared = share(NOWHERE) == REFUSED;
	begin();
	say(shared && untouched(record) && claims_are(false),
	    "untouched: a record, after another one was refused");
	end();
}

/* As a monitor resets a vCPU: what runs then has no paging, and has shared nothing. */
static struct kvm_sregs unpaged(int vcpu)
{
	struct kvm_sregs sregs;

	MUST(vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.l = 0;
	sregs.cs.db = 1;
	sregs.cr0 = 0x11;		/* ET, PE */
	sregs.cr4 = 0;
	sregs.efer = 0;
	return sregs;
}

static void check_reset(void)
{
	struct kvm_run *run = vm.vcpu[0].run;
	bool shared = !share(SHARED);
	struct kvm_sregs sregs;

	begin();
	say(shared && told(record), "told: a record before a reset");
	end();
	memset(record, PATTERN, ECS_SIZE);
	sregs = unpaged(vm.vcpu[0].fd);
	MUST(vm.vcpu[0].fd, KVM_SET_SREGS, &sregs);
	begin();
	say(untouched(record) && claims_are(false), "untouched: it, while another system starts");
	end();
	set_mode(vm.vcpu[0].fd);
	begin();
	say(untouched(record) && claims_are(false), "untouched: it, when that has started");
	end();
	memset(record, 0, ECS_SIZE);
	shared = !share(SHARED);
	begin();
	say(shared && told(record), "told: a record that it shares");
	end();
	run->s.regs.sregs = unpaged(vm.vcpu[0].fd);
	run->kvm_dirty_regs = KVM_SYNC_X86_SREGS;
	begin();
	say(untouched(record) && claims_are(false), "untouched: it, after a reset at the begin of a run");
	end();
	set_mode(vm.vcpu[0].fd);
	memset(record, 0, ECS_SIZE);
}

/*
 * As another vCPU resets it, within KVM_RUN. What starts is in real mode:
 *	sti; 1: incl FREE_FROM; jmp 1b
 */
static void check_init(void)
{
	static const unsigned char code[] = { 0xfb, 0x66, 0xff, 0x06, FREE_FROM & 0xff,
					      FREE_FROM >> 8, 0xeb, 0xf9 };
	char *firmware = map_memory(NULL, PAGE, -1);
	bool shared = !share(SHARED);
	struct kvm_vcpu_events events;

	memcpy(firmware + RESET % PAGE, code, sizeof(code));
	if (set_slot(&vm, FIRMWARE_SLOT, RESET & -PAGE, firmware, PAGE, 0))
		fail(FAILED, "slot %u: %s", FIRMWARE_SLOT, strerror(errno));
	begin();
	say(shared && told(record), "told: a record before an INIT");
	end();
	memset(record, PATTERN, ECS_SIZE);
	MUST(vm.vcpu[0].fd, KVM_GET_VCPU_EVENTS, &events);
	events.flags |= KVM_VCPUEVENT_VALID_SMM;
	events.smi.latched_init = 1;
	MUST(vm.vcpu[0].fd, KVM_SET_VCPU_EVENTS, &events);
	begin();
	/* The run has begun with the record still shared. */
	say(look() && untouched(record) && claims_are(false),
	    "untouched: it, after an INIT in the midst of a run");
	end();
	set_mode(vm.vcpu[0].fd);
	set_slot(&vm, FIRMWARE_SLOT, RESET & -PAGE, NULL, 0, 0);
	munmap(firmware, PAGE);
	memset(record, 0, ECS_SIZE);
}

/* Each claim alone, and those that come together. */
static void check_kinds(void)
{
	static const struct {
		uint64_t non_preemptable, preemptable;
		const char *kind;
	} known[] = {
		{ 0, 0, "preempt_kernel" },
		{ ECS_LOCK, 0, "preempt_lock" },
		{ ECS_READ, 0, "preempt_reader" },
		{ ECS_IRQ, 0, "preempt_irq" },
		{ ECS_SPINNER, 0, "preempt_waiter" },
		{ 0, ECS_MUTEX, "preempt_mutex" },
		{ 0, ECS_RWSEM_READ, "preempt_reader" },
		{ 0, ECS_RCU, "preempt_rcu" },
		{ 0, ECS_WAITER, "preempt_waiter" },
		{ ECS_SPINNER | ECS_LOCK, 0, "preempt_stuck" },
		{ ECS_SPINNER, ECS_MUTEX, "preempt_stuck" },
		{ ECS_LOCK, ECS_WAITER, "preempt_stuck" },
		{ ECS_IRQ | ECS_SPINNER | ECS_LOCK, ECS_MUTEX, "preempt_irq" },
		{ ECS_READ | ECS_LOCK, ECS_MUTEX | ECS_RCU, "preempt_lock" },
		{ 0, ECS_RWSEM_READ | ECS_RCU, "preempt_reader" },
		{ ECS_BORROWED, ECS_BORROWED, "preempt_kernel" },
	};
	char text[128];
	size_t i;

	memset(record, 0, ECS_SIZE);
	say(!share(SHARED), "shared: a record, for what it claims");
	begin();
	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		record->non_preemptable = known[i].non_preemptable;
		record->preemptable = known[i].preemptable;
		snprintf(text, sizeof(text), "counted: %#llx, %#llx as %s",
			 (unsigned long long)known[i].non_preemptable,
			 (unsigned long long)known[i].preemptable, known[i].kind);
		look();		/* what was preempted before has said something else */
		say(counted_as(known[i].kind), text);
	}
	end();
	memset(record, 0, ECS_SIZE);
}

static void check_slots(void)
{
	struct record *other = map_memory(NULL, SHARED_SIZE, -1);

	record->non_preemptable = ECS_LOCK;
	say(!share(SHARED), "shared: a record that claims a lock");
	begin();
	say(told(record) && claims_are(true), "told: its claims are read");
	delete_slot();
	say(untouched(record) && claims_are(false), "untouched: the slot was deleted");
	put_slot(SHARED, record, 0);
	say(told(record) && claims_are(true), "told: the slot is back");
	put_slot(ELSEWHERE, record, 0);
	say(untouched(record) && claims_are(false), "untouched: the slot was moved");
	put_slot(SHARED, record, 0);
	say(told(record) && claims_are(true), "told: the slot was moved back");
	delete_slot();
	put_slot(SHARED, record, KVM_MEM_READONLY);
	say(untouched(record) && claims_are(false), "untouched: the slot is read-only");
	delete_slot();
	put_slot(SHARED, other, 0);
	say(told(other), "told: other memory in the slot");
	say(untouched(record), "untouched: the memory that was in it");
	end();
	put_memory(record);
	munmap(other, SHARED_SIZE);
}

static void check_mappings(void)
{
	void *page = record;

	say(!share(SHARED), "shared: a record in memory of its own");
	begin();
	say(told(record) && claims_are(true), "told: it is there");
	mprotect(page, PAGE, PROT_NONE);
	say(claims_are(false), "unknown: it cannot be read");
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	say(told(record), "told: it can be read again");
	memset(page, PATTERN, ECS_SIZE);
	mprotect(page, PAGE, PROT_READ);
	say(claims_are(true), "read: it cannot be written");
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	say(told(record), "told: it can be written again");
	madvise(page, PAGE, MADV_DONTNEED);
	say(claims_are(false) && !is_present(page), "unknown: it was given back, and stays so");
	say(told(record), "told: there is a page again");
	munmap(page, PAGE);
	say(claims_are(false), "unknown: it was unmapped");
	map_memory(page, PAGE, -1);
	say(told(record), "told: it was mapped again");
	end();
}

static long long blocks(void)
{
	struct stat about;

	fstat(file, &about);
	return about.st_blocks;
}

/* What the host would hold on to would not go, and be another page than the next one. */
static void check_file(void)
{
	struct record *old = record;

	put_memory(map_memory(NULL, SHARED_SIZE, file));
	say(!share(SHARED), "shared: a record in a file");
	begin();
	say(told(record) && blocks(), "told: it is there");
	fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SHARED_SIZE);
	say(claims_are(false) && !blocks(), "unknown: it was punched out, and stays so");
	say(told(record), "told: there is a page again");
	if (ftruncate(file, 0))
		fail(FAILED, "the file cannot be cut: %s", strerror(errno));
	say(claims_are(false) && !blocks(), "unknown: the file was cut");
	if (ftruncate(file, SHARED_SIZE))
		fail(FAILED, "the file cannot grow: %s", strerror(errno));
	say(told(record), "told: the file has its length again");
	madvise(record, PAGE, MADV_DONTNEED);
	end();
	say(record->preempted == 1, "not told: it runs, which its page was not there for");
	say(!share(SHARED) && !record->preempted, "told: the same, when it shares the record again");
	munmap(record, SHARED_SIZE);
	put_memory(old);
}

/*
 * The child has a copy; the parent's page is a copy on write until it is written. The vCPU stands
 * still until there are both: what the host writes before is in both.
 */
static void check_fork(void)
{
	int go[2], status;
	bool was_told;
	pid_t child;
	char byte;

	say(!share(SHARED), "shared: a record before a fork");
	begin();
	told(record);
	end();
	memset(record, PATTERN, ECS_SIZE);
	if (pipe(go))
		fail(FAILED, "no pipe: %s", strerror(errno));
	child = fork();
	if (!child) {
		unsigned int i = 0;

		close(go[1]);
		if (read(go[0], &byte, 1) < 0)
			_exit(2);
		while (i < ECS_SIZE && ((unsigned char *)record)[i] == PATTERN)
			i++;
		_exit(i < ECS_SIZE);
	}
	begin();
	was_told = told(record);
	close(go[0]);
	close(go[1]);
	say(was_told, "told: the parent's record after a fork");
	waitpid(child, &status, 0);
	say(WIFEXITED(status) && !WEXITSTATUS(status), "untouched: the child's copy");
	end();
}

/* What the kernel of a guest has there, whatever the record says. */
static void check_free_kinds(void)
{
	static const struct {
		uint32_t count;
		uint32_t nesting;
		uint64_t non_preemptable;
		const char *kind;
		int64_t task_off;		/* from where it is */
	} known[] = {
		{ 0x80000000, 0, 0, "preempt_kernel", 0 },
		{ 0, 0, 0, "preempt_kernel", 0 },		/* and a wish to switch */
		{ 0x80000001, 0, 0, "preempt_lock", 0 },
		{ 0x80000100, 0, 0, "preempt_irq", 0 },	/* a soft interrupt */
		{ 0x80010000, 0, 0, "preempt_irq", 0 },	/* a hard one */
		{ 0x80100000, 0, 0, "preempt_irq", 0 },	/* NMI */
		{ 0x80000000, 1, 0, "preempt_rcu", 0 },
		{ 0x80000001, 0, ECS_SPINNER, "preempt_waiter", 0 },
		{ 0x80000002, 1, ECS_SPINNER, "preempt_stuck", 0 },
		{ 0x80000000, -1, 0, "preempt_kernel", 0 },
		/* Below the map of the guest's memory, where its nesting would be OUTSIDE. */
		{ 0x80000000, 1, 0, "preempt_kernel", -(int64_t)(SHARED + 3 * PAGE) - 8 },
		/* Not aligned, where half of the nesting would be a 1. */
		{ 0x80000000, 1 << 16, 0, "preempt_kernel", 2 },
	};
	char *pages = (char *)record;
	uint32_t *count = (uint32_t *)(pages + PAGE);
	uint64_t *task = (uint64_t *)(pages + 2 * PAGE);
	uint32_t *nesting = (uint32_t *)(pages + 3 * PAGE + 16);
	uint32_t *outside = (uint32_t *)(vm.own + OUTSIDE);
	char text[128];
	size_t i;

	memset(pages, 0, ECS_SIZE);
	name_layout();
	*outside = 1;
	say(!hypercall(HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, SHARED + 2 * PAGE, ~TASK_MASK | 16),
	    "shared: a record, a preempt count and a task");
	begin();
	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		*count = known[i].count;
		*nesting = known[i].nesting;
		*task = ~TASK_MASK + SHARED + 3 * PAGE + known[i].task_off;
		record->non_preemptable = known[i].non_preemptable;
		snprintf(text, sizeof(text), "counted: %#x, nesting %d, task at %+lld as %s",
			 known[i].count, (int)known[i].nesting, (long long)known[i].task_off,
			 known[i].kind);
		look();
		say(counted_as(known[i].kind), text);
	}
	end();
	memset(pages, 0, 4 * PAGE);
	*outside = 0;
}

static void check_free_form(void)
{
	char *pages = (char *)record;
	uint32_t *count = (uint32_t *)(pages + PAGE);
	uint64_t *task = (uint64_t *)(pages + 2 * PAGE);

	memset(pages, 0, ECS_SIZE);
	name_layout();
	*count = 0x80000000;		/* none, and no wish to switch */
	*task = ~TASK_MASK + NOWHERE;
	say(!hypercall(HC_ECS, SHARED | ECS_FREE, SHARED + PAGE, SHARED + 2 * PAGE, ~TASK_MASK | 16),
	    "shared: a record, a preempt count, and a task that is nowhere");
	begin();
	say(told(record) && claims_are(true), "told: it is there");
	madvise(pages + PAGE, PAGE, MADV_DONTNEED);
	say(told(record) && claims_are(false), "unknown: the preempt count was given back");
	*count = 0x80000000;
	madvise(pages + 2 * PAGE, PAGE, MADV_DONTNEED);
	say(told(record) && claims_are(true), "read: the task was given back");
	munmap(pages + PAGE, 2 * PAGE);
	say(told(record) && claims_are(false), "unknown: both were unmapped");
	end();
	map_memory(pages + PAGE, 2 * PAGE, -1);
}

/* A live migration has to see what the host writes. */
static void check_dirty_log(void)
{
	uint64_t bits[SHARED_SIZE / PAGE / 64] = { };
	struct kvm_dirty_log log = { .slot = SHARED_SLOT, .dirty_bitmap = bits };

	put_slot(SHARED, record, KVM_MEM_LOG_DIRTY_PAGES);
	say(!share(SHARED), "shared: a record in memory that is logged");
	begin();
	say(told(record), "told: it is there");
	MUST(vm.fd, KVM_GET_DIRTY_LOG, &log);
	say(bits[0] == 1, "logged: its page, and no other");
	end();
	put_slot(SHARED, record, 0);
}

static void set_steal_time(void)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry msr;
	} one = { { .nmsrs = 1 }, { .index = MSR_STEAL_TIME, .data = STEAL_TIME | 1 } };

	if (MUST(vm.vcpu[0].fd, KVM_SET_MSRS, &one) != 1)
		fail(FAILED, "the host has no record of steal time");
}

/* Whether one of MARKS preemptions was not marked, and whether the guest was told of all. */
static bool one_unmarked(const char *code, const struct call *registers, bool *all_told)
{
	const volatile unsigned char *told_there = (unsigned char *)record + PAGE + 16;
	unsigned long long before;
	bool found = false;
	unsigned int i;

	*all_told = true;
	begin_with(code, registers);
	look();			/* it may have been preempted before its first exit */
	before = counted(&vm, "preempt_unmarked");
	for (i = 0; i < MARKS && !found; i++) {
		if (!look())
			fail(FAILED, "a vCPU does not run any more");
		*all_told &= *told_there == 1;
		found = counted(&vm, "preempt_unmarked") != before;
	}
	end();
	return found;
}

/* It is preempted in the guest and while the host handles its exits; the latter is what counts. */
static bool is_marked(const char *code, const struct call *registers)
{
	bool all_told;

	return !one_unmarked(code, registers, &all_told) && all_told;
}

static bool is_left_out(const char *code, const struct call *registers)
{
	bool all_told;

	return one_unmarked(code, registers, &all_told);
}

static void set_real_mode(int vcpu)
{
	struct kvm_segment code = { .type = 11, .s = 1, .present = 1, .limit = 0xffff };
	struct kvm_segment data = { .type = 3, .s = 1, .present = 1, .limit = 0xffff };
	struct kvm_sregs sregs;

	MUST(vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.ss = sregs.fs = sregs.gs = data;
	sregs.cr0 = 0x10;		/* ET */
	sregs.cr4 = 0;
	sregs.efer = 0;
	MUST(vcpu, KVM_SET_SREGS, &sregs);
}

/* Whose vCPU is marked as preempted for its guest, with pvsync.mark=exit, and whose is not. */
static void check_marks(void)
{
	static const struct call moves = { .nr = STEAL_TIME | 1, .a1 = MSR_STEAL_TIME },
				 stays = { .nr = 0, .a1 = MSR_PV_EOI };

	tune(&vm, "mark", "exit");
	say(is_left_out(guest_cpuid, &none), "left out: it has no record of steal time");
	set_steal_time();
	say(is_marked(guest_cpuid, &none), "marked: its exits are harmless");
	say(is_marked(guest_wrmsr, &stays), "marked: it writes to an MSR");
	say(is_left_out(guest_wrmsr, &moves), "left out: it says anew where its record is");
	say(is_left_out(guest_port, &none), "left out: its exits may be emulated");
	set_real_mode(vm.vcpu[0].fd);
	say(is_left_out(guest_real, &none), "left out: it is in real mode");
	set_mode(vm.vcpu[0].fd);
	tune(&vm, "mark", "kvm");
	say(is_left_out(guest_cpuid, &none), "left out: KVM is to decide");
	memset((char *)record + PAGE, 0, PAGE);
}

static unsigned int used(const struct kvm_dirty_gfn *ring)
{
	unsigned int i, number = 0;

	for (i = 0; i < RING_ENTRIES; i++)
		number += !!(ring[i].flags & KVM_DIRTY_GFN_F_DIRTY);
	return number;
}

/* What the host would write each time that the vCPU is switched has no room in a ring. */
static void check_dirty_ring(void)
{
	const struct kvm_dirty_gfn *ring;
	unsigned int before;

	vm = make_vm(1, RING, true);
	ring = mmap(NULL, RING, PROT_READ, MAP_SHARED, vm.vcpu[0].fd,
		    KVM_DIRTY_LOG_PAGE_OFFSET * PAGE);
	if (ring == MAP_FAILED)
		fail(FAILED, "the dirty ring cannot be mapped: %s", strerror(errno));
	put_slot(SHARED, record, 0);
	say(!share(SHARED), "shared: a record in a guest with a dirty ring");
	begin();
	say(told(record), "told: it is there");
	put_slot(SHARED, record, KVM_MEM_LOG_DIRTY_PAGES);
	before = used(ring);
	say(untouched(record), "untouched: it is logged");
	say(claims_are(true), "read: it is logged");
	say(used(ring) == before, "not logged: what was not written");
	put_slot(SHARED, record, 0);
	say(told(record), "told: it is logged no more");
	end();
	tune(&vm, "mark", "exit");
	set_steal_time();
	say(is_left_out(guest_cpuid, &none), "left out: its VM has a dirty ring");
}

/* vCPUs are named by the IDs of controllers that the host has. */
static void check_no_apics(void)
{
	vm = make_vm(1, 0, false);
	say(hypercall(HC_FEATURES, 0, 0, 0, 0) == (ALL_FEATURES & ~FEATURE_TLB),
	    "answer: features without controllers");
	say(hypercall(HC_TLB, 1, 0, 0, 0) == NOT_OFFERED, "answer: flush without controllers");
}

/* KVM has no map of IDs if two vCPUs have the same: all flush, whoever is named. */
static void check_no_names(void)
{
	struct kvm_lapic_state apic;
	unsigned long long before;

	vm = make_vm(2, 0, true);
	before = counted(&vm, "tlb_in_host");
	say(!hypercall(HC_TLB, 1, 0, 0, 0) && counted(&vm, "tlb_in_host") == before + 1,
	    "flushed: one vCPU, by its name");
	MUST(vm.vcpu[1].fd, KVM_GET_LAPIC, &apic);
	memset(apic.regs + APIC_ID, 0, sizeof(uint32_t));
	MUST(vm.vcpu[1].fd, KVM_SET_LAPIC, &apic);
	say(hypercall(HC_TLB, 1u << MAX_VCPUS, 0, 0, 0) == 1u << MAX_VCPUS &&
	    counted(&vm, "tlb_in_host") == before + 3, "flushed: both, as two have one name");
}

int main(int argc, char **argv)
{
	optind = 1;
	no_arguments(argc, argv, "none");
	on_signal_leave();
	sched_getaffinity(0, sizeof(elsewhere), &elsewhere);
	CPU_SET(pin(0), &home);
	CPU_XOR(&elsewhere, &elsewhere, &home);
	file = memfd_create("record", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, SHARED_SIZE))
		fail(FAILED, "no file in memory: %s", strerror(errno));
	record = map_memory(NULL, SHARED_SIZE, -1);
	vm = make_vm(2, 0, true);
	put_slot(SHARED, record, 0);
	check_answers();
	check_refusal_ends_sharing();
	check_reset();
	check_init();
	check_overcommitted();
	check_kinds();
	check_slots();
	check_mappings();
	check_file();
	check_fork();
	check_free_form();
	check_free_kinds();
	check_dirty_log();
	check_marks();
	check_dirty_ring();
	check_no_apics();
	check_no_names();
	return !!failures;
}
