"""What lies in the folders of runs: the runs themselves, and their files as texts."""
from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import pathlib
from typing import TYPE_CHECKING, Any, Union

from .errors import Refused

if TYPE_CHECKING:
    import numpy

Path = Union[str, os.PathLike]


@dataclasses.dataclass
class Place:
    """What a path names: one run, or the runs of one job that differ by their seeds."""
    path: pathlib.Path
    runs: list[pathlib.Path]  # that have begun
    case: str = ""            # its name in a sweep
    repeats: int = 1          # that there are to be

    @property
    def count(self) -> int:
        return max(self.repeats, len(self.runs))

    @property
    def several(self) -> bool:
        return self.count > 1


def is_run(path: pathlib.Path) -> bool:
    return any((path / name).is_file() for name in ("job.cfg", "rounds.csv", "summary.json"))


def numbered(folder: pathlib.Path, beginning: str) -> list[pathlib.Path]:
    """The runs in folders BEGINNING1, BEGINNING2, ..., in the order of the numbers."""
    found = [(int(path.name[len(beginning):]), path) for path in folder.glob(f"{beginning}[0-9]*")
             if path.name[len(beginning):].isdigit() and is_run(path)]
    return [path for _, path in sorted(found)]


def read_summary(run: Path) -> dict[str, Any]:
    """summary.json. Raises Refused where a run has not ended."""
    path = pathlib.Path(run) / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except FileNotFoundError:
        raise Refused(f"{path} is missing; hint: only a finished run has it") from None
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from None
    if not isinstance(summary, dict):
        raise Refused(f"{path} holds no summary of a run")
    return summary


def summary_there(run: Path) -> dict[str, Any] | None:
    """summary.json; None until the run has ended."""
    try:
        return read_summary(run)
    except Refused:
        return None


def why_failed(run: Path) -> str:
    """The error that has ended a run before its end, of failed.txt or of its log in a study; nothing
    where none is known."""
    folder = pathlib.Path(run)
    for path, beginning in ((folder / "failed.txt", ""),
                            (folder.with_name(f"{folder.name}.log"), "error: ")):
        try:
            last = path.read_text(errors="replace").strip().rpartition("\n")[2]
        except OSError:
            continue
        if last and beginning in last:
            return last.partition(beginning)[2] if beginning else last
    return ""


def read_job(folder: Path) -> dict[str, str]:
    """{"section.key": text} of job.cfg, in its order; empty without one."""
    return read_job_file(pathlib.Path(folder) / "job.cfg")


def read_job_file(path: Path) -> dict[str, str]:
    """The same of a job file."""
    try:
        return options_of(pathlib.Path(path).read_text(errors="replace"))
    except OSError:
        return {}


def options_of(text: str) -> dict[str, str]:
    """{"section.key": text} of what stands in a job file, in its order."""
    options, section = {}, ""
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line:
            key, value = line.split("=", 1)
            options[f"{section}.{key.strip()}"] = value.strip()
    return options


def whole_text(path: Path) -> str:
    """The whole lines of a file; a run that goes on may be writing the last one. Raises OSError."""
    text = pathlib.Path(path).read_text(errors="replace")
    return text[:text.rfind("\n") + 1]


def read_lines(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names of a CSV file's columns, none of an empty file, and its whole lines, as texts.
    Raises OSError."""
    names, *lines = [line for line in csv.reader(io.StringIO(whole_text(path))) if line] or [[]]
    return [name.strip() for name in names], lines


def read_columns(path: Path) -> dict[str, numpy.ndarray]:
    """A CSV file as {column: float64 [lines]}, NaN where no number stands. Raises OSError."""
    import numpy
    head, lines = read_lines(path)
    return {name: numpy.array([_number(line[i]) if i < len(line) else math.nan for line in lines])
            for i, name in enumerate(head)}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_history(path: Path) -> tuple[numpy.ndarray, dict[str, numpy.ndarray]]:
    """The rounds of the evaluations, and {column: [evaluations, clients]}, of history.h5."""
    import h5py
    with h5py.File(path) as file:
        rounds = file["round"][:]
        there = rounds >= 0
        return rounds[there], {name: file[name][:][there] for name in file if name != "round"}


def read_rows(path: Path) -> list[dict[str, str]]:
    """{column: text} of each line of a CSV file. Raises OSError."""
    names, lines = read_lines(path)
    return [dict(zip(names, line)) for line in lines]


def rows_there(path: Path) -> list[dict[str, str]]:
    """The same; none where there is no file."""
    return read_rows(path) if pathlib.Path(path).is_file() else []
