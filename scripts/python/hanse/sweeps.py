"""Runs a grid of jobs under one folder.

  OUT/CASE/seed-N      a run directory
  OUT/CASE/seed-N.log  what the program said; locked for as long as it runs
  OUT/sweep.json       what the folder is for; another sweep is refused
  OUT/study.toml       the study's file (studies.py)

A finished run is never run again, a stopped one goes on from its checkpoint: the same command
continues what was interrupted. A run that another process does is skipped, for example one of
another sweep of the same folder. The options of all cases are checked before the first run.
"""
from __future__ import annotations

import concurrent.futures
import dataclasses
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from .program import Refused, find_program
from .several import BadRun, read_job, read_summary
from .stopping import ask_to_stop
from .study_files import FILE, Case, toml_of

LOCKED = "another run writes this folder"  # in the program's message
BETWEEN_LINES_S = 2.0  # of runs that end well: hundreds may take a third of a second each


@dataclasses.dataclass
class Task:
    case: Case
    seed: int
    folder: pathlib.Path

    def label(self):
        return f"{self.case.name or 'base'}, seed {self.seed}"

    def summary(self):
        """None until the run has ended."""
        try:
            return read_summary(self.folder)
        except BadRun:
            return None


class Sweep:
    """`common` are options of every run; `launch` are the words before the program."""

    def __init__(self, out, job, cases, seeds, common=None, launch=(), program=None):
        self.out, self.job, self.cases, self.seeds = pathlib.Path(out), str(job), cases, seeds
        self.common, self.launch = dict(common or {}), list(launch)
        self.program = program  # found when it is needed
        self.tasks = [Task(case, seed, self.out / case.folder() / f"seed-{seed}")
                      for case in cases for seed in seeds]
        self.lock = threading.Lock()
        self.running = {}  # Popen of each task that runs
        self.stopping = False
        self.failures = []
        self.skipped = 0

    def _require_files(self):
        self.program = self.program or find_program()
        if not os.access(self.program, os.X_OK):
            raise Refused(f"{self.program} is missing; hint: scripts/build makes it")
        if not pathlib.Path(self.job).is_file():
            raise Refused(f"{self.job} is missing; hint: name a job file")

    def check(self, tasks):
        """Are the options of all that is not finished right? Refuses with a line for each error."""
        self._require_files()
        cases = {task.case.name: task for task in tasks if task.summary() is None}
        with concurrent.futures.ThreadPoolExecutor(processors()) as pool:
            errors = list(pool.map(self._error_of, cases.values()))
        names = {}  # of the cases with that error
        for name, error in zip(cases, errors):
            names.setdefault(error, []).append(name or "base")
        names.pop("", None)
        if names:
            raise Refused("\n".join(
                f"{cases[0]}{f' and {len(cases) - 1} more' if len(cases) > 1 else ''}: {error}"
                for error, cases in names.items()))

    def _error_of(self, task):
        """The error of a case; nothing when there is none."""
        said = subprocess.run([str(self.program), "check", self.job, *self.options(task)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
        lines = said.stderr.strip().splitlines() or ["it said nothing"]
        return lines[-1].split("error: ")[-1] if said.returncode else ""

    def claim(self):
        """Creates the folder, or checks that it is this sweep's."""
        self._require_files()
        lines = pathlib.Path(self.job).read_text(errors="replace").splitlines()
        keys = [line.split("#")[0].strip() for line in lines]  # comments may change
        mine = {"job": [key for key in keys if key], "common": self.common}
        path = self.out / "sweep.json"
        try:
            if path.exists() and json.loads(path.read_text()) != mine:
                raise Refused(f"{self.out} is for another job file or other options; hint: choose "
                              "another --out, or remove the folder")
            self.out.mkdir(parents=True, exist_ok=True)
            if not path.exists():  # whole or not at all: the tasks of an array begin together
                write_whole(path, json.dumps(mine, indent=1))
        except (OSError, ValueError) as error:
            raise Refused(f"{path}: {error}; hint: choose another --out") from None

        self.require_kinds()

    def write_study(self, table):
        """Puts the study's file, or the text of one, beside the runs."""
        text = table if isinstance(table, str) else toml_of(table)
        write_whole(self.out / FILE, text)

    def require_kinds(self):
        """Is what has been run under a case's name of the case's kinds?"""
        for task in self.tasks:
            job = read_job(task.folder)
            for key, value in task.case.options.items():
                is_kind = key.endswith((".kind", ".update", ".optimizer"))
                if is_kind and job.get(key, value) != value:
                    raise Refused(f"{task.folder}: {key} = {job[key]}, not {value}; hint: remove "
                                  "the folder, or choose another --out")

    def run(self, tasks, at_once):
        """Runs what is not finished. It prints how far it is, at most every other second, and each
        run that does not end well. True when all end well."""
        waiting = [task for task in tasks if task.summary() is None]
        if len(waiting) < len(tasks):
            print(f"{len(tasks) - len(waiting)} of {len(tasks)} runs are there already")
        done, printed_s = 0, 0.0
        self.skipped = 0
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool, Interrupts(self):
            futures = {pool.submit(self._execute, task): task for task in waiting}
            for future in concurrent.futures.as_completed(futures):
                text = future.result()
                done += 1
                ended_well = text.endswith(" s")
                soon = time.monotonic() < printed_s + BETWEEN_LINES_S and done < len(waiting)
                if text and not (ended_well and soon):
                    print(f"[{done}/{len(waiting)}] {futures[future].label()}: {text}", flush=True)
                    printed_s = time.monotonic()
        return not self.failures and not self.stopping

    def stop(self):
        """The runs write a checkpoint and end; at the second request they end at once."""
        with self.lock:
            at_once, self.stopping = self.stopping, True
            processes = list(self.running.values())
        for process in processes:
            if at_once:
                process.terminate()
            else:
                ask_to_stop(process.pid, pathlib.Path(process.args[0]).name == "mpirun")

    def command(self, task):
        launch = self.launch if task.case.launch is None else task.case.launch
        if any((task.folder / "checkpoints").glob("round-*.h5")):
            return [*launch, str(self.program), "resume", str(task.folder)]
        return [*launch, str(self.program), "run", self.job, *self.options(task),
                "--run.overwrite=true"]

    def options(self, task):
        options = {**self.common, **task.case.options, "run.seed": task.seed,
                   "run.out": task.folder}
        return [f"--{key}={value}" for key, value in options.items()]

    def _execute(self, task):
        """Runs one; returns a line on its end, nothing when the sweep is being stopped."""
        start = time.monotonic()
        task.folder.parent.mkdir(parents=True, exist_ok=True)
        log = task.folder.with_suffix(".log")
        with open(log, "a") as file:
            if not lock(file):
                return "" if self.stopping else self._skip("another process runs it")
            if task.summary() is not None:
                return "there already: another process ran it"
            file.truncate(0)
            with self.lock:
                if self.stopping:
                    return ""
                # A session of its own: the terminal's Ctrl-C does not reach it.
                process = subprocess.Popen(self.command(task), stdin=subprocess.DEVNULL,
                                           stdout=file, stderr=file, start_new_session=True)
                self.running[task.label()] = process
            status = process.wait()
        with self.lock:
            del self.running[task.label()]
        if status == 0 and task.summary() is not None:
            return f"{time.monotonic() - start:.1f} s"
        if self.stopping:
            return "stopped"
        lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        if LOCKED in lines[-1]:
            return self._skip(lines[-1].split("error: ")[-1])
        self.failures.append(f"{task.label()}: status {status}: {lines[-1]}")
        return f"FAILED, {log}"

    def _skip(self, why):
        with self.lock:
            self.skipped += 1
        return f"skipped: {why}"

    def report(self, name):
        """Tells on stderr what is not in the table."""
        if self.skipped:
            print(f"{name}: skipped {self.skipped} runs that other processes do; the same command "
                  "adds them to the table", file=sys.stderr)
        for failure in self.failures:
            print(f"{name}: failed: {failure}", file=sys.stderr)


class Interrupts:
    """While it lasts, requests to stop go to the sweep's runs."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

    def __init__(self, sweep):
        self.sweep = sweep

    def _handle(self, *_):
        # In a thread: the signal may have come while this one holds the sweep's lock.
        threading.Thread(target=self.sweep.stop).start()

    def __enter__(self):
        survives = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
        self.before = {number: signal.signal(number, self._handle) for number in self.SIGNALS
                       if number != signal.SIGHUP or not survives}

    def __exit__(self, *_):
        for number, handler in self.before.items():
            signal.signal(number, handler)


def write_whole(path, text):
    """The file is there whole, or as it was."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text)
    temporary.rename(path)


def lock(file):
    """Takes the file for this process and those that write to it. False: another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def processors():
    return len(os.sched_getaffinity(0))
