/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_SEQ_FILE_H
#define PVSYNC_SHIM_SEQ_FILE_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct seq_file {
	char	text[512];
};

/* Formats are the kernel's, to which a u64 is another type than here. */
static inline void seq_printf(struct seq_file *seq, const char *format, ...)
{
	size_t length = strlen(seq->text);
	va_list args;

	va_start(args, format);
	vsnprintf(seq->text + length, sizeof(seq->text) - length, format, args);
	va_end(args);
}

#define seq_puts(seq, string)	seq_printf(seq, "%s", string)

#endif
