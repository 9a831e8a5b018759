/* SPDX-License-Identifier: Apache-2.0 */
/* worker_c DICTIONARY NUMBER - the C program of languages.py: it reads what Python has put, and puts an array and text that Python reads. */
#define _POSIX_C_SOURCE 200809L
#include <ddict_values.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 100000

static ddict_t *d;

static void must(long rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "worker_c: %s: %s\n", what, ddict_errmsg());
        exit(1);
    }
}

/* d["..."] */
static size_t named(char *key, size_t cap, const char *name) {
    ssize_t n = ddict_key_str(key, cap, name, strlen(name));
    must(n, name);
    return (size_t)n;
}

/* d[name, number], or with a second name d[name, second, number] */
static size_t numbered(char *key, size_t cap, const char *name, const char *second, int number) {
    struct ddict_key_part parts[3];
    size_t n = 0;
    ssize_t len;
    memset(parts, 0, sizeof parts);
    parts[n].kind = DDICT_KEY_STR;
    parts[n].data = name;
    parts[n++].len = strlen(name);
    if (second) {
        parts[n].kind = DDICT_KEY_STR;
        parts[n].data = second;
        parts[n++].len = strlen(second);
    }
    parts[n].kind = DDICT_KEY_INT;
    parts[n++].number = number;
    len = ddict_key_tuple(key, cap, parts, n);
    must(len, name);
    return (size_t)len;
}

static double scale_of(void) {
    char key[64];
    struct ddict_view v;
    double scale;
    must(ddict_view(d, key, named(key, sizeof key, "scale"), &v, DDICT_WAIT, TIMEOUT_MS), "scale");
    must(ddict_read_float(&v, &scale), "scale");
    ddict_release(&v);
    return scale;
}

/* d["c", number] = d["weights"] * scale * (number + 1) */
static void put_scaled(int number, double scale) {
    char key[64];
    struct ddict_view v;
    struct ddict_array a;
    const double *weights;
    double *scaled;
    size_t i, shape[2];
    must(ddict_view_array(d, key, named(key, sizeof key, "weights"), DDICT_FLOAT64, &a, &v, 0, -1), "weights");
    if (a.dims != 2 || !(scaled = malloc(a.bytes))) {
        fprintf(stderr, "worker_c: weights: %u dimensions, %zu bytes\n", a.dims, a.bytes);
        exit(1);
    }
    weights = a.data; /* in place, until the view is released */
    for (i = 0; i < a.bytes / sizeof *weights; i++)
        scaled[i] = weights[i] * scale * (number + 1);
    shape[0] = a.shape[0];
    shape[1] = a.shape[1];
    ddict_release(&v);
    must(ddict_put_array(d, key, numbered(key, sizeof key, "c", NULL, number), DDICT_FLOAT64, 2, shape, scaled, 0, -1), "c");
    free(scaled);
}

static void put_host(int number) {
    char key[64], host[256] = "";
    struct ddict_value v;
    size_t klen = numbered(key, sizeof key, "host", "c", number);
    gethostname(host, sizeof host - 1);
    ddict_value_str(&v, host, strlen(host));
    must(ddict_putv(d, key, klen, v.iov, v.n, v.flags, -1), "host");
}

int main(int argc, char **argv) {
    char key[64];
    int number;
    if (argc != 3) {
        fprintf(stderr, "usage: worker_c DICTIONARY NUMBER\n");
        return 2;
    }
    number = atoi(argv[2]);
    must(ddict_attach(&d, argv[1], TIMEOUT_MS), "attach");
    put_scaled(number, scale_of());
    put_host(number);
    must(ddict_add(d, key, named(key, sizeof key, "programs"), 1, NULL, -1), "programs");
    must(ddict_detach(d), "detach");
    return 0;
}
