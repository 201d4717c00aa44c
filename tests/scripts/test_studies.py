"""Studies: their files, tables of differences and of rounds to a target, and hanse.sweep."""
import csv
import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import types
import unittest
import warnings

from scipy import stats

from support import SCRIPTS, ScriptTest
from test_inference import FIRST, OTHER, signed_ranks
from test_sweep import MadeRepository

sys.path.insert(0, str(SCRIPTS))
from shared import paper_tables, study_tables, sweeping  # noqa: E402
import hanse  # noqa: E402
from hanse import study_files  # noqa: E402


class FileTest(ScriptTest):
    def read(self, text):
        return study_files.read_file(self.write("mine.toml", text))

    def test_what_varies_and_what_is_common(self):
        table = self.read('job = "a.cfg"\nseeds = 3\n[set]\nrun.trace = true\n[vary]\n'
                          'client.lr = [0.1, 1]\n"model.hidden" = [[20, 10], "5"]\n')
        self.assertEqual(table["set"], {"run.trace": "true"})
        cases = study_files.cases_of(table)
        self.assertEqual([case.name for case in cases],
                         ["client.lr=0.1,model.hidden=20,10", "client.lr=0.1,model.hidden=5",
                          "client.lr=1,model.hidden=20,10", "client.lr=1,model.hidden=5"])
        self.assertEqual(cases[0].values, {"client.lr": "0.1", "model.hidden": "20,10"})
        again = self.read(study_files.toml_of(table))
        self.assertEqual(study_files.cases_of(again), cases)
        self.assertEqual(again["set"], table["set"])

    def test_rows_by_name(self):
        table = self.read('job = "a.cfg"\nrows = [{name = "the \\"slow\\" one", set = {client.lr = '
                          '0.1}}, {name = "fast"}]\n[vary]\nclient.batch = [7]\n')
        cases = study_files.cases_of(table)
        self.assertEqual(cases[0].options, {"client.lr": "0.1", "client.batch": "7"})
        self.assertEqual(cases[1].values, {"row": "fast", "client.batch": "7"})
        self.assertEqual(study_files.cases_of(self.read(study_files.toml_of(table))), cases)

    def test_what_is_no_study(self):
        for text, words in [
                ("[vary]\nclient.lr = [1]\n", "names no job"),
                ('job = "a"\n[vary]\n', "varies nothing"),
                ('job = "a"\n[vary]\nclient.lr = []\n', "client.lr is no list of values"),
                ('job = "a"\n[vary]\nclient.lr = 1\n', "client.lr is no list of values"),
                ('job = "a"\nseeds = 0\n', "seeds = 0"),
                ('job = "a"\nseeds = "3"\n', "seeds = '3'"),
                ('job = "a"\nseed = 1\n', "unknown key 'seed'; hint: known: title, job"),
                ('job = "a"\n[report]\nmetric = "x"\n', "[report] unknown key 'metric'"),
                ('job = "a"\nset = {run.seed = 1}\n', "run.seed: a study sets it"),
                ('job = "a"\n[vary]\nrun.out = ["b"]\n', "run.out: a study sets it"),
                ('job = "a"\nrows = [{set = {}}]\n', "rows without names"),
                ('job = "a"\nrows = [{name = "b {}", each = ["x"]}]\n', "each = ['x'] names no parts"),
                ('job = "a"\nrows = [{name = "{}", each = true, paper = {y = ["1"]}}]\n'
                 'parts = [{name = "x"}]\n', "row '{}' has no part 'y'; hint: known: x"),
                ('like = "mine"\njob = "a"\n', "it is like itself"),
                ('job = "a\n', "line 1")]:
            with self.subTest(text), self.assertRaises(hanse.Refused) as raised:
                self.read(text)
            self.assertIn(words, str(raised.exception))
            self.assertIn("mine.toml: ", str(raised.exception))
        with self.assertRaisesRegex(hanse.Refused, "called 'client.lr=1'"):
            study_files.cases_of(self.read('job = "a"\n[vary]\nclient.lr = [1, 1]\n'))

    def test_rows_of_parts_and_files_like_others(self):
        """Rows come in their order, the parts of each in theirs, and what a part says counts first."""
        first = self.read('''job = "a"
            rows = [{name = "plain"}, {name = "fast {}", set.client.lr = 1, set.client.mu = 2, \
each = true, paper.y = ["7"], may-diverge = ["x"]},
                    {name = "f = {}", each = {attack.clients = [1, 2]}}, {name = "{}", each = ["y"]}]
            parts = [{name = "x", set = {client.mu = 3}}, {name = "y", base = "x"}]''')
        self.assertEqual(first["rows"], [
            {"name": "plain", "set": {}},
            {"name": "fast x", "set": {"client.lr": "1", "client.mu": "3"}, "may-diverge": True},
            {"name": "fast y", "set": {"client.lr": "1", "client.mu": "2"}, "base": "fast x",
             "paper": ["7"]},
            {"name": "f = 1", "set": {"attack.clients": "1"}},
            {"name": "f = 2", "set": {"attack.clients": "2"}},
            {"name": "y", "set": {}, "base": "x"}])
        self.write("other.toml", (self.folder / "mine.toml").read_text())
        second = self.read('''like = "other"
            seeds = 4
            change = [{name = "fast {}", set = {client.lr = 5}, each = ["x"], paper = {}}]''')
        self.assertEqual((second["job"], second["seeds"]), ("a", 4))
        self.assertEqual([row["name"] for row in second["rows"]],
                         ["plain", "fast x", "f = 1", "f = 2", "y"])
        self.assertEqual(second["rows"][1]["set"], {"client.lr": "5", "client.mu": "3"})
        with self.assertRaisesRegex(hanse.Refused, "no row 'fast' to change; hint: known: plain, fast {}"):
            self.read('like = "other"\nchange = [{name = "fast"}]\n')
        _, text = study_files.study_of(self.write("mine.toml", 'like = "other"\n'))
        self.assertEqual(self.read(text)["rows"], [{"name": row["name"], "set": row["set"]}
                                                   for row in first["rows"]])  # goes with the runs alone

    def test_the_tables_of_papers_are_such_files(self):
        for path in (SCRIPTS / "reproductions").glob("*.toml"):
            self.assertGreater(len(study_files.cases_of(study_files.read_file(path))), 1)


class StudyTest(MadeRepository):
    """scripts/sweep on runs that are there."""

    def setUp(self):
        super().setUp()
        self.write("study.toml", '# Mine.\ntitle = "Rates"\njob = "jobs/job.cfg"\nseeds = 7\n'
                   '[vary]\nclient.lr = [0.1, 0.2, 0.4]\n')

    def make(self, case, numbers, metric="auroc", first=1):
        for seed, number in enumerate(numbers, first):
            self.write(f"runs/sweep-study/client.lr={case}/seed-{seed}/summary.json",
                       json.dumps({"rounds": 9, "split": "test", "metrics": {metric: number}}))

    def make_three(self):
        self.make("0.1", OTHER)
        self.make("0.2", FIRST)
        self.make("0.4", [0.5, 0.6, 0.7, 0.81, 0.78, 0.80, 0.75])

    def show(self, *arguments):
        result = self.call("study.toml", "--table", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def numbers(self, name="table.csv"):
        with open(self.folder / "runs/sweep-study" / name, newline="") as file:
            return list(csv.DictReader(file))

    def test_a_study_is_run_and_goes_with_its_results(self):
        text = (self.folder / "study.toml").read_text().replace("seeds = 7", "seeds = 2")
        text += '[report]\nmetrics = "accuracy_mean"\n'
        self.write("mine/rates.toml", text)
        result = self.call("mine/rates.toml")
        self.assertEqual((result.returncode, result.stderr, len(self.calls())), (0, "", 6))
        out = self.folder / "runs/sweep-rates"
        self.assertEqual((out / "study.toml").read_text(), text)
        self.assertRegex(result.stdout, r"0\.4 +2 +41\.50 % ± 6\.35\n")
        # Its folder is a study too, without the job and the program.
        (self.folder / "jobs/job.cfg").unlink()
        (self.folder / "build/hanse").unlink()
        again = self.call("runs/sweep-rates", "--table", "--against", "client.lr=0.10")
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertIn("accuracy_mean, difference to client.lr=0.10, in points\n", again.stdout)
        self.assertEqual((out / "study.toml").read_text(), text)

    def test_options_come_on_top_of_a_study(self):
        result = self.call("study.toml", "--seeds", "1", "--set", "client.lr=0.3", "--set",
                           "client.batch=5,6", "--run.rounds=3", "--out", "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.calls()), 2)
        self.assertIn("--run.rounds=3 ", self.calls()[0])
        table = study_files.read_study(self.folder / "out")
        self.assertEqual(table["vary"], {"client.lr": ["0.3"], "client.batch": ["5", "6"]})
        self.assertEqual((table["title"], table["seeds"]), ("Rates", 1))

    def test_differences_with_scipy(self):
        self.make_three()
        said = self.show("--against", "client.lr=0.1")
        own, p, wilcoxon = {}, [], []
        for line in self.numbers():
            own[line["client.lr"]] = line
        third = [0.5, 0.6, 0.7, 0.81, 0.78, 0.80, 0.75]
        for values in (FIRST, third):
            p.append(stats.ttest_rel(values, OTHER).pvalue)
            wilcoxon.append(signed_ranks([a - b for a, b in zip(values, OTHER)]))
        for key, values, at in (("0.2", FIRST, 0), ("0.4", third, 1)):
            line = {name: float(text) for name, text in own[key].items()
                    if text and name not in ("metric", "against")}
            apart = [a - b for a, b in zip(values, OTHER)]
            low, high = stats.t.interval(0.95, 6, statistics.fmean(apart), stats.sem(apart))
            holm = [min(1, 2 * p[i]) if p[i] == min(p) else max(p[i], 2 * min(p)) for i in (0, 1)]
            for name, expected in (("mean", statistics.fmean(values)), ("n", 7), ("pairs", 7),
                                   ("difference", statistics.fmean(apart)), ("p", p[at]),
                                   ("difference_low", low), ("difference_high", high),
                                   ("p_wilcoxon", wilcoxon[at]), ("p_holm", holm[at])):
                self.assertAlmostEqual(line[name], expected, places=10, msg=name)
        self.assertEqual((own["0.1"]["difference"], own["0.1"]["p"]), ("", ""))
        self.assertRegex(said, r"\n0\.2 +7 +\+0\.037 ± 0\.029 +0\.021 +0\.041 +0\.047 +0\.062\n")
        self.assertIn("corrected for the 2 comparisons of a metric", said)

    def test_few_seeds_have_no_p_value_and_it_says_so(self):
        self.make("0.1", OTHER[:4])
        self.make("0.2", FIRST[:4])
        self.make("0.4", FIRST[:6], first=3)
        said = self.show("--against", "client.lr=0.1")
        self.assertEqual([line["p"] for line in self.numbers()], ["", "", ""])
        self.assertIn("no p-value of fewer than 5 common seeds", said)
        self.assertNotIn("p (t)", said)
        self.assertEqual([line["pairs"] for line in self.numbers()], ["", "4", "2"])
        self.assertIn("both cases have: fewer in client.lr=0.2, client.lr=0.4",
                      said.replace("\n", " "))

    def test_seeds_that_change_nothing_are_one_observation(self):
        """Copies of one run up to the order of sums; a case whose losses differ is none, though its
        accuracies agree."""
        for lr, accuracy, spread in (("0.1", 0.75, 1e-9), ("0.2", 0.8, 1e-9), ("0.4", 0.8, 1e-3)):
            for seed in range(1, 8):
                self.write(f"runs/sweep-study/client.lr={lr}/seed-{seed}/summary.json", json.dumps(
                    {"metrics": {"accuracy_mean": accuracy, "target_seconds": seed,
                                 "loss_mean": 0.5 + spread * seed}}))
        said = self.show("--against", "client.lr=0.1").replace("\n", " ")
        lines = {(line["client.lr"], line["metric"]): line for line in self.numbers()}
        self.assertEqual([lines[lr, "accuracy_mean"][name] for lr in ("0.1", "0.2", "0.4")
                          for name in ("n", "pairs")], ["1", "", "1", "1", "7", "7"])
        copy, other = lines["0.2", "accuracy_mean"], lines["0.4", "loss_mean"]
        self.assertEqual((copy["difference"], copy["p"], copy["p_wilcoxon"], copy["low"]),
                         ("0.05", "", "", ""))
        self.assertNotEqual((other["p"], other["p_wilcoxon"]), ("", ""))
        self.assertIn("In 2 of 3 cases the seeds change nothing", said)
        self.assertRegex(said, r"0\.1 +7 +75\.00 % +0\.5 ")  # no interval
        shown = self.call("runs/sweep-study", name="results").stdout
        self.assertIn("In 2 of 3 cases the seeds change nothing", shown)
        self.assertRegex(shown, r"accuracy, mean of clients +75\.00 % +80\.00 % +80\.00 % \(0\.00\)")

    def test_a_pivot_has_a_column_a_value(self):
        for lr, batch in itertools.product(("0.1", "0.2"), ("5", "6")):
            for seed in (1, 2):
                self.write(f"out/client.lr={lr},client.batch={batch}/seed-{seed}/summary.json",
                           json.dumps({"metrics": {"auroc": float(lr) + float(batch) / 100}}))
        self.call("jobs/job.cfg", "--set", "client.lr=0.1,0.2", "--set", "client.batch=5,6",
                  "--seeds", "2", "--out", "out", "--table", "--pivot", "client.batch",
                  "--against", "client.batch=5")
        with open(self.folder / "out/table.csv", newline="") as file:
            compared = [line for line in csv.DictReader(file) if line["against"]]
        self.assertEqual([(line["client.lr"], line["client.batch"], line["against"])
                          for line in compared],  # each with the one that is else the same
                         [("0.1", "6", "client.lr=0.1,client.batch=5"),
                          ("0.2", "6", "client.lr=0.2,client.batch=5")])
        self.assertEqual((self.folder / "out/table.md").read_text().splitlines()[2:6],
                         ["| lr | batch = 5 | batch = 6 |", "| --- | ---: | ---: |",
                          "| 0.1 | 0.15 | 0.16 |", "| 0.2 | 0.25 | 0.26 |"])

    def test_tables_for_latex(self):
        self.write("study.toml", 'job = "jobs/job.cfg"\nseeds = 7\nrows = [{name = '
                   '"50 % & #1_a^~{x}\\\\ <B = ∞>"}, {name = "plain"}]\n')
        for row, numbers in (("50 % & #1_a^~{x}\\ <B = ∞>", FIRST), ("plain", OTHER)):
            case = study_files.Case(row, {}).folder()
            for seed, number in enumerate(numbers, 1):
                self.write(f"runs/sweep-study/{case}/seed-{seed}/summary.json",
                           json.dumps({"metrics": {"accuracy_mean": number}}))
        said = self.show("--against", "row=plain", "--latex")
        path = self.folder / "runs/sweep-study/table.tex"
        self.assertIn("runs/sweep-study/table.tex\n", said)
        text = path.read_text()
        self.assertIn(r"50 \% \& \#1\_a\textasciicircum{}\textasciitilde{}\{x\}\textbackslash{} "
                      r"$<$B = $\infty$$>$ & 7 & 84.43 \% $\pm$ 3.58 \\", text)
        self.assertIn(r"row & runs & accuracy\_mean \\", text)
        self.assertEqual(text.count(r"\begin{tabular}{lrr}"), 1)
        if not shutil.which("pdflatex"):
            return
        found = subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False)
        for package in [""] if found.returncode else ["", r"\usepackage{booktabs}"]:
            page = self.write("page.tex", "\\documentclass{article}" + package +
                              f"\\begin{{document}}\\input{{{path}}}\\end{{document}}\n")
            done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", page],
                                  cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:])

    def write_curve(self, lr, seed, values, clock=False):
        """Evaluations of rounds 2, 4, ...; a round takes seed seconds, sends 100 bytes and with a
        clock lasts 7 virtual seconds."""
        run = f"runs/sweep-study/client.lr={lr}/seed-{seed}"
        self.write(f"{run}/summary.json", json.dumps({"metrics": {"auroc": 0.5}}))
        self.write(f"{run}/evaluations.csv", "round,split,auroc\n" + "".join(
            f"{2 * i},test,{value}\n" for i, value in enumerate(values, 1)))
        head = "round,seconds,bytes_sent,bytes_updates" + (",virtual_seconds" if clock else "")
        self.write(f"{run}/rounds.csv", f"{head}\n" + "".join(
            f"{i},{seed},0,100{f',{7 * i}' if clock else ''}\n"
            for i in range(1, 2 * len(values) + 1)))

    def test_what_a_target_costs(self):
        for seed in (1, 2, 3):
            self.write_curve("0.1", seed, [0.1, 0.3, 0.4, 0.5, 0.5, 0.6])  # 0.5 in round 8
            self.write_curve("0.2", seed, [0.5, 0.2, 0.5])  # in round 2
            self.write_curve("0.4", seed, [0.1, 0.5 if seed == 2 else 0.4])  # one of three, in 4
        said = self.show("--to", "auroc>=0.5,0.9")
        lines = self.numbers("targets.csv")
        shown = ("client.lr", "level", "n", "reached", "rounds", "bytes", "seconds", "factor")
        self.assertEqual([tuple(line[name] for name in shown) for line in lines[:3]],
                         [("0.1", "0.5", "3", "3", "8.0", "800.0", "16.0", "1.0"),
                          ("0.2", "0.5", "3", "3", "2.0", "200.0", "4.0", "4.0"),
                          ("0.4", "0.5", "3", "1", "4.0", "400.0", "8.0", "")])
        half = stats.t.ppf(0.975, 2) * 8 / math.sqrt(3)  # of 8, 16 and 24 seconds
        self.assertAlmostEqual(float(lines[0]["seconds_high"]), 16 + half, places=9)
        self.assertEqual({line["reached"] for line in lines[3:]}, {"0"})
        self.assertRegex(said, r"to auroc >= 0\.5\nlr +reached +rounds +MB +seconds +factor\n")
        self.assertRegex(said, r"\n0\.4 +1 of 3 +4 +0\.0004 +8 +-\n")
        said = self.show("--to", "auroc<=0.3", "--against", "client.lr=0.2")
        self.assertEqual([line["factor"] for line in self.numbers("targets.csv")],
                         ["2.0", "1.0", "2.0"])

    def test_factors_are_of_what_both_cases_count(self):
        """Virtual seconds where both have a clock, rounds where these are one unit, bytes where
        asked; intervals are of logarithms, and so positive."""
        for seed, rounds in enumerate((4, 1, 2), 1):
            self.write_curve("0.1", seed, [*[0.1] * rounds, 0.9])  # in rounds 10, 4, 6
            self.write_curve("0.2", seed, [0.1, 0.9])  # in round 4
            self.write_curve("0.4", seed, [0.9] if seed < 3 else [0.1])
        said = self.show("--to", "auroc>=0.5").replace("\n", " ")
        line = self.numbers("targets.csv")[1]
        logs = [math.log(rounds / 4) for rounds in (10, 4, 6)]
        half = stats.t.ppf(0.975, 2) * stats.sem(logs)
        for name, expected in (("factor", 0), ("factor_low", -half), ("factor_high", half)):
            self.assertAlmostEqual(float(line[name]), math.exp(statistics.fmean(logs) + expected),
                                   places=7)
        self.assertGreater(float(line["factor_low"]), 0)
        self.assertEqual((line["factor_of"], line["never"]), ("rounds", "0"))
        self.assertIn("factor: rounds of the first row / rounds", said)
        self.assertIn("runs that never reach 0.5: client.lr=0.4 1 of 3", said)
        self.write("runs/sweep-study/client.lr=0.2/seed-1/job.cfg", "[async]\nkind = fedbuff\n"
                   "buffer = 3\n")
        said = self.show("--to", "auroc>=0.5").replace("\n", " ")
        self.assertEqual(self.numbers("targets.csv")[1]["factor"], "")
        self.assertIn("client.lr=0.2: no factor to client.lr=0.1: its round is a round, here 3 "
                      "arrivals (fedbuff) or a round; --by bytes", said)
        said = self.show("--to", "auroc>=0.5", "--by", "bytes").replace("\n", " ")
        self.assertIn("factor: MB of the first row / MB", said)
        self.assertNotEqual(self.numbers("targets.csv")[1]["factor"], "")

    def test_a_clock_counts_before_rounds(self):
        """Twice as many rounds in half of the time are twice as fast."""
        self.write_curve("0.1", 1, [0.1, 0.9], clock=True)
        self.write_curve("0.2", 1, [0.1, 0.1, 0.1, 0.9], clock=True)
        path = self.folder / "runs/sweep-study/client.lr=0.2/seed-1/rounds.csv"
        path.write_text("round,seconds,bytes_sent,virtual_seconds\n" + "".join(
            f"{i},1,0,{7 * i / 4}\n" for i in range(1, 9)))
        said = self.show("--to", "auroc>=0.5").replace("\n", " ")
        line = self.numbers("targets.csv")[1]
        self.assertEqual((line["factor"], line["factor_of"]), ("2.0", "virtual_seconds"))
        self.assertIn("factor: virtual seconds of the first row", said)

    def write_clients(self, lr, seed, names, **summary):
        """Accuracies of the named clients, by where they stand in the alphabet."""
        run = f"runs/sweep-study/client.lr={lr}/seed-{seed}"
        values = {name: (ord(name) - 96) / 10 + seed / 100 for name in names}
        mean = statistics.fmean(values.values())
        self.write(f"{run}/clients.csv", "client,name,split,held_out,samples,accuracy\n" + "".join(
            f"{i},{name},test,0,9,{value}\n" for i, (name, value) in enumerate(values.items())))
        self.write(f"{run}/summary.json", json.dumps({"split": "test", **summary, "metrics": {
            "accuracy_mean": mean, "accuracy_worst10": min(values.values()), "auroc": mean / 2}}))

    def test_what_is_compared_is_of_the_same_clients(self):
        """Means over those that both evaluate; what is no such mean is not compared, nor are
        numbers of other samples."""
        for seed in range(1, 8):
            self.write_clients("0.1", seed, "abc")
            self.write_clients("0.2", seed, "bcd")
            self.write_clients("0.4", seed, "abc", split="validation")
        said = self.show("--against", "client.lr=0.1").replace("\n", " ")
        lines = {(line["client.lr"], line["metric"]): line for line in self.numbers()}
        self.assertEqual([lines["0.2", metric][name] for metric in ("accuracy_mean", "auroc")
                          for name in ("difference", "pairs", "p")],
                         ["0.0", "7", "", "", "0", ""])
        self.assertIn("client.lr=0.2 and client.lr=0.1: accuracy_mean over the 2 clients that both "
                      "evaluate, of 3 and 3", said)
        self.assertIn("client.lr=0.2 and client.lr=0.1: accuracy_worst10, auroc not compared: 3 and "
                      "3 clients, and it is no mean over clients", said)
        self.assertIn("client.lr=0.4 and client.lr=0.1: accuracy_mean, accuracy_worst10, auroc not "
                      "compared: evaluated on validation and test samples", said)
        self.assertEqual(lines["0.4", "accuracy_mean"]["difference"], "")

    def test_limits_and_views_that_differ_are_told(self):
        self.make_three()
        for lr, job in (("0.1", "[run]\nvirtual-seconds = 50\n"),
                        ("0.2", "[run]\nvirtual-seconds = 90\n[client]\nupdate = ditto\n")):
            self.write(f"runs/sweep-study/client.lr={lr}/seed-1/job.cfg", job)
        said = self.show()
        self.assertIn("Caution: unlike limits of virtual time: 50 s, 90 s and none\n", said)
        self.assertIn("Caution: unlike models evaluated: global and personalised\n", said)

    def test_virtual_seconds_where_there_are_such(self):
        self.write_curve("0.1", 1, [0.2, 0.6], clock=True)
        said = self.show("--to", "auroc>=0.5")
        self.assertEqual(self.numbers("targets.csv")[0]["virtual_seconds"], "28.0")
        self.assertRegex(said, r"seconds +virtual seconds +factor\n")

    def test_wrong_input_is_one_line(self):
        self.make_three()
        for arguments, words in [
                (["--against", "client.lt=1"], ["against client.lt=1: 'client.lt' does not vary",
                                                "client.lr"]),
                (["--against", "client.lr=7"], ["no case has it; hint: known: 0.1, 0.2, 0.4"]),
                (["--against", "client.lr"], ["against client.lr: not KEY=VALUE"]),
                (["--pivot", "lr"], ["pivot lr: it does not vary; hint: known: client.lr"]),
                (["--to", "auroc"], ["'auroc' is no target", "hint"]),
                (["--to", "auroc>=a"], ["'auroc>=a' is no target"]),
                (["--metrics", "auc"], ["no run has the metric 'auc'; known: auroc"])]:
            with self.subTest(arguments=arguments):
                self.assert_one_line_error(self.call("study.toml", "--table", *arguments), *words)
        self.write_curve("0.1", 1, [0.5])
        self.assert_one_line_error(self.call("study.toml", "--table", "--to", "auc>=1"),
                                   "no run evaluates 'auc'; known: auroc")
        self.assert_one_line_error(self.call("jobs", "--table"), "jobs holds no study.toml")
        self.assert_one_line_error(self.call("none.toml"), "none.toml: No such file")

    def test_without_scipy_there_are_deviations_and_no_tests(self):
        self.make_three()
        self.write("without/scipy.py", "raise ImportError\n")
        def call(*arguments):
            return self.script(self.folder / "scripts/sweep", "study.toml", *arguments,
                               cwd=self.folder, env={**os.environ,
                                                     "PYTHONPATH": str(self.folder / "without")})
        result = call("--table")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("0.8071 (0.014)", result.stdout)
        self.assertIn("apt install python3-scipy", result.stdout)
        for seed in (1, 2):
            self.write_curve("0.1", seed, [0.1, 0.9])
        result = call("--table", "--to", "auroc>=0.5")  # factors without intervals
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_one_line_error(call("--seeds", "9", "--against", "client.lr=0.1"),
                                   "python3-scipy")
        self.assertEqual(self.calls(), [])  # before hours of runs

    def test_a_table_fits_the_width(self):
        table = study_tables.Table("", ["case", *(f"metric {i}" for i in range(9))],
                                   [["a case", *("12.34 % ± 0.56" for _ in range(9))]], 1)
        for width in (30, 80, 200):
            lines = study_tables.text(table, width).splitlines()
            self.assertLessEqual(max(map(len, lines)), width)
            self.assertEqual(sum(line.count("±") for line in lines), 9)

    def test_folders_are_shown_in_the_study_s_order(self):
        self.write("study.toml",
                   'job = "jobs/job.cfg"\nseeds = 2\n[vary]\nclient.lr = [0.4, 0.1]\n')
        self.make("0.1", [0.5, 0.6])
        self.make("0.4", [0.7])
        self.show()
        self.make("0.2", [0.1])  # which the study does not name
        for case, seed in (("0.1", 1), ("0.1", 2), ("0.4", 1), ("0.2", 1)):
            self.write(f"runs/sweep-study/client.lr={case}/seed-{seed}/job.cfg", "[run]\n")
        self.assertEqual([(place.case, place.count) for place in
                          hanse.several.places(self.folder / "runs/sweep-study")],
                         [("client.lr=0.4", 2), ("client.lr=0.1", 2), ("client.lr=0.2", 2)])
        study = hanse.read_study(self.folder / "runs/sweep-study")
        self.assertEqual((study.keys, study.seeds), (["client.lr"], [1, 2]))
        self.assertEqual([case.values["client.lr"] for case in study.cases], ["0.4", "0.1", "0.2"])
        self.assertEqual(list(study.runs(study.cases[1])), [1, 2])
        self.write("runs/sweep-study/study.toml", "job = 3\n")
        self.assert_one_line_error(self.call("runs/sweep-study", name="results"), "names no job")


class ReproduceTest(MadeRepository):
    """Tables of papers whose numbers are rounds to a target."""

    def test_rounds_to_a_target_and_how_many_times_as_many(self):
        columns = ('{label = "rounds", to = "loss_mean>=7"}, '
                   '{label = "speed-up", to = "loss_mean>=7", factor = true}')
        self.write("scripts/reproductions/made.toml", f"""
title = "A table"\njob = "jobs/job.cfg"\nseeds = 2\ntime = "3 hours"\ndefault = "affordable"
quick = {{}}\nnote = "What differs."\ncolumns = [{columns}]
rows = [{{name = "slow", set = {{"client.lr" = "0.1"}}, paper = ["20", ""]}},
        {{name = "fast", base = "slow"}}, {{name = "long"}}]
[settings.affordable]\nrows = ["slow", "fast"]\ntime = "5 minutes"
""")
        first = self.call("made", "--out", "out", name="reproduce")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        self.assertIn("Cut: setting affordable. The whole table takes 3 hours on 2 cores: "
                      "scripts/reproduce made --setting whole\n", first.stdout)
        self.assertEqual(len(self.calls()), 4)
        for row, seed, values in (("slow", 1, [1, 2, 9]), ("fast", 1, [8, 9]), ("slow", 2, [1, 7])):
            self.write(f"out/{row}/seed-{seed}/evaluations.csv", "round,loss_mean\n" + "".join(
                f"{i},{value}\n" for i, value in enumerate(values, 1)))  # fast, 2: round 10
        self.call("made", "--out", "out", name="reproduce")
        self.assertEqual(self.table()[1:], [["slow", "2", "2.5 (0.71)", "20", "-"],
                                            ["fast", "2", "5.5 (6.4)", "-", "1.6 (2)"]])
        self.assertEqual(len(self.calls()), 4)
        study = hanse.read_study(self.folder / "out")
        self.assertEqual((study.title, study.keys, study.seeds), ("A table", ["row"], [1, 2]))
        self.call("made", "--out", "all", "--setting", "whole", "--seeds", "1", name="reproduce")
        self.assertEqual(len(self.table("all/table.csv")), 4)

    def test_the_best_of_the_worst(self):
        """Of the better rule under the worst attack, seed by seed; a seed with all of its runs
        counts alone."""
        row = {"name": "cell", "set": {"f": "1"}, "best": {"rule": ["a", "b"]},
               "worst": {"attack": ["x", "y"]}}
        table = {"rows": [row], "columns": [{"metric": "accuracy"}], "seeds": 2}
        self.assertEqual(paper_tables.runs_of(table), 8)
        cases = paper_tables.cases_of(row)
        self.assertEqual(cases[1].name, "cell, rule = a, attack = y")
        self.assertEqual(cases[1].options, {"f": "1", "rule": "a", "attack": "y"})
        numbers = {1: [0.9, 0.2, 0.5, 0.6], 2: [0.7, 0.8, 0.1, 0.9]}
        tasks = []
        for seed, own in numbers.items():
            for case, number in zip(cases, own):
                folder = self.folder / f"{case.name}-{seed}"
                self.write(f"{folder.name}/evaluations.csv", f"round,accuracy\n9,{number}\n")
                tasks.append(types.SimpleNamespace(case=case, seed=seed, folder=folder,
                                                   summary=lambda: {"rounds": 9}))
        sweep = types.SimpleNamespace(tasks=tasks, seeds=[1, 2])
        self.assertEqual(paper_tables.numbers_of(table, sweep), ([[[0.5, 0.7]]], [2]))
        tasks.pop()
        self.assertEqual(paper_tables.numbers_of(table, sweep), ([[[0.5]]], [1]))

    def test_numbers_of_summaries_and_of_the_slowest_clients(self):
        """Slow is who works longest, whether it counted or not; who was never drawn is not known."""
        folder = self.folder / "run"
        self.write("run/participation.csv", "round,client,seconds,counted\n"
                   "1,0,2,1\n1,1,9.5,0\n2,2,10,1\n2,3,1,1\n3,4,,0\n")
        self.write("run/clients.csv", "client,accuracy\n0,0.5\n1,0.25\n2,0.75\n3,1\n4,0\n")
        self.write("run/summary.json", '{"metrics": {"target_virtual_seconds": 12.5}}')
        task = types.SimpleNamespace(folder=folder)

        def number(**column):
            return paper_tables.value_of(task, column)
        self.assertEqual(number(file="summary.json", metric="target_virtual_seconds"), 12.5)
        self.assertIsNone(number(file="summary.json", metric="target_round"))
        self.assertEqual(number(file="clients.csv", metric="accuracy", slowest=0.25), 0.75)
        self.assertEqual(number(file="clients.csv", metric="accuracy", slowest=0.5), 0.5)
        self.assertEqual(number(file="clients.csv", metric="accuracy", slowest=0.6), 0.5)
        self.assertIsNone(number(purity="cluster"))
        self.write("run/clients.csv", "client,name,cluster\n0,a-0,1\n1,a-1,1\n2,b-2,1\n3,b-3,0\n"
                   "4,c-4,\n")
        self.assertEqual(number(purity="cluster"), 0.75)


class PythonTest(MadeRepository):
    """hanse.sweep with the pretended program."""

    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        os.environ["HANSE_PROGRAM"] = str(self.folder / "build/hanse")
        self.addCleanup(os.environ.pop, "HANSE_PROGRAM")

    def sweep(self, rates, **options):
        return hanse.sweep("jobs/job.cfg", {"client.lr": rates}, out="out", progress=False,
                           **options)

    def test_a_frame_a_column_a_key_and_curves(self):
        study = self.sweep([0.1, 0.3], seeds=2, options={"client.batch": 7, "run.trace": True})
        self.assertEqual(study.frame[["client.lr", "seed", "accuracy_mean"]].values.tolist(),
                         [[0.1, 1, 0.11], [0.1, 2, 0.12], [0.3, 1, 0.31], [0.3, 2, 0.32]])
        curves = study.curves
        self.assertEqual(list(curves.columns), ["client.lr", "seed", "round", "bytes", "seconds",
                                                "accuracy_mean", "loss_mean"])
        self.assertEqual(len(curves), 8)
        self.assertEqual(curves.groupby("round")["loss_mean"].mean().to_dict(), {5: 5.5, 10: 10.5})
        self.assertIn("--client.batch=7 --run.trace=true", self.calls()[0])
        means = study.means(["accuracy_mean"], against={"client.lr": 0.1})
        self.assertEqual(means["difference"].round(12).tolist()[1:], [0.2])
        self.assertEqual(means["n"].tolist(), [2, 2])
        self.assertTrue(means["p"].isna().all())
        self.assertEqual(study.to("loss_mean>=7")["rounds"].tolist(), [10, 10])
        again = hanse.read_study("out")
        self.assertEqual(again.frame["accuracy_mean"].tolist(), [0.11, 0.12, 0.31, 0.32])
        self.sweep([0.1, 0.3, 0.5], seeds=2, options={"client.batch": 7, "run.trace": True})
        self.assertEqual(len(self.calls()), 6)  # those that were missing

    def test_a_mapping_is_a_job(self):
        study = hanse.sweep({"client.lr": 0.2}, {"client.batch": [1, 2]}, progress=False)
        self.assertEqual(study.path, pathlib.Path("runs/sweep-python"))
        self.assertEqual(study.frame["accuracy_mean"].tolist(), [0.21, 0.21])

    def test_runs_that_fail(self):
        with self.assertWarnsRegex(UserWarning, "failed: client.lr=9, seed 1: status 1: .*fails"):
            study = self.sweep([9, 0.3])
        frame = study.frame
        self.assertEqual(frame[frame["failed"].isna()]["client.lr"].tolist(), [0.3])
        self.assertEqual(frame[frame["failed"].notna()][["client.lr", "seed", "failed"]]
                         .values.tolist(), [[9.0, 1, "it fails"]])
        with self.assertRaisesRegex(hanse.Failed, "it fails"), warnings.catch_warnings():
            hanse.sweep("jobs/job.cfg", {"client.lr": [9]}, out="all", progress=False)
        with self.assertRaisesRegex(hanse.Refused, "client.lr=bad: client.lr: no number"):
            hanse.sweep("jobs/job.cfg", {"client.lr": ["bad"]}, out="none", progress=False)
        with self.assertRaisesRegex(hanse.Refused, "'lr' does not vary"):
            study.means(against={"lr": 1})
        with self.assertRaisesRegex(FileNotFoundError, "jobs is no folder of a study"):
            hanse.read_study("jobs")

    @unittest.skipUnless((SCRIPTS.parent / "build/hanse").exists(), "build/hanse is not built")
    def test_the_notebook(self):
        notebook = json.loads((SCRIPTS / "python/study.ipynb").read_text())
        code = "\n".join("".join(cell["source"]) for cell in notebook["cells"]
                         if cell["cell_type"] == "code")
        said = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, env={
            **os.environ, "PYTHONPATH": str(SCRIPTS / "python"), "MPLBACKEND": "agg",
            "HANSE_PROGRAM": str(SCRIPTS.parent / "build/hanse")}, check=False)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn('"method" = ["fedavg", "fedprox", "scaffold"]', said.stdout)
        self.assertEqual(len(hanse.read_study("runs/study").frame), 36)
        self.assertTrue(all(not cell.get("outputs") for cell in notebook["cells"]))


if __name__ == "__main__":
    unittest.main()
