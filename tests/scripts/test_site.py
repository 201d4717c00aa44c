"""scripts/site: the manual as pages. What they are made of, and, where Zensical is there, that they
are built without a warning and found by the search."""
import ast
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from browser import Browser, find_browser
from support import SCRIPTS, ScriptTest

sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "python")]
from shared import paper_tables  # noqa: E402
from shared.site_pages import Pages, pages_of, python_reference, readable, write_pages  # noqa: E402

ROOT = SCRIPTS.parent
MAKES = {"scripts/python/reference.md"}  # pages that are no files of the repository


def zensical():
    own = ROOT / ".venv-site/bin/zensical"
    return str(own) if own.exists() else shutil.which("zensical")


class PagesTest(ScriptTest):
    def pages(self, **texts):
        """What becomes of a repository of a page and of files."""
        for name, text in texts.items():
            self.write(f"root/{name.replace('__', '.')}", text)
        pages = Pages(self.folder / "out", self.folder / "root")
        pages.add(pathlib.Path("page.md"))
        return lambda name: (self.folder / "out" / name).read_text()

    def test_a_file_that_is_linked_becomes_a_page(self):
        made = self.pages(page__md="[job](a.cfg) ![p](p.svg) [h](other.md#x) `[c](a.cfg)`\n\n"
                                   "```\n[in](a.cfg)\n```\n[w](https://a.b/c.cfg) [gone](gone.cfg)\n",
                          a__cfg="[run]\n", p__svg="<svg/>", other__md="# x\n")
        self.assertEqual(made("page.md").split("\n\n")[0],
                         "[job](a.cfg.md) ![p](p.svg) [h](other.md#x) `[c](a.cfg)`")
        self.assertIn("```\n[in](a.cfg)\n```\n[w](https://a.b/c.cfg) [gone](gone.cfg)\n", made("page.md"))
        self.assertEqual(made("a.cfg.md"), "# a.cfg\n\n````ini\n[run]\n````\n")
        self.assertEqual(made("p.svg"), "<svg/>")

    def test_a_page_that_is_parted(self):
        self.write("root/jobs/keys.md", "# Keys\n\nHead.\n\n## [run]\n\na\n\n## [data]\n\n[b](x.cfg)\n")
        self.write("root/jobs/x.cfg", "")
        made = self.pages(page__md="[all](jobs/keys.md) [data](jobs/keys.md#data)\n")
        pages = Pages(self.folder / "out", self.folder / "root")
        pages.add(pathlib.Path("jobs/keys.md"))
        self.assertEqual(made("page.md"), "[all](jobs/keys.md) [data](jobs/keys-data.md)\n")
        self.assertEqual(made("jobs/keys.md"),
                         "# Keys\n\nHead.\n\n- [[run]](keys-run.md)\n- [[data]](keys-data.md)\n")
        self.assertEqual(made("jobs/keys-data.md"), "# [data]\n\n[b](x.cfg.md)\n")

    def test_no_page_is_long(self):
        write_pages(self.folder / "pages")
        for page in pages_of():
            text = (self.folder / "pages" / page).read_text()
            self.assertLessEqual(len(text.split()), 4000, page)

    def test_markdown_that_python_reads_otherwise(self):
        self.assertEqual(readable("- a\n  goes on\n  - inner\n\n  second\n| `x \\| y` | a \\| b |"),
                         "- a\n  goes on\n    - inner\n\n    second\n| `x | y` | a \\| b |")

    def test_every_page_has_a_place(self):
        text = (SCRIPTS / "shared/site.yml").read_text()
        places = re.findall(r"^ +- (?!.*: *$)(\S+\.md)$", text.split("\nnav:\n")[1], re.MULTILINE)
        self.assertEqual(len(places), len(set(places)))
        self.assertEqual(sorted(places), sorted({*map(str, pages_of()), *MAKES}))

    def test_reference_has_all_that_is_public(self):
        text = python_reference()
        names = re.search(r"^__all__ = (\[.*?\])", (SCRIPTS / "python/hanse/__init__.py").read_text(),
                          re.DOTALL | re.MULTILINE)
        for name in ast.literal_eval(names[1]):
            self.assertRegex(text, rf"(?m)^## {name}$")
        self.assertIn("\nhanse.resume(", text)
        self.assertIn("```python\nRun.participation\n```\n\nA line a round and participant", text)


class QuestionsTest(unittest.TestCase):
    def test_keys_exist(self):
        keys = set(re.findall(r"^\| `([a-z]+\.[a-z0-9-]+)` \|", (ROOT / "jobs/keys.md").read_text(),
                              re.MULTILINE))
        text = (ROOT / "jobs/start.md").read_text()
        named = re.findall(r"--([a-z]+\.[a-z0-9-]+)", text)
        self.assertGreater(len(named), 20)
        self.assertEqual(set(named) - keys, set())
        self.assertGreaterEqual(len(re.findall(r"^\| (?!I have|--)", text, re.MULTILINE)), 30)

    def test_gallery_has_every_table(self):
        rows = re.findall(r"^\| `scripts/reproduce (\S+)` \| (.+?) \| (.+?) \| (.*?) ?\|$",
                          (ROOT / "jobs/gallery.md").read_text(), re.MULTILINE)
        tables = {name: paper_tables.read(name) for name in paper_tables.names()}
        self.assertEqual(rows, [(name, one["title"], one["time"], one.get("data", {}).get("name", ""))
                                for name, one in sorted(tables.items())])


@unittest.skipUnless(zensical(), "Zensical is not installed: scripts/site installs it")
class SiteTest(ScriptTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.html = ROOT / "build-site/html"
        cls.server = subprocess.Popen([SCRIPTS / "site", "--serve"], stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.STDOUT)
        cls.said = []  # up to the address
        for line in cls.server.stdout:
            cls.said.append(line)
            if line.startswith("http://"):
                break

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.server.stdout.close()
        super().tearDownClass()

    def test_is_built_without_a_warning(self):
        self.assertEqual(len(self.said), 2, self.said)
        self.assertRegex(self.said[0], r"^\d+ pages: ")
        for page in pages_of():
            name = str(page).replace("README.md", "index.md").removesuffix(".md")
            self.assertTrue((self.html / f"{name}.html").exists(), name)
        self.assertIn("federated | online", (self.html / "jobs/keys-run.html").read_text())

    def test_a_link_that_leads_nowhere_is_an_error(self):
        """Zensical's strict mode, as scripts/site calls it."""
        for link, built in (("page.md#here", 0), ("page.md#gone", 1), ("gone.md", 1)):
            pages = self.folder / "pages"
            shutil.rmtree(pages, ignore_errors=True)
            pages.mkdir()
            (pages / "index.md").write_text(f"# Start\n\n[x]({link})\n")
            (pages / "page.md").write_text("# Page\n\n## Here\n")
            config = (SCRIPTS / "shared/site.yml").read_text().split("\nnav:\n")[0]
            self.write("mkdocs.yml", config)
            done = subprocess.run([zensical(), "build", "--clean", "--strict", "--config-file",
                                   self.folder / "mkdocs.yml"], capture_output=True, text=True)
            self.assertEqual(done.returncode != 0, bool(built), f"{link}: {done.stdout}{done.stderr}")

    @unittest.skipUnless(find_browser(), "no Chromium")
    def test_search_finds_a_section(self):
        address = self.said[-1].split()[0]
        browser = Browser()
        self.addCleanup(browser.close)
        browser.look(1200)
        browser.open(address)
        browser.value("document.querySelector('.md-search__button').click()")
        browser.wait_for("document.activeElement.shadowRoot?.activeElement?.tagName == 'INPUT'")
        browser.call("Input.insertText", text="worst hospital")
        browser.wait_for("document.activeElement.shadowRoot.textContent.includes('Gallery: tables')")
        self.assertEqual(browser.errors, [])
        self.assertEqual([one for one in browser.requests if not one.startswith((address, "blob:"))], [])


if __name__ == "__main__":
    unittest.main()
