/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - the statistics of a manager: of its store, its own counters, and the reads that clients
 * count in their lease pages. */
#include "stats.h"

#include "manager.h"
#include "peer_address.h"
#include "peer_client.h"
#include "replica_primary.h"
#include "subscriptions.h"
#include <base/clock.h>
#include <base/page.h>
#include <wire/fabric/fabric.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void lease_reads(const struct lease_chunk *leases, unsigned index, struct lease_counters *sum) {
    /* the page is untrusted; the figures are only displayed */
    uint32_t chunks = __atomic_load_n(&leases->chunks, __ATOMIC_RELAXED);
    if (chunks > DD_LEASE_CHUNKS)
        chunks = DD_LEASE_CHUNKS;
    for (uint64_t i = 0; i < chunks; i++) {
        const struct lease_counters *row = &leases[i].counters[index];
        sum->gets += __atomic_load_n(&row->gets, __ATOMIC_RELAXED);
        sum->misses += __atomic_load_n(&row->misses, __ATOMIC_RELAXED);
        sum->bytes += __atomic_load_n(&row->bytes, __ATOMIC_RELAXED);
        sum->cached += __atomic_load_n(&row->cached, __ATOMIC_RELAXED);
    }
}

static void figures_count(const struct counters *c, const struct lease_counters *reads,
                          struct manager_stats *out) {
    out->puts = c->puts;
    out->gets_local = c->gets_local + reads->gets;
    out->gets_remote = c->gets_remote;
    out->misses = c->misses + reads->misses;
    out->deletes = c->deletes;
    out->bytes_in = c->bytes_in;
    out->bytes_out = c->bytes_out + reads->bytes;
    out->full_errors = c->full_errors;
    out->cache_hits = c->cache_hits + reads->cached;
    out->evictions = c->evictions;
    out->rma_bytes = c->rma_bytes;
    out->rma_refused = c->rma_refused;
    out->clients_peak = c->clients_peak;
    memcpy(out->turns, c->turns, sizeof out->turns);
    out->turn_max_us = c->turn_max_ns / 1000;
    for (int op = 0; op < DDICT_LATENCY_N; op++)
        histogram_summary(&c->latency[op], &out->latency[op]);
}

void figures_of_page(const struct manager_page *page, const struct arena_header *header,
                     const struct lease_chunk *const *leases, unsigned n, unsigned index,
                     struct manager_stats *out) {
    struct lease_counters reads = page->departed;
    stats_init(out);
    for (unsigned i = 0; i < n; i++)
        lease_reads(leases[i], index, &reads);
    figures_count(&page->count, &reads, out);
    out->manager_id = header->manager_id;
    out->total_bytes = header->budget;
    out->total_used_bytes =
        header->used_bytes < header->budget ? header->used_bytes : header->budget;
    out->pool_free_space = out->total_bytes - out->total_used_bytes;
    out->pool_utilization =
        out->total_bytes ? 100.0 * (double)out->total_used_bytes / (double)out->total_bytes : 0;
    out->num_keys = header->num_keys + header->hidden_keys;
    out->hidden_keys = header->hidden_keys;
    out->frozen = FREEZE_STATE(header->freeze) == FREEZE_FROZEN;
    out->cached_items = header->cached_items;
    out->cached_bytes = header->cached_bytes;
    out->page_bytes =
        header->page_shift > ARENA_PAGES_ADVISED ? 1ull << header->page_shift : page_size();
    out->spill_total_bytes = header->spill_len;
    out->spill_used_bytes = header->spill_used;
    out->spill_items = header->spill_items;
    out->spilled_bytes = header->spilled_bytes;
    out->restarts = page->lives > 0 ? page->lives - 1 : 0;
    out->uptime_us = page->started ? (clock_ns() - page->started) / 1000 : 0;
}

static uint64_t descriptors_open(void) {
    struct stat st;
    uint64_t n = 0;
    /* st_size is the number of descriptors, from Linux 6.2 on */
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n ? n - 1 : 0; /* less the one that reads the folder */
}

static uint64_t page_tables(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmPTE: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib << 10;
}

void manager_figures(struct manager *m, struct manager_stats *out) {
    const struct counters *c = m->count;
    struct lease_counters reads;
    stats_init(out);
    m->up->settle(m);
    store_stats(m->store, out);
    m->up->lane_figures(m, &reads, &out->lane_bytes);
    out->manager_id = m->setup->id;
    out->node_id = m->setup->node_id;
    out->pid = (uint32_t)getpid();
    out->numa_node = m->numa_node;
    gethostname(out->hostname, sizeof out->hostname - 1);
    snprintf(out->node, sizeof out->node, "%s", m->setup->node);
    figures_count(c, &reads, out);
    out->clients_now = m->clients_now;
    out->lanes_watched = m->watched_n;
    out->lane_returned_bytes = m->lane_returned;
    out->connections = peers_links(m) + m->up->links(m);
    out->descriptors = descriptors_open();
    out->page_table_bytes = page_tables();
    subscriptions_figures(m, out);
    out->copies = replica_copies(m);
    out->refused_connections = conn_refused();
    if (m->setup->peers) {
        snprintf(out->transport, sizeof out->transport, "%s%s%s", m->fabric ? "ofi:" : "tcp",
                 m->fabric ? fabric_name(m->fabric) : "", m->setup->rma ? " rma" : "");
        snprintf(out->wire, sizeof out->wire, "%s",
                 seal_name(m->fabric ? SEAL_PLAIN : m->setup->identity.wire));
    }
    out->restarts = m->setup->page->lives - 1;
    out->uptime_us = (clock_ns() - m->setup->page->started) / 1000;
}

void figures_of_gone(const struct manager *m, uint32_t manager, struct manager_stats *out) {
    stats_init(out);
    out->manager_id = manager;
    out->node_id = manager % m->setup->nodes;
    out->state = DDICT_ELOST;
    snprintf(out->node, sizeof out->node, "%s", peer_node(m->setup, manager));
}
