/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - the page by which ddictd tells its clients how the dictionary is. */
#include <base/error.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BOARD_SIZE  4096u
#define BOARD_MAGIC 0x4452414f42444444ull
_Static_assert(sizeof(struct board) <= BOARD_SIZE, "the board is one page");

int board_open(struct supervisor *s) {
    int e, fd = memfd_create("ddict-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return dd_error(-errno, "no memory file for the board: %s", strerror(errno));
    if (ftruncate(fd, BOARD_SIZE) < 0)
        goto failed;
    s->board = mmap(NULL, BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s->board == MAP_FAILED)
        goto failed;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        goto failed;
    s->board->magic = BOARD_MAGIC;
    s->board_ro_fd = arena_reopen_readonly(fd);
    close(fd);
    if (s->board_ro_fd < 0)
        return s->board_ro_fd;
    return board_keep(s->board);
failed:
    e = -errno;
    close(fd);
    return dd_error(e, "the board can not be made: %s", strerror(-e));
}

void board_say(struct supervisor *s, enum board_state state, const char *text) {
    if (!s->board || state <= s->board->state)
        return;
    snprintf(s->board->text, sizeof s->board->text, "%s", text);
    /* Release pairs with the reader's acquire of state: the text is there when the state is. */
    __atomic_store_n(&s->board->state, (uint32_t)state, __ATOMIC_RELEASE);
}
