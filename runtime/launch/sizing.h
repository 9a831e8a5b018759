/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizing.h - what the user asks for: managers, memory and checkpoints of the whole dictionary. Pure
 * functions on libc, used by the `ddict` command and by the plugin in srun. Every refusal is one
 * sentence in why: the option, the value, what is allowed.
 */
#ifndef DDICT_LAUNCH_SIZING_H
#define DDICT_LAUNCH_SIZING_H

#include <base/defaults.h>

#include <stddef.h>
#include <stdint.h>

#define SPILL_TEXT 512 /* bytes of DIR:SIZE with the final 0 */
#define ASK_WHY    320 /* bytes for a sentence */

/*
 * An amount of memory: bytes, or a share of the job's memory. share is in hundredths of a percent,
 * 1 to 10000; 0: bytes says it.
 */
struct amount {
    uint64_t bytes;
    uint32_t share;
};

/* name: the option as the user knows it ("--ddict-mem", "DDICT_MEM"). Return 0 or -EINVAL with why
 * set; out unchanged then. */
int ask_managers(const char *name, const char *text, uint32_t *managers, char *why, size_t cap);
int ask_mem(const char *name, const char *text, uint64_t *mem, char *why, size_t cap);

/* A size, or a share such as 40% or 12.5%. */
int ask_amount(const char *name, const char *text, struct amount *amount, char *why, size_t cap);
/*
 * DIR[:SIZE] of a spill: an absolute path, without what Slurm's lines can not carry, and the bytes
 * of the whole dictionary (0: unsaid). dir_len: of the path in text; 0 for "none".
 */
int ask_spill(const char *name, const char *text, size_t *dir_len, uint64_t *bytes, char *why,
              size_t cap);
/* Which nodes shall have keys. */
struct key_nodes {
    uint32_t first;  /* the first so many; 0: those of components */
    unsigned groups; /* so many of them, by the offset of --het-group */
    int group[DD_COMPONENTS_MAX];
    uint64_t forward_mem; /* bytes on each of the others; 0: unsaid */
};
/* N[:SIZE] or het:G[,G...][:SIZE] */
int ask_key_nodes(const char *name, const char *text, struct key_nodes *nodes, char *why,
                  size_t cap);
/* How many checkpoints a dictionary keeps, and what a new one waits for (ddict_types.h). */
struct working_set {
    uint32_t size; /* from 1 on, with a flag from 2 on */
    unsigned flags;
};
/* K[,wait-for-keys][,wait-for-writers] */
int ask_working_set(const char *name, const char *text, struct working_set *working, char *why,
                    size_t cap);
/* The bytes, where a share is one of whole. */
uint64_t amount_bytes(const struct amount *amount, uint64_t whole);
/* "16.0 GiB" or "12.5%" into buf (at least 16 bytes); returns buf. */
const char *amount_format(char *buf, size_t cap, const struct amount *amount);

/* Each manager gets mem / managers: at least DD_MANAGER_MEM_MIN, and at most DD_LOCAL_MANAGERS_MAX
 * of them on a node. */
int ask_fits(const char *mem_name, uint64_t mem, const char *managers_name, uint32_t managers,
             uint32_t nodes, char *why, size_t cap);
/* Bytes on node `node_id`: manager m is on node m mod nodes, and with two copies its shadow on the
 * next node. */
uint64_t ask_share(uint64_t mem, uint32_t managers, uint32_t nodes, uint32_t node_id,
                   unsigned copies);
/*
 * The share of a node, of all copies, comes out of the job's memory there: job_mb of node `node`.
 * per_cpu: the job said --mem-per-cpu. The sentence has both figures and the option that would do.
 */
int ask_room(const char *mem_name, uint64_t mem, unsigned copies, uint64_t share, const char *node,
             uint64_t job_mb, int per_cpu, char *why, size_t cap);
/* For sentences: what stands behind the bytes of the whole. */
const char *copies_text(unsigned copies);

#endif
