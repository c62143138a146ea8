/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A virtual machine of a few vCPUs and no kernel, for programs that are its monitor: they
 * own its memory, and take it away while it is in use. All vCPUs are in 64-bit mode at
 * privilege level 0, with interrupts disabled and the first GiB mapped one to one.
 *
 *	guest-physical	slot
 *	0		0	1 MiB that stays: code, page tables, the program's own
 *	8 MiB		1	2 MiB that the program does with as it likes
 */
#ifndef PVSYNC_SMALL_VM_H
#define PVSYNC_SMALL_VM_H

#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common.h"

#define PAGE		4096ul
#define MAX_VCPUS	8u
#define OWN_SIZE	(1ul << 20)
#define CODE		0x1000ul
#define TABLES		0x2000ul	/* three pages */
#define FREE_FROM	0x8000ul	/* the program's */
#define SHARED_SLOT	1u
#define SHARED		(8ul << 20)
#define SHARED_SIZE	(2ul << 20)
#define BUSY_PAGES	8ul	/* of these: guest_storm writes to them */

/* See <linux/pvsync/abi.h>. */
#define HC_FEATURES	0x70760000ul
#define HC_HELP		0x70760001ul
#define HC_ECS		0x70760003ul
#define HC_GIVE_BACK	0x70760004ul
#define HC_TLB		0x70760005ul
#define ECS_COUNT	1ul
#define ECS_FREE	4ul
#define ECS_SILENT	3ul
#define ECS_SIZE	128ul
#define ECS_LAYOUT	16	/* of the preempt count, in the record */
#define ECS_LOCK	(1ull << 0)
#define ECS_READ	(1ull << 16)
#define ECS_IRQ		(1ull << 32)
#define ECS_SPINNER	(1ull << 48)
#define ECS_MUTEX	(1ull << 0)
#define ECS_RWSEM_READ	(1ull << 16)
#define ECS_RCU		(1ull << 32)
#define ECS_WAITER	(1ull << 48)
#define ECS_BORROWED	(1ull << 63)
#define TASK_MASK	((1ul << 30) - 1)
#define FEATURE_TLB	8
#define ALL_FEATURES	13
/*
 * Interrupts enabled, though nobody sends any: under Bochs 2.7 a vCPU that is entered with
 * them disabled is not left for the host's either.
 */
#define FLAGS		0x202
#define REFUSED		(-22)
#define NOT_OFFERED	(-1000)

/* One hypercall: its number and arguments. */
struct call {
	uint64_t nr, a0, a1, a2, a3;
};

/* What came of the calls that guest_storm makes. */
struct answers {
	uint64_t accepted, refused, not_offered, unexpected;
};

struct vcpu {
	int fd;
	struct kvm_run *run;
};

struct vm {
	int fd;
	char *own;		/* slot 0 */
	unsigned int vcpus;
	struct vcpu vcpu[MAX_VCPUS];
};

/*
 * What vCPUs run, at CODE. guest_call makes the call in its registers, and the monitor
 * finds the answer in rax when it is told of the port. guest_spin counts at rdi, and so do
 * guest_cpuid, guest_real, which is the same in real mode, guest_wrmsr, which writes rdx:rax
 * to MSR rcx, and guest_port, each with an exit that the host's kernel handles. guest_storm
 * makes calls out of the table at r8, of which r9 is the number less 1, chosen by the random
 * number in r12, counts the answers at r13, and after each writes to a word of the
 * BUSY_PAGES at r11 and reads it, whether they are there or not.
 */
extern const char guest_code[], guest_call[], guest_spin[], guest_cpuid[], guest_real[],
		  guest_wrmsr[], guest_port[], guest_storm[], guest_end[];
__asm__(".pushsection .rodata\n"
	"guest_code:\n"
	"guest_call:	vmmcall\n"
	"	out %al, $0x10\n"
	"	jmp guest_call\n"
	"guest_spin:	incq (%rdi)\n"
	"	jmp guest_spin\n"
	"guest_cpuid:	incq (%rdi)\n"
	"	cpuid\n"
	"	jmp guest_cpuid\n"
	".code16\n"
	"guest_real:	incl (%di)\n"
	"	cpuid\n"
	"	jmp guest_real\n"
	".code64\n"
	"guest_wrmsr:	incq (%rdi)\n"
	"	wrmsr\n"
	"	jmp guest_wrmsr\n"
	"guest_port:	incq (%rdi)\n"
	"	in $0x21, %al\n"		/* of the interrupt controller */
	"	jmp guest_port\n"
	"guest_storm:\n"
	"	movabs $6364136223846793005, %r14\n"
	"	movabs $1442695040888963407, %r15\n"
	"1:	imul %r14, %r12\n"
	"	add %r15, %r12\n"
	"	mov %r12, %rbp\n"
	"	shr $40, %rbp\n"
	"	and %r9, %rbp\n"
	"	imul $40, %rbp\n"
	"	mov (%r8,%rbp), %rax\n"
	"	mov 8(%r8,%rbp), %rbx\n"
	"	mov 16(%r8,%rbp), %rcx\n"
	"	mov 24(%r8,%rbp), %rdx\n"
	"	mov 32(%r8,%rbp), %rsi\n"
	"	vmmcall\n"
	"	xor %edi, %edi\n"		/* accepted */
	"	test %rax, %rax\n"		/* features, or vCPUs to await */
	"	jns 2f\n"
	"	mov $8, %edi\n"			/* refused */
	"	cmp $-22, %rax\n"
	"	je 2f\n"
	"	mov $16, %edi\n"		/* not offered */
	"	cmp $-1000, %rax\n"
	"	je 2f\n"
	"	mov $24, %edi\n"		/* unexpected */
	"2:	incq (%r13,%rdi)\n"
	"	mov %r12, %rbp\n"
	"	shr $20, %rbp\n"
	"	and $0x7ff8, %ebp\n"
	"	mov %r12, (%r11,%rbp)\n"
	"	mov (%r11,%rbp), %rbp\n"
	"	jmp 1b\n"
	"guest_end:\n"
	".popsection\n");

static inline unsigned long code_at(const char *label)
{
	return CODE + (label - guest_code);
}

/* An ioctl that has to succeed. */
static inline int must(int fd, unsigned long request, unsigned long argument, const char *what)
{
	int answer = ioctl(fd, request, argument);

	if (answer < 0)
		fail(FAILED, "%s: %s", what, strerror(errno));
	return answer;
}

#define MUST(fd, request, argument)	must(fd, request, (unsigned long)(argument), #request)

static inline void *map_memory(void *where, size_t size, int file)
{
	int flags = (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) |
		    (where ? MAP_FIXED : 0);
	void *memory = mmap(where, size, PROT_READ | PROT_WRITE, flags, file, 0);

	if (memory == MAP_FAILED)
		fail(FAILED, "no memory: %s", strerror(errno));
	return memory;
}

/* What the guest has at an address; no memory with a size of 0. */
static inline int set_slot(struct vm *vm, unsigned int slot, unsigned long gpa, void *memory,
			   unsigned long size, unsigned int flags)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot, .flags = flags, .guest_phys_addr = gpa, .memory_size = size,
		.userspace_addr = (unsigned long)memory,
	};

	return ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region);
}

/* The other vendor's instruction has the same length. */
static inline void put_code(char *where)
{
	size_t i, size = guest_end - guest_code;

	memcpy(where, guest_code, size);
	if (!is_intel())
		return;
	for (i = 0; i + 2 < size; i++)
		if (!memcmp(where + i, "\x0f\x01\xd9", 3))
			where[i + 2] = '\xc1';
}

static inline void put_page_tables(char *own)
{
	uint64_t *level4 = (void *)(own + TABLES), *level3 = level4 + 512, *level2 = level3 + 512;
	unsigned int i;

	level4[0] = (TABLES + PAGE) | 3;
	level3[0] = (TABLES + 2 * PAGE) | 3;
	for (i = 0; i < 512; i++)
		level2[i] = (uint64_t)i << 21 | 0x83;
}

#define MAX_CPUID	256u

/* All that there is; without that, a vCPU has no 64-bit mode. */
static inline void set_cpuid(int kvm, int vcpu)
{
	struct kvm_cpuid2 *all = calloc(1, sizeof(*all) + MAX_CPUID * sizeof(*all->entries));

	if (!all)
		fail(FAILED, "no memory");
	all->nent = MAX_CPUID;
	MUST(kvm, KVM_GET_SUPPORTED_CPUID, all);
	MUST(vcpu, KVM_SET_CPUID2, all);
	free(all);
}

static inline void set_mode(int vcpu)
{
	struct kvm_mp_state runnable = { KVM_MP_STATE_RUNNABLE };
	struct kvm_segment code = { .type = 11, .s = 1, .present = 1, .l = 1, .g = 1,
				    .limit = ~0u, .selector = 8 };
	struct kvm_segment data = { .type = 3, .s = 1, .present = 1, .db = 1, .g = 1,
				    .limit = ~0u, .selector = 16 };
	struct kvm_sregs sregs;

	MUST(vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.ss = sregs.fs = sregs.gs = data;
	sregs.cr0 = 0x80000011;		/* PG, ET, PE */
	sregs.cr3 = TABLES;
	sregs.cr4 = 0x20;		/* PAE */
	sregs.efer = 0x500;		/* LMA, LME */
	MUST(vcpu, KVM_SET_SREGS, &sregs);
	MUST(vcpu, KVM_SET_MP_STATE, &runnable);
}

/*
 * With a dirty ring of so many bytes, or none; interrupt controllers in the host's kernel, or
 * none; and nothing in slot 1.
 */
static inline struct vm make_vm(unsigned int vcpus, unsigned long ring, bool apics)
{
	struct kvm_enable_cap dirty_ring = { .cap = KVM_CAP_DIRTY_LOG_RING, .args = { ring } };
	struct vm vm = { .vcpus = vcpus };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), size;
	unsigned int i;

	if (kvm < 0)
		fail(FAILED, "/dev/kvm: %s", strerror(errno));
	vm.fd = MUST(kvm, KVM_CREATE_VM, 0);
	if (ring)
		MUST(vm.fd, KVM_ENABLE_CAP, &dirty_ring);
	if (apics)
		MUST(vm.fd, KVM_CREATE_IRQCHIP, 0);
	vm.own = map_memory(NULL, OWN_SIZE, -1);
	put_code(vm.own + CODE);
	put_page_tables(vm.own);
	if (set_slot(&vm, 0, 0, vm.own, OWN_SIZE, 0))
		fail(FAILED, "slot 0: %s", strerror(errno));
	size = MUST(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	for (i = 0; i < vcpus; i++) {
		vm.vcpu[i].fd = MUST(vm.fd, KVM_CREATE_VCPU, i);
		vm.vcpu[i].run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
				      vm.vcpu[i].fd, 0);
		if (vm.vcpu[i].run == MAP_FAILED)
			fail(FAILED, "a vCPU cannot be mapped: %s", strerror(errno));
		set_cpuid(kvm, vm.vcpu[i].fd);
		set_mode(vm.vcpu[i].fd);
	}
	close(kvm);
	return vm;
}

/* The vCPU that the calling thread runs; a signal ends that. */
static __thread struct kvm_run *running;

static void leave_guest(int number)
{
	(void)number;
	if (running)
		running->immediate_exit = 1;
}

/* Let SIGUSR1 end what enter() runs. */
static inline void on_signal_leave(void)
{
	struct sigaction action = { .sa_handler = leave_guest };

	sigaction(SIGUSR1, &action, NULL);
}

/* Run a vCPU until it needs something: 0, or the error. */
static inline int enter(struct vcpu *vcpu)
{
	running = vcpu->run;
	return ioctl(vcpu->fd, KVM_RUN, 0) ? errno : 0;
}

/* One of the files that pvsync has for the VM. */
static inline FILE *open_file(const struct vm *vm, const char *name, const char *mode)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%d-%d/pvsync/%s", getpid(), vm->fd,
		 name);
	file = fopen(path, mode);
	if (!file)
		fail(FAILED, "%s: %s", path, strerror(errno));
	return file;
}

/* Give the VM a parameter of its own. */
static inline void tune(const struct vm *vm, const char *name, const char *value)
{
	FILE *file = open_file(vm, name, "w");
	bool taken = fputs(value, file) >= 0;

	if (fclose(file) || !taken)
		fail(FAILED, "%s does not take %s", name, value);
}

/* A number of the VM's that pvsync counts. */
static inline unsigned long long counted(const struct vm *vm, const char *name)
{
	FILE *file = open_file(vm, "counters", "r");
	unsigned long long value;
	char line[128], found[64];

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %llu", found, &value) == 2 && !strcmp(found, name)) {
			fclose(file);
			return value;
		}
	fail(FAILED, "there is no counter %s", name);
}

#endif /* PVSYNC_SMALL_VM_H */
