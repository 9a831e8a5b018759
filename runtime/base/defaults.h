/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.h - every tunable of the project with its unit and its reason. */
#ifndef DDICT_BASE_DEFAULTS_H
#define DDICT_BASE_DEFAULTS_H

/* --- sizes --- */
/* --ddict-managers; 16 bits of a lease word name the arena */
#define DD_WORKING_SET_MAX 65535u /* checkpoints that are kept at most */
#define DD_MANAGERS_MAX    65535u
/* managers of one node; the counter block of a lease chunk has one row each */
#define DD_LOCAL_MANAGERS_MAX 256u
/* components of a heterogeneous job, as Slurm allows (MAX_HET_JOB_COMPS) */
#define DD_COMPONENTS_MAX 128
/* bytes; below it the index and one run of each common size class do not fit */
#define DD_MANAGER_MEM_MIN (4ull << 20)
/* bytes for the managers of a node without keys: views of large values, and the node cache */
#define DD_FORWARD_MEM (64ull << 20)
/* so much at least for each of them, where nobody says */
#define DD_FORWARDER_MEM (16ull << 20)
/* bytes; page numbers of an arena fit in 32 bits with room to spare */
#define DD_MANAGER_MEM_MAX (4ull << 40)
/* bytes of the whole dictionary when neither user nor site says */
#define DD_MEM_DEFAULT (1ull << 30)

/* --- store --- */
/* heap page, 4 KiB: an extent of > 32 KiB wastes at most 1/8 */
#define DD_PAGE_SHIFT 12
/* bytes of the largest small pages that a machine has (ARM; x86-64: 4 KiB): what is mapped by itself
 * begins at a multiple of it, in an arena and in a lane */
#define DD_PAGE_MAX 65536u
/* block addresses are multiples of 16 bytes: 44 bits of offset span 256 TiB */
#define DD_GRANULE_SHIFT 4
/* bytes; from here on values are 64-byte aligned (vector loads, numpy) */
#define DD_VALUE_ALIGN_MIN 256u
/* bytes of an index segment: a split moves about 700 words, some 50 us */
#define DD_SEGMENT_SIZE 16384u
/* buckets a key may stand away from its home, home included: a segment is then 3/4 full when it
 * splits */
#define DD_BUCKET_REACH 8u
/* a reader asks through its lane after so many retries (not wait-free) */
#define DD_READ_RETRIES 64u
#ifdef DDICT_STRESS /* scans in parts are common then */
#define DD_SCAN_CHUNKS 1u
#define DD_SCAN_LINES  1u
#define DD_SCAN_LEASES 4u
#define DD_SCAN_BLOCKS 8u
#define DD_SCAN_SMALL  8u
#else
/* where there are more chunks of leases than these, it is so many 64 bytes of slots that are looked
 * at in one turn, */
#define DD_SCAN_CHUNKS 128u
/* each a miss of the caches at worst: a quarter of a millisecond, and of 2,000 idle clients all; */
#define DD_SCAN_LINES  8192u
/* and so many leases that are noted: each may be the first touch of a page */
#define DD_SCAN_LEASES 512u
/* retired blocks that are looked up in one turn: each is a miss of the caches or two, together less
 * than a millisecond */
#define DD_SCAN_BLOCKS 2048u
/* so many retired blocks are looked up in one go, if leases are few */
#define DD_SCAN_SMALL  8192u
#endif
/* of a turn of a manager: who asks later waits for the next one. With what one request and the work
 * beside can take, below 5 ms */
#define DD_TURN_NS 1500000u
/* of a turn, for those who were woken and were not answered in the turn of the put; and for news of
 * keys the same */
#define DD_WAKE_NS 500000u
/* cached items that the hand passes in one turn: some 100 us */
#define DD_CACHE_LOOKS 4096u
/* chunks of leases whose hints are looked at in one turn: 256 each at most, together below a
 * millisecond */
#define DD_CACHE_HINTS 64u
/* values of a deleted queue that are freed at a time, some 100 us */
#define DD_QUEUE_SWEEP   256u
#define DD_RECLAIM_BYTES (1ull << 20) /* retired bytes that start a lease scan */
/* so many more for each chunk of leases, and each 64 bytes of slots, that the last scan looked at:
 * a look takes some 10 ns, a line more of it 3; writing as many */
#define DD_RECLAIM_CHUNK 256u
/* bytes takes twice as long and more, and what goes beyond a core's cache until it is used again is
 * written at half the speed */
#define DD_RECLAIM_LINE  128u
#define DD_RECLAIM_SPARE 16u /* 1/16 of the budget at most for that */
/* slots of a chunk that are looked at when it is new; doubled when its owner needs more */
#define DD_LEASE_OPEN 7u
/* bytes populated at a time behind the service; memory limits are looked at once a step */
#define DD_POPULATE_STEP (4ull << 20)
/* 1/16 of the budget is not populated ahead: the index grows into it */
#define DD_POPULATE_SPARE 16u
/* bytes; from here on the heap asks for 2 MiB pages, below they would eat the budget */
#define DD_HUGE_ARENA (64ull << 20)
/* how much lies in huge pages is counted so often at most, whoever asks for figures */
#define DD_HUGE_LOOK_MS 10000u
/* bytes kept free below a cgroup limit or MemAvailable when the watermark rises */
#define DD_MEM_RESERVE (64ull << 20)

/* an arena that was in use is opened in so many parts at most: each takes its part of 1/128 of the
 * heap for a moment, and goes over all words, some 4 ns each */
#define DD_REBUILD_PARTS 8u

/* bytes of a manager's spill: with the heap its page numbers fit in 32 bits */
#define DD_SPILL_MAX (8ull << 40)
/* bytes that the spill's file grows by: a call takes milliseconds, in a thread of its own */
#define DD_SPILL_STEP (16ull << 20)
/* 1/20 of what is free in its folder is left to others where no size is said */
#define DD_SPILL_LEAVE 20u
/* 1/32 of the budget, where there is a spill, is no place for values: the index and the spill's
 * page map grow into it */
#define DD_SPILL_SPARE 32u
/* bytes; what is moved away at a time needs a page or two of page map */
#define DD_SPILL_SPARE_MIN (128ull << 10)
/* bytes written to the spill before the disk is asked whether it has them: some ten milliseconds of
 * a fast disk */
#define DD_SPILL_MOVE (16ull << 20)
/* values looked at, or moved, in one turn of the manager: well below a millisecond */
#define DD_SPILL_CHOOSE 512u
/* bytes of a value in the spill that have a checksum of their own: they fit into a core's own
 * cache. Part of the layout */
#define DD_SPILL_CHUNK (256ull << 10)
/* a value is moved to the spill when what stays of it in memory is at most half of it */
#define DD_SPILL_GAIN 2u
/* bytes of memory given back at a time, so that the index can have what values had: below a
 * millisecond */
#define DD_SPILL_BACK (2ull << 20)
/* bytes: a view of a value in the spill up to this is a copy, which no failing disk can touch;
 * larger ones are mapped */
#define DD_SPILL_COPY (64ull << 20)
/* bytes of one value read from, or written to, the spill ahead of whom they are for: what it has
 * under way of memory beside the budget */
#define DD_SPILL_AHEAD (8ull << 20)
/* a put that waits for room is refused when the spill's disk has done nothing for so long: less
 * than a stream's patience */
#define DD_SPILL_WAIT_MS 20000u
/* memory that was full is looked at so much later again, or when something was freed: not for each
 * value that spills */
#define DD_SPILL_LOOK_MS 100u

/* of one turn, for bringing scattered memory together: with the copy of one item more, and what
 * else a turn does, below 5 ms. By the time that passes: where the manager waits for a core less is
 * moved in a turn, and the next turn follows at once; those who ask between the two would wait
 * longer if it were its CPU time, a look at which costs more than a microsecond, as 16 small items
 * do */
#define DD_COMPACT_NS 2000000u
/* the same, of a turn in which nobody asked: who comes then waits so long at most */
#define DD_COMPACT_IDLE_NS 500000u
/* bytes of memory given back between looks at the clock, for a value that free pages are too
 * scattered for: half a millisecond */
#define DD_PUNCH_STEP (2ull << 20)
/* bytes: larger blocks are never moved in memory; the copy of one takes below a millisecond */
#define DD_COMPACT_LARGE (2ull << 20)
/* what could not be moved, for a view or a pin, is looked at again so much later, or when something
 * was freed */
#define DD_COMPACT_AGAIN_MS 100u
/* and no sooner than after so many times as long as the look at all of it took: for the most part
 * the turns are others' */
#define DD_COMPACT_REST 4u
/* a put waits at most so long for room that is being made: 6 GiB can be moved in it */
#define DD_COMPACT_WAIT_MS 3000u
/* when one has waited in vain for so long, the next ones do not for so long */
#define DD_COMPACT_LATE_MS 10000u
/* in idle turns: while less than 1/16 of the budget is in free pages, and more than that scattered
 * */
#define DD_COMPACT_IDLE_PART 16u

/* --- leases --- */
/* slots a thread takes at a time: one page, with a word before them */
#define DD_LEASE_CHUNK_SLOTS 511u
#define DD_LEASE_CHUNKS      2048u /* chunks of one client: a million views */

/* --- lanes and messages --- */
/* bytes of each direction; power of two; about the L2 cache */
#define DD_LANE_RING (512u << 10)
/* bytes of one DATA piece: with its header a quarter of a ring, so four are in flight */
#define DD_MSG_PIECE ((128u << 10) - 64)
/* a key and value up to this together travel in one message (one lane record) */
#define DD_MSG_INLINE ((128u << 10) - 64)
/* bytes of a streamed reply under way between nodes before MSG_CREDIT: bounds what a slow client
 * costs its manager */
#define DD_STREAM_WINDOW (4u << 20)
/* bytes of an arena for remote values that are viewed; at most 1/16 of it, half where no keys are */
#define DD_TRANSIT_MAX (1ull << 30)
/* a remote value up to this is sent inline also for a view: cheaper than a transit block */
#define DD_VIEW_INLINE 4096u
/* bytes; a value up to this travels with the news of its put, when that is wanted */
#define DD_EVENT_INLINE 8192u
/* bytes of events that a manager keeps for all prefixes together: the oldest go first, and who has
 * not read them is told */
#define DD_FEEDS_EVENTS (64ull << 20)
/* bytes of prefixes that it knows, some 200 and the prefix each: a million */
#define DD_FEEDS_PREFIXES (256ull << 20)
/* bytes: a value from here on is copied past the caches; it is larger than a core's own, and half
 * of it may be gone when it is used */
#define DD_COPY_PAST (4ull << 20)
/* bytes: the largest value that is built in place; address space and a sparse file, not memory */
#define DD_LANE_AREA (64ull << 30)
/* bytes of it that a manager maps at a time, each half of it a place to begin: to unmap one, all of
 * whose pages were looked at, takes half a millisecond and more; all windows of a lane together
 * cover DD_AREA_KEPT */
#define DD_LANE_WINDOW (8ull << 20)
/* bytes of it whose memory stays with the client for the next value: taking new memory costs more
 * than writing it */
#define DD_AREA_KEPT (64ull << 20)
/* bytes: a lane that has no more memory stays as it is: its positions, and a page of each ring */
#define DD_LANE_SMALL (16u << 10)
/* bytes of a lane given back at a time: half a millisecond */
#define DD_LANE_STEP      (4ull << 20)
#define DD_LANE_SHRINK_NS 1000000u /* of one turn for that, and of each */
/* so many: what a crowd has left goes back in seconds, and nobody waits for it */
#define DD_LANE_PAUSE_MS 5u
/* 1/16 of the budget stays free of cached values: for the index and for transit, which is as much
 * again */
#define DD_CACHE_SPARE 16u
/* manager: spins so long after work when it has more than one core */
#define DD_SPIN_US 50
/* of a spin before it offers the core to others at each turn */
#define DD_SPIN_ALONE_NS 1000
/* a turn of a spin that takes so long: somebody else had the core. Less than a time slice, more
 * than an interrupt */
#define DD_SPIN_LOST_NS 200000u
/* no spinning for so many times what was lost: where all cores are wanted it then costs 1/32 of the
 * time at most */
#define DD_SPIN_REST        32u
#define DD_SPIN_REST_MAX_NS 1000000000u /* at most: the load may have gone */
/* cores that were given or taken away are noticed so late; a look is a system call of a quarter
 * microsecond */
#define DD_SPIN_LOOK_NS 200000000u
/* client: spins so long for a completion when it has more than one core */
#define DD_CLIENT_SPIN_US 20
/* a connection waits so long for room in the lane of a client that takes too slowly, before its
 * bytes are kept in memory: a copy and a half fewer */
#define DD_PART_WAIT_US 1000
/* TCP connections from a manager to another: one for what is small, which never waits behind what
 * is large, and two: one waits for its losses while the other moves */
#define DD_CONNECTIONS     3u
#define DD_CONNECTIONS_MAX 16u
/* protection of messages between nodes after the handshake, where nobody says */
#define DD_WIRE SEAL_PLAIN
/* bytes: a remote value from here on is read out of its owner's memory, where the network can;
 * below, asking where it is and saying that it was read costs more than sending it */
#define DD_RMA_MIN (256ull << 10)
/* bytes of one such read: an order more than what is under way on the fastest links, so eight keep
 * them busy */
#define DD_RMA_PIECE (256u << 10)
#define DD_RMA_AHEAD 8u /* reads of one value under way */
/* for reads that are under way when a manager ends: a peer that lives answers in milliseconds */
#define DD_RMA_CLOSE_MS 2000u
/* bytes of the arena that are registered with the network at once: some milliseconds, and 16,384
 * for a TiB */
#define DD_RMA_GRANULE (64ull << 20)
/* bytes that a lane may have aside for a manager that does not move: a few rings; its client stops
 * when it is told */
#define DD_PARK_BYTES (4u << 20)
/* bytes of values of a lane that are kept to be sent again (--restarts) while they are on their way
 * to other nodes, and as many of values that wait for room there: what a fast network has under way
 * in a third of a millisecond */
#define DD_COPIES_MAX (4u << 20)
/* bytes queued to one peer before requests of clients wait */
#define DD_PEER_INFLIGHT (4u << 20)

/* --- runtime library --- */
/* ddict run -n: more are a slip of the finger on one machine */
#define DD_RANKS_MAX 4096u
/* bytes a rank gives in an exchange: meant for addresses; a thousand ranks are then 1 GiB */
#define DD_RT_PIECE_MAX (1u << 20)

/* steps whose MASTER_PORT a ddictd knows; the port of one that ended is free at once */
#define DD_RENDEZVOUS_MAX 1024u

/* of a step that shares a dictionary by `ddict run`: above what Slurm starts */
#define DD_TASKS_MAX (1u << 24)

/* --- deadlines, milliseconds --- */
/* default of every client call ($DDICT_TIMEOUT, seconds) */
#define DD_TIMEOUT_MS 60000
/* a lane that nothing went through for so long gives its memory back: taking it again costs a tenth
 * of a millisecond a MiB */
#define DD_LANE_IDLE_MS 5000u
/* longest sleep without looking whether the other side lives */
#define DD_WAIT_SLICE_MS 10
/* the manager ends a get that waits, and its answer may come so late; a manager that is silent
 * makes nobody wait longer */
#define DD_GRACE_READ_MS 50
/* ... of a pop or push that waits: given up in between, nobody knows whether the value was taken. A
 * busy machine is late by tenths of a second */
#define DD_GRACE_TAKE_MS 1000
/* fork() with views held: for the managers to take them over for the child; they answer in
 * microseconds, and fork waits */
#define DD_FORK_MS 200
/* a rank asks ddictd for the GPUs of the node, which may read the topology of a large machine for
 * it */
#define DD_GPUS_MS 5000
/* a task asks where rank 0 of its step is, which Slurm starts at the same time on another node */
#define DD_RENDEZVOUS_MS 15000
/* hidden step created -> ready; start_timeout sets another time, and DD_FABRIC_MS, DD_GATHER_MS,
 * DD_ELECT_MS and DD_FENCE_MS then keep their distance from it (start_times()) */
#define DD_READY_MS 10000
/* waiting for Slurm to create the hidden step (a prolog can take minutes) */
#define DD_STEP_CREATE_MS 600000
#define DD_STEP_SAY_MS    5000 /* a progress line after so long */
/* an answer of slurmctld to scontrol; a busy one takes many seconds */
#define DD_SCONTROL_MS 60000
/* so often scontrol is asked for a step of a component that it may not have; scontrol itself tries
 * for some 10 s */
#define DD_STEP_ASKS 4
/* between two of these */
#define DD_STEP_ASK_MS 500
/* a program's `ddict up` that says nothing for so long hangs. It says something every
 * DD_STEP_SAY_MS, but not while it asks slurmctld, up to four times, */
#define DD_UP_START_SILENT_MS (4 * DD_SCONTROL_MS + 60000)
/* and not between the end of the managers and its own */
#define DD_UP_END_SILENT_MS 30000
/* waiting for attached ranks after the end was asked for */
#define DD_DRAIN_MS 5000
/* from SIGTERM, with --results: for ranks to give their last and for these to be written; with
 * DD_RECORD_MS the least KillWait of sites (5 s) */
#define DD_RESULTS_END_MS 2000
/* --save: so long before the time limit, and before what the writing takes, the first pass begins
 * */
#define DD_SAVE_LEAD_S 120
/* --save: bytes a second that a node is thought to write, to begin early enough; most storage takes
 * more */
#define DD_SAVE_RATE (100u << 20)
/* --save: storage that takes nothing for so long is given up */
#define DD_SAVE_STALL_MS 120000
/* --refill: to read again what a node's managers had of loaded sets, terabytes from a slow storage */
#define DD_REFILL_MS 1800000
/* --refill: so many tries where a source fails, so long after the end of the one before */
#define DD_REFILL_TRIES  3u
#define DD_REFILL_TRY_MS 5000
/* --save: from SIGTERM: the most that ranks have for their last puts; a third of KillWait where
 * that is less */
#define DD_SAVE_LEAVE_MS 10000
/* Slurm's default of KillWait, where nobody says */
#define DD_KILL_WAIT_MS 30000
/* from "dictionary gone" to the end of the managers */
#define DD_DRAIN_GRACE_MS 500
/* ddict_persist(), ddict_restore(): from SIGTERM to `ddict save` until SIGKILL; above what an srun
 * may take to end its step */
#define DD_PERSIST_STOP_MS 45000
/* and bytes of its answer that are looked at */
#define DD_PERSIST_ANSWER 16384u
/* a save or restore waits so long for its turn, while others that live save and restore */
#define DD_PERSIST_TURN_MS (30 * 60 * 1000)
/* ddictd waits for a manager to end before it kills it */
#define DD_STOP_MS 3000
/* the hidden srun lets go of our pipes when we leave it alone; else it is killed */
#define DD_LEAVE_MS 2000
/* ... and ends itself when no slurmstepd was connected with it for so long: its step is over, and it
 * has missed that. Well above DD_LINGER_MS, in which a step may run without */
#define DD_LEFT_ALONE_MS 60000
/* slurmstepd waits so long for the managers of a batch script that has ended, and their srun */
#define DD_SCRIPT_END_MS 1500
/* ... and so long where it saves the dictionary to disk, and Slurm kills that srun with the step:
 * at scancel, at the time limit */
#define DD_SCRIPT_SAVE_MS 3600000
/* freeze: a value that is being streamed in may be completed */
#define DD_FREEZE_MS 5000
/* an unauthenticated TCP connection lives so long */
#define DD_HANDSHAKE_MS 5000
/* accepted connections that have not proved themselves: of a process, besides one for each that
 * honest peers may open at once */
#define DD_STRANGERS 64u
/* connecting to a peer, all its addresses together */
#define DD_CONNECT_MS   5000
#define DD_PEER_BEAT_MS 1000  /* heartbeat between the nodes' ddictd */
#define DD_PEER_LOST_MS 10000 /* silence of a node after which it is lost */
/* ... of a node that said it is above memory.high: the kernel stops its ddictd for 2 s whenever that
 * takes memory, and a client that attaches makes it do so several times */
#define DD_PEER_SLOWED_MS 60000
/* of DD_PEER_LOST_MS: then fresh connections look whether it lives, one a beat: TCP would try the
 * old one again only after 6, 12, 25 s */
#define DD_PEER_QUIET_MS 3000
/* a connection is kept so long though the other kernel answers nothing: more than DD_PEER_LOST_MS,
 * for whether a node is lost is its ddictd's to say */
#define DD_CONN_LOST_MS    25000
#define DD_MANAGER_LOOK_MS 1000 /* ddictd looks whether its managers turn */
/* a manager that has not turned for so long is named in the log */
#define DD_MANAGER_SAY_MS 3000
/* ... and for so long is lost: stopped, or in D state. As a node that is silent */
#define DD_MANAGER_LOST_MS DD_PEER_LOST_MS
/* ... where it wants to run: a machine that is starved or swaps is no reason, a loop without end is
 * */
#define DD_MANAGER_BUSY_MS 60000
/* a manager that has died --restarts times within so long is not started again */
#define DD_RESTARTS_MS 10000
/* deaths of a manager within that time that are made good, where nobody says: a third is no accident
 * any more, but comes of what the manager does or holds, and would come again */
#define DD_RESTARTS 2u
/* seconds within which a process that ends by a fault has said where, or is ended without */
#define DD_BACKTRACE_S 2
/* --- --replicas=2 (PROTOCOL 13) --- */
/* a node serves so long from when it sent the last beat that who decides has answered */
#define DD_LEASE_MS 3000
/* who decides gives the keys of a node to their backups when so much is over since it heard its last beat:
 * by then the lease of that node is over, if clocks run at rates that differ by less */
#define DD_LEASE_WAIT_MS 4000
/* from the loss of who decides to END of the node that took its place, when there is nothing to
 * wait for; at most */
#define DD_TAKEOVER_MS (4 * DD_LEASE_WAIT_MS)
/* who decides asks the voters for another round so long after the last one, where a node waits for it */
#define DD_ROUND_MS 200
/* a node that looks for who decides: the others that may stand stand so long before it, each ... */
#define DD_VOTE_TURN_MS 200u
#define DD_VOTE_TURNS   5u /* ... of so many */
/* it asks again, also those that it has not reached */
#define DD_VOTE_AGAIN_MS 500u
/* who has given its vote gives none to another meanwhile, and does not stand */
#define DD_VOTE_KEPT_MS 2000u
/* a term that is newer than ours by more makes no sense: as many elections as one a millisecond in 49
 * days. Taken, it could leave none behind it */
#define DD_TERMS_AHEAD (1ull << 32)
/* who has found nobody by then, and no majority that takes it, is lost: as long as a node is awaited
 * that is silent */
#define DD_VOTE_LOST_MS DD_PEER_LOST_MS
/* a backup that acknowledges nothing for so long, while something waits for it, is given up */
#define DD_BACKUP_LOST_MS 4000
/* bytes a second, at most, that a primary copies to a new backup: a quarter of what one connection
 * takes at 10 Gbit/s, the rest is for changes; 64 GiB then take 4 minutes */
#define DD_COPY_BYTES (256ull << 20)
/* in one turn: so many bytes, about, and keys */
#define DD_COPY_TURN (256u << 10)
#define DD_COPY_KEYS 64u
/* an owner without a second copy gets so many tries of a new one, on one node after the other, the
 * second so long after the first, and each after twice the time before, as far as 64 times */
#define DD_BACKUP_TRIES  8u
#define DD_BACKUP_TRY_MS 500
/* the tries begin anew where one was there for so long, whole */
#define DD_BACKUP_STEADY_MS 60000
/* a node has so long to start a new shadow */
#define DD_BACKUP_PLACE_MS 20000
/* what is said of a new backup is said again after this time */
#define DD_BACKUP_LOOK_MS 200
/* new backups that are filled at once from or on a node */
#define DD_COPIES_AT_ONCE 2u

/* --- --refill (PROTOCOL 13) --- */
/* keys of an owner that began anew that are known to have been removed since: 8 to 22 bytes each */
#define DD_ANEW_KEYS_MAX (1u << 20)
/* the keys of an owner begin anew so often where their node is there and their process dies for good */
#define DD_ANEW_DEATHS 3u

/* a proxy connects so many times in a row to an owner that dies or breaks off before it has answered
 * a request to its end, or more of a value has come, and asks it again; more than --restarts may be */
#define DD_PEER_TRIES 20
/* between two of these, but for the first; and for each of them before more values in pieces are sent
 * again */
#define DD_PEER_TRY_MS 100
/* places for results of changes, of each proxy: when so many changes are under way more of them are
 * not asked again */
#define DD_RESULTS 4096u
/* a manager that is asked and does not move for so long: what is for it waits aside. Longer than a
 * busy one is away from a core as a rule */
#define DD_PEER_STUCK_MS 100
/* a proxy ends a request so long after its requester's time: the requester notices first */
#define DD_LATE_MS 1000
/* a streamed value without progress for so long is given up */
#define DD_STREAM_MS 30000
/* a gap between own ticks that counts as suspend and extends deadlines */
#define DD_SUSPEND_GAP_MS 2000
/* from SIGTERM or a loss to the job_end record: below the least KillWait that sites use (5 s) */
#define DD_RECORD_MS 3000
/* a name that is taken: until it is ready, or ours; less than DD_FENCE_MS, in which the other nodes
 * wait for our node info */
#define DD_ELECT_MS 25000
/* the same where the managers have another time than DD_READY_MS */
#define DD_ELECT_FOR_MS(ready_ms) (DD_ELECT_MS - DD_READY_MS + (ready_ms))
/* a start that ends with the wire-up (it came second, or a node said an error) stays so long: its
 * end must not disturb the wire-up of its other nodes */
#define DD_LINGER_MS 3000
/* node > 0 waits so long for the name of a dictionary that has ended on node 0 and is about to end
 * here */
#define DD_NAME_FREE_MS 5000
/* `ddict run` in the tasks of a step: none is there, and some never came; a slow node may be so
 * much later than the others */
#define DD_TASKS_ALONE_MS 10000
/* of those that wait for its managers one says so */
#define DD_TASKS_SAY_MS 15000
/* ddict run -n: from the SIGTERM to ranks that are left to the SIGKILL; as Slurm's least KillWait
 * */
#define DD_RANKS_STOP_MS 5000
/* PMIx looks up what it has at hand: on a busy machine its thread has to come on first */
#define DD_RT_ASK_MS 2000
/* rank 0 ends: for the others to have read the last exchange */
#define DD_RT_CLOSE_MS 1000
/* at the end: managers of our node give their figures; who does not is read from the memory that
 * outlives it */
#define DD_FIGURES_MS 800
/* at the end: the nodes give theirs; leaves time to write within DD_RECORD_MS */
#define DD_FIGURES_ALL_MS 1800
/* node > 0: so much later who should have gathered them is taken for lost */
#define DD_FIGURES_LATE_MS 400
/* asking nodes with lower ids who writes the record */
#define DD_FAILOVER_MS     1000
#define DD_FAILOVER_ONE_MS 400 /* of this: one node that does not answer */
#define DD_FAILOVER_MIN_MS 20  /* ... where many did not */
#define DD_FAILOVER_SHARE  4u  /* each has this part of what is left: ten fit in */
/* the node above a node in the tree is (id - 1) / this. At the wire-up each gives its node infos to so
 * many; who has lost its parent asks the one above first: one that is asked by so few answers within
 * milliseconds, and two steps go up from 272 nodes */
#define DD_TREE_CHILDREN 16u
/* the same event (full, refused) is told again at most so often */
#define DD_NOTE_MS 60000
/* libfabric looks for its providers, 0.15 s of work, of which a busy machine may give a twentieth
 * at a time; within DD_READY_MS */
#define DD_FABRIC_MS 8000
#define DD_FENCE_MS  30000 /* PMIx fence of the wire-up; stdio: until all have said `card` */
/* from the line `gather` until all ddictds have the node infos of all; within DD_READY_MS, with which
 * it moves: the sentence of the node that knows why comes before the starter's */
#define DD_GATHER_MS 8000
/* a part of it: who cannot reach another node says so this much earlier than that one misses it, and
 * who waits for another node's verdict waits this much longer */
#define DD_GATHER_PART   8
#define DD_S3_CONNECT_MS 10000 /* ddict load from S3: until a connection stands */
/* without a byte of an answer; then it is tried again. $DDICT_S3_STALL */
#define DD_S3_STALL_MS 30000
#define DD_S3_ATTEMPTS 5 /* of one request. As the AWS tools */
/* before the second attempt; twice as long before each further one */
#define DD_S3_PAUSE_MS     200
#define DD_S3_PAUSE_MAX_MS 20000

#endif
