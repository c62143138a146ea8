# SPDX-License-Identifier: GPL-2.0-only
# What a shell reads that typed.py stands before: prompts with the host's time in them.
PS1="[@@@@@@.@@@@@@ s] ${PVSYNC_WHERE:-host}# "
PS0=$'\e]pvsync\a'
