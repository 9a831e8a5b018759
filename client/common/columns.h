/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns.h - columns of text for people. Every column is as wide as its widest cell. Where the
 * terminal is narrower than the table, the columns that do not fit stand in a further block below,
 * beginning with the first column again, so that no line is broken.
 */
#ifndef DDICT_COMMON_COLUMNS_H
#define DDICT_COMMON_COLUMNS_H

#include <stdio.h>

struct column {
    const char *head; /* borrowed */
    int left;         /* adjusted to the left; else to the right */
};
struct columns {
    const struct column *columns; /* borrowed */
    unsigned width, filled;       /* columns; cells of the last row */
    size_t rows, room;            /* rows begun; rows that fit into cell */
    char **cell;                  /* rows * width, owned; NULL: empty */
    int no_memory;
};
void columns_init(struct columns *t, const struct column *columns, unsigned width);
void columns_free(struct columns *t);
/* The next cell; the first of a row begins it. Format as printf. What does not print (control
 * characters) becomes '?'. */
void columns_cell(struct columns *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void columns_skip(struct columns *t, unsigned cells); /* empty ones */
/* 0 or -ENOMEM. indent: blanks before each line. columns: of the terminal, 0 for any number. */
int columns_print(const struct columns *t, FILE *f, int indent, int columns);
/* Columns of the terminal that f is ($COLUMNS wins), or 0 where it is none. */
int terminal_columns(FILE *f);
/* Text as it may be shown: each control character is replaced by '?'. */
void text_harmless(char *text);

#endif
