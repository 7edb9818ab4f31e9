"""The facts that go with the figures of a comparison: the machine, the tools and the commit."""

import os
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def capture(command, **options):
    """What the command prints on standard output; raises where it fails."""
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE,
                          text=True, **options).stdout


def first_line(*command):
    """The first line that the command prints; "?" if there is none."""
    try:
        return capture(command).splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "?"


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    distribution = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    return (f"{cpu[1] if cpu else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, "
            f"{int(memory[1]) / 2**20:.0f} GiB, {distribution[1] if distribution else '?'}, "
            f"Linux {platform.release()}")


def commit():
    name = first_line("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    is_clean = first_line("git", "-C", ROOT, "status", "--porcelain") == "?"  # prints no line
    return name + ("" if is_clean else " with changes")
