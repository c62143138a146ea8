// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions of the kernel in user space, one instruction at a time:
 * uncontended [native | pv-pmt] [count]
 *
 * The kernel's object files are linked in as they are. Per-CPU variables are plain ones,
 * as %gs begins at 0. What the kernel does to its code at boot is done here, from its own
 * tables: `native` has a spinlock released by one store, without it pv_ops says by which
 * function, the kernel's or that of pv-pmt; `count` switches on what pvsync.ecs=count does.
 *
 * The processor's trap flag stops after each instruction: what is counted are those that
 * the processor ran, with nothing in between that translates them, and they are the same each
 * time. A no-op in the place of a branch is one of them. cli and sti, which fault here, are
 * stepped over and count. A line for each function says `NAME INSTRUCTIONS NOOPS`, the latter
 * being part of the former. Whatever leaves the fast path ends the program with status 1.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define TF		0x100
#define CLI		0xfa
#define STI		0xfb
#define NOT_PVUNLOCK	(1 << 16 | (8 * 32 + 20))	/* ALT_NOT(X86_FEATURE_PVUNLOCK) */
#define DIRECT_CALL	(1 << 17)			/* one call becomes another */

/* What the kernel's files refer to and that is in none of those that are linked. */

struct {
	void	*task;
	int	preempt_count;
	int	cpu;
	char	rest[240];
} pcpu_hot __attribute__((aligned(64)));
extern typeof(pcpu_hot) const_pcpu_hot __attribute__((alias("pcpu_hot")));
unsigned long this_cpu_off;
void *pv_ops[128];
long pvsync_ecs[16] __attribute__((aligned(64)));

static char task[16384] __attribute__((aligned(64)));

/* A static key; only its address counts. */
char pvsync_ecs_count_key[16];

/* Where the paths end that are counted. Their own instructions are not. */
#define OUTSIDE __attribute__((section("outside"), noinline))
extern char __start_outside[], __stop_outside[];
OUTSIDE void __SCT__might_resched(void) { }
OUTSIDE void on_each_cpu_cond_mask(void) { }
OUTSIDE int idle_cpu(int cpu) { return 0; }

/* The kernel's tables. */

struct jump_entry {
	int32_t	code, target;
	int64_t	key;
};

struct alt_instr {
	int32_t		instr, repl;
	uint32_t	feature;
	uint8_t		length, repl_length;
} __attribute__((packed));

extern struct jump_entry __start___jump_table[], __stop___jump_table[];
extern struct alt_instr __start_alternatives[], __stop_alternatives[];
extern uintptr_t __start___mcount_loc[], __stop___mcount_loc[];

static void fail(const char *what, const void *where)
{
	fprintf(stderr, "%s at %p\n", what, where);
	_exit(1);
}

/* What an offset in a table, from where it is itself, leads to. */
static uint8_t *code(const void *offset)
{
	int32_t distance;

	memcpy(&distance, offset, sizeof(distance));
	return (uint8_t *)offset + distance;
}

static void patch(uint8_t *where, const void *what, size_t length)
{
	uintptr_t page = (uintptr_t)where & ~4095UL;

	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) &&
	    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		fail("no writing", where);
	memcpy(where, what, length);
}

/* As arch_jump_label_transform(). */
static void switch_on(const char *key)
{
	int sites = 0;

	for (struct jump_entry *e = __start___jump_table; e < __stop___jump_table; e++) {
		uint8_t *site = code(&e->code), jump[5];
		int32_t offset = code(&e->target) - site;

		if ((char *)&e->key + (e->key & ~3L) != key)
			continue;
		if (site[0] == 0x66 && site[1] == 0x90) {
			jump[0] = 0xeb;
			jump[1] = offset - 2;
			patch(site, jump, 2);
		} else if (site[0] == 0x0f && site[1] == 0x1f) {
			jump[0] = 0xe9;
			offset -= 5;
			memcpy(jump + 1, &offset, 4);
			patch(site, jump, 5);
		} else {
			fail("no no-op", site);
		}
		sites++;
	}
	if (!sites)
		fail("nothing to switch on", key);
}

/* As apply_alternatives(). */
static void native_unlock(void)
{
	static const uint8_t noops[3][3] = { { 0x90 }, { 0x66, 0x90 }, { 0x0f, 0x1f, 0x00 } };

	for (struct alt_instr *a = __start_alternatives; a < __stop_alternatives; a++) {
		size_t rest = a->length - a->repl_length;

		if (a->feature != NOT_PVUNLOCK)
			continue;
		if (rest > 3)
			fail("no no-op as long as that", code(&a->instr));
		patch(code(&a->instr), code(&a->repl), a->repl_length);
		if (rest)
			patch(code(&a->instr) + a->repl_length, noops[rest - 1], rest);
	}
}

/* As ftrace_init(): every function that can be traced begins with a call of the tracer. */
static void trace_nothing(void)
{
	static const uint8_t noop[5] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	for (uintptr_t *call = __start___mcount_loc; call < __stop___mcount_loc; call++)
		patch((uint8_t *)*call, noop, sizeof(noop));
}

static long instructions, noops;
static char *end;

/* The instruction at @ip is next. */
static void next(ucontext_t *context, uint8_t *ip)
{
	if ((char *)ip == end) {
		context->uc_mcontext.gregs[REG_EFL] &= ~TF;
		return;
	}
	if ((char *)ip >= __start_outside && (char *)ip < __stop_outside)
		return;
	for (struct alt_instr *a = __start_alternatives; a < __stop_alternatives; a++)
		if (code(&a->instr) == ip && a->feature != NOT_PVUNLOCK &&
		    !(a->feature & DIRECT_CALL))
			fail("an instruction that the kernel replaces", ip);
	instructions++;
	while (*ip == 0x66)
		ip++;
	noops += *ip == 0x90 || (ip[0] == 0x0f && ip[1] == 0x1f);
}

static void trapped(int number, siginfo_t *info, void *context)
{
	next(context, (uint8_t *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
}

static void faulted(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint8_t *ip = (uint8_t *)registers[REG_RIP];

	if (!ip || (*ip != CLI && *ip != STI))
		fail("off the path: fault", ip);
	registers[REG_RIP]++;
	next(context, ip + 1);
}

/* Call @function(@first, @second) step by step; what it returns. */
static unsigned long stepped(void *function, unsigned long first, unsigned long second)
{
	unsigned long result = (unsigned long)function;

	instructions = noops = 0;
	asm volatile("leaq 1f(%%rip), %%rcx\n\t"
		     "movq %%rcx, %[end]\n\t"
		     "pushf\n\t"
		     "orl %[tf], (%%rsp)\n\t"
		     "popf\n\t"
		     "call *%%rax\n"
		     "1:"
		     : "+a" (result), "+D" (first), "+S" (second), [end] "=m" (end)
		     : [tf] "i" (TF)
		     : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}

#define OPERATIONS(x)							\
	x(_raw_spin_lock, begins, lock)					\
	x(_raw_spin_unlock, ends, lock)					\
	x(_raw_spin_trylock, begins, lock)				\
	x(_raw_spin_unlock, ends, lock)					\
	x(_raw_spin_lock_irqsave, begins, lock)				\
	x(_raw_spin_unlock_irqrestore, ends, lock)			\
	x(_raw_spin_lock_bh, begins, lock)				\
	x(_raw_spin_unlock_bh, ends, lock)				\
	x(_raw_read_lock, begins, lock)					\
	x(_raw_read_unlock, ends, lock)					\
	x(_raw_write_lock, begins, lock)				\
	x(_raw_write_unlock, ends, lock)				\
	x(lockref_get, begins, lock)					\
	x(lockref_put_return, ends, lock)				\
	x(mutex_lock, begins, lock)					\
	x(mutex_unlock, ends, lock)					\
	x(mutex_trylock, begins, lock)					\
	x(mutex_unlock, ends, lock)					\
	x(down_read, begins, lock)					\
	x(up_read, ends, lock)						\
	x(down_read_trylock, begins, lock)				\
	x(up_read, ends, lock)						\
	x(down_write, begins, lock)					\
	x(up_write, ends, lock)						\
	x(down_write_trylock, begins, lock)				\
	x(up_write, ends, lock)						\
	x(__rcu_read_lock, begins, task)				\
	x(__rcu_read_unlock, ends, task)				\
	x(irq_enter_rcu, begins, &pcpu_hot)				\
	x(irq_exit_rcu, ends, &pcpu_hot)				\
	x(flush_tlb_kernel_range, neither, NULL)			\
	x(flush_tlb_all, neither, NULL)

#define DECLARE(name, ...) extern char name[];
OPERATIONS(DECLARE)
extern char __raw_callee_save___pv_queued_spin_unlock[];
extern char __raw_callee_save___pvsync_pv_unlock[] __attribute__((weak));

enum what { begins, ends, neither };

/* The lock's first word, or all of the task or the CPU, differs within and is as before after. */
static void operate(const char *name, void *function, enum what what, void *object)
{
	static char before[sizeof(task)];
	static unsigned long result;
	size_t size = object == task ? sizeof(task) : object == &pcpu_hot ? sizeof(pcpu_hot) : 8;

	if (what == begins)
		memcpy(before, object, size);
	result = stepped(function, (unsigned long)object, what == ends ? result : 8192);
	if (what != neither && !memcmp(before, object, size) != (what == ends))
		fail("no change, or one that stays", function);
	printf("%s %ld %ld\n", name, instructions, noops);
}

int main(int argc, char **argv)
{
	static unsigned char stack[65536];
	static char lock[256] __attribute__((aligned(64)));
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
	void *unlock = __raw_callee_save___pv_queued_spin_unlock;

	trace_nothing();
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "native"))
			native_unlock();
		else if (!strcmp(argv[i], "pv-pmt"))
			unlock = __raw_callee_save___pvsync_pv_unlock;
		else if (!strcmp(argv[i], "count"))
			switch_on(pvsync_ecs_count_key);
		else
			fail(argv[i], NULL);
	for (size_t i = 0; i < sizeof(pv_ops) / sizeof(*pv_ops); i++)
		pv_ops[i] = unlock;
	pcpu_hot.task = task;
	pcpu_hot.preempt_count = 1;
	sigaltstack(&other, NULL);
	action.sa_sigaction = trapped;
	sigaction(SIGTRAP, &action, NULL);
	action.sa_sigaction = faulted;
	sigaction(SIGSEGV, &action, NULL);

#define OPERATE(name, what, object) operate(#name, name, what, object);
	OPERATIONS(OPERATE)
	return 0;
}
