/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_dict.h - a dictionary of one or more nodes on this host, for tests of libddict. ddictd is
 * ./ddictd or $DDICTD. Names are unique for each run. Every dictionary that a test starts is
 * stopped by it; dict_stop() fails the test when a process is left.
 */
#ifndef CLIENT_DICT_H
#define CLIENT_DICT_H

#include <ddict.h>

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>

#define DICT_NODES_MAX 4

struct dict {
    int nodes;
    char name[64];
    char node[DICT_NODES_MAX][64];
    pid_t pid[DICT_NODES_MAX]; /* ddictd of each node; 0: reaped */
    int in[DICT_NODES_MAX], out[DICT_NODES_MAX];
    pid_t manager[16]; /* pids, filled by dict_attach() */
    bool broken;       /* a test has killed something: ends need not be clean */
};

void dict_start(struct dict *x, int nodes, int managers, uint64_t mem);
void dict_stop(struct dict *x);
/* The handle of a process of that node; sets DDICT_NAME and DDICT_NODE. */
ddict_t *dict_attach(struct dict *x, int node);
void dict_managers(struct dict *x, ddict_t *d); /* fill x->manager */
/* Started, and attached to on node 0; and the end of both. */
ddict_t *dict_begin(struct dict *x, int nodes, int managers, uint64_t mem);
void dict_end(struct dict *x, ddict_t *d);
/* The same, attached to on each node. */
void dict_begin_all(struct dict *x, ddict_t **d, int nodes, int managers, uint64_t mem);
void dict_end_all(struct dict *x, ddict_t **d);
uint64_t dict_retired(ddict_t *d); /* bytes, in all managers */

/* With forked processes: a byte through a pipe, and how one ended. */
void tell(int fd);
void await(int fd); /* exits with 99 where none comes */
void expect_exit(pid_t p, int code);

double now_s(void);
int open_fds(void); /* of this process */
int mappings(void); /* lines of /proc/self/maps */

/* A key that manager m owns, the i-th such. Returns its length. */
size_t key_of(ddict_t *d, unsigned m, unsigned i, char *key, size_t cap);
/* Fill and check a value that says in each word whose it is. */
void value_fill(void *buf, size_t len, uint64_t seed);
bool value_is(const void *buf, size_t len, uint64_t seed);

/* As main, of one case: all tests, or those that the command line names. */
int tests_main(const char *name, int argc, char **argv, const TTest *const *tests, size_t n);
/* The same with a fixture around each test. */
int tests_main_with(const char *name, void (*before)(void), void (*after)(void), int argc,
                    char **argv, const TTest *const *tests, size_t n);

#define ok(call)                                                            \
    do {                                                                    \
        long long rc_ = (long long)(call);                                  \
        ck_assert_msg(rc_ >= 0, "%s: %lld %s", #call, rc_, ddict_errmsg()); \
    } while (0)
#define fails(code, call)                                                    \
    do {                                                                     \
        long long rc_ = (long long)(call);                                   \
        ck_assert_msg(rc_ == (code), "%s: %lld %s, expected %d", #call, rc_, \
                      rc_ < 0 ? ddict_errmsg() : "", (int)(code));           \
        ck_assert_msg(ddict_errmsg()[0] != 0, "%s: no sentence", #call);     \
    } while (0)

#endif
