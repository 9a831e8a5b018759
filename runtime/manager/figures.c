/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - the figures of this manager: the store's, our counters, and what readers counted in their lease pages. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <base/clock.h>
#include <manager/manager.h>

void manager_figures(struct manager *m, struct ddict_manager_stats *out) {
    const struct counters *c = &m->count;
    struct lease_counters reads;
    memset(out, 0, sizeof *out);
    lanes_settle(m);
    store_reclaim(m->store); /* so that what nobody holds any more is not shown as used */
    store_stats(m->store, out);
    lanes_reads(m, &reads);
    out->manager_id = m->setup->id;
    out->node_id = m->setup->node_id;
    out->pid = (uint32_t)getpid();
    gethostname(out->hostname, sizeof out->hostname - 1);
    snprintf(out->node, sizeof out->node, "%s", m->setup->node);
    out->puts = c->puts;
    out->gets_local = c->gets_local + reads.gets;
    out->gets_remote = c->gets_remote;
    out->misses = c->misses + reads.misses;
    out->deletes = c->deletes;
    out->bytes_in = c->bytes_in;
    out->bytes_out = c->bytes_out + reads.bytes;
    out->full_errors = c->full_errors;
    out->clients_now = m->clients_now;
    out->clients_peak = c->clients_peak;
    out->refused_connections = conn_refused();
    out->uptime_us = (clock_ns() - m->started) / 1000;
    for (int op = 0; op < DDICT_OP_N; op++) histogram_summary(&c->latency[op], &out->latency[op]);
}
