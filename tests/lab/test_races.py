# SPDX-License-Identifier: GPL-2.0-only
"""Which data races are ours: the functions of our sources, and where our hooks are."""

from lab.build import races

PATCH = """\
 1 file changed
diff --git a/x.c b/x.c
--- a/x.c
+++ b/x.c
@@ -41,6 +41,8 @@ static inline int above(struct kvm *kvm)
 \tcalled(kvm);
 }

-static void gone(void)
+static void
 unsigned long __sched within(int cpu)
 {
+\tpvsync_hook(cpu);
--
2.39
static void after(int cpu)
"""


def test_functions_of_a_patch() -> None:
    assert list(races.touched(PATCH)) == ["above", "within"]


def test_functions_of_our_sources() -> None:
    known = races.functions()
    # Static, global, with a type before its name, in a header; then around hunks.
    assert {"spin_yield_to_picked", "pvsync_spin", "choice_find_value", "choice_param_set",
            "choice_takes_number"} <= known
    assert {"context_switch", "kvm_vcpu_on_spin", "try_to_wake_up", "__rcu_read_lock"} <= known
    assert not known & {"if", "while", "for", "switch", "return", "sizeof", "kfree", "schedule"}


def test_races_of_others() -> None:
    assert races.elsewhere("BUG: KCSAN: data-race in a_b / c.constprop.0")
    assert races.elsewhere("BUG: KCSAN: data-race in a_b+0x1/0x2")
    assert not races.elsewhere("BUG: KCSAN: data-race in a_b / pvsync_spin")
    assert not races.elsewhere("BUG: KCSAN: data-race in choice_find_value.isra.0 / a_b")
    assert not races.elsewhere("BUG: KASAN: slab-out-of-bounds in a_b+0x1/0x2")
    assert not races.elsewhere("fine")
