/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_page.h - how clients learn of ddictd's death without a system call. ddictd's main thread
 * hangs the page's `keeper` word on its robust futex list; the kernel sets FUTEX_OWNER_DIED there
 * when that thread ends, also by SIGKILL. Every read in place checks `keeper`, in the same cache
 * line as `state`, so nobody goes on reading a dictionary whose ddictd is dead.
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
 * Called by ddictd, once, in its main thread: from now on the kernel marks the status page when
 * this thread ends. Children that fork later have a list of their own. The thread gives up libc's
 * list of robust mutexes for it. The page stays mapped until the process ends. 0 or a negative
 * code.
 */
static inline int status_page_keep(struct status_page *b) {
    static struct robust_list_head head;
    static struct {
        struct robust_list list;
        uint32_t *word;
    } entry;
    /* The kernel finds the futex word at a fixed distance from the entry; both are addresses of
     * this process. */
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

/* For clients: ddictd's main thread has ended. Never true where ddictd did not call
 * status_page_keep(). */
static inline int status_page_keeper_dead(const struct status_page *b) {
    return (__atomic_load_n(&b->keeper, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED) != 0;
}

#endif
