/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.h - what Slurm knows about the job: the nodes of a step or of the whole job, and the job's
 * memory on each. A heterogeneous job has components, which are jobs of their own for Slurm; who
 * knows the first one's id, the leader's, knows it all. A step over several of them has one number
 * in all. A node that two components share counts for the first.
 */
#ifndef DDICT_LAUNCH_STEP_H
#define DDICT_LAUNCH_STEP_H

#include <base/hostlist.h>

#include <stddef.h>
#include <stdint.h>

struct part {
    unsigned job;   /* the component's own id; 0: not a heterogeneous job */
    int group;      /* --het-group of srun; -1: not a heterogeneous job */
    char *nodelist; /* as Slurm writes it */
    uint32_t nodes;
};

struct step {
    struct part *parts; /* ours; one, or one for each component that has nodes */
    size_t nparts;
    struct hostlist nodes; /* of all parts, one by one: the order of node ids */
    /* ours; the job's memory on each of nodes, MB; 0: not limited or not known */
    uint64_t *mb;
    unsigned char *per_cpu; /* ours; of each node: the job said --mem-per-cpu */
    int exclusive;          /* no other job runs on its nodes */
    int batch;
    uint64_t left;     /* seconds until its time is over; 0: no limit, or not known */
    char *stdout_path; /* ours; where a batch script's output goes, NULL: not known */
};

/* Pure parts, for what scontrol prints. 0 or a negative code with the sentence set. */
/* The record of one step in what `scontrol show step JOB.STEP` prints: with stepmgr, Slurm 24.05 to
 * 25.11 prints all steps of the job. malloc'ed; NULL: it is not there. */
char *step_record(const char *text, const char *job, const char *step);
/* "NodeList=" of `scontrol show step` or `show job`: one part more */
int step_parse_nodes(struct step *s, int group, const char *text);
/* A component of a heterogeneous job in `scontrol show job LEADER`. malloc'ed, to be freed; NULL:
 * there are no more, or the job is not one. *next: where to look on, first the text's begin; *job:
 * its id. */
char *step_component(const char **next, unsigned *job, int *group);
/* `scontrol -d show job`, after the nodes: of those whose memory is not known yet */
int step_parse_memory(struct step *s, const char *text);

/* KillWait of `scontrol show config`, seconds; 0: it does not say. */
uint64_t step_parse_kill_wait(const char *text);
/* `show job`: exclusive, batch, left, stdout_path */
void step_parse_kind(struct step *s, const char *text);
/* `scontrol show node`: RealMemory where the job's memory is not limited. */
int step_parse_real_memory(struct step *s, const char *text);
/* The job's memory on the first n nodes, bytes; 0 when that of one of them is not known. */
uint64_t step_memory(const struct step *s, size_t n);
/* Put the nodes of this component first, behind those of `before` parts that are there already. 0 or
 * -ENOENT (it has none), -ENOMEM. */
int step_put_first(struct step *s, int group, size_t before);

/*
 * `scontrol show config`: whether Slurm kills jobs for memory of which it counts the shared part in
 * every task (OverMemoryKill without NoShared or UsePss). Then a job whose tasks all map the
 * dictionary can be killed for memory that it does not use.
 */
int step_parse_overcounts(const char *text);

/* One component: the job with this id, or if that is 0 the index-th in which the step runs. */
struct component {
    unsigned job;
    int index;
};

/* step NULL: the whole job; only NULL: all components. scontrol: absolute path. 0 or a negative code
 * with the sentence set; s is to be freed always. */
int step_look(struct step *s, const char *scontrol, char *const *envp, const char *job,
              const char *step, const struct component *only);
/* What Slurm says of step id, "7.0"; to be freed. Where slurmctld does not answer it is asked some
 * more times. 0, -ENOENT: there is no such step, or another negative code. */
int step_ask(const char *scontrol, char *const *envp, const char *id, char **text);
/* Where Slurm does not limit the job's memory and no other job shares its nodes, it is all that
 * they have. 0 or a negative code, as above. */
int step_look_real_memory(struct step *s, const char *scontrol, char *const *envp);
void step_free(struct step *s);

#endif
