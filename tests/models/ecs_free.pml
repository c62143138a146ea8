/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time that is lent to a guest which counts nothing (pvsync.ecs=free): the guest's
 * preempt count and __pvsync_ecs_reschedule() in kernel/pvsync/ecs_loan.c, the host's
 * arch/x86/kvm/pvsync/section.c and extend.c.
 *
 *  (a) A look that finds the vCPU in no section ends its loan, and a guest that chooses
 *      a task on borrowed time, and is no reader, gives back before.
 *  (b) Every loan has a timer or a request to switch, and ends after STEPS looks at
 *      most, wherever the vCPU is by then.
 *  (c) The guest gives back in no section, once per loan, and does not go on with what
 *      it has given back. It may be lent to again, after others have had the CPU.
 *  (d) The preempt count is the guest's own: its requests to choose a task are all
 *      followed, there are no others, and its counts are true. The host writes to its
 *      half of the record alone.
 *  (e) One loan until the CPU has been through the scheduler, none while the vCPU has
 *      no CPU; a request of a real-time task is never put off.
 *
 * One vCPU, as the preempt count belongs to a CPU and moves nowhere; ROUNDS sections
 * of a task, one step for each instruction, and between any two of them an interrupt,
 * which may have a section of its own and may ask for another task, and an exit. NMIs
 * are as interrupts here. Store buffers do not matter, as the host writes only while
 * the vCPU is out, and an exit empties them.
 *
 * Loans for interrupts that are to be taken are in ecs.pml only, and so are vCPUs that
 * have given back and stay for one: here they go.
 *
 * Mutations, each of which has to be found:
 *	MARK		the host sets the guest's bit, to have a task chosen
 *	MARK_RUNNING	it writes the preempt count back while the vCPU is in the guest
 *	UNMARK		it clears the guest's bit when the loan ends
 *	NO_CALL		the guest chooses a task and does not give back
 *	KEEP_OUTSIDE	a look does not ask whether the vCPU is in a section
 *	NO_TIMER	nothing makes the request again after a look
 *	KEEP_ALWAYS	a look begins the loan's time anew
 *	KEEP_RETURNED	a look finds the vCPU in its scheduler, and lends on
 *	KEEP_REALTIME	a look does not ask who waits
 *	BACK_IN_READER	a reader that is preempted gives back
 *	CALL_IGNORED	the host notes the call and asks for no switch
 *	KEEP_LOAN	a thread that sleeps keeps its loan
 */
#ifndef ROUNDS
#define ROUNDS	2
#endif
#ifndef STEPS
#define STEPS	2
#endif

/* The guest's: its preempt count, whose bit "need" is kept inverted; its reader; its flag. */
byte count;
bool need;
bool reader;
bool wanted;		/* TIF_NEED_RESCHED: set with need, by the guest alone */
byte irqs;		/* HARDIRQ_MASK of the preempt count */
bool told;		/* borrowed, in the record */

bool out = true;
bool call;
bool choosing;		/* in the scheduler */
bool in_irq;		/* from its begin to the return to what it interrupted */

/* The host's. */
bool requested;
bool realtime;
bool granted;
bool returned;
bool timer;
byte looks;

/* What is true. */
byte sections;		/* spinlocks, of the task and of interrupts */
byte handlers;
bool lent;
bool given;
bool called;
bool owed;		/* the task that is chosen is chosen on borrowed time */
bool put_off;

#define WHERE		(count != 0 || irqs != 0 || reader)
#define TRULY		(sections != 0 || handlers != 0 || reader)
#define TASK_RUNS	(!out && !in_irq)
#define IRQ_RUNS	(!out && in_irq)

#define OWN_REQUEST	assert(need == wanted)
#define COUNTS_ARE_TRUE	assert(count == sections && irqs == handlers)

/* preempt_enable(): the instruction tells whether count and bit are zero. */
#define ENABLE(runs)	d_step { runs -> count--; sections--; zero = (count == 0 && irqs == 0 && need) }

#ifdef NO_CALL
#define MAY_GIVE_BACK	false
#elif defined(BACK_IN_READER)
#define MAY_GIVE_BACK	told
#else
#define MAY_GIVE_BACK	(told && !reader)
#endif

/* preempt_schedule() and __schedule(); interrupts come in until the choice is made. */
inline reschedule(runs)
{
	do
	:: zero ->
	   d_step { runs -> count++; sections++; choosing = true; owed = (granted && !reader) };
	   if
	   :: d_step { runs && MAY_GIVE_BACK -> out = true; call = true }
	   :: runs && !MAY_GIVE_BACK
	   fi;
	   d_step {
		runs -> assert(!owed);
		need = false;
		wanted = false
	   };
	   d_step { runs -> count--; sections--; choosing = false; zero = need }
	:: !zero -> break
	od;
	skip
}

inline spin_section(runs)
{
	d_step { runs -> count++; sections++ };
	ENABLE(runs);
	reschedule(runs)
}

proctype task()
{
	bool zero = false;
	byte round = 0;

	do
	:: d_step { round < ROUNDS && TASK_RUNS -> OWN_REQUEST; COUNTS_ARE_TRUE; round++ };
	   if
	   :: spin_section(TASK_RUNS)
	   :: d_step { TASK_RUNS -> reader = true };
	      if
	      :: spin_section(TASK_RUNS)
	      :: true
	      fi;
	      d_step { TASK_RUNS -> reader = false }
	   fi
	:: d_step { round == ROUNDS && TASK_RUNS -> OWN_REQUEST }; break
	od;
end:	false
}

/* irq_enter() to irqentry_exit(), with a wake-up in the handler, or none. */
proctype irq()
{
	bool zero = false;

end:	do
	:: d_step { TASK_RUNS && !choosing -> in_irq = true; irqs = 1; handlers = 1 };
	   if
	   :: d_step { IRQ_RUNS -> wanted = true; need = true }
	   :: true
	   fi;
	   if
	   :: d_step { IRQ_RUNS -> count++; sections++ };
	      ENABLE(IRQ_RUNS);
	      assert(!zero)
	   :: true
	   fi;
	   d_step {
		IRQ_RUNS -> OWN_REQUEST;
		irqs = 0;
		handlers = 0;
		zero = (count == 0 && wanted)
	   };
	   reschedule(IRQ_RUNS);
	   d_step { IRQ_RUNS -> in_irq = false }
	od
}

/* The host. */

inline loan_end()
{
	if
	:: granted ->
		granted = false;
		timer = false;
		told = false;
#ifdef UNMARK
		need = false;
#endif
		owed = false
	:: else
	fi
}

inline switched_away()
{
	assert(!granted);
	requested = false;
	realtime = false;
	put_off = false;
	returned = false;
	called = false;
	lent = false;
	looks = 0
}

inline lend()
{
	assert(!lent && !realtime);
	lent = true;
	given = false;
	granted = true;
	told = true;
	requested = false;
	put_off = true;
#ifdef MARK
	need = true;
#endif
	timer = true
}

#ifdef KEEP_ALWAYS
#define TIME_LEFT	true
#else
#define TIME_LEFT	(looks < STEPS)
#endif
#ifdef KEEP_RETURNED
#define NOT_RETURNED	true
#else
#define NOT_RETURNED	(!returned)
#endif
#ifdef KEEP_OUTSIDE
#define STILL_IN	true
#else
#define STILL_IN	WHERE
#endif
#ifdef KEEP_REALTIME
#define FAIR		true
#else
#define FAIR		(!realtime)
#endif

/* pvsync_extend() */
inline schedule()
{
	d_step {
		if
		:: granted && NOT_RETURNED && TIME_LEFT && STILL_IN && FAIR ->
			/* loan_keep() */
			looks++;
			assert(looks <= STEPS);
			assert(!realtime && !returned);
			assert(TRULY);
			requested = false;
#ifndef NO_TIMER
			timer = true
#endif
		:: granted && !(NOT_RETURNED && TIME_LEFT && STILL_IN && FAIR) ->
			loan_end();
			switched_away()
		:: !granted && WHERE && !realtime ->
			lend()
		:: else -> switched_away()
		fi
	}
}

/* PVSYNC_HC_GIVE_BACK */
inline give_back()
{
	d_step {
		call = false;
		if
		:: granted ->
			assert(!reader && irqs == 0 && sections == 1);
			assert(!given);
			given = true;
			called = true;
			returned = true;
#ifndef CALL_IGNORED
			requested = true
#endif
		:: else
		fi
	}
}

proctype host()
{
#ifdef MARK_RUNNING
	byte was = 0;
#endif

end:	do
	:: d_step { !out -> out = true }
	:: call -> give_back()
	:: out && !call && requested -> schedule()
	:: d_step {
		/* The thread sleeps. */
		out && !call && !requested ->
#ifndef KEEP_LOAN
		loan_end();
#endif
		switched_away()
	   }
	:: d_step {
		out && !call && !requested ->
		assert(!realtime);
		assert(!put_off || (granted && timer));
		assert(!called || !granted);
		COUNTS_ARE_TRUE;
		out = false
	   }
#ifdef MARK_RUNNING
	:: d_step { !out && granted -> was = count };
	   d_step { count = was; was = 0 }
#endif
	od
}

/* Those who want the CPU, with its run queue locked, and its timer. */
proctype others()
{
end:	do
	:: d_step { !realtime -> realtime = true; requested = true }
	:: d_step { !requested -> requested = true }
	:: d_step { timer -> timer = false; requested = true }
	od
}

init
{
	atomic {
		run host();
		run others();
		run irq();
		run task()
	}
}
