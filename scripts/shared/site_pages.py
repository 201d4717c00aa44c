"""The pages of scripts/site: the manual's files, a page for each file that they link to, and the
reference of the Python package."""
import ast
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("data", "jobs", "scripts", "src")
LANGUAGES = {".cfg": "ini", ".py": "python", ".hpp": "cpp", ".cpp": "cpp", ".h": "cpp", ".sh": "bash",
             ".sbatch": "bash", ".lua": "lua", ".yaml": "yaml", ".eb": "python", ".toml": "toml"}
AS_THEY_ARE = {".svg", ".png", ".ipynb"}
CODE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
CODE_AND_SPANS = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]+`(?!\]\())", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\(|(?:src|href)=\")([^()\s\"]+)")
SPAN = re.compile(r"`[^`\n]*`")


def pages_of(root=ROOT):
    """The Markdown files of the manual, as paths below `root`: what git knows, else all."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.md"], text=True, capture_output=True)
    names = [pathlib.Path(name) for name in listed.stdout.splitlines()]
    if not names:
        names = [path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob("*.md")]
        names += [path.relative_to(root) for path in root.glob("*.md")]
    return sorted(name for name in names if not name.parts[0].startswith(".") and (root / name).exists())


def outside_code(change, text, code=CODE):
    """The text with `change` made of what stands outside of blocks of code."""
    parts = code.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)


def readable(text):
    """The Markdown of GitHub as Python's Markdown reads it: a list in a list and a paragraph of an
    item by four blanks, and no bar of code in a table behind a stroke."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.match(r"  (- |\S)", line) and (line.startswith("  - ") or i and not lines[i - 1]):
            lines[i] = "  " + line
        elif line.startswith("|"):
            lines[i] = SPAN.sub(lambda span: span[0].replace("\\|", "|"), line)
    return "\n".join(lines)


def sections(text):
    """What stands above a page's first section, and {anchor: text} of its sections."""
    head, *parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return head, {re.sub(r"[^\w -]", "", part.split("\n")[0][3:].lower()).replace(" ", "-"): part
                  for part in parts}


class Pages:
    """Copies pages into a folder. A file that a page links to becomes a page of its text there, and so
    does each section of the pages PARTED."""
    # Tables of the program that nobody reads from end to end.
    PARTED = (pathlib.Path("jobs/keys.md"), pathlib.Path("jobs/conflicts.md"))

    def __init__(self, out, root=ROOT):
        self.out, self.root, self.files = out, root, set()

    def add(self, name):
        """`name`: of a Markdown file below the root."""
        text = (self.root / name).read_text()
        linked = outside_code(lambda part: LINK.sub(lambda link: self._follow(name, link), part), text,
                              CODE_AND_SPANS)
        linked = outside_code(readable, linked)
        if name in self.PARTED:
            linked, parts = sections(linked)
            for anchor, part in parts.items():
                self.write(self._part(name, anchor), part.replace("## ", "# ", 1))
                linked += f"- [{part.split(chr(10))[0][3:]}]({self._part(name, anchor).name})\n"
        self.write(name, linked)

    def _part(self, name, anchor):
        return name.with_name(f"{name.stem}-{anchor}.md")

    def write(self, name, text):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _follow(self, page, link):
        """The link as it stands on the page: to a file's own page where the file is no page."""
        before, target = link.groups()
        file, hash_sign, anchor = target.partition("#")
        path = (self.root / page).parent / file
        if not file or re.match(r"[a-z][a-z0-9+.-]*:", target) or not path.is_file():
            return link[0]
        name = path.resolve().relative_to(self.root)
        if name in self.PARTED and anchor:
            return f"{before}{self._part(pathlib.Path(file), anchor)}"
        if name.suffix != ".md" and name not in self.files:
            self.files.add(name)
            self._add_file(name)
        return f"{before}{file}{'' if name.suffix in {'.md', *AS_THEY_ARE} else '.md'}{hash_sign}{anchor}"

    def _add_file(self, name):
        if name.suffix in AS_THEY_ARE:
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, self.out / name)
            return
        language = LANGUAGES.get(name.suffix, "text")
        text = (self.root / name).read_text()
        self.write(f"{name}.md", f"# {name}\n\n````{language}\n{text.rstrip()}\n````\n")


def _signature(node, name):
    """How a function is called, a line an argument where it is long."""
    arguments = ast.unparse(node.args)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({arguments}){returns}"
    if len(line) <= 90:
        return line
    node.args.args = [one for one in node.args.args if one.arg not in ("self", "cls")]
    pieces = re.split(r", (?=\*|\w+(?::|=|,|$))", ast.unparse(node.args))
    return f"{name}(\n    " + ",\n    ".join(pieces) + f"){returns}"


def _is_property(node):
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def _members(node):
    """The documented public members of a class: (how it is written, docstring)."""
    for one in node.body:
        if not isinstance(one, ast.FunctionDef) or one.name.startswith("_") or not ast.get_docstring(one):
            continue
        one.args.args = [argument for argument in one.args.args if argument.arg not in ("self", "cls")]
        written = one.name if _is_property(one) else _signature(one, one.name)
        yield written, ast.get_docstring(one)


def _entry(name, node):
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        parts = [f"## {name}\n\n```python\nclass {name}{f'({bases})' if bases else ''}\n```\n\n{text}"]
        parts += [f"```python\n{name}.{written}\n```\n\n{said}" for written, said in _members(node)]
        return "\n\n".join(parts)
    return f"## {name}\n\n```python\nhanse.{_signature(node, name)}\n```\n\n{text}"


def python_reference(package=ROOT / "scripts/python/hanse"):
    """A page of what `import hanse` gives, from signatures and docstrings. Raises KeyError where a
    public name is not defined in the module that it is imported from."""
    top = ast.parse((package / "__init__.py").read_text())
    place = {alias.name: node.module for node in top.body if isinstance(node, ast.ImportFrom)
             for alias in node.names}
    (names,) = [ast.literal_eval(node.value) for node in top.body if isinstance(node, ast.Assign)
                and node.targets[0].id == "__all__"]
    found = {}
    for name in names:
        module = ast.parse((package / f"{place[name]}.py").read_text())
        found[name] = {node.name: node for node in module.body
                       if isinstance(node, (ast.ClassDef, ast.FunctionDef))}[name]
    functions_first = sorted(names, key=lambda name: isinstance(found[name], ast.ClassDef))
    entries = [_entry(name, found[name]) for name in functions_first]
    return "\n\n".join(["# Reference of the Python package", ast.get_docstring(top), *entries]) + "\n"


def write_pages(out, root=ROOT):
    """Writes all pages into the folder `out`, anew. Returns their number."""
    shutil.rmtree(out, ignore_errors=True)
    pages = Pages(out, root)
    for name in pages_of(root):
        pages.add(name)
    pages.write("scripts/python/reference.md", python_reference())
    shutil.copyfile(root / "scripts/shared/site.css", out / "site.css")
    return sum(1 for _ in out.rglob("*.md"))
