/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica.pml - PROTOCOL 13, two copies of a manager's keys: here one key, a counter, and three nodes. Node 0 is
 * the primary of epoch 1 and node 1 its backup. Each request counts one; its client asks again, with the same
 * id, until it has an answer, and any answer may be lost. One node may lose power, one may be cut off for a
 * while, and a primary's manager may die and begin its next life. Nothing that was acknowledged is lost, nothing
 * is counted twice, no read is older than what an earlier read or answer said, and no two nodes serve at once.
 *
 * The map (who is primary, who backup) is one variable here: how the nodes agree about it is coordinator.pml's.
 * So is what time does: a node that is cut off is SUSPENDED before another takes its place. That is fence.pml's.
 */
#include "weak.inc"
#define LARGE
#define PROMOTED_BEFORE_SUSPENDED MUTANT(1)
#define COMMITTED_BEFORE_ACK      MUTANT(2)
#define EPOCH_NOT_COMPARED        MUTANT(3)
#define PROMOTED_WHILE_SYNCING    MUTANT(4)
#define IDS_NOT_REPLICATED        MUTANT(5)
#define IDS_NOT_IN_THE_COPY       MUTANT(6)
#define BACKUP_DROPPED_UNASKED    MUTANT(7)
#define NO_ACK_AWAITED_IN_A_SYNC  MUTANT(8)
#define HEALED_BEFORE_THE_MAP     MUTANT(9)
#define SHADOW_IN_THE_OLD_ARENA   MUTANT(10)
#define LIFE_FORGETS_WHAT_IT_SENT MUTANT(11)
#define READER_KEEPS_ITS_MAP      MUTANT(12)

#define NODES 3
#define IDS   2
#define NONE  7
#define HAS(set, id) ((set) & (1 << (id)))

/* the map: as it is, and as each node knows it */
byte m_epoch = 1, m_prim = 0, m_back = 1;
bool m_whole = 1; /* the backup has all */
byte epoch[NODES], prim[NODES], back[NODES];
bool whole[NODES];
bool shadow[NODES]; /* its arena has never been a primary's */
bool alive[NODES], cut[NODES], susp[NODES];
byte troubles = 2, deaths = 1, cuts = 1, lives = 1, answers_lost = 1;

byte arena[NODES];         /* where the counter of this node is: a backup begins a new one */
byte val[6], ids[NODES];   /* the counter, and what was counted */
#define VAL(n) val[2 * (n) + arena[n]]
byte pend[NODES];          /* the request that waits for the backup's acknowledgement */
bool sent_copy[NODES];     /* this primary has sent its copy in this epoch */

mtype = { REPL, COPY };
/* what goes from a primary to its backup, and back: one connection, in order */
chan link[NODES] = [2] of { mtype, byte, byte, byte, byte }; /* to node n: kind, epoch, value, ids, id */
chan acks[NODES] = [2] of { mtype, byte, byte };             /* to node n: kind, epoch, id */

/* what clients know */
byte issued, acked; /* sets of ids */
byte n_acked, n_issued;
byte least; /* what a read that begins now may give */

#define LEAST(n) least = (least > (n) -> least : (n))
inline answer(id) {
    if
    :: acked = acked | (1 << (id)); n_acked++; LEAST(n_acked)
    :: answers_lost > 0 -> answers_lost--
    fi
}
inline commit(n) {
    VAL(n)++;
    ids[n] = ids[n] | (1 << pend[n]);
    if :: !HAS(acked, pend[n]) -> answer(pend[n]) :: else fi;
    pend[n] = NONE
}
inline flush(to) {
    do :: len(link[to]) > 0 -> link[to]?_, _, _, _, _ :: else -> break od
}
inline flush_acks(to) {
    do :: len(acks[to]) > 0 -> acks[to]?_, _, _ :: else -> break od
}
/* connections of node n end, and those at their other ends notice */
inline link_breaks(n, p) {
    if
    :: prim[p] == p && back[p] != NONE && (p == n || back[p] == n) -> flush(back[p]); flush_acks(p); sent_copy[p] = 0
    :: else
    fi
}
inline links_break(n) {
    flush(n);
    flush_acks(n);
    link_breaks(n, 0);
    link_breaks(n, 1);
    link_breaks(n, 2)
}
/* what a node that is neither primary nor backup knows does not matter any more */
inline forget(n) {
    prim[n] = NONE; back[n] = NONE; whole[n] = 0; ids[n] = 0
}
inline send_pend(n) {
    link[back[n]]!REPL, epoch[n], VAL(n) + 1, (IDS_NOT_REPLICATED -> 0 : (1 << pend[n])), pend[n];
    if :: COMMITTED_BEFORE_ACK || (NO_ACK_AWAITED_IN_A_SYNC && !whole[n]) -> commit(n) :: else fi
}

#define MINE(n) (alive[n] && prim[n] == (n))
#define SERVES(n) (MINE(n) && !susp[n])
#define READS(n) (SERVES(n) || (READER_KEEPS_ITS_MAP && alive[n] && !susp[n] && !shadow[n]))
#define REACHES(n, to) (!cut[n] && !cut[to] && alive[to])
#define ASKED(n, id) (HAS(issued, id) && !HAS(acked, id))
#define CAN_SEND(n) (back[n] == NONE || ((whole[n] || sent_copy[n]) && REACHES(n, back[n]) && len(link[back[n]]) < 2))

proctype node(byte n) {
    byte v, i, e, id;
    mtype kind;
end_node:
    do
    /* the map arrives, and ends a suspension */
    :: atomic { alive[n] && !cut[n] && epoch[n] != m_epoch ->
        epoch[n] = m_epoch; back[n] = m_back; whole[n] = m_whole;
        sent_copy[n] = 0;
        if
        :: prim[n] == n && m_prim == n ->
            if
            :: pend[n] != NONE && back[n] == NONE -> commit(n)
            :: else /* a request that waits goes behind the copy */
            fi
        :: else ->
            pend[n] = NONE; /* its client asks the new primary */
            prim[n] = m_prim;
            if
            :: prim[n] == n -> shadow[n] = 0
            :: prim[n] != n && back[n] != n -> forget(n)
            :: else -> whole[n] = 0
            fi
        fi;
        susp[n] = 0 }
    :: atomic { alive[n] && !cut[n] && susp[n] && (epoch[n] == m_epoch || HEALED_BEFORE_THE_MAP) -> susp[n] = 0 }
    /* its lease runs out */
    :: atomic { alive[n] && cut[n] && !susp[n] -> susp[n] = 1 }
    /* primary: a request */
    :: atomic { SERVES(n) && pend[n] == NONE ->
        if :: ASKED(n, 0) -> id = 0 :: ASKED(n, 1) -> id = 1 :: !ASKED(n, 0) && !ASKED(n, 1) -> id = NONE fi;
        if
        :: id == NONE
        :: id != NONE && HAS(ids[n], id) -> answer(id)
        :: id != NONE && !HAS(ids[n], id) && CAN_SEND(n) ->
            pend[n] = id;
            if :: back[n] == NONE -> commit(n) :: else -> send_pend(n) fi
        :: else
        fi; id = 0 }
    /* the copy for a new backup, and behind it what waits */
    :: atomic { MINE(n) && back[n] != NONE && !whole[n] && !sent_copy[n] && REACHES(n, back[n]) && len(link[back[n]]) == 0 ->
        link[back[n]]!COPY, epoch[n], VAL(n), (IDS_NOT_IN_THE_COPY -> 0 : ids[n]), 0;
        sent_copy[n] = 1;
        if :: pend[n] != NONE -> send_pend(n) :: else fi }
    :: atomic { MINE(n) && !cut[n] && len(acks[n]) > 0 ->
        acks[n]?kind, e, id;
        if
        :: kind == REPL && pend[n] == id && e == epoch[n] -> commit(n)
        :: kind == COPY && e == m_epoch && m_prim == n && !m_whole -> m_whole = 1; whole[n] = 1
        :: else
        fi; e = 0; id = 0; kind = 0 }
    /* after a break of the connection, in the same epoch */
    :: atomic { MINE(n) && !susp[n] && back[n] != NONE && REACHES(n, back[n]) && len(link[back[n]]) == 0 && len(acks[n]) == 0 ->
        if
        :: pend[n] != NONE && (whole[n] || sent_copy[n]) -> send_pend(n)
        :: pend[n] == NONE && !whole[n] -> sent_copy[n] = 0
        :: else
        fi }
    /* its manager dies; the next life has what was under way from memory of ddictd */
    :: atomic { MINE(n) && lives > 0 && troubles > 0 ->
        lives--; troubles--;
        links_break(n);
        if :: LIFE_FORGETS_WHAT_IT_SENT -> pend[n] = NONE :: else fi }
    /* its backup does not answer */
    :: atomic { BACKUP_DROPPED_UNASKED && MINE(n) && back[n] != NONE && !REACHES(n, back[n]) && pend[n] != NONE -> commit(n) }
    /* backup. A message of an epoch that it does not know yet waits for the map */
    :: atomic { alive[n] && !cut[n] && len(link[n]) > 0 ->
        link[n]?<kind, e, v, i, id>;
        if
        :: e > epoch[n] && !EPOCH_NOT_COMPARED -> skip
        :: else ->
            link[n]?kind, e, v, i, id;
            if
            :: (e == epoch[n] && back[n] == n) || EPOCH_NOT_COMPARED ->
                if :: kind == COPY && !shadow[n] && !SHADOW_IN_THE_OLD_ARENA -> arena[n] = 1 - arena[n]; shadow[n] = 1 :: else fi;
                VAL(n) = v;
                ids[n] = (kind == COPY -> i : (ids[n] | i));
                if
                :: prim[n] != n && prim[n] != NONE && REACHES(n, prim[n]) && len(acks[prim[n]]) < 2 -> acks[prim[n]]!kind, e, id
                :: else
                fi
            :: else
            fi
        fi; e = 0; v = 0; i = 0; id = 0; kind = 0 }
    :: !alive[n] -> break
    od
}

proctype coordinator() {
    byte c;
end_coordinator:
    do
    :: atomic { m_back != NONE && (!alive[m_prim] || (cut[m_prim] && (susp[m_prim] || PROMOTED_BEFORE_SUSPENDED))) &&
                alive[m_back] && !cut[m_back] && (m_whole || PROMOTED_WHILE_SYNCING) ->
        m_prim = m_back; m_back = NONE; m_whole = 0; m_epoch++ }
    :: atomic { m_back != NONE && alive[m_prim] && !cut[m_prim] && (!alive[m_back] || cut[m_back]) ->
        m_back = NONE; m_whole = 0; m_epoch++ }
    :: atomic { m_back == NONE && alive[m_prim] && !cut[m_prim] && m_epoch < 5 ->
        if :: c = 0 :: c = 1 :: c = 2 fi;
        if :: c != m_prim && alive[c] && !cut[c] -> m_back = c; m_whole = 0; m_epoch++ :: else fi; c = 0 }
    od
}

proctype nemesis() {
    byte n;
end_nemesis:
    do
    :: atomic { deaths > 0 && troubles > 0 ->
        deaths--; troubles--;
        if :: n = 0 :: n = 1 :: n = 2 fi;
        links_break(n);
        alive[n] = 0;
        forget(n);
        epoch[n] = 0; pend[n] = NONE; sent_copy[n] = 0; shadow[n] = 0; arena[n] = 0; val[2 * n] = 0; val[2 * n + 1] = 0;
        n = 0 }
    :: atomic { cuts > 0 && troubles > 0 ->
        cuts--; troubles--;
        if :: n = 0 :: n = 1 :: n = 2 fi;
        if :: links_break(n) :: true fi;
        if :: alive[n] -> cut[n] = 1 :: else fi;
        n = 0 }
    :: atomic { cut[0] || cut[1] || cut[2] -> cut[0] = 0; cut[1] = 0; cut[2] = 0 }
    od
}

proctype client() {
    do
    :: atomic { n_issued < IDS -> issued = issued | (1 << n_issued); n_issued++ }
    :: else -> break
    od
}

/* One read after the other, in place, of a node that serves. Between its look at the status page and the load all may happen. */
proctype reader() {
    byte n, low, at;
end_reader:
    do
    :: atomic {
        if :: READS(0) -> n = 0 :: READS(1) -> n = 1 :: READS(2) -> n = 2 fi;
        assert(SERVES(0) + SERVES(1) + SERVES(2) <= 1);
        low = least;
        at = 2 * n + arena[n] }
       atomic {
        if
        :: alive[n] ->
            assert(val[at] >= low);
            assert(val[at] <= n_issued);
            LEAST(val[at])
        :: else
        fi; low = 0; n = 0; at = 0 }
    od
}

init {
    CHOOSE;
    atomic {
        alive[0] = 1; alive[1] = 1; alive[2] = 1;
        epoch[0] = 1; epoch[1] = 1; epoch[2] = 1;
        back[0] = 1; back[1] = 1; back[2] = NONE; prim[2] = NONE;
        whole[0] = 1;
        shadow[1] = 1; shadow[2] = 1;
        pend[0] = NONE; pend[1] = NONE; pend[2] = NONE;
        run node(0); run node(1); run node(2); run coordinator(); run nemesis(); run client(); run reader()
    }
}
