/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - print one of the made-up machines as hwloc's XML, by its number. */
#include "machine_xml.h"

int main(int argc, char **argv) {
    int i = argc == 2 ? atoi(argv[1]) : -1;
    size_t len;
    char *text;

    if (i < 0 || i >= MACHINES)
        return EXIT_FAILURE;
    text = machine_xml(&machines[i], &len);
    fwrite(text, 1, len, stdout);
    free(text);
    return EXIT_SUCCESS;
}
