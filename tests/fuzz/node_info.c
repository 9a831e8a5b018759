/* SPDX-License-Identifier: Apache-2.0 */
/* node_info.c - what one node tells the others at the wire-up, as node 1 takes it of each. */
#include "fuzz.h"
#include <supervisor/node_info.h>
#include <supervisor/supervisor.h>

enum { NODES = 3, MANAGERS = 7, SHADOW_END = 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct peer_address peers[SHADOW_END];
    static struct node_address control_at[NODES];
    static uint8_t keys[NODES][KEY_SIZE];
    static char names[NODES][NODE_NAME_MAX];
    struct fuzz_input in = {data, size};
    struct supervisor s = {.nodes = NODES,
                           .managers = MANAGERS,
                           .deal = {.owners = MANAGERS, .nodes = NODES, .keyed = NODES},
                           .node_id = 1,
                           .keys = keys,
                           .peers = peers,
                           .control_at = control_at,
                           .node_names = names};
    uint8_t first = fuzz_byte(&in);
    uint32_t node = first % 128 % NODES, numbers = first < 128 ? MANAGERS : SHADOW_END;
    char error[256], *bytes;
    size_t len = in.left;
    s.opt.replicas = first < 128 ? 1 : 2;
    s.opt.transport = "auto";
    s.opt.rma = "auto";
    bytes = malloc(len + (len == 0)); /* aligned, and its end is the input's */
    fuzz_must(bytes);
    fuzz_copy(&in, bytes, len);
    node_info_says_exists(bytes, len);
    if (node_info_check(bytes, len, node) == 0) {
        const struct node_info *info = (const struct node_info *)(const void *)bytes;
        node_info_error(info, error, sizeof error);
        fuzz_read(error, strlen(error));
        node_info_apply(&s, info);
        fuzz_must(strlen(names[node]) < NODE_NAME_MAX);
        fuzz_must(control_at[node].naddr >= 0 && control_at[node].naddr <= ADDRS_MAX);
        for (unsigned m = 0; m < numbers; m++)
            fuzz_must(peers[m].naddr >= 0 && peers[m].naddr <= ADDRS_MAX);
    }
    free(bytes);
    return 0;
}
