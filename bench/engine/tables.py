"""Figures as text."""

import statistics

from engine.verdicts import median, ratio


def columns(lines, out):
    """The first line is the head; the last cell of each line is a note."""
    lines = [line + [""] * (max(map(len, lines)) - len(line)) for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:])]
        print("  ".join(cells + [line[-1]]).rstrip(), file=out)
    print(file=out)


LARGER = {"ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us")), "B": ((1e6, "MB"),), "B/s": ((1e9, "GB/s"),)}


def scale(value, unit):
    """How large a unit is, in `unit`, that suits the value, and its name."""
    for size, name in LARGER.get(unit, ()):
        if value >= size * (1 if name in ("s", "GB/s") else 10):
            return size, name
    return 1, unit


def digits(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def scaled(value, unit):
    size, name = scale(value, unit)
    return f"{digits(value / size)}{'' if name in ('', 'x') else ' '}{name}"


def rate(value):
    return f"{value / 1e3:.0f} k" if value >= 1e4 else f"{value:.0f}"


def span(of, show=digits):
    return f"{show(min(of))}..{show(max(of))}"


class Notes:
    """What marks cells, and is told below the tables."""

    def __init__(self):
        self.numbers = {}

    def mark(self, *notes):
        return " ".join(f"*{self.numbers.setdefault(note, len(self.numbers) + 1)}" for note in notes if note)

    def print(self, out, *legend):
        lines = [*legend, *(f"*{at} {note}" for note, at in self.numbers.items())]
        if lines:
            print(*lines, "", sep="\n", file=out)


def matrix(out, head, lines, values, names=None, reference=None, note=lambda name, row: None, notes=None):
    """A line for each row, a column for each contestant: medians. lines: (cells, row, unit). Where there is a
    reference, its column comes first, with its spread, and the others have its unit and how many times its figure."""
    notes = notes or Notes()
    lines = [line for line in lines if any(values.get(line[1], {}).values())]
    found = dict.fromkeys(name for _, row, _ in lines for name, of in values[row].items() if of)
    shown = [name for name in (found if names is None else names) if name in found and name != reference]
    if not lines:
        return
    first = reference in found
    table = [[*head, *([reference, "min..max"] if first else []), *shown]]
    for cells, row, unit in lines:
        ours, line = median(values, row, reference), list(cells)
        size, name = scale(ours or 1, unit)
        if ours is not None:
            line += [scaled(ours, unit), span([value / size for value in values[row][reference]])]
        elif first:
            line += ["", ""]
        for one in shown:
            theirs = median(values, row, one)
            if theirs is None:
                line.append("")
                continue
            mark = notes.mark(note(one, row))
            line.append(f"{digits(theirs / size)}{mark} {digits(ratio(theirs, ours) or 0)}x" if ours is not None
                        else scaled(theirs, unit) + mark)
        table.append(line)
    columns([line + [""] for line in table], out)


def listing(out, head, of, show, more=(), last=lambda name: ""):
    """A line for each contestant of one row: its median, spread, and `more`: (head, function of its name)."""
    lines = [[head, "median", "min..max", "runs", *(title for title, _ in more), ""]]
    for name, figures in of.items():
        lines.append([name, show(statistics.median(figures)), span(figures, show), str(len(figures)),
                      *(text(name) for _, text in more), last(name)])
    if len(lines) > 1:
        columns(lines, out)
