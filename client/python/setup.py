# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against the libddict that pkg-config names and makes it find that one at run time."""

import os
import shlex
import subprocess
import sys
from glob import glob

from setuptools import Extension, setup


def pkg_config(*words):
    try:
        out = subprocess.run([os.environ.get("PKG_CONFIG", "pkg-config"), *words], check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("setup.py: pkg-config does not know libddict. Install slurm-ddict first; where it is not in a standard place, set "
                 "PKG_CONFIG_PATH=PREFIX/lib/pkgconfig")
    return shlex.split(out.stdout)


def extension(name, package, folder, depends):
    return Extension(
        name,
        sources=sorted(glob(folder + "/*.c")),
        depends=depends,
        extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", *pkg_config("--cflags", package)],
        extra_link_args=pkg_config("--libs", package),
        runtime_library_dirs=[] if standard else [libdir],
    )


libdir = pkg_config("--variable=libdir", "ddict")[0]
standard = libdir.startswith(("/usr/lib", "/lib"))
setup(ext_modules=[extension("ddict._ddict", "ddict", "src", ["src/pyddict.h"]),
                   extension("ddict._runtime", "ddict-runtime", "runtime", [])])
