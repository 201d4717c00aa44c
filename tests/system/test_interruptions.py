"""What comes in the middle of a round: a request to stop, a rank that hangs, a clock that jumps, the
end of the round's time."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest

import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts",
                                "python", "hanse"))  # not the package: this folder has a hanse too
from stopping import ask_to_stop  # noqa: E402

ENDLESS = {"run.rounds": 10000000, "evaluate.every": 0, "checkpoint.every": 0}
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def catches(pid, *numbers):
    """Has the rank installed its handlers?"""
    mask = int(re.search(r"SigCgt:\s*(\w+)", harness.text(f"/proc/{pid}/status"))[1], 16)
    return all(mask >> (number - 1) & 1 for number in numbers)


def pids_of(process, ranks):
    return [process.popen.pid] if ranks is None else list(process.ranks().values())


def all_catch(process, ranks, *numbers):
    pids = pids_of(process, ranks)
    return len(pids) == (ranks or 1) and all(catches(pid, *numbers) for pid in pids)


class Terminated(harness.Case):
    """SIGTERM to one rank, in jobs that spend nearly all their time in one phase."""

    def check(self, phase, rank_of_three, changes):
        job = self.job({**ENDLESS, **changes})
        for ranks, rank in ((None, None), (3, rank_of_three)):
            run = self.path(f"{phase}-{ranks}-{rank}")
            process = self.start("run", job, f"--run.out={run}", ranks=ranks)
            self.wait_for_rounds(process, run, 1)
            process.wait_until(lambda: all_catch(process, ranks, signal.SIGTERM), "handlers")
            time.sleep(0.1)  # into the phase
            process.signal(signal.SIGTERM, rank)
            self.wait_until_gone(process, f"SIGTERM to rank {rank} of {ranks} in {phase}")
            self.assertEqual(process.status, harness.STOPPED, process.describe())
            self.assertEqual(process.errors(), [])
            self.check_goes_on(run, job, ranks)

    def test_in_the_losses_before_training(self):
        self.check("losses", 2, {"federation.samples": 4000, "aggregator.kind": "qfedavg",
                                 "client.steps": 1})

    def test_in_training(self):
        self.check("training", 2, {"client.epochs": 2000})

    def test_in_evaluation(self):
        self.check("evaluation", 0, {"evaluate.every": 1, "federation.samples": 20000,
                                     "client.steps": 1})

    def test_in_checkpoints(self):
        self.check("checkpoint", 1, {"checkpoint.every": 1, "model.kind": "mlp",
                                     "model.hidden": "20000", "client.steps": 1,
                                     "sampler.per-round": 1, "federation.clients": 3})


class BeforeTheFirstRound(harness.Case):
    """Nothing is lost yet: a request of somebody who does not want the process ends it at once."""

    JOB = {**ENDLESS, "federation.samples": 20000, "evaluate.start": "true", "model.kind": "mlp",
           "model.hidden": "3000"}

    def check(self, number, ranks, verb="run", goes_to=None):
        run = self.path(f"{verb}-{number}-{ranks}")
        process = self.start(verb, self.job(self.JOB), f"--run.out={run}", ranks=ranks)
        process.wait_until(lambda: all_catch(process, ranks, signal.SIGUSR1), "handlers")
        process.signal(number, goes_to)
        self.wait_until_gone(process, f"{number!r} to {ranks} ranks before the first round")
        self.assertEqual(process.errors(), [])
        self.assertEqual(self.checkpoints(run), [])
        return process.status

    def test_of_a_run_without_mpirun(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.assertEqual(self.check(number, None), -number)
        self.assertEqual(self.check(signal.SIGTERM, None, "plan"), -signal.SIGTERM)

    def test_of_ranks(self):
        self.assertNotIn(self.check(signal.SIGTERM, 3, goes_to=1), (0, 2, harness.STOPPED))


class StopSignals(harness.Case):
    """Whatever a scheduler, a terminal or a limit sends: a checkpoint, and status 75."""

    def start_run(self, name, ranks=None, **limits):
        run = self.path(name)
        process = self.start("run", self.job(ENDLESS), f"--run.out={run}", ranks=ranks, **limits)
        self.wait_for_rounds(process, run, 2)
        return run, process

    def check_stopped(self, run, process):
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())
        self.assertTrue(self.checkpoints(run), process.describe())

    def test_to_a_run_without_mpirun(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGHUP,
                       signal.SIGTERM, signal.SIGINT):
            run, process = self.start_run(f"run-{number}")
            process.signal(number)
            self.check_stopped(run, process)

    def test_to_mpirun(self):
        numbers = [signal.SIGUSR1]  # which any mpirun passes on
        if "Open MPI" in self.hanse("--version").stdout():
            numbers += [signal.SIGUSR2, signal.SIGXCPU]
        for number in numbers:
            run, process = self.start_run(f"run-{number}", ranks=2)
            process.signal(number)
            self.check_stopped(run, process)

    def test_to_one_rank(self):
        for number in (signal.SIGUSR2, signal.SIGHUP, signal.SIGXCPU):
            run, process = self.start_run(f"run-{number}", ranks=2)
            process.signal(number, 1)
            self.check_stopped(run, process)

    def test_limit_of_processor_time(self):
        run, process = self.start_run("run")
        pid = process.popen.pid
        hard = resource.prlimit(pid, resource.RLIMIT_CPU)[1]
        resource.prlimit(pid, resource.RLIMIT_CPU, (1, hard))
        self.check_stopped(run, process)

    def test_hangup_stays_ignored(self):
        """As nohup leaves it."""
        run, process = self.start_run("run", environment={"--ignore-signal": "HUP"})
        process.signal(signal.SIGHUP)
        self.wait_for_rounds(process, run, len(self.rounds(run)) + 20)
        process.signal(signal.SIGUSR1)
        self.check_stopped(run, process)


class SecondRequest(harness.Case):
    """In a round that does not end."""

    def start_round(self, name, ranks=None):
        job = self.job({**ENDLESS, "client.epochs": 10000000})
        process = self.start("run", job, f"--run.out={self.path(name)}", ranks=ranks)
        process.wait_until(lambda: all_catch(process, ranks, signal.SIGTERM), "handlers")
        return process

    def assert_lives(self, process):
        time.sleep(0.4)
        self.assertIsNone(process.popen.poll(), process.describe())

    def test_ends_the_process(self):
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT),
                              (signal.SIGINT, signal.SIGTERM)):
            process = self.start_round(f"{first}-{second}")
            process.signal(first)
            self.assert_lives(process)
            process.signal(second)
            self.wait_until_gone(process, f"{second!r} behind {first!r}")
            self.assertEqual(process.status, -second, process.describe())

    def test_ends_all_ranks(self):
        process = self.start_round("ranks", 3)
        process.signal(signal.SIGTERM, 2)
        self.assert_lives(process)
        process.signal(signal.SIGTERM, 2)
        self.wait_until_gone(process, "a second SIGTERM to one of 3 ranks")
        self.assertNotIn(process.status, (0, 2, harness.STOPPED), process.describe())

    def test_echoes_and_warnings_are_none(self):
        process = self.start_round("echo")
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGHUP, signal.SIGUSR2):
            process.signal(number)
        self.assert_lives(process)
        process.signal(signal.SIGTERM)  # the first that may end it, and its echo
        process.signal(signal.SIGTERM)
        self.assert_lives(process)
        process.signal(signal.SIGTERM)
        self.wait_until_gone(process, "SIGTERM behind its echo")
        self.assertEqual(process.status, -signal.SIGTERM, process.describe())


class EarlyStop(harness.Case):
    """A warning that comes while the program starts: kept, and a checkpoint after the first round."""

    PAUSES_S = (0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8)

    def check_stopped(self, process, run):
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())
        self.assertEqual(process.errors(), [])
        self.assertTrue(self.checkpoints(run), process.describe())

    def test_of_a_run_without_mpirun(self):
        job = self.job(ENDLESS)
        numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
        for i, pause_s in enumerate(self.PAUSES_S):
            run = self.path(f"run-{i}")
            process = self.start("run", job, f"--run.out={run}")
            process.wait_until(lambda p=process: harness.text(f"/proc/{p.popen.pid}/comm") == "hanse\n",
                               "the program's start")
            time.sleep(0.05 + pause_s)  # the first step
            process.signal(numbers[i % len(numbers)])
            self.check_stopped(process, run)

    def test_of_ranks(self):
        """As the scripts send it: when all ranks hear it."""
        job = self.job(ENDLESS)
        for i, pause_s in enumerate(self.PAUSES_S):
            run = self.path(f"run-{i}")
            process = self.start("run", job, f"--run.out={run}", ranks=2)
            time.sleep(pause_s)
            ask_to_stop(process.popen.pid, under_mpirun=True)
            self.check_stopped(process, run)


class Hung(harness.Case):
    """A rank that stops without dying, in rounds that spend a second in one phase: the others wait,
    then name it and end it."""

    def hang(self, run, job, rank, pause_s):
        process = self.start("run", job, f"--run.out={run}", ranks=3)
        process.wait_until(lambda: len(self.checkpoints(run)) >= 2, "the second checkpoint")
        time.sleep(pause_s)  # into a phase of the round after it
        process.signal(signal.SIGSTOP, rank)
        self.wait_until_gone(process, f"rank {rank} hangs, comm.timeout-seconds=1")
        return process

    def check(self, rank, phase, changes):
        """Phases have no mark outside, so a busy machine may need some shots to hit one."""
        job = self.job({**ENDLESS, "checkpoint.every": 1, "comm.timeout-seconds": 1, **changes})
        for shot, pause_s in enumerate((0.3, 0.5, 0.7, 0.9, 1.2, 0.3, 0.6)):
            run = self.path(f"{phase}-{rank}-{shot}")
            process = self.hang(run, job, rank, pause_s)
            self.assert_one_error(process, 1, f"rank {rank} on ", "round ", "comm.timeout-seconds")
            if phase in process.errors()[0]:
                break
        self.assertIn(phase, process.errors()[0], process.describe())
        self.assertFalse(os.path.exists(os.path.join(run, "summary.json")))
        self.check_goes_on(run, job)

    def test_worker_in_training(self):
        self.check(2, "training", {"client.epochs": 15000})

    def test_server_in_training(self):
        self.check(0, "training", {"client.epochs": 15000})

    def test_worker_in_evaluation(self):
        self.check(1, "evaluation", {"evaluate.every": 1, "federation.samples": 5000,
                                     "client.steps": 1, "model.kind": "mlp",
                                     "model.hidden": "2000"})

    def test_suspended_job_goes_on(self):
        job = self.job({**ENDLESS, "comm.timeout-seconds": 2})
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=2)
        self.wait_for_rounds(process, run, 5)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for rank in (0, 1):
                process.signal(number, rank)
            if number == signal.SIGSTOP:
                time.sleep(4)
        before = len(self.rounds(run))
        self.wait_for_rounds(process, run, before + 5)
        process.signal(signal.SIGUSR1)
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())


@unittest.skipUnless(os.path.exists(FAKETIME), "libfaketime is not installed")
class JumpingClock(harness.Case):
    """Days forwards and backwards on the wall clock in the middle of a run."""

    def test_times_and_limits_do_not_see_it(self):
        clock = self.write("clock", "@2020-01-01 00:00:00")
        environment = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": clock,
                       "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        year = subprocess.run(["date", "+%Y"], env={**os.environ, **environment},
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(year.strip(), "2020", "the wall clock does not jump")
        run = self.path("run")
        job = self.job({**ENDLESS, "run.max-seconds": 100, "comm.timeout-seconds": 50})
        process = self.start("run", job, f"--run.out={run}", ranks=2, environment=environment)
        start_s = time.monotonic()
        for date in ("2030-01-01", "2010-01-01", "2021-01-01"):
            rounds = len(self.rounds(run))
            self.wait_for_rounds(process, run, rounds + 20)
            self.write("clock", f"@{date} 00:00:00")
        process.signal(signal.SIGUSR1)
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())
        passed_s = time.monotonic() - start_s
        for name in ("seconds", "seconds_train", "seconds_comm", "seconds_wait"):
            times = [float(value) for value in harness.column(run, "rounds.csv", name)]
            self.assertGreaterEqual(min(times), 0, name)
            self.assertLess(sum(times), passed_s, name)
        self.check_goes_on(run, job)


class RoundSeconds(harness.Case):
    def left_out(self, run):
        return [int(float(value)) for value in harness.column(run, "rounds.csv", "left_out")]

    def test_enough_time_changes_nothing(self):
        job = self.job()
        straight = self.train(job, "straight")
        self.assertNotIn("left_out", harness.table(straight, "rounds.csv")[0])
        for ranks in (None, 3):
            run = self.train(job, f"run-{ranks}", ranks=ranks, changes={"run.round-seconds": 100})
            self.assert_digest(run, straight)
            self.assertEqual(self.left_out(run), [0] * 12)

    def test_no_time_leaves_one_participant_a_rank(self):
        job = self.job()
        for ranks in (None, 3):
            run = self.train(job, f"run-{ranks}", ranks=ranks, changes={"run.round-seconds": 1e-9})
            self.assertEqual(self.left_out(run), [5 - (ranks or 1)] * 12)
            self.assertEqual(harness.column(run, "rounds.csv", "clients"), ["5"] * 12)
            losses = [float(loss) for loss in harness.column(run, "rounds.csv", "loss")]
            self.assertLess(losses[-1], losses[0])

    def test_rules_that_need_everyone(self):
        for changes, key in (({"sampler.kind": "mabs"}, "sampler.kind"),
                             ({"aggregator.kind": "qfedavg"}, "aggregator.kind"),
                             ({"client.update": "scaffold"}, "client.update"),
                             ({"run.trace": "true"}, "run.trace")):
            job = self.job({**changes, "run.round-seconds": 1}, f"{key}.cfg")
            process = self.hanse("run", job, f"--run.out={self.path(key)}", expect=None)
            self.assert_one_error(process, 2, key, "run.round-seconds")


if __name__ == "__main__":
    harness.main()
