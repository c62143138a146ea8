/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sections that end in another task than they began in (pvsync.ecs=count): the word
 * that follows the task, and what sets it right; kernel/pvsync/ecs_count.c. That the words
 * are true where every section ends in its own task is in ecs.pml.
 *
 * A reader of an rwsem may be let go by another task, or by an interrupt
 * (up_read_non_owner()). That subtracts from the word of the task that runs then:
 *
 *  (a) Whenever a task is in no mutex and waits for none, its word says no more than the
 *      readers that it began and did not end itself. If it ended all of them, the word
 *      says none, or is negative: no field stays borrowed from. While every reader has
 *      been ended by its own task, the word is true.
 *  (b) It is negative no longer than until the next switch, or until somebody looks:
 *      what is put away for a task is neither negative nor BORROWED.
 *  (c) A loan goes on only if the words say that there is a section, or the end of the
 *      next section that is not preemptable will look: that word is never negative,
 *      and does not lose BORROWED.
 *
 * A task whose readers others end has them in its word as long as it lives, one more for
 * each, which (a) allows. What comes of that is what the host bounds anyway, one loan per
 * boundary of its schedule, whatever the words say: ecs.pml (d).
 *
 * VCPUS vCPUs and TASKS tasks, each with ROUNDS sections, of these kinds:
 *
 *	reader		begins, or one that any task has begun ends
 *	mutex		begins and ends, waited for or not
 *	spinlock	begins and ends, not preemptable
 *
 * and between any two instructions an interrupt, which may let a reader go; a switch to
 * any task; a loan, if the words say that there is a section, and the end of one. The
 * last task begins when it is forked. The host does all that it does in one step, as the
 * vCPU is not in the guest then.
 *
 * A word is a byte: mutexes, readers and waits of two bits each, one more bit for the
 * sign, and BORROWED. Sums carry as those of 64 bits do.
 *
 * Mutations, each of which has to be found:
 *	NO_SWITCH	the word does not follow the task
 *	LEFT_NEGATIVE	pvsync_ecs_left() leaves what is negative
 *	SWITCH_NEGATIVE	the switch does
 *	TOP_SIGN	BORROWED is taken for the sign of the sum
 *	SAVE_BORROWED	BORROWED is put away, too
 *	KEEP_SAVED	what was put away stays while the task runs, for its child
 *	MARK_MOVES	BORROWED is set in the word that follows the task only
 *
 * Not covered:
 *	SEEN_AT_ONCE	what is negative is not always seen when it becomes so. The
 *			processor's sign tells; and what is 0 and BORROWED is positive
 *			when it has become less, as is what the host takes BORROWED
 *			from while it is negative
 *	BACK_AT_ONCE	and a negative word cannot be marked: if it is set right then, a
 *			loan for the sections of the task is given back at the end of
 *			the next that is not preemptable, mostly that of an interrupt
 */
#ifndef VCPUS
#define VCPUS	1
#endif
#ifndef TASKS
#define TASKS	2
#endif
#ifndef ROUNDS
#define ROUNDS	1
#endif

#define BORROWED	128
#define NOT_BORROWED	127
#define LOCK		1
#define MUTEX		1
#define READER		4
#define WAITER		16
#define SECTIONS	15

#define PLUS(word, n)		(((word) + 256 + (n)) & 255)
#define COUNTED(word)		(((word) & NOT_BORROWED) - 2 * ((word) & 64))
#define IN_SECTION(word)	(((word) & SECTIONS) != 0)
#ifdef TOP_SIGN
#define LACK(word)		((word) & BORROWED -> 256 - (word) : 0)
#else
#define LACK(word)		(COUNTED(word) < 0 -> -COUNTED(word) : 0)
#endif

/* No vCPU, and no task. The vCPU "none" runs nothing. */
#define NO_VCPU		VCPUS
#define NO_TASK		TASKS

/* The record, and whether the host lends. */
byte stays[VCPUS + 1];	/* non_preemptable */
byte moves[VCPUS + 1];	/* preemptable */
bool lent[VCPUS + 1];

/* What a vCPU does: the innermost that is true runs. */
bool in_irq[VCPUS + 1];
bool switching[VCPUS + 1];
bool irqs_off[VCPUS + 1];
bool no_preempt[VCPUS + 1];

/* Where a task is, and its word while it is nowhere. */
byte on[TASKS + 1];
byte runs_on[VCPUS + 1];	/* the task of a vCPU */
byte saved[TASKS + 1];
bool forked;

/* What is true, for the assertions: readers that a task has begun and not ended itself. */
byte open[TASKS];
byte let_go[TASKS];	/* that another one has ended */

#define IRQ_RUNS(c)	(in_irq[c])
#define SWITCH_RUNS(c)	(!in_irq[c] && switching[c])
#define TASK_RUNS(c)	(!in_irq[c] && !switching[c])

#define REGISTERS							\
	bool negative = false, found = false, was_off = false;		\
	byte lack = 0

#define ENTER(runs, c, word, n)						\
	d_step { runs -> word[c] = PLUS(word[c], n) }

#define SUBTRACT(word, n)						\
	word = PLUS(word, -n);						\
	negative = word >= BORROWED

#define LEAVE(runs, c, word, n)						\
	d_step { runs -> SUBTRACT(word[c], n) };			\
	left_if_told(runs, c)

inline set_right_negative(runs, c)
{
	d_step { runs -> lack = LACK(moves[c]) };
	d_step { runs -> moves[c] = PLUS(moves[c], lack); lack = 0 }
}

inline look(runs, c)
{
	d_step { runs -> assert(COUNTED(moves[c]) >= 0); found = IN_SECTION(stays[c]) };
	d_step { runs -> found = found || IN_SECTION(moves[c]) }
}

/* pvsync_ecs_left(), and the call in it */
inline left(runs, c)
{
	d_step { runs -> was_off = irqs_off[c]; irqs_off[c] = true };
#ifndef LEFT_NEGATIVE
	set_right_negative(runs, c);
#endif
	look(runs, c);
	if
	:: !found ->
		d_step { runs -> stays[c] = stays[c] & NOT_BORROWED };
		d_step { runs -> moves[c] = moves[c] & NOT_BORROWED };
		d_step { runs -> lent[c] = false }
	:: found
	fi;
	d_step {
		runs -> irqs_off[c] = was_off;
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

#define HERE	on[me]
#define RUNS	TASK_RUNS(HERE)

#ifdef SEEN_AT_ONCE
#define MAY_BE_NEGATIVE	false
#else
#define MAY_BE_NEGATIVE	true
#endif

#ifdef BACK_AT_ONCE
#define WILL_LOOK(c)	false
#else
#define WILL_LOOK(c)	(stays[c] >= BORROWED)
#endif

/* Of a task that is in no mutex and waits for none. */
#define RESTS(c, t)							\
	assert(COUNTED(moves[c]) <= (open[t] + let_go[t]) * READER);	\
	assert(COUNTED(moves[c]) >= 0 || MAY_BE_NEGATIVE);		\
	assert(COUNTED(moves[c]) == open[t] * READER || let_go[0] + let_go[1] != 0); \
	assert(!lent[c] || IN_SECTION(stays[c]) || IN_SECTION(moves[c]) || WILL_LOOK(c))

/* A reader that t has begun is let go by who runs on c, a task or an interrupt. */
#define END_READER(runs, c, by, t)					\
	d_step {							\
		runs && open[t] != 0 -> open[t]--;			\
		let_go[t] = let_go[t] + (t != by);			\
		SUBTRACT(moves[c], READER)				\
	}

proctype task(byte me)
{
	REGISTERS;
	byte round = 0;

	do
	:: d_step {
		round < ROUNDS && RUNS -> RESTS(HERE, me);
		round++
	   };
	   if
	   :: d_step { RUNS -> open[me]++; moves[HERE] = PLUS(moves[HERE], READER) }
	   :: END_READER(RUNS, HERE, me, 0); left_if_told(RUNS, HERE)
	   :: END_READER(RUNS, HERE, me, 1); left_if_told(RUNS, HERE)
	   :: if
	      :: ENTER(RUNS, HERE, moves, WAITER);
	         ENTER(RUNS, HERE, moves, -WAITER)
	      :: true
	      fi;
	      ENTER(RUNS, HERE, moves, MUTEX);
	      LEAVE(RUNS, HERE, moves, MUTEX)
	   :: d_step { RUNS -> no_preempt[HERE] = true; stays[HERE] = PLUS(stays[HERE], LOCK) };
	      LEAVE(RUNS, HERE, stays, LOCK);
	      d_step { RUNS -> no_preempt[HERE] = false }
	   fi
	:: d_step { RUNS && !forked -> forked = true; saved[TASKS - 1] = saved[me] }
	:: d_step { round == ROUNDS && RUNS -> RESTS(HERE, me) }; break
	od;
end:	do
	:: d_step { RUNS -> RESTS(HERE, me) }; false
	od
}

#ifdef IRQ
proctype irq(byte c)
{
	REGISTERS;

end:	do
	:: d_step {
		TASK_RUNS(c) && !irqs_off[c] -> in_irq[c] = true;
		irqs_off[c] = true;
		stays[c] = PLUS(stays[c], LOCK)
	   };
	   if
	   :: END_READER(IRQ_RUNS(c), c, runs_on[c], 0); left_if_told(IRQ_RUNS(c), c)
	   :: END_READER(IRQ_RUNS(c), c, runs_on[c], 1); left_if_told(IRQ_RUNS(c), c)
	   :: true
	   fi;
	   LEAVE(IRQ_RUNS(c), c, stays, LOCK);
	   d_step { IRQ_RUNS(c) -> in_irq[c] = false; irqs_off[c] = false }
	od
}
#endif

/* __pvsync_ecs_switch() */
inline follow(c)
{
#ifndef SWITCH_NEGATIVE
	set_right_negative(SWITCH_RUNS(c), c);
#endif
#ifdef SAVE_BORROWED
	d_step { SWITCH_RUNS(c) -> goes = moves[c] };
#else
	d_step { SWITCH_RUNS(c) -> goes = moves[c] & NOT_BORROWED };
#endif
	d_step {
		SWITCH_RUNS(c) -> saved[prev] = goes;
		assert(saved[prev] < 64);
		comes = saved[next];
#ifndef KEEP_SAVED
		saved[next] = 0
#endif
	};
	d_step {
		SWITCH_RUNS(c) ->
#ifndef NO_SWITCH
		moves[c] = PLUS(moves[c], comes - goes);
#endif
		runs_on[c] = next;
		goes = 0;
		comes = 0;
		saved[NO_TASK] = 0
	}
}

#define MAY_SWITCH(c)	(TASK_RUNS(c) && !irqs_off[c] && !no_preempt[c])

#define BEGIN_SWITCH(c, to)						\
	switching[c] = true;						\
	irqs_off[c] = true;						\
	stays[c] = PLUS(stays[c], LOCK);				\
	prev = runs_on[c];						\
	next = to;							\
	on[next] = c

proctype switch(byte c)
{
	REGISTERS;
	byte prev = NO_TASK, next = NO_TASK, goes = 0, comes = 0;

end:	do
	:: if
	   :: d_step { MAY_SWITCH(c) && runs_on[c] != NO_TASK -> BEGIN_SWITCH(c, NO_TASK) }
	   :: d_step { MAY_SWITCH(c) && on[0] == NO_VCPU -> BEGIN_SWITCH(c, 0) }
	   :: d_step { MAY_SWITCH(c) && on[1] == NO_VCPU && forked -> BEGIN_SWITCH(c, 1) }
	   fi;
	   follow(c);
	   LEAVE(SWITCH_RUNS(c), c, stays, LOCK);
	   d_step {
		SWITCH_RUNS(c) -> on[prev] = NO_VCPU;
		prev = NO_TASK;
		next = NO_TASK;
		switching[c] = false;
		irqs_off[c] = false
	   }
	od
}

proctype host(byte c)
{
end:	do
	:: d_step {
		!lent[c] && (IN_SECTION(stays[c]) || IN_SECTION(moves[c])) ->
		lent[c] = true;
#ifndef MARK_MOVES
		stays[c] = stays[c] | BORROWED;
#endif
		moves[c] = moves[c] | BORROWED
	   }
	:: d_step {
		lent[c] -> lent[c] = false;
		stays[c] = stays[c] & NOT_BORROWED;
		moves[c] = moves[c] & NOT_BORROWED
	   }
	od
}

init
{
	byte i = 0;

	atomic {
		switching[NO_VCPU] = true;
		do
		:: i < VCPUS ->
			runs_on[i] = (i == 0 -> 0 : NO_TASK);
			run host(i);
			run switch(i);
#ifdef IRQ
			run irq(i);
#endif
			i++
		:: i == VCPUS -> break
		od;
		i = 0;
		do
		:: i < TASKS -> on[i] = (i == 0 -> 0 : NO_VCPU); run task(i); i++
		:: i == TASKS -> break
		od
	}
}
