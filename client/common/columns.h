/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns.h - text in columns. Every column is as wide as its widest cell. If the terminal is
 * narrower than the table, the columns that do not fit follow in a further block, which repeats the
 * first column, so no line is broken.
 */
#ifndef DDICT_COMMON_COLUMNS_H
#define DDICT_COMMON_COLUMNS_H

#include <stdio.h>

struct column {
    const char *head; /* borrowed */
    int left;         /* align left; else right */
};
struct columns {
    const struct column *columns; /* borrowed */
    unsigned width, filled;       /* number of columns; filled cells of the last row */
    size_t rows, room;            /* rows begun; rows that cell has room for */
    char **cell;                  /* rows * width, owned; NULL: empty */
    int no_memory;
};
void columns_init(struct columns *t, const struct column *columns, unsigned width);
void columns_free(struct columns *t);
/* Add the next cell; the first cell of a row begins the row. Format as in printf(). Control
 * characters are replaced by '?'. */
void columns_cell(struct columns *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void columns_skip(struct columns *t, unsigned cells); /* add empty cells */
/* 0 or -ENOMEM. indent: blanks before each line. columns: of the terminal, 0 for any number. */
int columns_print(const struct columns *t, FILE *f, int indent, int columns);
/* Columns of the terminal f ($COLUMNS wins), or 0 if f is no terminal. */
int terminal_columns(FILE *f);
/* Make text safe to print: each control character becomes '?'. */
void text_harmless(char *text);

#endif
