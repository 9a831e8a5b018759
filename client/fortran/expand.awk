# SPDX-License-Identifier: Apache-2.0
# expand.awk - write the lines between "@for NAME... | VALUE... | VALUE..." and "@end" once for each
# group of values, with $NAME replaced by its value. Groups have no blanks within a value, and may
# stand within each other.
{ line[NR] = $0 }
END { expand(1, NR) }

function block_end(at,    depth) {
    for (depth = 1; depth > 0 && at < NR; )
        depth += line[++at] ~ /^@for / ? 1 : line[at] == "@end" ? -1 : 0
    if (depth > 0)
        exit 1
    return at
}

function expand(at, last,    end, groups, group, g, names, name, values, i) {
    for (; at <= last; at++) {
        if (line[at] !~ /^@for /) {
            line_write(line[at])
            continue
        }
        end = block_end(at)
        groups = split(substr(line[at], 6), group, / [|] /)
        names = split(group[1], name, " ")
        for (g = 2; g <= groups; g++) {
            if (split(group[g], values, " ") != names)
                exit 1
            for (i = 1; i <= names; i++)
                value[name[i]] = values[i]
            expand(at + 1, end - 1)
        }
        at = end
    }
}

function line_write(text,    name) {
    for (name in value)
        gsub("[$]" name, value[name], text)
    print text
}
