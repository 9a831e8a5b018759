/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - views across fork(). LAYOUT 6, PROTOCOL 4.
 *
 *     before  if views are held: copy their leases into a hold page, give it to ddictd, wait until the managers have it
 *     parent  drop our mapping and our end of the pipe; nothing has changed for us
 *     child   the hold page takes the place of the lease page; sockets, lanes and leases of the parent are let go; handles open a new
 *             session at their next call. When the last inherited view is released, or the child ends or execs, the pipe hangs up.
 *
 * A process that inherited views and forks again shares its hold page with its child: `refs` counts, for each slot, the processes that
 * still have the view, and the last one to release it clears the slot.
 *
 * Views that other threads take meanwhile: fork_gate() in handle.h. Scratch slots and marks (lease.h) are not views.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>

#include "lease.h"

#define REFS_SIZE (LEASE_NUMBERS * sizeof(uint16_t))

uint32_t fork_under_way;
uint32_t fork_generation;

static struct lease_chunk *chunk_at(uint8_t *page, unsigned c)
{
    return (struct lease_chunk *)(void *)(page + (uint64_t)c * LEASE_CHUNK_SIZE);
}

/* A thread's scratch slot is not in any view. */
bool lease_is_scratch(struct session *s, uint32_t n)
{
    struct lease_thread *t = __atomic_load_n(&s->owner[LEASE_CHUNK_OF(n)], __ATOMIC_RELAXED);
    return t != NULL && t->scratch == lease_slot(s->lease_page, n);
}

static void hold_drop(struct hold *h)
{
    if (h->page != NULL)
        munmap(h->page, LEASE_FILE_SIZE);
    if (h->refs != NULL)
        munmap(h->refs, REFS_SIZE);
    if (h->pipe >= 0)
        close(h->pipe);
    memset(h, 0, sizeof *h);
    h->pipe = -1;
}

static int hold_make(struct hold *h)
{
    int fd = memfd_create("ddict-hold", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    void *page = MAP_FAILED, *refs = MAP_FAILED;
    if (ftruncate(fd, LEASE_FILE_SIZE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        page = mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        refs = mmap(NULL, REFS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (page == MAP_FAILED || refs == MAP_FAILED) {
        int e = errno;
        if (page != MAP_FAILED)
            munmap(page, LEASE_FILE_SIZE);
        if (refs != MAP_FAILED)
            munmap(refs, REFS_SIZE);
        close(fd);
        return -e;
    }
    h->page = page;
    h->refs = refs;
    return fd;
}

static void hold_add(struct session *s, uint32_t n, uint64_t word)
{
    struct hold *h = &s->hold;
    *lease_slot(h->page, n) = word;
    h->refs[n] = 1;
    h->count++;
}

/* Give the page to ddictd and wait until all managers have it. */
static int hold_send(struct session *s, int page_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    s->hold.pipe = ends[1];
    chunk_at(s->hold.page, 0)->chunks = s->chunks;
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_HOLD);
    int fds[2] = {page_fd, ends[0]};
    int rc = attach_send(s->sock, &m, fds, 2);
    close(ends[0]);
    if (rc == 0)
        s->held_due++;
    while (rc >= 0 && s->held_due > 0) { /* those of earlier forks that did not come in time are first */
        rc = attach_recv(s->sock, &m, NULL, 0, DD_STREAM_MS);
        if (rc >= 0)
            s->held_due--;
    }
    if (rc >= 0 && (m.type != ATTACH_HELD || m.status < 0))
        rc = m.type == ATTACH_HELD ? m.status : DDICT_EPROTO;
    return rc < 0 ? rc : 0;
}

static void hold_prepare(struct session *s)
{
    int fd = -1, rc = 0;
    for (unsigned c = 0; c < s->chunks && rc == 0; c++) {
        struct lease_chunk *chunk = chunk_at(s->lease_page, c);
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS; k++) {
            uint64_t word = __atomic_load_n(&chunk->slot[k], __ATOMIC_ACQUIRE);
            uint32_t n = c * LEASE_STRIDE + k;
            if (word == 0 || word == LEASE_MARK || lease_is_scratch(s, n))
                continue;
            if (fd < 0 && (rc = fd = hold_make(&s->hold)) < 0)
                break;
            rc = 0;
            hold_add(s, n, word);
        }
    }
    if (fd >= 0) {
        rc = hold_send(s, fd);
        close(fd);
    }
    /* With ddictd its managers are gone, and nobody is left to use the memory again. */
    if (rc < 0 && rc != -ECONNRESET && rc != -EPIPE)
        s->hold.unsafe = true;
}

/* An inherited session is shared with one more process. */
static void hold_share(struct session *s)
{
    for (unsigned c = 0; c < s->chunks; c++) {
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS; k++) {
            uint32_t n = c * LEASE_STRIDE + k;
            uint16_t refs = __atomic_load_n(&s->refs[n], __ATOMIC_ACQUIRE);
            while (refs > 0 && !__atomic_compare_exchange_n(&s->refs[n], &refs, (uint16_t)(refs + 1), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            }
        }
    }
}

static void fork_before(void)
{
    pthread_mutex_lock(&registry_lock);
    /* Pairs with a reader's lease before its fork_gate(): there need not be a fence between. */
    __atomic_store_n(&fork_under_way, 1, __ATOMIC_SEQ_CST);
    if (sessions != NULL)
        barrier_everywhere();
    for (struct session *s = sessions; s != NULL; s = s->next) {
        if (s->refs != NULL)
            hold_share(s);
        else
            hold_prepare(s);
    }
}

static void fork_parent(void)
{
    for (struct session *s = sessions; s != NULL; s = s->next)
        hold_drop(&s->hold);
    __atomic_store_n(&fork_under_way, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&registry_lock);
}

static void child_no_views(struct session *s)
{
    /* Rather a fault at the address than bytes that may have been replaced. */
    for (unsigned i = 0; i < s->nlocal; i++)
        mprotect((void *)(uintptr_t)s->local[i].arena.header, s->local[i].arena.map_len, PROT_NONE);
    static const char text[] = "ddict: fork: ddictd did not take over the views in time; they are gone in the child\n";
    if (write(2, text, sizeof text - 1) < 0)
        return;
}

static void fork_child(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    lease_threads_forget();
    for (struct session *s = sessions; s != NULL; s = s->next) {
        if (s->hold.unsafe)
            child_no_views(s);
        session_forget(s);
        memset(&s->hold, 0, sizeof s->hold);
        s->hold.pipe = -1;
    }
    __atomic_store_n(&fork_generation, fork_generation + 1, __ATOMIC_RELAXED);
    for (struct ddict *d = handles; d != NULL; d = d->next) {
        d->session = NULL;
        d->jobs = NULL;
        d->session_id = 0;
        pthread_mutex_init(&d->lock, NULL);
    }
    __atomic_store_n(&fork_under_way, 0, __ATOMIC_RELEASE);
    sessions_reap();
}

static int installed;
static void install(void) { installed = pthread_atfork(fork_before, fork_parent, fork_child); }

int fork_handlers_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    return installed == 0 ? 0 : dd_error(-installed, "cannot install fork handlers: %s", strerror(installed));
}
