/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_JUMP_LABEL_H
#define PVSYNC_TEST_JUMP_LABEL_H

/* A static key is a plain flag here. */
struct static_key_false {
	bool on;
};

#define DECLARE_STATIC_KEY_FALSE(name)	extern struct static_key_false name
#define DEFINE_STATIC_KEY_FALSE(name)	struct static_key_false name
#define static_branch_unlikely(key)	unlikely((key)->on)

#endif
