/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_order.h - whether MPI's library in this process wants to be the first that uses PMIx. Open
 * MPI 5 asks PMIx for its name only where nobody initialised PMIx before it; else it has none, and
 * MPI_Init() ends the process.
 */
#ifndef DDICT_PLACE_MPI_ORDER_H
#define DDICT_PLACE_MPI_ORDER_H

/* 1: a library of Open MPI 5 or later is loaded, and MPI is not initialised; 0: no, or MPI's
 * library is not loaded (yet) */
int mpi_will_fail(void);

#endif
