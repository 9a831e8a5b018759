/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix_lib.h - the calls of the PMIx library, which is opened at run time. A training process must
 * start where no PMIx is installed, and must use the same library as its MPI: each copy of PMIx
 * counts its own users, and one process is one client. Only calls that are the same from PMIx 3 to
 * 5 (libpmix.so.2) are used.
 */
#ifndef DDICT_PLACE_PMIX_LIB_H
#define DDICT_PLACE_PMIX_LIB_H

#include <pmix.h>

struct pmix_calls {
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence_nb)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,
                              pmix_op_cbfunc_t, void *);
    pmix_status_t (*get_nb)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                            pmix_value_cbfunc_t, void *);
    pmix_status_t (*resolve_nodes)(const char *, char **);
    const char *(*error_string)(pmix_status_t);
};

/*
 * The calls, for the rest of the process. 0; -ENOENT: there is no library, or $DDICT_PMIX is `no`;
 * -EIO with the sentence: the one that $DDICT_PMIX names cannot be used, or one lacks a call.
 */
int pmix_lib_open(const struct pmix_calls **calls);

#endif
