// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every run of a lock on x86-TSO: CPUS CPUs that take and release it a number of
 * rounds each, the lock's code as it is compiled (context.h), one access a step,
 * breadth first. Stores go through a store buffer, in order, and reach memory at
 * any later time; an atomic operation waits until the buffer is empty. What x86
 * does not do a compiler may, where the code allows it:
 *
 *   a store that is no release overtakes stores of data before it
 *   data is read before the exchange that takes the lock
 *
 * Found in any run: two owners; data of an earlier owner that is not seen; a waiter
 * overtaken by one behind it that has not timed out, unless it was overtaken by one
 * that had (guarantee 1 of section 4.3 of the paper); an arrival that takes the
 * lock while others wait (2); a free lock whose word is not 0 in the end. Found in
 * all runs together: a state from which not everybody gets through; and, of
 * guarantee 3, that of two timed-out waiters only one can be first.
 *
 *	explore [--rounds N] [--tau N] [--impatience N] [--cpus N] [--try] [--wrap]
 *		[--overtaking] [--timed] [--stop-waiters] [--stop-owners N]
 *
 * Without --impatience it is 1, the paper's lock.
 *
 * --try lets each round be a trylock instead, --wrap starts with a queue whose
 * tickets are about to wrap.
 *
 * --overtaking counts, for each wait from its ticket on, how often others own the
 * lock, and how often those with later tickets do; and tells the most of any run. It
 * is an error if timeouts do not account for it: each time that one with a later
 * ticket owns the lock after its timeout, all that wait between the two may follow
 * it, so of n CPUs no more than n - 1 overtake in all.
 *
 * --timed: CPUs are equally fast. Time goes by in ticks; in each, all that wait look at
 * the word once, by joining or by a load, and everything else is done in less, so that
 * the lock is held and handed over within a tick. Found: a waiter that times out.
 *
 * --stop-waiters, --stop-owners N: the same with CPUs that the host stops for any number
 * of ticks: waiters when it likes, N owners in all. Counted for CPU 0 (all are alike):
 * how often others take the lock while it waits, since it was stopped last, and how often
 * those with later tickets do. The most of any run is told. Found: more than
 * most_takes().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include LOCK_HEADER
#include "context.h"

#include <linux/pvsync/lock_stat.h>
#include <linux/pvsync/pmt_lock.h>

#define MOST_CPUS	3
#define STORES		2
#define MOST_STATES	30000000	/* 5 GiB */
#define NOBODY		255
#define NEVER		UINT32_MAX

struct store {
	u32 value;
	bool data;
	u8 offset;
	u8 size;
	u8 order;
};

struct cpu {
	u16 context;
	u8 rounds;		/* still to begin */
	u8 place;		/* in the queue, from 1; 0 outside of it */
	bool timed_out;
	bool passed;		/* overtaken by one that had timed out */
	u8 early;		/* data as read early, and 1 more */
	u8 stores;
	u8 others;		/* who owned the lock since its ticket; --overtaking */
	u8 later;		/* of these, with later tickets */
	u8 later_timed_out;	/* of these, after a timeout */
	bool looked;		/* in this tick */
	bool off;		/* stopped for this tick */
	u8 unused[3];
	struct store buffer[STORES];
};

/* Others that have taken the lock. */
struct takes {
	u8 all;
	u8 later;		/* their tickets are */
};

struct state {
	u32 word;
	u8 data;
	u8 turns;
	u8 owner;
	u8 owners_to_stop;	/* how many still may */
	bool owner_stopped;	/* this one, at some time */
	/* While CPU 0 waits, since it last did not run: */
	bool owner_counted;
	u8 owners_stopped;
	struct takes takes;
	u8 unused[2];
	struct cpu cpu[MOST_CPUS];
};

enum action { FLUSH, FLUSH_SECOND, STEP, STEP_TRY, READ_EARLY, STOP, ACTIONS };

static unsigned int cpus = 3, rounds = 2;
static bool with_trylock, wrap, count_overtaking, timed, stop_waiters;
static unsigned int owners_to_stop;

static test_lock_t lock;
static u8 protected;
static const char *error;
static bool telling;

/* Of all runs. */
static bool first_was_first, second_was_first;
static u8 most_others, most_later[256];	/* the latter by how many had timed out */
static unsigned int most_timed_out;
static struct takes most;

/* ---- What a CPU executes. ---- */

static u32 access_data(enum model_kind kind, u32 value)
{
	return model_request(kind, &protected, 1, ORDER_PLAIN, value, 0);
}

static void one_cpu(void)
{
	u32 what;

	while ((what = model_request(MODEL_NEXT, NULL, 0, 0, 0, 0))) {
		if (what == 1)
			lock_acquire(&lock);
		else if (!lock_try(&lock))
			continue;
		model_request(MODEL_ENTER, NULL, 0, 0, 0, 0);
		if (!timed)
			access_data(MODEL_STORE, access_data(MODEL_LOAD, 0) + 1);
		model_request(MODEL_LEAVE, NULL, 0, 0, 0, 0);
		lock_release(&lock);
	}
}

/* ---- The trail. ---- */

#define tell(...)							\
	do {								\
		if (telling)						\
			printf(__VA_ARGS__);				\
	} while (0)

static const char *word_text(u32 word)
{
	static char text[4][32];
	static unsigned int at;
	char *into = text[at++ % 4];

	sprintf(into, "%u,%u,%u", pvsync_granted(word), pvsync_waiters(word),
		word & PVSYNC_LOCKED_MASK);
	return into;
}

static void fail(const char *why)
{
	if (!error)
		error = why;
}

/* ---- Memory. ---- */

static const struct request *request_of(const struct cpu *cpu)
{
	return context_request(cpu->context);
}

static u32 bytes(unsigned int size)
{
	return size == 4 ? U32_MAX : (1U << 8 * size) - 1;
}

static bool is_data(const struct request *request)
{
	return request->address == &protected;
}

static u8 offset_of(const struct request *request)
{
	return is_data(request) ? 0 : (char *)request->address - (char *)&lock;
}

static u32 put(u32 word, const struct store *store)
{
	u32 mask = bytes(store->size) << 8 * store->offset;

	return (word & ~mask) | (store->value << 8 * store->offset & mask);
}

/* The lock's word, or the data, as a CPU sees it. */
static u32 seen(const struct state *s, const struct cpu *cpu, bool data)
{
	u32 word = data ? s->data : s->word;

	for (unsigned int i = 0; i < cpu->stores; i++)
		if (cpu->buffer[i].data == data)
			word = put(word, &cpu->buffer[i]);
	return word;
}

static void flush(struct state *s, unsigned int me, unsigned int at)
{
	struct cpu *cpu = &s->cpu[me];
	struct store store = cpu->buffer[at];

	if (store.data)
		s->data = put(s->data, &store);
	else
		s->word = put(s->word, &store);
	cpu->stores--;
	for (unsigned int i = at; i < STORES; i++)
		cpu->buffer[i] = i < cpu->stores ? cpu->buffer[i + 1] : (struct store){ 0 };
	if (store.data)
		tell("cpu %u: its store of data = %u reaches memory\n", me, s->data);
	else
		tell("cpu %u: its store reaches memory: %s\n", me, word_text(s->word));
}

static bool may_overtake(const struct cpu *cpu, unsigned int at)
{
	if (at >= cpu->stores)
		return false;
	for (unsigned int i = 0; i < at; i++)
		if (!cpu->buffer[i].data || cpu->buffer[at].data ||
		    cpu->buffer[at].order != __ATOMIC_RELAXED)
			return false;
	return true;
}

static bool acquires(const struct request *request)
{
	return request->order != __ATOMIC_RELAXED && request->order != __ATOMIC_RELEASE;
}

/* ---- The queue and the owner. ---- */

static void join(struct state *s, unsigned int me)
{
	u8 last = 0;

	for (unsigned int i = 0; i < cpus; i++)
		if (s->cpu[i].place > last)
			last = s->cpu[i].place;
	s->cpu[me].place = last + 1;
	s->cpu[me].looked = timed;	/* at the value that it joined with */
	tell("cpu %u: waits\n", me);
}

/*
 * How often others can take the lock before a waiter that runs: those that wait when it
 * begins to run, once each. Who draws a ticket later cannot, as it has to see as many
 * takes as it found waiters, this one among them, or to wait n * tau for a greater n.
 * While an owner is stopped all others time out, and then they can, too; the owner itself
 * draws its next ticket after that.
 */
static unsigned int most_takes(const struct state *s)
{
	return cpus - 1 + (LOCK_IS_FIFO ? 0 : s->owners_stopped * (cpus - 2));
}

static void count_anew(struct state *s)
{
	s->takes = (struct takes){ 0 };
	s->owners_stopped = 0;
	s->owner_counted = false;
}

static void count_take(struct state *s, unsigned int me)
{
	if (!me)
		count_anew(s);
	if (!me || !s->cpu[0].place)
		return;
	s->takes.all++;
	s->takes.later += s->cpu[0].place < s->cpu[me].place;
	if (s->takes.all > most.all)
		most.all = s->takes.all;
	if (s->takes.later > most.later)
		most.later = s->takes.later;
	if (s->takes.all > most_takes(s))
		fail("others take the lock too often before a waiter that runs");
}

static void overtake(struct cpu *by, struct cpu *cpu)
{
	if ((LOCK_IS_FIFO || !by->timed_out) && !cpu->passed)
		fail("a waiter is overtaken by one that has not timed out");
	if (by->timed_out && cpu->timed_out)
		second_was_first = true;
	cpu->passed = true;
}

static void count_owner(const struct cpu *by, struct cpu *cpu)
{
	u8 *most;

	cpu->others++;
	if (cpu->place < by->place) {
		cpu->later++;
		cpu->later_timed_out += by->timed_out;
	}
	if (cpu->later > (LOCK_IS_FIFO ? 0 : cpu->later_timed_out * (cpus - 1)))
		fail("a waiter is overtaken more often than timeouts account for");

	most = &most_later[cpu->later_timed_out];
	if (cpu->later > *most)
		*most = cpu->later;
	if (cpu->others > most_others)
		most_others = cpu->others;
	if (cpu->later_timed_out > most_timed_out)
		most_timed_out = cpu->later_timed_out;
}

static void leave_queue(struct state *s, unsigned int me)
{
	struct cpu *by = &s->cpu[me];

	for (unsigned int i = 0; i < cpus; i++) {
		struct cpu *cpu = &s->cpu[i];

		if (i == me || !cpu->place)
			continue;
		if (by->place && count_overtaking)
			count_owner(by, cpu);
		if (!by->place)
			fail("an arrival takes the lock while others wait");
		else if (cpu->place < by->place)
			overtake(by, cpu);
		else if (by->timed_out && cpu->timed_out)
			first_was_first = true;
	}
	if (timed)
		count_take(s, me);
	s->owner_stopped = s->owner_counted = false;
	for (unsigned int i = 0; i < cpus; i++)
		if (by->place && s->cpu[i].place > by->place)
			s->cpu[i].place--;
	by->place = 0;
	by->timed_out = false;
	by->passed = false;
	by->others = 0;
	by->later = 0;
	by->later_timed_out = 0;
}

static void enter(struct state *s, unsigned int me)
{
	tell("cpu %u: owns the lock\n", me);
	leave_queue(s, me);
	if (s->owner != NOBODY)
		fail("two owners");
	s->owner = me;
	s->turns++;
}

static void leave(struct state *s, unsigned int me)
{
	if (s->owner != me)
		fail("two owners");
	s->owner = NOBODY;
}

/* ---- Steps. ---- */

static void go_on(struct state *s, unsigned int me, u32 answer);

static void next_round(struct state *s, unsigned int me, u32 what)
{
	s->cpu[me].rounds--;
	tell("cpu %u: %s\n", me, what == 1 ? "locks" : "tries to lock");
	go_on(s, me, what);
}

/* Of what nobody changes: parameters. */
static void read_elsewhere(struct state *s, unsigned int me, const struct request *request)
{
	const volatile char *lock_at = (char *)&lock, *at = request->address;

	if (!is_data(request) && (at < lock_at || at >= lock_at + sizeof(lock)))
		go_on(s, me, *(const volatile u32 *)at);
}

/* What is no access, or one that makes no difference when, is done at once. */
static void settle(struct state *s, unsigned int me)
{
	struct cpu *cpu = &s->cpu[me];

	switch (request_of(cpu)->kind) {
	case MODEL_LOAD:
		read_elsewhere(s, me, request_of(cpu));
		break;
	case MODEL_NEXT:
		if (!cpu->rounds)
			go_on(s, me, 0);
		else if (!with_trylock && !timed)
			next_round(s, me, 1);
		break;
	case MODEL_ENTER:
		enter(s, me);
		go_on(s, me, 0);
		break;
	case MODEL_LEAVE:
		leave(s, me);
		go_on(s, me, 0);
		break;
	case MODEL_COUNT:
		if (request_of(cpu)->operand == PVSYNC_lock_timeouts) {
			tell("cpu %u: has timed out\n", me);
			cpu->timed_out = true;
			if (timed && !stop_waiters && !owners_to_stop)
				fail("a waiter times out though everybody runs");
		}
		go_on(s, me, 0);
		break;
	}
}

static void go_on(struct state *s, unsigned int me, u32 answer)
{
	s->cpu[me].context = context_next(s->cpu[me].context, answer);
	settle(s, me);
}

static void load(struct state *s, unsigned int me, const struct request *request)
{
	struct cpu *cpu = &s->cpu[me];
	u32 value = seen(s, cpu, is_data(request)) >> 8 * offset_of(request);

	if (is_data(request)) {
		if (cpu->early)
			value = cpu->early - 1;
		cpu->early = 0;
		tell("cpu %u: reads data = %u\n", me, value);
		if (value != (u8)(s->turns - 1))
			fail("an owner does not see the data of the one before");
	} else {
		tell("cpu %u: reads %s\n", me, word_text(value));
	}
	go_on(s, me, value & bytes(request->size));
}

static void store(struct state *s, unsigned int me, const struct request *request)
{
	struct cpu *cpu = &s->cpu[me];

	cpu->buffer[cpu->stores++] = (struct store){
		.value = request->operand & bytes(request->size),
		.data = is_data(request),
		.offset = offset_of(request),
		.size = request->size,
		.order = request->order,
	};
	if (is_data(request))
		tell("cpu %u: stores data = %u\n", me, request->operand);
	else
		tell("cpu %u: stores %s\n", me, word_text(seen(s, cpu, false)));
	go_on(s, me, 0);
}

static u32 changed(u32 was, const struct request *request)
{
	switch (request->kind) {
	case MODEL_add:
		return was + request->operand;
	case MODEL_sub:
		return was - request->operand;
	case MODEL_or:
		return was | request->operand;
	case MODEL_and:
		return was & request->operand;
	case MODEL_XCHG:
		return request->operand;
	default:
		return was == request->expected ? request->operand : was;
	}
}

static void atomic(struct state *s, unsigned int me, const struct request *request)
{
	u32 was = s->word >> 8 * offset_of(request) & bytes(request->size);
	u32 now = changed(was, request);
	struct store store = { now, false, offset_of(request), request->size, 0 };
	u32 before = s->word;

	s->word = put(s->word, &store);
	if (acquires(request))
		s->cpu[me].early = 0;
	if (s->word == before)
		tell("cpu %u: finds %s\n", me, word_text(s->word));
	else
		tell("cpu %u: %s -> %s\n", me, word_text(before), word_text(s->word));
	if (pvsync_waiters(s->word) == pvsync_waiters(before) + 1)
		join(s, me);
	go_on(s, me, was);
}

static void read_early(struct state *s, unsigned int me)
{
	s->cpu[me].early = 1 + seen(s, &s->cpu[me], true);
	tell("cpu %u: reads data = %u early\n", me, s->cpu[me].early - 1);
}

/* ---- Time, and CPUs that are stopped. ---- */

static bool looks(const struct cpu *cpu)
{
	return cpu->place && request_of(cpu)->kind == MODEL_LOAD;
}

static bool is_idle(const struct cpu *cpu)
{
	return request_of(cpu)->kind == MODEL_NEXT || request_of(cpu)->kind == MODEL_DONE;
}

/* From when it takes the lock until it stores that it is free. */
static bool owns(const struct state *s, unsigned int me)
{
	return s->owner == me || request_of(&s->cpu[me])->kind == MODEL_STORE;
}

static bool may_stop(const struct state *s, unsigned int me)
{
	const struct cpu *cpu = &s->cpu[me];

	if (owns(s, me))
		return s->owner_stopped || s->owners_to_stop;
	return stop_waiters && cpu->place && !(cpu->looked && looks(cpu));
}

static void stop(struct state *s, unsigned int me)
{
	tell("cpu %u: is stopped for a tick\n", me);
	s->cpu[me].off = true;
	if (!me)
		count_anew(s);
	if (!owns(s, me))
		return;
	s->owners_to_stop -= !s->owner_stopped;
	s->owner_stopped = true;
	if (s->cpu[0].place && !s->cpu[0].off && !s->owner_counted) {
		s->owner_counted = true;
		s->owners_stopped++;
	}
}

/* A tick ends when all that run are about to look again. */
static void end_tick(struct state *s)
{
	for (unsigned int i = 0; i < cpus; i++) {
		const struct cpu *cpu = &s->cpu[i];

		if (!cpu->off && !is_idle(cpu) && !(cpu->looked && looks(cpu)))
			return;
	}
	tell("a tick later:\n");
	for (unsigned int i = 0; i < cpus; i++)
		s->cpu[i].looked = s->cpu[i].off = false;
}

/* An exchange that is to take the lock. */
static bool takes(const struct request *request)
{
	return request->kind == MODEL_CMPXCHG &&
	       request->operand & ~request->expected & PVSYNC_LOCKED_MASK;
}

static bool is_atomic(const struct request *request)
{
	return request->kind >= MODEL_CMPXCHG && request->kind <= MODEL_and;
}

static bool possible(const struct state *s, unsigned int me, enum action action)
{
	const struct cpu *cpu = &s->cpu[me];
	const struct request *request = request_of(cpu);

	if (cpu->off)
		return false;
	switch (action) {
	case FLUSH:
	case FLUSH_SECOND:
		return may_overtake(cpu, action);
	case STEP_TRY:
		return with_trylock && request->kind == MODEL_NEXT;
	case READ_EARLY:
		return !timed && takes(request) && !acquires(request) && !cpu->early;
	case STOP:
		return may_stop(s, me);
	default:
		if (timed && looks(cpu) && cpu->looked)
			return false;
		if (request->kind == MODEL_NEXT && !cpu->rounds)
			return false;
		if (request->kind == MODEL_DONE)
			return false;
		if (is_atomic(request))
			return !cpu->stores;
		return request->kind != MODEL_STORE || cpu->stores < STORES;
	}
}

static void act(struct state *s, unsigned int me, enum action action)
{
	const struct request *request = request_of(&s->cpu[me]);

	if (timed && action == STEP && looks(&s->cpu[me]))
		s->cpu[me].looked = true;
	if (action <= FLUSH_SECOND)
		flush(s, me, action);
	else if (action == STOP)
		stop(s, me);
	else if (action == READ_EARLY)
		read_early(s, me);
	else if (request->kind == MODEL_NEXT)
		next_round(s, me, action == STEP_TRY ? 2 : 1);
	else if (request->kind == MODEL_LOAD)
		load(s, me, request);
	else if (request->kind == MODEL_STORE)
		store(s, me, request);
	else
		atomic(s, me, request);
	if (timed) {
		if (s->cpu[me].stores)
			flush(s, me, 0);
		end_tick(s);
	}
}

static bool all_done(const struct state *s)
{
	for (unsigned int i = 0; i < cpus; i++)
		if (request_of(&s->cpu[i])->kind != MODEL_DONE || s->cpu[i].stores)
			return false;
	return true;
}

/* ---- All of them. ---- */

static struct state *states;
static u32 *reached_from;
static u8 *reached_by;
static u32 state_count, state_room;
static u32 *table, table_size;

static struct { u32 *from, *to; size_t count, room; } moves;

static void *grown(void *memory, size_t size)
{
	memory = realloc(memory, size);
	if (!memory) {
		printf("error: out of memory\n");
		exit(2);
	}
	return memory;
}

static u64 hash(const void *data, size_t size)
{
	const u32 *words = data;
	u64 value = 88172645463325252ULL;

	for (size_t i = 0; i < size / 4; i++)
		value = (value ^ words[i]) * 0x9e3779b97f4a7c15ULL, value ^= value >> 29;
	return value;
}

static void make_room(void)
{
	if (state_count < state_room)
		return;
	if (state_count > MOST_STATES / 2) {
		printf("error: more states than there is room for\n");
		exit(2);
	}
	state_room = state_room ? 2 * state_room : 1 << 16;
	states = grown(states, state_room * sizeof(*states));
	reached_from = grown(reached_from, state_room * sizeof(*reached_from));
	reached_by = grown(reached_by, state_room * sizeof(*reached_by));
	table_size = 4 * state_room;
	table = grown(table, table_size * sizeof(*table));
	memset(table, 0xff, table_size * sizeof(*table));
	for (u32 i = 0; i < state_count; i++) {
		u32 at = hash(&states[i], sizeof(*states)) % table_size;

		while (table[at] != NEVER)
			at = (at + 1) % table_size;
		table[at] = i;
	}
}

/* The number of a state, a new one if it is new. */
static u32 number(const struct state *s, u32 from, u8 by)
{
	u32 at;

	make_room();
	at = hash(s, sizeof(*s)) % table_size;
	for (; table[at] != NEVER; at = (at + 1) % table_size)
		if (!memcmp(&states[table[at]], s, sizeof(*s)))
			return table[at];
	table[at] = state_count;
	states[state_count] = *s;
	reached_from[state_count] = from;
	reached_by[state_count] = by;
	return state_count++;
}

static void note_move(u32 from, u32 to)
{
	if (moves.count == moves.room) {
		moves.room = moves.room ? 2 * moves.room : 1 << 18;
		moves.from = grown(moves.from, moves.room * sizeof(u32));
		moves.to = grown(moves.to, moves.room * sizeof(u32));
	}
	moves.from[moves.count] = from;
	moves.to[moves.count++] = to;
}

static void check_end(const struct state *s)
{
	if (!all_done(s))
		return;
	if (s->word)
		fail("the word of the free lock is not 0 in the end");
	if (!timed && s->data != s->turns)
		fail("a turn is lost");
}

/* The number of a state with an error after it, NEVER if all is well. */
static u32 search(void)
{
	for (u32 at = 0; at < state_count; at++) {
		for (unsigned int by = 0; by < cpus * ACTIONS; by++) {
			struct state s = states[at];

			if (!possible(&s, by / ACTIONS, by % ACTIONS))
				continue;
			act(&s, by / ACTIONS, by % ACTIONS);
			check_end(&s);
			note_move(at, number(&s, at, by));
			if (error)
				return moves.to[moves.count - 1];
		}
	}
	return NEVER;
}

/* The first state from which no run gets everybody through, NEVER if there is none. */
static u32 find_stuck(void)
{
	u32 *begin = calloc(state_count + 2, sizeof(u32));
	u32 *before = grown(NULL, moves.count * sizeof(u32));
	u32 *queue = grown(NULL, state_count * sizeof(u32));
	bool *gets_through = calloc(state_count, 1);
	u32 queued = 0, at;

	for (size_t i = 0; i < moves.count; i++)
		begin[moves.to[i] + 2]++;
	for (at = 2; at < state_count + 2; at++)
		begin[at] += begin[at - 1];
	for (size_t i = 0; i < moves.count; i++)
		before[begin[moves.to[i] + 1]++] = moves.from[i];
	for (at = 0; at < state_count; at++)
		if (all_done(&states[at])) {
			gets_through[at] = true;
			queue[queued++] = at;
		}
	for (u32 i = 0; i < queued; i++)
		for (u32 k = begin[queue[i]]; k < begin[queue[i] + 1]; k++)
			if (!gets_through[before[k]]) {
				gets_through[before[k]] = true;
				queue[queued++] = before[k];
			}
	for (at = 0; at < state_count && gets_through[at]; at++)
		;
	return at < state_count ? at : NEVER;
}

/* The same for every compiler: accesses in the place of contexts. */
static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 hash_of_accesses(struct state s)
{
	u64 value = 0;

	for (unsigned int i = 0; i < cpus; i++) {
		const struct request *r = request_of(&s.cpu[i]);
		u32 access[] = { value, value >> 32, r->kind, r->size, r->order, r->operand,
				 r->expected, is_data(r) };

		value = hash(access, sizeof(access));
		s.cpu[i].context = 0;
	}
	return value ^ hash(&s, sizeof(s));
}

static u32 visible_states(void)
{
	u64 *hashes = grown(NULL, state_count * sizeof(u64));
	u32 count = 0;

	for (u32 i = 0; i < state_count; i++)
		hashes[i] = hash_of_accesses(states[i]);
	qsort(hashes, state_count, sizeof(u64), by_value);
	for (u32 i = 0; i < state_count; i++)
		count += !i || hashes[i] != hashes[i - 1];
	return count;
}

static void print_trail(u32 to)
{
	u32 length = 0, *by;
	struct state s;

	for (u32 i = to; reached_from[i] != NEVER; i = reached_from[i])
		length++;
	by = grown(NULL, (length + 1) * sizeof(u32));
	for (u32 i = to, k = length; k; i = reached_from[i])
		by[--k] = reached_by[i];
	s = states[0];
	telling = true;
	printf("begin: %s\n", word_text(s.word));
	for (u32 i = 0; i < length; i++)
		act(&s, by[i] / ACTIONS, by[i] % ACTIONS);
}

/* ---- The beginning. ---- */

static void begin(struct state *s)
{
	memset(s, 0, sizeof(*s));
	s->owner = NOBODY;
	s->owners_to_stop = owners_to_stop;
	for (unsigned int i = 0; i < cpus; i++)
		s->cpu[i].rounds = wrap ? 1 : rounds;
	for (unsigned int i = 0; i < cpus; i++) {
		s->cpu[i].context = context_first(one_cpu);
		settle(s, i);
	}
}

/* Round robin, rounds without end, up to two grants before the wrap. */
static void approach_wrap(struct state *s)
{
	const u32 soon = (PVSYNC_COUNT_MASK - 1) & PVSYNC_COUNT_MASK;

	while (pvsync_granted(s->word) != soon && !error)
		for (unsigned int by = 0; by < cpus * ACTIONS; by++)
			if (by % ACTIONS <= STEP && possible(s, by / ACTIONS, by % ACTIONS)) {
				s->cpu[by / ACTIONS].rounds = 2;
				act(s, by / ACTIONS, by % ACTIONS);
			}
	/* The round that each is in, and the others. */
	for (unsigned int i = 0; i < cpus; i++)
		s->cpu[i].rounds = rounds - 1;
}

static void parse(int argc, char **argv)
{
	lock_set_impatience(1);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--try"))
			with_trylock = true;
		else if (!strcmp(argv[i], "--wrap"))
			wrap = true;
		else if (!strcmp(argv[i], "--overtaking"))
			count_overtaking = true;
		else if (!strcmp(argv[i], "--timed"))
			timed = true;
		else if (!strcmp(argv[i], "--stop-waiters"))
			stop_waiters = timed = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--stop-owners")) {
			timed = true;
			owners_to_stop = atoi(argv[++i]);
		} else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--cpus"))
			cpus = atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--tau"))
			lock_set_tau(atoi(argv[++i]));
		else if (i + 1 < argc && !strcmp(argv[i], "--impatience"))
			lock_set_impatience(atoi(argv[++i]));
		else
			exit(2);
	}
	if (!cpus || cpus > MOST_CPUS || !rounds)
		exit(2);
}

static void judge(u32 wrong)
{
	if (wrong == NEVER && !error) {
		wrong = find_stuck();
		if (wrong != NEVER)
			error = "not everybody can get through from here";
	}
	if (wrong == NEVER && !error && !LOCK_IS_FIFO && !timed &&
	    !(first_was_first && second_was_first))
		error = "of two waiters that have timed out, not any can be the first";
	if (error) {
		const char *why = error;

		if (wrong != NEVER)
			print_trail(wrong);
		printf("error: %s\n", why);
		exit(1);
	}
}

static void tell_overtaking(void)
{
	printf("owners since a ticket %u; later ones, if 0.. of them timed out:", most_others);
	for (unsigned int i = 0; i <= most_timed_out; i++)
		printf(" %u", most_later[i]);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct state first;

	parse(argc, argv);
	begin(&first);
	if (wrap)
		approach_wrap(&first);
	number(&first, NEVER, 0);
	judge(search());
	printf("states %u, by accesses %u, moves %zu, contexts %u\n",
	       state_count, visible_states(), moves.count, contexts());
	if (count_overtaking)
		tell_overtaking();
	if (timed)
		printf("takes by others %u, by later tickets %u\n", most.all, most.later);
	return 0;
}
