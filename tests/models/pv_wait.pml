/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wait and kick of the paravirtual ticket locks, kernel/pvsync/pv_lock.c, on
 * x86-TSO: no waiter sleeps for ever, and no two CPUs own the lock.
 *
 * CPUS CPUs take and release one lock ROUNDS() times each. A sleeper has a slot, and a
 * bit in the bucket of the lock; a release looks at the bit of a CPU, and if it is set at its
 * slot, in a later step, or with ONE_LOOK in the same one. Stores to a slot and
 * the release's store of 0 go through a store buffer of the CPU, in order, and
 * reach memory at any later time; an atomic operation or MB() empties the
 * buffer first. The bit is set by one, in the step that is (1), or is as the slot with
 * NO_MB1 and ANY_ORDER. A halt ends by a kick, before it or during it, and by nothing
 * else: an interrupt would hide a lost wake-up. A lost wake-up is then an
 * invalid end state.
 *
 * With NESTED one interrupt may come to a halted CPU 1, whose handler parks for
 * another lock as its first waiter, takes it, and ends. Its slot is seen between
 * the stores then, and what kicks came are gone when it looks at its own lock. The other
 * lock's bucket is another one, or the same: then the handler takes the bit away. With
 * SAME_BUCKET it is always the same.
 *
 * With PROBED code that waits for another lock as such a handler does runs once on CPU 1
 * between its slot and its halt, interrupts or not: a probe, a sanitizer's report.
 *
 * The ordered phase of the preemptable ticket lock touches nothing, and its
 * timeout may come at any time: such a waiter is here one that competes at once
 * (TICKET=0). A waiter may park at any time, whatever it has read: its count of
 * iterations is not modelled.
 *
 * Mutations, each of which has to be found:
 *	NO_MB1		the sleeper looks at the word before its slot is visible
 *	NO_MB2		the owner looks at the slots before its release is visible
 *	NO_ANNOUNCE	the sleeper does not make the lock slow
 *	TAKE_FAST	a waiter that takes the lock from others does not make it slow
 *	NO_KICK		the chosen sleeper is marked and not kicked
 *	NO_RECHECK	the sleeper halts without another look at the word
 *	KEEP_MARK	the mark "woken" is not taken back for the next sleep
 *	TAKE_OWNED	a waiter takes a lock that is owned
 *	WAKE_ANY	the ticket lock wakes the first sleeper, not the next ticket
 *	WAKE_FIRST	it wakes the first that has the next ticket, not all (NESTED)
 *	NO_LAST_LOOK	the sleeper halts without a last look at its slot (PROBED)
 *	KICK_FIRST	the chosen sleeper is kicked, and marked after that
 *	NO_BIT		the sleeper does not set its bit
 *	LATE_BIT	it sets it after its look at the word
 *	OLD_BIT		it sets it for its first sleep only, and a handler may take it (NESTED)
 *
 * With ANY_ORDER the stores to a slot reach memory one by one and in any order, which
 * is that of every pair of them swapped, and releases look in between. It has to be
 * harmless: (1) comes after them all.
 */
#ifndef CPUS
#define CPUS	3
#endif
/* Times that CPU 0, and that each other CPU, takes the lock. */
#ifndef FIRST
#define FIRST	2
#endif
#ifndef OTHERS
#define OTHERS	2
#endif
#define ROUNDS(me)	((me) == 0 -> FIRST : OTHERS)
#ifndef TICKET
#define TICKET	0
#endif

#define FREE	0
#define LOCKED	1
#define SLOW	3
#define NONE	255

/* The lock word. Counts do not wrap in so few rounds. */
byte locked = FREE, waiters = 0, granted = 0;
byte owners = 0;

/* Slots, as memory has them. */
bool s_sleeps[CPUS];
bool s_bit[CPUS];
byte s_ticket[CPUS];
bool s_woken[CPUS];

/* Remembered kicks: the host's pv_unhalted. */
bool kicked[CPUS];

/* Store buffers: a slot, then or alone a release; or a mark on a slot of another CPU. */
bool b_slot[CPUS], b_release[CPUS];
bool b_sleeps[CPUS];
bool b_bit[CPUS];
byte b_ticket[CPUS];
bool b_woken[CPUS];

#ifdef ANY_ORDER
/* What of the slot in the buffer has reached memory. */
bool d_sleeps[CPUS], d_bit[CPUS], d_ticket[CPUS], d_woken[CPUS];

#define BUFFER_SLOT(me)							\
	b_slot[me] = true;						\
	d_sleeps[me] = false; d_bit[me] = false;				\
	d_ticket[me] = false; d_woken[me] = false
#else
#define BUFFER_SLOT(me)	b_slot[me] = true
#endif

inline drain(me)
{
	if
	:: b_slot[me] ->
#ifdef ANY_ORDER
		s_sleeps[me] = (d_sleeps[me] -> s_sleeps[me] : b_sleeps[me]);
		s_bit[me] = (d_bit[me] -> s_bit[me] : b_bit[me]);
		s_ticket[me] = (d_ticket[me] -> s_ticket[me] : b_ticket[me]);
		s_woken[me] = (d_woken[me] -> s_woken[me] : b_woken[me]);
		d_sleeps[me] = false; d_bit[me] = false;
		d_ticket[me] = false; d_woken[me] = false;
#else
		s_sleeps[me] = b_sleeps[me];
		s_bit[me] = b_bit[me];
		s_ticket[me] = b_ticket[me];
		s_woken[me] = b_woken[me];
#endif
		b_slot[me] = false
	:: else
	fi;
	if
	:: b_release[me] -> locked = FREE; b_release[me] = false
	:: else
	fi
}

#define MB(me)	d_step { drain(me) }

/* The buffers reach memory whenever they like. */
proctype memory(byte me)
{
end:	do
	:: d_step { b_slot[me] || b_release[me] -> drain(me) }
#ifdef ANY_ORDER
	:: d_step { b_slot[me] && !d_sleeps[me] -> s_sleeps[me] = b_sleeps[me]; d_sleeps[me] = true }
	:: d_step { b_slot[me] && !d_bit[me] -> s_bit[me] = b_bit[me]; d_bit[me] = true }
	:: d_step { b_slot[me] && !d_ticket[me] -> s_ticket[me] = b_ticket[me]; d_ticket[me] = true }
	:: d_step { b_slot[me] && !d_woken[me] -> s_woken[me] = b_woken[me]; d_woken[me] = true }
#endif
	od
}

/* Whoever waits has nothing but its slot in the buffer. */
#ifdef TAKE_OWNED
#define MAY_TAKE(me)	(!TICKET || ticket == granted)
#else
#define MAY_TAKE(me)	(locked == FREE && (!TICKET || ticket == granted))
#endif

/* Spin leaves the first statement of a block out of trails. */
#define UNSEEN	skip

inline take(me)
{
	UNSEEN;
	waiters--;
	if
	:: waiters == 0 -> locked = LOCKED; granted = 0
#ifdef TAKE_FAST
	:: else -> locked = LOCKED; granted++
#else
	:: else -> locked = SLOW; granted++
#endif
	fi;
	owners++;
	assert(owners == 1)
}

/* The next slot to look at. */
#define SKIP_MINE(me)							\
	if								\
	:: at == me -> at++						\
	:: else								\
	fi

#if TICKET && !defined(WAKE_ANY) && !defined(WAKE_FIRST)
#define KICK_EACH	1
#else
#define KICK_EACH	0
#endif

/* A hypercall: leaves the guest, which empties the buffer. */
inline kick(me, whom)
{
	drain(me);
#ifndef NO_KICK
	kicked[whom] = true
#endif
}

#ifdef ONE_LOOK
#define SEEN	look_at_slot(); at++; SKIP_MINE(me)
#else
#define SEEN	seen = true
#endif

inline look_at_slot()
{
	if
#if TICKET
#ifdef WAKE_ANY
	:: s_sleeps[at] && next == NONE -> next = at
#else
#ifdef WAKE_FIRST
	:: s_sleeps[at] && s_ticket[at] == now && next == NONE -> next = at
#else
	:: s_sleeps[at] && s_ticket[at] == now -> next = at
#endif
#endif
#else
	:: s_sleeps[at] && !s_woken[at] && (next == NONE || s_ticket[at] < nearest) ->
		next = at;
		nearest = s_ticket[at]
#endif
	:: else
	fi
}

inline release(me)
{
	/* try_cmpxchg_release(LOCKED, 0), or a look at granted and a store. */
	d_step {
		drain(me);
		owners--;
		slow = (locked == SLOW);
		if
		:: slow -> now = granted; b_release[me] = true
		:: else -> locked = FREE
		fi;
		at = 0;
		SKIP_MINE(me)
	};
	if
	:: slow ->
#ifndef NO_MB2
		MB(me);
#endif
		/*
		 * Look at one bit and its slot after the other. The one furthest ahead wins; with
		 * the ticket lock, each that has the ticket is kicked.
		 */
		do
		:: d_step { at < CPUS && !seen && !(KICK_EACH && next != NONE) && s_bit[at] ->
			SEEN }
		:: d_step { at < CPUS && !seen && !(KICK_EACH && next != NONE) && !s_bit[at] ->
			at++; SKIP_MINE(me) }
		:: d_step { seen -> seen = false; look_at_slot(); at++; SKIP_MINE(me) }
		:: d_step { KICK_EACH && next != NONE -> kick(me, next); next = NONE }
		:: at >= CPUS && !seen && !(KICK_EACH && next != NONE) -> break
		od;
		if
		:: next != NONE ->
#ifdef KICK_FIRST
			d_step { kick(me, next) };
			d_step { s_woken[next] = true; next = NONE }
#else
			s_woken[next] = true;
			d_step { kick(me, next); next = NONE }
#endif
		:: next == NONE
		fi
	:: !slow
	fi;
	d_step { slow = false; now = 0; next = NONE; nearest = 0; at = 0 }
}

inline clear_slot(me)
{
	UNSEEN;
	b_sleeps[me] = false;
	b_bit[me] = false;
	b_ticket[me] = 0;
	b_woken[me] = (b_slot[me] -> b_woken[me] : s_woken[me]);
	BUFFER_SLOT(me)
}

/*
 * The stores of another park on this CPU, and what it leaves when it has taken that lock: an
 * empty slot, and no kicks. An interrupt's handler ends the halt besides.
 */
inline park_elsewhere(me, sleeps)
{
	d_step { s_ticket[me] = 0; interrupted = true };
#ifdef SAME_BUCKET
	d_step { s_woken[me] = false; s_sleeps[me] = false; s_bit[me] = false };
#else
	d_step { s_woken[me] = false; s_sleeps[me] = false };
	if
	:: true -> s_bit[me] = false
	:: true
	fi;
#endif
#ifdef SAME_BUCKET
	d_step { kicked[me] = false; sleep = sleeps; b_sleeps[me] = false; b_ticket[me] = 0;
		 b_bit[me] = false }
#else
	d_step { kicked[me] = false; sleep = sleeps; b_sleeps[me] = false; b_ticket[me] = 0 }
#endif
}

inline park(me)
{
	/* What is stored, and nobody sees before (1), is one step with it; but ANY_ORDER. */
	d_step {
		b_sleeps[me] = true;
#if defined(NO_BIT) || defined(LATE_BIT)
		b_bit[me] = false;
#elif defined(OLD_BIT)
		b_bit[me] = (interrupted -> s_bit[me] : true);
#else
		b_bit[me] = true;
#endif
		b_ticket[me] = ticket;
#ifndef KEEP_MARK
		b_woken[me] = false;
#else
		b_woken[me] = s_woken[me];
#endif
		BUFFER_SLOT(me);
#if !defined(NO_MB1) && !defined(ANY_ORDER)
		drain(me)
#endif
	};
#ifdef ANY_ORDER
	MB(me);
#endif
#ifdef PROBED
	if
	:: me == 1 && !interrupted -> park_elsewhere(me, sleep)
	:: true
	fi;
#endif
	/* Announce: an atomic operation when it changes the word. */
	d_step {
		if
#ifdef NO_RECHECK
		:: MAY_TAKE(me) -> sleep = true
#else
		:: MAY_TAKE(me) -> clear_slot(me)
#endif
#ifndef NO_ANNOUNCE
		:: !MAY_TAKE(me) && locked == LOCKED -> drain(me); locked = SLOW; sleep = true
#endif
		:: else -> sleep = true
		fi
	};
#ifdef LATE_BIT
	d_step {
		if
		:: sleep -> drain(me); s_bit[me] = true; b_bit[me] = true
		:: else
		fi
	};
#endif
#ifdef PROBED
	if
	:: me == 1 && !interrupted -> park_elsewhere(me, sleep)
	:: true
	fi;
#ifndef NO_LAST_LOOK
	d_step {
		if
		:: sleep && !s_sleeps[me] -> sleep = false; clear_slot(me)
		:: else
		fi
	};
#endif
#endif
	if
	:: sleep -> d_step { kicked[me] -> kicked[me] = false; sleep = false; clear_slot(me) }
#ifdef NESTED
	:: sleep && me == 1 && !interrupted -> park_elsewhere(me, false)
#endif
	:: !sleep
	fi
}

proctype cpu(byte me)
{
	byte round = 0, ticket = NONE, next = NONE, nearest = 0, at = 0, now = 0;
	bool slow = false, sleep = false, interrupted = false, seen = false;

	do
	:: d_step { /* the fast path, or join */
		round < ROUNDS(me) -> round++;
		drain(me);
		if
		:: locked == FREE && waiters == 0 ->
			locked = LOCKED;
			owners++;
			assert(owners == 1)
		:: else ->
			ticket = granted + waiters;
			waiters++
		fi
	   };
	   if
	   :: ticket != NONE ->
		do
		:: d_step { MAY_TAKE(me) -> drain(me); take(me); ticket = NONE }; break
		:: park(me)
		od
	   :: ticket == NONE
	   fi;
	   release(me)
	:: round == ROUNDS(me) -> break
	od
}

init
{
	byte i = 0;

	atomic {
		do
		:: i < CPUS -> run cpu(i); run memory(i); i++
		:: i == CPUS -> break
		od
	}
}
