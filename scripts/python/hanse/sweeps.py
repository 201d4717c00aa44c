"""Runs a grid of jobs under one folder.

  OUT/CASE/seed-N      a run directory
  OUT/CASE/seed-N.log  what the program said; locked for as long as it runs
  OUT/sweep.json       what the folder is for: the job's lines, the options of every run, size and
                       digest of the files that these name; another sweep is refused
  OUT/study.toml       the study's file (study_files.py)

A finished run is never run again, a stopped one goes on from its checkpoint: the same command
continues what was interrupted. A run that another process does is skipped, for example one of
another sweep of the same folder. The options of all cases are checked before the first run.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import functools
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from . import input_files
from .errors import Failed, Refused, Stopped
from .files import write_whole
from .folders import Path, read_job, summary_there
from .folders import options_of as job_options
from .program import Options, ask, environment, find_program, mpirun, option_words
from .stopping import ask_to_stop
from .studies import Study, read_folder
from .study_files import (FILE, SEARCH, Case, alike, cases_of, options_of, study_of, text_of,
                          toml_of)

HELD_OUT = "federation.held-out"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
LOCKED = "another run writes this folder"  # in the program's message
BETWEEN_LINES_S = 2.0  # of runs that end well: hundreds may take a third of a second each


@dataclasses.dataclass
class Task:
    case: Case
    seed: int
    folder: pathlib.Path

    def label(self) -> str:
        return f"{self.case.name or 'base'}, seed {self.seed}"

    def summary(self) -> dict[str, Any] | None:
        """None until the run has ended."""
        return summary_there(self.folder)


class Sweep:
    """`common` are options of every run; `launch` are the words before the program. `say` is told
    how far it is."""

    def __init__(self, out: Path, job: Path, cases: Sequence[Case], seeds: Sequence[int],
                 common: Mapping[str, Any] | None = None, launch: Sequence[str] = (),
                 program: Path | None = None) -> None:
        self.out, self.job, self.cases, self.seeds = pathlib.Path(out), str(job), cases, seeds
        self.say: Callable[[str], None] = functools.partial(print, flush=True)
        self.environment: dict[str, str] | None = None  # of the runs; None: this process's
        self.common, self.launch = dict(common or {}), list(launch)
        self.drawn: dict[str, Any] = {}  # how cases were drawn, where they were: a seed and ranges
        self._program = program
        folders = {case.name: case.folder_in(self.out) for case in cases}
        self.tasks = [Task(case, seed, folders[case.name] / f"seed-{seed}")
                      for case in cases for seed in seeds]
        self.lock = threading.Lock()
        self.running: dict[str, subprocess.Popen] = {}  # by the task's label
        self.stopping = False
        self.failures: list[str] = []
        self.skipped = 0

    @functools.cached_property
    def program(self) -> Path:
        """Looked for when it is needed: a table needs none. Raises Refused."""
        return self._program or find_program()

    def _require_files(self) -> None:
        if not os.access(self.program, os.X_OK):
            raise Refused(f"{self.program} is missing; hint: scripts/build makes it")
        if not pathlib.Path(self.job).is_file() and self.job != os.devnull:
            raise Refused(f"{self.job} is missing; hint: name a job file")

    def check(self, tasks: Sequence[Task]) -> None:
        """Are the options of all that is not finished right? Refuses with a line for each error."""
        self._require_files()
        cases = {task.case.name: task for task in tasks if task.summary() is None}
        with concurrent.futures.ThreadPoolExecutor(processors()) as pool:
            errors = list(pool.map(self._error_of, cases.values()))
        names: dict[str, list[str]] = {}  # of the cases with that error
        for name, error in zip(cases, errors):
            names.setdefault(error, []).append(name or "base")
        names.pop("", None)
        if names:
            raise Refused("\n".join(
                f"{own[0]}{f' and {len(own) - 1} more' if len(own) > 1 else ''}: {error}"
                for error, own in names.items()))

    def _error_of(self, task: Task) -> str:
        """The error of a case; nothing when there is none."""
        said = subprocess.run([str(self.program), "check", self.job, *self.options(task)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
        lines = said.stderr.strip().splitlines() or ["it said nothing"]
        return lines[-1].split("error: ")[-1] if said.returncode else ""

    def claim(self) -> None:
        """Creates the folder, or checks that it is this sweep's, and that the files that its job
        names are as they were."""
        self._require_files()
        text = pathlib.Path(self.job).read_text(errors="replace")
        keys = [line.split("#")[0].strip() for line in text.splitlines()]  # comments may change
        mine = {"job": [key for key in keys if key], "common": self.common, **self.drawn}
        path = self.out / "sweep.json"
        try:
            there = json.loads(path.read_text()) if path.exists() else {}
            known = there.pop("files", {})
            if there and there != mine:
                raise Refused(f"{self.out} is for another job file or other options; hint: choose "
                              "another --out, or remove the folder")
            files = {**known, **self._files(job_options(text), known)}
            self.out.mkdir(parents=True, exist_ok=True)
            if not there or files != known:
                # whole or not at all: the tasks of an array begin together
                write_whole(path, json.dumps({**mine, "files": files}, indent=1))
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
            raise Refused(f"{path}: {error}; hint: choose another --out") from None
        self.require_kinds()

    def _files(self, job: Mapping[str, Any], known: input_files.Known) -> dict[str, Any]:
        """What sweep.json says of the files that the job and the cases name. Refuses those that
        have changed: a mean would be over runs of both."""
        options = [job, self.common, *(case.options for case in self.cases)]
        paths = dict.fromkeys(path for one in options for path in input_files.named_by(one))
        files = input_files.described(paths, known)
        if gone := input_files.changed(files, known):
            raise Refused(f"{', '.join(gone)}: changed since the runs in {self.out}; hint: choose "
                          f"another --out; scripts/sweep {self.out} --table shows what there is")
        return files

    def write_study(self, table: str | Mapping[str, Any]) -> None:
        """Puts the study's file, or the text of one, beside the runs."""
        text = table if isinstance(table, str) else toml_of(table)
        write_whole(self.out / FILE, text)

    def require_kinds(self) -> None:
        """Is what has been run under a case's name of the case's kinds and files?"""
        for task in self.tasks:
            job = read_job(task.folder)
            for key, value in task.case.options.items():
                is_kind = key.endswith((".kind", ".update", ".optimizer", "path", ".formula"))
                if is_kind and not alike(job.get(key, value), value):
                    raise Refused(f"{task.folder}: {key} = {job[key]}, not {value}; hint: remove "
                                  "the folder, or choose another --out")

    def run(self, tasks: Sequence[Task], at_once: int) -> bool:
        """Runs what is not finished. It prints how far it is, at most every other second, and each
        run that does not end well. True when all end well."""
        waiting = [task for task in tasks if task.summary() is None]
        if len(waiting) < len(tasks):
            self.say(f"{len(tasks) - len(waiting)} of {len(tasks)} runs are there already")
        done, printed_s = 0, 0.0
        self.skipped = 0
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool, interrupts_of(self):
            futures = {pool.submit(self._execute, task): task for task in waiting}
            for future in concurrent.futures.as_completed(futures):
                text = future.result()
                done += 1
                ended_well = text.endswith(" s")
                soon = time.monotonic() < printed_s + BETWEEN_LINES_S and done < len(waiting)
                if text and not (ended_well and soon):
                    self.say(f"[{done}/{len(waiting)}] {futures[future].label()}: {text}")
                    printed_s = time.monotonic()
        return not self.failures and not self.stopping

    def stop(self) -> None:
        """The runs write a checkpoint and end; at the second request they end at once."""
        with self.lock:
            at_once, self.stopping = self.stopping, True
            processes = list(self.running.values())
        for process in processes:
            if at_once:
                process.terminate()
            else:
                assert isinstance(process.args, list)  # as command() gives it
                ask_to_stop(process.pid, pathlib.Path(process.args[0]).name == "mpirun")

    def command(self, task: Task) -> list[str]:
        launch = self.launch if task.case.launch is None else task.case.launch
        if any((task.folder / "checkpoints").glob("round-*.h5")):
            return [*launch, str(self.program), "resume", str(task.folder)]
        return [*launch, str(self.program), "run", self.job, *self.options(task),
                "--run.overwrite=true"]

    def options(self, task: Task) -> list[str]:
        options = {**self.common, **task.case.options, "run.seed": task.seed,
                   "run.out": task.folder}
        return option_words(options)

    def _execute(self, task: Task) -> str:
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
                                           stdout=file, stderr=file, start_new_session=True,
                                           env=self.environment)
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

    def _skip(self, why: str) -> str:
        with self.lock:
            self.skipped += 1
        return f"skipped: {why}"

    def report(self, name: str) -> None:
        """Tells on stderr what is not in the table."""
        if self.skipped:
            print(f"{name}: skipped {self.skipped} runs that other processes do; the same command "
                  "adds them to the table", file=sys.stderr)
        for failure in self.failures:
            print(f"{name}: failed: {failure}", file=sys.stderr)


@contextlib.contextmanager
def interrupts_of(sweep: Sweep) -> Iterator[None]:
    """While it lasts, requests to stop go to the sweep's runs."""
    def stop(*_: Any) -> None:
        # In a thread: the signal may have come while this one holds the sweep's lock.
        threading.Thread(target=sweep.stop).start()

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
        survives = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # nohup
        before = {number: signal.signal(number, stop) for number in STOPPING
                  if number != signal.SIGHUP or not survives}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def lock(file: IO[str]) -> bool:
    """Takes the file for this process and those that write to it. False: another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def processors() -> int:
    return len(os.sched_getaffinity(0))


# -- a study

def prepare(source: Path, *, vary: Mapping[str, Sequence[str]] | None = None,
            options: Mapping[str, str] | None = None, out: Path | None = None, runs: bool = True,
            change: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
            **numbers: int | str | None) -> tuple[Sweep, Study, str]:
    """The runs of a study, the study as it is shown, and the text of its file, see study_of().

    `out`: the folder of the runs; by default the one that `source` lies in, if it is such, or
    runs/sweep-NAME. `runs`: whether any is to be started. `change` makes another table of the study's.
    The value `each`
    of federation.held-out becomes the names of all clients. Raises Refused."""
    table, text = study_of(source, vary=vary, options=options, **numbers)
    if change:
        table = change(table)
        text = toml_of(table)
    if "each" in table["vary"].get(HELD_OUT, ()):
        table["vary"] = {**table["vary"], HELD_OUT: [
            name for value in table["vary"][HELD_OUT]
            for name in (client_names(table) if value == "each" else [value])]}
        text = toml_of(table)
    path = pathlib.Path(source)
    own = path if path.is_dir() else path.parent if path.name in (FILE, SEARCH) else None
    if own is None or not any((own / name).is_file() for name in ("sweep.json", SEARCH)):
        own = pathlib.Path("runs") / f"sweep-{path.stem if path.is_file() else 'python'}"
    seeds = range(table["first-seed"], table["first-seed"] + table["seeds"])
    cases = cases_of(table)
    launch = mpirun(find_program(), table["ranks"]) if runs else []
    sweep = Sweep(out or own, table["job"], cases, seeds, table["set"], launch)
    if "random" in table:
        sweep.drawn = {"random": {"seed": table["random-seed"], "vary": table["vary"]}}
    return sweep, Study(sweep.out, table, cases, seeds), text


def client_names(table: Mapping[str, Any]) -> list[str]:
    """The clients of a study's job, each as federation.held-out names it: its name, or its number
    where the data have no names. Cost: the program reads the data, and writes them once. Raises
    Refused."""
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "clients.h5"
        ask("convert", table["job"], path, *option_words({**table["set"], HELD_OUT: 0}))
        with h5py.File(path) as file:
            count = len(file["train_end"]) - int(file.attrs["held_out"])
            names = ([name.decode() for name in file["client_names"][:count]]
                     if "client_names" in file else [str(client) for client in range(count)])
    return [held_out_name(name) for name in names]


def held_out_name(name: str) -> str:
    """As federation.held-out takes the name of a client: in quotes where it has a comma or a quote."""
    if "," in name or '"' in name:
        return '"' + name.replace('"', '""') + '"'
    return f"name:{name}" if _is_no_plain_name(name) else name


def _is_no_plain_name(name: str) -> bool:
    try:
        float(name)
        return True
    except ValueError:
        return name == "each" or name.startswith("name:")


def sweep(job: Path | Options, vary: Mapping[str, Sequence[Any]] | None = None, *,
          options: Options | None = None, seeds: int | None = None, first_seed: int | None = None,
          ranks: int | None = None, jobs: int | None = None, out: Path | None = None,
          progress: bool = True) -> Study:
    """Runs a job for every combination of values and several seeds, and returns the study.

        study = hanse.sweep("first.cfg", {"method": ["fedavg", "fedadam"], "client.lr": [0.1, 0.3]},
                            seeds=5, options={"run.rounds": 50})
        study.frame, study.curves, study.means(["accuracy_mean"], against={"method": "fedavg"})

    `job`: a job file, a mapping of keys to values, a study's file (TOML) or the folder of one; what
    is given beside it comes on top. `jobs`: how many runs there are at the same time (processors /
    ranks). `out`: the folder of the runs (runs/sweep-NAME). Runs that have ended are not run again,
    stopped ones go on. `progress`: says on stderr how far it is.

    Raises Refused for what is wrong before the first run, Stopped after Ctrl-C, behind checkpoints:
    the same call goes on. Warns of runs that fail, and raises Failed where all of them do."""
    if isinstance(job, Mapping):
        options = {**job, **(options or {})}
        job = os.devnull
    texts = {key: [text_of(value) for value in values] for key, values in (vary or {}).items()}
    own, study, text = prepare(
        job, vary=texts, options=options_of(options or {}), out=out, seeds=seeds, first_seed=first_seed, ranks=ranks)
    if "search" in study.table:
        raise Refused(f"{job} is a search; hint: scripts/sweep runs it")
    own.environment = environment()
    own.say = functools.partial(print, file=sys.stderr if progress else io.StringIO(), flush=True)
    own.check(own.tasks)
    own.claim()
    own.write_study(text)
    own.run(own.tasks, jobs or max(1, processors() // study.table["ranks"]))
    if own.stopping:
        raise Stopped(f"{own.out}: stopped; hint: the same call goes on")
    if own.failures and not any(task.summary() for task in own.tasks):
        raise Failed(own.failures[0])
    for failure in own.failures:
        warnings.warn(f"failed: {failure}", stacklevel=2)
    return study


def read_study(folder: Path) -> Study:
    """The study in a folder of runs, finished or not. Raises FileNotFoundError where there is none,
    Refused for a study's file that cannot be read."""
    found = read_folder(folder)
    if found is None:
        raise FileNotFoundError(f"{folder} is no folder of a study; hint: hanse.read() reads a run")
    return found
