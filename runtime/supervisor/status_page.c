/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.c - the page by which ddictd tells its clients how the dictionary is. */
#include "status_page.h"

#include "supervisor.h"
#include <base/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STATUS_PAGE_SIZE  4096u
#define STATUS_PAGE_MAGIC 0x4452414f42444444ull
_Static_assert(sizeof(struct status_page) <= STATUS_PAGE_SIZE, "it is one page");

int status_page_open(struct supervisor *s) {
    int e, fd = memfd_create("ddict-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return dd_error(-errno, "no memory file for the status page: %s", strerror(errno));
    if (ftruncate(fd, STATUS_PAGE_SIZE) < 0)
        goto failed;
    s->status_page = mmap(NULL, STATUS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s->status_page == MAP_FAILED)
        goto failed;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        goto failed;
    s->status_page->magic = STATUS_PAGE_MAGIC;
    snprintf(s->status_page->persist, sizeof s->status_page->persist, "%s",
             s->opt.persist ? s->opt.persist : "");
    s->status_page_ro_fd = arena_reopen_readonly(fd);
    close(fd);
    if (s->status_page_ro_fd < 0)
        return s->status_page_ro_fd;
    return status_page_keep(s->status_page);
failed:
    e = -errno;
    close(fd);
    return dd_error(e, "the status page can not be made: %s", strerror(-e));
}

void status_page_set(struct supervisor *s, enum status_page_state state, const char *text) {
    uint32_t bits = s->status_page ? s->status_page->state & STATUS_BITS : 0;
    if (!s->status_page || state <= (s->status_page->state & ~STATUS_BITS))
        return;
    snprintf(s->status_page->text, sizeof s->status_page->text, "%s", text);
    if (state & STATUS_ENDED)
        bits = 0;
    /* Release pairs with the reader's acquire of state: a reader of the state finds its text. */
    __atomic_store_n(&s->status_page->state, (uint32_t)state | bits, __ATOMIC_RELEASE);
}

void status_page_lease(struct supervisor *s, uint64_t until, bool suspended) {
    struct status_page *p = s->status_page;
    uint32_t bits = STATUS_LEASED | (suspended ? STATUS_SUSPENDED : 0);
    if (p->state & STATUS_ENDED)
        return;
    __atomic_store_n(&p->lease, until, __ATOMIC_RELAXED);
    /* Release: who finds LEASED finds a lease. */
    __atomic_store_n(&p->state, (p->state & ~STATUS_BITS) | bits, __ATOMIC_RELEASE);
}
