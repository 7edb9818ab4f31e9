"""Where the system has no more threads: a container's limit on pids, ``ulimit -u``."""

import subprocess
import sys

PROGRAM = """
import gc, os, resource, time
import numpy as np
import leat

def allow_threads(allowed):
    if os.geteuid() == 0:  # no limit applies to root
        os.setgid(65534)
        os.setuid(65534)
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (most if allowed else 1, most))

def threads():
    return len(os.listdir("/proc/self/task"))

def become(count):  # the system counts a thread that was joined for a moment
    until = time.monotonic() + 10
    while threads() != count and time.monotonic() < until:
        time.sleep(0.001)
    assert threads() == count, threads()

def make_feed():
    data = leat.InMemory(x=np.arange(1000))
    return leat.Prefetcher(data, "cpu", batch_size=10, framework="numpy", order="sequential")

before = threads()
next(iter(make_feed()))["x"]  # what is imported late may not be for nobody to read
gc.collect()
become(before)

allow_threads(False)
try:
    make_feed()
    raise SystemExit("no error")
except leat.Error as error:
    assert "cannot start worker 1 of 3" in str(error) and "ulimit -u" in str(error), error
become(before)

allow_threads(True)
feed = make_feed()
loop = iter(feed)
x = next(loop)["x"]
allow_threads(False)
feed.close()  # this thread ends it
become(before)
feed.close()
del feed, loop
gc.collect()
assert x.tolist() == list(range(10))

allow_threads(True)
feed = make_feed()
loop = iter(feed)
next(loop)
allow_threads(False)  # for the interpreter's exit
"""


def test_a_feed_is_not_made_without_threads_and_ends_without() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
