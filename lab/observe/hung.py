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
	[ -e "$task/exe" ] || continue
	process=${task#/proc/}
	echo "task ${task##*/} of ${process%%/*}: $(<"$task/comm")"
	while read -r line; do
		case $line in State:*|Cpus_allowed_list:*|*ctxt_switches:*) echo "$line" ;; esac
	done <"$task/status"
	echo "syscall: $(<"$task/syscall")"
	echo "wchan: $(<"$task/wchan")"
	echo "$(<"$task/stack")"
done 2>/dev/null
echo "$(</proc/interrupts)"
echo "$(</proc/softirqs)"
"""
"""For bash in the guest; a thread that ends meanwhile is left out in part.

It reads nothing that waits for a thread's memory, as /proc/PID/cmdline does, and starts no program:
the disk may be what the guest waits for."""
