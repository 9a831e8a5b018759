# SPDX-License-Identifier: Apache-2.0
"""run.py MODULE... - run these test modules; one line `ok ...` or `not ok ...` a test. Exit code 1 when one failed, 77 when all were skipped."""

import faulthandler
import multiprocessing
import sys
import time
import unittest


class Lines(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.good = 0

    def startTest(self, test):
        super().startTest(test)
        self.start = time.monotonic()

    def say(self, mark, test, rest=""):
        took = time.monotonic() - getattr(self, "start", time.monotonic())
        print(f"{mark} {test.id()} ({took:.1f} s){rest}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.good += 1
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skip", test, f": {reason}")

    def _bad(self, test, err):
        self.say("not ok", test)
        print(self._exc_info_to_string(err, test), flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._bad(subtest, err)


if __name__ == "__main__":
    faulthandler.enable()
    if any("torch" in name for name in sys.argv[1:]):  # Python 3.14 starts workers by a fork server, and each would import torch anew
        multiprocessing.set_forkserver_preload(["torch"])
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    result = Lines()
    suite.run(result)
    if not result.wasSuccessful():
        sys.exit(1)
    if not result.good:
        print("all skipped:", "; ".join(sorted({reason for _, reason in result.skipped})))
        sys.exit(77)
