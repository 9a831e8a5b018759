/* SPDX-License-Identifier: Apache-2.0 */
/* lives.h - a manager that dies is started again over what outlives it (PROTOCOL 12). */
#ifndef DDICT_SUPERVISOR_LIVES_H
#define DDICT_SUPERVISOR_LIVES_H

#include "supervisor.h"

/* It died; status: of waitpid(). False: its death is the end of the dictionary. mgr->death says how
 * it died. */
bool manager_return(struct local_manager *mgr, int status);
void manager_returned(struct local_manager *mgr); /* its next life serves */

#endif
