# SPDX-License-Identifier: Apache-2.0
"""The .pyi files of ddict.dragon have the names and parameters that its modules have."""

import ast
import importlib
import importlib.util
import inspect
import pathlib
import unittest

import ddict.dragon as dragon

FOLDER = pathlib.Path(dragon.__file__).parent
OPERATORS = {"__init__", "__enter__", "__exit__", "__len__", "__iter__", "__contains__", "__getitem__", "__setitem__", "__delitem__", "__getitems__"}
KINDS = {inspect.Parameter.POSITIONAL_ONLY: "/", inspect.Parameter.POSITIONAL_OR_KEYWORD: "", inspect.Parameter.VAR_POSITIONAL: "*",
         inspect.Parameter.KEYWORD_ONLY: "=", inspect.Parameter.VAR_KEYWORD: "**"}


def module_of(path):
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(["ddict.dragon", *(part for part in parts if part != "__init__")])


def stub_parameters(function):
    """(kind, name, whether it has a default) of each parameter"""
    a = function.args
    plain = a.posonlyargs + a.args
    has = [False] * (len(plain) - len(a.defaults)) + [True] * len(a.defaults)
    return ([("/" if p in a.posonlyargs else "", p.arg, h) for p, h in zip(plain, has)] + [("*", p.arg, False) for p in (a.vararg,) if p] +
            [("=", p.arg, d is not None) for p, d in zip(a.kwonlyargs, a.kw_defaults)] + [("**", p.arg, False) for p in (a.kwarg,) if p])


def real_parameters(function):
    return [(KINDS[p.kind], p.name, p.default is not p.empty) for p in inspect.signature(function).parameters.values()]


def real_members(cls):
    """The public members that ddict.dragon itself gives a class"""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("ddict.dragon"):
            found.update((name, member) for name, member in vars(base).items() if name in OPERATORS or not name.startswith("_"))
    return {name: member for name, member in found.items() if callable(member) or isinstance(member, (property, classmethod, staticmethod))}


def stub_members(node, classes):
    found = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            found.update(stub_members(classes[base.id], classes))
    found.update((each.name, each) for each in node.body if isinstance(each, ast.FunctionDef))
    return found


class Stubs(unittest.TestCase):
    def compare(self, where, stub, real):
        if isinstance(real, property):
            self.assertIn(ast.unparse(stub.decorator_list[0]).split(".")[-1], ("property", "setter"), where)
            return
        real = getattr(real, "__func__", real)
        self.assertEqual(stub_parameters(stub), real_parameters(real), where)

    def test_names_and_parameters(self):
        stubs = [path for path in sorted(FOLDER.rglob("*.pyi")) if importlib.util.find_spec("torch") or "torch" not in path.parts]
        self.assertGreater(len(stubs), 4)
        for path in stubs:
            module, tree = importlib.import_module(module_of(path)), ast.parse(path.read_text())
            classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
            for name, node in classes.items():
                real, stub = real_members(getattr(module, name)), stub_members(node, classes)
                self.assertEqual(sorted(stub), sorted(real), f"{path.name}: {name}")
                for member in real:
                    self.compare(f"{path.name}: {name}.{member}", stub[member], real[member])
            for node in tree.body:
                if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
                    self.assertEqual(ast.literal_eval(node.value), module.__all__)
                if isinstance(node, ast.FunctionDef):
                    self.compare(f"{path.name}: {node.name}", node, getattr(module, node.name))

    def test_the_package_exports_what_its_stub_does(self):
        tree, found = ast.parse((FOLDER / "__init__.pyi").read_text()), {}
        for node in tree.body:
            for name in node.names:
                self.assertEqual(name.name, name.asname)
                found[name.name] = "." + (node.module or name.name)
        self.assertEqual(found, dragon._MODULE)


if __name__ == "__main__":
    unittest.main()
