# SPDX-License-Identifier: GPL-2.0-only
"""For all tests that pytest runs."""

import signal

# A test run that was started in the background inherits "ignore": Ctrl-C, and the
# runner of all tests, could not end it, and the programs that tests start and interrupt
# would inherit it in turn. A handler is not inherited. Under nohup a hangup still does
# nothing to the tests, but what they start is not under nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
