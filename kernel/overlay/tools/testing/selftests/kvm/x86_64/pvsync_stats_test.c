// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's counters of pvsync as statistics of KVM: their names and units, that each vCPU
 * has its own, and that debugfs has their sums.
 *
 * The test is skipped where the host has none, offers no hypercall of pvsync, or has no debugfs.
 */
#include <linux/kvm_para.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "apic.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#include <linux/pvsync/abi.h>

#define DEBUGFS		"/sys/kernel/debug/kvm"
#define PREFIX		"pvsync_"
#define VCPUS		2
#define CALLS		100
#define EINVAL_ANSWER	((uint64_t)-KVM_EINVAL)
#define ENOSYS_ANSWER	((uint64_t)-KVM_ENOSYS)

static const struct {
	const char *name;
	uint32_t unit;
	int16_t exponent;
} counters[] = {
#define PVSYNC_COUNTER(name, about)		{ PREFIX #name, KVM_STATS_UNIT_NONE, 0 },
#define PVSYNC_COUNTER_NS(name, about)		{ PREFIX #name, KVM_STATS_UNIT_SECONDS, -9 },
#define PVSYNC_COUNTER_CYCLES(name, about)	{ PREFIX #name, KVM_STATS_UNIT_CYCLES, 0 },
#define PVSYNC_COUNTERS_OF_VCPUS
#include <linux/pvsync/counters.h>
};

/* Flushes its own translations, and makes calls that are refused, too. */
static void guest_main(uint64_t id, uint64_t flushes, uint64_t refused)
{
	uint64_t self = 1UL << id;

	/* KVM knows a vCPU by its APIC ID once the guest has set its APIC up. */
	x2apic_enable();
	GUEST_SYNC(kvm_hypercall(PVSYNC_HC_FEATURES, 0, 0, 0, 0));
	while (flushes--)
		GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_TLB, self, 0, 0, 0) & ~self, 0);
	while (refused--)
		GUEST_ASSERT_EQ(kvm_hypercall(PVSYNC_HC_TLB, self, 0, 2, 0), EINVAL_ANSWER);
	GUEST_DONE();
}

static void run(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	for (;;) {
		vcpu_run(vcpu);
		TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
		switch (get_ucall(vcpu, &uc)) {
		case UCALL_ABORT:
			REPORT_GUEST_ASSERT(uc);
			break;
		case UCALL_DONE:
			return;
		case UCALL_SYNC:
			__TEST_REQUIRE(uc.args[1] != ENOSYS_ANSWER,
				       "the host offers nothing of pvsync");
			break;
		default:
			TEST_FAIL("ucall %lu", uc.cmd);
		}
	}
}

struct stats {
	int fd;
	struct kvm_stats_header header;
	struct kvm_stats_desc *descs;
};

static struct kvm_stats_desc *find(struct stats *stats, const char *name)
{
	unsigned int i;

	for (i = 0; i < stats->header.num_desc; i++) {
		struct kvm_stats_desc *desc = get_stats_descriptor(stats->descs, i,
								   &stats->header);

		if (!strcmp(desc->name, name))
			return desc;
	}
	TEST_FAIL("%s is no statistic of a vCPU", name);
	return NULL;
}

static unsigned int number_of_ours(struct stats *stats)
{
	unsigned int i, n = 0;

	for (i = 0; i < stats->header.num_desc; i++)
		n += !strncmp(get_stats_descriptor(stats->descs, i, &stats->header)->name,
			      PREFIX, strlen(PREFIX));
	return n;
}

static void open_stats(struct kvm_vcpu *vcpu, struct stats *stats)
{
	unsigned int i, ours;

	stats->fd = vcpu_get_stats_fd(vcpu);
	read_stats_header(stats->fd, &stats->header);
	stats->descs = read_stats_descriptors(stats->fd, &stats->header);
	ours = number_of_ours(stats);
	__TEST_REQUIRE(ours, "the host has no statistics of pvsync");
	TEST_ASSERT(ours == ARRAY_SIZE(counters), "%u statistics, not %lu", ours,
		    ARRAY_SIZE(counters));
	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		struct kvm_stats_desc *desc = find(stats, counters[i].name);

		TEST_ASSERT(desc->flags == (KVM_STATS_TYPE_CUMULATIVE | counters[i].unit |
					    KVM_STATS_BASE_POW10) &&
			    desc->exponent == counters[i].exponent && desc->size == 1,
			    "%s: flags %#x, exponent %d, size %u", desc->name, desc->flags,
			    desc->exponent, desc->size);
	}
}

static uint64_t value(struct stats *stats, const char *name)
{
	uint64_t found;

	read_stat_data(stats->fd, &stats->header, find(stats, name), &found, 1);
	return found;
}

static void check_values(struct stats *stats, uint64_t flushes, uint64_t refused)
{
	TEST_ASSERT_EQ(value(stats, PREFIX "tlb_calls"), flushes + refused);
	TEST_ASSERT_EQ(value(stats, PREFIX "tlb_refused"), refused);
	TEST_ASSERT(value(stats, PREFIX "tlb_ns"), "no time was spent on flushes");
}

/* Of KVM's own file. */
static uint64_t file_value(const char *folder, const char *name)
{
	char path[128];
	uint64_t found;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	TEST_ASSERT(file && fscanf(file, "%lu", &found) == 1, "%s has no number", path);
	fclose(file);
	return found;
}

/* Of pvsync's file, whose lines are in the order of the list. */
static uint64_t next_line_value(FILE *file, const char *name)
{
	char found[64];
	uint64_t value;

	TEST_ASSERT(fscanf(file, "%63s %lu", found, &value) == 2, "no line of %s", name);
	TEST_ASSERT(!strcmp(found, name + strlen(PREFIX)), "%s in place of %s", found, name);
	return value;
}

static void check_debugfs(struct kvm_vm *vm, struct stats *stats)
{
	char folder[64], path[128];
	unsigned int i, j;
	FILE *file;

	snprintf(folder, sizeof(folder), DEBUGFS "/%d-%d", getpid(), vm->fd);
	snprintf(path, sizeof(path), "%s/pvsync/counters", folder);
	file = fopen(path, "r");
	TEST_ASSERT(file, "%s cannot be opened", path);
	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		const char *name = counters[i].name;
		uint64_t sum = 0;

		for (j = 0; j < VCPUS; j++)
			sum += value(&stats[j], name);
		TEST_ASSERT_EQ(file_value(folder, name), sum);
		TEST_ASSERT_EQ(next_line_value(file, name), sum);
	}
	fclose(file);
}

int main(void)
{
	struct kvm_vcpu *vcpus[VCPUS];
	struct stats stats[VCPUS];
	struct kvm_vm *vm;
	unsigned int i;

	TEST_REQUIRE(kvm_has_cap(KVM_CAP_BINARY_STATS_FD));
	__TEST_REQUIRE(!access(DEBUGFS, X_OK), "there is no " DEBUGFS);

	vm = vm_create_with_vcpus(VCPUS, guest_main, vcpus);
	for (i = 0; i < VCPUS; i++) {
		open_stats(vcpus[i], &stats[i]);
		vcpu_args_set(vcpus[i], 3, (uint64_t)vcpus[i]->id, (uint64_t)CALLS, (uint64_t)i);
	}
	for (i = 0; i < VCPUS; i++)
		run(vcpus[i]);

	for (i = 0; i < VCPUS; i++)
		check_values(&stats[i], CALLS, i);
	check_debugfs(vm, stats);

	for (i = 0; i < VCPUS; i++) {
		close(stats[i].fd);
		free(stats[i].descs);
	}
	kvm_vm_free(vm);
	return 0;
}
