"""The programs that are compared: Leat's benchmarks and the peers' loaders."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess

from rows import AHEAD, FINALISTS, SMALL, VARIANTS

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    pass


def stop(process):
    """It and what it has started: each may have memory to give back."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.communicate(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def execute(command, limit, **options):
    try:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp,
                                   **options)  # no session: that would be an autogroup without this one's nice
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failed(f"took more than {limit:g} s") from None
    except KeyboardInterrupt:
        stop(process)
        raise
    if process.returncode != 0:
        said = err.strip().splitlines()
        what = [line for line in said if re.match(r"[\w.]+(Error|Exception)\b|wrong", line)]
        raise Failed((what or said or [f"exit status {process.returncode}"])[-1])
    return out


class Leat:
    """Of C++. `finalists`: of its variants, how many run in every round."""

    is_leat = True

    def __init__(self, programs, data, quick, name="leat", finalists=FINALISTS):
        self.name, self.finalists, self.programs = name, finalists, programs
        self.environment = {**os.environ, "LEAT_FEED_DATA": str(data)}
        if quick:
            self.environment["LEAT_FEED_QUICK"] = "1"
        listed = execute([programs / "bench_feeder_feed", "--benchmark_list_tests=true"], 60,
                         env=self.environment)
        problems = {line.split("/")[0] for line in listed.splitlines()}
        self.variants = {problem: [*VARIANTS, *(AHEAD if problem in SMALL else ())] for problem in problems}
        self.versions = {}

    def benchmarks(self, program, pattern, seconds, limit):
        options = [f"--benchmark_filter={pattern}", "--benchmark_format=json"]
        if seconds is not None:
            options.append(f"--benchmark_min_time={seconds}")
        found = json.loads(execute([self.programs / f"bench_feeder_{program}", *options], limit,
                                   env=self.environment))["benchmarks"]
        if not found:
            raise Failed(f"no benchmark matches {pattern}")
        for one in found:
            if one.get("error_occurred"):
                raise Failed(one["error_message"])
        return found

    def run(self, problem, variant, seconds, limit):
        one = self.benchmarks("feed", f"^{problem}/{(VARIANTS | AHEAD)[variant]}/real_time$", seconds, limit)
        return one[0]["items_per_second"]


class Peer:
    """A loader in Python: `program`, or this folder's of that name."""

    def __init__(self, name, python, data, program=None, finalists=FINALISTS):
        self.name, self.python, self.data, self.finalists = name, python, data, finalists
        self.program, self.is_leat = program or HERE / f"{name}_loader.py", program is not None
        # No library starts threads of its own beside the loader's; nothing is written to the tree.
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                            "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.variants, self.versions = collections.defaultdict(list), {}
        for line in execute([python, self.program], 300, env=self.environment).splitlines():
            kind, first, second = line.split()
            if kind == "variant":
                self.variants[first].append(second)
            else:
                self.versions[first] = second

    def run(self, problem, variant, seconds, limit):
        said = execute([self.python, self.program, problem, variant, seconds, self.data], limit,
                       env=self.environment)
        return json.loads(said.splitlines()[-1])["samples_per_second"]
