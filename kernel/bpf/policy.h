/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PVSYNC_BPF_POLICY_H
#define _PVSYNC_BPF_POLICY_H

/*
 * What a BPF program gets that chooses whom a spinning vCPU yields to. What each field means is
 * said in arch/x86/kvm/pvsync/bpf.c. Only the fields have to be there that a program reads.
 */

#include "types.h"

#define CHOOSE_STOCK	(-1)

enum { NO_LIST, RESOURCE, LOCK, YIELDED, SECTION };

enum {
	READY		= 1 << 0,
	PREEMPTED	= 1 << 1,
	IN_KERNEL	= 1 << 2,
	SPINS		= 1 << 3,
	CHOSEN		= 1 << 4,
	TRIED		= 1 << 5,
};

struct pvsync_yield_ctx {
	u32	me;
	u32	vcpus;
	s32	last;
	u32	refused;
	u8	in_kernel;
} KERNEL_TYPE;

/* On the program's stack. The kernel fills it in. */
struct pvsync_bpf_vcpu {
	u64	since;
	u32	list;
	u32	flags;
};

struct pvsync_yield_ops {
	s32	(*choose)(struct pvsync_yield_ctx *ctx);
	char	name[16];
};

extern int pvsync_bpf_look(struct pvsync_yield_ctx *ctx, u32 index,
			   struct pvsync_bpf_vcpu *vcpu) __attribute__((section(".ksyms")));

/**
 * struct search - the best vCPU so far
 * @ctx: what the program was given
 * @rank: of that vCPU, below all others
 * @best: its index; that of the vCPU that spins at first
 */
struct search {
	struct pvsync_yield_ctx	*ctx;
	u64			rank;
	u32			best;
};

/* Look at each vCPU, with a callback that gets a number from 0 and the search. */
static inline s32 best_of_all(u64 *args, int (*look)(u32 number, struct search *search))
{
	struct pvsync_yield_ctx *ctx = (void *)args[0];
	struct search search = { .ctx = ctx, .rank = ~0ULL, .best = ctx->me };

	bpf_loop(ctx->vcpus, look, &search, 0);
	return search.best;
}

/* A program of the function choose(), by this name. */
#define POLICY(name_)							\
LICENSE;								\
									\
SEC(".struct_ops")							\
struct pvsync_yield_ops name_ = {					\
	.choose	= (void *)choose,					\
	.name	= #name_,						\
}

#endif
