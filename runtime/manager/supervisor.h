/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.h - inside ddictd, the parent of the managers of one node: it owns the arenas, the lease pages, the lanes, the clients' sockets and the
 * board, and knows the other nodes. One thread, one loop (main.c).
 *
 *     main.c        parse, become ready, serve, end
 *     wireup.c      who are we, the cards of all nodes (card.c); transport.c: what carries the managers' messages
 *     elect.c       --stay: is the name ours, or is there another dictionary of it
 *     shards.c      the managers: fork, messages, death; watch.c: whether they still answer
 *     clients.c     attach; holds.c: pages of forked children; doors.c: socket files for containers
 *     board.c       the page that clients look at
 *     meet.c        where the ranks of a step meet; tasks.c: --tasks: it ends with the last of them
 *     freezing.c    all managers read-only, and back
 *     control.c     the star of ddictds around node 0, and who takes its place
 *     ending.c      drain, end, lost; report.c: the figures at the end
 *     record.c      the lines of the record; scribe.c: writes them; steps.c: who was attached
 *     results.c     --results: who writes them to files; saving.c, saver.c: --save
 *     inputs.c      signals and stdin; say.c: the lines of the handshake
 */
#ifndef DDICT_MANAGER_SUPERVISOR_H
#define DDICT_MANAGER_SUPERVISOR_H

#include <manager/manager.h>
#include <manager/options.h>
#include <manager/saving.h>
#include <manager/supmsg.h>
#include <manager/timers.h>
#include <wire/attach.h>
#include <wire/board.h>
#include <wire/conn.h>
#include <wire/fabric.h>
#include <wire/loop.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct supervisor;
struct shard { /* one manager of this node */
    struct supervisor *s;
    uint32_t id;
    pid_t pid; /* 0: not started, or ended and waited for */
    bool ready, gone, has_stats;
    struct manager_page *page;                                   /* shared with it; outlives it */
    int arena_fd, arena_ro_fd, spill_fd, spill_ro_fd, listen_fd; /* spill: -1 without --spill */
    uint16_t port;
    struct io_handler sock;           /* our end of the pair; fd -1: closed */
    struct shard_out *out, **out_end; /* messages that did not fit */
    struct ddict_manager_stats stats; /* the last answer to SUP_STATS */
    /* watch.c */
    uint64_t turns, turned_ns; /* of its loop when we looked last; when they moved, by our timers */
    bool pinged, silent;       /* since then; silent: that was said */
};

enum end_reason {
    REASON_DRAINED,
    REASON_DOWN,
    REASON_SIGNAL,
    REASON_ALONE
}; /* why it was drained; travels with DRAIN */
#define ENDING_ALONE \
    "who started it went without a word (srun, `ddict up` or slurmstepd was killed)"
enum note_kind { NOTE_FULL = 1, NOTE_REFUSED };
struct note {               /* an event for the record; travels to node 0 */
    uint32_t kind, manager; /* enum note_kind */
    uint64_t count, used_bytes, total_bytes;
    char node[NODE_NAME_MAX];
    char text[256];
};

enum stage { STAGE_STARTING, STAGE_READY, STAGE_DRAINING, STAGE_ENDING, STAGE_OVER };

struct standing { /* a dictionary of our name that was there before us (--stay) */
    uint8_t id[16];
    uint32_t managers, nodes; /* managers 0: there is none */
    uint64_t bytes;
};
struct node_address { /* of a node's ddictd */
    struct sockaddr_storage addr[ADDRS_MAX];
    int naddr;
};

struct transport {             /* between managers; provider "": TCP */
    char own[FABRIC_NAME_MAX]; /* what this node has */
    char all[FABRIC_NAME_MAX]; /* decided from the cards of all */
    char why[512];             /* a sentence for it */
    bool rma;                  /* it also reads large values out of their owner's memory */
    uint32_t differs;          /* the first node that has something else than node 0; 0: none */
    char other[FABRIC_NAME_MAX];
};

struct supervisor {
    struct options opt;
    char node[NODE_NAME_MAX];
    uint32_t node_id, nodes, managers;
    uint64_t budget; /* of each manager */
    struct conn_identity identity;
    uint8_t secret_key[KEY_SIZE],
        public_key[KEY_SIZE]; /* of this node; the secret one until the wire-up is done */
    uint8_t (*keys)
        [KEY_SIZE]; /* [nodes]: public ones while cards come, then those that we have with each node; NULL: one node */
    struct transport transport;
    struct standing other;
    int epoll_fd;
    struct timers timers;
    enum stage stage;
    bool was_ready, lost;
    bool
        cards_only; /* the wire-up over PMIx went well, but its cards say that this start ends here */
    char text[512];                   /* why it is lost */
    uint32_t lost_manager, lost_node; /* who was; UINT32_MAX: not one of these */
    enum end_reason reason;
    uint64_t began, ready_at;
    int exit_code;
    struct timer start_timer;
    struct timer watch;

    struct board *board;
    int board_ro_fd;

    struct shard *shards; /* by local index */
    unsigned shards_n;
    struct numa_map places; /* of the managers */
    uint64_t memory_kills;  /* memlimit_kills() before there were managers */
    int gpus_fd; /* map of this node's GPUs, once somebody asked; 0: not yet, or a negative code */
    struct peer_address *peers;        /* [managers]; NULL on one node */
    char (*node_names)[NODE_NAME_MAX]; /* [nodes] */

    struct io_handler attach; /* the listening socket */
    struct sup_client *clients;
    unsigned attached; /* those that hold the dictionary's life during a drain */
    uint64_t next_id;  /* of clients and holds */
    struct sup_hold *holds;
    struct meeting *meetings;
    struct tasks *tasks; /* --tasks; NULL: it ends otherwise */

    struct freezing *freezing;

    struct control *control; /* NULL on one node */
    int control_fd;          /* listening; -1 on one node */
    uint16_t control_port;
    struct node_address *control_at; /* [nodes]; NULL on one node */

    struct io_handler signals, input;
    struct io_handler script; /* of --script; fd -1: not watched */
    char *line;               /* what came on stdin and is not a whole line yet */
    size_t line_len, line_cap;

    struct ending *ending;
    struct figures *figures; /* [managers] */
    struct scribe *scribe;
    struct steps *steps;
    struct note_pace strangers; /* refused by ddictd itself */
};

/* --- say.c: lines on stdout --- */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_text(const char *head, const char *text); /* "ddict1 HEAD TEXT", text of any length */

const char *hex_format(char text[33], const uint8_t id[16]); /* returns text */

/* --- wireup.c --- */
int wireup_place(struct supervisor *s); /* node, node_id, nodes */
/* Give our card (error: NULL, or why this node can not serve), get all; fill peers, names, identity. Negative: also when another node's card has an error. */
/* The cards of all nodes. error: why this one can not serve. 1: node 0 found another dictionary, which is in s->other then. */
int wireup_exchange(struct supervisor *s, const char *error);

/* --- transport.c --- */
int transport_find(
    struct supervisor *
        s); /* before the wire-up, which may start threads; negative: what was asked for is not there */
void transport_heard(struct supervisor *s, uint32_t node,
                     const char *provider); /* a card says so; node 0's comes first */
int transport_agree(struct supervisor *s);  /* all cards are in */

/* --- card.c --- */
struct card;
struct card *card_make(const struct supervisor *s, const char *error, size_t *len); /* malloc'ed */
int card_check(const void *bytes, size_t len, uint32_t node_id);
/* Node 0's card says that this start ends: then no other one is needed, and their nodes may be gone. */
int card_exists(const void *bytes, size_t len);
bool card_error(const struct card *c, char *text,
                size_t cap); /* why its node can not serve; false: it can */
void card_take(struct supervisor *s,
               const struct card *c); /* one that was checked: into peers, names, identity */

/* --- elect.c --- */
/* Node 0 with --stay, before its card: 0 the name is ours; 1 another dictionary has it and is ready (s->other); negative. */
int elect_name(struct supervisor *s);
/* Node > 0 with --stay, after the cards: node 0 has won, so the name is ours or about to be given up by a dictionary that has ended. */
int elect_follow(struct supervisor *s);

/* --- board.c --- */
int board_open(struct supervisor *s);
void board_say(struct supervisor *s, enum board_state state, const char *text);

/* --- bind.c --- */
void places_find(struct supervisor *s); /* before managers start */
/* Of the i-th manager of this node, NULL: it is not bound; *need: bytes of all arenas there. */
const struct numa_place *place_of(const struct supervisor *s, unsigned i, uint64_t *need);

int gpus_fd(struct supervisor
                *s); /* of the map of this node's GPUs, ours; or a negative code with a sentence */

/* --- shards.c --- */
int shards_listen(struct supervisor *s); /* ports, before the wire-up */
int shards_fit(
    const struct supervisor *
        s); /* does our share of the memory fit into what the job has on this node: its cgroup, and what is free */
int shards_start(struct supervisor *s); /* arenas and forks, after it */
void shard_send(struct shard *h, const struct sup_msg *m, const int *fds, int nfds);
void shards_send(struct supervisor *s, const struct sup_msg *m);
int ports_listen(
    const struct supervisor *s,
    uint16_t *port); /* a listening TCP socket, in the range of --ports where there is one */
void shards_ready(struct supervisor *s); /* when all of this node is ready: tell the others */
void shards_rescue(
    struct supervisor
        *s); /* figures of managers that did not give them, from the memory that outlives them */
void shards_reaped(struct supervisor *s); /* SIGCHLD */
void shards_stop(struct supervisor *s);   /* stop, wait, kill what does not stop */

/* --- watch.c --- */
void watch_start(
    struct supervisor *s); /* all managers are ready: from now on they have to answer */

/* --- clients.c --- */
int clients_listen(struct supervisor *s);
void clients_accept(struct supervisor *s, int listening); /* who waits there */
void clients_serve_parked(struct supervisor *s);          /* the dictionary is ready */
void client_added(struct shard *h, const struct sup_msg *m);
void client_bad(struct supervisor *s, uint64_t id);
void clients_refuse_new(struct supervisor *s); /* draining */
void clients_end(struct supervisor *s);
/* The lease pages of those that are attached, mapped to read: *maps (malloc'ed) of the returned number, each LEASE_FILE_SIZE. */
unsigned clients_leases(struct supervisor *s, const struct lease_chunk ***maps);

/* Those that watch are told how it ended. */
void clients_end_tell(struct supervisor *s, const char *text);
/* Answer those that ask where this step meets. */
void clients_meet(struct supervisor *s, const char *step, const char *text);

/* --- meet.c --- */
/*
 * A process of this node asks; life: of rank 0, its pidfd (borrowed; -1: not known), which keeps the port. 1: *text says; 0: clients_meet() will be called when it is
 * known, or never; or a negative code with a sentence.
 */
int meet_ask(struct supervisor *s, const char *step, uint32_t rank, int life, char *text,
             size_t cap);
/* Another node's ddictd says it (port > 0), or asks. 0 or DDICT_EPROTO. */
int meet_heard(struct supervisor *s, uint32_t from, uint32_t node, uint64_t port, const char *step,
               size_t len);
void meet_end(struct supervisor *s);

/* --- doors.c --- */
struct door;
/* Accept on a listening socket that is bound to the file `name` of the folder, too. It takes over both descriptors where it gives 0. */
int door_open(struct door **out, struct supervisor *s, int listening, int folder, const char *name);
void door_close(struct door *d); /* removes the file; NULL is allowed */
/* --- tasks.c --- */
int tasks_init(struct supervisor *s);
void tasks_ready(struct supervisor *s); /* the dictionary is */
/* A task of this node came: 0; -EALREADY: it was here before; -EINVAL; with a sentence. To be followed by tasks_left() at its end. */
int tasks_join(struct supervisor *s, uint32_t task);
void tasks_left(struct supervisor *s);
void tasks_take(struct supervisor *s, uint32_t node, uint32_t came,
                uint32_t here); /* node 0: so many of another node */
void tasks_end(struct supervisor *s);

/* --- freezing.c --- */
int freezing_init(struct supervisor *s);
void freezing_end(struct supervisor *s);
void freezing_shard(struct shard *h, const struct sup_msg *m); /* SUP_FREEZE_ASK, SUP_FREEZE_AT */
int freezing_heard(struct supervisor *s, bool from_parent, const void *payload,
                   size_t len); /* 0 or DDICT_EPROTO */

/* --- holds.c --- */
/* Takes over both descriptors. The answer HELD goes to fd's client (by id) when all managers know. */
void hold_begin(struct supervisor *s, uint64_t client, uint32_t pid, int page_fd, int pipe_fd);
void hold_added(struct supervisor *s, const struct sup_msg *m);
void client_held(struct supervisor *s, uint64_t client, int status);
void holds_end(struct supervisor *s);

/* --- control.c --- */
int control_listen(struct supervisor *s);
int control_start(struct supervisor *s);
void control_ready(struct supervisor *s); /* our managers are ready */
void control_drain(struct supervisor *s,
                   int wait_ms);            /* tell the others, also when the time gets shorter */
void control_drained(struct supervisor *s); /* node > 0: so many clients are left */
void control_lost(struct supervisor *s);
void control_end(struct supervisor *s);  /* node 0: all shall end */
void control_give(struct supervisor *s); /* node > 0: all figures that we have, then END */
void control_note(struct supervisor *s, const struct note *n); /* to who writes the record */
/* Where a step meets, or (port 0) the question, to a node that is connected to us, or to our parent (UINT32_MAX). */
void control_meet(struct supervisor *s, uint32_t to, uint32_t node, uint16_t port,
                  const char *step);
void control_tasks(struct supervisor *s, uint32_t came, uint32_t here); /* node > 0: of this node */
#define CONTROL_PARENT   UINT32_MAX
#define CONTROL_CHILDREN (UINT32_MAX - 1)
void control_save(struct supervisor *s, uint32_t to, const void *word,
                  size_t len); /* as control_freeze() */
/* To our parent, to all nodes below us, or to one of them. */
void control_freeze(struct supervisor *s, uint32_t to, const void *word, size_t len);
void control_release(
    struct supervisor *s); /* DONE: the record is being written, who gave his figures may go */
void control_parent_late(struct supervisor *s); /* it should have said DONE */
bool control_is_head(
    const struct supervisor *s); /* we write the record: node 0, or the lowest that lives */
bool control_released(const struct supervisor *s);
bool control_alone(const struct supervisor *s); /* nobody is connected to us any more */
bool control_all_drained(const struct supervisor *s);
bool control_all_ended(const struct supervisor *s); /* the others gave their figures or are gone */
void control_close(struct supervisor *s);
const char *node_name(const struct supervisor *s, uint32_t id);

/* --- ending.c --- */
int ending_init(struct supervisor *s);
void supervisor_ready(struct supervisor *s); /* all nodes are */
void supervisor_drain(struct supervisor *s, int wait_ms, enum end_reason why);
void supervisor_end(struct supervisor *s);
void supervisor_lost(struct supervisor *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void ending_headed(struct supervisor *s); /* those before us are gone: we write the record */
void ending_look(struct supervisor *s);   /* something happened that an end may wait for */

/* --- report.c --- */
int report_init(struct supervisor *s);
void report_take(struct supervisor *s, const struct ddict_manager_stats *st);
void report_each(const struct supervisor *s,
                 void (*fn)(void *arg, const struct ddict_manager_stats *st), void *arg);
void report_say(struct supervisor *s);     /* the line for who started us */
void report_record(struct supervisor *s);  /* job_end, and the summary into its file */
void report_summary(struct supervisor *s); /* the sentence for people */

/* --- record.c --- */
void record_start(struct supervisor *s);
void record_lost(struct supervisor *s);
void record_freeze(struct supervisor *s, bool frozen, uint64_t epoch);
void record_note(struct supervisor *s, const struct note *n);
/* Begin a line: "{" and the fields that all have; NULL without memory. record_done() ends it and gives it to the scribe. */
FILE *record_line(struct supervisor *s, const char *event, char **text, size_t *len);
void record_done(struct supervisor *s, FILE *f, char **text, size_t *len);
void json_text(FILE *f, const char *text); /* quoted */
void note_raise(struct supervisor *s, const struct note *n);
bool note_stranger(
    struct supervisor *s,
    const char *why); /* ddictd itself refused a connection; true: the first for DD_NOTE_MS */

/* --- scribe.c --- */
enum scribe_file { SCRIBE_RECORD, SCRIBE_SUMMARY };
int scribe_init(struct supervisor *s);
void scribe_write(struct supervisor *s, enum scribe_file file, char *text,
                  size_t len);            /* takes over text; nothing where there is no such file */
void scribe_reaped(struct supervisor *s); /* SIGCHLD */
bool scribe_busy(const struct supervisor *s);
bool scribe_failed(
    const struct supervisor *s); /* a line of the record was not written, and that was said */
void scribe_late(struct supervisor *s); /* say so when it is still busy */
void scribe_end(struct supervisor *s);

/* --- steps.c --- */
int steps_init(struct supervisor *s);
void steps_attached(struct supervisor *s, const char *step, pid_t pid);
void steps_take(struct supervisor *s, uint32_t node, const char *step,
                uint64_t processes); /* of another node */
void steps_each(const struct supervisor *s,
                void (*fn)(void *arg, uint32_t node, const char *step, uint64_t processes),
                void *arg);
void steps_json(const struct supervisor *s, FILE *f);
void steps_end(struct supervisor *s);

/* --- inputs.c --- */
int signals_first(
    void); /* before anything has threads: what is none of our business; SIGTERM ends at once */
int signals_block(
    void); /* before the managers are forked: from here on SIGTERM and SIGCHLD come through the loop */
int inputs_open(struct supervisor *s);
/* A line of stdin before the loop runs: 1, 0 at its end, -ETIMEDOUT. *line is valid until the next call. */
int input_line(struct supervisor *s, char **line, int timeout_ms);

/* --- results.c --- */
void program_find(char *path, size_t cap); /* the command `ddict` */
void results_start(struct supervisor *s);
void results_reaped(struct supervisor *s);
void results_end(struct supervisor *s);

#endif
