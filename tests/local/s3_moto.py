# SPDX-License-Identifier: Apache-2.0
"""An S3 server that others wrote: moto, where $DDICT_TEST_MOTO is a Python that has it; else ours (s3_server.py), and a line says so. moto's own account management
is used, so it looks at each request's signature (by botocore) and at what the user may do.

    with s3_moto.server({"a/b": b"..."}) as s: ... s.environment()
"""
import contextlib
import json
import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import time

START_S = 60


class Moto:
    """Like s3_server.Server, without faults."""

    def __init__(self, python, objects, bucket="bucket", address="127.0.0.1"):
        self.words = [python, os.path.abspath(__file__), address]
        self.given = pickle.dumps((bucket, objects), 4)

    def __enter__(self):
        env = {k: v for k, v in os.environ.items() if not k.lower().startswith(("aws_", "python", "http", "all_proxy"))}
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env={**env, "PYTHONDONTWRITEBYTECODE": "1"})
        try:
            self.process.stdin.write(b"%d\n" % len(self.given) + self.given)
            self.process.stdin.flush()
            self.name, self.url, self.variables = json.loads(self.line())
        except OSError as e:
            raise OSError("%s: %s" % (e, self.ended())) from None
        except BaseException:
            self.ended()
            raise
        return self

    def line(self):
        text, end = b"", time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not text.endswith(b"\n"):
                more = os.read(self.process.stdout.fileno(), 65536) if selector.select(max(0, end - time.monotonic())) else None
                if not more:
                    raise OSError("moto ended" if more == b"" else "moto did not begin within %d s" % START_S)
                text += more
        return text

    def ended(self):
        """The last line that it said."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(OSError):  # it may have ended before it had read all
            self.process.stdin.close()
        with self.log:
            self.log.seek(0)
            return (self.log.read().decode(errors="replace").splitlines() or [""])[-1]

    def __exit__(self, *a):
        self.ended()

    def environment(self):
        return dict(self.variables)


@contextlib.contextmanager
def server(objects, **words):
    """moto, or ours; either way it has begun."""
    from s3_server import Server
    python = os.environ.get("DDICT_TEST_MOTO", "")
    with contextlib.ExitStack() as stack:
        try:
            if not os.access(python, os.X_OK):
                raise OSError("DDICT_TEST_MOTO names no Python that has it")
            s = stack.enter_context(Moto(python, objects, **words))
            print("S3 by %s" % s.name, flush=True)
        except (OSError, ValueError) as e:
            print("S3 by the server of the tests, without moto: %s" % e, flush=True)
            s = stack.enter_context(Server(objects, **words))
        yield s


def serve(address):
    """The process that has moto: objects come by stdin, and it ends with it."""
    import boto3
    import moto
    import moto.server
    import urllib.request
    s = moto.server.ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    s.start()
    url = "http://%s:%d" % s.get_host_and_port()
    bucket, objects = pickle.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))
    first = dict(endpoint_url=url, region_name="us-east-1", aws_access_key_id="first", aws_secret_access_key="first")
    s3, iam = boto3.client("s3", **first), boto3.client("iam", **first)
    s3.create_bucket(Bucket=bucket)
    for name, body in objects.items():
        s3.put_object(Bucket=bucket, Key=name, Body=body)
    iam.create_user(UserName="user")
    iam.put_user_policy(UserName="user", PolicyName="reads-and-writes", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject", "s3:PutObject"], "Resource": "*"}}))
    key = iam.create_access_key(UserName="user")["AccessKey"]
    check_all = urllib.request.Request(url + "/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    urllib.request.urlopen(check_all, timeout=30).close()
    mine = dict(aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])
    boto3.client("s3", **{**first, **mine}).list_objects_v2(Bucket=bucket)  # a moto that cannot even this is not to be used
    print(json.dumps(["moto " + moto.__version__, url, {"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", **{k.upper(): v for k, v in mine.items()}}]), flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    serve(sys.argv[1])
