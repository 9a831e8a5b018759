# SPDX-License-Identifier: Apache-2.0
# libclient.la: all of libddict, for its unit tests too, which see its insides. libreader.la brings libbase.la with it.
noinst_LTLIBRARIES += libclient.la
libclient_la_SOURCES = client/lib/async.c client/lib/async.h client/lib/async_lane.c \
  client/lib/async_order.c client/lib/async_submit.c client/lib/atomic.c client/lib/attach.c client/lib/broadcast.c \
  client/lib/cached_read.c client/lib/cached_read.h client/lib/client_lane.h \
  client/lib/client_lane_inside.h client/lib/fork.c client/lib/freeze.c client/lib/alive.c client/lib/get.c \
  client/lib/get_many.c client/lib/handle.h client/lib/iter.c \
  client/lib/follow.c client/lib/follow_fetch.c client/lib/follow_pieces.c client/lib/lane_life.c client/lib/lane_recv.c \
  client/lib/lane_send.c client/lib/lane_wait.c client/lib/lease.c client/lib/lease.h \
  client/lib/local_read.c client/lib/local_read.h client/lib/near.c client/lib/near.h \
  client/lib/near_change.c client/lib/near_link.h client/lib/place.c client/lib/probe.h \
  client/lib/probe_ask.c client/lib/publish.c client/lib/publish.h client/lib/publish_clean.c \
  client/lib/publish_items.c client/lib/put.c client/lib/put_many.c client/lib/queue.c \
  client/lib/request.c client/lib/request.h client/lib/request_error.c client/lib/session.c \
  client/lib/persist.c client/lib/persist.h client/lib/program.c client/lib/program.h client/lib/stats_public.c client/lib/stats_public.h client/lib/subscribe.c client/lib/up.c \
  client/lib/up.h client/lib/up_child.c client/lib/up_child.h client/lib/typed.c \
  client/lib/typed.h client/lib/typed_array.c client/lib/typed_key.c client/lib/typed_value.c \
  client/lib/view.h client/lib/window.c client/lib/window.h client/lib/window_atomic.c client/lib/window_call.c \
  client/lib/window_change.c client/lib/window_change.h client/lib/window_index.c \
  client/lib/window_index.h client/lib/window_list.c client/lib/window_list.h \
  client/lib/window_many.c client/lib/window_read.c client/lib/window_wait.c client/lib/window_wait.h \
  client/lib/window_ask.c client/lib/window_ask.h client/lib/window_put_many.c
libclient_la_SOURCES += client/lib/unpublish.c
libclient_la_SOURCES += client/lib/window_sweep.c client/lib/window_sweep.h
libclient_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS)
libclient_la_LIBADD = libwireclient.la libreader.la $(JANSSON_LIBS) -ldl

lib_LTLIBRARIES += libddict.la
include_HEADERS += client/ddict.h client/ddict_values.h client/ddict.hpp client/ddict_values.hpp
include_HEADERS += client/ddict_sync.hpp
# The same procedures for each type and rank, written once.
fortran_sources = client/fortran/expand.awk client/fortran/ddict.f90.in
nodist_include_HEADERS = client/fortran/ddict.f90
client/fortran/ddict.f90: $(fortran_sources)
	$(AM_V_GEN)$(MKDIR_P) client/fortran && \
	  $(AWK) -f $(srcdir)/client/fortran/expand.awk $(srcdir)/client/fortran/ddict.f90.in >$@.part && \
	  mv $@.part $@
CLEANFILES += client/fortran/ddict.f90
EXTRA_DIST += $(fortran_sources)
libddict_la_SOURCES =
# nodelete: threads end and processes fork through our handlers after a dlclose() too.
libddict_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^ddict_' \
  -Wl,-z,nodelete
libddict_la_LIBADD = libclient.la
