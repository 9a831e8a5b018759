/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.h - what the administrator says, in the file ddict.conf(5) and by words of the plugin's line in plugstack.conf, which win.
 * One table of words for both. libc only: the command and the plugin use it; slurmd and slurmstepd read no file of ours.
 *
 *     struct site site = { 0 };                                 nothing said
 *     site_read(&site, why, sizeof why);                        the file, when there is one
 *     site_word(&site, av[i], "plugstack.conf", why, ...);      each word of the line, later ones win
 *
 * The words are few, so a wrong one is an error and not skipped; what that error stops is the caller's to decide.
 */
#ifndef DDICT_LAUNCH_SITE_H
#define DDICT_LAUNCH_SITE_H

#include "launch/ask.h"

#include <stddef.h>
#include <stdint.h>

#define SITE_TEXT 512 /* bytes of a path with the final 0 */

/* No pointers: it may be copied. Zero, or "": the word was not said. */
struct site {
    char ddict[SITE_TEXT], ddictd[SITE_TEXT], srun[SITE_TEXT]; /* programs; absolute */
    char log_dir[SITE_TEXT]; /* of records: absolute, may have % as --log has; or "none" */
    char mpi[32];
    char gpu_bind[16], torch_env[8]; /* for steps that do not say */
    char transport[64];              /* between managers */
    char rma[8];                     /* yes, no, auto; "": not said */
    char hugepages[16];              /* "no", "advise", or the size of a pool's pages */
    char spill[SPILL_TEXT];          /* DIR[:SIZE] */
    uint32_t managers, max_managers;
    struct amount mem;      /* for users who do not say --mem */
    uint64_t max_mem;       /* bytes of a dictionary */
    uint32_t max_mem_share; /* of the job's memory on a node, as in struct amount */
    uint32_t connections;   /* 0: unsaid */
    struct amount cache;    /* of a frozen dictionary; a share is one of its memory */
    int no_cache;           /* cache=none */
    uint32_t port_low, port_high;
    uint32_t start_s; /* start_timeout= */
    int has_save_lead;
    uint32_t save_lead;      /* seconds */
    int has_drain, drain_ms; /* drain=; 0 is a value */
};

/* The file DIR/ddict.conf, DIR being the sysconfdir it was configured with; a missing file is fine. 0 or -EINVAL (-EACCES ...) with one sentence in why
 * that names file and line; s then has the words before it. */
int site_read(struct site *s, char *why, size_t cap);
int site_read_file(struct site *s, const char *path, char *why, size_t cap);
/* Whether value is one of the words of want ("yes or no"); else what is wrong with name=value in why. 0 or -EINVAL. */
int site_choice(const char *name, const char *value, const char *want, char *why, size_t cap);
/* auto, tcp, ofi or ofi:PROVIDER. 0 or -EINVAL with what is wrong in why. */
int site_transport(const char *name, const char *value, char *why, size_t cap);
#define SITE_GPU_BIND  "closest, rotate or none"
#define SITE_TORCH_ENV "yes or no"
/* One word, "mem=4G". where: begins the sentence of a refusal ("plugstack.conf"). 0 or -EINVAL, s is unchanged then. */
int site_word(struct site *s, const char *word, const char *where, char *why, size_t cap);

/* Against max_managers and max_mem; the names are the user's options. A share is judged when the job's memory is known. 0 or -EINVAL. */
int site_judge(const struct site *s, const char *managers_name, uint32_t managers,
               const char *mem_name, uint64_t mem, char *why, size_t cap);
/* Against max_mem_share: share bytes on a node where the job has room bytes (0: not known). */
int site_judge_share(const struct site *s, const char *mem_name, uint64_t mem, uint64_t share,
                     const char *node, uint64_t room, char *why, size_t cap);

#endif
