#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""s3_folder.py FOLDER PREFIX -- COMMAND...: an S3 server whose bucket has the files of FOLDER, on an address that all nodes reach, while COMMAND runs. moto, if it is at hand: s3_moto.py"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "local"))
import s3_moto  # noqa: E402

folder, prefix, dashes, *command = sys.argv[1:]
objects = {}
for root, _, names in os.walk(folder):
    for name in names:
        path = os.path.join(root, name)
        with open(path, "rb") as f:
            objects[prefix + os.path.relpath(path, folder)] = f.read()
route = subprocess.run(["ip", "-o", "-4", "address", "show", "scope", "global"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
with s3_moto.server(objects, address=route[3].split("/")[0]) as server:
    sys.exit(subprocess.run(command, env={**os.environ, **server.environment()}).returncode)
