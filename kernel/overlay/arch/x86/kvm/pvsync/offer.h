/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KVM_X86_PVSYNC_OFFER_H
#define _KVM_X86_PVSYNC_OFFER_H

#include <linux/kvm_host.h>

#include <linux/pvsync/kvm/offer.h>

unsigned long pvsync_vm_features(struct kvm *kvm);
unsigned long pvsync_vcpu_features(struct kvm_vcpu *vcpu);

#endif /* _KVM_X86_PVSYNC_OFFER_H */
