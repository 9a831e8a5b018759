# SPDX-License-Identifier: Apache-2.0
"""terminal.py FIFO CMD... - CMD on a terminal of its own. Ends with CMD's exit code.

A line "C" in FIFO types ^C; "CC" types two, the second one when a line has answered the first.
"""
import os
import pty
import select
import sys

pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
keys = os.open(sys.argv[1], os.O_RDWR)
again = b""
while True:
    ready, _, _ = select.select([master, keys], [], [])
    if keys in ready:
        for word in os.read(keys, 100).decode().split():
            os.write(master, bytes([ord(word[0]) & 31]))
            again = bytes(ord(k) & 31 for k in word[1:])
    if master in ready:
        try:
            text = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not text:
            break
        os.write(1, text.replace(b"\r\n", b"\n"))
        if again and b"\n" in text:
            os.write(master, again)
            again = b""
status = os.waitpid(pid, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status) & 255)
