# SPDX-License-Identifier: GPL-2.0-only
import pytest

from lab.machine import console

# ruff: noqa: E501 (recorded lines)

BAD = """\
[   89.932783] watchdog: BUG: soft lockup - CPU#0 stuck for 47s! [swapper/0:0]
[   12.1] BUG: scheduling while atomic: swapper/1/0/0x00110000
[   12.1] WARNING: CPU: 1 PID: 12 at kernel/sched/core.c:100 foo+0x1/0x2
[   12.1] Oops: 0002 [#1] PREEMPT SMP NOPTI
[   12.2] Kernel panic - not syncing: Fatal exception in interrupt
[   60.0] rcu: INFO: rcu_preempt self-detected stall on CPU
[   60.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[   43.0] rcu: rcu_sched kthread timer wakeup didn't happen for 10923 jiffies!
[  121.0] INFO: task hackbench:77 blocked for more than 120 seconds.
[    1.0] general protection fault, probably for non-canonical address 0xdead: 0000 [#1]
[    1.0]  Call Trace:
[    2.0] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable
[    0.3] APIC timer disabled due to verification failure
[   25.2] kvm: user requested TSC rate below hardware speed
[   20.0] spin_lock-torture:--- End of test: FAILURE: nwriters_stress=4
[   30.1] rcu-torture:--- End of test: FAILURE: nreaders=7 nfakewriters=4 stall_cpu=0
[   30.1] rcu-torture:--- End of test: RCU_HOTPLUG: nreaders=7 nfakewriters=4 stall_cpu=0
[   30.1] rcu-torture: rtc: 0000000000000000 !!! ver: 3 tfle: 0
[    9.0] Out of memory: Killed process 77 (hackbench) total-vm:1kB
[   33.0] BUG: kernel NULL pointer dereference, address: 0000000000000020
[   14.7] WARNING: possible circular locking dependency detected
[   14.7] WARNING: possible recursive locking detected
[   14.7] WARNING: possible irq lock inversion dependency detected
[   14.7] WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected
[   14.7]  *** DEADLOCK ***
[   14.7] WARNING: inconsistent lock state
[   14.7] WARNING: suspicious RCU usage
[   14.7] WARNING: bad unlock balance detected!
[   14.7] WARNING: held lock freed!
[   14.7] WARNING: insmod/77 still has locks held!
[   14.7] INFO: trying to register non-static key.
[   14.7] turning off the locking correctness validator.
[   14.7] BUG: sleeping function called from invalid context at kernel/locking/mutex.c:587
[   14.7] BUG: spinlock bad magic on CPU#0, swapper/0/1
[   14.7] BUG: using smp_processor_id() in preemptible [00000000] code: kworker/1:1/30
[   14.7] [ BUG: Invalid wait context ]
[   14.7] BUG: KASAN: slab-out-of-bounds in provoke_init+0x5a/0x1000 [provoke_fault]
[   14.7] BUG: KASAN: slab-use-after-free in kvm_vcpu_on_spin+0x5a/0x100
[   14.7] BUG: KCSAN: data-race in pvsync_hvs_put / pvsync_hvs_load
[   14.7] BUG: KCSAN: data-race in provoke_race_on [provoke_fault] / provoke_race_on [provoke_fault]
[   14.7] BUG: KCSAN: data-race in tick_sched_timer / __schedule.constprop.0
[   14.7] BUG: KCSAN: data-race in spin_yield_to_picked.isra.0+0x33/0x120
[   14.7] BUG: KCSAN: assert: race in dequeue_entities / wakeup_preempt
""".splitlines()

GOOD = b"""\
[    0.000000] Kernel compiled without mitigations, ignoring 'mitigations'; system may still be vulnerable\r
[    0.751822] PCI: Fatal: No config space access function found
[    1.000448] kvm_intel: VMX not supported by CPU 1
[   62.175876] clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1 wd_nsec: 1
[   10.349573] kvm: kvm [53]: vcpu0, guest rIP: 0xffffffff81003183 Unhandled WRMSR(0xc0010007) = 0xffff
[    2.102245] clocksource: Switched to clocksource tsc
[    0.1] hrtimer: interrupt took 3712345 ns
[   20.0] spin_lock-torture:--- End of test: SUCCESS: nwriters_stress=4
[   20.1] rcu-torture:--- Start of test: nreaders=7 nfakewriters=4 stall_cpu=0 stall_cpu_block=0
[   30.1] rcu-torture:--- End of test: SUCCESS: nreaders=7 nfakewriters=4 stall_cpu=0
[    3.013101] spin_lock-torture:!!! Failed to create lock_torture_writer
[  132.438433] sysrq: Power Off
[   14.7] BUG: KCSAN: data-race in tick_nohz_stop_tick / tick_nohz_next_event
[   14.7] BUG: KCSAN: data-race in virtqueue_get_buf [virtio_ring] / virtqueue_add [virtio_ring]
[   14.7] BUG: KCSAN: data-race in rcu_gp_kthread+0x1c/0x100
"""


@pytest.mark.parametrize("line", BAD)
def test_trouble_is_found(line: str) -> None:
    found = console.scan(f"[ 0.0] fine\n{line}\n".encode())
    assert len(found) == 1 and found[0].line == 2
    assert found[0].text == line.split("]", 1)[1].strip()[:160]


def test_ordinary_lines_are_no_trouble() -> None:
    assert console.scan(GOOD) == []


def test_any_bytes_do() -> None:
    data = b"\x00\xff\n\x1b[1mBU\x00G: bad\x1b[0m\r\n" + bytes(range(256)) * 4
    assert [one.text for one in console.scan(data)] == ["BUG: bad"]
    assert console.scan(b"") == []


def test_long_lines_are_cut() -> None:
    assert len(console.scan(b"BUG: " + b"x" * 9999)[0].text) == 160
