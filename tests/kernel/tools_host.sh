# SPDX-License-Identifier: GPL-2.0-only
# Functions for the KVM host, read by a shell there: its libvirt, with guests of the lab's kernel.

WAIT_S=300	# for libvirt, which asks QEMU, and for a guest to boot
ROOT=/dev/vdb	# of guests: the host's own
KERNEL=/dev/vdc

say() {
	echo "tools: $*"
}

# until_done WHAT COMMAND...
until_done() {
	local what=$1 left=$WAIT_S
	shift
	until "$@" >/run/said 2>&1; do
		left=$((left - 1))
		if [ $left = 0 ]; then
			say "$what did not come in $WAIT_S s"
			cat /run/said /var/log/libvirt/qemu/*.log
			exit 1
		fi
		sleep 1
	done
}

# Folders that libvirt writes to, in memory. No systemd, no other user and no groups of its own.
start_libvirt() {
	local name
	for name in etc var; do
		mkdir -p /run/up/$name /run/up/$name.work
		mount -t overlay -o "lowerdir=/$name,upperdir=/run/up/$name,workdir=/run/up/$name.work" \
			overlay /$name
	done
	cat >/etc/libvirt/qemu.conf <<-END
		user = "root"
		group = "root"
		dynamic_ownership = 0
		remember_owner = 0
		security_driver = "none"
		namespaces = []
		cgroup_controllers = []
		stdio_handler = "file"
	END
	libvirtd --daemon
	until_done libvirt virsh uri
}

# start_guest NAME VCPUS "KERNEL'S ARGUMENTS" PROGRAM ARGUMENTS...: the program is all it runs, one
# of the lab's, or with its path. $DEVICES are more devices of it, as libvirt writes them, and
# $DOMAIN is what else it has. $EMULATOR is its QEMU, Debian's if there is none.
start_guest() {
	local name=$1 vcpus=$2 kernel=$3 program=$4
	shift 4
	case $program in /*) ;; *) program=/usr/lib/pvsync/bin/$program ;; esac
	cat >/run/$name.xml <<-END
		<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
		<name>$name</name><memory unit='MiB'>256</memory><vcpu>$vcpus</vcpu>
		<os><type arch='x86_64' machine='q35'>hvm</type><kernel>$KERNEL</kernel>
		<cmdline>console=ttyS0 root=/dev/vda rootfstype=erofs ro no_timer_check tsc=reliable
		initcall_blacklist=svm_init,vmx_init mitigations=off panic=-1
		init=$program $kernel -- $*</cmdline></os>
		<features><acpi/><apic/></features><cpu mode='host-passthrough'/>
		<devices><emulator>${EMULATOR:-/usr/bin/qemu-system-x86_64}</emulator>
		<disk type='block' device='disk'><driver name='qemu' type='raw'/><readonly/>
		<source dev='$ROOT'/><target dev='vda' bus='virtio'/></disk>
		<serial type='file'><source path='/run/$name.log'/></serial>
		<memballoon model='none'/>$DEVICES</devices>$DOMAIN</domain>
	END
	until_done "guest $name" virsh create /run/$name.xml
	until_done "guest $name's program" grep -q "Run $program as init" /run/$name.log
}
