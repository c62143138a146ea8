# SPDX-License-Identifier: GPL-2.0-only
# First process of a guest on Debian's userland: its load, and QEMU's agent, which notes in the
# console what it is asked. With `load=locks` among the kernel's arguments the vCPUs wait for each
# other's locks, else each computes.
PATH=/usr/sbin:/usr/bin
export PATH
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /run
for folder in /sys/class/virtio-ports/*; do
	[ "$(cat "$folder/name")" = org.qemu.guest_agent.0 ] && port=/dev/${folder##*/}
done
qemu-ga -m virtio-serial -p "$port" -t /run -v >/dev/ttyS0 2>&1 &
# What the agent is to say, each second.
while sleep 1; do
	grep '^cpu ' /proc/stat >/dev/ttyS0
done &
if grep -q load=locks /proc/cmdline; then
	/usr/lib/pvsync/bin/kernel-loop -m mmap -S 3600
else
	for _ in $(seq "$(nproc)"); do
		while :; do :; done &
	done
	wait
fi
