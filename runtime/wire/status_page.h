/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_page.h - how clients notice the death of ddictd without a system call. ddictd's main
 * thread has the page's `keeper` word in its robust futex list, so the kernel sets FUTEX_OWNER_DIED
 * there when that thread ends, even by SIGKILL. Every read in place checks `keeper`, which is in
 * the same cache line as `state`; so nobody reads a dictionary whose ddictd is dead.
 */
#ifndef DDICT_WIRE_STATUS_PAGE_H
#define DDICT_WIRE_STATUS_PAGE_H

#include "attach.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Called once, by ddictd's main thread: from then on the kernel marks the status page when this
 * thread ends. Children that fork later have lists of their own. The thread gives up libc's list of
 * robust mutexes for it. The page must stay mapped until the process ends. 0 or a negative code.
 */
static inline int status_page_keep(struct status_page *b) {
    static struct robust_list_head head;
    static struct {
        struct robust_list list;
        uint32_t *word;
    } entry;
    /* The kernel expects the futex word at a fixed distance from the entry. */
    head.list.next = &entry.list;
    entry.list.next = &head.list;
    entry.word = &b->keeper;
    head.futex_offset = (long)((char *)entry.word - (char *)&entry.list);
    head.list_op_pending = NULL;
    __atomic_store_n(&b->keeper, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    if (syscall(SYS_set_robust_list, &head, sizeof head) != 0)
        return -errno;
    return 0;
}

/* For clients: whether ddictd's main thread has ended. Never true if ddictd did not call
 * status_page_keep(). */
static inline int status_page_keeper_dead(const struct status_page *b) {
    return (__atomic_load_n(&b->keeper, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED) != 0;
}

#endif
