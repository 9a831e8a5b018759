/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - columns of text, in blocks that fit the terminal. */
#include "columns.h"

#include <base/vec.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2 /* blanks between columns */

void text_harmless(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p != 0; p++)
        if (*p < ' ' || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* U+0080 to U+009F as UTF-8 */
            p[0] = p[1] = '?';
}

int terminal_columns(FILE *f) {
    struct winsize w;
    const char *text = getenv("COLUMNS");
    int n;
    if (!isatty(fileno(f)))
        return 0;
    if (text && (n = atoi(text)) > 0)
        return n;
    return ioctl(fileno(f), TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

void columns_init(struct columns *t, const struct column *columns, unsigned width) {
    *t = (struct columns){.columns = columns, .width = width, .filled = width};
}

void columns_free(struct columns *t) {
    for (size_t i = 0; i < t->rows * t->width; i++)
        free(t->cell[i]);
    free(t->cell);
    t->cell = NULL;
    t->rows = t->room = 0;
}

/* Room for the next cell; NULL without memory. */
static char **cell_next(struct columns *t) {
    if (t->filled == t->width) {
        if (t->no_memory ||
            vec_room(&t->cell, &t->room, t->rows + 1, t->width * sizeof *t->cell, 16) < 0) {
            t->no_memory = 1;
            return NULL;
        }
        memset(t->cell + t->rows * t->width, 0, t->width * sizeof *t->cell);
        t->rows++;
        t->filled = 0;
    }
    return &t->cell[(t->rows - 1) * t->width + t->filled++];
}

void columns_cell(struct columns *t, const char *fmt, ...) {
    char **cell = cell_next(t);
    va_list ap;
    if (!cell)
        return;
    va_start(ap, fmt);
    if (vasprintf(cell, fmt, ap) < 0) {
        *cell = NULL;
        t->no_memory = 1;
    } else {
        text_harmless(*cell);
    }
    va_end(ap);
}

void columns_skip(struct columns *t, unsigned cells) {
    while (cells-- > 0)
        cell_next(t);
}

static int column_width(const struct columns *t, unsigned c) {
    size_t w = strlen(t->columns[c].head);
    for (size_t r = 0; r < t->rows; r++) {
        const char *s = t->cell[r * t->width + c];
        if (s && strlen(s) > w)
            w = strlen(s);
    }
    return (int)w;
}

/* Print one cell after `blanks` pending blanks. Returns the blanks that are pending then, so no
 * line ends with blanks. */
static int cell_put(const struct columns *t, FILE *f, int blanks, int width, unsigned c,
                    char *const *row) {
    const char *s = !row ? t->columns[c].head : row[c] ? row[c] : "";
    int n = (int)strlen(s), before = t->columns[c].left ? 0 : width - n;
    if (n == 0)
        return blanks + width + GAP;
    fprintf(f, "%*s%s", blanks + before, "", s);
    return width - n - before + GAP;
}

/* Print one line: column 0 and the columns begin..end-1; row NULL: the headings. */
static void line_put(const struct columns *t, FILE *f, int indent, const int *width, unsigned begin,
                     unsigned end, char *const *row) {
    int blanks = indent;
    if (begin > 0)
        blanks = cell_put(t, f, blanks, width[0], 0, row);
    for (unsigned c = begin; c < end; c++)
        blanks = cell_put(t, f, blanks, width[c], c, row);
    putc('\n', f);
}

int columns_print(const struct columns *t, FILE *f, int indent, int columns) {
    int *width = t->no_memory ? NULL : calloc(t->width, sizeof *width);
    if (!width)
        return -ENOMEM;
    for (unsigned c = 0; c < t->width; c++)
        width[c] = column_width(t, c);
    for (unsigned begin = 0, end; begin < t->width; begin = end) {
        int used = indent + (begin > 0 ? width[0] + GAP : 0) + width[begin];
        for (end = begin + 1;
             end < t->width && (columns == 0 || used + GAP + width[end] <= columns); end++)
            used += GAP + width[end];
        if (begin > 0)
            putc('\n', f);
        line_put(t, f, indent, width, begin, end, NULL);
        for (size_t r = 0; r < t->rows; r++)
            line_put(t, f, indent, width, begin, end, t->cell + r * t->width);
    }
    free(width);
    return 0;
}
