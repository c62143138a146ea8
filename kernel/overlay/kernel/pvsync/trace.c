// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's tracepoints. They are here, outside of KVM, so that they exist under the same
 * name whether KVM is a module or not.
 */
#define CREATE_TRACE_POINTS
#include <trace/events/pvsync.h>

EXPORT_TRACEPOINT_SYMBOL_GPL(pvsync_preempted);
EXPORT_TRACEPOINT_SYMBOL_GPL(pvsync_lent);
EXPORT_TRACEPOINT_SYMBOL_GPL(pvsync_loan_ended);
EXPORT_TRACEPOINT_SYMBOL_GPL(pvsync_yield);
EXPORT_TRACEPOINT_SYMBOL_GPL(pvsync_yield_outcome);
EXPORT_TRACEPOINT_SYMBOL_GPL(pvsync_shootdown);
