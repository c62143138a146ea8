# SPDX-License-Identifier: GPL-2.0-only
"""Slices that threads ask EEVDF for, see sched_setattr(2) and Linux' sched-eevdf.rst.

Standard library only; lies beside hostd.py. Linux 6.12 and later heed them for SCHED_OTHER,
between 0.1 and 100 ms; older ones ignore what is asked for, and `get` tells 0.
"""

import ctypes
import os

SCHED_SETATTR, SCHED_GETATTR = 314, 315
"""System calls of x86-64; the C library has no functions for them."""
NS = 1000
"""Of a microsecond."""


class Attributes(ctypes.Structure):
    """struct sched_attr of linux/sched/types.h."""

    _fields_ = (
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64),
        ("util_min", ctypes.c_uint32), ("util_max", ctypes.c_uint32))


def _call(number: int, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _attributes(thread: int) -> Attributes:
    found = Attributes()
    size = ctypes.sizeof(found)
    _call(SCHED_GETATTR, thread, ctypes.byref(found), size, 0)
    found.size = size
    return found


def get(thread: int) -> int:
    """The slice of a thread, us. OSError when there is no such thread."""
    return int(_attributes(thread).runtime) // NS


def ask(thread: int, us: int) -> None:
    """Ask for a slice, us; 0 is the scheduler's own again. All else of the thread stays."""
    wanted = _attributes(thread)
    wanted.runtime = us * NS
    _call(SCHED_SETATTR, thread, ctypes.byref(wanted), 0)
