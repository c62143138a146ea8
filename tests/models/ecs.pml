/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The record that a vCPU and its host share (pvsync.ecs=count), and the time that
 * is lent for it: kernel/pvsync/ecs_count.c and ecs_loan.c in the guest,
 * arch/x86/kvm/pvsync/record.c and extend.c, kernel/pvsync/extend.c in the host.
 *
 *  (a) The words say what the guest is in, whoever interrupts whom between any two
 *      instructions, and wherever its tasks go.
 *  (b) A vCPU that leaves its last section on borrowed time gives it back: it does
 *      not go on with a loan and no section, but with an interrupt to take.
 *  (c) It gives back in no section, once for each time that the host tells it of its
 *      loan, and when the call returns it has none or was told of it again. The host
 *      does not take it for one that has given back when it is in a section again.
 *  (d) One loan until the CPU has been through the scheduler, none while the vCPU
 *      has no CPU; a request to switch that was put off comes again, each time, and
 *      that of a real-time task is never put off.
 *
 * One guest of VCPUS vCPUs and TASKS tasks, each with ROUNDS sections of any kind.
 * One step is one instruction of the guest. On a vCPU these come between any two:
 *
 *	NMI		a section of its own; not within itself
 *	interrupt	a section, and one within it; not with interrupts disabled
 *	task switch	to any task that has no CPU, or to none; if the task has
 *			preemption enabled, and the interrupts are
 *	exit		the host, at any time; while it is out, all of these stand still
 *
 * The host may let a vCPU stay that has a loan while it is in a section. With interrupts,
 * it may find one to be taken whenever it looks, and lend for it, or let a vCPU stay that
 * has a loan, given back or not. Time is not in the model: there may be any left, and so
 * a vCPU may stay any number of times.
 *
 * Store buffers do not matter: each word is written by one vCPU and by the host
 * thread that runs it, and an exit empties them. What the scheduler does with its
 * run queue locked is one step.
 *
 * A word is a byte: three bits of waits (SPINNER), four of sections, and BORROWED
 * as its sign. Sums carry as those of 64 bits do.
 *
 * Mutations, each of which has to be found:
 *	MARK_ONE	the host sets BORROWED in one of the words only
 *	MARK_RUNNING	the host sets it while the vCPU is in the guest
 *	LOAD_ADD_STORE	the guest adds with three instructions
 *	NO_SWITCH	the word does not follow the task
 *	SWITCH_STORES	the switch stores the word of the task that comes, and does
 *			not add the difference
 *	UNLOCK_SWITCH	the run queue's lock is released, and then the word follows
 *	NO_TELL		the subtraction is not looked at
 *	TELL_ONE	nor at the release of the run queue's lock
 *	CLEAR_LOOK	BORROWED is cleared, and then it is looked for sections
 *	LEFT_IRQS_ON	looked for with interrupts enabled
 *	LOOK_ONE	looked for in one word only
 *	NO_CALL		BORROWED is cleared, and the host not asked
 *	CALL_FIRST	the host is asked before it is looked for sections
 *	CALL_IGNORED	the host notes the call and asks for no switch
 *	NO_TIMER	nothing makes the request again
 *	PUT_OFF_UNLOCKED who waits and the request are two steps
 *	PUT_OFF_ALL	the host does not look who waits
 *	LEND_AGAIN	a loan is followed by a loan
 *	KEEP_LOAN	a thread that sleeps keeps its loan
 *	SPINNER_LAST	the wait is counted in the lowest field
 *	STAY_UNMARKED	a vCPU has given back and stays for an interrupt, and its
 *			words are not marked again
 *	STAY_RETURNED	it still counts as one that has given back
 *	STAY_FOREVER	nothing makes the request again when a vCPU stays
 *	STAY_BLIND	it stays without an interrupt to take
 *	STAY_REALTIME	it stays in its section, and the host does not look who waits
 *	DROP_QUIETLY	a loan ends and the thread goes on, and nothing makes the
 *			request again
 *	DROP_AND_LEND	the request is made again, and is put off for another loan
 *
 * No errors, with a reason each:
 *	NMI_LEFT	NMI handlers give back as well: that they leave it to what
 *			they interrupted is so that the call is made nowhere odd
 *	KEEP_MARK	BORROWED stays set when a loan ends: the next section's end
 *			looks, finds no loan, and clears it
 *
 * Not covered:
 *	NMI_LOANS	time lent for the section of an NMI handler alone is not
 *			given back: it ends by the timer
 */
#ifndef VCPUS
#define VCPUS	1
#endif
#ifndef TASKS
#define TASKS	1
#endif
#ifndef ROUNDS
#define ROUNDS	1
#endif

#define BORROWED	128
#define LOCK		1
#ifdef SPINNER_LAST
#define SPINNER		1
#else
#define SPINNER		16
#endif
#define SECTIONS	15
#define NOT_BORROWED	127

#define COUNTED(word)		((word) & SECTIONS)
#define IN_SECTION(word)	(COUNTED(word) != 0)
#define CLAIMS(c)		(IN_SECTION(stays[c]) || IN_SECTION(moves[c]))
#define PLUS(word, n)		(((word) + 256 + (n)) & 255)

/* No vCPU, and no task. The vCPU "none" is always out. */
#define NO_VCPU		VCPUS
#define NO_TASK		TASKS

/* The record: the guest's words, the host's flag. */
byte stays[VCPUS + 1];	/* non_preemptable */
byte moves[VCPUS + 1];	/* preemptable */
bool told[VCPUS + 1];	/* borrowed */

/* What a vCPU does: the innermost that is true runs. */
bool out[VCPUS + 1];
bool call[VCPUS + 1];
bool in_nmi[VCPUS + 1];
bool in_irq[VCPUS + 1];
bool switching[VCPUS + 1];
bool irqs_off[VCPUS + 1];
bool no_preempt[VCPUS + 1];

/* Where a task is, and its word while it is nowhere. */
byte on[TASKS + 1];
byte saved[TASKS + 1];

/* The host thread of a vCPU, and its CPU. */
bool requested[VCPUS];
bool realtime[VCPUS];
bool granted[VCPUS];
bool returned[VCPUS];
bool dropped[VCPUS];
bool timer[VCPUS];

/* What is true, for the assertions. */
byte sections[VCPUS + 1];	/* not preemptable, NMI handlers apart */
bool nmi_section[VCPUS + 1];
byte held[TASKS + 1];		/* preemptable, of a task */
byte whose[VCPUS + 1];		/* the task whose word is there */
bool put_off[VCPUS];
bool lent[VCPUS];
bool given[VCPUS];
bool for_nmi[VCPUS];		/* lent for nothing but an NMI handler */
bool for_irq[VCPUS];		/* lent for an interrupt that is still to be taken */

#define HELD(c)		(sections[c] != 0 || held[whose[c]] != 0)

#define WORDS_ARE_TRUE(c)						\
	assert(COUNTED(stays[c]) == sections[c] + nmi_section[c]);	\
	assert(COUNTED(moves[c]) == held[whose[c]])

/* (b), wherever a vCPU goes on outside of all that it does at the end of a section. */
#ifdef NMI_LOANS
#define NOTICED(c)	assert(!granted[c] || HELD(c) || for_irq[c])
#else
#define NOTICED(c)	assert(!granted[c] || HELD(c) || for_irq[c] || for_nmi[c])
#endif

#define NMI_RUNS(c)	(!out[c] && in_nmi[c])
#define IRQ_RUNS(c)	(!out[c] && !in_nmi[c] && in_irq[c])
#define SWITCH_RUNS(c)	(!out[c] && !in_nmi[c] && !in_irq[c] && switching[c])
#define TASK_RUNS(c)	(!out[c] && !in_nmi[c] && !in_irq[c] && !switching[c])

/*
 * Instructions of what runs on a vCPU. Of a task the vCPU may be another one at
 * each: c is an expression.
 */
#ifdef LOAD_ADD_STORE
#define ENTER(runs, c, word, truth)					\
	d_step { runs -> value = PLUS(word[c], LOCK) };			\
	d_step { runs -> word[c] = value; value = 0; truth++ }
#else
#define ENTER(runs, c, word, truth)					\
	d_step { runs -> word[c] = PLUS(word[c], LOCK); truth++ }
#endif

#ifdef NO_TELL
#define TOLD(word)	false
#else
#define TOLD(word)	(((word) & BORROWED) != 0)
#endif

#define LEAVE(runs, c, word, truth)					\
	d_step {							\
		runs -> word[c] = PLUS(word[c], -LOCK);			\
		truth--;						\
		negative = TOLD(word[c])				\
	}

/* pvsync_ecs_left() */
#define LOOK(runs, c)							\
	d_step { runs -> found = IN_SECTION(stays[c]) };		\
	LOOK_MOVES(runs, c)
#ifdef LOOK_ONE
#define LOOK_MOVES(runs, c)	skip
#else
#define LOOK_MOVES(runs, c)						\
	d_step { runs -> found = found || IN_SECTION(moves[c]) }
#endif

#define CLEAR(runs, c)							\
	d_step { runs -> stays[c] = stays[c] & NOT_BORROWED };		\
	d_step { runs -> moves[c] = moves[c] & NOT_BORROWED }

#ifdef NO_CALL
#define GIVE_BACK(runs, c)	skip
#else
#define GIVE_BACK(runs, c)						\
	d_step { runs -> borrowed = told[c] };				\
	if								\
	:: borrowed ->							\
		d_step { runs -> borrowed = false; out[c] = true; call[c] = true } \
	:: else								\
	fi
#endif

inline left(runs, c)
{
#ifndef LEFT_IRQS_ON
	/* An interrupt, and a task switch, have them off already. */
	d_step { runs -> was_off = irqs_off[c]; irqs_off[c] = true };
#endif
#ifdef CALL_FIRST
	GIVE_BACK(runs, c);
#endif
#ifdef CLEAR_LOOK
	CLEAR(runs, c);
	LOOK(runs, c);
#else
	LOOK(runs, c);
#endif
	if
	:: !found ->
#ifndef CLEAR_LOOK
		CLEAR(runs, c);
#endif
#ifndef CALL_FIRST
		GIVE_BACK(runs, c)
#else
		skip
#endif
	:: found
	fi;
	d_step {
		runs ->
#ifndef LEFT_IRQS_ON
		irqs_off[c] = was_off;
#endif
		negative = false;
		found = false;
		was_off = false
	}
}

inline left_if_told(runs, c)
{
	if
	:: negative -> left(runs, c)
	:: !negative
	fi
}

/* What every context of the guest has in its registers. */
#define REGISTERS							\
	bool negative = false, found = false, borrowed = false, was_off = false; \
	byte value = 0

#define HERE	on[me]
#define RUNS	TASK_RUNS(HERE)

inline spin_unlock()
{
	LEAVE(RUNS, HERE, stays, sections[HERE]);
	left_if_told(RUNS, HERE);
	d_step { RUNS -> no_preempt[HERE] = false }
}

/* The lock is free, or another CPU has it for a while. */
inline spin_section()
{
	if
	:: d_step { RUNS -> no_preempt[HERE] = true };
	   ENTER(RUNS, HERE, stays, sections[HERE])
	:: d_step {
		RUNS -> no_preempt[HERE] = true;
		stays[HERE] = PLUS(stays[HERE], SPINNER)
	   };
	   ENTER(RUNS, HERE, stays, sections[HERE]);
	   d_step { RUNS -> stays[HERE] = PLUS(stays[HERE], -SPINNER) }
	fi;
	spin_unlock()
}

proctype task(byte me)
{
	REGISTERS;
	byte round = 0;

	do
	:: d_step {
		round < ROUNDS && RUNS -> NOTICED(HERE);
		round++
	   };
	   if
	   :: spin_section()
	   :: ENTER(RUNS, HERE, moves, held[me]);
	      if
	      :: spin_section()
	      :: true
	      fi;
	      LEAVE(RUNS, HERE, moves, held[me]);
	      left_if_told(RUNS, HERE)
	   fi
	:: d_step { round == ROUNDS && RUNS -> NOTICED(HERE) }; break
	od;
end:	false
}

#ifdef NMI
proctype nmi(byte c)
{
	REGISTERS;

end:	do
	:: d_step {
		!out[c] && !in_nmi[c] -> in_nmi[c] = true;
		stays[c] = PLUS(stays[c], LOCK);
		nmi_section[c] = true
	   };
	   d_step {
		NMI_RUNS(c) -> stays[c] = PLUS(stays[c], -LOCK);
		nmi_section[c] = false;
		negative = TOLD(stays[c])
	   };
#ifdef NMI_LEFT
	   left_if_told(NMI_RUNS(c), c);
#endif
	   d_step { NMI_RUNS(c) -> negative = false; in_nmi[c] = false }
	od
}
#endif

#ifdef IRQ
proctype irq(byte c)
{
	REGISTERS;

end:	do
	:: d_step {
		TASK_RUNS(c) && !irqs_off[c] -> in_irq[c] = true;
		irqs_off[c] = true;
		for_irq[c] = false
	   };
	   ENTER(IRQ_RUNS(c), c, stays, sections[c]);
	   if
	   :: ENTER(IRQ_RUNS(c), c, stays, sections[c]);
	      LEAVE(IRQ_RUNS(c), c, stays, sections[c]);
	      left_if_told(IRQ_RUNS(c), c)
	   :: true
	   fi;
	   LEAVE(IRQ_RUNS(c), c, stays, sections[c]);
	   left_if_told(IRQ_RUNS(c), c);
	   d_step { IRQ_RUNS(c) -> in_irq[c] = false; irqs_off[c] = false }
	od
}
#endif

/* __pvsync_ecs_switch() */
inline follow(c)
{
#ifdef NO_SWITCH
	d_step { SWITCH_RUNS(c) -> whose[c] = next };
#else
	d_step { SWITCH_RUNS(c) -> goes = moves[c] & NOT_BORROWED };
	d_step { SWITCH_RUNS(c) -> saved[prev] = goes; comes = saved[next]; saved[next] = 0 };
	d_step {
		SWITCH_RUNS(c) ->
#ifdef SWITCH_STORES
		moves[c] = comes;
#else
		moves[c] = PLUS(moves[c], comes - goes);
#endif
		whose[c] = next
	};
#endif
	d_step {
		SWITCH_RUNS(c) -> goes = 0;
		comes = 0;
		saved[NO_TASK] = 0
	}
}

/* That what is set right is right: the lock of the run queue and nothing else. */
inline unlock_run_queue(c)
{
	d_step { SWITCH_RUNS(c) -> assert((stays[c] & NOT_BORROWED) == LOCK) };
	LEAVE(SWITCH_RUNS(c), c, stays, sections[c]);
#ifdef TELL_ONE
	negative = false;
#endif
	left_if_told(SWITCH_RUNS(c), c)
}

#define MAY_SWITCH(c)	(TASK_RUNS(c) && !irqs_off[c] && !no_preempt[c])

#define BEGIN_SWITCH(c, to)						\
	switching[c] = true;						\
	irqs_off[c] = true;						\
	prev = whose[c];						\
	next = to;							\
	on[next] = c

proctype switch(byte c)
{
	REGISTERS;
	byte prev = NO_TASK, next = NO_TASK, goes = 0, comes = 0;

end:	do
	:: if
	   :: d_step { MAY_SWITCH(c) && whose[c] != NO_TASK -> BEGIN_SWITCH(c, NO_TASK) }
	   :: d_step { MAY_SWITCH(c) && on[0] == NO_VCPU -> BEGIN_SWITCH(c, 0) }
#if TASKS > 1
	   :: d_step { MAY_SWITCH(c) && on[1] == NO_VCPU -> BEGIN_SWITCH(c, 1) }
#endif
	   fi;
	   ENTER(SWITCH_RUNS(c), c, stays, sections[c]);
#ifdef UNLOCK_SWITCH
	   unlock_run_queue(c);
	   follow(c);
#else
	   follow(c);
	   unlock_run_queue(c);
#endif
	   d_step {
		SWITCH_RUNS(c) -> NOTICED(c);
		on[prev] = NO_VCPU;
		prev = NO_TASK;
		next = NO_TASK;
		switching[c] = false;
		irqs_off[c] = false
	   }
	od
}

/* The host. */

/* Spin leaves the first statement of a block out of trails. */
#define UNSEEN	skip

inline mark(c)
{
	UNSEEN;
	stays[c] = stays[c] | BORROWED;
#ifndef MARK_ONE
	moves[c] = moves[c] | BORROWED
#endif
}

inline unmark(c)
{
	UNSEEN;
#ifndef KEEP_MARK
	stays[c] = stays[c] & NOT_BORROWED;
	moves[c] = moves[c] & NOT_BORROWED;
#endif
	told[c] = false
}

inline loan_end(c)
{
	if
	:: granted[c] ->
		timer[c] = false;
		granted[c] = false;
		for_nmi[c] = false;
		for_irq[c] = false;
		unmark(c)
	:: else
	fi
}

/* The scheduler has its choice, and chooses the vCPU again some time. */
inline switched_away(c)
{
	assert(!granted[c]);
	requested[c] = false;
	realtime[c] = false;
	put_off[c] = false;
	returned[c] = false;
	dropped[c] = false;
	lent[c] = false
}

#ifdef PUT_OFF_ALL
#define MAY_PUT_OFF(c)	true
#else
#define MAY_PUT_OFF(c)	(!realtime[c])
#endif

#define MAY_BORROW(c)	(!granted[c] && !dropped[c])

/* pvsync_put_off_switch(), with the run queue locked */
inline put_off_switch(c)
{
#ifdef PUT_OFF_UNLOCKED
	may = MAY_PUT_OFF(c);
#endif
	d_step {
#ifndef PUT_OFF_UNLOCKED
		may = MAY_PUT_OFF(c);
#endif
		if
		:: may -> requested[c] = false; put_off[c] = true
		:: else -> loan_end(c); switched_away(c)
		fi
	}
}

inline lend(c, interrupt)
{
	d_step {
		assert(!lent[c]);
		lent[c] = true;
		given[c] = false;
		granted[c] = true;
		for_irq[c] = interrupt;
		for_nmi[c] = !HELD(c) && !interrupt;
		told[c] = true;
#ifndef NO_TIMER
		timer[c] = true;
#endif
#ifndef MARK_RUNNING
		mark(c);
#endif
		may = false
	};
#ifdef MARK_RUNNING
	/* Some time later, loads and stores. */
	late = true;
#endif
}

/* loan_keep(), in a section or with an interrupt to take */
inline stay(c)
{
	d_step {
		if
		:: returned[c] ->
#ifndef STAY_RETURNED
			returned[c] = false;
#endif
			given[c] = false;
#ifndef STAY_BLIND
			for_irq[c] = true;
#endif
			for_nmi[c] = false;
			told[c] = true;
#ifndef STAY_UNMARKED
			mark(c)
#endif
		:: else
		fi;
#ifndef STAY_FOREVER
		timer[c] = true;
#endif
		may = false
	}
}

/* pvsync_extend() */
inline schedule(c)
{
	d_step { WORDS_ARE_TRUE(c); assert(!returned[c] || !CLAIMS(c)) };
	if
#ifndef IRQ
	:: granted[c] && CLAIMS(c) && !returned[c] ->
#ifdef STAY_REALTIME
		d_step { requested[c] = false; put_off[c] = true };
		stay(c)
#else
		put_off_switch(c);
		if
		:: may -> stay(c)
		:: !may
		fi
#endif
#else
	:: granted[c] ->
		put_off_switch(c);
		if
		:: may -> stay(c)
		:: !may
		fi
	:: MAY_BORROW(c) && !CLAIMS(c) ->
		put_off_switch(c);
		if
		:: may -> lend(c, true)
		:: !may
		fi
#endif
	:: granted[c] ->
		d_step {
			loan_end(c);
#ifndef LEND_AGAIN
			switched_away(c)
#endif
		}
	:: MAY_BORROW(c) && CLAIMS(c) ->
		put_off_switch(c);
		if
		:: may -> lend(c, false)
		:: !may
		fi
	:: dropped[c] || (!granted[c] && !CLAIMS(c)) ->
		d_step { switched_away(c) }
	fi
}

/* PVSYNC_HC_GIVE_BACK */
inline give_back(c)
{
	d_step {
		call[c] = false;
		if
		:: granted[c] ->
			assert(!HELD(c) && !nmi_section[c]);
			assert(!given[c]);
			given[c] = true;
			returned[c] = true;
#ifndef CALL_IGNORED
			requested[c] = true
#endif
		:: else
		fi
	}
}

proctype host(byte c)
{
	bool may = false;
#ifdef MARK_RUNNING
	bool late = false;
	byte was = 0;
#endif

end:	do
	:: d_step { !out[c] -> out[c] = true }
	:: call[c] -> give_back(c)
	:: out[c] && !call[c] && requested[c] -> schedule(c)
	:: d_step {
		/* The thread sleeps. */
		out[c] && !call[c] && !requested[c] ->
#ifndef KEEP_LOAN
		loan_end(c);
#endif
		switched_away(c)
	   }
	:: d_step {
		/* It is with its monitor for a moment, or shares another record. */
		out[c] && !call[c] && granted[c] ->
		loan_end(c);
#ifndef DROP_AND_LEND
		dropped[c] = true;
#endif
#ifndef DROP_QUIETLY
		requested[c] = true
#endif
	   }
	:: d_step {
		out[c] && !call[c] && !requested[c] ->
		assert(!realtime[c]);
		assert(!put_off[c] || (granted[c] && timer[c]));
		assert(!given[c] || !granted[c]);
		WORDS_ARE_TRUE(c);
		out[c] = false
	   }
#ifdef MARK_RUNNING
	:: d_step { late && was == 0 -> was = moves[c] | BORROWED };
	   d_step { moves[c] = was; stays[c] = stays[c] | BORROWED; was = 0; late = false }
#endif
	od
}

/* Those who want the CPU, with its run queue locked, and its timer. */
proctype others(byte c)
{
end:	do
	:: d_step { !realtime[c] -> realtime[c] = true; requested[c] = true }
	:: d_step { !requested[c] -> requested[c] = true }
	:: d_step { timer[c] -> timer[c] = false; requested[c] = true }
	od
}

init
{
	byte i = 0;

	atomic {
		out[NO_VCPU] = true;
		do
		:: i < VCPUS ->
			whose[i] = (i < TASKS -> i : NO_TASK);
			run host(i);
			run others(i);
			run switch(i);
#ifdef IRQ
			run irq(i);
#endif
#ifdef NMI
			run nmi(i);
#endif
			i++
		:: i == VCPUS -> break
		od;
		i = 0;
		do
		:: i < TASKS -> on[i] = (i < VCPUS -> i : NO_VCPU); run task(i); i++
		:: i == TASKS -> break
		od
	}
}
