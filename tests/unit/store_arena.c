/* SPDX-License-Identifier: Apache-2.0 */
/* store_arena.c - an arena is made sealed or not at all, and is mapped only when its header fits.
 * */
#include "store_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

/* --- failing libc --- */
static enum {
    FAIL_NONE,
    FAIL_MEMFD,
    FAIL_TRUNCATE,
    FAIL_PWRITE,
    SHORT_PWRITE,
    FAIL_SEAL,
    FAIL_OPEN,
    FAIL_MMAP,
    FAIL_SECOND_MMAP
} fail;
static int mmaps;

int memfd_create(const char *name, unsigned flags) {
    if (fail != FAIL_MEMFD)
        return (int)syscall(SYS_memfd_create, name, flags);
    errno = EMFILE;
    return -1;
}
int ftruncate(int fd, off_t len) {
    if (fail != FAIL_TRUNCATE)
        return (int)syscall(SYS_ftruncate, fd, len);
    errno = EFBIG;
    return -1;
}
ssize_t pwrite(int fd, const void *buf, size_t n, off_t off) {
    if (fail != FAIL_PWRITE)
        return syscall(SYS_pwrite64, fd, buf, fail == SHORT_PWRITE ? n / 2 : n, off);
    errno = ENOSPC;
    return -1;
}
int fcntl(int fd, int cmd, ...) {
    va_list ap;
    va_start(ap, cmd);
    long arg = va_arg(ap, long);
    va_end(ap);
    if (fail != FAIL_SEAL || cmd != F_ADD_SEALS)
        return (int)syscall(SYS_fcntl, fd, cmd, arg);
    errno = EPERM;
    return -1;
}
int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    if (fail != FAIL_OPEN)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    errno = ENOENT;
    return -1;
}
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off) {
    mmaps++;
    if (fail == FAIL_MMAP || (fail == FAIL_SECOND_MMAP && mmaps == 2)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

static const struct store_options small = {
    .budget = DD_MANAGER_MEM_MIN, .manager_id = 3, .managers = 5, .dict_id = {1, 2, 3}};

START_TEST(a_new_arena_is_sealed_against_every_change_of_size) {
    int fd = arena_create(&small);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    ck_assert_int_eq(ftruncate(fd, 4096), -1);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(fd);
}
END_TEST

START_TEST(a_new_arena_takes_one_page_of_memory) {
    struct stat st;
    struct store_options o = {.budget = 64ull << 30, .managers = 1};
    int fd = arena_create(&o);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_blocks * 512, ARENA_PAGE);
    close(fd);
}
END_TEST

START_TEST(the_header_says_who_owns_it_and_regions_do_not_overlap) {
    static const uint64_t budgets[] = {DD_MANAGER_MEM_MIN, 5000001, 64 * MIB, 3ull << 30,
                                       DD_MANAGER_MEM_MAX};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct store_options o = small;
        struct arena_header h;
        o.budget = budgets[i];
        int fd = arena_create(&o);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(pread(fd, &h, sizeof h, 0), sizeof h);
        ck_assert_uint_eq(h.manager_id, 3);
        ck_assert_uint_eq(h.managers, 5);
        ck_assert_uint_eq(h.dict_id[2], 3);
        ck_assert_uint_eq(h.budget, budgets[i] & ~4095ull);
        ck_assert_int_eq(arena_check(&h, h.file_size, 0), 0);
        ck_assert_uint_le(h.heap_off + h.heap_len, h.file_size);
        ck_assert_uint_lt(h.file_size, budgets[i] * 9 / 4 + 4 * MIB);
        close(fd);
    }
}
END_TEST

START_TEST(budgets_outside_the_bounds_are_refused) {
    struct store_options o = small;
    o.budget = DD_MANAGER_MEM_MIN - 1;
    ck_assert_int_eq(arena_create(&o), -EINVAL);
    o.budget = DD_MANAGER_MEM_MAX + 1;
    ck_assert_int_eq(arena_create(&o), -EINVAL);
    o.budget = 0;
    ck_assert_int_eq(arena_create(&o), -EINVAL);
}
END_TEST

START_TEST(create_that_fails_leaks_nothing_and_names_the_cause) {
    static const struct {
        int how, rc;
    } cases[] = {{FAIL_MEMFD, -EMFILE},
                 {FAIL_TRUNCATE, -EFBIG},
                 {FAIL_PWRITE, -ENOSPC},
                 {SHORT_PWRITE, -EIO},
                 {FAIL_SEAL, -EPERM}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fds = unit_fds();
        dd_error(0, "%s", "");
        fail = cases[i].how;
        int rc = arena_create(&small);
        fail = FAIL_NONE;
        ck_assert_int_eq(rc, cases[i].rc);
        ck_assert_str_ne(dd_errmsg(), "");
        ck_assert_int_eq(unit_fds(), fds);
    }
}
END_TEST

START_TEST(clients_get_a_descriptor_that_cannot_write) {
    int fd = arena_create(&small), ro = arena_reopen_readonly(fd);
    ck_assert_int_ge(ro, 0);
    ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0), MAP_FAILED);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_eq(pwrite(ro, "x", 1, 0), -1);
    ck_assert_int_eq(fcntl(ro, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(ro);
    fail = FAIL_OPEN;
    ck_assert_int_eq(arena_reopen_readonly(fd), -ENOENT);
    fail = FAIL_NONE;
    close(fd);
}
END_TEST

/* A file with this header, sparse. */
static int file_with(const struct arena_header *h, uint64_t size) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    ck_assert_int_eq(pwrite(fd, h, sizeof *h, 0), sizeof *h);
    return fd;
}

static void both_refuse(const struct arena_header *h, uint64_t size, int code) {
    struct arena_view a;
    struct store *s;
    int fd = file_with(h, size), fds = unit_fds();
    ck_assert_int_eq(arena_view_map(&a, fd, -1, 0), code);
    ck_assert_int_eq(store_open(&s, fd, -1, 0), code);
    ck_assert_int_eq(unit_fds(), fds);
    close(fd);
}

START_TEST(a_header_that_does_not_fit_is_refused_by_both_sides) {
    struct arena_header good, h;
    int fd = arena_create(&small);
    ck_assert_int_eq(pread(fd, &good, sizeof good, 0), sizeof good);
    close(fd);
    both_refuse(&good, good.file_size + 4096, DDICT_EPROTO);
#define WITH(change, code)                     \
    do {                                       \
        h = good;                              \
        change;                                \
        both_refuse(&h, good.file_size, code); \
    } while (0)
    WITH(h.magic++, DDICT_EPROTO);
    WITH(h.layout_version++, DDICT_EVERSION);
    WITH(h.header_size--, DDICT_EVERSION);
    WITH(h.file_size += 4096, DDICT_EPROTO);
    WITH(h.budget = 0, DDICT_EPROTO);
    WITH(h.pagemap_off = 0, DDICT_EPROTO);
    WITH(h.pagemap_len = UINT64_MAX, DDICT_EPROTO);
    WITH(h.pagemap_len = 64, DDICT_EPROTO);
    WITH(h.dir_off = h.pagemap_off, DDICT_EPROTO);
    WITH(h.dir_len = UINT64_MAX - h.dir_off + 1, DDICT_EPROTO);
    WITH(h.seg_off += 8, DDICT_EPROTO);
    WITH(h.seg_len = good.file_size, DDICT_EPROTO);
    WITH(h.heap_off += 64, DDICT_EPROTO);
    WITH(h.heap_off = good.file_size + 4096, DDICT_EPROTO);
    WITH(h.heap_len += 4096, DDICT_EPROTO);
    WITH(h.heap_len = UINT64_MAX, DDICT_EPROTO);
}
END_TEST

START_TEST(what_is_no_arena_at_all_is_refused) {
    struct arena_view a;
    struct store *s;
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_eq(arena_view_map(&a, fd, -1, 0), DDICT_EPROTO);
    ck_assert_int_eq(store_open(&s, fd, -1, 0), DDICT_EPROTO);
    ck_assert_int_eq(ftruncate(fd, 65536), 0);
    ck_assert_int_eq(arena_view_map(&a, fd, -1, 0), DDICT_EPROTO);
    ck_assert_int_eq(arena_view_map(&a, -1, -1, 0), -EBADF);
    ck_assert_int_eq(store_open(&s, -1, -1, 0), -EBADF);
    close(fd);
}
END_TEST

static uint64_t mappings(void) {
    char line[512];
    uint64_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, "ddict-arena") != NULL;
    fclose(f);
    return n;
}

START_TEST(mapping_that_fails_leaves_no_mapping) {
    struct arena_view a;
    struct store *s;
    int fd = arena_create(&small);
    for (int how = FAIL_MMAP; how <= FAIL_SECOND_MMAP; how++) {
        fail = (unsigned)how;
        mmaps = 0;
        ck_assert_int_eq(arena_view_map(&a, fd, -1, 0), -ENOMEM);
        mmaps = 0;
        ck_assert_int_eq(store_open(&s, fd, -1, 0), -ENOMEM);
        fail = FAIL_NONE;
        ck_assert_uint_eq(mappings(), 0);
    }
    close(fd);
}
END_TEST

START_TEST(unmap_leaves_no_mapping_and_may_be_repeated) {
    struct arena_view a;
    struct store *s;
    int fd = arena_create(&small);
    ck_assert_int_eq(arena_view_map(&a, fd, -1, 0), 0);
    ck_assert_int_eq(store_open(&s, fd, -1, 0), 0);
    ck_assert_uint_ge(mappings(), 2);
    arena_view_unmap(&a);
    arena_view_unmap(&a);
    store_close(s);
    store_close(NULL);
    ck_assert_uint_eq(mappings(), 0);
    close(fd);
}
END_TEST

START_TEST(a_process_that_locks_its_memory_does_not_fill_the_arena) {
    struct arena_view a;
    struct store *s;
    struct stat st;
    int fd = arena_create(&small);
    if (mlockall(MCL_FUTURE) == 0) { /* needs a limit that allows it */
        int rc = arena_view_map(&a, fd, -1, 0), rc2 = store_open(&s, fd, -1, 0);
        munlockall();
        ck_assert_int_eq(rc, 0);
        ck_assert_int_eq(rc2, 0);
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_int_lt(st.st_blocks * 512, 200000);
        arena_view_unmap(&a);
        store_close(s);
    }
    close(fd);
}
END_TEST

START_TEST(a_reader_before_the_first_manager_is_told_to_come_again) {
    struct arena_view a;
    struct found f;
    uint64_t slot = 0;
    int fd = arena_create(&small);
    ck_assert_int_eq(arena_view_map(&a, fd, -1, 0), 0);
    ck_assert_int_eq(reader_find(&a, hash_of("k", 1), "k", 1, &slot, &f), -EAGAIN);
    arena_view_unmap(&a);
    close(fd);
}
END_TEST

UNIT_MAIN("store_arena", a_new_arena_is_sealed_against_every_change_of_size,
          a_new_arena_takes_one_page_of_memory,
          the_header_says_who_owns_it_and_regions_do_not_overlap,
          budgets_outside_the_bounds_are_refused,
          create_that_fails_leaks_nothing_and_names_the_cause,
          clients_get_a_descriptor_that_cannot_write,
          a_header_that_does_not_fit_is_refused_by_both_sides, what_is_no_arena_at_all_is_refused,
          mapping_that_fails_leaves_no_mapping, unmap_leaves_no_mapping_and_may_be_repeated,
          a_process_that_locks_its_memory_does_not_fill_the_arena,
          a_reader_before_the_first_manager_is_told_to_come_again)
