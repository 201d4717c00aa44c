"""How far runs are, from what lies in their directories, by the rules of `hanse status`."""
import dataclasses
import fcntl
import os
import pathlib
import platform
import struct
import time

import numpy as np

from hanse.several import read_job

from .curves import main_metrics, series_of
from .run_files import BadFile, Run, to_number

F_OFD_GETLK = 36     # of Linux: who holds the lock of an open file; Python has no name for it
LAST_BYTES = 16384   # of rounds.csv, which say how fast a run is
LATE_ROUNDS = 50     # that the rate is of
QUIET_S = 120.0      # a run of another host whose lock cannot be seen is over after so long
STATES = ("running", "failed", "stopped", "done")


@dataclasses.dataclass(frozen=True)
class Progress:
    """`rounds` of `rounds_in_all`, `rate` a second over the last ones (None before the first);
    what the run is about, `metric`, and its newest value; `why` it failed or was killed."""
    state: str
    rounds: int = 0
    rounds_in_all: int = 0
    rate: float | None = None
    metric: str = ""
    value: float | None = None
    why: str = ""

    @property
    def left_s(self):
        """Seconds until the last round; None where nothing tells."""
        if self.state != "running" or not self.rate:
            return None
        return max(0, self.rounds_in_all - self.rounds) / self.rate


def is_locked(path):
    """Does a process hold this lock? It is only asked for, not taken."""
    try:
        with open(path) as file:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = struct.unpack("hhqqi4x", fcntl.fcntl(file, F_OFD_GETLK, asked))
            owner = file.read()
    except OSError:
        return False
    if found[0] != fcntl.F_UNLCK:
        return True
    elsewhere = owner.startswith("host ") and not owner.startswith(f"host {platform.node()},")
    rounds = pathlib.Path(path).with_name("rounds.csv")
    try:  # not every file system tells of locks of other hosts
        return elsewhere and time.time() - rounds.stat().st_mtime < QUIET_S
    except OSError:
        return False


def last_rounds(folder):
    """Columns of the last rounds of rounds.csv, as texts; {} before the first one."""
    try:
        with open(folder / "rounds.csv", "rb") as file:
            head = file.readline().decode(errors="replace").strip().split(",")
            start = file.tell()
            file.seek(max(start, file.seek(0, os.SEEK_END) - LAST_BYTES))
            cut = file.tell() > start
            lines = file.read().decode(errors="replace").split("\n")[int(cut):-1]
    except OSError:
        return {}
    rows = [row for line in lines if len(row := line.split(",")) == len(head)]
    return dict(zip(head, zip(*rows)))


def rate_of(rows):
    """Rounds a second, with their evaluations."""
    seconds = np.nansum([to_number(text) for name in ("seconds", "seconds_evaluate")
                         for text in rows.get(name, ())[-LATE_ROUNDS:]])
    count = min(LATE_ROUNDS, len(rows.get("round", ())))
    return count / seconds if seconds > 0 else None


def last_words(folder):
    """The error that has ended a run: failed.txt, or the end of its log in a sweep."""
    try:
        return (folder / "failed.txt").read_text(errors="replace").strip()
    except OSError:
        pass
    try:
        lines = folder.with_name(f"{folder.name}.log").read_text(errors="replace").strip()
    except OSError:
        return ""
    _, error, words = lines.rpartition("\n")[2].partition("error: ")
    return words if error else ""


def state_of(folder):
    """The state of a run, and why it does not run any more: the error of one that has failed. A
    run that is killed has stopped, and leaves its lock."""
    if (folder / "summary.json").exists():
        return "done", ""
    if is_locked(folder / "lock"):
        return "running", ""
    if words := last_words(folder):
        return "failed", words
    killed = (folder / "lock").exists()
    return "stopped", "it was killed, or its host has gone; hanse resume goes on" * killed


def progress_of(folder):
    """How far the run of this folder is."""
    folder = pathlib.Path(folder)
    rows = last_rounds(folder)
    rounds = int(to_number(rows["round"][-1])) if rows else 0
    state, why = state_of(folder)
    metric, value = newest_value(folder)
    in_all = read_job(folder).get("run.rounds", "")
    return Progress(state, rounds, int(in_all) if in_all.isdigit() else 0, rate_of(rows), metric,
                    value, why)


def newest_value(folder):
    """What the run is about, and its last value; of repeats of bandits their mean."""
    for metric in main_metrics(read_job(folder)):
        try:
            values = [y[-1] for _, y in series_of(Run(folder), metric) if len(y)]
        except BadFile:
            continue
        if values:
            return metric, float(np.mean(values))
    return "", None
