/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PVSYNC_BPF_VETO_H
#define _PVSYNC_BPF_VETO_H

/*
 * What a BPF program gets that refuses loans to vCPUs in sections. What each field means is said
 * in arch/x86/kvm/pvsync/bpf_extend.c. Only the fields have to be there that a program reads.
 */

#include "types.h"

enum { IRQ, LOCK, READER, RCU, MUTEX, STUCK, WAITER, KERNEL, USER, UNKNOWN };

struct pvsync_extend_ctx {
	u32	vm;
	u32	vcpu;
	u32	vcpus;
	u32	doing;
	u32	most_us;
	u32	cap;
	u64	borrowed;
	u64	lent;
	u64	vm_lent;
} KERNEL_TYPE;

struct pvsync_extend_ops {
	s32	(*refuse)(struct pvsync_extend_ctx *loan);
	char	name[16];
};

/* A program of the function refuse(), by this name. */
#define VETO(name_)							\
LICENSE;								\
									\
SEC(".struct_ops")							\
struct pvsync_extend_ops name_ = {					\
	.refuse	= (void *)refuse,					\
	.name	= #name_,						\
}

#endif
