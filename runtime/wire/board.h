/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - how clients learn of ddictd's death without a system call. ddictd's main thread hangs the board's `keeper` word
 * on its robust futex list; the kernel sets FUTEX_OWNER_DIED there when that thread ends, also by SIGKILL. A read in place
 * looks at it in the cache line of `state`, so a dictionary whose ddictd is dead is not read on.
 */
#ifndef DDICT_WIRE_BOARD_H
#define DDICT_WIRE_BOARD_H

#include <wire/attach.h>

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * ddictd, once, in its main thread (children that fork later have a list of their own): from now on the kernel marks the board when this thread ends.
 * The thread gives up its list of robust mutexes of libc for it. The board stays mapped until the process ends. 0 or a negative code.
 */
static inline int board_keep(struct board *b) {
    static struct robust_list_head head;
    static struct {
        struct robust_list list;
        uint32_t *word;
    } entry;
    /* The kernel finds the futex word at a fixed distance from the entry; both are addresses of this process. */
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

/* Client: the keeper is dead. Never true where ddictd did not call board_keep(). */
static inline int board_dead(const struct board *b) {
    return (__atomic_load_n(&b->keeper, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED) != 0;
}

#endif
