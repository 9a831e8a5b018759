# SPDX-License-Identifier: Apache-2.0
"""Which objects are values, how they come back, and that a copy is a copy."""

import array
import collections
import ctypes
import dataclasses
import pickle
import threading
import random
import struct
import unittest

import ddict
from harness import DictTest, mem_available, module_or_skip


@dataclasses.dataclass
class Sample:
    name: str
    data: object


class Counting(bytes):
    pass


class Values(DictTest):
    mem = 512 << 20

    def back(self, value):
        self.d["v"] = value
        return self.d["v"]

    def test_plain_values_come_back_equal_and_of_their_type(self):
        for v in (b"", b"x", bytearray(b"abc"), bytearray(), "", "text", "\u00e9", "\U0001f600" * 1000, 0, 1, -1, 2**63 - 1, -2**63, 2**63, -2**200,
                  0.0, -0.0, 1.5, float("inf"), 1e-320, None, True, False, 1j, (), [], {}, [1, [2]], {"a": (1, b"x")}, {1, 2}, ("\ud800",), "\ud800",
                  Counting(b"sub"), collections.OrderedDict(a=1), range(3), Sample("a", [1]), array.array("d", [1.0] * 1000),
                  Exception("e"), ddict.RawKey(b"k")):
            back = self.back(v)
            self.assertIs(type(back), type(v))
            self.assertEqual(repr(back), repr(v))
        self.assertNotEqual(self.back(float("nan")), self.d["v"])

    def test_a_bool_is_one_byte_that_other_languages_read(self):
        for value in (True, False):
            self.d["b"] = value
            with self.d.view("b") as view:
                self.assertEqual((bytes(view), view.tag), (bytes([value]), 8))
            self.assertIs(self.d["b"], value)
        self.d.put_many({"many": True}.items())
        self.assertIs(self.d.get_many(["many"])[0], True)

    def test_sizes(self):
        for size in (0, 1, 15, 16, 255, 256, 4096, 32767, 100_000, 1 << 20, 64 << 20):
            if size > 1 << 20 and mem_available() < 1 << 30:
                continue
            v = random.randbytes(size)
            self.assertEqual(self.back(v), v)
            self.assertEqual(self.back(bytearray(v)), v)
            self.assertEqual(len(self.d.view("v")), size)
            del self.d["v"]

    def test_memoryviews_are_stored_as_bytes(self):
        self.assertEqual(self.back(memoryview(b"abc")), b"abc")
        self.assertEqual(self.back(memoryview(b"abcdef")[::2]), b"ace")
        self.assertEqual(self.back(memoryview(b"abcdef")[::-1]), b"fedcba")
        a = array.array("i", [1, 2, 3])
        self.assertEqual(self.back(memoryview(a)), a.tobytes())

    def test_a_copy_is_a_copy(self):
        self.d["v"] = v = {"list": [1], "bytes": bytearray(b"x" * 1000)}
        v["list"].append(2)
        back = self.d["v"]
        back["list"].append(3)
        back["bytes"][0] = 0
        self.assertEqual(self.d["v"], {"list": [1], "bytes": bytearray(b"x" * 1000)})

    def test_buffers_travel_out_of_band(self):
        buffers = [bytearray(random.randbytes(n)) for n in (256, 300, 1, 70_000, 0, 255)]
        self.d["v"] = [pickle.PickleBuffer(b) for b in buffers]
        with self.d.view("v") as v:
            self.assertEqual(v.tag, 3)
            data = bytes(v)
            self.assertEqual(int.from_bytes(data[:4], "little"), 3)
            for i, b in enumerate(b for b in buffers if len(b) >= 256):
                off, n = (int.from_bytes(data[16 + 16 * i + j:24 + 16 * i + j], "little") for j in (0, 8))
                self.assertEqual((off % 64, n), (0, len(b)))
                self.assertEqual(data[off:off + n], b)
        back = self.d["v"]
        self.assertEqual([bytes(b) for b in back], [bytes(b) for b in buffers])

    def test_more_buffers_than_pieces(self):
        buffers = [bytearray([i % 256]) * 300 for i in range(1200)]
        self.d["v"] = [pickle.PickleBuffer(b) for b in buffers]
        self.assertEqual(self.d["v"], buffers)

    def test_a_view_is_stored_as_it_is(self):
        numpy = module_or_skip("numpy")
        self.d["a"] = numpy.arange(1000)
        self.d["b"] = self.d.view("a")
        self.d["c"] = 5
        self.d["d"] = self.d.view("c")
        self.assertTrue((self.d["b"] == numpy.arange(1000)).all())
        self.assertEqual(self.d["d"], 5)

    def test_what_cannot_be_pickled_is_an_error_and_changes_nothing(self):
        self.d["v"] = 1
        for bad in (threading.Lock(), (x for x in ()), self.d.view("v")):
            with self.assertRaises((pickle.PicklingError, TypeError, AttributeError)):
                self.d["v"] = [bad]
        self.assertEqual(self.d["v"], 1)

    def test_value_larger_than_a_manager(self):
        size = self.d.info["total_bytes"]
        if mem_available() < 3 * size:
            self.skipTest("not enough memory")
        with self.assertRaises(ddict.ValueSizeError) as e:
            self.d["v"] = bytes(size)
        self.assertIsInstance(e.exception, ValueError)
        self.assertNotIn("v", self.d)

    def test_a_handle_is_a_value(self):
        self.d["self"] = self.d
        other = self.d["self"]
        self.assertEqual((other.name, other.timeout), (self.d.name, self.d.timeout))
        self.assertEqual(len(other), 1)


class Foreign(DictTest):
    """Values that a program in C stored."""

    def setUp(self):
        super().setUp()
        self.lib = ctypes.CDLL(ddict._ddict.__file__)  # libddict's functions are found through it
        self.handle = ctypes.c_void_p()
        self.assertEqual(self.lib.ddict_attach(ctypes.byref(self.handle), self.d.name.encode(), -1), 0)

    def tearDown(self):
        self.lib.ddict_detach(self.handle)

    def put(self, value, tag):
        self.assertEqual(self.lib.ddict_put(self.handle, b"sv", ctypes.c_size_t(2), value, ctypes.c_size_t(len(value)), tag << 16, -1), 0)

    def test_untagged_values_are_bytes(self):
        self.put(b"from C", 0)
        self.assertEqual(self.d["v"], b"from C")

    def test_a_bool_that_was_pickled_is_read(self):
        self.put(pickle.dumps(True, 5), 2)
        self.assertIs(self.d.get("v"), True)

    def test_unknown_tags_are_refused(self):
        self.put(b"what is it", 200)
        with self.assertRaises(ddict.Error):
            self.d["v"]
        with self.d.view("v") as v:
            self.assertEqual((bytes(v), v.tag), (b"what is it", 200))

    def test_broken_values_are_errors(self):
        for tag, value in ((2, b""), (2, b"junk"), (3, b""), (3, b"\0" * 16), (4, b"\xff"), (5, b""), (5, b"12x"), (5, b"007"), (6, b"1234567"), (8, b""), (8, b"\2"), (8, b"\0\0")):
            self.put(value, tag)
            with self.assertRaises((ddict.Error, pickle.UnpicklingError, EOFError, UnicodeDecodeError), msg=(tag, value)):
                self.d["v"]

    def test_arrays_pickled_as_they_once_were(self):
        numpy = module_or_skip("numpy")
        a = numpy.arange(1000.0).reshape(50, 20)
        buffers = []
        stream = pickle.dumps(a, protocol=5, buffer_callback=buffers.append)
        at = -(-(32 + len(stream)) // 64) * 64
        head = struct.pack("<IIQQQ", 1, 1, len(stream), at, a.nbytes) + stream
        self.put(head.ljust(at, b"\0") + a.tobytes(), 3)
        for b in (self.d["v"], self.d.view("v").load()):
            self.assertEqual((b.dtype, b.shape), (a.dtype, a.shape))
            self.assertTrue((a == b).all())

    def array(self, kind=0, name=b"<f4", shape=(10, 10), data=bytes(400), version=1, zero=0, dims=None):
        head = struct.pack("<BBBB12s", version, kind, len(shape) if dims is None else dims, zero, name) + struct.pack("<%dQ" % len(shape), *shape)
        return head.ljust(-(-len(head) // 64) * 64, b"\0") + data

    def test_arrays_of_other_programs(self):
        numpy = module_or_skip("numpy")
        self.put(self.array(data=numpy.arange(100, dtype="<f4").tobytes()), 7)
        for b in (self.d["v"], self.d.view("v").load()):
            self.assertTrue((b == numpy.arange(100).reshape(10, 10)).all())
            self.assertEqual(b.dtype, numpy.float32)
        for value, shape in ((self.array(shape=(), name=b"<f8", data=bytes(8)), ()), (self.array(shape=(0, 5), data=b""), (0, 5)),
                             (self.array(shape=(1,) * 32, data=bytes(4)), (1,) * 32)):
            self.put(value, 7)
            self.assertEqual((self.d["v"].shape, self.d.view("v").load().shape), (shape, shape))

    def test_broken_arrays_are_errors(self):
        module_or_skip("numpy")
        good = self.array()
        bad = [good[:n] for n in (0, 1, 15, 16, 31, 32, 63, 64, len(good) - 1)] + [good + b"x", self.array(version=2), self.array(zero=1), self.array(kind=2)]
        bad += [self.array(dims=33, shape=(1,) * 33), self.array(dims=255), self.array(shape=(2**62, 4, 4)), self.array(shape=(2**63, 2)), self.array(shape=(0, 2**63))]
        bad += [self.array(name=name) for name in (b"O", b"|O8", b"<f4,O", b"<f3", b"f4", b"<f", b"", b"<f4\0x", b"<bf2", b"|S", b"<f4[2]", b"<M8[", b"<M4[xx]",
                                                   b"<99999999999", b"<i4,<i4", b"(2)<f4", b"<f-4", b"<f 4")]
        for value in bad:
            self.put(value, 7)
            for read in (self.d.__getitem__, lambda key: self.d.view(key).load()):
                with self.assertRaises(ddict.Error, msg=value[:32]):
                    read("v")

    def test_broken_heads_of_arrays_do_no_harm(self):
        module_or_skip("numpy")
        good = self.array()
        chance = random.Random(2)
        for _ in range(3000):
            bad = bytearray(good)
            for _ in range(chance.randint(1, 3)):
                bad[chance.randrange(40)] = chance.choice((0, 1, 2, 255, chance.randrange(256)))
            bad[1] = 0  # numpy's: torch is for tests of its own
            self.put(bytes(bad[:chance.choice((len(bad), chance.randrange(len(bad))))]), 7)
            for read in (self.d.__getitem__, lambda key: self.d.view(key).load()):
                try:
                    read("v").tobytes()
                except ddict.Error:
                    pass

    def test_broken_heads_do_no_harm(self):
        self.d["good"] = [pickle.PickleBuffer(bytearray(300)), pickle.PickleBuffer(bytearray(400))]
        good = bytes(self.d.view("good"))
        chance = random.Random(1)
        for _ in range(3000):
            bad = bytearray(good)
            for _ in range(chance.randint(1, 3)):
                bad[chance.randrange(48)] = chance.choice((0, 1, 255, chance.randrange(256)))
            self.put(bytes(bad[:chance.choice((len(bad), chance.randrange(len(bad))))]), 3)
            for read in (self.d.__getitem__, lambda key: self.d.view(key).load()):
                try:
                    read("v")
                except (ddict.Error, pickle.UnpicklingError, EOFError):
                    pass


class Numpy(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.np = module_or_skip("numpy")
        super().setUpClass()

    def test_arrays(self):
        np = self.np
        for a in (np.arange(10), np.arange(100000.0), np.zeros((0, 3)), np.array(5), np.ones((3, 4, 5), dtype=np.float16), np.arange(3000).reshape(30, 100).T,
                  np.arange(10000)[::3], np.asfortranarray(np.arange(900.0).reshape(30, 30)), np.array(["a", "bc"] * 100),
                  np.zeros(200, dtype=[("x", "f4"), ("y", "i8")]), np.array([None, "x"]), np.arange(1000, dtype=">i4"), np.ones(300, bool)):
            self.d["a"] = a
            b = self.d["a"]
            self.assertEqual((b.dtype, b.shape), (a.dtype, a.shape))
            self.assertTrue((b == a).all())
            self.assertTrue(b.flags.writeable)
            if b.size and b.dtype != object:
                b[...] = b[::-1] if b.ndim else b
                b.fill(b.flat[0])
                self.assertTrue((self.d["a"] == a).all(), "writing to a copy changed the dictionary")

    def test_which_arrays_need_no_pickle(self):
        np = self.np
        subclass = type("Mine", (np.ndarray,), {})
        globals()["Mine"], subclass.__module__, subclass.__qualname__ = subclass, __name__, "Mine"
        units = np.arange(200).astype("datetime64[25s]")
        for a, tag in ((np.arange(32.0), 7), (np.arange(31.0), 7), (np.zeros((3, 0)), 7), (np.array(7), 7), (np.arange(3000).reshape(30, 100).T, 3), (np.arange(10000)[::3], 7),
                       (np.arange(100, dtype=">i8"), 7), (np.zeros(128, np.float16), 7), (np.zeros(100, bool), 7), (np.zeros(256, bool), 7),
                       (np.zeros(100, np.complex128), 7), (np.array(["text"] * 50), 7), (np.array([b"text"] * 500), 7), (units, 7),
                       (np.arange(100).astype("timedelta64[ns]"), 7), (np.zeros(100, "V20"), 7), (np.ones((2,) * 9), 7), (np.array("x" * 100), 7),
                       (np.zeros(200, dtype=[("x", "f4"), ("y", "i8")]), 3), (np.array([None] * 100), 2), (np.zeros(100).view(subclass), None),
                       (np.broadcast_to(np.arange(100), (5, 100)), 7), (np.zeros(100, np.dtype("f8", metadata={"a": 1})), None), (np.zeros(100, np.longdouble), 7)):
            self.d["a"] = a
            view, back = self.d.view("a"), self.d["a"]
            loaded = view.load()
            if tag is not None:
                self.assertEqual(view.tag, tag, a.dtype)
            for b in (back, loaded):
                self.assertEqual((type(b), b.dtype, b.dtype.str, b.shape), (type(a), a.dtype, a.dtype.str, a.shape))
                self.assertEqual(b.tobytes(), a.tobytes())
            if a.ndim > 1 and a.size:
                self.assertEqual(back.flags.f_contiguous, a.flags.f_contiguous)
            if tag == 7:
                self.assertTrue(back.flags.owndata and back.flags.c_contiguous and back.flags.writeable)
                self.assertEqual(view.nbytes, 64 * -(-(16 + 8 * a.ndim) // 64) + a.nbytes)
                self.assertEqual(loaded.flags.writeable, a.nbytes < 256)  # small ones are copies

    def test_more_types_than_are_remembered(self):
        np = self.np
        for size in (*range(1, 90), *range(1, 90)):
            self.d["a"] = a = np.full(300, b"x" * size, f"S{size}")
            self.d["b"] = np.zeros(300, [(f"f{size}", "u1", 3)])
            self.assertTrue((self.d["a"] == a).all() and self.d["a"].dtype == a.dtype)
            self.assertTrue((self.d.view("a").load() == a).all())
            self.assertEqual(self.d["b"].dtype.names, (f"f{size}",))

    def test_arrays_many_at_once(self):
        np = self.np
        arrays = {i: np.full(n, i, t) for i, (n, t) in enumerate((n, t) for n in (1, 100, 5000, 300_000) for t in (np.uint8, np.float32, np.int64))}
        self.assertEqual(self.d.put_many(arrays), len(arrays))
        for got in (self.d.get_many(arrays), self.d.__getitems__(arrays), [v for _, v in sorted(self.d.items())]):
            for a, b in zip(arrays.values(), got):
                self.assertEqual((a.dtype, a.tobytes()), (b.dtype, b.tobytes()))
        self.assertTrue((self.d.pop(3) == arrays[3]).all())
        self.assertTrue((self.d.setdefault(3, arrays[4]) == arrays[4]).all() and self.d.put_existing(3, arrays[5]))
        self.assertTrue((self.d[3] == arrays[5]).all())

    def test_arrays_inside_of_others(self):
        np = self.np
        v = Sample("s", {"x": np.arange(5000), "y": (np.ones(3), [np.zeros((2, 300))])})
        self.d["v"] = v
        b = self.d["v"]
        self.assertTrue((b.data["x"] == v.data["x"]).all() and (b.data["y"][1][0] == 0).all())

    def test_load_is_in_place_and_read_only(self):
        np = self.np
        self.d["a"] = np.arange(100000)
        view = self.d.view("a")
        a = view.load()
        self.assertFalse(a.flags.writeable)
        with self.assertRaises(ValueError):
            a[0] = 1
        whole = np.asarray(view)
        start = a.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.assertTrue(0 < start < len(view), "the array does not stand in the view")
        self.assertEqual(a.__array_interface__["data"][0] % 64, 0)
        self.d["a"] = np.zeros(100000)
        self.assertTrue((a == np.arange(100000)).all())


class Torch(DictTest):
    @classmethod
    def setUpClass(cls):
        cls.torch = module_or_skip("torch")
        super().setUpClass()

    def same(self, a, b):
        torch = self.torch
        self.assertIs(type(a), type(b))
        self.assertEqual((a.dtype, a.shape, a.requires_grad), (b.dtype, b.shape, b.requires_grad))
        self.assertTrue(torch.equal(a, b))

    def test_tensors_of_every_type(self):
        torch = self.torch
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
                      torch.bool, torch.complex64, torch.complex128):
            for shape in ((), (0,), (3, 0), (1,), (7,), (100, 30)):
                t = (torch.randn(shape) * 10).to(dtype)
                self.d["t"] = t
                b = self.d["t"]
                self.same(b, t)
                b.zero_()
                self.same(self.d["t"], t)

    def test_tensors_of_every_shape(self):
        torch = self.torch
        base = torch.randn(64, 48, 3)
        for t in (base.transpose(0, 2), base[::2, 1:], base[5], base.expand(4, 64, 48, 3), torch.randn(2, 3, 8, 9).to(memory_format=torch.channels_last),
                  torch.randn(300, requires_grad=True), torch.randn(300, requires_grad=True) * 2, torch.randn(300, dtype=torch.complex64).conj(),
                  torch.randn(400, dtype=torch.complex64).conj().imag):
            self.d["t"] = t
            self.same(self.d["t"], t.detach().requires_grad_(t.requires_grad))
        big = torch.randn(1000, 1000)
        self.d["row"] = big[3]
        self.assertLess(len(self.d.view("row")), 5000, "a row was stored with its whole storage")

    def test_tensors_inside_of_others(self):
        torch = self.torch
        self.d["s"] = (torch.arange(10000), 3, {"x": [torch.ones(5), "text"]})
        image, label, rest = self.d["s"]
        self.same(image, torch.arange(10000))
        self.assertEqual((label, rest["x"][1]), (3, "text"))
        self.same(rest["x"][0], torch.ones(5))

    def test_modules_and_parameters(self):
        torch = self.torch
        m = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40))
        self.d["m"], self.d["state"], self.d["p"] = m, m.state_dict(), m[0].weight
        for a, b in zip(self.d["m"].parameters(), m.parameters()):
            self.same(a, b)
        for (ka, a), (kb, b) in zip(self.d["state"].items(), m.state_dict().items()):
            self.assertEqual(ka, kb)
            self.same(a, b)
        self.assertIs(type(self.d["p"]), torch.nn.Parameter)

    def test_torch_handles_what_is_not_plain(self):
        torch = self.torch
        sparse = torch.eye(5).to_sparse()
        self.d["t"] = sparse
        self.assertTrue(torch.equal(self.d["t"].to_dense(), torch.eye(5)))
        noted = torch.randn(300)
        noted.note = "an attribute"
        self.d["t"] = noted
        self.assertTrue(torch.equal(self.d["t"], noted))

    def test_elements_travel_out_of_band(self):
        torch = self.torch
        t = torch.randn(100000)
        self.d["t"] = t
        with self.d.view("t") as v:
            self.assertEqual(v.tag, 7)
            self.assertEqual(len(v), t.numel() * 4 + 64)
        self.d["t"] = [t, t.clone().requires_grad_()]
        with self.d.view("t") as v:
            self.assertEqual(v.tag, 3)
            self.assertLess(len(v), 2 * t.numel() * 4 + 1000)
        self.assertEqual([x.requires_grad for x in self.d["t"]], [False, True])

    def test_which_tensors_need_no_pickle(self):
        torch = self.torch
        noted = torch.zeros(100)
        noted.note = 1
        for t, tag in ((torch.zeros(64), 7), (torch.zeros(63), 2), (torch.zeros(64, requires_grad=True), 3), (torch.zeros(128, dtype=torch.bfloat16), 7),
                       (torch.zeros(100, 100).t(), 7), (torch.nn.Parameter(torch.zeros(100)), 3), (torch.zeros((2,) * 9), 7), (torch.zeros(256, dtype=torch.bool), 7),
                       (torch.quantize_per_tensor(torch.zeros(1000), 0.1, 0, torch.qint8), None), (noted, None)):
            self.d["t"] = t
            view, back = self.d.view("t"), self.d["t"]
            if tag is not None:
                self.assertEqual(view.tag, tag, t)
            self.assertEqual((type(back), back.dtype, back.shape, back.requires_grad), (type(t), t.dtype, t.shape, t.requires_grad))

    def test_load_copies_tensors_unless_asked(self):
        torch = self.torch
        t = torch.randn(100000)
        self.d["t"] = t
        view = self.d.view("t")
        copy = view.load()
        copy.zero_()
        alias = view.load(alias_tensors=True)
        self.same(alias, t)
        self.assertEqual(alias.data_ptr() % 64, 0)
        self.d["t"] = 0
        view.release()
        del view
        self.same(alias, t)

    def test_numpy_and_torch_over_a_view_keep_it(self):
        torch = self.torch
        self.d["t"] = torch.arange(1000).numpy().tobytes()
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the buffer is not writable
            t = torch.frombuffer(self.d.view("t"), dtype=torch.int64)
        self.d.clear()
        for i in range(100):
            self.d[i] = bytes(8000)
        self.assertTrue(torch.equal(t, torch.arange(1000)))


if __name__ == "__main__":
    unittest.main()
