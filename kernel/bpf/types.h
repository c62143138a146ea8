/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _PVSYNC_BPF_TYPES_H
#define _PVSYNC_BPF_TYPES_H

/* What all BPF programs for pvsync need of libbpf's and the kernel's headers, and no more. */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

#define SEC(name)	__attribute__((section(name), used))
#define KERNEL_TYPE	__attribute__((preserve_access_index))

#define LICENSE		char _license[] SEC("license") = "GPL"

/* A map in which the entry goes that was not used for longest. */
#define LRU_HASH(name_, key_, value_, most_)				\
struct {								\
	int	(*type)[9];						\
	int	(*max_entries)[most_];					\
	key_	*key;							\
	value_	*value;							\
} name_ SEC(".maps")

/* The helpers of these numbers. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

/* The callback returns 1 to end the loop. */
static long (*const bpf_loop)(u32 times, void *callback, void *context, u64 flags) = (void *)181;

#endif
