"""Several runs: which of them a path names, what they are called where they stand side by side, and
what keeps their numbers from being compared."""
from __future__ import annotations

import math
import pathlib
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Refused
from .folders import Path, Place, is_run, numbered, read_job
from .studies import Absent, Study, read_folder
from .study_files import FILE

Job = Mapping[str, str]

# Keys that make no difference between runs, or follow from others.
OWN_KEYS = ("run.out", "run.name", "run.overwrite", "run.repeats", "client.schedule-length",
            "sampler.horizon", "bandit.horizon")
SAY_THEMSELVES = ("kind", "update", "optimizer", "protocol")  # keys whose values need no name
LONGEST_NAME = 48
DEPTH = 3  # of folders in which runs are looked for


def places(path: Path) -> list[Place]:
    """A run directory, a folder of repeats (run.repeats), a case of a sweep, or all cases of one;
    of a folder of such folders all that lie in it, links left out. Raises FileNotFoundError where
    there is nothing of these."""
    folder = pathlib.Path(path)
    repeats = [] if (folder / "rounds.csv").is_file() else numbered(folder / "repeats", "")
    if repeats:
        asked = read_job(folder).get("run.repeats", "")
        return [Place(folder, repeats, repeats=int(asked) if asked.isdigit() else 1)]
    if seeds := numbered(folder, "seed-"):
        return [Place(folder, seeds, folder.resolve().name)]
    if is_run(folder):
        return [Place(folder, [folder])]
    if found := _cases_of(folder) or _inside(folder, DEPTH):
        return found
    if lines := absent(folder):
        raise FileNotFoundError(f"{path}: no run has begun: {'; '.join(lines)}")
    raise FileNotFoundError(f"{path} is no run directory, and no folder of repeats or of a "
                            "sweep; hint: run.out names it")


def absent(path: Path) -> list[str]:
    """A line for each case of a study in this folder, or in one that lies in it, that lacks runs."""
    return [line for study in studies_in(path) for line in study.shortfall()]


def absent_cases(path: Path) -> list[Absent]:
    """Of each case of a study there that has no run directory, the first run that it lacks."""
    found = {one.folder.parent: one for study in studies_in(path)
             for one in reversed(study.absent()) if not study.runs(one.case)}
    return list(reversed(found.values()))


def studies_in(path: Path) -> list[Study]:
    """The study of a folder; of a folder of such folders all that lie in it."""
    folder = pathlib.Path(path)
    try:
        study = None if is_run(folder) or numbered(folder, "seed-") else read_folder(folder)
    except Refused:
        return []
    if study is not None or is_run(folder):
        return [study] if study else []
    return [study for inner in _folders_in(folder) if (inner / FILE).is_file()
            for study in studies_in(inner)]


def _folders_in(folder: pathlib.Path) -> list[pathlib.Path]:
    try:
        return sorted(path for path in folder.iterdir()
                      if path.is_dir() and not path.is_symlink() and not path.name.startswith("."))
    except OSError:
        return []


def _inside(folder: pathlib.Path, depth: int) -> list[Place]:
    """What the folders in a folder are, as places() has it."""
    found = []
    for inner in _folders_in(folder) if depth else ():
        if is_run(inner) or numbered(inner, "seed-") or (inner / FILE).is_file():
            try:
                found += places(inner)
            except FileNotFoundError:  # a study that has not begun
                pass
        else:
            found += _cases_of(inner) or _inside(inner, depth - 1)
    return found


def _cases_of(folder: pathlib.Path) -> list[Place]:
    """The cases of a study that have begun, in its order."""
    try:
        study = read_folder(folder)
    except Refused as refused:
        raise FileNotFoundError(str(refused)) from None
    if study is None:
        return []
    repeats = study.table.get("seeds", 1)
    return [Place(case.folder_in(folder), runs, case.name, repeats) for case in study.cases
            if (runs := list(study.runs(case).values()))]


# -- names

def tails(paths: Sequence[Path]) -> list[str]:
    """The end of each path that no other path has; a seed's or a repeat's folder keeps the name of
    what it is a seed of."""
    parts = [pathlib.Path(path).resolve().parts for path in paths]

    def shortest(own: tuple[str, ...]) -> str:
        length = 1
        while length < len(own) - 1 and re.fullmatch(r"(seed-)?\d+|repeats", own[-length]):
            length += 1
        for length in range(length, len(own)):
            if sum(other[-length:] == own[-length:] for other in parts) == 1:
                return "/".join(own[-length:])
        return "/".join(own[-2:])  # the same run, given twice
    return [shortest(own) for own in parts]


def case_name(case: str) -> str:
    """'aggregator.kind=afl,client.lr=0.1' -> 'afl, lr=0.1'."""
    text = re.sub(r"(^|,)(?:[a-z]+\.)?(?=[a-z0-9-]+=)", r"\1", case)
    text = re.sub(rf"(^|,)(?:{'|'.join(SAY_THEMSELVES)}|method)=", r"\1", text)
    return re.sub(r",(?=[a-z])", ", ", text)


def differing_keys(jobs: Sequence[Job]) -> list[str]:
    """Keys whose values differ, kinds first; not those that only some jobs have, for these follow
    from others."""
    found = [key for key in jobs[0] if key not in OWN_KEYS and not key.endswith(".digest")
             and all(key in job for job in jobs) and len({job[key] for job in jobs}) > 1]
    return sorted(found, key=lambda key: not key.endswith(SAY_THEMSELVES))


def job_name(job: Job, keys: Sequence[str]) -> str:
    def word(key: str) -> str:
        short, value = key.rpartition(".")[2], job[key]
        if short == "path":
            value = pathlib.PurePath(value).name
        return value if short in SAY_THEMSELVES else f"{short}={value or 'none'}"
    return ", ".join(word(key) for key in keys)


def names(found: Sequence[Place]) -> list[str]:
    """What tells these apart: the cases of a sweep, else what differs between the jobs, else, where
    that is nothing or too much, the ends of their paths. One alone has the end of its path."""
    ends = tails([place.path for place in found])
    cases = [case_name(place.case) for place in found]
    if all(cases) and len(set(cases)) == len(cases):
        return cases
    jobs = [read_job(place.runs[0]) for place in found]
    called = [job_name(job, differing_keys(jobs)) for job in jobs]
    if not all(called) or max(map(len, called)) > LONGEST_NAME:
        return ends
    return [name if called.count(name) == 1 else f"{name} ({end})"
            for name, end in zip(called, ends)]


# -- numbers of several runs

def mean_and_deviation(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation (None for one) of the numbers among them."""
    known = [value for value in values if value is not None]
    if not known:
        return None, None
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None


def median_of_targets(values: Sequence[float | None]) -> float:
    """The median of the rounds to a target, infinite where runs that have not reached it decide."""
    return statistics.median(math.inf if value is None else value for value in values)


def unlike(columns: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Why these numbers are not to be compared: a line for each reason. `columns` are the summaries
    of the runs in one place; runs that differ by seeds alone may have other data each."""
    def known(runs, key):
        return {run[key] for run in runs if run.get(key) is not None}
    lines = []
    done = [run.get("rounds_done", [run.get("rounds")]) for runs in columns for run in runs]
    rounds = sorted(set().union(*done) - {None})
    if len(rounds) > 1:
        lines.append(f"runs of unlike length: {listed(rounds)} rounds")
    splits = sorted(set().union(*(known(runs, "split") for runs in columns)))
    if len(splits) > 1:
        lines.append(f"evaluated on unlike samples: {listed(splits)}")
    data = [frozenset(known(runs, "data_digest")) for runs in columns]
    if len({one for one in data if one}) > 1:
        lines.append("unlike data: samples, clients or test parts differ (data_digest)")
    known_noise = [runs for runs in columns if any("seed" in run.get("privacy", {}).get("flaw", "")
                                                   for run in runs)]
    if len(known_noise) > 1:
        lines.append("runs of one seed have the same noise, and the difference of their models has "
                     "none: privacy.seed = system gives each its own")
    return lines


def listed(values: Sequence[Any]) -> str:
    """'10 and 20', '10, 20 and 30', or '10 to 90' for many."""
    if len(values) > 3:
        return f"{values[0]} to {values[-1]}"
    return " and ".join(filter(None, [", ".join(map(str, values[:-1])), str(values[-1])]))


def own_data(columns: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Are there means over runs that do not have the same data?"""
    return any(len({run.get("data_digest") for run in runs} - {None}) > 1 for runs in columns)
