# SPDX-License-Identifier: Apache-2.0
"""Objects put to S3, with the configuration of the AWS tools that `ddict load` reads, too (AWS, "Signature Version 4 signing process")."""
import configparser
import datetime
import hashlib
import hmac
import http.client
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

ATTEMPTS, PAUSE_S, STALL_S = 3, 0.5, 60
OBJECT_MAX = 5 << 30  # bytes; a larger one takes several requests


def _profile():
    """The settings of the profile, credentials before those of ~/.aws/config."""
    name, found = os.environ.get("AWS_PROFILE") or "default", {}
    for variable, file, section in (("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
                                    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name)):
        parser = configparser.RawConfigParser(strict=False)
        parser.read(os.path.expanduser(os.environ.get(variable) or file), encoding="utf-8")
        if parser.has_section(section):
            found.update(parser.items(section))
    return found


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Bucket:
    """Bucket("s3://bucket/prefix"): put(path, data) makes prefix/path an object."""

    def __init__(self, url):
        self.name, _, prefix = url[len("s3://"):].partition("/")
        if not self.name:
            raise ValueError(f"{url!r} names no bucket: s3://bucket/prefix is wanted")
        self.prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        profile, env = _profile(), os.environ
        if env.get("AWS_ACCESS_KEY_ID"):
            self.access, self.secret, self.token = env["AWS_ACCESS_KEY_ID"], env.get("AWS_SECRET_ACCESS_KEY", ""), env.get("AWS_SESSION_TOKEN")
        else:
            self.access, self.secret, self.token = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key", ""), profile.get("aws_session_token")
        self.region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or profile.get("region") or "us-east-1"
        if not re.fullmatch("[a-z0-9-]+", self.region):
            raise ValueError(f"the region {self.region!r} is no name of lower case letters, digits and '-'")
        endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or profile.get("endpoint_url")
        self.base = self._base(endpoint)
        self.tls = ssl.create_default_context(cafile=env.get("AWS_CA_BUNDLE") or profile.get("ca_bundle") or None)

    def _base(self, endpoint):
        """The URL of the bucket: by its path at an endpoint of one's own, else by its host name."""
        if endpoint:
            return f"{endpoint.rstrip('/')}/{urllib.parse.quote(self.name)}/"
        if re.fullmatch("[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", self.name):
            return f"https://{self.name}.s3.{self.region}.amazonaws.com/"
        return f"https://s3.{self.region}.amazonaws.com/{urllib.parse.quote(self.name)}/"

    def _signed(self, request, data):
        """Add the headers that say who asks; none without credentials."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest, url = hashlib.sha256(data).hexdigest(), urllib.parse.urlsplit(request.full_url)
        headers = {"host": url.netloc, "x-amz-content-sha256": digest, "x-amz-date": now}
        if self.access and self.token:
            headers["x-amz-security-token"] = self.token
        for name, value in headers.items():
            request.add_header(name, value)
        if not self.access:
            return
        names, scope = ";".join(sorted(headers)), f"{now[:8]}/{self.region}/s3/aws4_request"
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        whole = "\n".join([request.get_method(), url.path, "", lines, names, digest])
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(whole.encode()).hexdigest()])
        key = ("AWS4" + self.secret).encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        request.add_header("Authorization", f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={names}, Signature={_hmac(key, text).hex()}")

    def put(self, path, data):
        """put(path, data) -- make this the object of the path; OSError if that fails. What may pass is tried again."""
        where = self.prefix + path
        if len(data) > OBJECT_MAX:
            raise OSError(f"s3://{self.name}/{where}: {len(data)} bytes are more than S3 takes in one request")
        for attempt in range(1, ATTEMPTS + 1):
            request = urllib.request.Request(self.base + urllib.parse.quote(os.fsencode(where), safe="/~"), data=data, method="PUT")
            request.add_header("Content-Type", "application/octet-stream")
            self._signed(request, data)
            try:
                with urllib.request.urlopen(request, timeout=STALL_S, context=self.tls if request.type == "https" else None):
                    return
            except urllib.error.HTTPError as e:
                code = re.search(r"<Code>([^<]*)</Code>", e.read(65536).decode(errors="replace"))
                why = f"{e.code} {code.group(1) if code else e.reason}"
                final = e.code < 500 and e.code != 429
            except (OSError, http.client.HTTPException) as e:
                why, final = str(getattr(e, "reason", e)) or type(e).__name__, False
            if final or attempt == ATTEMPTS:
                raise OSError(f"s3://{self.name}/{where} can not be written: {why}")
            time.sleep(PAUSE_S * attempt)
