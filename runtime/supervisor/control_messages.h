/* SPDX-License-Identifier: Apache-2.0 */
/* control_messages.h - the messages of other ddictds. */
#ifndef DDICT_SUPERVISOR_CONTROL_MESSAGES_H
#define DDICT_SUPERVISOR_CONTROL_MESSAGES_H

#include "control.h"

/* For control_start(). */
control_heard control_message_heard;

#endif
