# SPDX-License-Identifier: GPL-2.0-only
"""The two ways in which the lab refuses: the caller's fault, or the run's."""


class LabError(Exception):
    """Something went wrong that the caller could not know; exit status 1.

    The message is one sentence that says what happened and what to do.
    """


class UsageError(LabError):
    """A wrong option, name, file or missing package; exit status 2."""
