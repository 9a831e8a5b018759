#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is said of an option stands in its row of runtime/launch/option_rows.h, and its name nowhere else in the code but where it is
# listed here. Who needs the name elsewhere takes it from the row. And the check of that can fail.
src=${srcdir-.} bad=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
uses_max=14 # lines with OPT_X of one option
fail() { echo "not ok $*"; bad=1; }

# names ROOT - on a line "FILE OPTION..." once for each line of code in which a quoted word is the option's name, the option, its
# variable or its word of ddict.conf, or --ddict-NAME stands. Bare names count only where options are read: "name" is much else, too.
# And "uses OPTION LINES": lines with its enum.
names() {
    cd "$1" && find plugin runtime client -name '*.[ch]' ! -name option_rows.h | LC_ALL=C sort | xargs awk '
    FILENAME == "runtime/launch/option_rows.h" {
        if (match($0, /^ROW\([A-Z_]+, "[^"]+"/)) {
            row = substr($0, RSTART, RLENGTH); gsub(/^ROW\(|"$/, "", row)
            split(row, part, ", \""); row = part[2]
            of["OPT_" part[1]] = of["\"--" row "\""] = of["--ddict-" row] = of["\"" row "\""] = row
        }
        if (match($0, /\.variable = "[A-Z_]+"/)) of[substr($0, RSTART + 12, RLENGTH - 12)] = row
        if (match($0, /\.word = "[a-z_]+"/)) of[substr($0, RSTART + 8, RLENGTH - 8)] = row
        next
    }
    /^ *\*/ { next }
    {
        sub(/\/\*.*/, "")
        here = FILENAME ~ /^plugin|^runtime\/launch|^runtime\/supervisor\/options/
        for (rest = $0; match(rest, /"[-A-Za-z_]+["=]|--ddict-[a-z-]+|OPT_[A-Z_]+/); rest = substr(rest, RSTART + RLENGTH)) {
            token = substr(rest, RSTART, RLENGTH); sub(/=$/, "\"", token)
            if (!(token in of) || (!here && token !~ /DDICT_|--ddict|^OPT_/) || seen[row = of[token], token ~ /^OPT_/, FNR, FILENAME]++) continue
            if (token ~ /^OPT_/) uses[row]++; else print FILENAME, row
        }
    }
    END { for (row in uses) print "uses", row, uses[row] }' runtime/launch/option_rows.h | LC_ALL=C sort |
        awk '/^uses / { printf "%s", end; end = ""; print; next } $1 != file { printf "%s%s", end, file = $1; end = "\n" } { printf " %s", $2 } END { printf "%s", end }'
}

cat >"$dir/allowed" <<'END'
client/cmd/save_work.c mem spill
client/cmd/socket.c mem
client/lib/attach.c mem mem
client/lib/window.c working-set
client/rt/runtime.c managers
client/save/manifest.c save
plugin/batch_task.c script
plugin/ddict_up.c name script srun
plugin/options.c component component component jobid jobid managers mem scope site step
plugin/slurmd_log.c managers mem name
plugin/srun.c jobid scope scope srun step
plugin/task.c component jobid
runtime/launch/load_spec.c load load restore save save
runtime/launch/loading.c chdir ddict ddict ddict load name name name nodes restore restore restore
runtime/launch/option_table.c site
runtime/launch/options.c step
runtime/launch/plan.c ddict ddictd ddictd local srun version
runtime/launch/reason.c srun
runtime/launch/relay.c jobid jobid jobid name srun
runtime/launch/starter.c ddictd ddictd step
runtime/launch/startup_lines.c summary
runtime/launch/step.c node step
runtime/launch/step_argv.c chdir ddict jobid mem mpi nodes
runtime/launch/tasks.c jobid local srun
runtime/launch/up.c drain name summary
runtime/manager/answers.c mem
END
(names "$src") >"$dir/all" || exit 1
grep -v '^uses ' "$dir/all" >"$dir/now"
[ "$(grep -c '^uses ' "$dir/all")" -gt 40 ] || fail "only these options are used: $(grep '^uses ' "$dir/all")"
diff "$dir/allowed" "$dir/now" >"$dir/diff" ||
    fail "names of options in other places than listed in tests/unit/options.t (> is new): $(cat "$dir/diff")"
while read -r _ row n; do
    [ "$n" -le $uses_max ] || fail "$n lines use the option $row, more than $uses_max"
done < <(grep '^uses ' "$dir/all")
[ $bad = 0 ] && echo "ok no_option_has_a_copy_of_its_name"

# mutant FILE LINE - with that line more the list differs
mkdir "$dir/src" && cp -r "$src/plugin" "$src/runtime" "$src/client" "$dir/src/" && chmod -R u+w "$dir/src" || exit 1
mutant() {
    cp "$dir/src/$1" "$dir/saved" && echo "$2" >>"$dir/src/$1" || exit 1
    if (names "$dir/src") | cmp -s - "$dir/all"; then fail "$1 may have: $2"; else echo "ok $1 must not have: $2"; fi
    cp "$dir/saved" "$dir/src/$1"
}
mutant plugin/srun.c 'static const char *size = "mem";'
mutant runtime/launch/plan.c 'add("--gpu-bind=%s", "--gpu-bind");'
mutant runtime/launch/site.c 'if (strcmp(word, "max_mem") == 0)'
mutant client/cmd/main.c 'getenv("DDICT_SPILL");'
mutant runtime/manager/faults.c 'puts("see --ddict-wire");'
exit $bad
