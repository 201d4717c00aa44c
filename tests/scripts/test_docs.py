"""The documents: what they quote stands in the files, what they link to exists, and the first job
of README.md runs."""
import csv
import fnmatch
import json
import re
import shlex
import subprocess
import unittest

from support import SCRIPTS, ScriptTest

ROOT = SCRIPTS.parent


def tracked(*patterns):
    """The names of the repository's files that git knows; empty in a copy without git."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", *patterns], text=True,
                            capture_output=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def documents():
    """All Markdown files of the repository."""
    folders = ["src", "include", "jobs", "data", "tests", "scripts"]
    return [ROOT / name for name in tracked("*.md")] or [
        ROOT / "README.md", *(path for folder in folders for path in (ROOT / folder).rglob("*.md"))]


def without_code(text):
    """The text without blocks and spans of code, in which nothing is a link or a heading."""
    text = re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """The anchors of a document's headings, as GitHub and GitLab make them."""
    found = set()
    text = re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", text, re.MULTILINE):
        name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
        number, base = 0, name
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return found


def broken_links(path):
    """The links of a document to files or headings that do not exist."""
    text = without_code(path.read_text())
    targets = re.findall(r"\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    targets += re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, re.MULTILINE)
    broken = []
    for target in targets:
        if re.match(r"[a-z][a-z0-9+.-]*:", target):  # of another place, such as https:
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists() or (anchor and (file.suffix != ".md" or
                                             anchor not in anchors(file.read_text()))):
            broken.append(target)
    return broken


class LinksTest(ScriptTest):
    def test_all_links_lead_somewhere(self):
        files = documents()
        self.assertGreater(len(files), 12)
        for path in files:
            with self.subTest(document=str(path.relative_to(ROOT))):
                self.assertEqual(broken_links(path), [])

    def test_broken_links_are_found(self):
        self.write("there.md", "# One `two`, three!\n\n## Same\n\n## Same\n")
        good = ("[a](there.md) [b](there.md#one-two-three) ![c](pic.svg) [d](#here)\n"
                "[e](https://x.y/z) [f](there.md#same-1)\n\n# Here\n\n`[g](gone.md)`\n\n```\n[h](gone.md)\n```\n")
        self.write("pic.svg", "<svg/>")
        self.assertEqual(broken_links(self.write("good.md", good)), [])
        for bad in ("gone.md", "there.md#four", "#nowhere", "there.md#same-2", "gone.svg",
                    "pic.svg#x", "../there.md"):
            with self.subTest(link=bad):
                self.assertEqual(broken_links(self.write("bad.md", f"{good}\n[x]({bad})\n")), [bad])
        page = self.write("page.md", 'an <img alt="i" src="gone.png"> and [two\nlines](gone.md)')
        self.assertEqual(broken_links(page), ["gone.md", "gone.png"])


def fragments(text):
    """Sentences and cells of tables that begin with 'Of': a reader has to look for what is meant."""
    text = without_code(text)
    return re.findall(r"(?:^|[.:;] |\| )Of .*|^.*\| of .*", text, re.MULTILINE)


class WordsTest(unittest.TestCase):
    def test_no_sentence_begins_with_of(self):
        for path in documents():
            self.assertEqual(fragments(path.read_text()), [], path)

    def test_fragments_are_found(self):
        for text in ("It ends. Of many\nthe first", "Of many the first", "| a | of each run |"):
            self.assertEqual(len(fragments(text)), 1, text)
        self.assertEqual(fragments("one of many\n| the ranks of a run | `of` |"), [])


class LengthTest(unittest.TestCase):
    """A page answers one question. What the program prints is a table to search in."""
    printed = ("jobs/keys.md", "jobs/conflicts.md")

    def test_no_page_is_long(self):
        for path in documents():
            name = str(path.relative_to(ROOT))
            if name not in self.printed:
                self.assertLessEqual(len(path.read_text().split()), 4000, name)


class FirstPageTest(ScriptTest):
    text = (ROOT / "README.md").read_text()

    def test_is_a_door(self):
        self.assertLess(len(self.text.encode()), 15000)

    def test_top_level(self):
        top = {name.split("/")[0] for name in tracked()}
        if not top:
            self.skipTest("not a git repository")
        self.assertEqual({name for name in top if not name.startswith(".")},
                         {"CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "CMakePresets.json",
                          "CONTRIBUTING.md", "LICENSE", "NOTICE", "README.md", "SECURITY.md",
                          "data", "include", "jobs", "scripts", "src", "tests"})

    def run_here(self, command, *options):
        """One of the page's commands, and these options, on the page's first job."""
        if not (ROOT / "build/hanse").exists():
            self.skipTest("build/hanse is not built")
        (job,) = re.findall(r"Save this as first\.cfg:\n\n```ini\n(.*?)```", self.text, re.DOTALL)
        self.write("first.cfg", job)
        for name in ("build", "data"):
            (self.folder / name).symlink_to(ROOT / name)
        result = subprocess.run([*shlex.split(command, comments=True), *options], text=True,
                                capture_output=True, cwd=self.folder, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)

    def commands(self):
        """The lines of its blocks of commands, with what continues them."""
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", self.text, re.DOTALL | re.MULTILINE)
        return "".join(text for language, text in blocks if not language).replace("\\\n", "").splitlines()

    def command(self, part):
        (found,) = [line for line in self.commands() if part in line]
        return found

    def test_the_first_job_runs(self):
        self.run_here("build/hanse run first.cfg", "--run.rounds=1", "--client.steps=1")
        self.assertTrue((self.folder / "runs/first/summary.json").exists())

    def test_ranks_start_for_root_too(self):
        self.run_here(self.command("runs/other --client.lr"), "--run.rounds=1", "--client.steps=1")
        self.assertEqual(json.loads((self.folder / "runs/other/summary.json").read_text())["ranks"], 2)

    def test_data_that_name_their_clients(self):
        self.run_here(self.command("hospital"), "--run.rounds=1")
        with open(self.folder / "runs/table/clients.csv", newline="") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 4)

    def test_compares_runs_of_as_many_rounds(self):
        rounds, compared = {}, 0
        for line in self.commands():
            words = shlex.split(line, comments=True)
            if "first.cfg" in words and "run" in words:
                out = [word for word in words if word.startswith("--run.out=")]
                rounds[out[0].split("=")[1] if out else "runs/first"] = "first.cfg's"
            if "resume" in words:
                rounds[words[words.index("resume") + 1]] = words[-1]
            if words and words[0] in ("scripts/plot", "scripts/report"):
                compared += 1
                self.assertEqual(len({rounds[run] for run in words[1:]}), 1, line)
        self.assertEqual(compared, 2)
        self.assertEqual(rounds["runs/first"], rounds["runs/other"])  # for what follows the page


class WaysInTest(unittest.TestCase):
    def test_containers_do_the_same(self):
        """The Containerfile copies and runs what hanse.def does, which scripts/test-container tries."""
        definition = (ROOT / "jobs/hanse.def").read_text()
        parts = dict(re.findall(r"^%(\w+)\n(.*?)(?=^%|\Z)", definition, re.DOTALL | re.MULTILINE))
        text = (ROOT / "jobs/Containerfile").read_text()
        self.assertEqual([line.split() for line in parts["files"].splitlines() if line],
                         [line.split()[1:] for line in text.splitlines() if line.startswith("COPY ")])
        (run,) = re.findall(r"^RUN (.*?)(?<!\\)\n", text, re.DOTALL | re.MULTILINE)
        self.assertEqual([line.strip() for line in parts["post"].splitlines() if line],
                         [line.strip() for line in run.replace("\\\n", "").split("&&")])
        self.assertRegex(definition, r"From: debian:12\n")
        self.assertIn("FROM debian:12\n", text)

    def test_recipes_are_for_the_version(self):
        newest = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
        (easy,) = (SCRIPTS / "easybuild").glob("*.eb")
        self.assertIn(f"version = '{newest}'", easy.read_text())
        self.assertIn(newest, easy.name)
        self.assertIn(f'version("{newest}"', (SCRIPTS / "spack/package.py").read_text())
        self.assertIn(f'version = "{newest}"', (SCRIPTS / "conda/meta.yaml").read_text())


class TrustTest(unittest.TestCase):
    def test_one_version(self):
        """The newest version of the changes is the one to cite, and the program's."""
        newest = re.search(r"^## (\d+\.\d+\.\d+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
        cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
        self.assertEqual(cited, newest)
        written = ROOT / "scripts/python/hanse/version.txt"
        if written.exists():
            self.assertEqual(written.read_text().strip(), newest)

    def test_licence(self):
        text = (ROOT / "LICENSE").read_text()
        self.assertIn("Apache License", text)
        self.assertIn("END OF TERMS AND CONDITIONS", text)
        self.assertIn("license: Apache-2.0", (ROOT / "CITATION.cff").read_text())

    def test_others_data_are_named(self):
        """NOTICE names the source of data/heart as its page does, and who must be named."""
        notice, page = ((ROOT / name).read_text() for name in ("NOTICE", "data/heart/README.md"))
        for words in ("https://doi.org/10.24432/C52P4X", "CC BY 4.0", "Janosi", "Steinbrunn",
                      "Pfisterer", "Detrano"):
            self.assertIn(words, notice)
            self.assertIn(words, page)


class GuideTest(unittest.TestCase):
    text = (ROOT / "src/README.md").read_text()
    adding = (ROOT / "src/adding.md").read_text()

    def test_quoted_pieces_stand_in_the_files(self):
        pieces = re.findall(r"`([\w/.-]+)`:\n\n```\w*\n(.*?)\n```", self.adding, re.DOTALL)
        self.assertEqual(len(pieces), 6)
        for path, piece in pieces:
            with self.subTest(path=path):
                self.assertIn(piece, (ROOT / path).read_text())

    def test_rules_in_python_are_the_examples(self):
        """The manual quotes whole files of jobs/own-rules, but for the comment on top."""
        text = (ROOT / "jobs/own-rules.md").read_text()
        quoted = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        files = [path.read_text() for path in (ROOT / "jobs/own-rules").glob("*.py")]
        self.assertGreater(len(quoted), 1)
        for block in quoted:
            self.assertTrue(any(text.endswith(block) for text in files), block)
        for path in (ROOT / "jobs/own-rules").glob("*.py"):
            self.assertIn(f"(own-rules/{path.name})", text)

    def test_named_files_exist(self):
        paths = re.findall(r"`((?:include|src|tests|jobs)/[\w/.-]+)`", self.text + self.adding)
        self.assertGreater(len(paths), 15)
        for path in paths:
            with self.subTest(path=path):
                self.assertTrue((ROOT / path).exists(), path)

    def test_questions(self):
        section = self.text.split("\n## Questions\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (.+\?) \| (.+) \|$", section, re.MULTILINE)
        self.assertGreaterEqual(len(rows), 12)
        for question, answer in rows:
            with self.subTest(question=question):
                self.assertTrue(re.findall(r"`src/[\w/.-]+`", answer))
                # A method that an answer names stands in the file named after it.
                for method, path in re.findall(r"`(\w+::\w+)` in `([\w/.-]+)`", answer):
                    self.assertIn(method + "(", (ROOT / path).read_text())

    def test_modules(self):
        """The table has the modules in the order that check-includes enforces."""
        section = self.text.split("\n## Modules\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (\w+) \|", section, re.MULTILINE)[1:]
        checked = re.search(r"^MODULES = \[(.*?)\]", (SCRIPTS / "check-includes").read_text(),
                            re.DOTALL | re.MULTILINE)
        self.assertEqual(rows, re.findall(r'"(\w+)"', checked.group(1)))


class CommandsTest(unittest.TestCase):
    def test_what_a_resume_may_change(self):
        """jobs/README.md names the keys that jobs/keys.md, which the program prints, marks."""
        lines = (ROOT / "jobs/keys.md").read_text().splitlines()
        keys = {found[1]: "may change on resume" in line for line in lines
                if (found := re.match(r"\| `([a-z]+\.[a-z0-9-]+)` \|", line))}
        self.assertGreater(len(keys), 100)
        listed = re.search(r"may change (.+?) \|", (ROOT / "jobs/README.md").read_text()).group(1)
        named = listed.replace("\\*", "*").split(", ")
        for pattern in named:
            self.assertTrue(fnmatch.filter(keys, pattern), pattern)
        for key, marked in keys.items():
            with self.subTest(key=key):
                self.assertEqual(any(fnmatch.fnmatch(key, name) for name in named), marked)


class ScriptsTest(unittest.TestCase):
    def test_every_script_is_described(self):
        text = (SCRIPTS / "README.md").read_text()
        for path in SCRIPTS.iterdir():
            if path.is_file() and path.name not in ("README.md", "lib.sh", "cuda.sh", "torch.sh",
                                                     "user.sh"):
                with self.subTest(script=path.name):
                    self.assertRegex(text, rf"\*\*`{re.escape(path.name)}[ `]")


if __name__ == "__main__":
    unittest.main()
