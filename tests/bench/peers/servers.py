# SPDX-License-Identifier: Apache-2.0
"""Redis and memcached for the time of a run, started here and ended by process id; and a description of this machine."""
import os
import platform
import shutil
import subprocess
import time


def wait_for_socket(path, proc, seconds=10):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if proc.poll() is not None or time.monotonic() > end:
            raise RuntimeError("%s does not start" % proc.args[0])
        time.sleep(0.01)


class Servers:
    def __init__(self, folder, wanted):
        self.options, self.missing, self.procs = [], [], []
        for name in sorted(wanted):
            getattr(self, name)(folder)

    def start(self, argv, prefix=()):
        proc = subprocess.Popen([*prefix, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.procs.append(proc)
        return proc

    def redis(self, folder):
        path, program = os.path.join(folder, "redis"), shutil.which("redis-server")
        if program is None:
            return self.missing.append("Redis: no redis-server (Debian: apt install redis-server)")
        proc = self.start([program, "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", folder])
        wait_for_socket(path, proc)
        self.redis_path = path
        self.options += ["--redis", path]

    def memcached(self, folder):
        path, program = os.path.join(folder, "memcached"), shutil.which("memcached")
        if program is None:
            return self.missing.append("memcached: no memcached (Debian: apt install memcached)")
        user = ["-u", "root"] if os.geteuid() == 0 else []
        proc = self.start([program, "-s", path, "-m", "2048", "-I", "128m", "-t", "1", *user])
        wait_for_socket(path, proc)
        self.options += ["--memcached", path]

    def forget(self):
        """Empty the servers between rows, because all sides share the machine's memory."""
        import socket
        for option, path in zip(self.options[::2], self.options[1::2]):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(30)
                s.connect(path)
                s.sendall(b"FLUSHALL\r\n" if option == "--redis" else b"flush_all\r\n")
                s.recv(100)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for proc in self.procs:
            proc.terminate()
        for proc in self.procs:
            try:
                proc.wait(10)
            except subprocess.TimeoutExpired:
                proc.kill()
                proc.wait()


class Remote(Servers):
    """Redis over TCP, and the other end of the plain connection, on the second of two hosts."""

    def __init__(self, folder, net, measure, redis=True):
        super().__init__(folder, ())
        self.net, self.folder, self.port = net, folder, 6379
        self.plain(measure)
        if redis:
            self.redis_tcp()

    def plain(self, measure):
        file = os.path.join(self.folder, "port")
        proc = subprocess.Popen([*self.net.prefix(1), measure, "--serve-tcp", file], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.procs.append(proc)
        wait_for_socket(file, proc)
        while True:
            with open(file) as f:
                port = f.read()
            if port.endswith("\n"):
                break
            time.sleep(0.01)
        self.options += ["--tcp", "%s:%s" % (self.net.address[1], port.strip())]

    def redis_tcp(self):
        program, path = shutil.which("redis-server"), os.path.join(self.folder, "redis-tcp")
        if program is None:
            return self.missing.append("Redis over TCP: no redis-server (Debian: apt install redis-server)")
        proc = self.start([program, "--port", str(self.port), "--bind", self.net.address[1], "--protected-mode", "no", "--unixsocket", path, "--save", "",
                           "--appendonly", "no", "--dir", self.folder], self.net.prefix(1))
        wait_for_socket(path, proc)
        self.options += ["--redis-tcp", "%s:%d" % (self.net.address[1], self.port)]
        self.options_local = ["--redis", path]

    def forget(self):
        self.options, kept = getattr(self, "options_local", []), self.options
        super().forget()
        self.options = kept


def machine():
    cpu = "unknown"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) >> 20
    caches = {}
    base = "/sys/devices/system/cpu/cpu0/cache"
    for index in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        try:
            with open(os.path.join(base, index, "level")) as a, open(os.path.join(base, index, "size")) as b:
                caches["L" + a.read().strip()] = b.read().strip()
        except OSError:
            pass
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gib": memory, "caches": caches, "kernel": platform.release()}
