"""The programs that are compared: how they are run, what they are of, and how their packages come here."""

import hashlib
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
BUILD = ROOT / "build" / "peers"
OURS = ROOT / "build" / "release" / "bench"
CPUS = len(os.sched_getaffinity(0))
# Programs write nothing to the tree.
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
# No library starts threads of its own beside those that are compared.
ONE_THREAD = {**ENVIRONMENT, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
TORCH = "torch==2.15.0" if sys.version_info >= (3, 11) else "torch==2.14.1"
# Without a core for each: a rank of Leat's has two threads.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "-np"]


class Failed(Exception):
    """There is no figure; the text says why."""


# --- running ----------------------------------------------------------------------------------


def stop(process):
    """It and what it has started: each may have memory to give back."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.communicate(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def execute(command, limit, **options):
    """What it prints. Ends it, and what it has started, after `limit` seconds or with this program."""
    try:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                   **{"preexec_fn": os.setpgrp, **options})  # no session: that would be an autogroup
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failed(f"took more than {limit:g} s") from None
    except BaseException:
        stop(process)
        raise
    if process.returncode != 0:
        said = [line.strip() for line in err.splitlines() if re.search(r"\w", line)]
        errors = [line for line in said if re.match(r"[\w.]+(Error|Exception)\b|wrong", line)]
        names = tuple(pathlib.Path(str(word)).name + ":" for word in command)
        own = [line for line in said if line.startswith(names)]  # and not what mpirun says of it
        raise Failed((errors[-1:] or own[:1] or said[-1:] or [f"exit status {process.returncode}"])[0])
    return out


def execute_json(command, limit, **options):
    """The last line that it prints, or all of it, as JSON."""
    out = execute(command, limit, **options)
    for text in (out, *out.strip().splitlines()[-1:]):
        try:
            return json.loads(text)
        except ValueError:
            pass
    raise Failed(f"printed what is no JSON: {out[:60]!r}")


def google_benchmark(program, names, seconds, limit, **options):
    """name -> figures, of the benchmarks whose names, without how they are timed, are `names` (regular expressions)."""
    command = [program, f"--benchmark_filter=^({'|'.join(names)}){TIMED}$", "--benchmark_format=json"]
    if seconds is not None:
        command.append(f"--benchmark_min_time={seconds}")
    found = {}
    for one in execute_json(command, limit, **options)["benchmarks"]:
        if one.get("error_occurred"):
            raise Failed(f"{one['name']}: {one['error_message']}")
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[one["time_unit"]]
        found[re.sub(f"{TIMED}$", "", one["name"])] = {**one, "ns": one["real_time"] * unit}
    if not found:
        raise Failed(f"{pathlib.Path(program).name} has no benchmark {'|'.join(names)}")
    return found


TIMED = r"(/iterations:[0-9]+)?(/repeats:[0-9]+)?(/(real|manual)_time)?"


def listed(program):
    """The benchmarks' names, without how they are timed."""
    out = execute([program, "--benchmark_list_tests=true"], 60)
    return list(dict.fromkeys(re.sub(f"{TIMED}$", "", name) for name in out.split()))


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


# --- facts ------------------------------------------------------------------------------------


def capture(command, **options):
    """What the command prints on standard output; raises where it fails."""
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE,
                          text=True, **options).stdout


def first_line(*command):
    """The first line that the command prints; "?" if there is none."""
    try:
        return capture(command, stderr=subprocess.DEVNULL).splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "?"


def package(name):
    return first_line("dpkg-query", "-W", "-f", "${Package} ${Version}", name)


def compiler():
    return first_line("g++", "--version") + ", -O3"  # as CMake's Release build, which Leat's preset is


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    distribution = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    return (f"{cpu[1] if cpu else platform.machine()}, {CPUS} CPUs, "
            f"{int(memory[1]) / 2**20:.0f} GiB, {distribution[1] if distribution else '?'}, "
            f"Linux {platform.release()}")


def commit():
    """In a bundle, which is no checkout, that of build.json."""
    built = ROOT / "build.json"
    if built.exists():
        return json.loads(built.read_text())["commit"]
    name = first_line("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    is_clean = first_line("git", "-C", ROOT, "status", "--porcelain") == "?"  # prints no line
    return name + ("" if is_clean else " with changes")


# --- building and installing ------------------------------------------------------------------


def built(program, sources, command, **options):
    """Runs the command where the program is older than its sources. None, or why there is no program."""
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        program.unlink(missing_ok=True)
        print(f"building {program.name}", file=sys.stderr)
        log = program.with_name(program.name + ".log")
        if not logged(log, *command, **options) or not program.exists():
            return f"it does not build; see {log}"
        program.touch()
    return None


def logged(log, *command, mode="w", **options):
    """Whether the command succeeds; the log has what it says."""
    with open(log, mode) as out:
        try:
            return subprocess.run([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT,
                                  **options).returncode == 0
        except OSError as error:
            print(error, file=out)
            return False


def environment(folder, requirements, beside=None):
    """A Python in `folder` with the packages that it lacks, and why some could not be installed. `beside`: one that
    stands in a folder of its own, since it has the names of another."""
    folder = pathlib.Path(folder)
    python, stamp, log = folder / "bin" / "python3", folder / "leat_requirements", folder / "pip.log"
    wanted = hashlib.sha256("\n".join([*requirements, str(beside), sys.version]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text().split("\n")[0] == wanted:
        return python, [line for line in stamp.read_text().split("\n")[1:] if line]
    print(f"installing {', '.join(requirements)[:60]} ... into {folder}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    if not logged(log, sys.executable, "-m", "venv", folder):
        raise Failed(f"there is no Python environment {folder}; see {log}")

    def install(*what):
        return logged(log, python, "-m", "pip", "install", "--retries=1", "--disable-pip-version-check", *what, mode="a")

    missing = []
    if not install(*requirements):
        missing = [f"{one.split(';')[0]} cannot be installed; see {log}" for one in requirements if not install(one)]
    if beside:
        target = folder / re.split("[=<>]", beside)[0]
        if not install("--upgrade", "--target", target, "--no-deps", beside):
            missing.append(f"{beside} cannot be built; see {log}")
    stamp.write_text("\n".join([wanted, *missing]))
    return python, missing


def requirements(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def torch_environment(folder):
    """The Python of `folder` with PyPI's torch and all of its libraries (5.5 GB), installed where it lacks them."""
    python = pathlib.Path(folder) / "bin" / "python3"
    asked = "import importlib.metadata as m; m.version('numpy'); print('torch==' + m.version('torch'))"
    if first_line(python, "-c", asked).split("+")[0] == TORCH:
        return python
    python, missing = environment(folder, [TORCH, "numpy"])
    if missing:
        raise Failed("; ".join(missing))
    return python
