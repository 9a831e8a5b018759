# SPDX-License-Identifier: Apache-2.0
"""Figures as text: lines for the terminal, and a table in Markdown."""
from statistics import median

import goals


def number(value, unit=""):
    if value is None:
        return "-"
    text = "%.0f" % value if abs(value) >= 1000 else "%.3g" % value
    if abs(value) >= 10000:
        text = "{:,.0f}".format(value)
    return text + (" " + unit if unit not in ("", "×") else unit)


def bound_text(direction, bound, unit):
    return "-" if direction is None else ("≥ " if direction == "least" else "≤ ") + number(bound, unit)


def word(reached):
    return {True: "yes", False: "NO", None: "-"}[reached]


def side_text(side):
    text = "%s ns (%s of processor)" % (number(median(side["ns"])), number(median(side["cpu"])))
    if "p50" in side:
        text += " (p50 %s, p99 %s)" % (number(median(side["p50"])), number(median(side["p99"])))
    return text


def lines(name, row):
    yield "%s: %s" % (name, goals.ROWS[name][0])
    if "failed" in row:
        yield "    failed: " + row["failed"]
        return
    if row["sides"]:
        yield "    an operation: " + ", ".join("%s %s" % (side, side_text(f)) for side, f in row["sides"].items())
    for key, value in row["notes"].items():
        yield "    %s: %s" % (key, number(value))
    for r in goals.results(name, row):
        yield "    %-46s %12s  goal %-14s %-4s (%s .. %s; fastest of each %s)" % (r.text, number(r.mid, r.unit), bound_text(r.direction, r.bound, r.unit), word(r.reached),
                                                                            number(r.low), number(r.high), number(r.best))


def markdown(result):
    out = ["| work | measured against | goal | median | spread | fastest of each | reached |", "|---|---|---|---|---|---|---|"]
    for name, row in result["rows"].items():
        what = goals.ROWS[name][0]
        if "failed" in row:
            out.append("| %s | | | failed: %s | | | |" % (what, row["failed"]))
            continue
        for r in goals.results(name, row):
            out.append("| %s | %s | %s | %s | %s – %s | %s | %s |" % (what, r.text, bound_text(r.direction, r.bound, r.unit), number(r.mid, r.unit), number(r.low),
                                                                number(r.high), number(r.best, r.unit), word(r.reached)))
            what = ""
    return "\n".join(out) + "\n"
