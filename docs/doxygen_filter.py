#!/usr/bin/env python3
"""Prints a header for Doxygen, with as many lines as it has.

A comment behind a member or an enumerator, and in C headers any comment before a declaration, is a
docstring here; Doxygen wants a mark for that.
"""

import re
import sys

MEMBER = re.compile(r"^(\s+[^/\s#][^/]*[,;{]|\s+\w+)(\s+)//(?=\s)")
GOES_ON = re.compile(r"^(\s{4,})//(?=\s)")


def cpp(lines):
    of_member = -1  # the column of a comment behind a member, which may go on below
    for line in lines:
        member = MEMBER.match(line)
        if member and not re.match(r"\s*(return|case|if|for|while|public|private|protected)\b", line):
            of_member = member.end() - 2
            yield line[:of_member] + "///<" + line[of_member + 2:]
        elif of_member >= 0 and GOES_ON.match(line) and line.index("//") == of_member:
            yield line[:of_member] + "///<" + line[of_member + 2:]
        else:
            of_member = -1
            yield line


def c(lines):
    first = True
    for line in lines:
        if not first and re.match(r"^\s*/\*(?=\s)(?!\s*(---|NOLINT))", line):
            line = line.replace("/*", "/**", 1)
        elif re.match(r"^\s*[^/\s].*\s/\*(?=\s)", line):
            line = re.sub(r"\s/\*(?=\s)", " /**<", line, count=1)
        first = False
        yield line


def main():
    with open(sys.argv[1]) as header:
        lines = header.read().split("\n")
    sys.stdout.write("\n".join((c if lines[0].startswith("/*") else cpp)(lines)))


if __name__ == "__main__":
    main()
