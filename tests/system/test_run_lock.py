"""One run writes a folder at a time."""

import os
import signal
import time

import harness

ENDLESS = {"run.rounds": 10000000, "evaluate.every": 0, "checkpoint.every": 5,
           "checkpoint.keep": 1000}


class SecondRun(harness.Case):
    def start_endless(self, ranks):
        job = self.job(ENDLESS)
        run = self.path(f"run-{ranks}")
        process = self.start("run", job, f"--run.out={run}", ranks=ranks)
        process.wait_until(lambda: "round-000010.h5" in self.checkpoints(run), "checkpoints")
        return job, run, process

    def check_refused(self, run, owner, *arguments, ranks=None):
        second = self.hanse(*arguments, ranks=ranks, expect=2)
        self.assert_one_error(second, 2, "another run writes this folder (host ",
                              f"process {owner}, since ", run, "hint: ")

    def check(self, ranks):
        job, run, process = self.start_endless(ranks)
        owner = process.popen.pid if ranks is None else process.ranks()[0]
        self.check_refused(run, owner, "resume", run, ranks=ranks)
        self.check_refused(run, owner, "run", job, f"--run.out={run}", "--run.overwrite=true",
                           ranks=ranks)
        rows = len(harness.table(run, "rounds.csv"))
        self.wait_for_rounds(process, run, rows + 100)  # the first goes on
        self.end(process)
        self.check_goes_on(run, job, ranks)

    def end(self, process):
        for pid in [process.popen.pid, *process.ranks().values()]:
            harness.kill(pid)
        process.wait()

    def test_alone(self):
        self.check(None)

    def test_on_ranks(self):
        self.check(3)

    def test_of_another_folder_into_this_one(self):
        job, run, process = self.start_endless(None)
        other = self.train(self.job({"checkpoint.every": 1}, name="other.cfg"), "other")
        self.check_refused(run, process.popen.pid, "resume", other, f"--run.out={run}",
                           "--run.overwrite=true")
        process.signal(signal.SIGTERM)
        self.assertEqual(process.wait().status, harness.STOPPED)

    def test_ranks_that_outlive_their_mpirun(self):
        """Open MPI's ranks notice after some seconds; until then they write, and hold the lock."""
        job, run, process = self.start_endless(3)
        os.kill(process.popen.pid, signal.SIGKILL)
        end_s = time.monotonic() + harness.SECONDS_TO_END
        while True:
            resumed = self.hanse("resume", run, "--run.max-seconds=1e-3", expect=None)
            if resumed.status == harness.STOPPED:
                break
            self.assert_one_error(resumed, 2, "another run writes this folder", run)
            self.assertLess(time.monotonic(), end_s, "the lock outlives the ranks")
        self.assertEqual(process.ranks(), {}, "they had the lock")
        self.check_goes_on(run, job, 3)


class NoLocks(harness.Case):
    """File systems answer in many ways that they give no lock: the run goes on without one."""

    # EIO, EINVAL, ENOTTY, ENOLCK, ENOSYS, EOPNOTSUPP, EREMOTEIO, and the kernel's ENOTSUPP, which
    # has no text.
    ERRORS = (5, 22, 25, 37, 38, 95, 121, 524)

    def test_a_run_goes_on_without(self):
        job = self.job({"run.rounds": 2})

        def attempt(error, ranks=None):
            run = self.path(f"run-{error}-{ranks}")
            process = self.hanse("run", job, f"--run.out={run}", ranks=ranks, environment={
                "LD_PRELOAD": harness.faulty_disk(), "FAULTY_DISK_FOLDER": run,
                "FAULTY_DISK_LOCK": error})
            told = [line for line in process.lines() if "lock" in line]
            self.assertEqual(len(told), 1, process.describe())
            self.assertRegex(told[0], "^hanse: warning: .*gives no lock .*second run")
            self.assertIn(run, told[0])
            return harness.digest(run)

        found = harness.together([lambda e=e: attempt(e) for e in self.ERRORS])
        self.assertEqual({*found, attempt(524, ranks=2)}, {harness.digest(self.train(job, "run"))})


class RefusedRun(harness.Case):
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
    harness.main()
