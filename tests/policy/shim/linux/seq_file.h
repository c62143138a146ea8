/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_SEQ_FILE_H
#define PVSYNC_SHIM_SEQ_FILE_H

#include <stdio.h>
#include <string.h>

struct seq_file {
	char	text[512];
};

#define seq_printf(seq, ...)							\
	((void)snprintf((seq)->text + strlen((seq)->text),			\
			sizeof((seq)->text) - strlen((seq)->text), __VA_ARGS__))
#define seq_puts(seq, string)	seq_printf(seq, "%s", string)

#endif
