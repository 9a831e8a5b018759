/* SPDX-License-Identifier: Apache-2.0 */
/* base_text.c - what is shown is printable, and a line stays one. */
#include "unit.h"
#include <base/error.h>
#include <base/text.h>

#include <string.h>

START_TEST(what_is_not_printable_becomes_a_question_mark) {
    static const char *const rows[][2] = {
        {"", ""},
        {"a b~", "a b~"},
        {"a\nb\r\tc", "a?b??c"},
        {"\x1b[2J", "?[2J"},
        {"x\x7f", "x?"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "??31m"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xe9t\xe9", "?t?"},
        {"\xe2\x82", "??"},
        {"\xc0\x8a", "??"},
        {"\xed\xa0\x80", "???"},
        {"\xf4\x90\x80\x80", "????"}};
    char text[32];
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        strcpy(text, rows[i][0]);
        ck_assert_str_eq(text_plain(text), rows[i][1]);
    }
}
END_TEST

START_TEST(a_sentence_is_one_line) {
    dd_error(-1, "%s: no such thing", "a\nddict1 ready");
    ck_assert_str_eq(dd_errmsg(), "a?ddict1 ready: no such thing");
}
END_TEST

UNIT_MAIN("base_text", what_is_not_printable_becomes_a_question_mark, a_sentence_is_one_line)
