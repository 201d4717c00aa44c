"""What a study is about stands in its tables, under the names that are asked for; failed runs stay in
frames; copies of one run are one."""
import json
import os
import pathlib
import sys
import warnings

from support import SCRIPTS, ScriptTest
from test_sweep import MadeRepository

sys.path.insert(0, str(SCRIPTS))
os.environ.setdefault("MPLBACKEND", "agg")
from shared import charting, curves, run_files, summaries  # noqa: E402
import hanse  # noqa: E402


class TablesTest(MadeRepository):
    def make(self, rate, seed, **metrics):
        self.write(f"out/client.lr={rate}/seed-{seed}/summary.json", json.dumps(
            {"rounds": 9, "split": "test", "metrics": {"common_accuracy": rate / 2 + seed / 100,
                                                        **metrics}}))

    def show(self, *arguments):
        result = self.call("jobs/job.cfg", "--set", "client.lr=0.1,0.2", "--seeds", "2", "--out", "out",
                           "--table", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_what_differs_is_a_column_and_the_rest_a_line(self):
        for rate in (0.1, 0.2):
            for seed in (1, 2):
                self.make(rate, seed, privacy_epsilon=10 * rate, privacy_delta=1e-5, attackers=3,
                          virtual_seconds=49.25, update_bytes_per_client=1300)
        said = self.show()
        self.assertRegex(said, r"\nlr +runs +common_accuracy +privacy_epsilon\n|^lr +runs +"
                         r"common_accuracy +privacy_epsilon\n")
        self.assertRegex(said, r"\n0\.2 +2 +11\.50 % ± 6\.35 +2 ± 0\n")
        self.assertIn("every run: 49.25 virtual seconds, delta 1e-05, 3 attackers, 1300 bytes of "
                      "updates a client", said)
        self.assertIn("evaluated on: test samples of the clients; common_accuracy on the common test "
                      "set", said)
        self.assertNotIn("privacy_epsilon", self.show("--metrics", "common_accuracy"))

    def test_a_number_that_only_some_runs_have_is_a_column(self):
        self.make(0.1, 1, target_virtual_seconds=5)
        for place in ((0.1, 2), (0.2, 1), (0.2, 2)):
            self.make(*place)
        self.assertRegex(self.show(), r"0\.1 +2 .* 5, 1 of 2\n")

    def test_results_have_it_too(self):
        self.make(0.1, 1, privacy_epsilon=2.5, privacy_delta=1e-5, attackers=3, virtual_seconds=49.25,
                  target_virtual_seconds=40, update_bytes_per_client=1300)
        said = self.call("out/client.lr=0.1", name="results").stdout
        for line in (r"virtual time to the target +40\.0 s", r"virtual time +49\.2 s",
                     r"privacy, epsilon +2\.5000", r"privacy, delta +1e-05", r"attackers +3",
                     r"updates, a client +0\.0013 MB"):
            self.assertRegex(said, line)

    def test_names_of_columns_and_rows_and_latex_with_a_caption(self):
        for rate in (0.1, 0.2):
            for seed in (1, 2):
                self.make(rate, seed)
        said = self.show("--caption", "Rates & more", "--name", "common_accuracy=Accuracy (%)",
                         "--name", "client.lr=learning rate", "--name", "client.lr=0.1=small",
                         "--name", "0.2=large", "--against", "client.lr=0.1")
        self.assertRegex(said, r"^learning rate +runs +Accuracy \(%\)\n")
        self.assertRegex(said, r"\nsmall +2 .*\nlarge +2 ")
        self.assertIn("Accuracy (%), difference to", said)
        text = (self.folder / "out/table.tex").read_text()
        self.assertIn("\\begin{table}\n\\centering\n\\caption{Rates \\& more}\n\\label{tab:out}\n"
                      "\\begin{tabular}{lrr}\n\\toprule\nlearning rate & runs & Accuracy (\\%) \\\\", text)
        self.assertIn("\\label{tab:out-2}", text)
        self.assertEqual(text.count("\\end{table}"), 2)
        pivot = self.show("--pivot", "client.lr", "--name", "client.lr=rate")
        self.assertIn("rate = 0.1", pivot)
        wrong = self.call("out", "--table", "--name", "lr=rate")
        self.assertEqual(wrong.returncode, 2)
        self.assertRegex(wrong.stderr, "--name lr=rate: no column or cell is called so; they are "
                         "client.lr, common_accuracy, client.lr=0.1")

    def test_a_common_limit_of_time_is_no_unlike_length(self):
        for rate in (0.1, 0.2):
            for seed in (1, 2):
                run = f"out/client.lr={rate}/seed-{seed}"
                self.write(f"{run}/summary.json", json.dumps(
                    {"rounds": 9 + seed, "metrics": {"auroc": rate + seed / 100}}))
                self.write(f"{run}/job.cfg", f"[run]\nvirtual-seconds = 50\n[client]\nlr = {rate}\n")
        said = self.show()
        self.assertIn("all runs have 50 s of virtual time", said)
        self.assertNotIn("unlike length", said)
        self.write("out/client.lr=0.1/seed-1/job.cfg", "[run]\nvirtual-seconds = 40\n[client]\nlr = 0.1\n")
        said = self.show()
        self.assertIn("Caution: runs of unlike length: 10 and 11 rounds", said)
        self.assertIn("Caution: unlike limits of virtual time: 40 s and 50 s", said)

    def test_by_needs_to(self):
        self.make(0.1, 1)
        result = self.call("jobs/job.cfg", "--set", "client.lr=0.1,0.2", "--out", "out", "--table",
                           "--by", "bytes")
        self.assertEqual((result.returncode, result.stderr), (
            2, "sweep: --by bytes: factors are those of --to; hint: --to 'accuracy_mean>=0.8'\n"))


class FramesTest(MadeRepository):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        result = self.call("jobs/job.cfg", "--set", "client.lr=0.1,9,0.3", "--seeds", "2", "--out", "out")
        self.assertEqual(result.returncode, 1)
        self.write("out/client.lr=0.3/seed-2/job.cfg", "")
        os.remove("out/client.lr=0.3/seed-2/summary.json")

    def test_failed_runs_are_lines_of_a_study(self):
        frame = hanse.read_study("out").frame
        self.assertEqual(frame[["client.lr", "seed"]].values.tolist(),
                         [[0.1, 1], [0.1, 2], [9, 1], [9, 2], [0.3, 1], [0.3, 2]])
        self.assertEqual(frame["failed"].fillna("").tolist(),
                         ["", "", "it fails", "it fails", "", "not ended"])
        self.assertAlmostEqual(frame["accuracy_mean"].mean(), (0.11 + 0.12 + 0.31) / 3)

    def test_failed_cases_are_lines_of_a_comparison(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = hanse.compare("out")
        found = {pathlib.Path(name).name: line for name, line in frame.iterrows()}
        self.assertEqual([found[f"client.lr={rate}"]["runs"] for rate in ("0.1", "9", "0.3")],
                         [2, 0, 1])
        self.assertEqual(found["client.lr=9"]["failed"], "it fails")
        with self.assertRaisesRegex(FileNotFoundError, "no run has begun: client.lr=9"):
            os.rename("out/client.lr=9", "client.lr=9")
            self.write("alone/study.toml", 'job = "jobs/job.cfg"\n[vary]\nclient.lr = [9]\n')
            os.rename("client.lr=9", "alone/client.lr=9")
            hanse.compare("alone")


class CopiesTest(ScriptTest):
    def make_runs(self, step):
        for seed in (1, 2, 3):
            run = self.make_run(f"case/seed-{seed}")
            summary = json.loads((run / "summary.json").read_text())
            summary["metrics"]["loss_mean"] = 1.5 + step * seed
            self.write(run / "summary.json", json.dumps(summary))
        runs = run_files.runs_of(summaries.find_places([self.folder / "case"]), "interval")
        return runs, curves.curve_of(runs[0], "accuracy_mean")

    def test_copies_of_one_run_are_no_mean_of_three(self):
        for step, n, name in ((0, 1, "copies of one run"), (0.1, 3, "3 runs")):
            runs, curve = self.make_runs(step)
            self.assertEqual((curve.n, curve.low is None), (n, n == 1))
            self.assertIn(name, runs[0].count())
            self.assertEqual(charting.words_of(object(), runs).partition(",")[0], f"n = {n}")


class PackageTest(ScriptTest):
    def test_it_shows_what_is_public(self):
        self.assertEqual(dir(hanse), sorted([*hanse.__all__, "__version__"]))
        for name in hanse.__all__:
            self.assertTrue(hasattr(hanse, name), name)

    def test_one_version(self):
        root, version = SCRIPTS.parent, hanse.__version__
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        for path, words in (("CITATION.cff", f"version: {version}\n"),
                            ("scripts/conda/meta.yaml", f'version = "{version}"'),
                            ("scripts/spack/package.py", f'version("{version}"'),
                            (f"scripts/easybuild/hanse-{version}-foss-2023b.eb",
                             f"version = '{version}'"),
                            ("CHANGELOG.md", f"\n## {version}\n"),
                            ("jobs/install.md", f"for version {version}")):
            self.assertIn(words, (root / path).read_text(), path)
