"""Cases that are drawn, and successive halving, with a program that pretends."""
import csv
import json
import math
import os
import sys

from support import SCRIPTS
from test_sweep import PROGRAM, MadeRepository

sys.path.insert(0, str(SCRIPTS))
import hanse  # noqa: E402
from hanse import searching, study_files  # noqa: E402

RANGES = {"client.lr": ["log:0.001..1"], "client.mu": ["uniform:-1..3"],
          "client.batch": ["whole:2..9"], "aggregator.kind": ["afl", "term"]}


class DrawTest(MadeRepository):
    def test_draws_are_in_their_ranges_and_spread_over_them(self):
        cases = study_files.drawn(RANGES, 400, 1)
        rates = sorted(float(case["client.lr"]) for case in cases)
        self.assertTrue(0.001 <= rates[0] < rates[-1] <= 1)
        self.assertAlmostEqual(math.log10(rates[200]), -1.5, delta=0.25)  # the median of the logs
        weights = sorted(float(case["client.mu"]) for case in cases)
        self.assertTrue(-1 <= weights[0] < weights[-1] <= 3)
        self.assertAlmostEqual(weights[200], 1, delta=0.3)
        self.assertEqual({case["client.batch"] for case in cases}, set("23456789"))
        kinds = [case["aggregator.kind"] for case in cases]
        self.assertAlmostEqual(kinds.count("afl"), 200, delta=40)

    def test_more_draws_go_on_with_the_same_and_a_seed_numbers_others(self):
        few, many = (study_files.drawn(RANGES, count, 7) for count in (5, 20))
        self.assertEqual(few, many[:5])
        self.assertEqual(study_files.drawn({**RANGES, "client.steps": ["whole:1..9"]}, 5, 7)[0][
            "client.lr"], few[0]["client.lr"])  # whatever else is drawn
        self.assertNotEqual(few, study_files.drawn(RANGES, 5, 8))

    def test_no_more_cases_than_there_are(self):
        self.assertEqual(len(study_files.drawn({"client.batch": ["1", "2", "3"]}, 9, 1)), 3)

    def test_what_is_no_range(self):
        for text in ("log:0..1", "uniform:2..1", "whole:1.5..3", "log:a..b", "uniform:0..inf"):
            with self.assertRaisesRegex(hanse.Refused, f"{text}: no range; hint: log:0.001..1"):
                study_files.drawn({"client.lr": [text]}, 2, 1)

    def test_a_sweep_of_drawn_cases_goes_on_and_knows_its_seed(self):
        options = ["jobs/job.cfg", "--set", "client.lr=log:0.01..1", "--out", "out", "--random"]
        first = self.call(*options, "3")
        self.assertEqual((first.returncode, first.stderr, len(self.calls())), (0, "", 3))
        self.assertEqual(json.loads((self.folder / "out/sweep.json").read_text())["random"],
                         {"seed": 1, "vary": {"client.lr": ["log:0.01..1"]}})
        more = self.call(*options, "5")
        self.assertEqual((more.returncode, more.stderr, len(self.calls())), (0, "", 5))
        self.assertIn("3 of 5 runs are there already", more.stdout)
        self.assertEqual(self.call("out", "--table").stdout, more.stdout.partition("\n")[2].split(
            "s\n", 2)[-1])
        self.assertIn("for another job file or other options",
                      self.call(*options, "5", "--random-seed", "2").stderr)
        plain = self.call("jobs/job.cfg", "--set", "client.lr=log:0.01..1")
        self.assertEqual((plain.returncode, plain.stderr), (2, "sweep: client.lr=log:0.01..1 is a "
                                                            "range; hint: --random N draws N cases\n"))


    def test_a_study_file_may_say_it(self):
        text = 'job = "jobs/job.cfg"\nrandom = 3\n[vary]\nclient.lr = ["log:0.01..1"]\n'
        self.write("mine.toml", text)
        self.assertEqual(self.call("mine.toml", "--out", "out").returncode, 0)
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual((self.folder / "out/study.toml").read_text(), text)
        for line, words in (("budget = 'x'", "a number of whole runs"), ("random = 0", "at least 1"),
                            ("search = 'grid'", "--search grid: unknown; hint: known: halving")):
            self.write("mine.toml", line + "\n" + text.replace("random = 3\n", "random = 3\n" * (
                not line.startswith("random"))))
            result = self.call("mine.toml", "--out", "none")
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1))
            self.assertIn(words, result.stderr)


class RungsTest(MadeRepository):
    def test_every_rung_costs_as_much_first_in_rounds_and_then_in_seeds(self):
        self.assertEqual(searching.rungs_of(8, 6, 100), [
            searching.Rung(8, 1, 25), searching.Rung(4, 1, 50), searching.Rung(2, 1, 100)])
        self.assertEqual(searching.rungs_of(8, 24, 100), [
            searching.Rung(8, 1, 100), searching.Rung(4, 2, 100), searching.Rung(2, 4, 100)])
        self.assertEqual([rung.cases for rung in searching.rungs_of(7, 9, 100)], [7, 4, 2])
        self.assertEqual(searching.rungs_of(1, 9, 100), [])

    def test_the_budget_is_kept(self):
        for cases in (2, 3, 5, 9, 16, 33):
            for budget in (2, 5, 11.5, 40, 200):
                try:
                    rungs = searching.rungs_of(cases, budget, 50)
                except hanse.Refused:
                    continue
                spent = sum(rung.cases * rung.seeds * rung.rounds for rung in rungs)
                self.assertLessEqual(spent, budget * 50, (cases, budget))
                self.assertGreater(spent, budget * 50 / 3, (cases, budget))

    def test_less_than_a_round_is_refused_with_the_least_budget(self):
        with self.assertRaisesRegex(hanse.Refused, "less than a round each; hint: at least 3"):
            searching.rungs_of(8, 1, 8)
        self.assertEqual(searching.rungs_of(8, 3, 8)[0].rounds, 1)


class SearchTest(MadeRepository):
    """The pretended accuracy is lr + seed/100, and NOISE for short runs: they prefer small rates."""

    def setUp(self):
        super().setUp()
        self.write("jobs/job.cfg", "[run]\nrounds = 40\n")
        short = 'case " $* " in *--run.rounds=10\\ *) lr=$(awk "BEGIN { print 1 - $lr }") ;; esac\n'
        program = PROGRAM.replace('mkdir -p "$folder"\n', 'mkdir -p "$folder"\n' + short, 1)
        path = self.folder / "build/hanse"
        path.write_text(program)
        path.chmod(0o755)

    def search(self, *arguments, rates="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"):
        return self.call("jobs/job.cfg", "--set", f"client.lr={rates}", "--search", "halving",
                         "--budget", "6", "--seeds", "3", "--out", "out", *arguments)

    def test_the_better_half_goes_on_and_the_chosen_case_has_fresh_seeds(self):
        result = self.search()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        calls = self.calls()
        self.assertEqual(len(calls), 8 + 4 + 2 + 3)
        self.assertEqual(sum("--run.rounds=10" in call for call in calls), 8)
        self.assertEqual(sum("--run.rounds=20" in call for call in calls), 4)
        # Of short runs the small rates are better; of these the largest is.
        chosen = [call for call in calls if "out/chosen" in call]
        self.assertTrue(all("--client.lr=0.4" in call for call in chosen))
        self.assertEqual(sorted(call.partition("--run.seed=")[2].split()[0] for call in chosen),
                         ["2", "3", "4"])
        for call in calls:
            if "out/rung" in call:
                self.assertIn("--run.seed=1 ", call + " ")
        with open(self.folder / "out/chosen/table.csv", newline="") as file:
            line = next(csv.DictReader(file))
        self.assertEqual((line["client.lr"], line["n"]), ("0.4", "3"))
        self.assertAlmostEqual(float(line["mean"]), 0.43)  # 0.41 on the seed that chose it
        for words in ("rung 1: 8 cases of 10 rounds; the best by accuracy_mean is client.lr=0.1, 0.91",
                      "rung 3: 2 cases of 40 rounds; the best by accuracy_mean is client.lr=0.4, 0.41",
                      "chosen: client.lr=0.4; the table is of whole runs on fresh seeds, 2 to 4, which "
                      "have chosen nothing"):
            self.assertIn(words, result.stdout)

    def test_it_goes_on_where_it_was(self):
        whole = self.search()
        before = len(self.calls())
        for arguments in ([], ["--jobs", "1"]):
            self.assertEqual(self.search(*arguments).stdout.split("\n\n", 1)[-1],
                             whole.stdout.split("\n\n", 1)[-1])
        again = self.call("out")
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        table = self.call("out", "--table")
        self.assertIn("chosen: client.lr=0.4", table.stdout)
        self.assertEqual(len(self.calls()), before)
        os.remove(self.folder / "out/rung-2/client.lr=0.1/seed-1/summary.json")
        self.assertIn("rung 2: not ended", self.call("out", "--table").stdout)
        self.assertEqual(self.search().returncode, 0)
        self.assertEqual(len(self.calls()), before + 1)

    def test_a_case_that_fails_is_told_and_not_chosen(self):
        result = self.search(rates="0.1,9,0.3,0.4")
        self.assertEqual(result.returncode, 0)
        self.assertIn("client.lr=9: 1 of 1 runs failed (seed 1): it fails", result.stdout)
        self.assertIn("chosen: client.lr=0.4", result.stdout)
        none = self.search("--out", "none", rates="9,8")
        self.assertEqual((none.returncode, none.stderr),
                         (2, "sweep: rung 1: no case has a number; client.lr=9: 3 of 3 runs failed "
                          "(seeds 1, 2, 3): it fails\n"))

    def test_what_decides_goes_with_the_search(self):
        self.search("--metrics", "loss_mean,accuracy_mean")
        self.assertIn('"metrics" = ["loss_mean", "accuracy_mean"]',
                      (self.folder / "out/search.toml").read_text())

    def test_what_a_search_refuses(self):
        for more, words in ((["--against", "client.lr=0.1"], "a search ends with one case"),
                            (["--slurm"], "a search ends with one case"),
                            (["--set", "run.rounds=3,4"], "run.rounds varies"),
                            (["--budget", "0.5"], "at least 1 is needed"),
                            (["--client.lr=bad"], "no number")):
            result = self.search(*more, rates="0.1,0.2" if "bad" not in more[0] else "bad,bad2")
            self.assertEqual((result.returncode, self.calls()), (2, []), more)
            self.assertIn(words, result.stderr)
        with self.assertRaisesRegex(hanse.Refused, "is a search; hint: scripts/sweep runs it"):
            self.search()
            os.environ["HANSE_PROGRAM"] = str(self.folder / "build/hanse")
            self.addCleanup(os.environ.pop, "HANSE_PROGRAM")
            hanse.sweep(self.folder / "out")
