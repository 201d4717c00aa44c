"""hanse status: how far runs are, by their files."""

import json
import os
import re
import shutil
import signal
import time

import harness

ENDLESS = {"run.rounds": 10000000, "evaluate.every": 100, "checkpoint.every": 0}


class Status(harness.Case):
    def status(self, *paths):
        return json.loads(self.hanse("status", *paths, "--json").stdout())

    def one(self, path):
        (status,) = self.status(path)
        return status

    def start_endless(self, out="run", ranks=None, changes=None):
        run = self.path(out)
        process = self.start("run", self.job({**ENDLESS, **(changes or {})}), f"--run.out={run}",
                             ranks=ranks)
        process.wait_until(lambda: harness.table(run, "evaluations.csv"), "an evaluation")
        self.wait_for_rounds(process, run, 100)  # whose row comes behind its evaluation's
        return run, process

    def test_done(self):
        run = self.train(self.job(), "run")
        self.assertEqual(sorted(self.one(run)), sorted(
            ["run", "state", "rounds", "of_rounds", "rounds_per_second", "seconds_left", "metric",
             "value", "evaluated_round"]))
        status = self.one(run)
        found = harness.table(run, "evaluations.csv")[-1]
        self.assertEqual((status["run"], status["state"], status["rounds"], status["of_rounds"]),
                         (run, "done", 12, 12))
        self.assertEqual((status["metric"], status["value"], status["evaluated_round"]),
                         ("accuracy_mean", float(found["accuracy_mean"]), 12))
        seconds = sum(float(row["seconds"]) + float(row["seconds_evaluate"])
                      for row in harness.table(run, "rounds.csv"))
        self.assertAlmostEqual(status["rounds_per_second"] * seconds / 12, 1, places=4)
        self.assertIsNone(status["seconds_left"])
        head, line = self.hanse("status", "run").stdout().splitlines()
        self.assertEqual(head.split(), ["run", "state", "rounds", "a", "second", "left", "metric"])
        self.assertRegex(line, r"^run +done +12 of 12 +\S+ +- +accuracy_mean 0\.\d{4} in round 12$")

    def test_running_then_killed(self):
        for ranks in (None, 2):
            run, process = self.start_endless(f"run-{ranks}", ranks)
            status = self.one(run)
            self.assertEqual((status["state"], status["of_rounds"]), ("running", 10000000))
            self.assertGreaterEqual(status["rounds"], 100)
            self.assertGreater(status["rounds_per_second"], 0)
            self.assertAlmostEqual(status["seconds_left"] * status["rounds_per_second"],
                                   10000000 - status["rounds"], delta=1)
            for pid in [process.popen.pid, *process.ranks().values()]:
                harness.kill(pid)
            process.wait()
            self.assertTrue(os.path.exists(os.path.join(run, "lock")))
            status = self.one(run)
            self.assertEqual((status["state"], status["seconds_left"]), ("stopped", None))
            self.assertNotIn("error", status)

    def test_stopped_on_request(self):
        run, process = self.start_endless()
        process.signal(signal.SIGTERM)
        self.assertEqual(process.wait().status, harness.STOPPED)
        self.assertEqual(self.one(run)["state"], "stopped")

    def test_failed(self):
        broken = {"client.lr": 1e30, "model.kind": "mlp", "model.hidden": 7}
        for ranks in (None, 2):
            run = self.path(f"run-{ranks}")
            process = self.hanse("run", self.job(broken), f"--run.out={run}", ranks=ranks, expect=1)
            status = self.one(run)
            self.assertEqual((status["state"], status["rounds"]), ("failed", 0))
            self.assertEqual("hanse: error: " + status["error"], process.errors()[0])
            self.assertIn(status["error"], self.hanse("status", run).stdout())
        self.train(self.job(), f"run-{ranks}", changes={"run.overwrite": "true"})
        self.assertEqual(self.one(run)["state"], "done")

    def test_a_failed_run_that_goes_on(self):
        job = self.job({"checkpoint.every": 3})
        run = self.train(job, "run", changes={"run.rounds": 6})
        os.remove(os.path.join(run, "summary.json"))
        self.write("run/failed.txt", "the disk is full\n")
        self.assertEqual(self.one(run)["state"], "failed")
        self.hanse("resume", run, "--run.rounds=12")
        self.assertEqual((self.one(run)["state"], self.one(run)["rounds"]), ("done", 12))

    def test_repeats_and_sweeps_count_as_their_runs(self):
        run = self.train(self.job(), "repeated", changes={"run.repeats": 2})
        self.assertEqual([(one["run"], one["state"]) for one in self.status(run)],
                         [(f"{run}/repeats/{i}", "done") for i in (1, 2)])
        for case in ("b", "a"):
            for seed in (10, 9):
                shutil.copytree(os.path.join(run, "repeats", "1"),
                                self.path("sweep", case, f"seed-{seed}"))
        self.write("sweep/sweep.json", "{}")
        sweep = self.path("sweep")
        self.assertEqual([one["run"] for one in self.status(sweep)],
                         [f"{sweep}/{case}/seed-{seed}" for case in "ab" for seed in (9, 10)])
        self.assertEqual(len(self.status(sweep, run)), 6)

    def test_a_link_to_a_run_is_not_another_run(self):
        """Not even one that stands before it, or leads in a circle; one to elsewhere counts."""
        runs = self.path("runs")
        os.mkdir(runs)
        for name in ("first", "other"):
            self.train(self.job(), f"runs/{name}")
        self.train(self.job(), "elsewhere")
        for name, to in (("a-link", "first"), ("latest", "other"), ("loop", "."),
                         ("second", "../elsewhere")):
            os.symlink(to, os.path.join(runs, name))
        shown = [os.path.relpath(status["run"], runs) for status in self.status(runs)]
        self.assertEqual(shown, ["first", "other", "second"])
        self.assertEqual(len(self.status(os.path.join(runs, "a-link"))), 1)

    def test_a_run_of_a_study_that_was_refused_before_it_had_a_folder(self):
        self.train(self.job(), "study/lr=0.1/seed-1")
        case = self.path("study/lr=0.2")
        os.mkdir(case)
        for seed, said in ((1, "hanse: error: no such file: t.csv; hint: look\n"), (2, "")):
            with open(os.path.join(case, f"seed-{seed}.log"), "w") as file:
                file.write(said)
        with open(os.path.join(self.path("study/lr=0.1"), "seed-1.log"), "w") as file:
            file.write("of a run that is there\n")
        found = self.status(self.path("study"))
        self.assertEqual([(os.path.relpath(one["run"], self.path("study")), one["state"],
                           one.get("error")) for one in found],
                         [("lr=0.1/seed-1", "done", None),
                          ("lr=0.2/seed-1", "failed", "no such file: t.csv; hint: look"),
                          ("lr=0.2/seed-2", "stopped", None)])
        self.assertIn("no such file: t.csv", self.hanse("status", "study").stdout())

    def test_the_main_metric(self):
        for changes, metric in (({"evaluate.best": "loss_std:min"}, "loss_std"),
                                ({"run.target": "accuracy_worst10 >= 1.5"}, "accuracy_worst10"),
                                ({"evaluate.best": "loss_mean", "evaluate.on": "both",
                                  "data.validation-fraction": 0.2}, "validation_loss_mean"),
                                ({"run.protocol": "online", "sampler.per-round": None,
                                  "online.loss-scale": 8},
                                 "online_accuracy")):
            run = self.train(self.job(changes), metric)
            self.assertEqual(self.one(run)["metric"], metric)
            self.assertEqual(self.one(run)["value"],
                             float(harness.column(run, "evaluations.csv", metric)[-1]))

    def test_a_line_in_the_middle_of_being_written(self):
        run = self.train(self.job({"evaluate.every": 0}), "run")
        with open(os.path.join(run, "rounds.csv"), "a") as file:
            file.write("13,5,0.0")
        with open(os.path.join(run, "evaluations.csv")) as file:
            head = file.readline()
        self.write("run/evaluations.csv", head[:20])
        status = self.one(run)
        self.assertEqual((status["rounds"], status["metric"], status["value"]), (12, None, None))

    def test_a_run_that_reads_its_data(self):
        """There is its lock alone."""
        run, process = self.start_endless()
        folder = self.path("fresh")
        os.mkdir(folder)
        os.link(os.path.join(run, "lock"), os.path.join(folder, "lock"))
        status = self.one(folder)
        self.assertEqual((status["state"], status["rounds"], status["of_rounds"]),
                         ("running", 0, None))
        self.assertRegex(self.hanse("status", folder).stdout(), r"running +0 +- +- +-\n$")
        process.signal(signal.SIGTERM)
        process.wait()

    def test_a_lock_of_another_host(self):
        """Locks may not pass on from there: what was written of late decides."""
        run, process = self.start_endless()
        process.signal(signal.SIGKILL)
        process.wait()
        self.write("run/lock", "host far-away, process 1, since 2026-01-01 00:00:00")
        self.assertEqual(self.one(run)["state"], "running")
        for name in os.listdir(run):
            os.utime(os.path.join(run, name), (time.time() - 1000,) * 2)
        self.assertEqual(self.one(run)["state"], "stopped")

    def test_simulated_time_has_no_rate(self):
        run = self.train(self.job({"simulate.sample-us": 10}), "run")
        status = self.one(run)
        self.assertEqual((status["rounds"], status["rounds_per_second"]), (12, None))

    def test_bad_usage(self):
        os.mkdir(self.path("empty"))
        self.write("file", "x")
        run = self.train(self.job(), "run")
        for path, said in (("none", "no such folder"), ("empty", "there is no run in the folder"),
                           ("file", "this is no folder")):
            process = self.hanse("status", run, path, expect=2)
            self.assert_one_error(process, 2, said, path, "hint: name the run.out of a run")
            self.assertEqual(process.stdout(), "")
        self.assert_one_error(self.hanse("status", expect=2), 2, "hanse status needs a run directory")
        self.assert_one_error(self.hanse("inspect", run, "--json", expect=2), 2, "--json",
                              "only hanse plan, hanse privacy, hanse audit and hanse status "
                              "take this option")
        self.assertTrue(re.search("^  hanse status RUNS", self.hanse("--help").stdout(), re.M))


if __name__ == "__main__":
    harness.main()
