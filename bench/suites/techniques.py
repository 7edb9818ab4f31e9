"""./run bench techniques: what each technique of csp's core buys. The sources are copied once for each technique, which is
taken out by the few lines below, and the benchmarks of all copies run in turns.

The lines are compared without comments. It is an error if a file does not have them exactly once; --check looks for all.
"""

import re
import shutil
import sys

from engine.programs import BUILD, ROOT, Failed, capture, google_benchmark, logged
from engine.suite import Refused, Run, Suite as Base
from engine.tables import matrix

# name: (what is done instead, [(file, the lines, their replacement)])
TECHNIQUES = {
    "run-next": (
        "a woken fiber stands at the end of the ring",
        [("csp/sched/worker_switch.h", "      !run_next_.put(fiber)) {", "      true) {"),
         ("csp/sched/worker.cpp", "  if (!run_next_.put(fiber)) {", "  if (true) {")]),
    "handoff": (
        "a fiber woken from a long slice stays with its waker",
        [("csp/sched/worker.cpp", "  if (long_slices_.get() && home == nullptr && !alone_) {", "  if (false) {"),
         ("csp/sched/worker.cpp", "  skips_run_next_.set(long_ones || shuffles_);",
          "  skips_run_next_.set(shuffles_);")]),
    "direct switch": (
        "every switch goes through the worker's own stack",
        [("csp/sched/worker_switch.h",
          "  if (fiber->has_stack_.get() || bind_cached_stack(*fiber)) return fiber;\n", "")]),
    "lazy stacks": (
        "a stack is bound at the launch",
        [("csp/sched/scheduler_core.cpp", "  if (options.stack_size != 0) {\n",
          "  if (worker != nullptr && options.stack_size == 0) {\n"
          "    static_cast<void>(worker->bind_stack(fiber));\n  }\n"
          "  if (options.stack_size != 0) {\n")]),
    "spinning": (
        "a plain thread that waits sleeps at once",
        [("csp/wait/waiter.cpp", "  if (longest == 0) return false;", "  if (longest > 0) return false;")]),
    "counters": (
        "a channel counts no values that pass its ring by, and reads no clock",
        [("csp/channel/core.h", "  std::uint64_t handed_over_ LEAT_GUARDED_BY(lock_) = 0;",
          "  struct {\n    void operator++() noexcept {}\n"
          "    operator std::uint64_t() const noexcept { return 0; }\n  } handed_over_;"),
         ("csp/channel/core.cpp", "    one.node.since = coarse_now(worker);\n", ""),
         ("csp/channel/select_core.cpp", "      const Cycles now = coarse_now(worker_);\n",
          "      const Cycles now = 0;\n"),
         ("csp/channel/core.cpp",
          "  const Cycles now = coarse_now(worker);\n  return now > node.since ? now - node.since : 0;\n",
          "  static_cast<void>(node), static_cast<void>(worker);\n  return 0;\n")]),
}

PROBLEMS = {  # benchmark program: names
    "channel": "(ChanUncontended|ChanSync|Spsc/1|Spsc/128|Mpmc/128|ThreadToFiber)/workers:[12]",
    "select": "(Select2/0|Select8/128)/workers:[12]",
    "spawn": "Spawn/256/workers:[12]",
    "pipeline": "(Ring/10|Ring/1000|RingShuffled/1000|Sieve/2000)/workers:[12]|CoarseJobs/(1|17)/workers:2",
    "double_buffer": "DoubleBuffer/(64|256|1024|4096)/1/workers:2",
}
LITERAL_OR_COMMENT = re.compile(
    r'''"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|[ \t]*(?://[^\n]*|/\*.*?\*/)''', re.DOTALL)


def without_comments(text):
    """C++ source text without its comments and without the lines that become empty."""
    text = LITERAL_OR_COMMENT.sub(lambda found: found[0] if found[0][0] in "\"'" else "", text)
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def changed_files(name):
    """The changed sources, without comments: {file: text}."""
    texts = {}
    for file, old, new in TECHNIQUES[name][1] if name in TECHNIQUES else ():
        if file not in texts:
            texts[file] = without_comments((ROOT / file).read_text())
        if texts[file].count(old) != 1:
            raise Refused(f"{name}: {file} has these lines {texts[file].count(old)} times, not once; mend "
                          f"bench/suites/techniques.py:\n{old}")
        texts[file] = texts[file].replace(old, new)
    return texts


def build(name):
    """The folder with the benchmarks of a copy of the sources that lacks the technique."""
    print(f"building {name}", file=sys.stderr)
    where = BUILD / "techniques" / name.replace(" ", "-")
    source, changed = where / "source", changed_files(name)
    for file in capture(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"]).splitlines():
        if not (ROOT / file).is_file() or file.startswith("examples/data/"):
            continue
        text = changed[file].encode() if file in changed else (ROOT / file).read_bytes()
        copy = source / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.is_file() or copy.read_bytes() != text:  # or everything is compiled again
            copy.write_bytes(text)
            shutil.copymode(ROOT / file, copy)
    log = where / "build.log"
    if not logged(log, "cmake", "-S", source, "-B", where / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                  "-DLEAT_BUILD_TESTS=OFF", "-DLEAT_BUILD_EXAMPLES=OFF",
                  "-DLEAT_BUILD_BENCH=ON", "-DLEAT_CUDA=OFF") or not logged(
            log, "cmake", "--build", where / "build", "--target", *(f"bench_csp_{program}" for program in PROBLEMS), mode="a"):
        raise Failed(f"the core without {name} does not build; see {log}")
    return where / "build" / "bench"


class Suite(Base):
    about = "bench/csp with each technique of the core and without it."
    rows = tuple(TECHNIQUES)
    ours = ("complete", "-")
    rounds = {"": 12}
    seconds = {"": 0.1}

    def check(self, options):
        for name in TECHNIQUES:
            changed_files(name)

    def sections(self, bench):
        options = bench.options
        folders = {"complete": build("complete"), **{f"- {name}": build(name) for name in bench.rows}}
        bench.facts |= {f"without {name}": TECHNIQUES[name][0] for name in bench.rows}

        def run(variant, program):
            return Run(variant, program, lambda: {name: one["ns"] for name, one in google_benchmark(
                folders[variant] / f"bench_csp_{program}", [PROBLEMS[program]], options.seconds, options.limit).items()})

        yield lambda turn: [[run(variant, program) for variant in folders] for program in PROBLEMS]

    def tables(self, values, facts, out):
        matrix(out, ["benchmark"], [([row], row, "ns") for row in values], values, reference="complete")
