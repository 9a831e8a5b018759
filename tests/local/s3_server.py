# SPDX-License-Identifier: Apache-2.0
"""A small S3 server for tests: ListObjectsV2, GetObject and PutObject of one bucket, with the signature of each request checked by a calculation of its own
(AWS, "Signature Version 4 signing process"), and with faults. Faults are asked for by the names of the folders that objects are in:

    fault500-N/...    500 the first N times                 fault403/...   403 always
    half-N/...        half of the body, N times             never/...      no answer
    gone/...          404                                   other/...      another ETag and size than listed
    full/...          the whole body whatever the range, after half of it came once
"""
import hashlib
import hmac
import http.server
import sys
import threading
import time
import traceback
import urllib.parse
from xml.sax.saxutils import escape

FAULTS = ("fault500", "fault403", "half", "never", "gone", "other", "full")
KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token=="


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _error(code):
    return ("<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s &amp; so on</Message></Error>" % (code, "said " + code)).encode()


class _Http(http.server.ThreadingHTTPServer):
    request_queue_size = 64  # many come at once
    daemon_threads = True


class Server:
    """with Server({"a/b": b"..."}) as s: AWS_ENDPOINT_URL is s.url."""

    def __init__(self, objects, bucket="bucket", region="us-east-1", signed=True, page=1000, address="127.0.0.1"):
        self.objects, self.bucket, self.region, self.signed, self.page = objects, bucket, region, signed, page
        self.address = address
        self.listed = {}  # what the list says of an object that is another one since
        self.tokens = []  # continuations of a list that never ends, in turn
        self.listing = threading.Event()  # cleared: lists are not answered
        self.listing.set()
        self.serving = threading.Event()  # cleared: no object is answered, or only those that are not held
        self.held = ()
        self.serving.set()
        self.gather = 0  # no object is answered before so many are asked for at once, or 20 s are over
        self.inside, self.most, self.arrival = 0, 0, threading.Condition()  # how many are, and the greatest number
        self.when = {}  # object: times of the requests
        self.sent = []  # Authorization of each request
        self.count, self.seen, self.hosts, self.lock, self.ending = {}, [], set(), threading.Lock(), threading.Event()

    def __enter__(self):
        outer = self

        class Handler(_Handler):
            server_ = outer

        self.httpd = _Http((self.address, 0), Handler)
        self.httpd.handle_error = self.handle_error
        self.url = "http://%s:%d" % self.httpd.server_address
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *a):
        self.ending.set()
        self.listing.set()
        self.serving.set()
        self.arrived(0)
        self.httpd.shutdown()
        self.thread.join()
        self.httpd.server_close()

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # whoever asked may hang up
            traceback.print_exc()

    def environment(self):
        return {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": self.region}

    def arrived(self, n):
        """n more requests for objects are being answered."""
        with self.arrival:
            self.inside += n
            self.most = max(self.most, self.inside)
            self.arrival.notify_all()
            if n > 0 and not self.arrival.wait_for(lambda: self.most >= self.gather or self.ending.is_set(), 20):
                self.gather = 0

    def times(self, what):
        with self.lock:
            self.count[what] = self.count.get(what, 0) + 1
            return self.count[what]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def answer(self, code, body, **headers):
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def signature_wrong(self):
        s = self.server_
        auth = self.headers.get("Authorization", "")
        if not s.signed:
            return None
        if not auth.startswith("AWS4-HMAC-SHA256 "):
            return "AccessDenied"
        parts = dict(p.strip().split("=", 1) for p in auth[17:].split(","))
        who, day, region, service, _ = parts["Credential"].split("/")
        if who != KEY:
            return "InvalidAccessKeyId"
        if region != s.region:
            return "AuthorizationHeaderMalformed"
        path, _, query = self.path.partition("?")
        query = "&".join(sorted(query.split("&"))) if query else ""
        names = parts["SignedHeaders"].split(";")
        if "host" not in names or "x-amz-date" not in names or "x-amz-content-sha256" not in names:
            return "SignatureDoesNotMatch"
        headers = "".join("%s:%s\n" % (n, " ".join(self.headers[n].split())) for n in names)
        request = "\n".join([self.command, path, query, headers, parts["SignedHeaders"], self.headers["x-amz-content-sha256"]])
        scope = "/".join([day, region, service, "aws4_request"])
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in (day, region, service, "aws4_request"):
            key = _hmac(key, part)
        return None if _hmac(key, text).hex() == parts["Signature"] else "SignatureDoesNotMatch"

    def do_PUT(self):
        s = self.server_
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if s.signed and hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            return self.answer(400, _error("XAmzContentSHA256Mismatch"))
        wrong = self.signature_wrong()
        with s.lock:
            s.sent.append(self.headers.get("Authorization", ""))
            s.seen.append((self.path, None, self.headers.get("x-amz-security-token")))
        if wrong:
            return self.answer(403, _error(wrong))
        bucket, _, key = urllib.parse.unquote(self.path[1:], errors="surrogateescape").partition("/")
        if bucket != s.bucket:
            return self.answer(404, _error("NoSuchBucket"))
        kind, _, n = next((f for f in key.split("/")[:-1] if f.partition("-")[0] in FAULTS), "").partition("-")
        if kind == "fault403":
            return self.answer(403, _error("AccessDenied"))
        if kind == "fault500" and s.times(key) <= int(n):
            return self.answer(500, _error("InternalError"))
        with s.lock:
            s.objects[key] = body
        self.answer(200, b"", ETag='"%s"' % hashlib.md5(body).hexdigest())

    def do_GET(self):
        s = self.server_
        path, _, query = self.path.partition("?")
        wrong = self.signature_wrong()
        host = self.headers["Host"].split(".")[0]
        with s.lock:
            s.hosts.add(self.headers["Host"])
            s.sent.append(self.headers.get("Authorization", ""))
            s.seen.append((self.path, self.headers.get("Range"), self.headers.get("x-amz-security-token")))
        if wrong == "AuthorizationHeaderMalformed":
            return self.answer(400, _error(wrong), x_amz_bucket_region=s.region)
        if wrong:
            return self.answer(403, _error(wrong))
        if host != s.bucket:
            parts = path[1:].split("/", 1)
            if urllib.parse.unquote(parts[0]) != s.bucket:
                return self.answer(404, _error("NoSuchBucket"))
            path = "/" + (parts[1] if len(parts) > 1 else "")
        key = urllib.parse.unquote(path[1:], errors="surrogateescape")
        if not key:
            return self.list(dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
        with s.lock:
            s.when.setdefault(key, []).append(time.monotonic())
        s.arrived(1)
        if not s.held or key in s.held:
            s.serving.wait(100)
        try:
            self.object(key)
        finally:
            s.arrived(-1)

    def list(self, q):
        s = self.server_
        s.listing.wait(60)
        lists = s.times("list")
        if lists == 1 and "fault500-list" in s.objects:
            return self.answer(500, _error("InternalError"))
        names = sorted(k for k in s.objects if k.startswith(q.get("prefix", "")) and k > q.get("continuation-token", ""))
        most = min(int(q.get("max-keys", "1000")), s.page)
        page, more = names[:most], len(names) > most or s.tokens != []
        out = ["<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>x</Name><IsTruncated>%s</IsTruncated>"
               % ("true" if more else "false")]
        for k in page:
            body = s.listed.get(k, s.objects[k])
            out.append("<Contents><Key>%s</Key><ETag>&quot;%s&quot;</ETag><Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents>"
                       % (escape(urllib.parse.quote(k, safe="/", errors="surrogateescape")), hashlib.md5(body).hexdigest(), len(body)))
        if more:
            out.append("<NextContinuationToken>%s</NextContinuationToken>" % escape(s.tokens[lists % len(s.tokens)] if s.tokens else page[-1]))
        self.answer(200, ("".join(out) + "</ListBucketResult>").encode(), Content_Type="application/xml")

    def object(self, key):
        s = self.server_
        kind, _, n = next((f for f in key.split("/")[:-1] if f.partition("-")[0] in FAULTS), "").partition("-")
        times = s.times(key)
        if kind == "never":
            s.ending.wait(60)
            return
        if kind == "fault403":
            return self.answer(403, _error("AccessDenied"))
        if kind == "gone" or key not in s.objects:
            return self.answer(404, _error("NoSuchKey"))
        if kind == "fault500" and times <= int(n):
            return self.answer(500, _error("InternalError"))
        body = s.objects[key]
        etag = "\"%s\"" % hashlib.md5(body).hexdigest()
        if kind == "other" or self.headers.get("If-Match", etag) != etag:
            return self.answer(412, _error("PreconditionFailed"))
        since, code = 0, 200
        if self.headers.get("Range") and kind != "full":
            since, code = int(self.headers["Range"][6:].split("-")[0]), 206
        body = body[since:]
        if (kind == "half" and times <= int(n)) or (kind == "full" and times == 1):
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            time.sleep(0.05)
            self.close_connection = True
            return
        self.answer(code, body, ETag=etag)
