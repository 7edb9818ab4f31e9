"""What the suites are made of: rows, contestants that run in turns, targets. bench/compare.py runs one of them."""

import argparse
import contextlib
import dataclasses
import pathlib
import re
import statistics
import typing

from engine.programs import OURS, Failed, progress
from engine.verdicts import against_base


class Refused(Exception):
    """What was asked for cannot be; the text says why."""


@dataclasses.dataclass
class Run:
    """A contestant's turn. `figures()` gives row -> figure, or row -> column -> figure; raises Failed."""

    name: str
    what: str
    figures: typing.Callable[[], dict]


class Suite:
    """The defaults. What is "" in `rounds` and `seconds` holds where there is neither --quick nor --base."""

    about = ""
    rows = ()  # the names that --only chooses from
    peers = ()
    ours = ("leat", "base")  # how names of Leat's contestants begin: if one of them fails, the command does
    rounds, seconds = {"": 5}, None
    quick = None  # what --quick does, where there is such
    base = None  # the program that an earlier build is to have, where --base is possible
    venv = None  # the folder of the peers' Python
    programs = OURS
    needs, wants, builds = (), (), ()  # packages, and targets of the release build
    asked = ()  # targets: a list of Requirement
    to_base = ""  # the rows that --base judges: how their names begin
    missed_fails = False

    def __init__(self, name):
        self.name = name

    def add_options(self, add):
        """Those that it alone has."""

    def check(self, options):
        """Raises Refused."""

    def plan(self, options):
        """What ./run installs and builds: ("need" | "want" | "build", words). "want": it goes on without."""
        yield "need", self.needs
        yield from (("want", [packages]) for packages in self.wants)
        yield "build", self.builds

    def chosen(self, options):
        return [row for row in self.rows if re.search(options.only or "", row)]

    def wanted_peers(self, options):
        if options.peers is not None:
            return [name for name in options.peers.split(",") if name]
        return [] if options.base else list(self.peers)

    def sections(self, bench):
        """What is measured one after the other: for each, a function of the number of a round that gives its groups of
        runs. What a section needs is made before it is yielded, and removed after. Adds to bench.facts."""
        raise NotImplementedError

    def is_rate(self, row):
        """Whether more of it is better."""
        return False

    def targets(self, values, facts):
        """Those that are not of Requirement's form."""
        return []

    def tables(self, values, facts, out):
        raise NotImplementedError

    def judged(self, values, facts):
        rows = {row: of for row, of in values.items() if re.match(self.to_base, row)}
        return [*against_base(rows, self.is_rate), *(target for one in self.asked for target in one.judge(values)),
                *self.targets(values, facts)]

    def saved(self, values, facts):
        """What the JSON has beside facts, values, failures and targets: bench/results/reduce.py keeps it."""
        return {"rows": [{"row": row, "median": {name: statistics.median(of) for name, of in names.items() if of}}
                         for row, names in values.items()]}

    def save_more(self, values, path):
        """Files of its own, beside <path>.txt and <path>.json."""

    def is_ours(self, what):
        return what.split(",")[0].split(" ")[0] in self.ours


def builds_with(options, program):
    """The builds of Leat that have the program: "leat", "base" -> its folder."""
    builds = {"leat": options.programs, "base": options.base}
    return {name: folder for name, folder in builds.items() if folder and (name == "leat" or (folder / program).exists())}


def measure(suite, bench, rounds):
    """Runs all sections. In each round all of a group run once, another one first each time: what slows the machine for a
    while slows all of them. Of what fails no figure is kept, and it does not run again."""
    written = {}  # name, what -> the rows and columns that have its figures

    def take(run):
        for row, figures in run.figures().items():
            for column, figure in (figures if isinstance(figures, dict) else {run.name: figures}).items():
                bench.values.setdefault(row, {}).setdefault(column, []).append(figure)
                written.setdefault((run.name, run.what), set()).add((row, column))

    with contextlib.closing(suite.sections(bench)) as sections:
        for groups in sections:
            for turn in range(rounds):
                for group in groups(turn):
                    first = turn % max(len(group), 1)
                    for run in group[first:] + group[:first]:
                        what = f"{run.name}, {run.what}"
                        if what in bench.failures:
                            continue
                        progress(f"round {turn + 1} of {rounds}: {what}")
                        try:
                            take(run)
                        except Failed as failure:
                            bench.failures[what] = str(failure)
                            for row, column in written.pop((run.name, run.what), ()):
                                bench.values[row].pop(column, None)
            bench.save()
    progress("")


def positive(kind):
    def convert(text):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not more than 0")
        return value
    convert.__name__ = kind.__name__  # argparse tells it: "invalid int value"
    return convert


def parser_of(suite):
    parser = argparse.ArgumentParser(prog=f"./run bench {suite.name}", description=suite.about)
    add = parser.add_argument
    hidden = argparse.SUPPRESS

    def times(of):
        return "; ".join(f"{when}: {value}" if when else str(value) for when, value in of.items())

    if suite.quick:
        add("--quick", action="store_true", help=suite.quick)
    if suite.rows:
        few = list(suite.rows) if len(suite.rows) < 12 else [*suite.rows[:2], "...", suite.rows[-1]]
        add("--only", metavar="REGEX", help="the rows whose name matches, of " + " ".join(few))
    if suite.peers:
        add("--peers", metavar="A,B", help=f"of {','.join(suite.peers)}; '' for none")
    if suite.base:
        add("--base", metavar="FOLDER", type=pathlib.Path,
            help="another commit's build folder: this build's figures to that, row by row, and no peers")
    add("--rounds", type=positive(int), help=f"how often each program runs ({times(suite.rounds)})")
    if suite.seconds:
        add("--seconds", type=positive(float), help=f"how long at least ({times(suite.seconds)})")
    add("--limit", type=positive(float), default=300, metavar="SECONDS", help="the longest that a run may take")
    if suite.venv:
        add("--venv", metavar="FOLDER", type=pathlib.Path, default=suite.venv,
            help="the peers' Python environment, made if need be (%(default)s)")
    suite.add_options(add)
    add("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    add("--read", metavar="FILE", nargs="+", help="run nothing: judge and print what was saved as FILE.json")
    add("--programs", type=pathlib.Path, default=suite.programs, help=hidden)  # the folder of Leat's
    add("--directory", default=".", help=hidden)  # where paths begin
    add("--check", action="store_true", help=hidden)  # of the arguments, and no more
    add("--plan", action="store_true", help=hidden)  # what ./run has to install and to build
    return parser


def parse(suite, words):
    """The options; ends the program where they are wrong."""
    parser = parser_of(suite)
    options = parser.parse_args(words)
    for name in ("quick", "only", "peers", "base", "seconds", "venv"):  # those that the suite has not
        setattr(options, name, getattr(options, name, None))
    try:
        try:
            if suite.rows and not suite.chosen(options):
                raise Refused(f"no row matches {options.only}; there are: {' '.join(suite.rows)}")
        except re.error as error:
            raise Refused(f"{options.only}: {error}") from None
        for name in suite.wanted_peers(options):
            if name not in suite.peers:
                raise Refused(f"there is no peer {name}; there are: {' '.join(suite.peers)}")
        for name in ("venv", "programs"):
            if getattr(options, name):
                setattr(options, name, pathlib.Path(options.directory, getattr(options, name)).absolute())
        if options.save:
            options.save = pathlib.Path(options.directory, re.sub(r"\.(txt|json|svg)$", "", options.save))
            if not options.save.parent.is_dir():
                raise Refused(f"there is no folder {options.save.parent}")
        if options.base:
            options.base = pathlib.Path(options.directory, options.base).absolute() / "bench"
            if not any(options.base.glob(suite.base)):
                raise Refused(f"{options.base} has no {suite.base}; build it there")
        options.read = [pathlib.Path(options.directory, path) for path in options.read or ()]
        for path in options.read:
            if not path.is_file():
                raise Refused(f"there is no file {path}")
        suite.check(options)
    except Refused as refused:
        parser.error(str(refused))
    mode = "base" if options.base else "quick" if options.quick else ""
    options.rounds = options.rounds or suite.rounds.get(mode, suite.rounds[""])
    if suite.seconds:
        options.seconds = options.seconds or suite.seconds.get(mode, suite.seconds[""])
    return options
