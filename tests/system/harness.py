"""Runs the real program, alone and under mpirun, for the tests of this folder.

Every process that a test starts carries the test's mark in its environment. So a test finds its
ranks by their number, and knows afterwards that none is left.
"""

import concurrent.futures
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

MARK = "HANSE_SYSTEM_TEST"
SANITIZER = os.environ.get("HANSE_SANITIZER", "")  # that the program was built with
# For one run; a busy machine is slow, a sanitizer slower, a hanging program slowest.
PATIENCE_S = 900 if SANITIZER else 120
measures_memory = unittest.skipIf(SANITIZER in ("address", "thread"),
                                  "the sanitizer has memory of its own")
SECONDS_TO_END = 30  # of ranks that something ends, on a busy machine
STOPPED = 75
RANK_VARIABLES = (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")  # Open MPI's and MPICH's

# A job that takes milliseconds. Tests change what they are about.
SMALL_JOB = {
    "run.rounds": 12,
    "run.seed": 5,
    "data.kind": "random",
    "data.shape": "1,8,8",
    "data.classes": 5,
    "federation.clients": 23,
    "federation.samples": 20,
    "model.kind": "linear",
    "client.batch": 6,
    "client.lr": 0.1,
    "sampler.per-round": 5,
    "evaluate.every": 4,
    "checkpoint.every": 0,
}


def program():
    path = os.environ.get("HANSE_PROGRAM_PATH", "build/hanse")
    return os.path.abspath(path)


def faulty_disk():
    """faulty_disk.c to preload, built beside the program."""
    path = os.path.join(os.path.dirname(program()), "tests/system/libfaulty_disk.so")
    assert os.path.exists(path), path
    return path


def mpirun(ranks, path=None):
    return [os.path.join(os.path.dirname(path or program()), "lib", "mpirun"), "-n", str(ranks)]


def options(changes):
    return [f"--{key}={value}" for key, value in changes.items()]


class Process:
    """A started program. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, arguments, ranks, folder, mark, file_bytes=None, data_bytes=None,
                 address_bytes=None, environment=None, path=None):
        self.mark = mark
        path = path or program()  # of the program
        self.output = os.path.join(folder, ".output-" + uuid.uuid4().hex)
        self.command = [path, *map(str, arguments)]
        if environment:  # of the program, not of mpirun
            self.command = ["env", *(f"{k}={v}" for k, v in environment.items()), *self.command]
        if ranks is not None:
            self.command = mpirun(ranks, path) + self.command
        if file_bytes is not None:  # a disk that is full behind so many bytes of each file
            self.limit(f"-f {file_bytes // 512}")
        if data_bytes is not None:  # of private memory; mapped files do not count
            self.limit(f"-d {int(data_bytes) // 1024}")
        if address_bytes is not None:
            self.limit(f"-v {int(address_bytes) // 1024}")
        surroundings = {**os.environ, MARK: mark}
        if "LD_LIBRARY_PATH" in os.environ:  # of a sanitizer
            surroundings["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"].replace(
                os.path.dirname(program()), os.path.dirname(path))
        with open(self.output + ".out", "wb") as out, open(self.output + ".err", "wb") as err:
            self.popen = subprocess.Popen(self.command, cwd=folder, stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=err, start_new_session=True,
                                          env=surroundings)

    def limit(self, what):
        self.command = ["/bin/sh", "-c", f"ulimit {what}; exec \"$@\"", "sh", *self.command]

    def stdout(self):
        return text(self.output + ".out")

    def stderr(self):
        return text(self.output + ".err")

    def ranks(self):
        """{rank: process id} of the ranks that live."""
        found = {}
        for pid, environment in marked(self.mark):
            for name in RANK_VARIABLES:
                if name in environment:
                    found[int(environment[name])] = pid
        return found

    def signal(self, number, rank=None):
        """To the started process itself (mpirun, or the program alone), or to one rank."""
        os.kill(self.popen.pid if rank is None else self.ranks()[rank], number)

    def wait_until(self, condition, what):
        """Waits while the program runs; fails when it ends before."""
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            if self.popen.poll() is not None:
                raise AssertionError(f"the program ended before {what}\n{self.describe()}")
            if time.monotonic() > end_s:
                self.kill()
                raise AssertionError(f"waited in vain: {what}\n{self.describe()}")
            time.sleep(0.01)

    def wait(self, timeout_s=PATIENCE_S):
        try:
            self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout_s} s\n{self.describe()}") from None
        return self

    def kill(self):
        """mpirun first, in peace: it removes its ranks and their shared files."""
        self.popen.terminate()
        try:
            self.popen.wait(10)
        except subprocess.TimeoutExpired:
            for pid, _ in marked(self.mark):
                kill(pid)
            self.popen.wait()

    @property
    def status(self):
        return self.popen.returncode

    def lines(self):
        return [line for line in self.stderr().splitlines() if line.strip()]

    def errors(self):
        return [line for line in self.lines() if line.startswith("hanse: error: ")]

    def describe(self):
        return (f"command: {' '.join(self.command)}\nstatus: {self.popen.poll()}\n"
                f"stderr:\n{self.stderr()}\nstdout:\n{self.stdout()[-2000:]}")


def marked(mark):
    """(process id, environment) of the living processes of a test."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        environment = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
        if environment.get(MARK.encode()) == mark.encode():
            found.append((int(name), environment))
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# Ranks and options at which a job must end alike.
PLACES = [(2, {}), (3, {"server.role": "dedicated"}), (4, {"comm.dispatch": "planned"})]


class Case(unittest.TestCase):
    """A test with a folder of its own, where the program runs too."""

    own_program = None  # path of another program than that of the build

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hanse-")
        self.mark = uuid.uuid4().hex

    def tearDown(self):
        end_s = time.monotonic() + 10
        while marked(self.mark) and time.monotonic() < end_s:
            time.sleep(0.05)
        left = [pid for pid, _ in marked(self.mark)]
        for pid in left:
            kill(pid)
        shutil.rmtree(self.folder)
        self.assertEqual(left, [], "the test left processes")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, data):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def job(self, changes=None, name="job.cfg"):
        """Writes SMALL_JOB with changes (None removes a key) and returns its path."""
        changes = changes or {}
        keys = {**SMALL_JOB, **changes}
        if keys["data.kind"] == "csv":  # a row of numbers, unless it says otherwise
            keys["data.shape"] = changes.get("data.shape")
        lines = []
        for section in dict.fromkeys(key.split(".")[0] for key in keys):
            lines.append(f"[{section}]")
            for key, value in keys.items():
                if key.startswith(section + ".") and value is not None:
                    lines.append(f"{key[len(section) + 1:]} = {value}")
        return self.write(name, "\n".join(lines) + "\n")

    def start(self, *arguments, ranks=None, **limits):
        return Process(arguments, ranks, self.folder, self.mark, path=self.own_program, **limits)

    def hanse(self, *arguments, ranks=None, expect=0, **limits):
        """Runs to the end; `expect` is the exit status that must come (None: any)."""
        process = self.start(*arguments, ranks=ranks, **limits).wait()
        if expect is not None:
            self.assertEqual(process.status, expect, process.describe())
        return process

    def train(self, job, out, ranks=None, changes=None, **more):
        """`hanse run` into the folder `out` of the test; returns the run directory's path."""
        self.hanse("run", job, f"--run.out={self.path(out)}", *options(changes or {}),
                   ranks=ranks, **more)
        return self.path(out)

    def rounds(self, run):
        return [int(row["round"]) for row in table(run, "rounds.csv")]

    def wait_for_rounds(self, process, run, count):
        process.wait_until(lambda: len(table(run, "rounds.csv")) >= count, f"round {count}")

    def wait_until_gone(self, process, what):
        """Waits for its end and for that of all ranks, and tells how long they took."""
        start_s = time.monotonic()
        process.wait(SECONDS_TO_END)
        while marked(self.mark) and time.monotonic() < start_s + SECONDS_TO_END:
            time.sleep(0.01)
        self.assertEqual(marked(self.mark), [], f"ranks are left after {what}")
        print(f"{what}: all ranks gone after {time.monotonic() - start_s:.2f} s", flush=True)

    def checkpoints(self, run):
        """Names in checkpoints/, oldest first; also those that should not be there."""
        folder = os.path.join(run, "checkpoints")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def check_goes_on(self, run, job, ranks=None):
        """What lies on the disk loads, and ends as if nothing had been."""
        last = int(self.checkpoints(run)[-1][len("round-"):-len(".h5")])
        changes = {"run.rounds": last + 2}
        self.hanse("resume", run, *options(changes), ranks=ranks)
        self.assert_digest(run, self.train(job, f"{run}-straight", changes=changes))
        self.assertEqual(self.rounds(run), list(range(1, last + 3)))

    def compare_places(self, changes, places=PLACES):
        """The job on one rank, at the places and on two ranks and from its half on three must end
        alike; the run on one rank and the one in halves."""
        job = self.job(changes)
        alone = self.train(job, "alone")
        runs = together([
            lambda i=i, ranks=ranks, more=more: self.train(job, f"place-{i}", ranks, more)
            for i, (ranks, more) in enumerate(places)])
        for run, place in zip(runs, places):
            self.assert_digest(run, alone, f"at (ranks, options) {place}")
            self.assertEqual(text(run, "evaluations.csv"), text(alone, "evaluations.csv"))
        rounds = changes["run.rounds"]
        run = self.train(job, "half", 2, {"run.rounds": rounds // 2})
        self.hanse("resume", run, f"--run.rounds={rounds}", ranks=3)
        self.assert_digest(run, alone, "after a resume")
        if rounds // 2 % changes.get("evaluate.every", SMALL_JOB["evaluate.every"]) == 0:
            self.assertEqual(text(run, "evaluations.csv"), text(alone, "evaluations.csv"))
        return alone, run

    def assert_digest(self, run, expected, what=""):
        self.assertEqual(digest(run), digest(expected), f"the models differ {what}")

    def assert_one_error(self, process, status, *parts):
        """One error line on stderr, which holds all of `parts`."""
        self.assertEqual(process.status, status, process.describe())
        errors = process.errors()
        self.assertEqual(len(errors), 1, f"not one error line\n{process.describe()}")
        for part in parts:
            self.assertIn(str(part), errors[0], process.describe())


def together(calls, at_once=2):
    """Results of the calls in order."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(call) for call in calls]
        return [future.result() for future in futures]


def summary(run):
    return json.loads(text(run, "summary.json"))


def digest(run):
    return summary(run)["model_digest"]


def table(run, name):
    """Whole lines of a CSV file as dictionaries; none when it is not there yet."""
    try:
        content = text(run, name)
    except FileNotFoundError:
        return []
    return list(csv.DictReader(content[:content.rfind("\n") + 1].splitlines()))


def column(run, name, field):
    return [row[field] for row in table(run, name)]


def text(*names):
    with open(os.path.join(*names), errors="replace") as file:
        return file.read()


class Suite(unittest.TestSuite):
    """Runs some tests at once: the processes of one wait for each other most of the time."""

    AT_ONCE = 4

    def run(self, result, debug=False):
        tests = list(self.flat(self))
        with concurrent.futures.ThreadPoolExecutor(self.AT_ONCE) as pool:
            list(pool.map(lambda test: test.run(result), tests))
        return result

    @staticmethod
    def flat(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from Suite.flat(test)
            else:
                yield test


class Result(unittest.TextTestResult):
    """A line a test, when it has ended."""

    def __init__(self, stream, descriptions, verbosity):
        super().__init__(stream, descriptions, 0)
        self.lock = threading.Lock()
        self.started = {}

    def startTest(self, test):
        with self.lock:
            super().startTest(test)
            self.started[test.id()] = time.monotonic()

    def tell(self, test, word):
        with self.lock:
            seconds = time.monotonic() - self.started[test.id()]
            self.stream.writeln(f"{word:<7} {seconds:5.1f} s  {test.id()}")
            self.stream.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, "FAILED")

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, "ERROR")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, "skipped")


def main():
    """unittest's main, after --program=PATH; names behind it choose tests."""
    rest = []
    for argument in sys.argv[1:]:
        if argument.startswith("--program="):
            os.environ["HANSE_PROGRAM_PATH"] = argument.split("=", 1)[1]
        else:
            rest.append(argument)
    loader = unittest.TestLoader()
    loader.suiteClass = Suite
    unittest.main(argv=[sys.argv[0], *rest], testLoader=loader,
                  testRunner=unittest.TextTestRunner(resultclass=Result))
