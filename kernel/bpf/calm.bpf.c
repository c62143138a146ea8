// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calm: a VM borrows no more once its loans of a second add up to a millisecond. The second begins
 * with the first loan that is wanted after the last one was over.
 *
 * Loans that go on while another one is wanted are not in the sum. So a VM may borrow for as long
 * as one loan of each vCPU takes, and as much in the next second.
 */
#include "veto.h"

#define SECOND_NS	1000000000ULL
#define MOST_NS		1000000
#define VMS		1024

/* A second of a VM, and what the VM had borrowed before. */
struct second {
	u64	begin;
	u64	lent;
};

LRU_HASH(seconds, u32, struct second, VMS);

SEC("struct_ops/refuse")
s32 refuse(u64 *args)
{
	struct pvsync_extend_ctx *loan = (void *)args[0];
	struct second fresh = { bpf_ktime_get_ns(), loan->vm_lent }, *second;
	u32 vm = loan->vm;

	second = bpf_map_lookup_elem(&seconds, &vm);
	if (second && fresh.begin - second->begin < SECOND_NS)
		return fresh.lent - second->lent >= MOST_NS;
	bpf_map_update_elem(&seconds, &vm, &fresh, 0);
	return 0;
}

VETO(calm);
