"""A run that was stopped and resumed ends as if it had never stopped."""

import json
import os
import re
import shlex
import shutil
import signal
import statistics

import harness

# Rounds without end: a test stops such a run, resumes it to END rounds more, and compares with a
# run that was never stopped. So nothing depends on how fast the machine is.
ENDLESS = {"run.rounds": 10000000, "evaluate.every": 10, "server.optimizer": "momentum"}
MLP = {"model.kind": "mlp", "model.hidden": "16", "client.momentum": 0.5,
       "client.optimizer": "rmsprop", "client.optimizer-state": "kept", "client.lr": 0.01,
       "client.schedule": "exponential", "client.lr-decay": 0.999}
CNN = {"data.shape": "3,8,8", "model.kind": "cnn-cifar", "federation.clients": 8,
       "sampler.per-round": 3, "evaluate.every": 3}
END = 7


class Repeats(harness.Case):
    JOB = {"run.rounds": 8, "run.repeats": 3, "run.seed": 5}

    def check(self, run, straight):
        """As the runs of the seeds, and their means and deviations."""
        found = harness.summary(run)
        self.assertEqual(found["model_digests"], [harness.digest(one) for one in straight])
        for repeat, one in enumerate(straight, 1):
            self.assertEqual(harness.text(run, "repeats", str(repeat), "evaluations.csv"),
                             harness.text(one, "evaluations.csv"))
        losses = [harness.summary(one)["metrics"]["loss_mean"] for one in straight]
        self.assertAlmostEqual(found["metrics"]["loss_mean"], statistics.mean(losses), 12)
        self.assertAlmostEqual(found["metrics"]["loss_mean_std"], statistics.stdev(losses), 12)
        self.assertGreater(found["metrics"]["loss_mean_std"], 0)

    def test_repeats_are_the_runs_of_the_seeds(self):
        job = self.job(self.JOB)
        straight = [self.train(job, f"seed-{seed}", changes={"run.repeats": 1, "run.seed": seed})
                    for seed in (5, 6, 7)]
        self.check(self.train(job, "run", ranks=2), straight)
        stopped = self.train(job, "stopped", changes={"run.max-seconds": 1e-3},
                             expect=harness.STOPPED)
        self.assertFalse(os.path.exists(os.path.join(stopped, "summary.json")))
        shutil.rmtree(os.path.join(stopped, "repeats"))  # as a kill before the first checkpoint
        self.hanse("resume", stopped, "--run.max-seconds=0.001", expect=harness.STOPPED)
        process = self.hanse("resume", stopped)
        self.assertIn("repeat 3 of 3, seed 7", process.stderr())
        self.check(stopped, straight)
        self.assertNotIn("repeat ", self.hanse("resume", stopped).stderr(), "none is left")
        process = self.hanse("resume", stopped, f"--run.out={self.path('other')}", expect=None)
        self.assert_one_error(process, 2, "run.out")
        more = [self.train(job, f"more-{seed}", changes={"run.repeats": 1, "run.seed": seed,
                                                         "run.rounds": 11}) for seed in (5, 6, 7)]
        self.hanse("resume", stopped, "--run.rounds=11", ranks=3)
        self.check(stopped, more)
        self.hanse("resume", stopped)
        self.check(stopped, more)


class RepeatsWithATarget(harness.Case):
    """Repeats end where they reach their target, and the summary says how many did."""

    def best(self, run, repeat):
        return max(float(value) for value in
                   harness.column(os.path.join(run, "repeats", str(repeat)), "evaluations.csv",
                                "accuracy_mean"))

    def test_means_are_of_those_that_reach_it(self):
        job = self.job({"run.rounds": 8, "run.repeats": 3, "evaluate.every": 1})
        free = self.train(job, "free")
        reached = sorted(self.best(free, repeat) for repeat in (1, 2, 3))
        summary = harness.summary(free)
        self.assertEqual(summary["rounds_done"], [8, 8, 8])
        self.assertEqual(set(summary["n"].values()), {3})
        self.assertEqual(set(summary["metrics"]),
                         {name + end for name in summary["n"] for end in ("", "_std")})
        self.assertLess(reached[1], reached[2], "another seed makes them differ")
        for target, n in ((reached[2], 1), (reached[0], 3), (2, 0)):
            run = self.path(f"run-{n}")
            process = self.hanse("run", job, f"--run.out={run}",
                                 f"--run.target=accuracy_mean>={target - 1e-9}")
            ones = [harness.summary(os.path.join(run, "repeats", str(i))) for i in (1, 2, 3)]
            found = [one["metrics"]["target_round"] for one in ones
                     if "target_round" in one["metrics"]]
            self.assertEqual(len(found), n)
            summary = harness.summary(run)
            self.assertEqual(summary["n"]["target_round"], n)
            self.assertEqual(summary["n"]["loss_mean"], 3)
            self.assertEqual(summary["rounds_done"], [one["rounds"] for one in ones])
            self.assertIn(f"in {n} of 3 repeats", process.stdout())
            self.assertEqual("target_round" in summary["metrics"], n > 0)
            self.assertEqual("target_round_std" in summary["metrics"], n > 1)
            if n > 0:
                self.assertAlmostEqual(summary["metrics"]["target_round"], statistics.mean(found))


class Timeline(harness.Case):
    def events(self, run, whole):
        text = harness.text(run, "timeline.json")
        if not whole:  # of a killed run: an array without its end, after the last whole line
            text = text[:text.rindex(",\n")] + "]"
        return json.loads(text)

    def test_what_is_killed_can_be_read_and_goes_on(self):
        job = self.job({**ENDLESS, "run.timeline": "true", "checkpoint.every": 2})
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=2)
        process.wait_until(lambda: os.path.exists(os.path.join(run, "timeline.json"))
                           and harness.text(run, "timeline.json").count("training") > 3
                           and self.checkpoints(run), "a timeline")
        process.kill()
        self.wait_until_gone(process, "ranks")
        before = self.events(run, whole=False)
        last = int(re.search(r"round-(\d+)", self.checkpoints(run)[-1])[1])
        self.hanse("resume", run, f"--run.rounds={last + 3}", ranks=3)
        events = self.events(run, whole=True)
        self.assertEqual(events[:len(before)], before)
        straight = self.train(job, "straight", changes={"run.rounds": last + 3,
                                                        "run.timeline": "false"})
        self.assert_digest(run, straight)
        self.assertFalse(os.path.exists(os.path.join(straight, "timeline.json")))
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({event["tid"] for event in spans}, {0, 1, 2})
        self.assertGreaterEqual({event["name"] for event in spans},
                                {"draw", "training", "client 0", "reduce", "bcast", "step"})
        self.assertTrue(all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans))
        sent = [event["args"]["bytes"] for event in spans if event["name"] == "bcast"]
        self.assertGreater(max(sent), 0)
        resumed = [event for event in events[len(before):] if event["ph"] == "X"]
        self.assertGreater(min(event["ts"] for event in resumed),
                           max(event["ts"] for event in before if event["ph"] == "X"))
        # Every participant of the rounds behind the checkpoint is there once.
        clients = [event for event in resumed if event["name"].startswith("client ")]
        self.assertEqual(len(clients),
                         sum(int(n) for n in harness.column(run, "rounds.csv", "clients")[last:]))


class StopAndResume(harness.Case):
    def stopped(self, process, run):
        """The last round of a run that must have stopped as the contract says."""
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())
        self.assertEqual(process.errors(), [], process.describe())
        said = re.search(r"hanse: stopped after round (\d+); go on with: hanse resume (\S+)",
                         process.stderr())
        self.assertTrue(said, f"does not say how to go on\n{process.describe()}")
        self.assertEqual(said[2], run)
        last = int(said[1])
        self.assertEqual(self.rounds(run), list(range(1, last + 1)))
        self.assertEqual(self.checkpoints(run)[-1], f"round-{last:06d}.h5")
        self.assertFalse(os.path.exists(os.path.join(run, "summary.json")), process.describe())
        return last

    def start_run(self, changes, ranks):
        job = self.job({**ENDLESS, **changes})
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=ranks)
        self.wait_for_rounds(process, run, 3)
        return job, run, process

    def finish(self, job, run, last, ranks):
        """Resumes to the end, and compares with a run that was never stopped."""
        rounds = last + END
        self.hanse("resume", run, f"--run.rounds={rounds}", ranks=ranks)
        straight = self.train(job, "straight", changes={"run.rounds": rounds})
        self.assert_digest(run, straight, f"after a stop at round {last}")
        self.assertEqual(self.rounds(run), list(range(1, rounds + 1)))
        self.assertEqual(harness.column(run, "rounds.csv", "loss"),
                         harness.column(straight, "rounds.csv", "loss"))
        self.assertEqual(harness.text(run, "evaluations.csv"),
                         harness.text(straight, "evaluations.csv"))
        self.assertEqual(harness.text(run, "clients.csv"), harness.text(straight, "clients.csv"))

    def check(self, changes, ranks, number, to_rank, ranks_after):
        job, run, process = self.start_run(changes, ranks)
        process.signal(number, to_rank)
        self.finish(job, run, self.stopped(process, run), ranks_after)

    def test_usr1_to_mpirun(self):
        self.check(MLP, 3, signal.SIGUSR1, None, None)

    def test_usr1_to_a_rank(self):
        self.check({"server.role": "dedicated", "server.optimizer": "sgd",
                    "client.update": "feddyn"}, 2, signal.SIGUSR1, 1, 4)

    def test_usr1_to_a_run_without_mpirun(self):
        self.check(CNN, None, signal.SIGUSR1, None, 3)

    def test_term_to_a_rank(self):
        self.check({"sampler.kind": "weighted"}, 2, signal.SIGTERM, 1, None)

    def test_term_to_a_run_without_mpirun(self):
        self.check({}, None, signal.SIGTERM, None, 1)

    def test_interrupt_of_a_run_without_mpirun(self):
        self.check({"sampler.kind": "full"}, None, signal.SIGINT, None, 2)

    def test_stopped_twice_on_different_ranks(self):
        job, run, process = self.start_run({"client.lr-decay": 0.999}, None)
        process.signal(signal.SIGUSR1)
        first = self.stopped(process, run)
        process = self.start("resume", run, ranks=2)
        self.wait_for_rounds(process, run, first + 3)
        process.signal(signal.SIGUSR1)
        second = self.stopped(process, run)
        self.assertGreater(second, first)
        self.finish(job, run, second, None)

    def test_max_seconds(self):
        job = self.job(ENDLESS)
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}", "--run.max-seconds=2", ranks=2)
        last = self.stopped(process, run)
        # The limit is of one start: a resumed run does not stop at once.
        self.finish(job, run, last, None)

    def test_max_seconds_of_a_resumed_run(self):
        run = self.path("run")
        changes = ["--run.max-seconds=1e-3"]
        process = self.start("run", self.job(ENDLESS), f"--run.out={run}", *changes)
        self.assertEqual(self.stopped(process, run), 1)
        self.assertEqual(self.stopped(self.start("resume", run, *changes), run), 2)


class Resume(harness.Case):
    """What needs no signal."""

    def stop_after_one_round(self, changes=None):
        job = self.job(changes)
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        return job, run

    def test_same_options(self):
        job, run = self.stop_after_one_round()
        straight = self.train(job, "straight")
        process = self.hanse("resume", run)
        self.assertIn("after round 1", process.stderr())
        self.assertNotIn("not used", process.stderr(), "its job.cfg gives every key")
        self.assert_digest(run, straight)
        self.assertEqual(self.rounds(run), list(range(1, 13)))

    def test_finished_run(self):
        run = self.train(self.job(), "run")
        before = harness.digest(run)
        self.hanse("resume", run, ranks=2)
        self.assertEqual(harness.digest(run), before)
        self.assertEqual(self.rounds(run), list(range(1, 13)))
        self.assertEqual(harness.column(run, "evaluations.csv", "round"), ["4", "8", "12"])

    def test_more_rounds(self):
        job = self.job()
        run = self.train(job, "run")
        self.hanse("resume", run, "--run.rounds=17")
        self.assert_digest(run, self.train(job, "longer", changes={"run.rounds": 17}))
        self.assertEqual(self.rounds(run), list(range(1, 18)))
        self.assertEqual(harness.summary(run)["rounds"], 17)

    def test_fewer_rounds_than_done(self):
        run = self.train(self.job(), "run")
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=5", expect=None), 2,
                              "run.rounds", "12")

    def test_other_folder(self):
        job, run = self.stop_after_one_round()
        files = {name: harness.text(run, name) for name in ("job.cfg", "rounds.csv")}
        other = self.path("other", "place")
        self.hanse("resume", run, f"--run.out={other}", ranks=2)
        self.assert_digest(other, self.train(job, "straight"))
        self.assertEqual(self.rounds(other), list(range(1, 13)))
        for name, content in files.items():
            self.assertEqual(harness.text(run, name), content, f"{name} of the old folder changed")
        self.assertFalse(os.path.exists(os.path.join(run, "summary.json")))
        self.assert_one_error(self.hanse("resume", run, f"--run.out={other}", expect=None), 2,
                              other, "hint")

    def test_other_folder_that_cannot_be_written(self):
        _, run = self.stop_after_one_round()
        self.assert_one_error(self.hanse("resume", run, "--run.out=/dev/null/x", expect=None), 2,
                              "/dev/null/x", "hint")

    def test_options_that_may_change(self):
        job, run = self.stop_after_one_round()
        changes = {"server.role": "dedicated", "comm.dispatch": "planned", "evaluate.every": 5,
                   "checkpoint.every": 2, "checkpoint.keep": 3, "run.max-seconds": 1000}
        self.hanse("resume", run, *harness.options(changes), ranks=2)
        self.assert_digest(run, self.train(job, "straight"))
        self.assertEqual(harness.column(run, "evaluations.csv", "round"), ["5", "10", "12"])
        self.assertEqual(self.checkpoints(run), [f"round-{n:06d}.h5" for n in (8, 10, 12)])

    def test_event_files_are_not_written(self):
        """A job of an older version may ask for them: one notice names the key."""
        run = self.path("run")
        asks = ("--report.tensorboard=true", f"--run.out={run}")
        for process in (self.hanse("run", self.job(), *asks),
                        self.hanse("resume", run, "--run.rounds=13", ranks=2)):
            told = [line for line in process.lines() if "report.tensorboard" in line]
            self.assertEqual(len(told), 1, process.describe())
            self.assertIn("log-to tensorboard", told[0])
        self.assertFalse(os.path.exists(os.path.join(run, "tensorboard")))
        self.assertEqual(self.rounds(run), list(range(1, 14)))

    def test_hints_can_be_typed(self):
        """What is said of a run without a checkpoint leads to one that has them."""
        job = self.job({"run.out": "my runs/first", "run.max-seconds": 1e-3})
        run = self.path("my runs/first")
        self.hanse("run", job, expect=harness.STOPPED)
        again = self.hanse("run", job, expect=2)
        self.assert_one_error(again, 2, "holds a run's results", "`hanse resume 'my runs/first'`")
        shutil.rmtree(os.path.join(run, "checkpoints"))  # as a kill before the first one
        again = self.hanse("run", job, expect=2)
        self.assert_one_error(again, 2, "holds a run's results", "--run.overwrite=true")
        self.assertNotIn("hanse resume", again.stderr())
        moved = self.path("moved")
        os.rename(run, moved)
        refused = self.hanse("resume", "moved", expect=2)
        self.assert_one_error(refused, 2, "no complete checkpoint", "`hanse run moved/job.cfg ")
        said = re.search("`hanse (.*?)`", refused.stderr())[1]
        self.hanse(*shlex.split(said), "--run.max-seconds=0")
        self.assertEqual(self.rounds(moved), list(range(1, 13)))
        self.assertFalse(os.path.exists(run))

    def test_forbidden_keys(self):
        _, run = self.stop_after_one_round()
        keys = {"client.lr": 0.5, "run.seed": 6, "model.kind": "mlp"}
        calls = [lambda key=key, value=value, ranks=ranks: (
            key, self.hanse("resume", run, f"--{key}={value}", ranks=ranks, expect=None))
            for key, value in keys.items() for ranks in (None, 2)]
        for key, process in harness.together(calls):
            self.assert_one_error(process, 2, key, "run.rounds")
        self.assertEqual(self.rounds(run), [1])

    def test_folder_without_a_run(self):
        self.assert_one_error(self.hanse("resume", self.path("none"), expect=None), 2,
                              self.path("none"))

    def test_run_without_a_checkpoint(self):
        _, run = self.stop_after_one_round()
        os.remove(os.path.join(run, "checkpoints", "round-000001.h5"))
        for ranks in (None, 2):
            self.assert_one_error(self.hanse("resume", run, ranks=ranks, expect=None), 2,
                                  os.path.join(run, "checkpoints"), "hint")

    def test_lines_behind_the_checkpoint_are_cut(self):
        job, run = self.stop_after_one_round({"evaluate.every": 1})
        for name in ("rounds.csv", "evaluations.csv"):
            with open(os.path.join(run, name), "a") as file:
                file.write("2,5,0.1,0.1,0,0,0,9.9\n3,5,0.1,0")  # a later round, a torn line
        self.hanse("resume", run)
        straight = self.train(job, "straight")
        self.assert_digest(run, straight)
        self.assertEqual(harness.text(run, "evaluations.csv"),
                         harness.text(straight, "evaluations.csv"))
        self.assertEqual(harness.column(run, "rounds.csv", "loss"),
                         harness.column(straight, "rounds.csv", "loss"))


class OtherData(harness.Case):
    """A run goes on with the data it has started with, or not at all."""

    JOB = {"data.kind": "csv", "data.client-column": "site", "data.test-fraction": 0.2,
           "data.shape": None, "data.classes": None, "federation.samples": None,
           "federation.clients": None, "federation.partition": "by-column"}

    def table(self, sites=8, label=lambda i: i % 3, columns=("a", "b", "label", "site"), each=10,
              site="s"):
        rows = [{"a": (i * 37) % 11 - 5, "b": (i * i) % 7, "label": f"c{label(i)}",
                 "site": f"{site}{i % sites}"} for i in range(each * sites)]
        lines = [",".join(columns), *(",".join(str(row[name]) for name in columns) for row in rows)]
        return "\n".join(lines) + "\n"

    def test_is_refused(self):
        path = self.write("data.csv", self.table())
        job = self.job({**self.JOB, "data.path": path, "data.label-column": "label"})
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        others = {
            "7 clients, there were 8": self.table(sites=7),
            "72 samples, there were 80": self.table(each=9),
            "4 classes, there were 3": self.table(label=lambda i: i % 4),
            "a sample has the shape [1], it had [2]": self.table(columns=("a", "label", "site")),
            "samples, labels, or which client has them": self.table(label=lambda i: (i + 1) % 3),
            "samples, labels,": self.table(columns=("b", "a", "label", "site")),
            "the names of the clients": self.table(site="t"),
            "the names of the classes": self.table(label=lambda i: i % 3 + 4),
        }
        self.assertIn("\nclients = 8\n", harness.text(run, "job.cfg"))
        for what, text in others.items():
            self.write("data.csv", text)
            for ranks in (None, 2):
                refused = self.hanse("resume", run, ranks=ranks, expect=2)
                self.assert_one_error(refused, 2, "the data are not those of the checkpoint", what,
                                      path, "hint")
        self.write("data.csv", self.table())
        self.hanse("resume", run, ranks=2)
        straight = self.train(job, "straight")
        self.assert_digest(run, straight)
        self.assertEqual(harness.summary(run)["data_digest"], harness.summary(straight)["data_digest"])
        checkpoint = os.path.join(run, "checkpoints", self.checkpoints(run)[-1])
        self.assertIn(harness.summary(run)["data_digest"],
                      self.hanse("inspect", checkpoint).stdout())

    def test_may_lie_elsewhere(self):
        path = self.write("first/data.csv", self.table())
        job = self.job({**self.JOB, "data.path": path, "data.label-column": "label"})
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        os.rename(self.path("first"), self.path("second"))
        refused = self.hanse("resume", run, expect=2)
        self.assert_one_error(refused, 2, "no such file", path, "hint: --data.path=")
        other = self.write("other.csv", self.table(label=lambda i: (i + 1) % 3))
        refused = self.hanse("resume", run, f"--data.path={other}", expect=2)
        self.assert_one_error(refused, 2, "the data are not those of the checkpoint", other)
        self.hanse("resume", run, f"--data.path={self.path('second', 'data.csv')}", ranks=2)
        self.assertIn(f"\npath = {self.path('second', 'data.csv')}\n", harness.text(run, "job.cfg"))
        straight = self.train(job, "straight",
                              changes={"data.path": self.path("second", "data.csv")})
        self.assert_digest(run, straight)

    def test_a_relative_path_is_told_with_its_folder(self):
        path = self.write("data.csv", self.table())
        job = self.job({**self.JOB, "data.path": "data.csv", "data.label-column": "label"})
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        os.rename(path, self.path("moved.csv"))
        refused = self.hanse("resume", run, expect=2)
        self.assert_one_error(refused, 2, f"data.csv, looked for in {self.folder}", "data.path")

    def test_a_start_may_lie_elsewhere(self):
        old = os.path.join(self.train(self.job({"run.rounds": 2}), "first"), "model.h5")
        other = os.path.join(self.train(self.job({"run.rounds": 3}), "other"), "model.h5")
        job = self.job({"model.start": old})
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        straight = self.train(job, "straight")
        moved = self.path("moved.h5")
        os.rename(old, moved)
        self.assert_one_error(self.hanse("resume", run, expect=2), 2, "no such file", old,
                              "model.start")
        refused = self.hanse("resume", run, f"--model.start={other}", expect=2)
        self.assert_one_error(refused, 2, "the file has changed since the checkpoint",
                              "model.start")
        for change, text in (("model.start=", "cannot do without the file of model.start"),
                             ("client.objective=loss.pt", "has no file of client.objective"),
                             ("sampler.availability=0.5", "has no file of sampler.availability"),
                             ("evaluate.metric=own.py", "has no file of evaluate.metric")):
            refused = self.hanse("resume", run, f"--{change}", expect=2)
            self.assert_one_error(refused, 2, "a resumed run " + text, "--" + change.split("=")[0])
        self.hanse("resume", run, f"--model.start={moved}")
        self.assert_digest(run, straight)

    def test_a_schedule_may_lie_elsewhere(self):
        lines = "client,first round,last round\n0,3,9\n1,1,4\n"
        job = self.job({"sampler.availability": self.write("there.csv", lines),
                        "sampler.per-round": 20})
        straight = self.train(job, "straight")
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        os.rename(self.path("there.csv"), self.path("moved.csv"))
        self.assert_one_error(self.hanse("resume", run, expect=2), 2, "no such file: ",
                              "sampler.availability")
        other = self.write("other.csv", lines + "2,1,4\n")
        for change, text in ((other, "the file has changed since the checkpoint"),
                             ("always", "cannot do without the file of sampler.availability")):
            refused = self.hanse("resume", run, f"--sampler.availability={change}", expect=2)
            self.assert_one_error(refused, 2, text, "sampler.availability")
        self.hanse("resume", run, f"--sampler.availability={self.path('moved.csv')}", ranks=2)
        self.assert_digest(run, straight)


if __name__ == "__main__":
    harness.main()
