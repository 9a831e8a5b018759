#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The lines for a shell in README.md, as they are printed, in a folder that has what they name. A line that is neither run here nor named with the reason why it cannot be
# fails the test. (Blocks of Python: tests/python/readme.t.)
. "$(dirname "$0")/lib.sh"
need_nodes 2
limit=120
readme=$tests/../../README.md
here=$PWD/readme lines=$out.lines taken=$out.taken
trap 'rm -rf "$here" "$out" "$out".*' EXIT
awk '/^```/ { code = !code } !code && sub(/^    /, "") { print }' "$readme" >"$lines"
: >"$taken"

# line BEGIN - the printed line that begins so, in $line
line() {
    line=$(awk -v begin="$1" 'index($0, begin) == 1' "$lines")
    [ "$(grep -c . <<<"$line")" = 1 ] || { echo "not ok README has one line that begins with: $1"; bad=1; line=false; }
    printf '%s\n' "$line" >>"$taken"
}
# runs SENTENCE BEGIN - that line succeeds
runs() { line "$2"; t "$1" sub bash -c "cd '$here' && $line"; }
not_run() { # BEGIN WHY
    line "$1"
    echo "# not run, $2: $line"
}

rm -rf "$here"
mkdir "$here" "$here/SOURCE" "$here/bin" && cd "$here" || exit 1
cat >train.py <<'END'
import os
import ddict

d = ddict.attach()
before = d.get("steps", 0)
if os.environ.get("SLURM_PROCID", "0") == "0":
    d["steps"] = before + 1
    d["results/loss.txt"] = "0.5"
print("trained", before, "images", len(list(d.keys(prefix="images/"))))
END
cat >load.py <<'END'
import ddict

ddict.attach()["steps"] = 41
END
awk '/^```python/ && !n++ { p = 1; next } /^```/ { p = 0 } p' "$readme" >hello.py
printf '#!/bin/sh\nsrun python3 train.py\n' >job.sh
mkdir images && echo one >images/1.txt && echo two >images/2.txt && tar -cf images.tar images
echo three >SOURCE/3.txt
printf '#!/bin/sh\ntest -n "$DDICT_SOCKET" && ddict get KEY\n' >bin/CMD
chmod +x bin/CMD job.sh && chown -R "$(stat -c %u:%g ..)" "$here"

line '$ srun -N2 --ntasks-per-node=2 '
printed=$(awk '/^\$ srun -N2 / { in_it = 1; next } in_it && !/^[0-9] / { exit } in_it' "$lines")
printf '%s\n' "$printed" >>"$taken"
t the_first_program sub bash -c "cd '$here' && ${line#$ }"
is it_prints_what_is_shown "$(sed -n "s/ ${DEVCLUSTER_ID}n/ n/; /^[0-9] reads/p" "$out" | sort)" "$printed"
runs a_step "srun --ddict-managers=4 "
has its_tasks_have_it '^trained 0 images 0$'
runs a_step_with_data "srun --ddict-mem=3G --ddict-load=images.tar "
has it_is_there_before_the_first_task '^trained 0 images 2$'
# submitted LINES - run on the submit host, and what the jobs said
submitted() {
    sub bash -c "cd '$here' && export SBATCH_WAIT=1; $1"
    local rc=$?
    cat slurm-*.out && rm -f slurm-*.out && return $rc
}
line "sbatch --ddict-managers=4 "
t a_job submitted "$line"
has its_steps_have_it '^trained 0 '
line "sbatch --ddict-mem=2G --ddict-restore="
t a_job_that_is_saved submitted "$line"
has it_began_with_nothing '^trained 0 '
t the_next_job submitted "$line"
has goes_on_from_there '^trained 1 '
runs a_step_whose_results_are_files "srun --ddict-mem=2G --ddict-save=results/:out "
is they_are_there "$(cat out/results/loss.txt)" 0.5
runs a_step_with_two_copies "srun -N2 --no-kill --ddict-mem=2G --ddict-replicas=2 "
has its_tasks_have_it_too '^trained 0 images 0$'
runs a_step_that_reads_again "srun -N2 --no-kill --ddict-mem=3G --ddict-refill "
has its_tasks_have_the_images '^trained 0 images 2$'

runs without_the_plugin "ddict run --managers=2 "
has on_this_machine '^trained 0 '
printf '#!/bin/bash\n%s\n' "$line" >run.sh
t in_a_job submitted "sbatch -N2 run.sh"
has on_its_nodes '^trained 0 '
runs the_tasks_of_a_step "srun -n8 ddict run "
is all_eight "$(grep -c '^trained ' "$out")" 8
script='#!/bin/bash'
for begin in 'eval "$(ddict up ' 'srun python3 load.py' 'srun python3 train.py' 'ddict down'; do
    line "$begin"
    script+=$'\n'$line
done
echo "$script" >up.sh
t a_script_of_these_lines submitted "sbatch -N2 --mem=1G up.sh"
has its_steps_share_one '^trained 41 '

shell=$'#!/bin/bash\nset -e\nPATH=$PATH:$PWD/bin'
while IFS= read -r line; do # up to the description
    printf '%s\n' "$line" >>"$taken"
    words=$(sed 's/   *.*//; s/, /\n/g' <<<"$line")
    case $words in
    *'get KEY'*) words=$'ddict put KEY VALUE\n'$words$'\nddict put KEY VALUE' ;;
    'ddict get --prefix'*) words=$'ddict put P/1 VALUE\n'$words ;;
    'ddict load'*) words+=$'\nddict ls --sets' ;;
    'ddict copy'*) words="ddict up --name=TO --managers=1 --mem=64M && ${words/FROM/\$DDICT_NAME} && ddict down TO" ;;
    'ddict freeze'*) words+=$'\nddict unfreeze' ;;
    'ddict watch'* | 'ddict bench'*) words="timeout 3 $words || [ \$? = 124 ]" ;;
    esac
    shell+=$'\n'$words
done < <(awk 'index($0, "eval \"$(ddict env)\"") == 1 { in_it = 1 } in_it && !/^(eval|ddict) / { exit } in_it' "$lines")
is the_list_of_verbs_was_found "$(grep -c '^ddict ' <<<"$shell")" 19
echo "$shell" >shell.sh
t the_verbs_in_a_shell_of_a_job submitted "sbatch -N2 --ddict-mem=512M shell.sh"
has a_set_is_listed 'SOURCE'
has a_value_is_got '^VALUE'
has the_bench_is_begun 'keys/s'

record=$(ls -t ddict-*.jsonl | head -n 1)
mv "$record" ddict-12.jsonl 2>/dev/null
line '$ ddict report 12'
t a_report sub bash -c "cd '$here' && ${line#$ }"
has says_what_was_asked_for 'asked for: --'
awk '/^\$ ddict report 12/ { in_it = 1 } in_it { print } /^  steps: / { in_it = 0 }' "$lines" >>"$taken" # and what it printed

for begin in "sudo contrib/demo" "sudo contrib/check"; do not_run "$begin" "it is what runs this"; done
line "apt install "
packages=$(grep -A 2 '^apt install' "$lines")
printf '%s\n' "$packages" >>"$taken"
for package in $(tr -d '\\' <<<"${packages#apt install build-essential}"); do # that one is gcc, make and libc6-dev
    grep -qx "build $package" "$tests/../../contrib/packages" || echo "$package"
done >"$out"
is the_packages_are_those_of_the_check "$(cat "$out")" ""
not_run "autoreconf -fi" "contrib/check builds so, elsewhere"
line "optional /opt/ddict/"
home=/var/lib/ddict-devcluster/$DEVCLUSTER_ID
is the_line_of_plugstack "$(awk '/^optional / { print $1, $2 }' "$home/etc/slurm/plugstack.conf")" "${line/\/opt\/ddict/$(cat "$home/etc/prefix")}"
not_run "export PATH=/opt/ddict" "nothing is installed there"
not_run "export PYTHONPATH=/opt/ddict" "nothing is installed there"
not_run "PKG_CONFIG_PATH=/opt/ddict" "nothing is installed there (tests/python/install.t runs pip)"
not_run "srun --ddict-mem=2G apptainer" "Debian has no apptainer (55-ddp.t trains in charliecloud)"

grep . "$lines" | grep -vxFf "$taken" >"$out"
[ ! -s "$out" ]
is every_line_is_run_or_named $? 0
[ ! -s "$out" ] || sed 's/^/# /' "$out"
cd ..
clean_after nothing_is_left
finish
