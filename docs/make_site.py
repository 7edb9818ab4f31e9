#!/usr/bin/env python3
"""Lays out the site: every page of Markdown in the tree, and the reference from the public headers.

    python3 docs/make_site.py OUT        writes OUT/pages and OUT/mkdocs.yml, for MkDocs; needs doxygen
    python3 docs/make_site.py --links    only looks for dead links in the tree's pages

Links in the pages are those of the tree. Here a link to a public header leads to its page of the
reference, and one to another source file to a page that shows it. Exit status 1, with a list, for dead
links and for public types and functions without a docstring.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import reference  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".cu": "cpp", ".c": "c", ".py": "python", ".sh": "bash", ".txt": "text"}
CONTENTS = [  # the site's sections, in order
    ("Guide", ["docs/guide/index.md"] + [f"docs/guide/{name}.md" for name in (
        "architecture", "channels", "time", "devices", "prefetcher", "order", "failures", "overlap")]),
    ("How-to", ["docs/how-to/index.md"] + [f"docs/how-to/{name}.md" for name in (
        "plug-in", "python", "dataloader", "compose", "images", "columns", "several-devices", "data-parallel", "schedules",
        "pipeline", "checkpoint", "sockets", "watch", "trace", "deadlock", "explore", "boost-fiber", "install", "debug")]),
    ("Reference", []),
    ("Inside", ["csp/README.md", "gpu/README.md", "gpu/cuda/README.md", "feeder/README.md", "comm/README.md",
                "pipeline/README.md", "overlap/README.md", "python/README.md"]),
    ("Project", ["CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "examples/08_real_trainer/README.md"]),
]


def pages_of_tree():
    """Every page of Markdown, but for what is built or hidden."""
    found = []
    for folder, inside, files in os.walk(ROOT):
        inside[:] = sorted(name for name in inside if not name.startswith(".") and name != "build")
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files if name.endswith(".md")]
    return sorted(found)


def staged(path):
    """Where a page of the tree is on the site."""
    return path.removeprefix("docs/") if path != "README.md" else "index.md"


def outside_code(text):
    """(line, whether it is code) for each line."""
    fence = None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence is None and mark:
            fence = mark[1]
            yield line, True
        elif fence is not None:
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = None
            yield line, True
        else:
            yield line, line.startswith("    ") and not re.match(r"\s+[-\d]", line)


def anchors(path):
    """Of a page's headings, as the tree's viewers and MkDocs name them."""
    found = set()
    for line, is_code in outside_code((ROOT / path).read_text()):
        heading = None if is_code else re.match(r"#+ (.*)", line)
        if heading:
            found.add(re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading[1]).lower()).strip().replace(" ", "-"))
    return found


def bars(line):
    """In a table, a bar in code is escaped; MkDocs would show the escape."""
    if not line.startswith("|"):
        return line
    return re.sub(r"`([^`]*\\\|[^`]*)`",
                  lambda code: f"<code>{code[1].replace(chr(92) + '|', '&#124;').replace('<', '&lt;')}</code>", line)


class Links:
    """Follows the links of pages; `dead` has those that lead nowhere, `sources` the files that are shown."""

    def __init__(self, pages, headers):
        self.pages, self.headers = set(pages), set(headers)
        self.dead, self.sources = [], set()

    def target(self, page, link):
        """Where a link leads on the site, or None: nowhere there, though it is not dead."""
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not (ROOT / target).exists() or target.startswith(".."):
            self.dead.append(f"{page}: {link}: there is no {target}")
            return None
        if (ROOT / target).is_dir():
            target = next((readme for readme in (f"{target}/README.md", f"{target}/index.md")
                           if readme in self.pages), target)
        if target in self.pages:
            if anchor and anchor not in anchors(target):
                self.dead.append(f"{page}: {link}: {target} has no such heading")
            return staged(target)
        if target in self.headers:
            return reference.Reference.page_of(target)
        if pathlib.Path(target).suffix in (".svg", ".png"):
            self.sources.add(target)
            return target
        if (ROOT / target).is_file() and (ROOT / target).stat().st_size < 200_000:
            self.sources.add(target)
            return f"source/{target}.md"
        return None

    def rewrite(self, page, text):
        """The page's text, with links as they are on the site."""
        here = os.path.dirname(staged(page)) or "."

        def one(match):
            words, link = match[1], match[2]
            if re.match(r"[a-z]+:", link):
                return match[0]
            target = self.target(page, link)
            if target is None:
                return words[1:-1] if not words.startswith("!") else words
            anchor = "#" + link.partition("#")[2] if "#" in link else ""
            return f"{words}({os.path.relpath(target, here)}{anchor})"

        return "\n".join(line if is_code else bars(LINK.sub(one, line)) for line, is_code in outside_code(text))


def source_page(path):
    text = (ROOT / path).read_text()
    language = LANGUAGES.get(pathlib.Path(path).suffix, "text")
    fence = "````"
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def navigation(pages, refs):
    lines = ["nav:", "  - Leat: index.md"]
    for title, listed in CONTENTS:
        lines.append(f"  - {title}:")
        if title == "Reference":
            lines.append("      - reference/index.md")
            folders = {}
            for page in refs:
                folders.setdefault(os.path.dirname(page).removeprefix("reference/"), []).append(page)
            for folder, inside in folders.items():
                lines.append(f"      - leat/{folder}:")
                lines += [f"          - {os.path.basename(page)[:-3]}.h: {page}" for page in inside]
            continue
        lines += [f"      - {staged(page)}" for page in listed]
        if title == "Project":
            more = [page for page in pages if page.startswith("bench/")]
            lines += ["      - Measurements:"] + [f"          - {staged(page)}" for page in more]
    return "\n".join(lines) + "\n"


def reference_index(made):
    rows = []
    for page, text in made.items():
        first = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[2].split()))[0]
        header = page.removeprefix("reference/")[:-3] + ".h"
        rows.append(f"| [leat/{header}]({page.removeprefix('reference/')}) | {first} |")
    return ("# Reference\n\nEvery public header. The text comes from the headers' docstrings.\n\n"
            "| header | |\n|---|---|\n" + "\n".join(rows) + "\n")


def main():
    pages = pages_of_tree()
    links = Links(pages, reference.public_headers(ROOT))
    listed = {page for _, inside in CONTENTS for page in inside}
    links.dead += [f"{page}: is in no section (CONTENTS)" for page in pages
                   if page.startswith("docs/") and page not in listed]
    texts = {page: links.rewrite(page, (ROOT / page).read_text()) for page in pages}
    if sys.argv[1:] == ["--links"]:
        print("\n".join(links.dead) or f"{len(pages)} pages, no dead link")
        sys.exit(1 if links.dead else 0)
    if len(sys.argv) != 2:
        sys.exit(__doc__)

    out = pathlib.Path(sys.argv[1]).resolve()
    refs = reference.Reference(ROOT, out)
    made = refs.pages()
    files = {staged(page): text for page, text in texts.items()}
    files["index.md"] = "---\nhide: [navigation]\n---\n\n" + files["index.md"]
    for page, text in made.items():  # their links are from the site's root
        up = os.path.relpath(".", os.path.dirname(page))
        files[page] = re.sub(r"\]\(/(reference/[^)]*)\)", rf"]({up}/\1)", text)
    files["reference/index.md"] = reference_index(made)
    for path in links.sources:
        if path.endswith((".svg", ".png")):
            files[path] = (ROOT / path).read_bytes()
        else:
            files[f"source/{path}.md"] = source_page(path)
    shutil.rmtree(out / "pages", ignore_errors=True)
    files["site.css"] = (ROOT / "docs/site.css").read_text()
    for path, text in files.items():
        place = out / "pages" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
    shutil.copytree(ROOT / "docs/theme", out / "theme", dirs_exist_ok=True)
    (out / "mkdocs.yml").write_text((ROOT / "docs/mkdocs.yml").read_text() + navigation(pages, made))
    wrong = links.dead + [f"{one} has no docstring" for one in refs.undocumented]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
