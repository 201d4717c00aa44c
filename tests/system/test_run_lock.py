"""One run writes a folder at a time."""

import os
import signal
import unittest

import hanse

ENDLESS = {"run.rounds": 10000000, "evaluate.every": 0, "checkpoint.every": 5}


class SecondRun(hanse.Case):
    def start_endless(self, ranks):
        job = self.job(ENDLESS)
        run = self.path(f"run-{ranks}")
        process = self.start("run", job, f"--run.out={run}", ranks=ranks)
        process.wait_until(lambda: len(self.checkpoints(run)) >= 1, "a checkpoint")
        return job, run, process

    def check_refused(self, run, owner, *arguments, ranks=None):
        second = self.hanse(*arguments, ranks=ranks, expect=2)
        self.assert_one_error(second, 2, "another run writes this folder (host ",
                              f"process {owner}, since ", run, "hint: ")

    def check(self, ranks):
        job, run, process = self.start_endless(ranks)
        owner = process.popen.pid if ranks is None else process.ranks()[0]
        for second_ranks in (None, 2):
            self.check_refused(run, owner, "resume", run, ranks=second_ranks)
            self.check_refused(run, owner, "run", job, f"--run.out={run}",
                               "--run.overwrite=true", ranks=second_ranks)
        rows = len(hanse.table(run, "rounds.csv"))
        self.wait_for_rounds(process, run, rows + 100)  # the first goes on
        for pid, _ in hanse.marked(self.mark):
            hanse.kill(pid)
        process.wait()
        self.check_goes_on(run, job, ranks)

    def test_alone(self):
        self.check(None)

    def test_on_ranks(self):
        for ranks in (1, 2, 3):
            self.check(ranks)

    def test_of_another_folder_into_this_one(self):
        job, run, process = self.start_endless(None)
        other = self.train(self.job({"checkpoint.every": 1}, name="other.cfg"), "other")
        self.check_refused(run, process.popen.pid, "resume", other, f"--run.out={run}",
                           "--run.overwrite=true")
        process.signal(signal.SIGTERM)
        self.assertEqual(process.wait().status, hanse.STOPPED)

    def test_a_resume_at_once_after_a_kill(self):
        """The ranks of the killed run may live a moment longer than its mpirun."""
        job, run, process = self.start_endless(3)
        os.kill(process.popen.pid, signal.SIGKILL)
        self.check_goes_on(run, job, 3)


class RefusedRun(hanse.Case):
    """What did not begin leaves nothing behind."""

    def test_leaves_no_folder(self):
        job = self.job({"data.kind": "csv", "data.path": self.write("bad.csv", "a,b\n1\n"),
                        "data.shape": None, "data.classes": None, "federation.samples": None})
        for ranks in (None, 2):
            self.hanse("run", job, f"--run.out={self.path('deep', 'run')}", ranks=ranks, expect=2)
            self.assertFalse(os.path.exists(self.path("deep")))

    def test_leaves_an_earlier_folder(self):
        os.makedirs(self.path("mine"))
        job = self.job({"data.kind": "csv", "data.path": self.write("bad.csv", "a,b\n1\n"),
                        "data.shape": None, "data.classes": None, "federation.samples": None})
        self.hanse("run", job, f"--run.out={self.path('mine')}", expect=2)
        self.assertEqual(os.listdir(self.path("mine")), [])


if __name__ == "__main__":
    hanse.main()
