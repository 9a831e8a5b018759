# SPDX-License-Identifier: Apache-2.0
# One manager: a process that ddictd forks. Compiled once, for ddictd (runtime/supervisor) and for tests of a whole manager.
noinst_LIBRARIES += libmanager.a
libmanager_a_SOURCES = runtime/manager/alive.c runtime/manager/alive.h \
  runtime/manager/answers.c runtime/manager/answers.h runtime/manager/aside.c \
  runtime/manager/aside.h runtime/manager/backlog.c runtime/manager/backlog.h \
  runtime/manager/cache.c runtime/manager/cache.h \
  runtime/manager/carrier.h runtime/manager/faults.c runtime/manager/faults.h \
  runtime/manager/forward.c runtime/manager/forward.h \
  runtime/manager/forward_end.c runtime/manager/forward_end.h \
  runtime/manager/forward_followers.c runtime/manager/forward_followers.h \
  runtime/manager/forward_lost.c runtime/manager/forward_lost.h \
  runtime/manager/forward_put.c runtime/manager/forward_put.h \
  runtime/manager/forward_reply.c runtime/manager/forward_reply.h \
  runtime/manager/forward_route.c runtime/manager/forward_route.h \
  runtime/manager/forward_send.c runtime/manager/forward_send.h \
  runtime/manager/forward_table.c runtime/manager/forward_table.h \
  runtime/manager/freeze.c runtime/manager/freeze.h \
  runtime/manager/knows.c runtime/manager/knows.h runtime/manager/lane_client.h \
  runtime/manager/lane_memory.c runtime/manager/lane_memory.h \
  runtime/manager/lane_placed.c runtime/manager/lane_placed.h \
  runtime/manager/ledger.c runtime/manager/ledger.h \
  runtime/manager/results.c runtime/manager/results.h \
  runtime/manager/rules.c runtime/manager/rules.h \
  runtime/manager/lane_answers.c runtime/manager/lane_answers.h \
  runtime/manager/lane_clients.c runtime/manager/lane_clients.h \
  runtime/manager/lanes.c runtime/manager/lanes.h \
  runtime/manager/main_loop.c runtime/manager/main_loop.h runtime/manager/manager.c \
  runtime/manager/manager.h runtime/manager/numa_bind.c runtime/manager/numa_bind.h \
  runtime/manager/parked.c runtime/manager/parked.h runtime/manager/peer_address.c \
  runtime/manager/peer_address.h runtime/manager/peer_client.c \
  runtime/manager/pending.c runtime/manager/pending.h \
  runtime/manager/peer_client.h runtime/manager/peer_server.c runtime/manager/peer_server.h \
  runtime/manager/prefetch.c runtime/manager/prefetch.h runtime/manager/probe.c \
  runtime/manager/probe.h runtime/manager/queues.c runtime/manager/queues.h \
  runtime/manager/record_rate.c runtime/manager/record_rate.h \
  runtime/manager/replica_backup.c runtime/manager/replica_backup.h \
  runtime/manager/recovery.c runtime/manager/recovery.h runtime/manager/requester.c \
  runtime/manager/replica_copy.c runtime/manager/replica_copy.h \
  runtime/manager/replica_flight.c runtime/manager/replica_flight.h \
  runtime/manager/replica_primary.c runtime/manager/replica_primary.h \
  runtime/manager/requester.h runtime/manager/requester_end.c runtime/manager/requester_end.h \
  runtime/manager/anew.c runtime/manager/anew.h \
  runtime/manager/requests.c runtime/manager/requests.h runtime/manager/rma_export.c \
  runtime/manager/rma_export.h runtime/manager/rma_read.c runtime/manager/rma_read.h \
  runtime/manager/rooms.c runtime/manager/rooms.h runtime/manager/stats.c runtime/manager/stats.h \
  runtime/manager/stream_in.c runtime/manager/stream_in.h runtime/manager/stream_out.c \
  runtime/manager/stream_out.h runtime/manager/subscriptions.c runtime/manager/subscriptions.h \
  runtime/manager/supmsg.c runtime/manager/supmsg.h runtime/manager/transit.c \
  runtime/manager/transit.h runtime/manager/waiters.c runtime/manager/waiters.h
libmanager_a_CPPFLAGS = $(ddictd_CPPFLAGS)
