/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_dict.c - a dictionary whose managers are killed and started again. */
#include "client_lives_dict.h"

#include "client_strays.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct dict x;
ddict_t *d;
unsigned char val[LEN];

void begin(int nodes, int managers, const char *restarts) {
    if (restarts)
        setenv("DDICT_RESTARTS", restarts, 1);
    else
        unsetenv("DDICT_RESTARTS");
    d = dict_begin(&x, nodes, managers, 64 * MIB);
}

void end(void) {
    ck_assert(!strays_came(d)); /* each request was answered once */
    dict_managers(&x, d);       /* those that dict_stop() waits for */
    dict_end(&x, d);
}

size_t name_of(char *key, unsigned i) {
    return (size_t)sprintf(key, "key %u", i);
}

void keys_put(unsigned seed) {
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];
        size_t n = name_of(key, i);
        value_fill(val, LEN, seed + i);
        ok(ddict_put(d, key, n, val, LEN, 0, 20000));
    }
}

void keys_check(unsigned seed) {
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];
        struct ddict_view v;
        size_t n = name_of(key, i);
        ok(ddict_view(d, key, n, &v, 0, 20000));
        ck_assert(value_is(v.data, v.len, seed + i));
        ddict_release(&v);
    }
    ck_assert_int_eq(ddict_len(d, 20000), KEYS);
}

void memory_fill(void) {
    char key[16];
    int rc;
    unsigned n = 0;
    value_fill(val, LEN, 12345);
    do
        rc = ddict_put(d, key, (size_t)sprintf(key, "fill %u", n), val, LEN, DDICT_NEW, 20000);
    while (rc == 0 && ++n);
    ck_assert_int_eq(rc, DDICT_EFULL);
    while (n-- > 0)
        ok(ddict_del(d, key, (size_t)sprintf(key, "fill %u", n), 20000));
}

void quiet_wait(void) {
    usleep(1500000);
}

void manager_kill(int m) {
    pid_t was = x.manager[m];
    ck_assert(was > 0 && kill(was, SIGKILL) == 0);
    while (kill(was, 0) == 0) /* ddictd has waited for it */
        usleep(500);
}

void manager_came_back(int m) {
    pid_t was = x.manager[m];
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[m], was);
}
