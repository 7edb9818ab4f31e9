"""Hosts on this machine: network namespaces, joined by a bridge, with a shaped link each.

Each link is shaped at both ends, by a token bucket in the host and one at the bridge's port: what the
host sends and what it receives have the rate each. The bridge is in a namespace of its own; nothing is
changed outside of them.
"""

import os
import pathlib
import re
import shutil
import signal
import tempfile
import time

from engine.programs import Failed, execute as run

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = "leat-wire-"  # leat-wire-<process>-<host or bridge>
RATE = "1gbit"
# TCP hands over packets of up to 64 KiB, and ranks that share a core send late and much: with a bucket
# of 64 KiB a link carried a quarter of its rate, with one of 1 MiB (8 ms) all of it.
BURST = "1mb"
LATENCY = "100ms"  # of the queue before the bucket: nothing is dropped


def missing():
    """Why hosts cannot be made here, or None."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("mpirun", "openmpi-bin")):
        if shutil.which(program) is None:
            return f"there is no {program}, of the package {package}"
    return None


def execute(*words):
    return run(words, 60)


def remove(of_process):
    """Removes the namespaces and folders of the processes for which of_process(id) is true, and what
    runs there."""
    def is_meant(name):
        found = re.match(re.escape(PREFIX) + r"(\d+)-", name)
        return found is not None and of_process(int(found[1]))

    names = [line.split()[0] for line in execute("ip", "netns", "list").splitlines()]
    names = [name for name in names if is_meant(name)]
    until = time.monotonic() + 10
    while processes := [int(one) for name in names for one in execute("ip", "netns", "pids", name).split()]:
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > until:
            raise Failed(f"processes do not end: {processes}")
        time.sleep(0.05)
    for name in names:
        execute("ip", "netns", "del", name)  # its links go with it
    for folder in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        if is_meant(folder.name):
            shutil.rmtree(folder, ignore_errors=True)


class Hosts:
    """`with Hosts(4) as hosts: hosts.mpirun(...)`. Also removes what a killed run has left."""

    def __init__(self, number):
        self.number, self.folder = number, None
        self.prefix = f"{PREFIX}{os.getpid()}-"
        self.addresses = [f"10.77.0.{i + 1}" for i in range(number)]

    def __enter__(self):
        remove(lambda process: not pathlib.Path(f"/proc/{process}").exists())
        self.folder = tempfile.mkdtemp(prefix=self.prefix)  # of Open MPI's
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        bridge = self.prefix + "bridge"
        execute("ip", "netns", "add", bridge)
        execute("ip", "-n", bridge, "link", "add", "bridge", "type", "bridge")
        execute("ip", "-n", bridge, "link", "set", "bridge", "up")
        for i, address in enumerate(self.addresses):
            host, port = f"{self.prefix}{i}", f"port{i}"
            execute("ip", "netns", "add", host)
            execute("ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", port,
                    "netns", bridge)
            execute("ip", "-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            execute("ip", "-n", host, "link", "set", "lo", "up")
            execute("ip", "-n", host, "link", "set", "eth0", "up")
            execute("ip", "-n", bridge, "link", "set", port, "master", "bridge", "up")
            for place, device in ((host, "eth0"), (bridge, port)):
                execute("tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf", "rate", RATE,
                        "burst", BURST, "latency", LATENCY)

    def __exit__(self, *_):
        remove(lambda process: process == os.getpid())

    def mpirun(self, program, *arguments, limit):
        """What a rank on each host prints. mpirun itself is on the first host."""
        words = ["ip", "netns", "exec", self.prefix + "0", "mpirun", "--allow-run-as-root",
                 "--oversubscribe", "--bind-to", "none", "--leave-session-attached", "--host", ",".join(self.addresses),
                 "-np", self.number, "--mca", "plm_rsh_agent", HERE / "namespace_agent.sh",
                 "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                 "--mca", "oob_tcp_if_include", "eth0", program, *arguments]
        environment = {**os.environ, "LEAT_WIRE_HOST": self.prefix, "TMPDIR": self.folder}
        return run(words, limit, env=environment)
