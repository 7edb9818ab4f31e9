"""The reference: a page of Markdown for each public header, from Doxygen's XML and the header itself.

Declarations are shown as they stand in the header; what is said of them comes from their docstrings, and
the head of a page from the comment at the head of the header.
"""

import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET



def public_headers(root):
    """Those that cmake/public_headers.cmake lists, and csp/explore.h, which is of builds for tests."""
    listed = (root / "cmake/public_headers.cmake").read_text()
    listed = listed[:listed.index("REMOVE_ITEM")]
    patterns = re.findall(r'"\$\{PROJECT_SOURCE_DIR\}/([^"]+\.h)"', listed)
    patterns += re.findall(r"[\s(](feeder/[\w/]+\.h)\b", listed)
    sources = re.search(r"foreach\(source ([^)]*)\)", listed)[1].split()
    patterns += [f"feeder/sources/{name}.h" for name in sources]
    found = []
    for pattern in patterns:
        matching = sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))
        if not matching:
            raise SystemExit(f"docs/reference.py: there is no {pattern}")
        found += matching
    return found


# In public headers for the templates' sake, and named by no user: not part of the reference.
INTERNAL = re.compile(r"^leat::(\w+::)?(CaseChannel|RecvCase|SendCase|DeadlineCase|EarliestDeadline|NoHandler|Alarm"
                      r"|DescriptorCase|DescriptorWatch|DescriptorWatch::OwnChannel|DescriptorReady"
                      r"|CompletionState|Signal|BoostFiberWaiter|DoneHandler|DoneSubscription|\w+::Iterator)$"
                      r"|^(earliest_deadline|act_on|act_on_deadline|select_one|select_together|select_several"
                      r"|otherwise_at_once|kCommunications|kElementType|throw_channel_closed|rethrow_cause"
                      r"|close_channel|run_main|launch_fiber|run_blocking|io_pool_of_caller|explore_program"
                      r"|replay_program)$")


def doxygen(root, headers, out):
    """Doxygen's warnings are errors."""
    shutil.rmtree(out / "xml", ignore_errors=True)
    config = (root / "docs/Doxyfile").read_text()
    config += f"OUTPUT_DIRECTORY = {out}\nINPUT = {' '.join(headers)}\n"
    done = subprocess.run(["doxygen", "-"], input=config, text=True, cwd=root, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"doxygen: {done.stderr.strip().replace(str(root) + '/', '')}")


# ---- The head of a header

def paragraphs(lines):
    """A comment as Markdown: what is indented is code, or a list where it begins with a dash."""
    out, code = [], False
    for line in lines:
        is_code = re.match(r" {2,}\S", line) and not re.match(r" +(- |\d\. )", line)
        in_list = out and not code and re.match(r" {0,3}(- |\d\. | {2,}\S)", out[-1]) and re.match(r" {3,}\S", line)
        if in_list:
            out.append(line)
        elif is_code and not code:
            is_example = any(one.startswith(("Example", "**Example")) for one in out[-2:])
            if out and out[-1].strip():
                if out[-1].startswith("Example"):
                    out[-1] = f"**{out[-1].strip().rstrip(':')}**"
                out.append("")
            out += ["```cpp" if is_example else "```text", line]
            code = True
        elif code and not is_code and line.strip():
            while not out[-1].strip():
                out.pop()
            out += ["```", "", line]
            code = False
        else:
            if re.match(r" ?- ", line) and out and out[-1].strip() and not re.match(r" *(- | {2})", out[-1]):
                out.append("")
            out.append(line)
    if code:
        out.append("```")
    return [dedent_code(out[i], i, out) for i in range(len(out))]


def dedent_code(line, at, lines):
    """Code in a comment stands two columns in."""
    begins = [i for i in range(at) if lines[i].startswith("```")]
    return line[2:] if len(begins) % 2 == 1 and line.startswith("  ") and not line.startswith("```") else line


def head(source):
    """The comment at the head of a header: its first sentence, and the rest."""
    lines = []
    if source[0].startswith("/*"):
        for line in source:
            lines.append(re.sub(r"^ ?\*/?|^/\*", "", line).removesuffix("*/"))
            if "*/" in line:
                break
    else:
        for line in source:
            if not line.startswith("//"):
                break
            lines.append(line[2:])
    lines = [line[1:] if line.startswith(" ") else line for line in lines]
    return "\n".join(paragraphs(lines)).strip()


# ---- Docstrings

SPECIAL = re.compile(r"([\\*_|\[\]])")


class Text:
    """XML of a docstring as Markdown; references become links to where `places` says."""

    def __init__(self, places, page):
        self.places, self.page = places, page

    def plain(self, text):
        return SPECIAL.sub(r"\\\1", text or "").replace("<", "&lt;")

    def ref(self, node):
        name = self.plain("".join(node.itertext()))
        place = self.places.get(node.get("refid"))
        if place is None:
            return name
        page, anchor = place
        return f"[{name}]({'' if page == self.page else '/' + page}#{anchor})"

    def inline(self, node):
        out = self.plain(node.text)
        for child in node:
            out += self.one(child) + self.plain(child.tail)
        return out

    def one(self, child):
        tag = child.tag
        if tag == "computeroutput":
            return "`" + "".join(child.itertext()) + "`"
        if tag == "ref":
            return self.ref(child)
        if tag in ("bold", "emphasis"):
            mark = "**" if tag == "bold" else "*"
            return mark + self.inline(child).strip() + mark
        if tag == "ulink":
            return f"[{self.inline(child)}]({child.get('url')})"
        if tag in ("linebreak", "sp"):
            return " "
        if tag in ("itemizedlist", "orderedlist"):
            mark = "- " if tag == "itemizedlist" else "1. "
            items = [self.block(item).strip().replace("\n", "\n    ") for item in child.findall("listitem")]
            return "\n\n" + "\n".join(mark + item for item in items) + "\n\n"
        if tag in ("programlisting", "verbatim", "preformatted"):
            lines = ["".join(" " if piece.tag == "sp" else piece.text or "" for piece in line.iter())
                     for line in child.findall("codeline")] or [child.text or ""]
            return "\n\n```cpp\n" + "\n".join(lines).strip("\n") + "\n```\n\n"
        if tag == "simplesect":
            return f"\n\n**{child.get('kind').capitalize()}:** {self.block(child).strip()}\n\n"
        if tag == "parameterlist":
            items = ["- `" + "".join(item.find("parameternamelist").itertext()).strip() + "`: " +
                     self.block(item.find("parameterdescription")).strip()
                     for item in child.findall("parameteritem")]
            return "\n\n" + "\n".join(items) + "\n\n"
        if tag == "table":
            rows = [" | ".join(" ".join(self.block(cell).split()) for cell in row.findall("entry"))
                    for row in child.findall("row")]
            line = "|---" * len(child.find("row").findall("entry")) + "|"
            return "\n\n" + "\n".join([f"| {rows[0]} |", line] + [f"| {row} |" for row in rows[1:]]) + "\n\n"
        if tag == "para":
            return self.inline(child)
        named = {"ndash": "–", "mdash": "—", "nonbreakablespace": " ", "hellip": "…"}
        return named.get(tag) or self.inline(child)

    def block(self, node):
        return "\n\n".join(self.inline(para) if para.tag == "para" else self.one(para) for para in node)

    def docs(self, node):
        parts = [self.block(node.find(name)).strip() for name in ("briefdescription", "detaileddescription")
                 if node.find(name) is not None]
        return re.sub(r"\n{3,}", "\n\n", "\n\n".join(part for part in parts if part))


# ---- Declarations

def declaration(source, line):
    """The declaration whose name stands in that line (from 1), as it is written, without its body."""
    first = line - 1
    while first > 0:
        above = re.sub(r"\s+//.*$|\s+/\*.*\*/$", "", source[first - 1]).strip()
        if not above or above.startswith(("//", "/*", "*", "#")) or above.endswith((";", "{", "}", ":", "*/")):
            break
        first -= 1
    text, depth = [], 0
    for row in source[first:]:
        row = re.sub(r"\s+//.*$|\s+/\*.*\*/$|\s+/\*(?!.*\*/).*$", "", row)
        row = re.sub(r"/\*(\w+)\*/", r"\1", row)  # a parameter without a name
        kept = ""
        for at, char in enumerate(row):
            depth += char in "(["
            depth -= char in ")]"
            is_body = char == "{" and depth == 0
            if depth == 0 and (char == ";" or is_body or (char == ":" and row[at - 1:at] in (" ", "") and
                                                          row[at + 1:at + 2] == " ")):
                text.append(kept.rstrip())
                return dedent([part for part in text if part.strip()])
            kept += char
        text.append(kept)
    return dedent(text)


def dedent(lines):
    least = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join(line[least:] for line in lines)


def line_of(node):
    """Of its declaration, if that stands in the same file as its definition."""
    location = node.find("location")
    declared_here = location.get("declfile") == location.get("file")
    return int(location.get("declline") if declared_here else location.get("line"))


class Header:
    """One header's page."""

    def __init__(self, site, name):
        self.site, self.name = site, name
        self.source = (site.root / name).read_text().splitlines()
        self.page = site.page_of(name)
        self.text = Text(site.places, self.page)

    def declared(self, node):
        return declaration(self.source, line_of(node))

    def code(self, node):
        text = self.declared(node)
        if node.get("kind") in ("enum", "struct"):  # in C, a typedef of one without a name
            text = text.removeprefix("typedef ")
        return f"```cpp\n{text}\n```"

    def needs_docs(self, node, text):
        name, shown = node.findtext("name"), self.declared(node)
        rest = "\n".join(self.source[line_of(node) - 1:][:3])
        if re.search(r"^[^;{]*=\s*(delete|default)\s*;", rest):
            return False
        if name.startswith("~") or re.search(r"\b(\w+)\((const )?\1 ?&&? ?\w*\)|operator=\(", shown):
            return False  # ends and moves as one expects
        return not text and not name.startswith("operator ")

    def member(self, node, depth, told, unit=""):
        """One member; `told` has the overloads that were described already."""
        name, kind = node.findtext("name"), node.get("kind")
        text = self.text.docs(node)
        if kind == "function" and self.needs_docs(node, text) and name not in told and not (
                name == "end" and "begin" in told):
            self.site.undocumented.append(f"{self.name}:{line_of(node)}: {unit}{name}")
        out = []
        if name not in told:
            title = name + ("()" if kind == "function" and not name.startswith("operator") else "")
            out.append(f"{'#' * depth} `{title}` {{ #{self.site.places[node.get('id')][1]} }}")
        told.add(name)
        out.append(self.code(node))
        if text:
            out.append(text)
        values = [(value.findtext("name"), self.text.docs(value)) for value in node.findall("enumvalue")]
        if values and not any(said for _, said in values):
            out.append(", ".join(f"`{value}`" for value, _ in values))
        elif values:
            out.append("| value | |\n|---|---|\n" + "\n".join(
                f"| `{value}` | {' '.join(said.split())} |" for value, said in values))
        return out

    def shown(self, members):
        """What a page shows of them: nothing private, no friends, nothing deleted or defaulted."""
        for node in members:
            if node.get("kind") not in ("function", "enum", "typedef", "variable") or node.get("prot") != "public":
                continue
            line = line_of(node)
            name = node.findtext("name")
            if node.find("location").get("file") != self.name or name.startswith(("@", "~")) or name == "if" or \
                    INTERNAL.match(name):
                continue
            declared = self.declared(node)
            rest = "\n".join(self.source[line - 1:][:3])
            if node.get("kind") == "function" and (re.search(r"^[^;{]*=\s*(delete|default)\s*;", rest)):
                continue
            if not declared or declared.startswith("}"):  # the end of a typedef struct in C
                continue
            if node.get("kind") == "typedef" and re.fullmatch(r"typedef struct (\w+) \1", declared):
                if sum(declared.split()[-1] == one.findtext("compoundname")
                       for kind, one in self.site.entries[self.name] if kind == "compound"):
                    continue
            yield node

    def compound(self, node, depth):
        name = node.findtext("compoundname")
        short = re.sub(r"^leat::(feeder::|gpu::)?", "", name)
        text = self.text.docs(node)
        if not text:
            self.site.undocumented.append(f"{self.name}:{line_of(node)}: {short}")
        out = [f"{'#' * depth} `{short}` {{ #{self.site.places[node.get('id')][1]} }}",
               self.code(node)]
        if text:
            out.append(text)
        members = list(self.shown(node.iter("memberdef")))
        members.sort(key=lambda one: line_of(one))
        fields = [one for one in members if one.get("kind") == "variable"]
        if fields:
            out.append("| member | |\n|---|---|\n" + "\n".join(
                f"| `{' '.join(self.declared(one).split())}` | {' '.join(self.text.docs(one).split())} |".replace(
                    "||", "\\|\\|") for one in fields))
        told = set()
        for one in members:
            if one.get("kind") != "variable":
                out += self.member(one, depth + 1, told, short + "::")
        return out

    def markdown(self):
        parts = [f"# {self.name.rsplit('/', 1)[-1]}", f"`#include \"leat/{self.name}\"`", head(self.source)]
        entries = []
        for kind, node in self.site.entries[self.name]:
            entries.append((line_of(node), kind, node))
        told = set()
        for _, kind, node in sorted(entries, key=lambda entry: entry[0]):
            parts += self.compound(node, 2) if kind == "compound" else self.member(node, 2, told)
        return "\n\n".join(parts) + "\n"


class Reference:
    """All pages: `pages` by path, `undocumented` with what has no docstring."""

    def __init__(self, root, out):
        self.root = root
        self.headers = public_headers(root)
        self.undocumented = []
        self.places = {}  # refid: (page, anchor)
        self.entries = {header: [] for header in self.headers}
        doxygen(root, self.headers, out)
        for path in sorted((out / "xml").glob("*.xml")):
            if path.name in ("index.xml", "Doxyfile.xml"):
                continue
            self.take(ET.parse(path).getroot().find("compounddef"))

    @staticmethod
    def page_of(header):
        return "reference/" + header.removesuffix(".h") + ".md"

    def take(self, node):
        kind, location = node.get("kind"), node.find("location")
        header = location.get("file") if location is not None else None
        if kind in ("class", "struct", "union", "concept") and header in self.entries:
            if node.get("prot") == "private" or INTERNAL.match(node.findtext("compoundname")) or re.search(r"::@", node.findtext("compoundname")):
                return
            self.place(node, header, node.findtext("compoundname"))
            self.entries[header].append(("compound", node))
            for member in node.iter("memberdef"):
                self.place(member, header, node.findtext("compoundname") + "-" + member.findtext("name"))
        elif kind in ("file", "namespace"):
            for member in node.iter("memberdef"):
                where = member.find("location").get("file")
                if where in self.entries and member.get("id") not in self.places:
                    self.place(member, where, member.findtext("name"))
                    self.entries[where].append(("member", member))

    def place(self, node, header, name):
        anchor = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^leat::(feeder::|gpu::)?", "", name).lower()).strip("-")
        self.places[node.get("id")] = (self.page_of(header), anchor or "operator")

    def pages(self):
        made = {}
        for header in self.headers:
            one = Header(self, header)
            # A class's specialisation, and what the header only declares, have no place of their own.
            one_entries = []
            for kind, node in self.entries[header]:
                if kind == "member" and not list(one.shown([node])):
                    continue
                one_entries.append((kind, node))
            self.entries[header] = one_entries
            made[one.page] = one.markdown()
        return made
