# SPDX-License-Identifier: Apache-2.0
# hostile_lines.sh - a test for each variable of hostile.env. Sourced, after lib.sh, by the tests of srun's environment.

# hostile NAME CMD... - passes the lines of hostile.sh on
hostile() {
    local name=$1 n
    shift
    sub "$@" >"$out" 2>&1 </dev/null
    sed "s/^\(ok\|not ok\) /\1 ${name}_/" "$out"
    ! grep -q '^not ok' "$out" || bad=1
    n=$(sed -n 's/^\([0-9]*\) tested.*/\1/p' "$out")
    if [ "${n:-0}" -ge 80 ]; then ok "${name}_tests_at_least_80_variables"; else not_ok "${name}_tests_at_least_80_variables"; fi
}
