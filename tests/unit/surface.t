#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each test that doc/dragon-surface.md and doc/workflows.md name is there, and the counts of rows are those of the rows.
src=${srcdir-.} bad=0
fail() { echo "not ok $*"; bad=1; }

# named TEXT - what stands between backticks and is a test: FILE or FILE:NAME
named() { grep -oE '`[^` ]+`' <<<"$1" | tr -d '`' | grep -E '\.(t|c|py|sh)(:|$)' | sort -u; }
# is_there FOLDER TEST - FILE is below the folder, if it does not begin with tests/; NAME stands in it, of a Slurm test perhaps behind a prefix
is_there() {
    local file=${2%%:*} name=
    [ "$2" = "$file" ] || name=${2#*:}
    [ "${file#tests/}" != "$file" ] || file=$1/$file
    [ -f "$src/$file" ] || { fail "there is no $file"; return; }
    [ -z "$name" ] || grep -qE "(^|[^a-zA-Z0-9])$name([^a-zA-Z0-9_]|\$)" "$src/$file" || fail "$file has no test $name"
}

surface=$src/doc/dragon-surface.md workflows=$src/doc/workflows.md
n=0
for test in $(named "$(cat "$surface")" | grep -vx 'tests/unit/surface.t'); do is_there tests "$test"; n=$((n + 1)); done
for test in $(named "$(awk -F'|' '/^\|/ { print $(NF - 1) }' "$workflows")"); do is_there tests/slurm "$test"; n=$((n + 1)); done
[ $n -gt 100 ] || fail "only $n tests were found in the documents"

# counted - "section rows full part absent n/a" of the rows of a section, and of all
counted() {
    awk -F' *[|] *' '/^## / { section = substr($0, 4); next } !/^\|/ || /^\|-/ || /^\| Dragon / || section == "" { next }
        { row = $0; gsub(/\\\|/, "", row); split(row, f, / *\| */); word = f[4]; sub(/:.*/, "", word)
          if (word !~ /^(full|part|absent|n\/a)$/) print "not ok a row that is neither: " $0
          if (word == "full" && f[5] == "") print "not ok a row without a test: " $0
          if (!(section in rows)) order[++sections] = section
          rows[section]++; all++; count[section, word]++; total[word]++ }
        END { for (i = 1; i <= sections; i++) { s = order[i]; print s, rows[s], count[s, "full"] + 0, count[s, "part"] + 0, count[s, "absent"] + 0, count[s, "n/a"] + 0 }
              print "all", all, total["full"] + 0, total["part"] + 0, total["absent"] + 0, total["n/a"] + 0 }' "$surface"
}
said() { awk -F' *[|] *' '/^\| section / { in_it = 1; next } !/^\|/ { in_it = 0 } in_it && !/^\|-/ { print $2, $3, $4, $5, $6, $7 }' "$surface"; }
counted | grep '^not ok' && bad=1
diff <(said) <(counted | grep -v '^not ok') || fail "dragon-surface.md counts (<) other rows than it has (>)"
[ "$(counted | awk '/^all / { print ($2 > 100) }')" = 1 ] || fail "rows of dragon-surface.md were not found"
[ $bad = 0 ] && echo "ok each test that the documents name is there"
exit $bad
