# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += ddictd
ddictd_SOURCES = runtime/manager/main.c runtime/manager/supervisor.h runtime/manager/options.c runtime/manager/options.h \
  runtime/manager/wireup.c runtime/manager/card.c runtime/manager/shards.c runtime/manager/supmsg.c runtime/manager/supmsg.h \
  runtime/manager/clients.c runtime/manager/holds.c runtime/manager/board.c runtime/manager/control.c runtime/manager/ending.c \
  runtime/manager/report.c runtime/manager/inputs.c runtime/manager/say.c \
  runtime/manager/manager.c runtime/manager/manager.h runtime/manager/asker.c runtime/manager/requests.c runtime/manager/puts.c \
  runtime/manager/gives.c runtime/manager/waiters.c runtime/manager/lanes.c runtime/manager/inbound.c runtime/manager/peers.c \
  runtime/manager/forward.c runtime/manager/transit.c runtime/manager/figures.c runtime/manager/timers.c runtime/manager/timers.h \
  runtime/manager/faults.c runtime/manager/faults.h
ddictd_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) $(XXHASH_CFLAGS)
ddictd_LDADD = libstore.la libwire.la libplace.la libbase.la $(SODIUM_LIBS)
