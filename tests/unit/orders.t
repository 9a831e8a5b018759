#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LAYOUT 14 names each function of the store and of the lanes that has an atomic access, and none that has no such; its partners exist.
src=${srcdir-.} bad=0

# functions FILES - "FOLDER FUNCTION" of each atomic access
functions() {
    awk 'FNR == 1 { name = "?" }
        /^[A-Za-z_].*[a-z_0-9]\(/ && !/;[ \t]*(\/\*.*)?$/ {
            line = $0
            sub(/__attribute__\(\([^()]*(\([^()]*\))?\)\)/, "", line)
            match(line, /[a-z_0-9]+\(/)
            name = substr(line, RSTART, RLENGTH - 1)
        }
        /__atomic_[a-z]/ { n = split(FILENAME, part, "/"); print part[n - 1], name }' "$@" | sort -u
}
rows() { awk '/^## / { in_it = /^## 14/ } in_it && /^\| [a-z]+ \| [a-z_]+[, |]/' "$src/doc/LAYOUT.md" | grep -v '^| folder'; }
told=$(rows | awk -F ' *[|] *' '{ n = split($3, name, ", "); for (i = 1; i <= n; i++) print $2, name[i] }' | sort)
all=$(functions "$src"/runtime/{store,wire,manager}/*.[ch] "$src"/client/lib/*.[ch])

[ "$(wc -l <<<"$told")" -gt 50 ] || { echo "not ok only these functions in LAYOUT 14: $told"; bad=1; }
uniq -d <<<"$told" | grep . && { echo "not ok LAYOUT 14 has these functions twice"; bad=1; }
comm -13 <(echo "$told") <(functions "$src"/runtime/store/*.[ch] "$src"/runtime/wire/lane*.[ch]) | grep . &&
    { echo "not ok these functions have atomic accesses that LAYOUT 14 does not name"; bad=1; }
comm -23 <(echo "$told") <(echo "$all") | grep . && { echo "not ok LAYOUT 14 names these functions, which have no atomic access"; bad=1; }
for name in $(rows | awk -F ' *[|] *' '{ print $5 }' | grep -oE '[a-z_]+\(\)' | tr -d '()' | sort -u); do
    grep -qE "^[A-Za-z_].*\b$name\(" "$src"/runtime/{store,wire,manager}/*.[ch] "$src"/client/lib/*.[ch] ||
        { echo "not ok LAYOUT 14 names $name(), which does not exist"; bad=1; }
done
[ $bad = 0 ] && echo "ok LAYOUT 14 has all atomic accesses"
exit $bad
