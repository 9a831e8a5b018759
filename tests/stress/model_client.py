# SPDX-License-Identifier: Apache-2.0
"""A process of a random run (model.py) as model_client.c, by the Python binding: model_client.py LIBRARY FILE WORKER."""
import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback

import ddict

RUN, SETTLE, AUDIT, END = range(4)
PUT, DEL = 1, 2
PENDING, OK, FAILED, UNKNOWN = range(4)
WORKERS, KEYS, QUEUES, KEY_MAX = 6, 96, 3, 65536
ALL = WORKERS * KEYS
HELD, HELD_BYTES, MANY = 48, 12 << 20, 40
HEAD = 64  # of an array of one dimension
TIMEOUT_S = 120
MOST = (0, 20, 0)

try:
    import numpy
except ImportError:
    numpy = None

lib = ctypes.PyDLL(sys.argv[1])
u64, size, unsigned, text = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint, ctypes.c_char_p
for name, result, arguments in (
        ("model_open", ctypes.c_void_p, [text, ctypes.c_int, u64]), ("model_say", ctypes.c_int, [text]), ("model_random", u64, []), ("model_doing", None, [text]),
        ("model_count", None, [text, u64]), ("model_phase", u64, []), ("model_round", u64, []), ("model_reached", None, [u64, u64]), ("model_name", size, [unsigned, ctypes.c_void_p]),
        ("model_id", ctypes.c_int, [text, size]), ("model_len", size, [unsigned, unsigned]), ("model_fill", None, [ctypes.c_void_p, u64, u64, size]), ("model_same", ctypes.c_bool, [text, u64, u64, size]),
        ("model_free", ctypes.c_bool, [unsigned]), ("model_there", ctypes.c_bool, [unsigned]), ("model_begin", u64, [unsigned, ctypes.c_uint32, size, ctypes.c_uint32]),
        ("model_end", ctypes.c_int, [unsigned, u64, ctypes.c_uint32]), ("model_due", ctypes.c_bool, [unsigned]), ("model_settled", ctypes.c_int, [unsigned, text, size, unsigned]),
        ("model_look", u64, [unsigned]), ("model_seen", ctypes.c_int, [unsigned, u64, text, size, unsigned, u64, ctypes.POINTER(u64), text]),
        ("model_seen_len", ctypes.c_int, [unsigned, u64, ctypes.c_bool, size, text]), ("model_list", None, []), ("model_listed", None, [ctypes.c_int]),
        ("model_list_end", ctypes.c_int, [ctypes.c_int, ctypes.c_void_p, text]), ("model_present", u64, []), ("model_sub_before", None, []), ("model_sub_after", None, [ctypes.c_bool]),
        ("model_event", ctypes.c_int, [ctypes.c_int, text, size, text, size, size, unsigned, u64]), ("model_sub_owed", u64, [ctypes.c_void_p, size]),
        ("model_push", u64, [unsigned, ctypes.POINTER(size)]), ("model_pushed", None, [unsigned, u64, ctypes.c_uint32]), ("model_pop", None, [unsigned]),
        ("model_popped", ctypes.c_int, [unsigned, text, size, ctypes.c_bool])):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


class Wrong(Exception):
    """It has been said."""


def found(rc):
    if rc < 0:
        raise Wrong


def wrong(what):
    lib.model_say(what.encode())
    raise Wrong


def below(n):
    return lib.model_random() % n


def one_in(n):
    return below(n) == 0


def count(what, n=1):
    lib.model_count(what.encode(), n)


_name = ctypes.create_string_buffer(KEY_MAX)


def key_of(i):
    return _name.raw[1:n] if (n := lib.model_name(i, _name)) else b""  # Python's key of these bytes: without the letter of its type


KEY = [key_of(i) for i in range(ALL)]
ID = {key: i for i, key in enumerate(KEY)}


def made(i, content, n):
    b = ctypes.create_string_buffer(n or 1)
    lib.model_fill(b, i, content, n)
    return b.raw[:n]


def body(value):
    """Bytes, tag of a value that was read."""
    if numpy is not None and isinstance(value, numpy.ndarray):
        return bytes(HEAD) + value.tobytes(), 7
    return bytes(value), 1 if isinstance(value, bytearray) else 0


class Worker:
    def __init__(self, path, me):
        self.me = me
        lib.model_open(path.encode(), me, 0)
        lib.model_doing(b"attach")
        self.d = ddict.attach(timeout=TIMEOUT_S)
        self.quick = self.hasty()
        self.held, self.held_bytes, self.events, self.frozen = [], 0, None, None
        self.queues = [ddict.Queue(f"q{i}", d=self.d) for i in range(QUEUES)]
        self.subscribe()

    def hasty(self):
        """A handle whose calls run out of time."""
        while True:
            try:
                return ddict.attach(timeout=0.01)
            except ddict.TimeoutError:
                lib.model_phase()

    # --- what is read ---

    def seen(self, i, look, value, how, version=0, whole=None):
        """value: None for absent. whole: its bytes with the head, where they are known."""
        if value is None:
            found(lib.model_seen(i, look, None, 0, 0, 0, None, how.encode()))
            return 0
        data, tag = body(value) if whole is None else whole
        content = u64()
        found(lib.model_seen(i, look, data, len(data), tag, version, ctypes.byref(content), how.encode()))
        return content.value

    def viewed(self, i, look, view, how):
        data = bytes(view)
        content = self.seen(i, look, data, how, view.version, (data, view.tag))
        if one_in(2) and len(view) < HELD_BYTES // 2:
            while len(self.held) == HELD or self.held_bytes + len(view) > HELD_BYTES:
                self.let_go(below(len(self.held)))
            self.held.append((view, i, content))
            self.held_bytes += len(view)
            count("held")
        else:
            view.release()

    def let_go(self, at):
        view, i, content = self.held.pop(at)
        head = HEAD if view.tag == 7 else 0
        data = bytes(view)[head:]
        if not lib.model_same(data, i, content, len(data)):
            wrong(f"a held view of key {i}, operation {content}, {len(view)} bytes, has other bytes now")
        self.held_bytes -= len(view)
        if one_in(2):
            view.release()

    def any(self):
        return below(ALL)

    def handle(self):
        """The handle for a call, and whether it may run out of time."""
        return (self.quick, True) if one_in(16) else (self.d, False)

    def get(self):
        i = self.any()
        d, quick = self.handle()
        look, how = lib.model_look(i), below(6)
        try:
            if how == 0:
                value = d.get(KEY[i])
            elif how == 1:
                value = d.get(KEY[i], wait=True, timeout=below(50) / 1000)
            elif how == 2:
                value = d.get_async(KEY[i]).result(TIMEOUT_S)
            elif how == 3:
                value = d.get(KEY[i], None)
            else:
                value = d[KEY[i]]
        except KeyError:
            value = None
        except ddict.TimeoutError:
            if not quick and how != 1:
                raise
            count("ETIMEDOUT")
            return
        self.seen(i, look, value, "python get %d" % how)
        count("python get")

    def view(self):
        i = self.any()
        d, quick = self.handle()
        look, how = lib.model_look(i), below(3)
        try:
            v = d.view(KEY[i]) if how == 0 else d.view(KEY[i], wait=True, timeout=below(50) / 1000) if how == 1 else d.view_async(KEY[i]).result(TIMEOUT_S)
        except KeyError:
            self.seen(i, look, None, "python view")
        except ddict.TimeoutError:
            if not quick and how != 1:
                raise
            count("ETIMEDOUT")
        else:
            self.viewed(i, look, v, "python view")
        count("python view")

    def contains(self):
        i = self.any()
        look = lib.model_look(i)
        if KEY[i] not in self.d:
            self.seen(i, look, None, "python in")
        count("python in")

    def get_many(self):
        ids = [self.any() for _ in range(1 + below(MANY))]
        looks = [lib.model_look(i) for i in ids]
        keys = [KEY[i] for i in ids]
        how = below(4)
        if how == 0:
            values = self.d.get_many(keys)
        elif how == 1:
            absent = object()
            values = [None if v is absent else v for v in self.d.get_many(keys, absent)]
        elif how == 2:
            try:
                values = self.d.__getitems__(keys)
            except KeyError as e:
                i = ID[e.args[0]]
                self.seen(i, looks[ids.index(i)] if ids.count(i) == 1 else min(l for j, l in zip(ids, looks) if j == i), None, "python getitems")
                return
        else:
            try:
                for i, look, v in zip(ids, looks, self.d.view_async(keys).result(TIMEOUT_S)):
                    self.viewed(i, look, v, "python view_async")
            except KeyError:
                pass
            count("python view_async", len(ids))
            return
        for i, look, value in zip(ids, looks, values):
            self.seen(i, look, value, "python get_many")
        count("python get_many", len(ids))

    def list_keys(self):
        which = below(4)
        lib.model_list()
        worker = -1
        if which == 0:
            worker = below(WORKERS)
            for key in self.d.keys(b"m%d/" % worker):
                if ID[key] // KEYS != worker:
                    wrong(f"a key was listed that has not the prefix m{worker}/")
                lib.model_listed(ID[key])
        elif which == 1:
            looks = [lib.model_look(i) for i in range(ALL)]
            for key, value in self.d.items():
                if key in ID:
                    lib.model_listed(ID[key])
                    self.seen(ID[key], looks[ID[key]], value, "python items")
        else:
            for key in self.d if which == 2 else self.d.keys():
                if isinstance(key, bytes):
                    lib.model_listed(ID[key])
        found(lib.model_list_end(worker, None, b"python list"))
        count("python list")

    def figures(self):
        if not 0 <= len(self.d) <= ALL + QUEUES:
            wrong(f"len {len(self.d)}")
        if any(s["state"] != 0 for s in self.d.stats):
            wrong(f"stats {self.d.stats!r}")
        count("len, stats")

    # --- what is changed ---

    def own(self):
        for _ in range(50):
            i = self.me * KEYS + below(KEYS)
            if lib.model_free(i):
                return i
        return None

    def change(self, i, kind, n, head, call, quick=False, refused=()):
        """call(operation); refused: exceptions by which nothing was done. What call returns, or None; and whether it was done."""
        op = lib.model_begin(i, kind, n, head)
        try:
            result = call(op)
        except (ddict.FullError, ddict.FrozenError) as e:
            count("EFULL" if isinstance(e, ddict.FullError) else "EFROZEN")
            found(lib.model_end(i, op, FAILED))
        except refused:
            found(lib.model_end(i, op, FAILED))
        except ddict.TimeoutError:
            if not quick:
                raise
            count("ETIMEDOUT")
            found(lib.model_end(i, op, UNKNOWN))
        else:
            found(lib.model_end(i, op, FAILED if result is False else OK))
            return result, result is not False
        return None, False

    def put(self):
        i = self.own()
        if i is None:
            return
        there, n, how = lib.model_there(i), lib.model_len(i, 1), below(9)
        d, quick = self.handle()
        key = KEY[i]

        def item(op):
            d[key] = made(i, op, n)

        def buffer(op):
            d[key] = memoryview(made(i, op, n))

        def later(op):
            future = d.put_async(key, made(i, op, n))
            return future.result(TIMEOUT_S)

        def place(op):
            with d.reserve(key, n) as memory:
                memory[:] = made(i, op, n)

        def array(op):
            d[key] = numpy.frombuffer(made(i, op, n), dtype="uint8")

        def place_array(op):
            with d.reserve(key, shape=(n,), dtype="uint8") as memory:
                memory[:] = numpy.frombuffer(made(i, op, n), dtype="uint8")

        def new(op):
            done = d.put_new(key, made(i, op, n))
            if done == there:
                wrong(f"put_new of key {i} gave {done}, and it was {there}")
            return done

        def existing(op):
            done = d.put_existing(key, made(i, op, n))
            if done != there:
                wrong(f"put_existing of key {i} gave {done}, and it was {there}")
            return done

        call = (item, buffer, later, place, array, place_array, new, existing, item)[how]
        head = 0
        if call in (array, place_array):
            if numpy is None:
                return
            n, head = n + 256, HEAD
        self.change(i, PUT, n, head, call, quick)
        count("python put %d" % how)

    def delete(self):
        i = self.own()
        if i is None:
            return
        d, quick = self.handle()
        there = lib.model_there(i)
        look = lib.model_look(i)
        how = below(3)

        def gone(op):
            try:
                if how == 0:
                    del d[KEY[i]]
                    value = True
                else:
                    value = d.pop(KEY[i])
            except KeyError:
                if there:
                    wrong(f"del of key {i} says that it is absent")
                return False
            if not there:
                wrong(f"del of key {i} was done, and it was absent")
            return value

        def none(op):
            value = d.pop(KEY[i], None)
            if (value is not None) != there:
                wrong(f"pop of key {i} gave {type(value)}, and it was {there}")
            return False if value is None else (value,)

        result, done = self.change(i, DEL, 0, 0, none if how == 1 else gone, quick)
        if done and how != 0:
            self.seen(i, look, result[0] if how == 1 else result, "python pop")
        count("python del" if how == 0 else "python pop")

    def put_many(self):
        ids = []
        for _ in range(1 + below(MANY)):
            i = self.own()
            if i is not None and i not in ids:
                ids.append(i)
        pairs, ops, room = {}, {}, 5 << 20
        for i in ids:
            n = lib.model_len(i, 1)
            if n <= room:
                room -= n
                ops[i] = lib.model_begin(i, PUT, n, 0)
                pairs[KEY[i]] = made(i, ops[i], n)
        refused = []
        try:
            if one_in(2):
                self.d.put_many(pairs)
            else:
                self.d.update(pairs)
        except (ddict.FullError, ddict.FrozenError) as e:
            count("EFULL" if isinstance(e, ddict.FullError) else "EFROZEN")
            refused = e.failed
            if e.stored + len(refused) != len(pairs):
                # those not tried: what they hold tells
                refused = None
        for i, op in ops.items():
            found(lib.model_end(i, op, UNKNOWN if refused is None else FAILED if KEY[i] in refused else OK))
        count("python put_many", len(ops))

    def many_futures(self):
        """Puts and gets under way at once."""
        puts, gets = {}, []
        for _ in range(below(12)):
            i = self.own()
            if i is not None and i not in puts:
                n = lib.model_len(i, 4)
                op = lib.model_begin(i, PUT, n, 0)
                puts[i] = op, self.d.put_async(KEY[i], made(i, op, n))
        for _ in range(below(20)):
            i = self.any()
            gets.append((i, lib.model_look(i), self.d.get_async(KEY[i])))
        for i, look, future in gets:
            if one_in(10):
                future.cancel()
                continue
            try:
                value = future.result(TIMEOUT_S)
            except KeyError:
                value = None
            self.seen(i, look, value, "python future")
        for i, (op, future) in puts.items():
            if one_in(10) and future.cancel():
                state = UNKNOWN
            else:
                try:
                    future.result(TIMEOUT_S)
                    state = OK
                except (ddict.FullError, ddict.FrozenError):
                    state = FAILED
            found(lib.model_end(i, op, state))
        count("python futures", len(puts) + len(gets))

    # --- queues ---

    def push(self):
        q = below(QUEUES)
        if self.queues[q].qsize() > 300:
            return
        n = size()
        e = lib.model_push(q, ctypes.byref(n))
        if not e:
            return
        wait = below(100) / 1000
        try:
            self.most(q).put(made(1000 + q, e, n.value), *((True, wait) if one_in(2) else (False,)))
            state = OK
        except (queue.Full, ddict.FullError, ddict.FrozenError):
            state = FAILED
        except ddict.TimeoutError:
            state = UNKNOWN
        lib.model_pushed(q, e, state)
        count("push" if state == OK else "push refused")

    def most(self, q):
        """As another process would open it, which says how many there may be."""
        while True:
            try:
                return ddict.Queue(f"q{q}", MOST[q], self.d)
            except (ddict.FrozenError, ddict.FullError):
                time.sleep(0.01)
                lib.model_phase()
                self.thaw()

    def take(self):
        q = below(QUEUES)
        wait = below(60) / 1000
        lib.model_pop(q)
        value, unknown = None, False
        try:
            value = self.queues[q].get(*((True, wait) if one_in(2) else (False,)))
        except (queue.Empty, ddict.FrozenError):
            pass
        except ddict.TimeoutError:
            unknown = True
        found(lib.model_popped(q, value, len(value or b""), unknown))
        count("pop, empty" if value is None else "pop of queue")

    # --- events ---

    def subscribe(self):
        if self.events is not None:
            self.events.close()
        dels = one_in(2)
        lib.model_sub_before()
        self.events = self.d.subscribe(b"m", dels=dels, values=one_in(2), there=one_in(4))
        lib.model_sub_after(dels)
        count("subscribe")

    def listen(self, n, wait):
        for k in range(n):
            e = self.events.next_event(wait)
            if e is None:
                return k
            if e.kind == "missed":
                count("missed")
                self.subscribe()
            elif e.kind != "clear":
                key = b"b" + e.key
                data, tag = body(e.value) if e._known else (None, 0)
                if tag == 7 and data is not None and len(data) != e.size:
                    wrong(f"event of key {key[:20]}: {len(data)} bytes, and size {e.size}")
                found(lib.model_event(1 if e.kind == "put" else 2, key, len(key), data, len(data or b""), e.size, tag, e.version))
                count("event")
        return n

    # --- the rest ---

    def freeze(self):
        self.d.freeze()
        self.d.prefetch([KEY[self.any()] for _ in range(below(MANY))])
        end = time.monotonic() + below(300) / 1000
        while time.monotonic() < end:
            (self.get, self.view, self.get_many)[below(3)]()
        self.d.unfreeze()
        count("freeze")

    def thaw(self):
        if not self.d.is_frozen:
            self.frozen = None
        elif self.frozen is None:
            self.frozen = time.monotonic()
        elif time.monotonic() - self.frozen > 2:
            self.d.unfreeze()
            self.frozen = None

    def other_handle(self):
        mine = self.d
        self.d = pickle.loads(pickle.dumps(mine)) if one_in(2) else ddict.attach(timeout=TIMEOUT_S)
        try:
            for _ in range(5):
                self.get()
                self.put()
                self.view()
        finally:
            self.d.detach()
            self.d = mine
        count("attach")

    def threads(self):
        """Readers beside each other on one handle."""
        bad = []

        def work():
            try:
                for _ in range(20):
                    self.get()
            except BaseException as e:
                bad.append(e)

        them = [threading.Thread(target=work) for _ in range(3)]
        for t in them:
            t.start()
        for _ in range(10):
            self.put()
        for t in them:
            t.join()
        if bad:
            raise bad[0]
        count("python threads")

    def fork(self):
        i = self.own()
        if i is None:
            return
        n = lib.model_len(i, 4)
        op = lib.model_begin(i, PUT, n, 0)
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
                if os.getppid() == parent:
                    code = self.in_child(i, op, n)
            except Wrong:
                pass
            except BaseException:
                lib.model_say(("in a child: " + traceback.format_exc()).encode()[-600:])
            finally:
                os._exit(code)
        for _ in range(3):
            self.get()
            self.get_many()
            self.put()
        end = time.monotonic() + TIMEOUT_S + 30
        while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
            time.sleep(0.002)
            lib.model_phase()
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                wrong("the child does not end")
        if status[1] not in (0, 2 << 8):
            wrong(f"the child ended with status {status[1]:x}")
        found(lib.model_end(i, op, OK if status[1] == 0 else FAILED))
        count("fork")

    def in_child(self, i, op, n):
        lib.model_doing(b"child")
        while self.held:
            self.let_go(0)
        self.get()
        self.get_many()
        self.listen(50, 0)
        try:
            self.d[KEY[i]] = made(i, op, n)
        except (ddict.FullError, ddict.FrozenError):
            return 2
        self.view()
        return 0

    # --- phases ---

    def settle(self, wait):
        for i in range(self.me * KEYS, (self.me + 1) * KEYS):
            while wait and not lib.model_free(i) and not lib.model_due(i):
                time.sleep(0.01)
                lib.model_phase()
            if lib.model_due(i):
                try:
                    with self.d.view(KEY[i]) as view:
                        data = bytes(view)
                        found(lib.model_settled(i, data, len(data), view.tag))
                except KeyError:
                    found(lib.model_settled(i, None, 0, 0))
                count("settled")

    def audit(self):
        while self.held:
            self.let_go(0)
        owed = ctypes.create_string_buffer(600)
        end = time.monotonic() + 60
        while lib.model_sub_owed(owed, 600):
            if self.listen(1000, 0.5) == 0 and time.monotonic() > end:
                wrong("event: " + owed.value.decode())
            lib.model_phase()
        looks = [lib.model_look(i) for i in range(ALL)]
        for at in range(0, ALL, 32):
            ids = range(at, at + 32)
            for i, value in zip(ids, self.d.get_many([KEY[i] for i in ids])):
                self.seen(i, looks[i], value, "python audit")
            lib.model_phase()
        self.list_keys()

    def run(self):
        calls = [(self.put, 30), (self.delete, 10), (self.put_many, 2), (self.get, 24), (self.view, 14), (self.contains, 6), (self.get_many, 4), (self.list_keys, 1), (self.figures, 1),
                 (self.push, 10), (self.take, 12), (self.many_futures, 3), (self.other_handle, 1), (self.fork, 1), (self.threads, 1)]
        drawn = [call for call, weight in calls for _ in range(weight)]
        settled = audited = 0
        while True:
            phase, round_ = lib.model_phase(), lib.model_round()
            if phase == END:
                break
            if phase != RUN:
                lib.model_doing(b"settle" if phase == SETTLE else b"audit")
                if phase == SETTLE and settled != round_:
                    self.settle(True)
                    settled = round_
                elif phase == AUDIT and audited != round_:
                    self.audit()
                    audited = round_
                lib.model_reached(phase, round_)
                self.listen(100, 0.02)
                continue
            lib.model_doing(b"events")
            self.listen(200, 0)
            self.thaw()
            self.settle(False)
            if self.held and one_in(3):
                self.let_go(below(len(self.held)))
            if one_in(3000):
                self.freeze()
            if one_in(400):
                self.subscribe()
            call = drawn[below(len(drawn))]
            lib.model_doing(call.__name__.encode())
            call()
        while self.held:
            self.let_go(0)
        self.events.close()
        self.quick.detach()
        self.d.detach()
        lib.model_reached(END, 0)


def main():
    ctypes.CDLL(None).prctl(1, 9)
    worker = Worker(sys.argv[2], int(sys.argv[3]))
    try:
        worker.run()
    except Wrong:
        sys.exit(1)
    except BaseException:
        lib.model_say(traceback.format_exc().encode()[-650:])
        raise


main()
