"""scripts/sweep and scripts/reproduce in a made-up repository whose program pretends."""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import unittest

import numpy
from PIL import Image

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import paper_page, paper_tables, summaries, sweeping  # noqa: E402
from shared.prepared_data import PREPARED  # noqa: E402
from hanse import several  # noqa: E402

SETTING_KEYS = {"seeds", "set", "time", "rows", "grids", "tuning", "note"}

# accuracy_mean = lr + seed / 100, and 1 less on validation samples. It notes how it was called, fails on request, and when asked to
# wait it ends at SIGUSR1 as the real one does: a checkpoint and status 75. A bad lr is what `check`
# finds.
PROGRAM = """#!/usr/bin/env bash
verb=$1 folder=$2
lr=0.5 seed=1 less=0
for option; do
  case $option in
    --client.lr=*) lr=${option#*=} ;; --run.seed=*) seed=${option#*=} ;;
    --run.out=*) folder=${option#*=} ;; --evaluate.on=validation) less=1 ;;
  esac
done
if [[ $verb == check ]]; then
  if [[ $lr == bad* ]]; then echo "hanse: error: client.lr: no number" >&2; exit 2; fi
  exit 0
fi
if [[ $verb == plan ]]; then cat plan.json || exit 1; exit; fi
echo "$*" >>calls
if [[ $lr == 9 ]]; then echo "hanse: error: it fails" >&2; exit 1; fi
if [[ $lr == 8 ]]; then echo "hanse: error: its update is not finite or above 1" >&2; exit 1; fi
mkdir -p "$folder"
if [[ -e wait && $verb == run ]]; then
  trap 'mkdir -p "$folder/checkpoints"; touch "$folder/checkpoints/round-000003.h5"; exit 75' USR1
  echo "$lr $seed" >"$folder/options"
  echo "it runs"
  touch "$folder/started"
  for ((i = 0; i < 300; ++i)); do if [[ -e go ]]; then break; fi; sleep 0.1; done
fi
if [[ $verb == resume ]]; then read -r lr seed <"$folder/options"; fi
value=$(awk "BEGIN { print $lr + $seed / 100 - $less }")
for round in 5 10; do echo "$round,$value,$round.5"; done |
  { echo round,accuracy_mean,loss_mean; cat; } >"$folder/evaluations.csv"
printf '{"seconds": 1.5, "model_digest": "00ff", "metrics": {"accuracy_mean": %s}}' "$value" \\
  >"$folder/summary.json"
"""
TABLE = """
title = "A table"
job = "jobs/job.cfg"
seeds = 2
time = "a minute"
quick = {"run.rounds" = "1"}
note = "What differs."
columns = [{label = "accuracy", metric = "accuracy_mean", scale = "percent"},
           {label = "loss at 5", metric = "loss_mean", at = 5},
           {label = "at 7", metric = "loss_mean", at = 7}]
rows = [{name = "slow", set = {"client.lr" = "0.1"}, paper = ["11.00 (0.50)", "", ""]},
        {name = "fast", set = {"client.lr" = "0.3"}}]
"""

WITH_GRID = TABLE.rstrip()[:-1] + """,
  {name = "tuned", set = {"client.batch" = "7"}, grid = {"client.lr" = ["0.2", "9", "0.4"], \
"model.hidden" = ["3", "4"]}}]

[tuning]
metric = "accuracy_mean"
set = {"evaluate.on" = "validation", "client.batch" = "8"}

[settings.affordable]
seeds = 1
set = {"run.rounds" = "50"}
time = "5 minutes"
rows = ["slow", "tuned"]
grids = "off"
note = "Half of it."

[settings.smaller]
rows = ["tuned"]
grids = {"client.lr" = ["0.2"]}
tuning = {"run.rounds" = "20"}
"""


class MadeRepository(ScriptTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(SCRIPTS, self.folder / "scripts")
        self.write("build/hanse", PROGRAM).chmod(0o755)
        self.write("jobs/job.cfg", "[client]\nlr = 0.5\n")

    def call(self, *arguments, name="sweep"):
        return self.script(self.folder / "scripts" / name, *arguments, cwd=self.folder)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def table(self, path="out/table.csv"):
        with open(self.folder / path, newline="") as file:
            return list(csv.reader(file))

    def start(self, *arguments, name):
        """The process, once two runs have begun and wait."""
        self.write("wait", "")
        command = [self.folder / "scripts" / name, *arguments, "--jobs", "2"]
        process = subprocess.Popen(command, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        for _ in range(600):
            if len(list(self.folder.glob("out/*/seed-*/started"))) == 2:
                break
            time.sleep(0.05)
        return process

    def meanwhile(self, *arguments, name):
        """Calls the script a second time while the first one's two runs wait."""
        process = self.start(*arguments, name=name)
        logs = sorted(self.folder.glob("out/*/seed-1.log"))
        before = [log.read_text() for log in logs]
        result = self.call(*arguments, name=name)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("skipped: another process runs it"), 2)
        self.assertIn(f"{name}: skipped 2 runs", result.stderr)
        self.assertEqual([log.read_text() for log in logs], before)
        self.assertEqual(before, ["it runs\n"] * 2)
        self.assertEqual(len(self.calls()), 2)
        self.write("go", "")
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""), out)

    def interrupt(self, *arguments, name="sweep"):
        """SIGINT once all runs have begun; the output."""
        process = self.start(*arguments, name=name)
        time.sleep(0.2)  # the program's trap
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        (self.folder / "wait").unlink()
        self.assertEqual(process.returncode, 75, out + err)
        self.assertIn("the same command goes on", err)


class SweepTest(MadeRepository):
    def sweep(self, *arguments):
        return self.call("jobs/job.cfg", "--out", "out", *arguments)

    def shown(self):
        """The first table of table.md."""
        lines = (self.folder / "out/table.md").read_text().split("\n\n")[0].splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")]
                for line in lines if "---" not in line]

    def test_grid_and_table(self):
        result = self.sweep("--set", "client.lr=0.1,0.3", "--set", "model.hidden=20,10;5",
                            "--seeds", "2", "--client.batch=7")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(len(self.calls()), 8)
        self.assertIn("[8/8] client.lr=", result.stdout)  # whatever was printed just before it
        for call in self.calls():
            self.assertRegex(call, r"^run jobs/job\.cfg .*--client\.batch=7")
        self.assertEqual(sum("--model.hidden=20,10 " in call for call in self.calls()), 4)
        rows = self.shown()
        self.assertEqual(rows[0], ["lr", "hidden", "runs", "accuracy_mean"])
        # Seeds 1 and 2: mean lr + 0.015, the sample's deviation 0.01 / sqrt 2; t_{0.975, 1} = 12.706.
        self.assertEqual(rows[1], ["0.1", "20,10", "2", "11.50 % ± 6.35"])
        self.assertEqual(rows[4], ["0.3", "5", "2", "31.50 % ± 6.35"])
        self.assertIn("31.50 % ± 6.35", result.stdout)
        self.assertEqual(self.table("out/runs.csv")[1][1:],
                         ["1", "", "1.5", "00ff", "", "", "0.11"])

    def test_runs_that_have_diverged_are_counted(self):
        self.sweep("--set", "client.lr=0.1,0.3", "--seeds", "2")
        for run in sorted((self.folder / "out").glob("*0.3/seed-2")):
            summary = json.loads((run / "summary.json").read_text())
            summary["diverged"] = {"round": 4, "reason": "the update of a client is not finite"}
            (run / "summary.json").write_text(json.dumps(summary))
        result = self.sweep("--set", "client.lr=0.1,0.3", "--seeds", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([row[1] for row in self.shown()], ["runs", "2", "2, 1 diverged"])
        self.assertIn("1 of 4 runs diverged; their numbers are those of the round before.",
                      result.stdout)
        runs = self.table("out/runs.csv")
        place = runs[0].index("diverged")
        self.assertEqual([row[place] for row in runs[1:]], ["", "", "", "4"])

    def test_the_same_command_adds_what_is_missing(self):
        self.sweep("--set", "client.lr=0.1")
        result = self.sweep("--set", "client.lr=0.1,0.3", "--seeds", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.calls()), 4)
        self.assertIn("1 of 4 runs are there", result.stdout)
        self.assertEqual(len(self.shown()), 3)

    def test_methods_by_their_names(self):
        result = self.sweep("--set", "method=fedavg,fedavgm,feddyn", "--set", "client.lr=0.1")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        calls = sorted(self.calls())
        self.assertEqual(["--server.optimizer=momentum" in call for call in calls].count(True), 1)
        self.assertEqual(["--client.update=feddyn" in call for call in calls].count(True), 1)
        self.assertFalse(any("method" in call.split("--run.out")[0] for call in calls))
        self.assertEqual([row[:2] for row in self.shown()[1:]],
                         [[name, "0.1"] for name in ("fedavg", "fedavgm", "feddyn")])
        result = self.sweep("--set", "method=fedsgdm")
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown method 'fedsgdm'; hint: known: fedavg, fedprox", result.stderr)

    def test_what_contradicts_a_method(self):
        """A case of a method's name is that method, whatever else is given."""
        for arguments, words in [
                (["--set", "aggregator.kind=fedavg,afl"],
                 ["--set aggregator.kind=afl: method fedavg"]),
                (["--aggregator.kind=afl"], ["--aggregator.kind=afl: method fedavg", "leave one"]),
                (["--server.lr=0.5"], ["--server.lr=0.5: method fedavg", "--set it"])]:
            with self.subTest(arguments=arguments):
                self.assert_one_line_error(self.sweep("--set", "method=fedavg,fedadam", *arguments),
                                           *words)
        self.assertEqual(self.calls(), [])
        result = self.sweep("--set", "method=fedavg,fedadam", "--set", "server.lr=0.5",
                            "--aggregator.kind=fedavg")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([row[:2] for row in self.shown()[1:]],
                         [["fedavg", "0.5"], ["fedadam", "0.5"]])
        self.assertEqual(sum("--server.lr=0.5 " in call for call in self.calls()), 2)

    def test_runs_of_another_kind_are_not_taken(self):
        """Such as an earlier run of the same name."""
        self.sweep("--set", "method=fedavg")
        job = self.write("out/method=fedavg/seed-1/job.cfg", "[aggregator]\nkind = fedavg\n")
        self.assertEqual(self.sweep("--set", "method=fedavg", "--table").returncode, 0)
        job.write_text("[aggregator]\nkind = afl\n")
        self.assert_one_line_error(self.sweep("--set", "method=fedavg", "--table"),
                                   "out/method=fedavg/seed-1: aggregator.kind = afl, not fedavg",
                                   "hint: remove")

    def test_a_study_does_not_go_on_after_its_files_have_changed(self):
        """Files of the job, of options and of cases, in folders and behind a star; not a file that
        is only written anew."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.write("jobs/job.cfg", "[data]\npath = all.csv  # all\n[model]\nstart = first.h5\n")
        for path in ("all.csv", "first.h5", "rule.py", "sites/a/x.csv", "many/1.csv", "many/2.csv"):
            self.write(path, path)

        def claim(*, rounds=1):
            cases = [sweeping.Case(f"data.path={path}", {"data.path": path})
                     for path in ("sites", "many/*.csv", "none.csv")]
            sweep = sweeping.Sweep("out", "jobs/job.cfg", cases, [1], {
                "aggregator.path": "rule.py", "run.rounds": rounds}, program="build/hanse")
            sweep.claim()
            return json.loads(self.folder.joinpath("out/sweep.json").read_text())["files"]
        files = claim()
        self.assertEqual({path: one["size"] for path, one in files.items()},
                         {"all.csv": 7, "first.h5": 8, "rule.py": 7, "sites": 13,
                          "many/*.csv": 20})
        for path, said in [("all.csv", "all.csv"), ("first.h5", "first.h5"), ("rule.py", "rule.py"),
                           ("sites/a/x.csv", "sites"), ("sites/b.csv", "sites"),
                           ("many/2.csv", "many/*.csv")]:
            with self.subTest(path=path):
                old = self.folder.joinpath(path).exists()
                self.write(path, path[::-1])
                os.utime(path, ns=(5, 5))
                with self.assertRaisesRegex(sweeping.Refused, f"^{re.escape(said)}: changed since "
                                            "the runs in out; hint: choose another --out"):
                    claim()
                self.write(path, path) if old else self.folder.joinpath(path).unlink()
        self.write("none.csv", "now there")
        self.assertEqual(claim()["none.csv"]["size"], 9)
        with self.assertRaisesRegex(sweeping.Refused, "another job file or other options"):
            claim(rounds=2)

    def test_runs_in_a_plain_folder_go_on_where_they_are_of_the_case(self):
        """A folder that two cases shared has the runs of one of them."""
        cases = [sweeping.Case(f"data.path={path}", {"data.path": path})
                 for path in ("d/1.csv", "d:1.csv", "d_1.csv")]
        before = self.folder / "out/data.path=d_1.csv"
        self.assertEqual(cases[0].folder_in(self.folder / "out").name, cases[0].folder())
        self.write(before / "seed-1/job.cfg", "[data]\npath = d/1.csv\n")
        self.assertEqual([case.folder_in(self.folder / "out") == before for case in cases],
                         [True, False, True])
        sweep = sweeping.Sweep(self.folder / "out", self.folder / "jobs/job.cfg", cases[2:], [1])
        with self.assertRaisesRegex(sweeping.Refused, "data.path = d/1.csv, not d_1.csv; hint: "):
            sweep.require_kinds()

    def reached(self, case, *targets):
        """The runs of seeds 1, 2, ... of a case reach their target in these rounds, or never."""
        for seed, target in enumerate(targets, 1):
            metrics = {"accuracy_mean": seed / 10, **({"target_round": target} if target else {}),
                       **({"auroc": 0.5} if seed == 2 else {})}
            run = f"out/{case}/seed-{seed}"
            self.write(f"{run}/summary.json", json.dumps(
                {"rounds": target or 50, "split": "test", "data_digest": f"{seed}",
                 "metrics": metrics}))
            self.write(f"{run}/job.cfg", "[run]\ntarget = accuracy_mean>=0.9\n")

    def test_a_mean_of_some_runs_says_of_how_many(self):
        """Rounds to a target are a mean of those that have reached it, and a median of all."""
        for case, targets in [("client.lr=1", (30, 53, None, None, None)),
                              ("client.lr=2", [None] * 5),
                              ("client.lr=3", (7, 8, 9, 10, 11)), ("client.lr=4", (None, 7, 9))]:
            self.reached(case, *targets)
        result = self.sweep("--set", "client.lr=1,2,3,4", "--seeds", "5", "--table")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.shown(), [
            ["lr", "runs", "accuracy_mean", "auroc", "target_round", "target_round, median"],
            ["1", "5", "30.00 % ± 19.63", "0.5, 1 of 5", "42 ± 146, 2 of 5", ">50"],
            ["2", "5", "30.00 % ± 19.63", "0.5, 1 of 5", "not reached, 0 of 5", ">50"],
            ["3", "5", "30.00 % ± 19.63", "0.5, 1 of 5", "9.0 ± 2.0", "9"],
            ["4", "3 of 5", "20.00 % ± 24.84", "0.5, 1 of 3", "8 ± 13, 2 of 3", "9"]])
        self.assertIn("42 ± 146, 2 of 5", result.stdout)
        self.assertIn("Caution: runs of unlike length: 7 to 53 rounds\n", result.stdout)
        self.assertIn("Caution: unlike data", result.stdout)  # of 5 seeds, and of 3
        self.assertIn("Each run of a mean has data of its own", result.stdout)

    def test_failures_are_shown_and_the_rest_is_run(self):
        result = self.sweep("--set", "client.lr=9,0.3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("client.lr=9, seed 1: status 1: hanse: error: it fails", result.stderr)
        self.assertEqual((result.stdout + result.stderr).count("it fails"), 1)
        self.assertIn("client.lr=9, seed 1: FAILED, out/client.lr=9/seed-1.log", result.stdout)
        self.assertEqual([row[2] for row in self.shown()[1:]], ["-", "31.00 %"])
        self.assertEqual(self.sweep("--set", "client.lr=0.3").returncode, 0)

    def test_all_cases_are_checked_before_the_first_run(self):
        result = self.sweep("--set", "client.lr=0.3,bad,bad2", "--seeds", "2")
        self.assert_one_line_error(result, "client.lr=bad and 1 more: client.lr: no number")
        self.assertEqual(self.calls(), [])
        self.assertFalse((self.folder / "out").exists())
        result = self.sweep("--set", "client.lr=bad", "--slurm")
        self.assert_one_line_error(result, "client.lr=bad: client.lr: no number")

    def test_runs_of_another_sweep_are_skipped(self):
        self.meanwhile("jobs/job.cfg", "--out", "out", "--set", "client.lr=0.1,0.3",
                       name="sweep")
        self.assertEqual(self.shown()[1:], [["0.1", "1", "11.00 %"], ["0.3", "1", "31.00 %"]])

    def test_interrupt_leaves_what_the_same_command_continues(self):
        arguments = ("--set", "client.lr=0.1,0.3")
        self.interrupt("jobs/job.cfg", "--out", "out", *arguments, "--seeds", "2")
        self.assertEqual(len(self.calls()), 2)  # the others were not begun
        result = self.sweep(*arguments, "--seeds", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sum(call.startswith("resume ") for call in self.calls()), 2)
        self.assertEqual([row[2] for row in self.shown()[1:]], ["11.50 % ± 6.35", "31.50 % ± 6.35"])

    def test_slurm_array(self):
        """Each task of the array is one run; the tasks together are the sweep."""
        result = self.sweep("--set", "client.lr=0.1,0.3", "--seeds", "2", "--slurm")
        self.assertEqual((result.returncode, self.calls()), (0, []))
        script = self.folder / "out" / "sweep.sbatch"
        text = script.read_text()
        self.assertIn("#SBATCH --array=0-3\n", text)
        self.assertIn("#SBATCH --time=0-01:00:00\n", text)
        self.assertIn("a guess: hanse plan does not know it", text)
        self.assertIn("\n./scripts/sweep jobs/job.cfg ", text)  # wherever the folder lies
        self.assertIn("#SBATCH --output=out/slurm-%a.log\n", text)
        away = self.task(script, 0, cwd="/")
        self.assertEqual(away.wait(60), 2)
        self.assertIn(f"no out here: submit this from {self.folder}", away.stderr.read())
        for task in range(4):
            process = self.task(script, task)
            self.assertEqual(process.wait(60), 0, process.stderr.read())
            self.assertEqual(len(self.calls()), task + 1)
        result = self.sweep("--set", "client.lr=0.1,0.3", "--seeds", "2", "--table")
        self.assertEqual((result.returncode, len(self.calls())), (0, 4))
        self.assertEqual(self.shown()[2][2], "31.50 % ± 6.35")

    def task(self, script, number, cwd=None, **environment):
        """A task of the array, as Slurm starts it."""
        process = subprocess.Popen(["bash", script], cwd=cwd or self.folder, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number),
                                        "SLURM_ARRAY_JOB_ID": "41", **environment})
        self.addCleanup(process.stderr.close)
        return process

    def test_the_time_of_an_array_is_what_hanse_plan_estimates(self):
        for seconds, time in ((1, "0-00:15:00"), (3600, "0-02:00:00"), (200000, "4-15:07:00")):
            self.write("plan.json", json.dumps({"run_seconds": seconds}))
            self.assertEqual(self.sweep("--set", "client.lr=0.1,0.3", "--slurm").returncode, 0)
            text = (self.folder / "out/sweep.sbatch").read_text()
            self.assertIn(f"#SBATCH --time={time}\n", text)
            self.assertIn("of the longest of 2 cases", text)

    def test_a_task_that_meets_its_limit_queues_itself_again_and_goes_on(self):
        self.sweep("--set", "client.lr=0.1,0.3", "--slurm")
        script = self.folder / "out/sweep.sbatch"
        self.write("bin/scontrol", f"#!/bin/sh\necho \"$@\" >>{self.folder}/queued\n").chmod(0o755)
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        queued = self.folder / "queued"
        for number, again in ((signal.SIGTERM, False), (signal.SIGUSR1, True)):
            self.write("wait", "")
            process = self.task(script, 1, PATH=path)
            started = self.folder / "out/client.lr=0.3/seed-1/started"
            for _ in range(600):
                if started.exists():
                    break
                time.sleep(0.05)
            process.send_signal(number)
            self.assertEqual(process.wait(60), 75, process.stderr.read())
            self.assertEqual(queued.exists(), again)
            os.remove(started)
            if not again:
                shutil.rmtree(self.folder / "out/client.lr=0.3")
        self.assertEqual(queued.read_text(), "requeue 41_1\n")
        process = self.task(script, 1, PATH=path)
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        self.assertEqual([call.split()[0] for call in self.calls()], ["run", "run", "resume"])

    def test_submit(self):
        self.write("bin/sbatch", "#!/bin/sh\necho \"$@\" >submitted\n").chmod(0o755)
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        result = self.script(self.folder / "scripts/sweep", "jobs/job.cfg", "--out", "out",
                             "--slurm", "--submit", cwd=self.folder, env={**os.environ,
                                                                          "PATH": path})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.folder / "submitted").read_text(), "out/sweep.sbatch\n")

    def test_bad_input(self):
        for arguments, words in [
                (["--set", "client.lr"], ["client.lr", "hint"]),
                (["--set", "client.lr=0.1,,2"], ["client.lr=0.1,,2"]),
                (["--set", "client.lr=1", "--set", "client.lr=2"], ["twice"]),
                (["--seeds", "0"], ["--seeds"]), (["--seed", "2"], ["'--seed'", "--help"]),
                (["--run.out=x"], ["run.out", "--out"]), (["--submit"], ["--slurm"]),
                (["--set", "run.seed=1,2"], ["run.seed", "--seeds"])]:
            with self.subTest(arguments=arguments):
                self.assert_one_line_error(self.sweep(*arguments), *words)
        self.assertEqual(self.calls(), [])
        self.assert_one_line_error(self.call("jobs/none.cfg"), "jobs/none.cfg")
        result = self.sweep("--metrics", "accuracy")
        self.assert_one_line_error(result, "'accuracy'", "accuracy_mean")
        self.assertEqual(self.sweep("--metrics", "accuracy_mean").returncode, 0)
        self.write("jobs/job.cfg", "# Another head.\n[client]\nlr = 0.5  # the same\n")
        self.assertEqual(self.sweep().returncode, 0)
        self.write("jobs/job.cfg", "[client]\nlr = 0.7\n")
        self.assert_one_line_error(self.sweep(), "out", "another job file")
        (self.folder / "build/hanse").unlink()
        self.assert_one_line_error(self.sweep(), "build/hanse", "scripts/build")


class MethodsTest(ScriptTest):
    """With the program itself."""

    def test_a_case_of_a_method_is_the_method(self):
        """Of a job of another rule, other clients and another server."""
        if not (SCRIPTS.parent / "build/hanse").exists():
            self.skipTest("build/hanse is not built")
        job = (SCRIPTS.parent / "jobs/heart-aaggff-s.cfg").read_text()
        job = job.replace("= data/", f"= {SCRIPTS.parent}/data/")
        self.write("heart.cfg", job.replace("[client]", "[client]\nupdate = scaffold") +
                   "[server]\noptimizer = adam\nlr = 0.5\nlr-decay = 0.9\n")
        names = ["fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedprox", "fednova",
                 "feddyn", "scaffold", "ditto"]
        result = self.script("sweep", "heart.cfg", "--set", f"method={','.join(names)}",
                             "--run.rounds=1", "--out", "out", cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        optimizers = {"fedavgm": "momentum", "fedadam": "adam", "fedyogi": "yogi",
                      "fedadagrad": "adagrad"}
        for name in names:
            with self.subTest(method=name):
                job = several.read_job(self.folder / f"out/method={name}/seed-1")
                update = "sgd" if name in optimizers else name.removeprefix("fed")
                self.assertEqual(job["aggregator.kind"], "fedavg")
                self.assertEqual(job["client.update"], {"avg": "sgd", "nova": "fednova",
                                                        "dyn": "feddyn"}.get(update, update))
                self.assertEqual(job["server.optimizer"], optimizers.get(name, "sgd"))
                self.assertEqual((job["server.lr"], job["server.lr-decay"]),
                                 ("0.5", "0.9") if name in optimizers else ("1", "1"))


class ReproduceTest(MadeRepository):
    def setUp(self):
        super().setUp()
        shutil.rmtree(self.folder / "scripts/reproductions")
        self.write("scripts/reproductions/made.toml", TABLE)

    def reproduce(self, *arguments):
        return self.call(*arguments, name="reproduce")

    def test_grid_and_table(self):
        result = self.reproduce("made", "--out", "out")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.table(), [
            ["", "runs", "accuracy", "paper", "loss at 5", "at 7"],
            ["slow", "2", "11.50 % (0.71)", "11.00 (0.50)", "5.5 (0)", "-"],
            ["fast", "2", "31.50 % (0.71)", "-", "5.5 (0)", "-"]])
        self.assertIn("What differs.", result.stdout)
        self.assertEqual(len(self.calls()), 4)

    def test_a_mean_of_some_runs_says_of_how_many(self):
        self.reproduce("made", "--out", "out")
        path = self.folder / "out/slow/seed-2/evaluations.csv"
        path.write_text(path.read_text().replace(",5.5", ",inf").replace(",0.12", ",nan"))
        self.write("scripts/reproductions/made.toml", TABLE.replace('"0.3"', '"9"'))
        (self.folder / "out/fast/seed-2/summary.json").unlink()
        self.reproduce("made", "--out", "out")
        self.assertEqual(self.table()[1:], [
            ["slow", "2", "11.00 %, 1 of 2", "11.00 (0.50)", "5.5, 1 of 2", "-"],
            ["fast", "1 of 2", "31.00 %", "-", "5.5", "-"]])

    def test_rows_that_may_diverge(self):
        """They are named, and are no failure; other failures of such a row are, and other rows'."""
        for slow, may, status in [("8", "slow", 0), ("8", "fast", 1), ("9", "slow", 1)]:
            with self.subTest(slow=slow, may=may):
                text = TABLE.replace('"0.1"', f'"{slow}"')
                self.write("scripts/reproductions/made.toml", text.replace(
                    f'{{name = "{may}", ', f'{{name = "{may}", may-diverge = true, '))
                result = self.reproduce("made", "--out", f"out-{slow}-{may}")
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertIn("reproduce: failed: slow, seed 1: status 1", result.stderr)

    def test_quick_and_seeds(self):
        self.assertIn("these numbers say nothing", self.reproduce("made", "--quick").stdout)
        self.assertEqual([re.search(r"--run\.rounds=1 ", call) is not None
                          for call in self.calls()], [True, True])
        self.reproduce("made", "--seeds", "3")
        self.assertEqual(len(self.calls()), 2 + 6)

    def test_all_that_fits_on_one_page(self):
        """Short tables first, fewer seeds where the budget ends, and why others are not there."""
        data = '[data]\nname = "the folder"\nfile = "images"\npath = "own"\nget = "download it"\n'
        for name, time in [("short", "1 second"), ("long", "2 hours"), ("endless", "90 hours")]:
            text = TABLE.replace('"a minute"', f'"{time}"').replace("A table", f"The {name} one")
            self.write(f"scripts/reproductions/{name}.toml", text)
        self.write("scripts/reproductions/made.toml", TABLE + data)
        result = self.reproduce("--all", "--budget", "1.5", "--out", "all")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        page = (self.folder / "all/papers.md").read_text()
        self.assertLess(page.index("## The short one"), page.index("## The long one"))
        self.assertIn("Cut: 1 of 2 seeds. The whole table takes 2 hours on 2 cores: "
                      "scripts/reproduce long\n", page[page.index("## The long one"):])
        self.assertIn("| slow | 2 | 11.50 % (0.71) | 11.00 (0.50) | +0.5 agrees | 5.5 (0) | - |\n"
                      "| fast | 2 | 31.50 % (0.71) | - | - | 5.5 (0) | - |\n", page)
        self.assertIn("| The short one | scripts/reproduce short | 1 |  |  |  |\n", page)
        self.assertIn("| A table | needs the folder; hint: download it", page)
        self.assertIn("| The endless one | a seed of it does not fit into the 90 minutes", page)
        self.assertIn('<td>11.50 % (0.71)</td><td>11.00 (0.50)</td><td class="agrees">+0.5 agrees</td>',
                      (self.folder / "all/papers.html").read_text())
        self.assertEqual(len(self.calls()), 4 + 2)
        self.write("data/own/images", "")
        self.reproduce("--all", "--budget", "1.5", "--out", "all", "--data", "data")
        page = (self.folder / "all/papers.md").read_text()
        self.assertIn("## A table", page)
        self.assertNotIn("Cut:", page)  # the half of the long one that is there takes no time
        self.assertEqual(len(self.calls()), 4 + 2 + 4 + 2)

    def test_grids_are_tuned_on_validation_samples(self):
        self.write("scripts/reproductions/made.toml", WITH_GRID)
        result = self.reproduce("made", "--out", "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([row[:4] for row in self.table()], [
            ["", "tuned", "runs", "accuracy"], ["slow", "-", "2", "11.50 % (0.71)"],
            ["fast", "-", "2", "31.50 % (0.71)"],
            ["tuned", "client.lr = 0.4, model.hidden = 3 (2 of 6 failed)", "2", "41.50 % (0.71)"]])
        points = [call for call in self.calls() if "validation" in call]
        self.assertEqual(len(points), 6)
        for call in points:
            self.assertRegex(call, r"--client\.batch=8 .*--run\.seed=1 .*out/tuning/")
        chosen = [call for call in self.calls() if "--client.batch=7" in call]
        self.assertEqual(len(chosen), 2)
        for call in chosen:
            self.assertRegex(call, r"--client\.lr=0\.4 --model\.hidden=3 ")
        self.assertEqual(result.stderr.count("a point of a grid: failed: tuned, client.lr = 9"), 2)
        self.assertEqual(len(self.calls()), 6 + 2 + 2 + 2)
        self.write("scripts/reproductions/made.toml", WITH_GRID.replace("[tuning]",
                                                                        "[tuning]\nsmaller = true"))
        self.reproduce("made", "--out", "small")
        self.assertIn("client.lr = 0.2, model.hidden = 3 (", self.table("small/table.csv")[3][1])
        self.write("scripts/reproductions/made.toml", WITH_GRID.replace('"0.2", "9", "0.4"', '"9"'))
        self.assertEqual(self.reproduce("made", "--out", "lost").returncode, 0)
        self.assertEqual(self.table("lost/table.csv")[3], ["tuned", "all 2 failed", "0 of 2", "-",
                                                           "-", "-", "-"])

    def test_grids_and_rows_are_checked_before_the_first_run(self):
        for good in ('"0.4"', '"0.3"'):
            self.write("scripts/reproductions/made.toml", WITH_GRID.replace(good, '"bad"'))
            self.assert_one_line_error(self.reproduce("made", "--out", "out"),
                                       "client.lr: no number")
        self.assertEqual(self.calls(), [])
        self.assertFalse((self.folder / "out").exists())

    def test_settings_cut_a_table(self):
        self.write("scripts/reproductions/made.toml", WITH_GRID)
        result = self.reproduce("made", "--setting", "affordable", "--out", "out")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("What differs. Half of it.\nCut: setting affordable. The whole table takes a "
                      "minute on 2 cores: scripts/reproduce made\n", result.stdout)
        self.assertEqual([row[:2] for row in self.table()[1:]], [["slow", "1"], ["tuned", "1"]])
        self.assertTrue(all("--run.rounds=50 " in call for call in self.calls()))
        self.reproduce("made", "--setting", "smaller")
        self.assertEqual([row[1] for row in self.table("runs/reproduce-made-smaller/table.csv")[1:]],
                         ["client.lr = 0.2, model.hidden = 3"])
        points = [call for call in self.calls() if "validation" in call]
        self.assertEqual(len(points), 2)
        self.assertTrue(all("--run.rounds=20 " in call for call in points))
        result = self.reproduce("made", "--setting", "smaler")
        self.assert_one_line_error(result, "no setting 'smaler'; hint: known are affordable, "
                                   "smaller, quick")
        self.assert_one_line_error(self.reproduce("--setting", "affordable"), "--setting")

    def test_all_takes_the_affordable_setting(self):
        """The whole table where it fits, else the setting, else fewer seeds of it."""
        self.write("scripts/reproductions/made.toml", WITH_GRID.replace('"a minute"', '"6 hours"'))
        self.reproduce("--all", "--budget", "0.5", "--out", "all")
        page = (self.folder / "all/papers.md").read_text()
        self.assertIn("`scripts/reproduce made --setting affordable`", page)
        self.assertIn("Cut: setting affordable. The whole table takes 6 hours on 2 cores", page)
        self.assertEqual(len(self.calls()), 2)
        result = self.reproduce("--all", "--budget", "0.05", "--out", "less")
        self.assertIn("a seed of it does not fit into the 3 minutes left; all takes 5 minutes",
                      result.stdout)
        self.reproduce("--all", "--budget", "0.0001", "--out", "all")
        self.assertIn("`scripts/reproduce made --setting affordable`",  # what is there takes no time
                      (self.folder / "all/papers.md").read_text())
        self.assertEqual(len(self.calls()), 2)
        for budget, command in [("11", "made --setting affordable"), ("13", "made")]:
            self.reproduce("--all", "--budget", budget, "--out", budget, "--jobs", "1")
            self.assertIn(f"`scripts/reproduce {command}`",
                          (self.folder / budget / "papers.md").read_text())

    def test_pace_of_a_slow_machine(self):
        pace = paper_tables.pace_of
        self.assertEqual([pace([]), pace([(120, 60)]), pace([(120, 60), (60, 480)])], [1, 1, 3])
        self.assertEqual([pace([(59, 600)]), pace([(59, 600), (60, 120)])], [1, 2])

    def test_verdicts(self):
        paper = paper_page.paper_number
        self.assertEqual(paper("84.42 (2.45)"), (84.42, 2.45))
        self.assertEqual([paper("-3 %"), paper(""), paper("about 3")],
                         [(-3, None), (None, None), (None, None)])
        for ours, known, expected in [((5.4, .3), (5, .5), "agrees"), ((5.6, .3), (5, .5), "near"),
                                      ((6.1, .3), (5, .5), "differs"), ((5.3, .3), (5, None), "agrees"),
                                      ((5, None), (5, None), "open"), ((None, None), (5, 1), "-")]:
            self.assertEqual(paper_page.verdict(known, ours), expected)

    def test_overview(self):
        self.write("scripts/reproductions/made.toml", WITH_GRID)
        said = self.reproduce().stdout
        self.assertRegex(said, r"made +12  a minute +A table +-\n")
        self.assertRegex(said, r"\n  --setting affordable +2  5 minutes\n")

    def test_data_of_a_folder(self):
        self.write("scripts/reproductions/made.toml", TABLE +
                   '[data]\nname = "the folder"\nfile = "images"\nget = "download it"\n')
        self.assert_one_line_error(self.reproduce("made"), "the folder", "download it", "--data")
        self.assert_one_line_error(self.reproduce("made", "--data", "none"), "none/images",
                                   "download it")
        self.write("mine/images.gz", "")
        self.assertEqual(self.reproduce("made", "--data", "mine").returncode, 0)
        self.assertIn("--data.path=mine", self.calls()[0])

    def test_data_that_becomes_a_table(self):
        self.write("scripts/reproductions/made.toml", TABLE + '[data]\nname = "raw"\nfeatures = 2\n'
                   'prepare = "columns"\n'
                   'get = "download it"\nlabels = {"g" = "1"}\n')
        self.write("raw.txt", "1,2,g\n3 4 h\n")
        self.assertEqual(self.reproduce("made", "--data", "raw.txt", "--out", "out").returncode, 0)
        self.assertEqual((self.folder / "out/data.csv").read_text(),
                         "f0,f1,label\n1,2,1\n3,4,h\n")
        before = (self.folder / "out/data.csv").stat().st_mtime_ns
        self.reproduce("made", "--data", "raw.txt", "--out", "out")
        self.assertEqual((self.folder / "out/data.csv").stat().st_mtime_ns, before)
        self.write("raw.txt", "1,2,g\n3 4\n")
        self.assert_one_line_error(self.reproduce("made", "--data", "raw.txt", "--out", "out"),
                                   "raw.txt:2", "2 fields, not 3")

    def test_columns_of_some_lines_of_a_file(self):
        """The runs' evaluations are rounds 5 and 10, whose losses are 5.5 and 10.5."""
        head = TABLE[:TABLE.index("columns")] + 'rows = [{name = "slow"}, {name = "fast"}]\n'
        columns = ('{label = "mean", metric = "loss_mean", from = 5}, '
                   '{label = "from 6", metric = "loss_mean", from = 6}, '
                   '{label = "where", metric = "loss_mean", where = {round = "5"}}, '
                   '{label = "sum", metric = "loss_mean", sum = "x"}, '
                   '{label = "of logs", metric = "loss_mean", sum = "-log1p"}')
        self.write("scripts/reproductions/made.toml", head + f"columns = [{columns}]\n")
        self.reproduce("made", "--out", "out")
        self.assertEqual(self.table()[2][2:], ["8 (0)", "10.5 (0)", "5.5 (0)", "16 (0)", "-4.314 (0)"])

    def test_pictures_become_cifars_files(self):
        self.write("scripts/reproductions/made.toml", TABLE + '[data]\nname = "CIFAR-10"\n'
                   'prepare = "cifar"\nget = "download it"\n')
        (self.folder / "none").mkdir()
        self.assert_one_line_error(self.reproduce("made", "--data", "none"), "none", "train")
        expected = b""
        for part, name, value in (("train", "b", 7), ("train", "a", 3), ("test", "a", 9)):
            pixels = numpy.full((32, 32, 3), value, "uint8")
            pixels[0, 1] = (value, 20, 30)
            path = self.folder / f"cifar/{part}/{name}/1.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(pixels).save(path)
        for hidden in ("train/.cache/1.png", "train/a/._1.png", "train/a/.cache/1.png",
                       "train/Thumbs.db"):
            self.write(f"cifar/{hidden}", "no picture")
        result = self.reproduce("made", "--data", "cifar", "--out", "out")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("--data.path=out/cifar", self.calls()[0])
        made = self.folder / "out/cifar"
        for label, value in ((0, 3), (1, 7)):
            expected += bytes([label]) + b"".join(
                bytes([value, other]) + bytes([value]) * 1022 for other in (value, 20, 30))
        self.assertEqual(b"".join((made / f"data_batch_{i}.bin").read_bytes()
                                  for i in range(1, 6)), expected)
        self.assertEqual((made / "test_batch.bin").read_bytes()[:3], bytes([0, 9, 9]))
        self.assertEqual((made / "batches.meta.txt").read_text(), "a\nb\n")
        self.write("binary/data_batch_1.bin", "")
        self.reproduce("made", "--data", "binary", "--out", "other")
        self.assertIn("--data.path=binary", self.calls()[-1])

    def test_runs_of_another_reproduction_are_skipped(self):
        self.meanwhile("made", "--out", "out", "--seeds", "1", name="reproduce")
        self.assertEqual([row[1] for row in self.table()[1:]], ["1", "1"])

    def test_interrupt_leaves_what_the_same_command_continues(self):
        self.interrupt("made", "--out", "out", name="reproduce")
        self.assertEqual(self.reproduce("made", "--out", "out").returncode, 0)
        self.assertEqual(self.table()[2][1:3], ["2", "31.50 % (0.71)"])

    def test_bad_input(self):
        self.assert_one_line_error(self.reproduce("mad"), "'mad'", "made")
        self.assert_one_line_error(self.reproduce("made", "--data", "x"), "--data")
        self.assert_one_line_error(self.reproduce("made", "--seeds", "0"), "--seeds")
        self.assert_one_line_error(self.reproduce("--all"), "--budget")
        self.assert_one_line_error(self.reproduce("made", "--all", "--budget", "1"), "without a name")
        self.assert_one_line_error(self.reproduce("--all", "--budget", "0"), "--budget")


class TablesTest(unittest.TestCase):
    """Those that are there: whole, and of jobs and keys that exist."""

    def test_tables(self):
        known = set(re.findall(r"^\| `([a-z]+\.[a-z0-9-]+)` ",
                               (SCRIPTS.parent / "jobs/keys.md").read_text(), re.MULTILINE))
        paths = sorted((SCRIPTS / "reproductions").glob("*.toml"))
        self.assertGreater(len(paths), 10)
        for path in paths:
            with self.subTest(table=path.stem):
                table = paper_tables.read(path.stem)
                self.assertTrue((SCRIPTS.parent / table["job"]).is_file())
                names = [row["name"] for row in table["rows"]]
                self.assertEqual(len(set(names)), len(names))
                tuning = table.get("tuning", {})
                keys = {*table["quick"], *table.get("set", {}), *tuning.get("set", {})}
                for row in table["rows"]:
                    keys |= {*row.get("set", {}), *row.get("grid", {})}
                    if "grid" in row:
                        self.assertIn(tuning["set"]["evaluate.on"], ["validation"])
                    self.assertIn(len(row.get("paper", table["columns"])), [len(table["columns"])])
                self.assertEqual(keys - known, set())
                self.assertRegex(table["time"], r"\d+ (second|minute|hour)")
                self.assertIn(table.get("data", {}).get("prepare"), [None, *PREPARED])
                for setting in table.get("settings", {}).values():
                    self.assertLessEqual(set(setting), SETTING_KEYS)
                    self.assertLessEqual(set(setting.get("rows", [])), set(names))
                    self.assertRegex(setting["time"], r"\d+ (second|minute|hour)")
                    self.assertLessEqual({*setting.get("set", {}), *setting.get("tuning", {})}, known)
                # Some cut of a table, or all of it, fits into three hours.
                cuts = [table, *(paper_tables.cut(table, name) for name in table.get("settings", {}))]
                self.assertLessEqual(min(map(paper_tables.seconds_of, cuts)), 3 * 3600)


class MeanTest(unittest.TestCase):
    def test_mean_and_deviation(self):
        self.assertEqual(several.mean_and_deviation([1.0, None, 3.0]), (2.0, 2 ** 0.5))
        self.assertEqual(several.mean_and_deviation([4.0]), (4.0, None))
        self.assertEqual(several.mean_and_deviation([None]), (None, None))

    def test_medians_of_targets(self):
        """Not reached is infinitely late; the rounds of those runs bound the median."""
        for targets, rounds, expected in [
                ([3, None, 4], [3, 50, 4], "4"), ([3, None], [3, 50], ">50"),
                ([None, None, 4], [20, 50, 4], ">20"), ([None], [None], "not reached"),
                ([3, 4], [3, 4], "3.5")]:
            self.assertEqual(summaries.median_text(targets, rounds), expected)

    def test_folders_of_cases_are_apart_and_plain(self):
        names = ["data.path=d/1.csv", "data.path=d_1.csv", "lr 0.1", "lr:0.1", "a*a", "a/a", ""]
        folders = [sweeping.Case(name, {}).folder() for name in names]
        self.assertEqual(len(set(folders)), len(names))
        for folder in folders:
            self.assertRegex(folder, r"^[\w=.,+-]+(~[0-9a-f]{8})?$")
        self.assertEqual((folders[1], folders[-1]), ("data.path=d_1.csv", "base"))


if __name__ == "__main__":
    unittest.main()
