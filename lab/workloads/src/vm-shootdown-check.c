// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtual machine's monitor whose one vCPU takes a page away from the other one, has the
 * host flush it, and gives it a new use, while the monitor is in the midst of a
 * write to that page for an instruction of the other's: a line "ok" or "not ok" for each
 * thing that is to come of it, status 1 if one is not. Runs on the host, as root.
 *
 *	this thread, vCPU 0			thread of vCPU 1
 *	-------------------			----------------
 *						an instruction writes to address
 *						address -> page, to be emulated
 *						held up
 *	entry of the page table = another page
 *	PVSYNC_HC_TLB: await vCPU 1?
 *	     yes: let it go on, and wait until	writes to the page, runs on
 *	     it has run an instruction more
 *	new use: fill the page
 *	let it go on, if it does not yet	too late to write to the page
 *	what is in the page?
 *
 * It is the monitor that is held up, with a write to memory that only it may write to, as that
 * of a device: the host's kernel has translated the address by then. Nothing rests on timing.
 * Vice versa, a vCPU that is not in the midst of an instruction is not to be awaited.
 */
#define _GNU_SOURCE
#include "small-vm.h"

#define PATIENCE	(10 * NS_PER_S)
#define LEVEL1		0x5000ul	/* page table of ADDRESS, which is the first in it */
#define ADDRESS		(16ul << 20)
#define STALE		0xeeul		/* what vCPU 1 writes */
#define FRESH		0x5a		/* of the page's new use */
#define TARGET		2ul		/* vCPU 1, by name */
#define CALLS		50
#define SOME		5		/* of those may come while the target is on its way in */

/*
 * Count at r8; in between write to rsi what is in rax; run; or halt.
 */
extern const char target_code[], target_write[], target_spin[], target_halt[],
		  target_end[];
__asm__(".pushsection .rodata\n"
	"target_code:\n"
	"target_write:	mov %al, (%rsi)\n"
	"	incq (%r8)\n"
	"	jmp target_write\n"
	"target_spin:	incq (%r8)\n"
	"	jmp target_spin\n"
	"target_halt:	incq (%r8)\n"
	"	hlt\n"
	"	jmp target_halt\n"
	"target_end:\n"
	".popsection\n");
#define TARGET_CODE	(CODE + 0x800)

static unsigned int failures;
static struct vm vm;
static unsigned char *pages;		/* slot 1: the first is taken away */
static pthread_t target;
static int target_cpu;
static cpu_set_t all;			/* CPUs that there are */
static volatile bool stop, held, let_go;

static void say(bool good, const char *what)
{
	printf("%sok %s\n", good ? "" : "not ", what);
	fflush(stdout);
	failures += !good;
}

static uint64_t turns(void)
{
	return *(volatile uint64_t *)(vm.own + FREE_FROM);
}

static void rest(void)
{
	struct timespec moment = { .tv_nsec = 200000 };

	nanosleep(&moment, NULL);
}

/* Wait until vCPU 1 has come to this turn. */
static void await(uint64_t turn)
{
	uint64_t began = now_ns();

	while (turns() < turn) {
		rest();
		if (now_ns() - began > PATIENCE)
			fail(FAILED, "vCPU 1 does not run any more");
	}
}

static void point_to(unsigned int page)
{
	*(volatile uint64_t *)(vm.own + LEVEL1) = (SHARED + page * PAGE) | 3;
}

static long shoot(void)
{
	struct kvm_regs regs = { .rip = code_at(guest_call), .rflags = FLAGS, .rax = HC_TLB,
				 .rbx = TARGET };
	struct vcpu *vcpu = &vm.vcpu[0];
	int error;

	MUST(vcpu->fd, KVM_SET_REGS, &regs);
	do
		error = enter(vcpu);
	while (error == EINTR);
	if (error || vcpu->run->exit_reason != KVM_EXIT_IO)
		fail(FAILED, "a hypercall ended with error %d, exit %u", error,
		     vcpu->run->exit_reason);
	MUST(vcpu->fd, KVM_GET_REGS, &regs);
	return regs.rax;
}

/* As the memory would be written if the host could: some time after the exit. */
static void write_for(const struct kvm_run *run)
{
	unsigned long offset = run->mmio.phys_addr - SHARED;

	if (!run->mmio.is_write || offset >= SHARED_SIZE)
		fail(FAILED, "vCPU 1 accesses %#llx", (unsigned long long)run->mmio.phys_addr);
	if (offset < PAGE) {
		held = true;
		while (!let_go && !stop)
			rest();
	}
	memcpy(pages + offset, run->mmio.data, run->mmio.len);
}

static void *run_target(void *unused)
{
	struct vcpu *vcpu = &vm.vcpu[1];
	int error;

	(void)unused;
	running = vcpu->run;
	if (sched_setaffinity(0, sizeof(all), &all))
		fail(FAILED, "a thread cannot change its CPU: %s", strerror(errno));
	pin(target_cpu);
	while (!stop) {
		error = enter(vcpu);
		if (error == EINTR)
			continue;
		if (error || vcpu->run->exit_reason != KVM_EXIT_MMIO)
			fail(FAILED, "vCPU 1 ended with error %d, exit %u", error,
			     vcpu->run->exit_reason);
		write_for(vcpu->run);
	}
	return NULL;
}

static void begin(const char *code)
{
	struct kvm_mp_state runnable = { KVM_MP_STATE_RUNNABLE };
	struct kvm_regs regs = {
		.rip = TARGET_CODE + (code - target_code), .rflags = FLAGS, .rax = STALE,
		.rsi = ADDRESS, .r8 = FREE_FROM,
	};

	*(volatile uint64_t *)(vm.own + FREE_FROM) = 0;
	point_to(0);
	memset(pages, 0, 2 * PAGE);
	MUST(vm.vcpu[1].fd, KVM_SET_MP_STATE, &runnable);
	MUST(vm.vcpu[1].fd, KVM_SET_REGS, &regs);
	vm.vcpu[1].run->immediate_exit = 0;
	stop = held = let_go = false;
	start_thread(&target, run_target, NULL);
}

static void end(void)
{
	stop = true;
	pthread_kill(target, SIGUSR1);
	pthread_join(target, NULL);
}

static void wait_for_write(void)
{
	uint64_t began = now_ns();

	while (!held) {
		rest();
		if (now_ns() - began > PATIENCE)
			fail(FAILED, "vCPU 1 does not write");
	}
}

static bool is_fresh(void)
{
	unsigned int i;

	for (i = 0; i < PAGE; i++)
		if (pages[i] != FRESH)
			return false;
	return true;
}

static void check_awaited(void)
{
	char text[128];
	long answer;

	if (set_slot(&vm, SHARED_SLOT, SHARED, pages, SHARED_SIZE, KVM_MEM_READONLY))
		fail(FAILED, "slot 1: %s", strerror(errno));
	begin(target_write);
	wait_for_write();
	point_to(1);
	answer = shoot();
	snprintf(text, sizeof(text), "awaited: a vCPU whose write is held up: %ld", answer);
	say(answer == TARGET, text);
	if (answer > 0) {
		let_go = true;
		await(2);
	}
	memset(pages, FRESH, PAGE);
	let_go = true;
	await(turns() + 2);
	say(is_fresh(), "kept: the page, when it has been written");
	end();
	set_slot(&vm, SHARED_SLOT, SHARED, NULL, 0, 0);
}

/* How many of some calls say that the vCPU is to be awaited. */
static unsigned int awaited(void)
{
	unsigned int i, number = 0;

	for (i = 0; i < CALLS; i++) {
		long answer = shoot();

		if (answer != 0 && answer != TARGET)
			fail(FAILED, "a flush was answered with %ld", answer);
		number += answer == TARGET;
		rest();
	}
	return number;
}

static void check_known(const char *what, const char *code, int cpu)
{
	unsigned int number;
	char text[128];

	if (set_slot(&vm, SHARED_SLOT, SHARED, pages, SHARED_SIZE, 0))
		fail(FAILED, "slot 1: %s", strerror(errno));
	target_cpu = cpu;
	begin(code);
	await(1);
	shoot();		/* From now on it says when it loses its CPU. */
	rest();
	number = awaited();
	snprintf(text, sizeof(text), "known: a vCPU that %s: %u of %u awaited", what, number, CALLS);
	say(number <= SOME, text);
	end();
	set_slot(&vm, SHARED_SLOT, SHARED, NULL, 0, 0);
	target_cpu = 1;
}

int main(int argc, char **argv)
{
	struct kvm_lapic_state apic;

	optind = 1;
	no_arguments(argc, argv, "none");
	on_signal_leave();
	sched_getaffinity(0, sizeof(all), &all);
	pin(0);
	target_cpu = 1;
	pages = map_memory(NULL, SHARED_SIZE, -1);
	vm = make_vm(2, 0, true);
	/* KVM looks for names when one is set, and when a vCPU is created, but not for its own. */
	MUST(vm.vcpu[1].fd, KVM_GET_LAPIC, &apic);
	MUST(vm.vcpu[1].fd, KVM_SET_LAPIC, &apic);
	memcpy(vm.own + TARGET_CODE, target_code, target_end - target_code);
	((uint64_t *)(vm.own + TABLES))[1024 + ADDRESS / SHARED_SIZE] = LEVEL1 | 3;
	check_awaited();
	check_known("runs on another CPU", target_spin, 1);
	check_known("is preempted", target_spin, 0);
	check_known("has halted", target_halt, 1);
	return !!failures;
}
