"""Every name that a Python script uses is defined: most of their lines run on bad days alone."""
import subprocess
import unittest

from support import SCRIPTS

ROOT = SCRIPTS.parent
OTHERS = ("scripts/spack", "scripts/easybuild", "scripts/conda", "tests/reframe")  # names of the tools that read them


def python_files():
    for folder in (SCRIPTS, ROOT / "tests", ROOT / "jobs"):
        for path in sorted(folder.rglob("*")):
            place = str(path.relative_to(ROOT))
            if not path.is_file() or place.startswith(OTHERS):
                continue
            with open(path, "rb") as file:
                first = file.readline()
            if path.suffix == ".py" or (first.startswith(b"#!") and b"python" in first):
                yield place


class NamesTest(unittest.TestCase):
    def test_names_are_defined(self):
        files = list(python_files())
        self.assertGreater(len(files), 60)
        self.assertIn("scripts/soak", files)
        found = subprocess.run(["pyflakes3", *files], cwd=ROOT, capture_output=True, text=True)
        undefined = [line for line in found.stdout.splitlines() if "undefined name" in line]
        self.assertEqual(undefined, [], found.stderr)
        self.assertEqual(found.stderr, "")


if __name__ == "__main__":
    unittest.main()
