/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TLB shootdown by hypercall, the host's part, on x86-TSO: when a call has
 * returned, no target's guest uses the old translation; a caller waits for no
 * target that is outside its guest; and the kernel's own check of this, by
 * sequence numbers, never fires. With EMULATION, once the caller has awaited whom the
 * answer names, no host uses what it translated for a target's instruction before.
 *
 * vCPUs 0..TARGETS-1 are flushed by all others that call; vCPUs
 * CALLERS_FROM..VCPUS-1 call CALLS times each. Each caller changes a page table
 * entry of its own. A vCPU may be both.
 *
 *	caller					target, interrupts off
 *	------					----------------------
 *	[S]   entry = new
 *	      hypercall
 *	[RmW] list: lock, append, unlock
 *	[RmW] request = true			[S]   mode = IN_GUEST
 *	      MB (1)				      MB (2)
 *	[RmW] mode: IN_GUEST -> EXITING		[L]   request: if true, outside again
 *	      unless OUTSIDE: IPI, wait		[L]   entry, in the guest
 *	[RmW] returned = seq			[L]   returned: done is not before it
 *	      return				[S]   mode = OUTSIDE
 *						      interrupts on: IPI, ack
 *
 *	caller					target, interrupts on
 *	------					---------------------
 *	[RmW] list: lock, append,		[RmW] request = false
 *	      seq = ++asked, unlock		      MB (4)
 *	      WMB (3)				[RmW] list: lock, take,
 *	[RmW] request = true			      done = asked, unlock
 *						      flush
 *
 *	(1) in kvm_vcpu_exiting_guest_mode(), (2) in vcpu_enter_guest(),
 *	(3) in __kvm_make_request(), (4) in kvm_check_request()
 *
 * What a target goes through:
 *
 *	mode		interrupts
 *	OUTSIDE		on		request? take the list, flush
 *	IN_GUEST	off		request? OUTSIDE, and from the start
 *	IN_GUEST	in the guest	a caller may make it EXITING
 *	IN_GUEST or	off		the kernel's check
 *	EXITING
 *	OUTSIDE		off		and from the start
 *
 * Where interrupts are on, its thread may be preempted and never run again.
 * Elsewhere IPIs stay pending. The guest may be left at any time, for an IPI or
 * anything else. An exit after which the guest goes on with mode as it is, is
 * none here.
 *
 * Stores go through a store buffer of the vCPU, in order, and reach memory at
 * any later time; an atomic operation or MB() empties the buffer first. Leaving
 * the guest does not. What is done under a list's lock is one step: nobody
 * looks at a list without its lock.
 *
 * With MIGRATE the target's thread may go to another physical CPU and back.
 * Translations stay where they are, and a flush by address drops those of the
 * CPU that it runs on. KVM sees to the rest: on Intel processors, each time the
 * thread comes to another CPU, all are dropped there before the guest is entered.
 * On AMD processors (ASID), it is a new address space identifier if the guest is
 * entered on another CPU than the last time, and a flush of all is noted with
 * the vCPU until it is entered. A thread that goes to another CPU, flushes by
 * address and comes back before it has entered the guest has flushed nothing
 * there; so it flushes by address only where it last was in the guest, with
 * preemption disabled.
 *
 * With MIXED (pvsync.tlb=mixed) the caller first looks which targets the host has
 * marked as preempted, in shared memory, leaves KVM's note for those, and makes the
 * hypercall for the others. A target that is not marked any more when the note is
 * made gets an interrupt of the guest, whose handler flushes; it is waited for, also
 * if it is preempted then, as with KVM's own flushes.
 *
 *	caller					target's thread, interrupts on
 *	------					------------------------------
 *	[S]   entry = new			[S]   mark = PREEMPTED, loses its CPU
 *	[L]   mark: PREEMPTED?			      MB, gets a CPU
 *	[RmW] mark: PREEMPTED -> NOTED		[RmW] mark = 0: if it was NOTED, flush
 *	      unless it has changed:		      enters the guest
 *	      interrupt, wait
 *
 * With EMULATION the guest may be left with an instruction that the host executes, with
 * interrupts on: it reads the entry, or keeps the address that the exit came with,
 * may be preempted, and uses it later. All other exits are harmless. The caller looks
 * after its IPIs which targets are past that, and makes the others take an interrupt,
 * which they do in the guest. Only a target whose thread is not preempted for good takes it.
 *
 *	caller					target
 *	------					------
 *	[S]   entry = new			[S]   settled = harmless, and request
 *	      request, IPI, as above		[S]   mode = OUTSIDE
 *	      MB					      interrupts on: IPI, ack
 *	[L]   done, settled: past it?		[S]   settled = true, if harmless: preempted
 *	      no: interrupt, wait			[L]   entry, emulating
 *	      frees the page			      done = asked, unless emulating
 *
 * KVM's at_instruction_boundary and a halt are as settled is: set after a harmless exit,
 * and not any more in the guest.
 *
 * With RELAXED_SET_BIT the request is a plain store: no less than Linux promises
 * of set_bit(), and less than x86 has.
 *
 * Mutations, each of which has to be found:
 *	NO_MB_ENTRY	no (2)
 *	NO_MB_CALLER	no (1), and mode is only read; with RELAXED_SET_BIT
 *	NO_RECHECK	no look at the request with interrupts off
 *	NO_WAIT		the caller sends the IPI and does not wait
 *	IPI_ONLY_RUNNING_NO_MARK
 *			no request for a target that is outside
 *	CLEAR_AFTER	the target takes the list, and then clears the request
 *	LIST_AFTER_REQUEST
 *			the caller makes the request, and then appends the range
 *	DROP_MERGED	a range without room in the list is forgotten
 *	ACK_EARLY	IPIs are taken although interrupts are off
 *	IN_GUEST_ONLY	no IPI to a target that another caller has made EXITING
 *	WAIT_FLUSH	the caller waits until the target has seen the request
 *	CPU_EARLY	where the target runs is read before the request is made
 *	FLUSH_ANYWHERE	flushes by address on a CPU where it was not in the guest
 *			last; with MIGRATE and ASID
 *	CHECK_LATE	the kernel's check comes after mode = OUTSIDE
 *	NOTE_ANYWAY	with MIXED: the note is made whatever the mark is by then
 *	NO_INTERRUPT	with MIXED: a target that is not marked any more is left
 *	LOAD_STORE_MARK	with MIXED: the host looks for the note, and then clears the mark
 *	MARK_LATE	with MIXED: the mark is cleared after the guest is entered
 *	NO_AWAIT	with EMULATION, as all that follow: the caller awaits nobody
 *	LOOK_EARLY	it looks who has settled before its request and its IPIs
 *	OLD_DONE	the request before its own will do
 *	SETTLED_STAYS	an exit does not take back what was said of the one before
 *	SETTLED_LATE	it does so when the mode says already that it is outside
 *	EXIT_SETTLES	an exit with a request to serve settles, whatever it is
 *	SETTLE_ANY	a thread that is preempted settles, whatever it is at
 *	MARK_EMULATING	with MIXED, too: the host marks it as preempted, whatever it is at
 *
 * No errors, with a reason each:
 *	NO_MB_CALLER	without RELAXED_SET_BIT: the atomic operation that makes
 *			the request is a barrier on x86
 *	FLUSH_ANYWHERE	without ASID: all are dropped wherever the thread comes to
 *	WAIT_IRQS_OFF	the caller waits with interrupts off. Whoever it waits for
 *			was in the guest when it looked, and so looks at modes
 *			after it, if at all, and finds it outside: no circle. The
 *			host's other IPIs, not modelled, do not look at modes.
 */
#ifndef VCPUS
#define VCPUS		3
#endif
#ifndef TARGETS
#define TARGETS		1
#endif
#ifndef CALLERS_FROM
#define CALLERS_FROM	1
#endif
#ifndef CALLS
#define CALLS		2
#endif
/* Ranges in a list; one more makes it full. */
#ifndef CAPACITY
#define CAPACITY	1
#endif
#define FULL		(CAPACITY + 1)

/* With MIGRATE, one more for one target to go to. */
#ifdef MIGRATE
#if TARGETS > 1
#error MIGRATE needs TARGETS=1
#endif
#define CPUS		(VCPUS + 1)
#else
#define CPUS		VCPUS
#endif

/* The assertions: what must hold, and what the kernel can check of it. */
#ifdef NO_STALE
#define USE(version, c)	true
#define EMULATE(version) true
#else
#define USE(version, c)	assert(version > oldest[c])
#define EMULATE(version) assert(version > freed)
#endif
#ifdef NO_SEQUENCE
#define CHECK(me)	true
#else
#define CHECK(me)	assert(NOT_BEFORE(seq[me].done, seq[me].returned))
#endif

/* Sequence numbers wrap within a run. */
#define START		254
#define NEXT(seq)	(((seq) + 1) & 255)
#define NOT_BEFORE(a, b) ((((a) - (b)) & 255) < 128)

#define OUTSIDE		0
#define IN_GUEST	1
#define EXITING		2

/* Versions of the entries; the oldest that may still be used. */
byte entry[VCPUS];
byte oldest[VCPUS];

#ifdef EMULATION
#if defined(MIGRATE) || CALLERS_FROM < TARGETS
#error EMULATION needs targets that stay and do not call
#endif
bool settled[TARGETS];
/* Interrupts of the guest, a bit for each caller. */
byte awaits[TARGETS];
/* The last caller's page: the oldest version that may be used by emulation. */
byte freed;
#endif

/* A target's translations: 0 for none, or the entry's version + 1. */
#define TLB(me, c)	tlb[(me) * VCPUS + (c)]
byte tlb[TARGETS * VCPUS];
#ifdef ASID
/* What it has left on the other physical CPU. */
byte left[VCPUS];
#endif

byte mode[TARGETS];
bool request[TARGETS];
byte cpu[TARGETS];

#ifdef MIXED
#define PREEMPTED	1
#define NOTED		2
byte mark[TARGETS];
/* Interrupts of the guest: a bit for each caller. */
byte interrupts[TARGETS];
#define NAMED(i)	((marked & (1 << (i))) == 0)
#define CLEAR_MARKED()	marked = 0
#else
#define NAMED(i)	true
#define CLEAR_MARKED()	skip
#endif

/* Under the list's lock. */
byte ranges[TARGETS];
byte length[TARGETS];

/* The kernel's check. */
typedef numbers {
	byte asked = START;
	byte done = START;
	byte returned = START
};
numbers seq[TARGETS];

/* Physical CPUs: interrupts off, and IPIs that wait for their handler. */
bool off[CPUS];
#define IPI(on, from)	(1 << (4 * (on) + (from)))
#define IPIS_ON(on)	(15 << (4 * (on)))
#define IPIS_FROM(from)	(4369 << (from))
int pending;

/* Store buffers. */
#define ENTRY		0
#define MODE		1
#define CPU		2
#define REQUEST		3
#define SETTLED		4
chan buffer[VCPUS] = [2] of { byte, byte };
/* Registers within a step; Spin cannot search breadth first with hidden ones. */
#ifdef SHORTEST
byte what, value, i;
#else
hidden byte what, value, i;
#endif

inline reach_memory(me)
{
	buffer[me]?what,value;
	if
	:: what == ENTRY -> entry[me] = value
	:: what == MODE -> mode[me] = value
	:: what == CPU -> cpu[me] = value
	:: what == REQUEST -> request[value] = true
#ifdef EMULATION
	:: what == SETTLED -> settled[me] = value
#endif
	fi
}

inline drain(me)
{
	do
	:: nempty(buffer[me]) -> reach_memory(me)
	:: empty(buffer[me]) -> break
	od
}

inline MB(me)
{
	d_step { drain(me) }
}

/* The buffers reach memory whenever they like. */
proctype memory(byte me)
{
end:	do
	:: d_step { nempty(buffer[me]) -> reach_memory(me) }
	od
}

/* A physical CPU takes its IPIs, whatever thread it runs. */
proctype handler(byte on)
{
end:	do
#ifdef ACK_EARLY
	:: d_step { pending & IPIS_ON(on) -> pending = pending & ~IPIS_ON(on) }
#else
	:: d_step {
		(pending & IPIS_ON(on)) && !off[on] ->
#ifdef EMULATION
		/* That it is taken is a store of this CPU, after those of the thread. */
		drain(on);
#endif
		pending = pending & ~IPIS_ON(on)
	   }
#endif
	od
}

/* Interrupts are on: the thread may not run again. */
inline preempt()
{
	if
	:: true
#ifndef WAIT_IRQS_OFF
	:: true -> goto stopped
#endif
	fi
}

inline append(me)
{
	d_step {
		drain(me);
		seq[to].asked = NEXT(seq[to].asked);
		mine[to] = seq[to].asked;
		if
		:: length[to] < CAPACITY ->
			ranges[to] = ranges[to] | (1 << me);
			length[to]++
#ifndef DROP_MERGED
		:: length[to] == CAPACITY ->
			ranges[to] = 0;
			length[to] = FULL
#endif
		:: else
		fi
	}
}

inline make_request(me)
{
#ifdef RELAXED_SET_BIT
	buffer[me]!REQUEST,to
#else
	d_step { drain(me); request[to] = true }
#endif
}

inline look(me)
{
	d_step {
#ifdef NO_MB_CALLER
		seen = mode[to]
#else
		drain(me);
		seen = mode[to];
		if
		:: seen == IN_GUEST -> mode[to] = EXITING
		:: else
		fi
#endif
	}
}

#ifdef IN_GUEST_ONLY
#define NEEDS_IPI	(seen == IN_GUEST)
#else
#define NEEDS_IPI	(seen != OUTSIDE)
#endif

/* Sent at once: from then on the handler may run, and need not for a while. */
inline send(me)
{
	if
#ifdef CPU_EARLY
	:: NEEDS_IPI -> pending = pending | IPI(at, me)
#else
	:: NEEDS_IPI -> pending = pending | IPI(cpu[to], me)
#endif
	:: !NEEDS_IPI
	fi;
	seen = OUTSIDE
}

/* From here on the entry's old versions must not be used. */
inline call_returns(me)
{
	d_step {
		i = 0;
		do
		:: i < TARGETS && i != me ->
			if
			:: NAMED(i) && NOT_BEFORE(mine[i], seq[i].returned) ->
				seq[i].returned = mine[i]
			:: else
			fi;
			mine[i] = 0;
			i++
		:: i == me -> i++
		:: i >= TARGETS && i != me -> break
		od;
		oldest[me] = round;
		CLEAR_MARKED();
#ifdef WAIT_IRQS_OFF
		off[me] = false;
#endif
		to = 0;
		at = 0
	}
}

#ifdef MIXED
/* kvm_flush_tlb_multi() of those that vcpu_is_preempted() said are. */
inline note(me)
{
	to = 0;
	do
	:: d_step {
		to < TARGETS ->
		if
		:: mark[to] != 0 -> marked = marked | (1 << to)
		:: else
		fi;
		to++
	   }
	:: to == TARGETS -> break
	od;
	to = 0;
	do
	:: to < TARGETS && !NAMED(to) ->
		at = mark[to];
		d_step {
			drain(me);
			if
#ifdef NOTE_ANYWAY
			:: true -> mark[to] = NOTED
#else
			:: at != 0 && mark[to] == at -> mark[to] = NOTED
#endif
#ifndef NO_INTERRUPT
			:: else -> interrupts[to] = interrupts[to] | (1 << me)
#else
			:: else
#endif
			fi;
			at = 0;
			to++
		}
	:: to < TARGETS && NAMED(to) -> to++
	:: to == TARGETS -> break
	od;
	to = 0;
end_waits:
	do
	:: to < TARGETS && (interrupts[to] & (1 << me)) == 0 -> to++
	:: to == TARGETS -> break
	od
}
#endif

#ifdef EMULATION
/* Whom the answer names. */
inline look_who_is_past(me)
{
	to = 0;
	do
#ifdef MIXED
	:: to < TARGETS && !NAMED(to) -> to++
#endif
	:: to < TARGETS && NAMED(to) ->
		d_step {
			drain(me);
#ifdef OLD_DONE
			at = NOT_BEFORE(seq[to].done, mine[to] - 1)
#else
			at = NOT_BEFORE(seq[to].done, mine[to])
#endif
		};
		d_step {
			if
#ifdef LOOK_EARLY
			:: at || (early & (1 << to))
#else
			:: at || settled[to]
#endif
			:: else -> awaited = awaited | (1 << to)
			fi;
			at = 0;
			to++
		}
	:: to == TARGETS -> break
	od;
	to = 0
}

/* In the guest. */
inline await(me)
{
	do
	:: to < TARGETS && (awaited & (1 << to)) ->
		d_step { drain(me); awaits[to] = awaits[to] | (1 << me) };
end_awaits:	(awaits[to] & (1 << me)) == 0;
		to++
	:: to < TARGETS && (awaited & (1 << to)) == 0 -> to++
	:: to == TARGETS -> break
	od;
	to = 0;
	d_step {
		if
		:: me == VCPUS - 1 -> freed = round
		:: else
		fi;
		awaited = 0
	}
}
#endif

/* The hypercall, in the caller's thread; interrupts are on. */
inline shoot(me)
{
#ifdef WAIT_IRQS_OFF
	off[me] = true;
#endif
#ifdef LOOK_EARLY
	to = 0;
	do
	:: d_step { to < TARGETS -> early = (settled[to] -> early | (1 << to) : early); to++ }
	:: to == TARGETS -> break
	od;
#endif
	to = (me == 0 -> 1 : 0);
	do
#ifdef MIXED
	:: to < TARGETS && !NAMED(to) -> to++
#endif
	:: to < TARGETS && NAMED(to) ->
#ifdef CPU_EARLY
		at = cpu[to];
#endif
#ifdef IPI_ONLY_RUNNING_NO_MARK
		append(me);
		look(me);
		if
		:: NEEDS_IPI -> make_request(me)
		:: !NEEDS_IPI
		fi;
#else
#ifdef LIST_AFTER_REQUEST
		make_request(me);
		append(me);
#else
		append(me);
		preempt();
		make_request(me);
#endif
		look(me);
#endif
		d_step {
			send(me);
			to++;
			if
			:: to == me -> to++
			:: else
			fi
		}
	:: to >= TARGETS -> break
	od;
#ifndef NO_WAIT
	(pending & IPIS_FROM(me)) == 0;
#endif
#ifdef WAIT_FLUSH
	!request[0];
#endif
#if defined(EMULATION) && !defined(NO_AWAIT)
	look_who_is_past(me);
#endif
	call_returns(me)
#ifdef EMULATION
	;
	await(me)
#endif
}

proctype caller(byte me)
{
	byte round = 0, to = 0, seen = OUTSIDE, at = 0;
	byte mine[TARGETS];
#ifdef MIXED
	byte marked = 0;
#endif
#ifdef EMULATION
	byte awaited = 0;
#ifdef LOOK_EARLY
	byte early = 0;
#endif
#endif

	do
	:: round < CALLS ->
		round++;
		buffer[me]!ENTRY,round;
#ifdef MIXED
		note(me);
#endif
		shoot(me)
	:: round == CALLS -> break
	od;
stopped:
	skip
}

inline clear(me)
{
	d_step { drain(me); request[me] = false }
}

#define ALL		128

inline take(me)
{
	d_step {
		drain(me);
		seq[me].done = seq[me].asked;
		todo = (length[me] == FULL -> ALL : ranges[me]);
		ranges[me] = 0;
		length[me] = 0
	}
}

/* Translations of the physical CPU that the thread is on. */
inline drop(me, which)
{
	i = 0;
	do
	:: i < VCPUS ->
		if
		:: which == ALL || (which & (1 << i)) -> TLB(me, i) = 0
		:: else
		fi;
		i++
	:: i == VCPUS -> break
	od
}

#ifdef FLUSH_ANYWHERE
#define BY_ADDRESS	(todo != ALL)
#else
#define BY_ADDRESS	(todo != ALL && on == entered_on)
#endif

inline flush(me)
{
	d_step {
		if
		:: BY_ADDRESS -> drop(me, todo)
#ifdef ASID
		:: else -> all = true
#else
		:: else -> drop(me, ALL)
#endif
		fi;
		todo = 0
	}
}

inline migrate(me)
{
	d_step {
		/* A context switch. */
		drain(me);
#ifdef ASID
		i = 0;
		do
		:: i < VCPUS ->
			value = TLB(me, i);
			TLB(me, i) = left[i];
			left[i] = value;
			i++
		:: i == VCPUS -> break
		od;
#else
		/* Some time before the guest is entered. */
		drop(me, ALL);
#endif
		on = (on == me -> VCPUS : me);
		buffer[me]!CPU,on
	}
}

#ifdef MIXED
/* A context switch, and another one some time. */
inline lose_cpu(me)
{
	d_step { mark[me] == 0 -> drain(me); mark[me] = PREEMPTED }
}

/* record_steal_time() */
inline clear_mark(me)
{
#ifdef LOAD_STORE_MARK
	d_step { mark[me] != 0 -> todo = (mark[me] == NOTED -> ALL : 0) };
	d_step {
		drain(me);
		mark[me] = 0;
		if
		:: todo == ALL -> drop(me, ALL)
		:: else
		fi;
		todo = 0
	}
#else
	d_step {
		mark[me] != 0 -> drain(me);
		if
		:: mark[me] == NOTED -> drop(me, ALL)
		:: else
		fi;
		mark[me] = 0
	}
#endif
}
#endif

#if defined(MIXED) && !defined(MARK_LATE)
#define MARKED(me)	(mark[me] != 0)
#else
#define MARKED(me)	false
#endif

/* A new address space identifier: nothing is left behind either. */
inline renew(me)
{
#ifdef ASID
	if
	:: all || on != entered_on ->
		i = 0;
		do
		:: i < VCPUS -> TLB(me, i) = 0; left[i] = 0; i++
		:: i == VCPUS -> break
		od
	:: else
	fi;
	all = false;
#endif
	entered_on = on
}

/* What the guest does with the entry of a caller. */
#define MAY_FILL(me, c)	((c) >= CALLERS_FROM && (c) != (me) && TLB(me, c) == 0)
#define MAY_USE(me, c)	((c) >= CALLERS_FROM && (c) != (me) && TLB(me, c) != 0)
#define INSTRUCTIONS(me, c)						\
	:: d_step { MAY_FILL(me, c) -> TLB(me, c) = entry[c] + 1 }	\
	:: d_step { MAY_USE(me, c) -> USE(TLB(me, c), c) }

#ifdef EMULATION
#ifdef SETTLE_ANY
#define MAY_SETTLE	(!told)
#else
#define MAY_SETTLE	(!told && harmless)
#endif

/* What the exit has left to be done, until the next entry begins. */
inline handle_exit(me)
{
	do
	:: true -> goto stopped
	:: emulates && walked == 0 -> walked = entry[VCPUS - 1] + 1
	:: d_step { walked != 0 -> EMULATE(walked); walked = 0 }
	:: MAY_SETTLE -> buffer[me]!SETTLED,true; told = true
#ifdef MARK_EMULATING
	:: lose_cpu(me)
	:: clear_mark(me)
#endif
	:: walked == 0 -> emulates = false; break
	od
}

/* Interrupts off. The address may be one of the guest's translations. */
inline leave_guest(me)
{
	d_step { told = false; harmless = false };
	if
	:: emulates = true
	:: d_step { TLB(me, VCPUS - 1) != 0 -> emulates = true; walked = TLB(me, VCPUS - 1) }
	:: harmless = true
	fi;
#ifdef SETTLED_LATE
	buffer[me]!MODE,OUTSIDE;
#endif
#ifndef SETTLED_STAYS
#ifdef EXIT_SETTLES
	d_step { nfull(buffer[me]) -> told = request[me]; buffer[me]!SETTLED,told }
#else
	d_step { nfull(buffer[me]) -> told = request[me] && harmless; buffer[me]!SETTLED,told }
#endif
#endif
}
#endif

proctype vcpu(byte me)
{
	byte round = 0, to = 0, seen = OUTSIDE, at = 0, on = me;
	bool calls = false;
	byte todo = 0, entered_on = me;
	bool all = false;
	byte mine[TARGETS];
#ifdef MIXED
	byte marked = 0;
#endif
#ifdef EMULATION
	byte walked = 0;
	bool emulates = false, harmless = false, told = false;
#endif

	do
	:: true ->
		/* Outside, interrupts on. */
#ifdef EMULATION
		handle_exit(me);
#endif
		if
		:: request[me] ->
#ifdef CLEAR_AFTER
			take(me);
			preempt();
			clear(me);
#else
			clear(me);
			preempt();
			take(me);
#endif
			do
			:: true -> goto stopped
#ifdef MIGRATE
			:: migrate(me)
#endif
			:: flush(me); break
			od
		:: !request[me]
		:: true -> goto stopped
		fi;
		do
		:: true -> goto stopped
#ifdef MIGRATE
		:: migrate(me)
#endif
#ifdef MIXED
		:: lose_cpu(me)
#ifndef MARK_LATE
		:: clear_mark(me)
#endif
#endif
#ifdef EMULATION
		:: MAY_SETTLE -> buffer[me]!SETTLED,true; told = true
#endif
		:: d_step {
			nfull(buffer[me]) && !MARKED(me) ->
				/* Outside, interrupts off. */
				off[on] = true;
				renew(me);
				buffer[me]!MODE,IN_GUEST
		   };
		   break
		od;
#ifndef NO_MB_ENTRY
		MB(me);
#endif
		if
#ifndef NO_RECHECK
		:: request[me]
		:: !request[me] ->
#else
		:: true ->
#endif
			/* The guest. */
			do
			INSTRUCTIONS(me, 0)
			INSTRUCTIONS(me, 1)
#if VCPUS > 2
			INSTRUCTIONS(me, 2)
#endif
#ifdef MIXED
			:: d_step { interrupts[me] != 0 -> drop(me, ALL); interrupts[me] = 0 }
#ifdef MARK_LATE
			:: clear_mark(me)
#endif
#endif
#ifdef EMULATION
			:: d_step { awaits[me] != 0 -> awaits[me] = 0 }
#endif
			:: round < CALLS && me >= CALLERS_FROM ->
				round++;
				buffer[me]!ENTRY,round;
				calls = true;
				break
			:: true -> break
			od
#ifndef CHECK_LATE
			;
			CHECK(me)
#endif
#ifdef EMULATION
			;
			leave_guest(me)
#endif
		fi;
		/* Outside again, interrupts off and then on. */
		buffer[me]!MODE,OUTSIDE;
		d_step {
#ifdef CHECK_LATE
			CHECK(me);
#endif
			off[on] = false
		}
#ifndef EMULATION
		;
		if
		:: calls -> preempt(); shoot(me); calls = false
		:: !calls
		fi
#endif
	od;
stopped:
	skip
}

init
{
	atomic {
		i = 0;
		do
		:: i < TARGETS -> cpu[i] = i; run vcpu(i); i++
		:: i >= TARGETS && i < VCPUS -> run caller(i); i++
		:: i == VCPUS -> break
		od;
		i = 0;
		do
		:: i < VCPUS -> run memory(i); i++
		:: i == VCPUS -> break
		od;
		i = 0;
		do
		:: i < CPUS -> run handler(i); i++
		:: i == CPUS -> break
		od
	}
}
