"""Jobs that meet their time limit under a real Slurm (scripts/test-slurm): they stop with a
checkpoint, queue themselves again, resume, and end with the model of a run that nothing stopped."""

import os
import re
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))

import harness  # noqa: E402

# Slurm looks at time limits every 30 s, and sends a signal up to 30 s early: with a limit of a
# minute and a lead of 25 s it comes 5 to 35 s after the start.
LIMIT = "--time=1"
LEAD_S = 25
BUSY_S = 45  # of a job beside another one, were it not stopped
TRIAL_S = 4
PATIENCE_S = 240


def output(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


SMALL = {"model.kind": "mlp", "model.hidden": "64", "client.epochs": 400, "evaluate.every": 0}
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class BatchJob(harness.Case):
    RANKS = {"one-node": ["--ntasks=2"], "several-nodes": ["--nodes=2", "--ntasks-per-node=1"]}

    def setUp(self):
        super().setUp()
        os.symlink(os.path.dirname(harness.program()), self.path("build"))

    def submit(self, name, job, *options):
        """The job's number. Its processes carry the test's mark."""
        line = output("sbatch", *options, *self.RANKS[name], f"--chdir={self.folder}",
                      f"--output={self.path(name + '.out')}",
                      os.path.join(ROOT, "jobs", f"{name}.sbatch"), job,
                      env={**os.environ, harness.MARK: self.mark})
        return re.search(r"job (\d+)", line)[1]

    def state(self, number):
        text = output("scontrol", "show", "job", number)
        return dict(field.split("=", 1) for field in text.split() if "=" in field)

    def wait_for(self, number, name, condition, what):
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end_s:
                output("scancel", number)
                self.fail(f"waited in vain: {name} {what}\n{self.state(number)}\n{self.log(name)}")
            time.sleep(0.5)

    def wait_for_end(self, number, name):
        self.wait_for(number, name, lambda: self.state(number)["JobState"] in ENDED, "ends")
        return self.state(number)["JobState"]

    def log(self, name):
        return harness.text(self.path(name + ".out"))

    def rounds_of(self, seconds):
        """How many rounds a run does in that time beside another one."""
        job = self.job({"run.rounds": 10000000, **SMALL})
        calls = [lambda i=i: self.train(job, f"trial-{i}", expect=harness.STOPPED,
                                        changes={"run.max-seconds": TRIAL_S}) for i in range(2)]
        done = [len(self.rounds(run)) for run in harness.together(calls)]
        return max(done) * seconds // TRIAL_S


class TimeLimit(BatchJob):
    def test_job_queues_itself_again_and_ends_as_if_uninterrupted(self):
        rounds = self.rounds_of(BUSY_S)
        job = self.job({"run.rounds": rounds, **SMALL}, "limited.cfg")
        jobs = {"one-node": self.submit("one-node", job, LIMIT, f"--signal=B:USR1@{LEAD_S}"),
                "several-nodes": self.submit("several-nodes", job, LIMIT,
                                             f"--signal=USR1@{LEAD_S}")}
        for name, number in jobs.items():
            self.wait_for(number, name, lambda: int(self.state(number)["Restarts"]) > 0,
                          "meets its limit")
            output("scontrol", "update", f"JobId={number}", "TimeLimit=10")
        straight = self.train(job, "straight")
        for name, number in jobs.items():
            self.assertEqual(self.wait_for_end(number, name), "COMPLETED", self.log(name))
            run = self.path("runs", f"limited-{number}")
            self.assertIn("stopped after round", self.log(name))
            self.assertIn("resuming", self.log(name))
            self.assert_digest(run, straight, f"of {name}")
            self.assertEqual(harness.summary(run)["ranks"], 2)
            self.assertEqual(self.rounds(run), list(range(1, rounds + 1)))


class Cancelled(BatchJob):
    def test_job_writes_a_checkpoint_and_stays_away(self):
        job = self.job({"run.rounds": 10000000, **SMALL}, "endless.cfg")
        for name in self.RANKS:
            number = self.submit(name, job)
            run = self.path("runs", f"endless-{number}")
            self.wait_for(number, name, lambda: len(self.rounds(run)) > 20, "runs")
            output("scancel", number)
            self.assertEqual(self.wait_for_end(number, name), "CANCELLED", self.log(name))
            self.wait_for(number, name, lambda: not harness.marked(self.mark), "is gone")
            self.assertEqual(self.state(number)["Restarts"], "0")
            last = len(self.rounds(run))
            self.hanse("resume", run, f"--run.rounds={last + 5}")
            self.assertEqual(self.rounds(run), list(range(1, last + 6)))


class Sweep(BatchJob):
    """An array of scripts/sweep, whose tasks meet their limits."""

    def test_tasks_queue_themselves_again_and_end_as_if_uninterrupted(self):
        rounds = self.rounds_of(BUSY_S)
        job = self.job({"run.rounds": rounds, **SMALL}, "limited.cfg")
        environment = {**os.environ, "HANSE_PROGRAM": harness.program(), harness.MARK: self.mark}
        sweep = [os.path.join(ROOT, "scripts", "sweep"), job, "--set", "client.lr=0.1,0.3", "--out",
                 "study"]
        output(*sweep, "--slurm", cwd=self.folder, env=environment)
        line = output("sbatch", LIMIT, f"--signal=B:USR1@{LEAD_S}", "study/sweep.sbatch",
                      cwd=self.folder, env=environment)
        number = re.search(r"job (\d+)", line)[1]
        tasks = [f"{number}_{task}" for task in range(2)]
        for task in tasks:
            self.wait_for(task, task, lambda task=task: int(self.state(task)["Restarts"]) > 0,
                          "meets its limit")
            output("scontrol", "update", f"JobId={task}", "TimeLimit=10")
        for place, task in enumerate(tasks):
            log = harness.text(self.path("study", f"slurm-{place}.log"))
            self.assertEqual(self.wait_for_end(task, task), "COMPLETED", log)
        for lr in ("0.1", "0.3"):
            straight = self.train(job, f"straight-{lr}", changes={"client.lr": lr, "run.seed": 1})
            run = self.path("study", f"client.lr={lr}", "seed-1")
            self.assertIn("resuming", harness.text(f"{run}.log"))
            self.assertEqual(self.rounds(run), list(range(1, rounds + 1)))
            self.assert_digest(run, straight, f"client.lr={lr}")


class BadInput(BatchJob):
    def test_one_line_and_no_second_try(self):
        for name in self.RANKS:
            number = self.submit(name, self.job({"client.lr": "fast"}))
            self.assertEqual(self.wait_for_end(number, name), "FAILED", self.log(name))
            errors = [line for line in self.log(name).splitlines() if "hanse: error" in line]
            self.assertEqual(len(errors), 1, self.log(name))
            self.assertIn("client.lr", errors[0])


if __name__ == "__main__":
    harness.main()
