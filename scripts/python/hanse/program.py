"""Starts the program: runs, plans and replays."""
from __future__ import annotations

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import Failed, HanseError, Refused, Stopped
from .folders import Path
from .results import Run
from .stopping import ask_to_stop
from .study_files import CHECKOUT, text_of

Options = Mapping[str, Any]

STOPPED = 75  # the program's status after a checkpoint on request
STOPPED_LINE = "stopped after round"
ERROR = "hanse: error: "
TOLD_ABOVE = " told above; the first: "  # in the error of a table with several faults
LINES_KEPT = 24  # of what the program says, to find its error, and the faults of a table above it


def find_program() -> pathlib.Path:
    """The program of HANSE_PROGRAM, of the checkout or the installation that this package
    lies in, or of PATH. Raises
    Refused where there is none."""
    named = os.environ.get("HANSE_PROGRAM")
    if named:
        if os.access(named, os.X_OK):
            return pathlib.Path(named).absolute()
        raise Refused(f"{named} is no program; hint: HANSE_PROGRAM names it")
    built = CHECKOUT / "build" / "hanse"
    if (CHECKOUT / "scripts" / "build").exists() and os.access(built, os.X_OK):
        return built
    installed = CHECKOUT.parents[1] / "bin" / "hanse"  # beside share/hanse
    if CHECKOUT.parent.name == "share" and os.access(installed, os.X_OK):
        return installed
    found = shutil.which("hanse")
    if found:
        return pathlib.Path(found)
    raise Refused("the program hanse is missing; hint: scripts/build makes build/hanse, and "
                  "HANSE_PROGRAM names it")


def mpirun(program: Path, ranks: int) -> list[str]:
    """The words that start that many ranks on this machine: the mpirun that the program's build has
    put beside it, else that of PATH. Raises Refused."""
    if ranks < 1:
        raise Refused(f"{ranks} ranks; hint: at least 1 is needed")
    if ranks == 1:
        return []
    folder = pathlib.Path(program).resolve().parent
    own = [folder / "lib" / "mpirun", folder.parent / "lib" / "hanse" / "mpirun"]
    found = next((path for path in own if path.exists()), None) or shutil.which("mpirun")
    if not found:
        raise Refused("mpirun is missing; hint: scripts/setup installs it")
    return [str(found), "-n", str(ranks)]


def option_words(options: Options | None) -> list[str]:
    """{"client.lr": 0.1, "model.hidden": (200, 100)} as words of a command line."""
    return [f"--{key}={text_of(value)}" for key, value in (options or {}).items()]


def run(job: Path | Options, options: Options | None = None, *, ranks: int = 1,
        progress: bool = True) -> Run:
    """Trains a job, and returns its finished run.

    `job` is a job file, or a mapping of keys to values; `options` come on top of it. Keys are those
    of jobs/keys.md; True is written "true", a list with commas. `progress` shows what the program
    says meanwhile, on stderr. Ctrl-C asks for a checkpoint before it ends the run, a second one
    ends it at once.

    Raises Refused for what is wrong before the first round, Failed for what fails later, both with
    the program's message, and Stopped when the run ends on request (run.max-seconds, a signal).
    """
    if isinstance(job, Mapping):
        options = {"run.name": "python", **job, **(options or {})}
        job = os.devnull
    return _train(["run", os.fspath(job), *option_words(options)], ranks, progress)


def resume(path: Path | Run, options: Options | None = None, *, ranks: int = 1,
           progress: bool = True) -> Run:
    """Goes on with a run directory from its last checkpoint, on any number of ranks. `options`:
    what jobs/keys.md marks as "may change on resume". Raises as run() does."""
    folder = path.path if isinstance(path, Run) else path
    return _train(["resume", os.fspath(folder), *option_words(options)], ranks, progress)


def plan(job: Path, options: Options | None = None, *, ranks: int = 1) -> dict[str, Any]:
    """What `hanse plan` says of a job on `ranks` ranks: memory, bytes and time of a round. Raises
    Refused or Failed."""
    return json.loads(ask("plan", job, *option_words(options), f"--ranks={ranks}", "--json"))


def status(*runs: Path) -> list[dict[str, Any]]:
    """How far runs are, as `hanse status --json` tells it (jobs/results-and-metrics.md): {run, state,
    rounds, of_rounds, rounds_per_second, seconds_left, metric, value, evaluated_round} of each; None is
    not known. A folder of repeats or of a sweep has those of all its runs. Raises Refused for a folder
    without a run."""
    return json.loads(ask("status", *runs, "--json"))


def replay(trace: Path | Mapping[str, Any], *, check: bool = False) -> dict[str, Any]:
    """What a built-in rule decides on a trace: a file, or what would stand in it (jobs/replay.md).
    `check`: proves first that the rule is pure. Raises Refused for a malformed trace, Failed for a
    rule that is not pure."""
    if isinstance(trace, Mapping):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(trace, file)
            file.flush()
            return replay(file.name, check=check)
    if check:
        ask("replay", trace, "--check")
    return json.loads(ask("replay", trace))


def ask(*words: Path, notices: Callable[[str], object] = len, program: Path | None = None,
        launch: Sequence[str] = ()) -> str:
    """The output of a command that ends soon, such as `hanse convert`. `notices` is called with what
    it says beside; `launch` are the words before the program. Raises Refused or Failed."""
    done = subprocess.run([*launch, program or find_program(), *words], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, errors="replace", check=False, env=environment())
    if done.returncode:
        raise _error(done.returncode, done.stderr.splitlines())
    notices(done.stderr)
    return done.stdout


def environment() -> dict[str, str]:
    """The program loads rules in Python by this Python, unless HANSE_PYTHON names another."""
    return {"HANSE_PYTHON": sys.executable, **os.environ}


def _error(status: int, lines: list[str]) -> HanseError:
    """The error of a program that has ended with this status after these last lines."""
    known = [line for line in lines if line.startswith(ERROR)]
    stopped = [line for line in lines if STOPPED_LINE in line]
    if status == STOPPED:
        return Stopped((stopped or ["stopped"])[-1].removeprefix("hanse: "))
    if known:
        kind = Refused if status == 2 else Failed
        told = lines[:lines.index(known[-1])] if TOLD_ABOVE in known[-1] else []
        return kind("\n".join([known[-1].removeprefix(ERROR),
                               *(line.removeprefix("hanse: ") for line in told)]))
    return Failed(f"the program ended with status {status}: {(lines or ['it said nothing'])[-1]}")


def _train(words: list[str], ranks: int, progress: bool) -> Run:
    program = find_program()
    command = [*mpirun(program, ranks), str(program), *words]
    with tempfile.TemporaryFile("w+") as summary:
        # A session of its own: the terminal's Ctrl-C does not reach it.
        lines: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=summary,
                              stderr=subprocess.PIPE, text=True, errors="replace",
                              start_new_session=True, env=environment()) as process:
            try:
                _listen(process, lines, progress)
            except KeyboardInterrupt:
                _stop(process, lines, progress, ranks > 1)
                raise
        stopped = any(STOPPED_LINE in line for line in lines)
        if process.returncode or stopped:  # MPICH's mpirun may forget the status of a stopped run
            raise _error(process.returncode or STOPPED, list(lines))
        summary.seek(0)
        return Run(_run_directory(summary.read()))


def _listen(process: subprocess.Popen, lines: collections.deque, progress: bool) -> None:
    """Listens until the program has ended. Its error is not shown: it is raised."""
    assert process.stderr
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if progress and not line.startswith(ERROR):
            print(lines[-1], file=sys.stderr, flush=True)
    process.wait()


def _stop(process: subprocess.Popen, lines: collections.deque, progress: bool,
          under_mpirun: bool) -> None:
    """Asks for a checkpoint and waits for it; the second Ctrl-C ends the run at once."""
    try:
        ask_to_stop(process.pid, under_mpirun)
        _listen(process, lines, progress)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()


def _run_directory(summary: str) -> str:
    """The last line of what a finished run prints."""
    for line in reversed(summary.splitlines()):
        if line.startswith("run directory "):
            return line.removeprefix("run directory ").strip()
    raise Failed("the program has not named its run directory")
