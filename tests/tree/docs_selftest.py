#!/usr/bin/env python3
"""Usage: docs_selftest.py <root of the tree>

Expects make_site.py to find dead links and nothing else, reference.py to want docstrings, and reduce.py
to keep what it has kept before.
"""

import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv[1]).resolve()
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "bench/results")]
import make_site  # noqa: E402
import reduce  # noqa: E402
import reference  # noqa: E402

failures = []


def expect(what, expected, found):
    if found != expected:
        failures.append(f"{what}: expected {expected!r}, found {found!r}")


def links(page):
    """Of a small tree: the page's dead links, and its text on the site."""
    with tempfile.TemporaryDirectory() as scratch:
        make_site.ROOT = pathlib.Path(scratch)
        for path, text in {"README.md": page, "docs/guide/a.md": "# A page\n\n## A `part`\n",
                           "csp/channel.h": "// A header.\n", "main.cpp": "int main() {}\n"}.items():
            (make_site.ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (make_site.ROOT / path).write_text(text)
        found = make_site.Links(make_site.pages_of_tree(), ["csp/channel.h"])
        return found.rewrite("README.md", page), [dead.split(": ")[1] for dead in found.dead]


expect("a page", ("[a](guide/a.md#a-part)", []), links("[a](docs/guide/a.md#a-part)"))
expect("a public header", ("[h](reference/csp/channel.md)", []), links("[h](csp/channel.h)"))
expect("a source file", ("[m](source/main.cpp.md)", []), links("[m](main.cpp)"))
expect("a page that is not there", ["docs/b.md"], links("[b](docs/b.md)")[1])
expect("a heading that is not there", ["docs/guide/a.md#b"], links("[b](docs/guide/a.md#b)")[1])
expect("a link out of the tree", ["../b.md"], links("[b](../b.md)")[1])
expect("code", [], links("```cpp\n[b](docs/b.md)\n```\n\n    [b](docs/b.md)")[1])
expect("a bar in a table's code", "| <code>a&#124;b</code> |", links("| `a\\|b` |")[0])

source = ["/// Documented.", "template <class T>", "void send(T value,  // by value",
          "          int /*unused*/) const {", "  f();", "}"]
expect("a declaration", "template <class T>\nvoid send(T value,\n          int unused) const",
       reference.declaration(source, 3))
expect("the head of a header", "Channels.\n\n**Example**\n\n```cpp\nint a;\n```\n\nMore:\n\n - one\n - two",
       reference.head(["// Channels.", "//", "// Example", "//   int a;", "//", "// More:", "//  - one", "//  - two",
                       "#pragma once"]))

raw = {"facts": {"commit": "1"}, "results": [
    {"problem": "a", "workers": 1, "metric": "ns", "values": {"leat": [3, 1, 2], "go": []}, "median": {"leat": 2}}]}
kept = reduce.reduced(raw)
expect("a summary", [{"problem": "a", "workers": 1, "metric": "ns", "median": {"leat": 2}}], kept["results"])
expect("a summary's summary", kept, reduce.reduced(json.loads(reduce.text(kept))))

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
