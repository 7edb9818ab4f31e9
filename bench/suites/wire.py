"""./run bench comm --hosts N: steps of a model of 64 MB between hosts on a slow wire, beside what the link model says. The
hosts are network namespaces of this machine (root only), with a link of 1 Gb/s each; beside them the transport local in real
time. Exit status 1 where a target is missed, 77 where hosts cannot be made (local is measured all the same)."""

import argparse
import html
import json
import pathlib
import re
import sys

from engine.programs import PEERS, execute, first_line
from engine.suite import Run, Suite as Base, positive
from engine.tables import matrix
from engine.verdicts import Target, median, ratio

sys.path.insert(0, str(PEERS / "comm"))
import namespaces  # noqa: E402

NEAR = 0.10
ORDER = ("priority", "bucketed", "no overlap")  # each at most as long as the next
MOST_HOSTS = 16


def fit_text(fit):
    rates = " ".join(f"{1e3 * size / time:.0f}" for size, time in fit["samples"])
    return (f"alpha {fit['alpha_ns'] / 1e3:.0f} us, {fit['bandwidth'] / 1e6:.1f} MB/s; no size is off by more "
            f"than {100 * fit['worst']:.1f} %; 256 KiB to 16 MiB: {rates} MB/s")


def hosts_number(text):
    if not re.fullmatch(r"\d{1,4}", text) or not 2 <= int(text) <= MOST_HOSTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 2 to {MOST_HOSTS}")
    return int(text)


class Suite(Base):
    about = "Training steps between hosts on a slow wire, and on local's modelled link, beside the link model."
    rounds = {"": 1}
    wants = ("iproute2 openmpi-bin libopenmpi-dev",)
    builds = ("bench_comm_wire",)
    missed_fails = True

    def add_options(self, add):
        add("--hosts", type=hosts_number, required=True, metavar="N", help=f"so many hosts, 2 to {MOST_HOSTS}, a rank on each")
        add("--steps", type=positive(int), default=7, help="of each policy (7)")

    def is_ours(self, what):
        return True

    def sections(self, bench):
        options, program = bench.options, bench.options.programs / "bench_comm_wire"
        bench.facts |= {"steps": options.steps, "openmpi": first_line("mpirun", "--version")}

        def figures(where, run):
            measured = json.loads(run())
            bench.facts |= {f"{where}, all-reduce": fit_text(measured["all_reduce"]),
                            f"{where}, send": fit_text(measured["send"]),
                            f"{where}, notice": f"{measured['notice_ns'] / 1e3:.0f} us"}
            for one in measured["rows"]:  # all steps of a policy are rounds
                of = bench.values.setdefault(f"{where}, {one['name']}", {})
                of["step"], of["link model"] = one["steps_ns"], [one["formula_ns"]]
            return {}

        def of_hosts():
            with namespaces.Hosts(options.hosts) as hosts:
                return hosts.mpirun(program, "mpi", options.steps, limit=options.limit)

        local = f"local:{options.hosts}"
        ways = {f"{options.hosts} hosts": of_hosts, local: lambda: execute([program, local, options.steps], options.limit)}
        why = namespaces.missing()
        if why:
            bench.without("hosts", why)
            ways.pop(f"{options.hosts} hosts")
            self.status = 77
        else:
            bench.facts["hosts"] = (f"{options.hosts} network namespaces, tbf {namespaces.RATE} each way, burst "
                                    f"{namespaces.BURST}; computing is a wait")
        group = [Run(where, "steps", lambda where=where, run=run: figures(where, run)) for where, run in ways.items()]
        yield lambda turn: [group]

    def targets(self, values, facts):
        found = []
        for where in dict.fromkeys(row.split(", ")[0] for row in values):
            steps = {row.split(", ")[1]: median(values, row, "step") for row in values if row.startswith(f"{where}, ")}
            for policy in steps:
                of_model = ratio(steps[policy], median(values, f"{where}, {policy}", "link model"))
                found.append(Target(f"{where}, {policy}: from the link model, by", NEAR, abs(of_model - 1)))
            for one, other in zip(ORDER, ORDER[1:]):
                found.append(Target(f"{where}: {one} / {other}", 1, ratio(steps.get(one), steps.get(other))))
        return found

    def tables(self, values, facts, out):
        matrix(out, ["wire", "policy"], [(row.split(", "), row, "ns") for row in values], values, reference="step")

    def save_more(self, values, path):
        if values:
            pathlib.Path(f"{path}.svg").write_text(figure(values))


STYLE = """  :root { color-scheme: light dark;
    --card: #ffffff; --ink: #1c2024; --soft: #5f6b76; --line: #dfe3e6; --bar: #1f7ea3; --mark: #a8620f; }
  @media (prefers-color-scheme: dark) { :root {
    --card: #1d2125; --ink: #e6e9ec; --soft: #9aa5af; --line: #343a40; --bar: #52b6db; --mark: #e3a452; } }
  svg { background: var(--card); font: 12px system-ui, sans-serif; }
  text { fill: var(--ink); } .soft { fill: var(--soft); } .line { stroke: var(--line); }
  .heading { font-size: 15px; font-weight: 600; } .title { font-weight: 600; }
  .bar { fill: var(--bar); } .mark { stroke: var(--mark); stroke-width: 3; }"""


def figure(values):
    """The rows as bars, in SVG; the link model as marks."""
    left, width, lane, y, parts, before = 110, 690, 26, 30, [], None
    longest = max(median(values, row, name) for row in values for name in values[row])
    parts.append(f'<text x="0" y="{y}" class="heading">A step of a model of 64 MB on a wire of 1 Gb/s: '
                 "measured (bars), and by the link model (marks)</text>")
    for row in values:
        where, policy = row.split(", ")
        if where != before:
            before, y = where, y + 34
            parts.append(f'<text x="0" y="{y}" class="title">{html.escape(where)}</text>')
            y += 8
        step, model = (median(values, row, name) for name in ("step", "link model"))
        end, mark = (left + value * width / longest for value in (step, model))
        parts.append(
            f'<text x="0" y="{y + 17}">{html.escape(policy)}</text>'
            f'<rect x="{left}" y="{y + 3}" width="{end - left:.1f}" height="{lane - 6}" rx="2" class="bar"/>'
            f'<path d="M{mark:.1f} {y}V{y + lane}" class="mark"/>'
            f'<text x="{max(end, mark) + 8:.1f}" y="{y + 17}">{step / 1e6:.0f} ms'
            f'<tspan class="soft"> / {model / 1e6:.0f}</tspan></text>')
        y += lane
    parts.append(f'<path d="M{left} 60V{y + 4}" class="line"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 0 932 {y + 20}" role="img" '
            'aria-label="Steps on a slow wire, measured and by the link model">\n'
            f"<style>\n{STYLE}\n</style>\n" + "\n".join(parts) + "\n</svg>\n")
