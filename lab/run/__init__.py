# SPDX-License-Identifier: GPL-2.0-only
"""Makes the runs and keeps their records: sessions, lanes, the judgement of each run."""
