/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.h - inside ddictd, the parent of the managers of one node: it owns the arenas, the lease pages, the lanes, the clients' sockets and the
 * board, and knows the other nodes. One thread, one loop (main.c).
 *
 *     main.c        parse, become ready, serve, end
 *     wireup.c      who are we, the cards of all nodes (card.c)
 *     elect.c       --stay: is the name ours, or is there another dictionary of it
 *     shards.c      the managers: fork, messages, death
 *     clients.c     attach; holds.c: pages of forked children
 *     board.c       the page that clients look at
 *     control.c     the star of ddictds around node 0
 *     ending.c      drain, end, lost; report.c: the figures at the end
 *     inputs.c      signals and stdin; say.c: the lines of the handshake
 */
#ifndef DDICT_MANAGER_SUPERVISOR_H
#define DDICT_MANAGER_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include <manager/manager.h>
#include <manager/options.h>
#include <manager/supmsg.h>
#include <manager/timers.h>
#include <wire/attach.h>
#include <wire/board.h>
#include <wire/conn.h>
#include <wire/loop.h>

struct supervisor;
struct shard {                  /* one manager of this node */
    struct supervisor *s;
    uint32_t id;
    pid_t pid;                  /* 0: not started, or ended and waited for */
    bool ready, gone, has_stats;
    int arena_fd, arena_ro_fd, event_fd, listen_fd;
    uint16_t port;
    struct io_handler sock;     /* our end of the pair; fd -1: closed */
    struct shard_out *out, **out_end; /* messages that did not fit */
    struct ddict_manager_stats stats; /* the last answer to SUP_STATS */
};

enum stage { STAGE_STARTING, STAGE_READY, STAGE_DRAINING, STAGE_ENDING, STAGE_OVER };

struct standing {               /* a dictionary of our name that was there before us (--stay) */
    uint8_t id[16];
    uint32_t managers, nodes;   /* managers 0: there is none */
    uint64_t bytes;
};
struct node_address {           /* of a node's ddictd */
    struct sockaddr_storage addr[ADDRS_MAX];
    int naddr;
};

struct supervisor {
    struct options opt;
    char node[NODE_NAME_MAX];
    uint32_t node_id, nodes, managers;
    uint64_t budget;            /* of each manager */
    struct conn_identity identity;
    struct standing other;
    int epoll_fd;
    struct timers timers;
    enum stage stage;
    bool was_ready, lost;
    char text[512];             /* why it is lost, or ends */
    int exit_code;
    struct timer start_timer;

    struct board *board;
    int board_ro_fd;

    struct shard *shards;       /* by local index */
    unsigned shards_n;
    struct peer_address *peers; /* [managers]; NULL on one node */
    char (*node_names)[NODE_NAME_MAX]; /* [nodes] */

    struct io_handler attach;   /* the listening socket */
    struct sup_client *clients;
    unsigned attached;          /* those that hold the dictionary's life during a drain */
    uint64_t next_id;           /* of clients and holds */
    struct sup_hold *holds;

    struct control *control;    /* NULL on one node */
    int control_fd;             /* listening; -1 on one node */
    uint16_t control_port;
    struct node_address *control_at; /* [nodes]; NULL on one node */

    struct io_handler signals, input;
    char *line;                 /* what came on stdin and is not a whole line yet */
    size_t line_len, line_cap;

    struct ending *ending;
    struct figures *figures;    /* [managers] on node 0 */
};

/* --- say.c: lines on stdout --- */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_text(const char *head, const char *text); /* "ddict1 HEAD TEXT", text of any length */

const char *hex_format(char text[33], const uint8_t id[16]); /* returns text */

/* --- wireup.c --- */
int wireup_place(struct supervisor *s);    /* node, node_id, nodes */
/* Give our card (error: NULL, or why this node can not serve), get all; fill peers, names, identity. Negative: also when another node's card has an error. */
/* The cards of all nodes. error: why this one can not serve. 1: node 0 found another dictionary, which is in s->other then. */
int wireup_exchange(struct supervisor *s, const char *error);

/* --- card.c --- */
struct card;
struct card *card_make(const struct supervisor *s, const char *error, size_t *len); /* malloc'ed */
int card_check(const void *bytes, size_t len, uint32_t node_id);
const char *card_error(const struct card *c);
void card_take(struct supervisor *s, const struct card *c); /* into peers, names, identity */

/* --- elect.c --- */
/* Node 0 with --stay, before its card: 0 the name is ours; 1 another dictionary has it and is ready (s->other); negative. */
int elect_name(struct supervisor *s);
/* Node > 0 with --stay, after the cards: node 0 has won, so the name is ours or about to be given up by a dictionary that has ended. */
int elect_follow(struct supervisor *s);

/* --- board.c --- */
int board_open(struct supervisor *s);
void board_say(struct supervisor *s, enum board_state state, const char *text);

/* --- shards.c --- */
int shards_listen(struct supervisor *s);   /* ports, before the wire-up */
int shards_start(struct supervisor *s);    /* arenas and forks, after it */
void shard_send(struct shard *h, const struct sup_msg *m, const int *fds, int nfds);
void shards_send(struct supervisor *s, const struct sup_msg *m);
void shards_reaped(struct supervisor *s);  /* SIGCHLD */
void shards_stop(struct supervisor *s);    /* stop, wait, kill what does not stop */

/* --- clients.c --- */
int clients_listen(struct supervisor *s);
void clients_serve_parked(struct supervisor *s); /* the dictionary is ready */
void client_added(struct shard *h, const struct sup_msg *m);
void client_bad(struct supervisor *s, uint64_t id);
void clients_refuse_new(struct supervisor *s);   /* draining */
void clients_end(struct supervisor *s);

/* --- holds.c --- */
/* Takes over both descriptors. The answer HELD goes to fd's client (by id) when all managers know. */
void hold_begin(struct supervisor *s, uint64_t client, uint32_t pid, int page_fd, int pipe_fd);
void hold_added(struct supervisor *s, const struct sup_msg *m);
void client_held(struct supervisor *s, uint64_t client, int status);
void holds_end(struct supervisor *s);

/* --- control.c --- */
int control_listen(struct supervisor *s);
int control_start(struct supervisor *s);
void control_ready(struct supervisor *s);   /* our managers are ready */
void control_drain(struct supervisor *s, int wait_ms); /* tell the others, also when the time gets shorter */
void control_drained(struct supervisor *s); /* node > 0: so many clients are left */
void control_lost(struct supervisor *s);
void control_end(struct supervisor *s);     /* node 0: all shall end */
void control_give(struct supervisor *s);    /* node > 0: our figures, then END */
bool control_all_drained(const struct supervisor *s);
bool control_all_ended(const struct supervisor *s); /* node 0: all gave their figures; node > 0: node 0 let us go */
void control_close(struct supervisor *s);
const char *node_name(const struct supervisor *s, uint32_t id);

/* --- ending.c --- */
int ending_init(struct supervisor *s);
void supervisor_ready(struct supervisor *s); /* all nodes are */
void supervisor_drain(struct supervisor *s, int wait_ms);
void supervisor_end(struct supervisor *s);
void supervisor_lost(struct supervisor *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ending_look(struct supervisor *s);      /* something happened that an end may wait for */

/* --- report.c --- */
int report_init(struct supervisor *s);
void report_take(struct supervisor *s, const struct ddict_manager_stats *st);
void report_say(struct supervisor *s);

/* --- inputs.c --- */
int signals_first(void);                     /* before anything has threads: what is none of our business; SIGTERM ends at once */
int signals_block(void);                     /* before the managers are forked: from here on SIGTERM and SIGCHLD come through the loop */
int inputs_open(struct supervisor *s);
/* A line of stdin before the loop runs: 1, 0 at its end, -ETIMEDOUT. *line is valid until the next call. */
int input_line(struct supervisor *s, char **line, int timeout_ms);

#endif
