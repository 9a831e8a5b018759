/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_order.h - which GPU for which rank, given the distances: an assignment problem, solved
 * exactly. Pure arithmetic, the same on every rank.
 *
 * distance[r * gpus + g] is the distance of rank r (of the node) from GPU g; 0 <= distance < 2^24.
 * Of several solutions with the least total distance, the one that leaves GPUs in their order is
 * taken: if nothing is known of the machine, rank r has GPU r.
 */
#ifndef DDICT_PLACE_GPU_ORDER_H
#define DDICT_PLACE_GPU_ORDER_H

#include <stdint.h>

#define GPU_RANKS_MAX 512 /* ranks of a node; the work grows with their cube, 50 ms at 512 */

/*
 * One order for all ranks: order[r % gpus] is the GPU of rank r, so that the total distance is
 * least. GPUs that no rank has come last, as they stood. 0; -ENOMEM; -EINVAL: gpus < 1 or > 64,
 * ranks < 1 or > GPU_RANKS_MAX.
 */
int gpu_order_closest(int ranks, int gpus, const int64_t *distance, int *order);
/*
 * A GPU for each rank: own[r], each GPU for ranks / gpus ranks, rounded down or up, and the total
 * distance least. As above. Up to as many ranks as GPUs both give the same; beyond, this one is
 * free to be closer.
 */
int gpu_order_own(int ranks, int gpus, const int64_t *distance, int *own);
/* The GPU of this rank first, the others after it as they stand, around the end to the beginning.
 * */
void gpu_order_rotate(int gpus, int own, int *order);

#endif
