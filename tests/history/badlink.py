# SPDX-License-Identifier: Apache-2.0
"""A link whose frames this process carries from one end to the other: late, lost and out of order where asked for. Needs /dev/net/tun, and not netem, which few kernels of test machines have."""
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from collections import Counter

from outage import Link
import nets

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x2, 0x1000  # linux/if_tun.h
BURST = 64


class Carrier:
    """Two interfaces, and a thread that carries each frame from one to the other."""

    def __init__(self):
        self.fds, self.over = [], threading.Event()
        self.delay = self.loss = self.reorder = 0
        self.frames = Counter()
        self.carrier, self.error = threading.Thread(target=self.carry_on), None

    def end_in(self, namespace, name):
        """Make one of the two, in that network namespace. It goes with us."""
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.fds.append(fd)
        device = "dd%d%d" % (os.getpid(), len(self.fds))
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
        nets.ip("link", "set", device, "netns", namespace, "name", name)

    def bad(self, delay=0, loss=0, reorder=0):
        """Seconds; shares of the frames that are lost, and that overtake those before them."""
        self.delay, self.loss, self.reorder = delay, loss, reorder

    def carry_on(self):
        try:
            self.carry()
        except Exception as e:  # say() does
            self.error = e

    def carry(self):
        late, last, n = [], [0, 0], 0
        while not self.over.is_set():
            wait = max(0, min(0.05, late[0][0] - time.monotonic())) if late else 0.05
            for fd in select.select(self.fds, [], [], wait)[0]:
                end = self.fds.index(fd)
                for _ in range(BURST):
                    try:
                        frame = os.read(fd, 65536)
                    except BlockingIOError:
                        break
                    n += 1
                    if random.random() < self.loss:
                        self.frames["lost"] += 1
                        continue
                    when = time.monotonic()
                    if self.delay and random.random() < self.reorder:
                        self.frames["overtaking"] += 1
                    else:
                        self.frames["late"] += self.delay > 0
                        last[end] = when = max(last[end], when + self.delay * random.uniform(0.5, 1.5))
                    heapq.heappush(late, (when, n, self.fds[1 - end], frame))
            while late and late[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(late)
                try:
                    os.write(to, frame)
                    self.frames["carried"] += 1
                except OSError:  # its queue is full, or the interface is down
                    self.frames["lost"] += 1

    def stop(self):
        self.over.set()
        if self.carrier.ident:
            self.carrier.join()
        for fd in self.fds:
            os.close(fd)

    def say(self, *error):
        """What went wrong in the thread, unless something else did."""
        if self.error and not any(error):
            raise self.error


class BadLink(Carrier, Link):
    def __init__(self, tag):
        Link.__init__(self, tag)
        Carrier.__init__(self)

    def join(self):
        for name in self.names:
            self.end_in(name, "eth0")
        self.carrier.start()

    def __exit__(self, *error):
        self.stop()
        super().__exit__(*error)
        self.say(*error)
