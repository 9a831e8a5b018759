# SPDX-License-Identifier: Apache-2.0
# What the programs share: the command, ddict-load, and saving.
client_common_sources = client/common/columns.c client/common/columns.h \
  client/common/folder_below.c client/common/folder_below.h client/common/key_text.c \
  client/common/key_text.h client/common/lost_keys.c client/common/lost_keys.h client/common/npy.c client/common/npy.h client/common/stats_table.c \
  client/common/stats_table.h
