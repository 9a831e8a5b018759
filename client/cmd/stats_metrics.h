/* SPDX-License-Identifier: Apache-2.0 */
/* stats_metrics.h - the figures of the managers as OpenMetrics. */
#ifndef DDICT_CMD_STATS_METRICS_H
#define DDICT_CMD_STATS_METRICS_H

#include <jansson.h>

/*
 * Print the objects of the list all (stats_object()) on stdout: a metric ddict_NAME for each number,
 * with the manager and its node as labels; for those within an object, such as the latencies, one for
 * each of its names, with that as the label `of`. Gives -ENOMEM or 0.
 */
int stats_metrics_print(const json_t *all);

#endif
