#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Out of memory, in a task and in the dictionary, and jobs that are suspended: only who lacks memory gets an error, and a
# suspended job goes on as if nothing had been.
slots=9
. "$(dirname "$0")/ends.sh"
do="exec python3 $tests/ends.py"
for scope in step batch; do
    row "suspended for 5 s" $scope plain=no task="$do work 8" act='held 5' rc=0 state='COMPLETED 0:0' within=25 said='^rank 1: no error'
    row "out of memory in a task" $scope task="$do eat" rc='[1-9][0-9]*' state='(FAILED|OUT_OF_MEMORY) .*' said='[Oo]ut of [Mm]emory|oom'
    row "out of memory in the dictionary" $scope plain=no task="$do full" rc=4 state='FAILED 4:0' within=20 \
        said='^rank 0: [A-Za-z]*: .*manager [01] on .*n[12].* of .*'
done
rows_end "nothing_is_left_of_all_of_them"
ends_finish
