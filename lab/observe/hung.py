# SPDX-License-Identifier: GPL-2.0-only
"""What a guest's threads do whose command did not end in time.

Asked of the guest before the command is killed, and kept as raw/RUN/GUEST.tasks. The text has a
paragraph for each thread of a program: its number and name, its state and CPUs, the system call
that it is in with its arguments (proc(5), /proc/PID/syscall), and where the kernel keeps it.
"""

FILE = "{guest}.tasks"
"""Of a run's folder in raw/."""

COMMAND = r"""
for task in /proc/[0-9]*/task/[0-9]*; do
	[ -n "$(tr -d '\0' 2>/dev/null <"$task/cmdline")" ] || continue
	process=${task#/proc/}
	echo "task ${task##*/} of ${process%%/*}: $(cat "$task/comm")"
	grep -E '^(State|Cpus_allowed_list|voluntary_ctxt|nonvoluntary_ctxt)' "$task/status"
	echo "syscall: $(cat "$task/syscall")"
	echo "wchan: $(cat "$task/wchan")"
	cat "$task/stack"
done 2>/dev/null
cat /proc/interrupts /proc/softirqs
"""
"""For bash in the guest; a thread that ends meanwhile is left out in part."""
