"""Successive halving: many cases get little work, the better half of them twice as much, and so on.
The last one is run again on seeds that have chosen nothing, and these runs are the result.

  OUT/search.toml   the search, as a study's file
  OUT/rung-N        a study of the cases that were left, each of some rounds and seeds
  OUT/chosen        a study of the chosen case, of whole runs on fresh seeds
"""
from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Failed, Refused
from .files import write_whole
from .folders import read_job_file
from .inference import numbers_of
from .likeness import is_small_better
from .studies import Study
from .study_files import SEARCH, Case, toml_of
from .sweeps import Sweep, processors

KINDS = ("halving",)
UNSEEN = ("validation_accuracy_mean", "validation_loss_mean")  # of samples that report nothing else


@dataclasses.dataclass(frozen=True)
class Rung:
    """So many cases, each of so many seeds and rounds."""
    cases: int
    seeds: int
    rounds: int

    def text(self) -> str:
        return (f"{self.cases} cases of {self.rounds} rounds"
                + (f" and {self.seeds} seeds" if self.seeds > 1 else ""))


@dataclasses.dataclass
class Found:
    """What a search has come to. `chosen` is None until all rungs have ended, `study` is of its
    fresh runs. `lines` tell of each rung."""
    lines: list[str]
    sweep: Sweep
    study: Study
    chosen: Case | None = None


def rungs_of(cases: int, budget: float, rounds: int) -> list[Rung]:
    """The rungs of a search that costs as much as `budget` whole runs: each rung costs the same. A
    case gets its share of a rung: below one run that much of the rounds, from there on seeds.
    Raises Refused where that is less than a round."""
    sizes = []
    while cases > 1:
        sizes.append(cases)
        cases = (cases + 1) // 2
    found = []
    for size in sizes:
        share = budget / len(sizes) / size  # of a run, for each case
        if share * rounds < 1:
            least = math.ceil(len(sizes) * size / rounds)
            raise Refused(f"--budget {budget:g}: {size} cases would have less than a round each; "
                          f"hint: at least {least}")
        found.append(Rung(size, max(1, int(share)), rounds if share >= 1 else int(share * rounds)))
    return found


def ranked(study: Study, metric: str) -> list[tuple[Case, float]]:
    """The cases with the means of the metric, the best first. Those with a run that has failed,
    diverged, or has no number are left out."""
    found = []
    for case in study.cases:
        values = numbers_of(study.observed(case, metric).values())
        diverged = any("diverged" in run for run in study.summaries(case).values())
        whole = len(study.summaries(case)) == len(study.seeds)
        if values and whole and not diverged:
            found.append((case, sum(values) / len(values)))
    return sorted(found, key=lambda one: one[1] if is_small_better(metric) else -one[1])


def metric_of(study: Study) -> str:
    """What decides: the first metric of the report; else one of validation samples, where there are
    such; else the first that is shown."""
    if chosen := study.table.get("report", {}).get("metrics"):
        return study.metrics(chosen)[0]
    known = {name for case in study.cases for run in study.summaries(case).values()
             for name in run.get("metrics", {})}
    return next((name for name in (*UNSEEN, *study.metrics()) if name in known), "")


def search(sweep: Sweep, study: Study, text: str, jobs: int | None = None,
           runs: bool = True) -> Found:
    """Goes on with the search that `study` is a file of, as prepare() gives both: rungs that have
    ended are read. `runs`: whether it starts any. Stops where the sweep in progress is stopped.
    Raises Refused, and Failed where no case of a rung has a number."""
    table = study.table
    rungs = _checked(sweep, table)
    first = table["first-seed"]
    fresh = range(first + max((rung.seeds for rung in rungs), default=0),
                  first + max((rung.seeds for rung in rungs), default=0) + table["seeds"])
    at_once = jobs or max(1, processors() // table["ranks"])
    if runs:
        sweep.check([task for task in sweep.tasks if task.seed == first])
        sweep.out.mkdir(parents=True, exist_ok=True)
        write_whole(sweep.out / SEARCH, text)
    cases, lines = list(sweep.cases), []
    for number, rung in enumerate(rungs, 1):
        part, own = _part(sweep, table, f"rung-{number}", cases,
                          range(first, first + rung.seeds), {"run.rounds": str(rung.rounds)})
        ended = _run(part, own, at_once) if runs else not own.absent()
        if not ended and (not runs or part.stopping):
            return Found([*lines, f"rung {number}: not ended"], part, own)
        own = dataclasses.replace(own, _summaries={}, _evaluated={})
        metric = metric_of(own)
        best = ranked(own, metric)
        if not best:
            of = f" of '{metric}'" if metric else ""
            raise Failed(f"rung {number}: no case has a number{of}"
                         + "".join(f"; {line}" for line in own.shortfall()[:1]))
        lines += [f"rung {number}: {rung.text()}; the best by {metric} is "
                  f"{best[0][0].name or 'base'}, {best[0][1]:.4g}", *own.shortfall()]
        cases = [case for case, _ in best[:(rung.cases + 1) // 2]]
    part, own = _part(sweep, table, "chosen", cases[:1], fresh, {})
    if runs:
        _run(part, own, at_once)
    own = dataclasses.replace(own, _summaries={}, _evaluated={})
    seeds = f"{fresh[0]} to {fresh[-1]}" if len(fresh) > 1 else f"{fresh[0]}"
    lines.append(f"chosen: {cases[0].name or 'base'}; the table is of whole runs on fresh seeds, {seeds}, "
                 "which have chosen nothing")
    return Found(lines, part, own, cases[0])


def _checked(sweep: Sweep, table: Mapping[str, Any]) -> list[Rung]:
    if table["search"] not in KINDS:
        raise Refused(f"--search {table['search']}: unknown; hint: known: {', '.join(KINDS)}")
    if not table.get("budget", 0) > 0:
        raise Refused("--search needs --budget N; hint: as many whole runs as it may cost")
    if "run.rounds" in study_keys(table):
        raise Refused("run.rounds varies: a search chooses rounds itself; hint: leave it out of --set")
    text = sweep.common.get("run.rounds") or read_job_file(sweep.job).get("run.rounds", "")
    if not text.isdigit():
        raise Refused("a search must know run.rounds; hint: --run.rounds=100")
    return rungs_of(len(sweep.cases), table["budget"], int(text))


def study_keys(table: Mapping[str, Any]) -> set[str]:
    return {*table.get("vary", {}), *(key for row in table.get("rows", []) for key in row["set"])}


def _part(sweep: Sweep, table: Mapping[str, Any], name: str, cases: Sequence[Case],
          seeds: range, options: Mapping[str, str]) -> tuple[Sweep, Study]:
    """A study of some cases, in a folder of its own."""
    common = {**sweep.common, **options}
    out = pathlib.Path(sweep.out) / name
    own = {key: value for key, value in table.items()
           if key not in ("search", "budget", "random", "random-seed", "vary", "like")}
    own.update({"set": common, "cases": [case.values for case in cases], "seeds": len(seeds),
                "first-seed": seeds[0]})
    part = Sweep(out, sweep.job, cases, seeds, common, sweep.launch)
    part.say, part.environment = sweep.say, sweep.environment
    part.drawn = {"search": {"kind": table["search"], "budget": table["budget"],
                             "cases": len(sweep.cases), **sweep.drawn}}
    return part, Study(out, own, list(cases), seeds)


def _run(part: Sweep, study: Study, at_once: int) -> bool:
    part.claim()
    part.write_study(toml_of(study.table))
    return part.run(part.tasks, at_once)
