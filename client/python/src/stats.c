/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - the managers' figures and facts about the handle as Python dicts. */
#include "pyddict.h"

#include <stddef.h>
#include <stdlib.h>

struct field {
    const char *name;
    char kind; /* u: uint64_t, w: uint32_t, i: int32_t, d: double, s: char[] */
    size_t at;
};
#define F(name, kind) \
    { #name, kind, offsetof(struct ddict_manager_stats, name) }

static const struct field fields[] = {
    F(manager_id, 'w'),
    F(node_id, 'w'),
    F(pid, 'w'),
    F(state, 'i'),
    F(hostname, 's'),
    F(node, 's'),
    F(numa_node, 'i'),
    F(transport, 's'),
    F(wire, 's'),
    F(total_bytes, 'u'),
    F(total_used_bytes, 'u'),
    F(pool_free_space, 'u'),
    F(pool_utilization, 'd'),
    F(num_keys, 'u'),
    F(puts, 'u'),
    F(gets_local, 'u'),
    F(gets_remote, 'u'),
    F(misses, 'u'),
    F(deletes, 'u'),
    F(bytes_in, 'u'),
    F(bytes_out, 'u'),
    F(cache_hits, 'u'),
    F(evictions, 'u'),
    F(full_errors, 'u'),
    F(frozen, 'u'),
    F(cached_items, 'u'),
    F(cached_bytes, 'u'),
    F(spill_total_bytes, 'u'),
    F(spill_used_bytes, 'u'),
    F(spill_items, 'u'),
    F(spilled_bytes, 'u'),
    F(clients_now, 'u'),
    F(clients_peak, 'u'),
    F(lanes_watched, 'u'),
    F(lane_bytes, 'u'),
    F(lane_returned_bytes, 'u'),
    F(connections, 'u'),
    F(descriptors, 'u'),
    F(page_table_bytes, 'u'),
    F(prefixes, 'u'),
    F(events_bytes, 'u'),
    F(retired_bytes, 'u'),
    F(leased_bytes, 'u'),
    F(scattered_bytes, 'u'),
    F(moved_bytes, 'u'),
    F(largest_holder_pid, 'w'),
    F(largest_holder_bytes, 'u'),
    F(populated_bytes, 'u'),
    F(populate_us, 'u'),
    F(page_bytes, 'u'),
    F(huge_bytes, 'u'),
    F(refused_connections, 'u'),
    F(rma_bytes, 'u'),
    F(rma_refused, 'u'),
    F(uptime_us, 'u'),
    F(turn_max_us, 'u'),
    F(restarts, 'u'),
    F(copies, 'u'),
    F(hidden_keys, 'u'),
};

/* Takes the reference to value, which may be NULL. */
static int dict_put(PyObject *dict, const char *name, PyObject *value) {
    int rc = value ? PyDict_SetItemString(dict, name, value) : -1;

    Py_XDECREF(value);
    return rc;
}

static PyObject *field_value(const struct ddict_manager_stats *s, const struct field *f) {
    const void *p = (const char *)s + f->at;

    switch (f->kind) {
    case 'u':
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
    case 'w':
        return PyLong_FromUnsignedLong(*(const uint32_t *)p);
    case 'i':
        return PyLong_FromLong(*(const int32_t *)p);
    case 'd':
        return PyFloat_FromDouble(*(const double *)p);
    }
    return PyUnicode_DecodeFSDefault(p);
}

/* The counts that are not 0, by their power of two. */
static PyObject *powers(const uint64_t *counts, int len) {
    PyObject *dict = PyDict_New();

    for (int i = 0; dict && i < len; i++) {
        PyObject *size = PyLong_FromUnsignedLongLong(1ull << i),
                 *n = PyLong_FromUnsignedLongLong(counts[i]);
        if (!size || !n || (counts[i] && PyDict_SetItem(dict, size, n) < 0))
            Py_CLEAR(dict);
        Py_XDECREF(size);
        Py_XDECREF(n);
    }
    return dict;
}

static PyObject *latency(const struct ddict_manager_stats *s) {
    static const char *const ops[DDICT_LATENCY_N] = {[DDICT_LATENCY_PUT] = "put",
                                                     [DDICT_LATENCY_GET] = "get",
                                                     [DDICT_LATENCY_DEL] = "del",
                                                     [DDICT_LATENCY_FETCH] = "fetch"};
    PyObject *dict = PyDict_New();

    for (int i = 0; dict && i < DDICT_LATENCY_N; i++) {
        const struct ddict_latency *l = &s->latency[i];
        if (dict_put(dict, ops[i],
                     Py_BuildValue("{sK,sK,sK,sK}", "count", (unsigned long long)l->count, "p50_ns",
                                   (unsigned long long)l->p50_ns, "p99_ns",
                                   (unsigned long long)l->p99_ns, "max_ns",
                                   (unsigned long long)l->max_ns)) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *manager_stats(const struct ddict_manager_stats *s) {
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict && i < sizeof fields / sizeof fields[0]; i++)
        if (dict_put(dict, fields[i].name, field_value(s, &fields[i])) < 0)
            Py_CLEAR(dict);
    if (dict && (dict_put(dict, "free_blocks", powers(s->free_blocks, 48)) < 0 ||
                 dict_put(dict, "turns", powers(s->turns, DDICT_TURNS_N)) < 0 ||
                 dict_put(dict, "latency", latency(s)) < 0))
        Py_CLEAR(dict);
    return dict;
}

PyObject *stats_get(PyObject *self, void *unused) {
    struct handle *h = (struct handle *)self;
    struct ddict_manager_stats *s = NULL;
    PyObject *list;
    int n;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS n = ddict_stats(h->d, &s, sizeof *s, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (n < 0)
        return error_raise(n, NULL);
    list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *dict = manager_stats(&s[i]);
        if (dict)
            PyList_SET_ITEM(list, i, dict);
        else
            Py_CLEAR(list);
    }
    free(s);
    return list;
}

PyObject *info_get(PyObject *self, void *unused) {
    struct handle *h = (struct handle *)self;
    struct ddict_info info;
    char id[33];
    int rc;

    if (handle_check(h) < 0)
        return NULL;
    rc = ddict_get_info(h->d, &info);
    if (rc < 0)
        return error_raise(rc, NULL);
    for (int i = 0; i < 16; i++)
        snprintf(id + 2 * i, 3, "%02x", info.id[i]);
    return Py_BuildValue("{sssssIsIsIsIsIsOsKsKss}", "name", info.name, "node", info.node,
                         "managers", info.managers, "nodes", info.nodes, "keyed_nodes",
                         ddict_keyed_nodes(h->d), "node_id", info.node_id, "local_managers",
                         info.local_managers, "refill", ddict_refills(h->d) ? Py_True : Py_False,
                         "total_bytes", (unsigned long long)info.total_bytes, "spill_bytes",
                         (unsigned long long)info.spill_bytes, "id", id);
}
