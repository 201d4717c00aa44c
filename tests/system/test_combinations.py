"""Random combinations of kinds: refused by one line before the first round, or one model on any ranks and
after a kill. `scripts/soak --combinations` draws them, and tries more in a night."""

import os
import re
import subprocess
import sys

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Combinations(harness.Case):
    def check(self, first, count):
        found = subprocess.run(
            [sys.executable, os.path.join(ROOT, "scripts", "soak"), f"--combinations={count}",
             f"--first-seed={first}", f"--program={harness.program()}"], capture_output=True, text=True,
            env={**os.environ, "TMPDIR": self.folder, "HANSE_PYTHON": sys.executable,
                 harness.MARK: self.mark})
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        same = re.search(r"(\d+) same", found.stdout)
        self.assertGreaterEqual(int(same[1]), count // 2, found.stdout)

    def test_five(self):
        self.check(1, 5)

    def test_five_others(self):
        self.check(101, 5)


if __name__ == "__main__":
    harness.main()
