"""Every call that changes a run directory fails, or is the process's last: afterwards a resume, or
the same command again, ends as if nothing had been.

The suite tries some calls. HANSE_EVERY_CALL=1 tries all of them, in an hour or two, and prints how
many they were.
"""

import collections
import itertools
import os
import pathlib
import re
import shutil
import sys

import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from shared.run_digests import table_digest  # noqa: E402

EVERY_CALL = bool(os.environ.get("HANSE_EVERY_CALL"))

# Three checkpoints, one of which is removed; rows of clients that all ranks write together; every
# kind of file.
JOB = {"run.rounds": 3, "data.shape": "1,16,16", "client.update": "scaffold", "evaluate.every": 2,
       "checkpoint.every": 1, "checkpoint.keep": 2, "federation.clients": 9, "sampler.per-round": 4,
       "run.state-dict": "true"}
WAYS = ("kill", "EIO", "ENOSPC", "torn", "short")
WRITES = ("write", "pwrite", "pwrite64", "writev", "pwritev", "pwritev64")
NEED_ROOM = (*WRITES, "open", "fallocate", "fallocate64", "mkdir")
WHOLE = ("partition.csv", "clients.csv", "model.h5", "state_dict.pt")


def makes_sense(how, call):
    """Other calls have no halves, and need no room."""
    return {"torn": call in WRITES, "short": call in WRITES, "ENOSPC": call in NEED_ROOM}.get(
        how, True)


def some(cases, ways):
    """For each of the ways one number of a call, from the first to the last; always the same."""
    chosen = []
    for i, how in enumerate(ways):
        numbers = [number for way, number in cases if way == how]
        chosen.append((how, numbers[(2 * i + 1) * len(numbers) // (2 * len(ways))]))
    return chosen


def tables(run):
    # Several ranks share the work out by measured times, and send accordingly.
    return table_digest(pathlib.Path(run), bytes_too=harness.summary(run)["ranks"] == 1, but=())


class EveryCall(harness.Case):
    """Where it fails is a case: how, and the number of the call."""

    def on_faulty_disk(self, arguments, run, ranks=None, rank=None, **settings):
        """Runs the program to its end on a disk that fails below `run`."""
        settings = {"FAULTY_DISK_" + key: value for key, value in settings.items()}
        if rank is not None:
            settings["FAULTY_DISK_RANK"] = rank
        return self.hanse(*arguments, ranks=ranks, expect=None,
                          environment={"LD_PRELOAD": harness.faulty_disk(), "FAULTY_DISK_FOLDER": run,
                                       **settings})

    def calls(self, arguments, run, **where):
        """Names and paths of the calls of a run that nothing disturbs."""
        log = self.path("calls.log")
        process = self.on_faulty_disk(arguments, run, LOG=log, **where)
        self.assertEqual(process.status, 0, process.describe())
        return [line.split(" ", 1) for line in harness.text(log).splitlines()]

    def check_all(self, calls, ways, check):
        """check(how, number, folder name) for every case, or for one of each of the ways."""
        self.assertGreater(len(calls), 5, "the disk saw nothing")
        cases = [(how, number) for how, (number, (name, _)) in
                 itertools.product(WAYS, enumerate(calls, 1)) if makes_sense(how, name)]
        chosen = cases if EVERY_CALL else some(cases, ways)

        def attempt(case):
            how, number = case
            try:
                check(how, number, f"{how}-{number}")
            except AssertionError as error:
                return f"{how} at call {number}, {' '.join(calls[number - 1])}: {error}"
            return None

        failures = list(filter(None, harness.together([lambda c=c: attempt(c) for c in chosen])))
        counts = collections.Counter(how for how, _ in chosen)
        print(f"{self.id()}: {dict(counts)} of {len(calls)} calls", flush=True)
        self.assertEqual(failures, [], f"{len(failures)} of {len(chosen)}\n" + "\n".join(failures))

    # -- what must hold

    def check_ended(self, process, how, run, ranks=None):
        # Measured times decide who trains whom, and so now and then the number is another call's,
        # which has no halves.
        may_be_whole = how == "torn" and ranks is not None and process.status == 0
        if how == "short" or may_be_whole:
            self.assertEqual(process.status, 0, process.describe())
        elif how in ("kill", "torn"):
            self.assertNotIn(process.status, (0, 1, 2, harness.STOPPED), process.describe())
        elif process.status != 0:
            self.assertIn(process.status, (1, 2), process.describe())
            self.assert_one_error(process, process.status, run)

    def check_names(self, run, straight):
        """What has its final name is whole."""
        for name in WHOLE:
            path = pathlib.Path(run, name)
            if path.exists():
                self.assertEqual(path.read_bytes(), pathlib.Path(straight, name).read_bytes(), name)
        if os.path.exists(os.path.join(run, "summary.json")):
            self.assertEqual(harness.digest(run), harness.digest(straight))
        for name in self.checkpoints(run):
            if name.startswith("."):
                continue
            data = pathlib.Path(run, "checkpoints", name).read_bytes()
            sealed = re.match(rb"HANSE-CHECKPOINT 1\nbytes (\d+)\n", data)
            self.assertTrue(sealed, f"{name} has no seal")
            self.assertEqual(int(sealed[1]), len(data), name)

    def check_result(self, run, straight, may_stay=None):
        """`may_stay`: a file that could not be removed."""
        self.assert_digest(run, straight)
        self.assertEqual(tables(run), tables(straight))
        self.check_names(run, straight)
        left = [str(path) for path in pathlib.Path(run).rglob("*")
                if (path.name.startswith(".") or ".tmp" in path.name) and str(path) != may_stay]
        self.assertEqual(left, [], "left over")

    def recover(self, run, job, ranks):
        """As a user would: resume where there is a checkpoint, else the same again."""
        if any(name.startswith("round-") for name in self.checkpoints(run)):
            process = self.hanse("resume", run, ranks=ranks)
            self.assertNotIn("damaged", process.stderr())
        else:
            self.hanse("run", job, f"--run.out={run}", "--run.overwrite=true", ranks=ranks)

    # -- commands

    def check_run(self, ways, ranks=None, rank=None):
        job = self.job(JOB)
        straight = self.path("straight")

        def command(run):
            return ["run", job, f"--run.out={run}"]

        def check(how, number, name):
            run = self.path(name)
            process = self.on_faulty_disk(command(run), run, ranks, rank, HOW=how, AT=number)
            self.check_ended(process, how, run, ranks)
            self.check_names(run, straight)
            if process.status != 0:
                self.recover(run, job, ranks)
            call, path = calls[number - 1]
            self.check_result(run, straight, call == "unlink" and path.replace(straight, run))
            shutil.rmtree(run)

        calls = self.calls(command(straight), straight, ranks=ranks, rank=rank)
        if ranks and calls[-1][1].endswith("lock"):
            calls.pop()  # the rank that ends last makes it, another one each time
        if rank in (None, 0):
            self.check_lines_are_on_disk(calls, straight)
        if rank is not None:  # the other rank hears of it, and does not wait
            names = [name if path.endswith(".h5.tmp") else None for name, path in calls]
            room = names.index("fallocate") if rank == 0 else 0
            check("ENOSPC", names.index("pwrite", room) + 1, "row-not-written")
        if rank == 1:
            opened = [name == "open" and path.endswith(".h5.tmp") for name, path in calls]
            check("EIO", opened.index(True) + 1, "not-opened")
        self.check_all(calls, ways, check)

    def check_lines_are_on_disk(self, calls, run):
        """No checkpoint appears before the lines that it promises."""
        lines = os.path.join(run, "rounds.csv")
        promises = 0
        synced = False
        for name, path in calls:
            if path == lines:
                synced = name == "fsync"
            elif name == "rename" and "checkpoints" in path:
                promises += 1
                self.assertTrue(synced, "a checkpoint before its lines")
        self.assertEqual(promises, JOB["run.rounds"])

    def test_run(self):
        self.check_run(WAYS)

    def test_rank_0_of_two(self):
        self.check_run(["ENOSPC"], ranks=2, rank=0)

    def test_rank_1_of_two(self):
        self.check_run(["EIO"], ranks=2, rank=1)

    def test_resume(self):
        job = self.job(JOB)
        stopped = self.train(job, "stopped", changes={"run.max-seconds": 1e-3},
                             expect=harness.STOPPED)
        straight = self.path("straight")
        shutil.copytree(stopped, straight)

        def check(how, number, name):
            run = self.path(name)
            shutil.copytree(stopped, run)
            process = self.on_faulty_disk(["resume", run], run, HOW=how, AT=number)
            self.check_ended(process, how, run)
            self.check_names(run, straight)
            if process.status != 0:
                self.recover(run, job, None)
            self.check_result(run, straight)
            shutil.rmtree(run)

        self.check_all(self.calls(["resume", straight], straight), ["ENOSPC", "kill"], check)

    def test_overwriting(self):
        # The older run is whole, or is none that can be resumed.
        job = self.job(JOB)
        old = self.train(job, "old", changes={"run.seed": 9, "run.rounds": 2})
        straight = self.path("straight")
        shutil.copytree(old, straight)

        def command(run):
            return ["run", job, f"--run.out={run}", "--run.overwrite=true"]

        def check(how, number, name):
            run = self.path(name)
            shutil.copytree(old, run)
            process = self.on_faulty_disk(command(run), run, HOW=how, AT=number)
            self.check_ended(process, how, run)
            if process.status != 0:
                process = self.hanse("resume", run, expect=None)
                if process.status == 0:
                    older = harness.summary(run)["seed"] == 9
                    self.check_result(run, old if older else straight)
                else:
                    self.assert_one_error(process, 2, run)
                    self.assertFalse(os.path.exists(os.path.join(run, "summary.json")))
                self.hanse(*command(run))
            self.check_result(run, straight)
            shutil.rmtree(run)

        calls = self.calls(command(straight), straight)
        half_gone = [path for _, path in calls].index(os.path.join(straight, "evaluations.csv")) + 1
        check("kill", half_gone, "half-gone")
        self.check_all(calls, ["EIO"], check)

    def test_conversion(self):
        job = self.job()
        out = self.path("whole", "data.h5")
        os.makedirs(os.path.dirname(out))

        def check(how, number, name):
            folder = self.path(name)
            os.makedirs(folder)
            file = os.path.join(folder, "data.h5")
            process = self.on_faulty_disk(["convert", job, file], folder, HOW=how, AT=number)
            self.check_ended(process, how, folder)
            if os.path.exists(file):
                self.assertEqual(pathlib.Path(file).read_bytes(), pathlib.Path(out).read_bytes())
            if not os.path.exists(file):
                self.hanse("convert", job, file)
            self.assertEqual(os.listdir(folder), ["data.h5"])

        self.check_all(self.calls(["convert", job, out], os.path.dirname(out)), ["torn"], check)


if __name__ == "__main__":
    harness.main()
