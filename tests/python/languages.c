/* SPDX-License-Identifier: Apache-2.0 */
/* languages.c - the C side of test_languages.py: "put" stores what it knows, "check" reads the same
 * as Python stored it, "keys" tells all keys. */
#include <ddict_values.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ddict_t *d;
static char key[256];
static size_t klen;

#define MUST(what)                                                                         \
    do {                                                                                   \
        if (!(what)) {                                                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, ddict_errmsg()); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

static void key_is(ssize_t n) {
    MUST(n > 0);
    klen = (size_t)n;
}

static void key_text(const char *text) {
    key_is(ddict_key_str(key, sizeof key, text, strlen(text)));
}

static void key_one_x(void) { /* (1, "x") */
    struct ddict_key_part p[2] = {{DDICT_KEY_INT, NULL, 0, 1}, {DDICT_KEY_STR, "x", 1, 0}};
    key_is(ddict_key_tuple(key, sizeof key, p, 2));
}

static void key_deep(void) { /* ("deep", (2**64, b"z")) */
    char inner[64];
    struct ddict_key_part p[2] = {{DDICT_KEY_BIG, "18446744073709551616", 20, 0},
                                  {DDICT_KEY_BYTES, "z", 1, 0}};
    ssize_t n = ddict_key_tuple(inner, sizeof inner, p, 2);
    MUST(n > 0);
    p[0].kind = DDICT_KEY_STR;
    p[0].data = "deep";
    p[0].len = 4;
    p[1].kind = DDICT_KEY_TUPLE;
    p[1].data = inner + 1;
    p[1].len = (size_t)n - 1;
    key_is(ddict_key_tuple(key, sizeof key, p, 2));
}

static void put(struct ddict_value *v) {
    MUST(ddict_putv(d, key, klen, v->iov, v->n, v->flags, -1) == 0);
}

static void put_bool(const char *text, int truth) {
    struct ddict_value v;
    key_text(text);
    ddict_value_bool(&v, truth);
    put(&v);
}

/* 0, 1, 2, ... of any type */
static const char *const types[] = {DDICT_INT8,    DDICT_INT16,   DDICT_INT32,     DDICT_INT64,
                                    DDICT_UINT8,   DDICT_UINT16,  DDICT_UINT32,    DDICT_UINT64,
                                    DDICT_FLOAT32, DDICT_FLOAT64, DDICT_COMPLEX128};
#define TYPES (sizeof types / sizeof *types)

static void fill(const char *type, void *to, size_t n) {
    size_t i, item = (size_t)ddict_type_size(type);
    memset(to, 0, n * item);
    for (i = 0; i < n; i++) {
        uint64_t u = i;
        float f = (float)i;
        double x = (double)i;
        memcpy((char *)to + i * item,
               type[1] == 'c' || strcmp(type, DDICT_FLOAT64) == 0 ? (void *)&x
               : type[1] == 'f'                                   ? (void *)&f
                                                                  : (void *)&u,
               type[1] == 'c' ? 8 : item);
    }
}

static void put_all(void) {
    struct ddict_value v;
    size_t shape[2] = {3, 4}, i;
    double w[1200];
    key_text("n");
    ddict_value_int(&v, -42);
    put(&v);
    key_is(ddict_key_int(key, sizeof key, 7));
    ddict_value_float(&v, 0.5);
    put(&v);
    key_one_x();
    ddict_value_str(&v, "gr\xc3\xbc\xc3\x9f", 6);
    put(&v);
    key_deep();
    ddict_value_bytes(&v, "a\0b", 3);
    put(&v);
    put_bool("yes", 2);
    put_bool("no", 0);
    for (i = 0; i < TYPES; i++) {
        key_text(types[i]);
        fill(types[i], w, 12);
        MUST(ddict_put_array(d, key, klen, types[i], 2, shape, w, 0, -1) == 0);
    }
    fill(DDICT_FLOAT64, w, 1200);
    shape[0] = 300;
    key_text("large");
    MUST(ddict_put_array(d, key, klen, DDICT_FLOAT64, 2, shape, w, 0, -1) == 0);
    key_text("one");
    MUST(ddict_put_array(d, key, klen, DDICT_FLOAT64, 0, NULL, &w[5], 0, -1) == 0);
}

static struct ddict_view view;

static const struct ddict_view *get(void) {
    ddict_release(&view);
    MUST(ddict_view(d, key, klen, &view, 0, -1) == 0);
    return &view;
}

static void check_all(void) {
    int64_t n;
    double x, w[1200];
    const char *text;
    const void *data;
    size_t len, i;
    int truth = 5;
    struct ddict_array a;
    struct ddict_view v;
    key_text("n");
    MUST(ddict_read_int(get(), &n) == 0 && n == -42);
    key_is(ddict_key_int(key, sizeof key, 7));
    MUST(ddict_read_float(get(), &x) == 0 && x == 0.5);
    key_one_x();
    MUST(ddict_read_str(get(), &text, &len) == 0 && len == 6 &&
         memcmp(text, "gr\xc3\xbc\xc3\x9f", 6) == 0);
    key_deep();
    MUST(ddict_read_bytes(get(), &data, &len) == 0 && len == 3 && memcmp(data, "a\0b", 3) == 0);
    key_text("yes");
    MUST(ddict_read_bool(get(), &truth) == 0 && truth == 1);
    MUST(ddict_read_int(get(), &n) == 0 && n == 1 && ddict_read_float(get(), &x) == 0 && x == 1);
    key_text("no");
    MUST(ddict_read_bool(get(), &truth) == 0 && truth == 0);
    for (i = 0; i < TYPES; i++) {
        key_text(types[i]);
        fill(types[i], w, 12);
        MUST(ddict_view_array(d, key, klen, types[i], &a, &v, 0, -1) == 0);
        MUST(a.dims == 2 && a.shape[0] == 3 && a.shape[1] == 4 && memcmp(a.data, w, a.bytes) == 0);
        ddict_release(&v);
    }
    fill(DDICT_FLOAT64, w, 1200);
    key_text("large");
    MUST(ddict_view_array(d, key, klen, DDICT_FLOAT64, &a, &v, 0, -1) == 0);
    MUST(a.count == 1200 && a.shape[1] == 4 && memcmp(a.data, w, sizeof w) == 0);
    ddict_release(&v);
    key_text("one");
    MUST(ddict_view_array(d, key, klen, DDICT_FLOAT64, &a, &v, 0, -1) == 0);
    MUST(a.dims == 0 && *(const double *)a.data == 5);
    ddict_release(&v);
    ddict_release(&view);
}

/* As Python writes them, but for quotes and the comma of a tuple of one. */
static void part_show(const struct ddict_key_part *part) {
    struct ddict_key_part parts[8];
    ssize_t n, i;
    switch (part->kind) {
    case DDICT_KEY_INT:
        printf("%" PRId64, part->number);
        return;
    case DDICT_KEY_TUPLE:
        MUST((n = ddict_key_parts(part, parts, 8)) >= 0);
        printf("(");
        for (i = 0; i < n; i++) {
            printf("%s", i > 0 ? " " : "");
            part_show(&parts[i]);
        }
        printf(")");
        return;
    }
    printf("%c:%.*s", part->kind, (int)part->len, (const char *)part->data);
}

static void show_keys(void) {
    ddict_iter_t *it;
    const void *k;
    size_t n;
    struct ddict_key_part part;
    MUST(ddict_iter_open(d, -1, &it, -1) == 0);
    while (ddict_iter_next(it, &k, &n) == 1) {
        if (ddict_key_parse(k, n, &part) < 0)
            printf("raw");
        else
            part_show(&part);
        printf("\n");
    }
    ddict_iter_close(it);
}

int main(int argc, char **argv) {
    MUST(argc == 2 && ddict_attach(&d, NULL, -1) == 0);
    if (strcmp(argv[1], "put") == 0)
        put_all();
    else if (strcmp(argv[1], "check") == 0)
        check_all();
    else
        show_keys();
    ddict_detach(d);
    return 0;
}
