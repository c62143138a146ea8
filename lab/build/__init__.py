# SPDX-License-Identifier: GPL-2.0-only
"""What a run boots: Linux with our sources, the emulator, userlands, images."""
