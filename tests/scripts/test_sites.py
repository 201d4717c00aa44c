"""scripts/sweep --sites in a made-up repository whose program pretends."""
import csv
import shutil
import sys
import tomllib
import unittest

import numpy as np

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import site_tables  # noqa: E402
from hanse import scoring  # noqa: E402

# Sites A and B; a seed splits each site's rows anew. The samples of A stand at even rows. The score of
# a sample depends on the way of training, the row and the seed. A site that is held out is number 1.
PROGRAM = """#!/usr/bin/python3
import pathlib, sys
import numpy as np
options = dict(word[2:].split("=", 1) for word in sys.argv[2:] if word.startswith("--"))
verb = sys.argv[1]
if verb == "check":
    sys.exit(0)
if verb == "convert":
    import h5py
    with h5py.File(sys.argv[3], "w") as file:
        file["train_end"] = [3, 6]
        file["client_names"] = [b"A", b"B"]
        file.attrs["held_out"] = 0
    sys.exit(0)
with open("calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
seed, held = int(options["run.seed"]), options["federation.held-out"]
way = {"centralized": 0, "federated": 1, "local": 2}[options["run.protocol"]] if held == "0" else 3
if pathlib.Path("fails").exists() and way == 2:
    print("hanse: error: it fails", file=sys.stderr)
    sys.exit(1)
run = pathlib.Path(options["run.out"])
run.mkdir(parents=True, exist_ok=True)
lines = ["client,row,fold,label,score"]
order = np.random.default_rng(seed).permutation(40)
tests = set(order[:16].tolist())
for row in order.tolist():
    site = "AB"[row % 2]
    number = "AB".index(site) if held == "0" else int(site == held)
    fold = "held-out" if site == held else "test" if row in tests else "train"
    score = (7 * row + 11 * way + 13 * seed) % 40 / 80 + (0.4 if row // 2 % 2 else 0) * (4 - way) / 4
    lines.append(f"{number},{row},{fold},{row // 2 % 2},{score}")
(run / "scores.csv").write_text("\\n".join(lines) + "\\n")
names = "AB" if held == "0" else ["B", "A"] if held == "A" else "AB"
(run / "clients.csv").write_text("client,name,held_out\\n" + "".join(
    f"{i},{name},{int(name == held)}\\n" for i, name in enumerate(names)))
(run / "summary.json").write_text('{"seconds": 1, "metrics": {"auroc": 0.5}}')
"""


class Sites(ScriptTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(SCRIPTS, self.folder / "scripts",
                        ignore=shutil.ignore_patterns("__pycache__", "site", "results"))
        self.write("build/hanse", PROGRAM).chmod(0o755)
        self.give_mpirun("build")
        self.write("job.cfg", "[run]\nrounds = 3\n")

    def sweep(self, *arguments):
        import subprocess
        return subprocess.run([self.folder / "scripts/sweep", *arguments], cwd=self.folder, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False)

    def numbers(self):
        with open(self.folder / "runs/sweep-job/table.csv", newline="") as file:
            return {(line["metric"], line["method"], line["site"]): line
                    for line in csv.DictReader(file)}

    def expected(self, way, site, seed):
        """The AUROC on the site's test samples, by the program's own formula."""
        rows = [row for row in np.random.default_rng(seed).permutation(40)[:16]
                if "AB"[row % 2] == site]
        label = np.array([row // 2 % 2 for row in rows], float)
        score = np.array([(7 * row + 11 * way + 13 * seed) % 40 / 80
                          + (0.4 if row // 2 % 2 else 0) * (4 - way) / 4 for row in rows])
        return scoring.auroc(label, score), len(rows), (label, score)

    def test_one_seed_has_intervals(self):
        done = self.sweep("job.cfg", "--sites", "--latex")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = self.numbers()
        for way, method in enumerate((*site_tables.WHOLE, site_tables.LEFT_OUT)):
            means = []
            for site in "AB":
                area, n, pair = self.expected(way, site, 1)
                line = table["auroc", method, site]
                self.assertAlmostEqual(float(line["mean"]), area, 12)
                self.assertEqual(int(line["samples"]), n)
                np.testing.assert_allclose((float(line["low"]), float(line["high"])),
                                           scoring.auroc_interval(*pair))
                means.append(area)
            self.assertAlmostEqual(float(table["auroc", method, "mean"]["mean"]), np.mean(means), 12)
        self.assertIn("DeLong's", done.stdout)
        self.assertNotIn("Caution", done.stdout)
        self.assertIn(r"\begin{tabular}", (self.folder / "runs/sweep-job/table.tex").read_text())
        with open(self.folder / "runs/sweep-job/study.toml", "rb") as file:
            study = tomllib.load(file)
        self.assertEqual([row["name"] for row in study["rows"]],
                         ["pooled", "federated", "local", "without A", "without B"])

    def test_seeds_have_deviations_and_the_study_goes_on(self):
        self.assertEqual(self.sweep("job.cfg", "--sites", "--seeds", "2").returncode, 0)
        done = self.sweep("job.cfg", "--sites", "--seeds", "3", "--metrics", "auroc,accuracy,brier")
        self.assertIn("10 of 15 runs are there already", done.stdout)
        self.assertEqual(len((self.folder / "calls").read_text().splitlines()), 15)
        values = [self.expected(3, "A", seed)[0] for seed in (1, 2, 3)]
        line = self.numbers()["auroc", "leave-one-site-out", "A"]
        self.assertAlmostEqual(float(line["mean"]), np.mean(values), 12)
        self.assertAlmostEqual(float(line["deviation"]), np.std(values, ddof=1), 12)
        self.assertIn("accuracy", done.stdout)
        again = self.sweep("runs/sweep-job", "--table")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("leave-one-site-out", again.stdout)

    def test_failed_runs_and_other_samples(self):
        self.write("fails", "")
        done = self.sweep("job.cfg", "--sites")
        self.assertEqual(done.returncode, 1)
        self.assertIn("local", done.stdout)
        self.assertIn("it fails", done.stderr)
        table = self.numbers()
        self.assertEqual(table["auroc", "local", "A"]["seeds"], "0")
        self.assertEqual(table["auroc", "pooled", "A"]["seeds"], "1")
        # A run whose test samples are others is not compared.
        path = next((self.folder / "runs/sweep-job").glob("pooled/seed-1/scores.csv"))
        path.write_text(path.read_text().replace(",train,", ",test,", 1))
        self.assertIn("Caution: pooled, ", self.sweep("runs/sweep-job", "--table").stdout)

    def test_what_is_refused(self):
        for arguments, words in ((["--set", "client.lr=1,2"], "--set"),
                                 (["--federation.held-out=A"], "holds each site out itself"),
                                 (["--metrics", "f1"], "auroc, auprc"),
                                 (["--against", "client.lr=1"], "--against")):
            done = self.sweep("job.cfg", "--sites", *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
