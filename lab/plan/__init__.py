# SPDX-License-Identifier: GPL-2.0-only
"""What is to be run: experiments, schemes, machine models, kernel variants, the order of runs."""
