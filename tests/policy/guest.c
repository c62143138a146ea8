// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a guest finds out about its host before it uses anything of it: kernel/pvsync/guest.c.
 * The lab has no encrypted guests; here there is one, whom the question itself would kill.
 */
#include <stddef.h>

#include "check.h"

static struct machine {
	bool	kvm, dedicated, encrypted;
	long	features;
	unsigned int leaf;	/* what CPUID says; 0 for a host without the leaves */
	const char *signature;	/* another one's than pvsync's, if there is one */
} machine;
static unsigned int asked;
static unsigned long asked_for;

static long answer(unsigned long nr)
{
	asked++;
	asked_for = nr;
	return machine.features;
}

/* Its hypercall, `asm volatile (instruction : ...)` in a function whose parameter is nr. */
#define CONFIG_PVSYNC_GUEST
#define CONFIG_PVSYNC_HELP
#define CONFIG_PVSYNC_TLB
#define CONFIG_PVSYNC_PARK
#define volatile(...)	("" : "=a" (ret) : "0" (answer(nr)) : "memory")
#include <../kernel/pvsync/guest.c>
#undef volatile

bool kvm_para_available(void)
{
	return machine.kvm;
}

bool kvm_para_has_hint(unsigned int feature)
{
	return feature == KVM_HINTS_REALTIME && machine.dedicated;
}

long kvm_hypercall1(unsigned int nr, unsigned long p1)
{
	return p1 ? -1 : answer(nr);
}

/* Where there is no leaf of pvsync, a processor may answer with another leaf. */
void cpuid(unsigned int leaf, unsigned int *eax, unsigned int *ebx, unsigned int *ecx,
	   unsigned int *edx)
{
	const char *signature = machine.signature;

	if (!signature)
		signature = machine.leaf ? PVSYNC_CPUID_SIGNATURE : "GenuineIntel";
	CHECK_EQ(leaf, PVSYNC_CPUID_BASE);
	*eax = PVSYNC_CPUID_FEATURES;
	memcpy(ebx, signature, 4);
	memcpy(ecx, signature + 4, 4);
	memcpy(edx, signature + 8, 4);
}

unsigned int cpuid_eax(unsigned int leaf)
{
	CHECK_EQ(leaf, PVSYNC_CPUID_FEATURES);
	return machine.leaf;
}

bool boot_cpu_has(unsigned int feature)
{
	return feature == X86_FEATURE_VMMCALL;
}

bool cc_platform_has(enum cc_attr attr)
{
	return attr == CC_ATTR_GUEST_MEM_ENCRYPT && machine.encrypted;
}

#define OFFERED	(PVSYNC_FEATURE_HELP | PVSYNC_FEATURE_ECS)

static bool lacks(unsigned long feature, struct machine one, const char *reason)
{
	const char *said;

	machine = one;
	asked = 0;
	said = pvsync_host_lacks(feature);
	return reason ? said && !strcmp(said, reason) : !said;
}

static void it_is_asked_once_and_believed(void)
{
	struct machine good = { .kvm = true, .features = OFFERED };

	CHECK(lacks(PVSYNC_FEATURE_HELP, good, NULL));
	CHECK_EQ(asked, 1);
	CHECK_EQ(asked_for, PVSYNC_HC_FEATURES);
	CHECK(lacks(PVSYNC_FEATURE_ECS, good, NULL));
	CHECK(lacks(PVSYNC_FEATURE_TLB, good, "the host does not offer it"));
	good.features = 0;
	CHECK(lacks(PVSYNC_FEATURE_HELP, good, "the host does not offer it"));
}

/* A host that has leaves is asked by nothing else; one whose leaves are not pvsync's is. */
static void leaves_go_first(void)
{
	struct machine host = { .kvm = true, .features = OFFERED, .leaf = PVSYNC_FEATURE_TLB };

	CHECK(lacks(PVSYNC_FEATURE_TLB, host, NULL));
	CHECK(lacks(PVSYNC_FEATURE_HELP, host, "the host does not offer it"));
	CHECK_EQ(asked, 0);
	CHECK_EQ(pvsync_host_offers(), PVSYNC_FEATURE_TLB);
	CHECK_EQ(asked, 0);
	CHECK(!pvsync_host_has_msrs());
	machine.leaf |= PVSYNC_FEATURE_ECS;
	CHECK(pvsync_host_has_msrs());
	host.signature = "pvsyncpvsynx";
	CHECK(lacks(PVSYNC_FEATURE_HELP, host, NULL));
	CHECK_EQ(asked, 1);
	machine.leaf = PVSYNC_FEATURE_ECS;
	CHECK(!pvsync_host_has_msrs());
}

/* An error has most bits set. */
static void an_error_is_no_offer(void)
{
	for (long error = 1; error <= 4096; error++) {
		struct machine old = { .kvm = true, .features = -error };

		if (!CHECK(lacks(PVSYNC_FEATURE_HELP, old, "the host does not offer it")))
			break;
	}
}

static void who_cannot_use_it_does_not_ask(void)
{
	struct machine none = { .features = OFFERED };
	struct machine dedicated = { .kvm = true, .dedicated = true, .features = OFFERED };
	struct machine encrypted = { .kvm = true, .encrypted = true, .features = OFFERED };

	CHECK(lacks(PVSYNC_FEATURE_HELP, none, "this is no KVM guest"));
	CHECK_EQ(asked, 0);
	CHECK(lacks(PVSYNC_FEATURE_HELP, dedicated, "the host dedicates CPUs to this guest"));
	CHECK_EQ(asked, 0);
	CHECK(lacks(PVSYNC_FEATURE_HELP, encrypted, "the host cannot see into an encrypted guest"));
	CHECK_EQ(asked, 0);
}

enum told { NOT_TOLD, LOST, OFFERED_AGAIN };

static enum told help, tlb, park;

static enum told told(bool offered)
{
	return offered ? OFFERED_AGAIN : LOST;
}

void pvsync_help_offered(bool offered)
{
	help = told(offered);
}

void pvsync_tlb_is_offered(bool offered)
{
	tlb = told(offered);
}

void pvsync_park_offered(bool offered)
{
	park = told(offered);
}

/* The host is another one: does each hear of it, and is it asked about once more later? */
static bool hears(long features, enum told of_help, enum told of_tlb, enum told of_park)
{
	help = tlb = park = NOT_TOLD;
	machine.features = features;
	asking_again.scheduled = asked = 0;
	asking_again.work(NULL);
	return help == of_help && tlb == of_tlb && park == of_park && asked == 1 &&
	       asking_again.scheduled == 10 * HZ;
}

static void another_host_is_noticed(void)
{
	struct machine host = { .kvm = true, .features = OFFERED };

	used = asking_again.scheduled = 0;
	CHECK(lacks(PVSYNC_FEATURE_TLB, host, "the host does not offer it"));
	pvsync_ask_again_init();
	CHECK_EQ(asking_again.scheduled, 0);
	CHECK(lacks(PVSYNC_FEATURE_HELP, host, NULL));
	CHECK(lacks(PVSYNC_FEATURE_ECS, host, NULL));
	pvsync_ask_again_init();
	CHECK_EQ(asking_again.scheduled, 10 * HZ);
	/* What was not offered at boot stays away. */
	CHECK(hears(OFFERED | PVSYNC_FEATURE_TLB, OFFERED_AGAIN, NOT_TOLD, OFFERED_AGAIN));
	CHECK(hears(PVSYNC_FEATURE_HELP, OFFERED_AGAIN, NOT_TOLD, LOST));
	CHECK(hears(PVSYNC_FEATURE_ECS, LOST, NOT_TOLD, OFFERED_AGAIN));
	CHECK(hears(-1000, LOST, NOT_TOLD, LOST));
	CHECK(hears(OFFERED, OFFERED_AGAIN, NOT_TOLD, OFFERED_AGAIN));
	host.features |= PVSYNC_FEATURE_TLB;
	CHECK(lacks(PVSYNC_FEATURE_TLB, host, NULL));
	CHECK(hears(PVSYNC_FEATURE_TLB, LOST, OFFERED_AGAIN, LOST));
	CHECK(hears(OFFERED, OFFERED_AGAIN, LOST, OFFERED_AGAIN));
}

static bool shows(struct machine one, const char *line)
{
	struct seq_file seq = { };

	machine = one;
	asked = 0;
	pvsync_host_in_force(&seq);
	return !strcmp(seq.text, line);
}

#define NOTHING	"host_features none\nhost_found_by none\n"

/* in_force names what the host offers at the moment; a bit without a name is not left out. */
static void what_is_offered_is_shown(void)
{
	struct machine host = { .kvm = true, .features = OFFERED };

	CHECK(shows(host, "host_features help,ecs\nhost_found_by hypercall\n"));
	CHECK_EQ(asked, 1);
	CHECK_EQ(asked_for, PVSYNC_HC_FEATURES);
	host.features = 1UL << 40 | PVSYNC_FEATURE_HELP;
	CHECK(shows(host, "host_features help,bit40\nhost_found_by hypercall\n"));
	host.features = 0;
	CHECK(shows(host, NOTHING));
	host.features = -1000;
	CHECK(shows(host, NOTHING));
	host.leaf = PVSYNC_FEATURE_ECS;
	CHECK(shows(host, "host_features ecs\nhost_found_by cpuid\n"));
	CHECK_EQ(asked, 0);
	host.features = OFFERED;
	host.encrypted = true;
	CHECK(shows(host, NOTHING));
	CHECK_EQ(asked, 0);
}

int main(void)
{
	RUN_TEST(what_is_offered_is_shown);
	RUN_TEST(another_host_is_noticed);
	RUN_TEST(it_is_asked_once_and_believed);
	RUN_TEST(leaves_go_first);
	RUN_TEST(an_error_is_no_offer);
	RUN_TEST(who_cannot_use_it_does_not_ask);
	return check_summary();
}
