/* SPDX-License-Identifier: Apache-2.0 */
/* without_barriers CMD...: run CMD where the kernel knows no membarrier, as old kernels and strict
 * containers do. 77 when filters are not allowed here. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (argc < 2) {
        fprintf(stderr, "usage: without_barriers CMD...\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "skipped: no filter of system calls: %s\n", strerror(errno));
        return 77;
    }
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) != -1 || errno != ENOSYS) {
        fprintf(stderr, "the filter has no effect\n");
        return 1;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
    return 127;
}
