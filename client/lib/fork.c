/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - views across fork(). LAYOUT 6, PROTOCOL 4.
 *
 *     before  if views are held: copy their leases into a hold page, give it to ddictd, wait until
 *             the managers have it, at most DD_FORK_MS; then shut the gate for a moment and bring
 *             the page up to date. Where the managers have not answered, our lease page keeps
 *             copies until they do
 *     parent  drop our mapping and our end of the pipe; nothing has changed for us
 *     child   the hold page replaces the lease page; sockets, lanes and leases of the
 *             parent are closed; handles open a new session at their next call. When the last
 *             inherited view is released, or the child ends or execs, the pipe hangs up.
 *
 * A process that inherited views and forks again shares its hold page with its child: `refs`
 * counts, for each slot, the processes that still have the view, and the last one to release it
 * clears the slot.
 *
 * Views that other threads take meanwhile: fork_gate() in handle.h. Scratch slots and marks
 * (lease.h) are not views.
 */
#include "lease.h"
#include "up.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REFS_SIZE (LEASE_NUMBERS * sizeof(uint16_t))

uint32_t fork_under_way;
uint32_t fork_generation;

static struct lease_chunk *chunk_at(uint8_t *page, unsigned c) {
    return (struct lease_chunk *)(void *)(page + (uint64_t)c * LEASE_CHUNK_SIZE);
}

/* A thread's scratch slot is never a view's. */
bool lease_is_scratch(struct session *s, uint32_t n) {
    struct lease_thread *t = __atomic_load_n(&s->owner[LEASE_CHUNK_OF(n)], __ATOMIC_RELAXED);
    return t && t->scratch == lease_slot(s->lease_page, n);
}

static void hold_drop(struct hold *h) {
    if (h->page)
        munmap(h->page, LEASE_FILE_SIZE);
    if (h->refs)
        munmap(h->refs, REFS_SIZE);
    if (h->pipe >= 0)
        close(h->pipe);
    memset(h, 0, sizeof *h);
    h->pipe = -1;
}

static int hold_make(struct hold *h) {
    int fd = memfd_create("ddict-hold", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    void *page = MAP_FAILED, *refs = MAP_FAILED;
    if (ftruncate(fd, LEASE_FILE_SIZE) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        page = mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        refs = mmap(NULL, REFS_SIZE, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

/* The lease word of slot n if it is a view's; 0: it is not. */
static uint64_t slot_view(struct session *s, unsigned c, unsigned k) {
    uint64_t word = __atomic_load_n(&s->owner[c], __ATOMIC_RELAXED) == &lease_shadow
                        ? 0
                        : __atomic_load_n(&chunk_at(s->lease_page, c)->slot[k], __ATOMIC_ACQUIRE);
    return word == LEASE_MARK || (word != 0 && lease_is_scratch(s, LEASE_NUMBER(c, k))) ? 0 : word;
}

static bool views_any(struct session *s) {
    for (unsigned c = 0; c < s->chunks; c++)
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS; k++)
            if (slot_view(s, c, k) != 0)
                return true;
    return false;
}

/* Copy the leases of all views from the lease page to the hold page. */
static void hold_fill(struct session *s) {
    struct hold *h = &s->hold;
    h->count = 0;
    for (unsigned c = 0; c < s->chunks; c++) {
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS; k++) {
            uint32_t n = LEASE_NUMBER(c, k);
            uint64_t word = slot_view(s, c, k), *slot = lease_slot(h->page, n);
            if (*slot != word)
                __atomic_store_n(slot, word, __ATOMIC_RELEASE);
            if (h->refs[n] != (word != 0))
                h->refs[n] = word != 0;
            h->count += word != 0;
        }
    }
    __atomic_store_n(&chunk_at(h->page, 0)->chunks, s->chunks, __ATOMIC_RELEASE);
}

/* Give ddictd a hold page with the views held now. */
static int hold_give(struct session *s, struct deadline *d) {
    int ends[2], fd = hold_make(&s->hold);
    if (fd < 0)
        return fd;
    hold_fill(s);
    int rc = pipe2(ends, O_CLOEXEC) == 0 ? 0 : -errno;
    if (rc == 0) {
        struct attach_msg m;
        int fds[2] = {fd, ends[0]};
        attach_msg_init(&m, ATTACH_HOLD);
        s->hold.pipe = ends[1];
        rc = attach_send_by(s->sock, &m, fds, 2, d);
        close(ends[0]);
    }
    close(fd);
    if (rc == 0)
        __atomic_store_n(&s->held_due, s->held_due + 1, __ATOMIC_RELAXED);
    return rc;
}

/* Wait until all managers have the page, and those of earlier forks. */
static int hold_await(struct session *s, struct deadline *d) {
    struct attach_msg m;
    int rc = 0;
    while (rc >= 0 && s->held_due > 0) {
        rc = attach_recv_by(s->sock, &m, NULL, 0, d);
        if (rc < 0)
            break;
        __atomic_store_n(&s->held_due, s->held_due - 1, __ATOMIC_RELAXED);
        /* DDICT_EPROTO: the child ended first */
        rc = m.type == ATTACH_HELD && m.status == DDICT_EPROTO ? 0 : m.status;
        s->held_bad |= rc < 0;
    }
    return rc < 0 ? rc : 0;
}

/* Without a dictionary there is no manager that could reuse the memory, so the failure does not
 * matter. */
static bool hold_failed(struct session *s, int rc) {
    return rc < 0 && status_page_serves(s->status_page);
}

/*
 * The managers have not answered yet (or have no memory for the page). Until they do, our own lease
 * page protects what the child inherits: it gets copies of the leases, in chunks that belong to no
 * thread, so that our own leases can be released as usual.
 */
static bool shadows_make(struct session *s) {
    uint64_t *slot = NULL, word;
    unsigned used = DD_LEASE_CHUNK_SLOTS, chunks;
    bool room = true;
    pthread_mutex_lock(&s->lease_lock);
    chunks = s->chunks;
    for (unsigned c = 0; c < chunks && room; c++) {
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS && room; k++) {
            if ((word = slot_view(s, c, k)) == 0)
                continue;
            if (used == DD_LEASE_CHUNK_SLOTS && (room = s->chunks < DD_LEASE_CHUNKS)) {
                __atomic_store_n(&s->owner[s->chunks], &lease_shadow, __ATOMIC_RELAXED);
                slot = chunk_at(s->lease_page, s->chunks++)->slot;
                __atomic_store_n(&chunk_at(s->lease_page, 0)->chunks, s->chunks, __ATOMIC_RELEASE);
                used = 0;
            }
            if (room)
                __atomic_store_n(&slot[used++], word, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&s->lease_lock);
    return room;
}

void holds_settle(struct session *s) {
    struct deadline d;
    if (pthread_mutex_trylock(&registry_lock) != 0)
        return;
    deadline_start(&d, 0);
    hold_await(s, &d);
    if (s->held_due == 0 && !s->held_bad) {
        pthread_mutex_lock(&s->lease_lock);
        for (unsigned c = 0; c < s->chunks; c++) {
            if (__atomic_load_n(&s->owner[c], __ATOMIC_RELAXED) != &lease_shadow)
                continue;
            for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS; k++)
                __atomic_store_n(&chunk_at(s->lease_page, c)->slot[k], 0, __ATOMIC_RELEASE);
            __atomic_store_n(&s->owner[c], NULL, __ATOMIC_RELAXED);
            s->orphans++;
        }
        pthread_mutex_unlock(&s->lease_lock);
    }
    pthread_mutex_unlock(&registry_lock);
}

/* Give hold pages for sessions that have views and no hold page yet. */
static void holds_give(struct deadline *d) {
    for (struct session *s = sessions; s; s = s->next)
        if (!s->refs && !s->hold.page && views_any(s))
            s->hold.unsafe = hold_failed(s, hold_give(s, d));
    for (struct session *s = sessions; s; s = s->next)
        if (s->hold.page && !s->hold.unsafe && !s->hold.late)
            s->hold.late = hold_failed(s, hold_await(s, d));
}

/* Bring the hold pages up to date. The managers know these pages already, so views taken meanwhile
 * are just added (LAYOUT, order of a scan). False: a session without a page has views now. */
static bool holds_fill(void) {
    bool all = true;
    for (struct session *s = sessions; s; s = s->next) {
        if (s->refs)
            continue;
        if (s->hold.page)
            hold_fill(s);
        else
            all &= !views_any(s);
    }
    return all;
}

void fork_gate_wait(void) {
    struct timespec slice = {.tv_nsec = DD_WAIT_SLICE_MS * 1000000L};
    while (__atomic_load_n(&fork_under_way, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &fork_under_way, FUTEX_WAIT_PRIVATE, 1, &slice, NULL, 0);
}

static void fork_gate_open(void) {
    __atomic_store_n(&fork_under_way, 0, __ATOMIC_RELEASE);
    syscall(SYS_futex, &fork_under_way, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void fork_gate_close(void) {
    /* Pairs with a reader that stores its lease before fork_gate(), perhaps without a fence in
     * between. */
    __atomic_store_n(&fork_under_way, 1, __ATOMIC_SEQ_CST);
    if (sessions)
        barrier_everywhere();
}

/* One more process shares an inherited session. */
static void hold_share(struct session *s) {
    for (unsigned c = 0; c < s->chunks; c++) {
        for (unsigned k = 0; k < DD_LEASE_CHUNK_SLOTS; k++) {
            uint32_t n = LEASE_NUMBER(c, k);
            uint16_t refs = __atomic_load_n(&s->refs[n], __ATOMIC_ACQUIRE);
            while (refs > 0 &&
                   !__atomic_compare_exchange_n(&s->refs[n], &refs, (uint16_t)(refs + 1), false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            }
        }
    }
}

static void fork_before(void) {
    struct deadline d;
    ups_lock_take();
    deadline_start(&d, DD_FORK_MS);
    pthread_mutex_lock(&registry_lock);
    holds_give(&d);
    fork_gate_close();
    if (!holds_fill()) {
        fork_gate_open();
        holds_give(&d);
        fork_gate_close();
        if (!holds_fill())
            for (struct session *s = sessions; s; s = s->next)
                s->hold.unsafe |=
                    !s->refs && !s->hold.page && views_any(s) && status_page_serves(s->status_page);
    }
    for (struct session *s = sessions; s; s = s->next) {
        if (s->refs)
            hold_share(s);
        else if (s->hold.late && !shadows_make(s))
            s->hold.unsafe = true;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void fork_parent(void) {
    for (struct session *s = sessions; s; s = s->next)
        hold_drop(&s->hold);
    fork_gate_open();
    pthread_mutex_unlock(&registry_lock);
    ups_lock_give();
}

static void child_no_views(struct session *s) {
    /* Better a fault at the address than bytes that may have been replaced. */
    for (unsigned i = 0; i < s->nlocal; i++)
        mprotect((void *)(uintptr_t)s->local[i].arena.header, s->local[i].arena.map_len, PROT_NONE);
    static const char text[] = "ddict: fork: the views could not be given to the managers; the "
                               "child cannot read those it inherited\n";
    if (write(2, text, sizeof text - 1) < 0)
        return;
}

static void fork_child(void) {
    ups_forget();
    pthread_mutex_init(&registry_lock, NULL);
    lease_threads_forget();
    for (struct session *s = sessions; s; s = s->next) {
        if (s->hold.unsafe)
            child_no_views(s);
        s->lost |= s->hold.unsafe && !s->hold.page;
        session_forget(s);
        memset(&s->hold, 0, sizeof s->hold);
        s->hold.pipe = -1;
    }
    __atomic_store_n(&fork_generation, fork_generation + 1, __ATOMIC_RELAXED);
    for (struct ddict_handle *d = handles; d; d = d->next) {
        d->session = NULL;
        d->asyncs = NULL;
        d->session_id = 0;
        session_abandon(d->opening, pthread_mutex_trylock(&d->lock) != 0);
        d->opening = NULL;
        pthread_mutex_init(&d->lock, NULL);
    }
    __atomic_store_n(&fork_under_way, 0, __ATOMIC_RELEASE);
    sessions_reap();
}

static int install_error;
static void handlers_install(void) {
    install_error = pthread_atfork(fork_before, fork_parent, fork_child);
}

int fork_handlers_install(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, handlers_install);
    return install_error == 0 ? 0
                              : dd_error(-install_error, "cannot install fork handlers: %s",
                                         strerror(install_error));
}
