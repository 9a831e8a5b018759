# SPDX-License-Identifier: Apache-2.0
"""Run by test_persist: a program of C's calls that puts at checkpoints 0 .. 6, goes back to one, and says what it sees."""
import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])
d = ctypes.c_void_p()
lib.ddict_errmsg.restype = ctypes.c_char_p


def do(name, *args):
    rc = getattr(lib, name)(*args)
    if rc < 0:
        sys.exit(f"{name}: {lib.ddict_errmsg().decode()}")
    return rc


def number(key):
    buf, n = ctypes.create_string_buffer(8), ctypes.c_size_t()
    rc = lib.ddict_get(d, key, ctypes.c_size_t(len(key)), buf, ctypes.c_size_t(8), ctypes.byref(n), None, 0, -1)
    return int(buf.raw[:n.value]) if rc == 0 else None


def put(key, text):
    do("ddict_put", d, key, ctypes.c_size_t(len(key)), text, ctypes.c_size_t(len(text)), 0, -1)


do("ddict_attach", ctypes.byref(d), None, -1)
for i in range(7):
    do("ddict_set_checkpoint_id", d, ctypes.c_uint64(i))
    put(b"sn", b"%d" % i)
    put(b"sonly/%d" % i, b"%d" % i)
do("ddict_restore", d, ctypes.c_uint64(2), -1)
print(lib.ddict_checkpoint_id(d), number(b"sn"), [number(b"sonly/%d" % i) for i in range(7)])
do("ddict_checkpoint", d)
put(b"sn", b"33")
do("ddict_persist", d, -1)
print(number(b"sn"), lib.ddict_checkpoint_id(d))
