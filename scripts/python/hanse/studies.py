"""The runs of a study: its numbers with what can be inferred from them, as lines and as frames."""
from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import Refused
from .folders import Path, numbered, rows_there, summary_there, why_failed
from .inference import (Difference, Interval, are_copies, corrected, difference, interval,
                        printed)
from .likeness import Evaluated, evaluated, pair_of, unit_of
from .study_files import Case, alike, cases_of, read_study, text_of, values_of_name

if TYPE_CHECKING:
    import pandas

Against = Mapping[str, Any]

# Metrics that are shown, if the runs have them, when nobody chooses.
METRICS = ("accuracy_mean", "accuracy_worst10", "accuracy_best10", "accuracy_std", "auroc",
           "held_out_accuracy_mean", "held_out_auroc",
           "top5", "balanced_accuracy", "f1", "common_accuracy", "online_accuracy", "online_loss",
           "regret_mean", "regret", "syncs", "loss_mean", "target_round")
COSTS = ("rounds", "bytes", "seconds", "virtual_seconds")


@dataclasses.dataclass(frozen=True)
class Absent:
    """A run of a study that has no result. `begun`: has it a run directory? `why`: the error that
    has ended it; nothing where none is known."""
    case: Case
    seed: int
    folder: pathlib.Path
    begun: bool
    why: str


@dataclasses.dataclass
class Study:
    """A folder of runs, a case for each combination of what varies, and seeds.

    `table`: what its study.toml says (study_files.py); {} without one. `cases`: those of the file
    in its order, then what else lies in the folder. `chosen`: the seeds it is of; None: all.
    Summaries are read once: hanse.read_study() reads a study that goes on anew."""
    path: pathlib.Path
    table: dict[str, Any]
    cases: list[Case]
    chosen: Sequence[int] | None = None
    _summaries: dict[str, dict[int, dict]] = dataclasses.field(default_factory=dict, repr=False)
    _evaluated: dict[tuple[str, int], Evaluated] = dataclasses.field(default_factory=dict,
                                                                     repr=False)

    @property
    def title(self) -> str:
        return self.table.get("title") or self.path.resolve().name

    @property
    def keys(self) -> list[str]:
        """What tells the cases apart, in order: keys of options, "method", or "row", a name."""
        return list(dict.fromkeys(key for case in self.cases for key in case.values))

    @property
    def seeds(self) -> list[int]:
        """Those that each case is to have, as the file says; else those that any case has."""
        if self.chosen is not None:
            return list(self.chosen)
        if "seeds" in self.table:
            first = self.table.get("first-seed", 1)
            return list(range(first, first + self.table["seeds"]))
        return sorted({seed for case in self.cases for seed in self.runs(case)})

    def runs(self, case: Case) -> dict[int, pathlib.Path]:
        """{seed: run directory} of the runs of a case that have begun, in order."""
        found = {int(path.name.removeprefix("seed-")): path
                 for path in numbered(case.folder_in(self.path), "seed-")}
        return {seed: path for seed, path in found.items()
                if self.chosen is None or seed in self.chosen}

    def summaries(self, case: Case) -> dict[int, dict[str, Any]]:
        """{seed: summary.json} of the runs of a case that have ended."""
        if case.name not in self._summaries:
            self._summaries[case.name] = {seed: summary for seed, run in self.runs(case).items()
                                          if (summary := summary_there(run)) is not None}
        return self._summaries[case.name]

    def absent(self) -> list[Absent]:
        """The runs without a result: of the seeds that each case is to have, and of others that have
        begun or failed."""
        found = []
        for case in self.cases:
            runs, folder = self.runs(case), case.folder_in(self.path)
            asked = self.seeds if self.chosen is not None or "seeds" in self.table else []
            logs = [int(path.stem.removeprefix("seed-")) for path in _logs_in(folder)]
            for seed in sorted({*asked, *runs, *(logs if self.chosen is None else ())}):
                if seed not in self.summaries(case):
                    run = folder / f"seed-{seed}"
                    found.append(Absent(case, seed, run, seed in runs, why_failed(run)))
        return found

    def shortfall(self, failed_alone: bool = False) -> list[str]:
        """A line for each case that lacks runs: how many have failed, and why, have not ended, or
        have not begun."""
        lines = []
        absent = self.absent()
        for case in self.cases:
            own = [one for one in absent if one.case is case]
            count = len(own) + len(self.summaries(case))
            parts = []
            for why in dict.fromkeys(one.why for one in own if one.why):
                seeds = [str(one.seed) for one in own if one.why == why]
                parts.append(f"{len(seeds)} of {count} runs failed ({_seeds(seeds)}): {why}")
            others = [one for one in own if not one.why]
            for begun, words in ((True, "not ended"), (False, "not begun")):
                if not failed_alone and (some := sum(one.begun is begun for one in others)):
                    parts.append(f"{some} of {count} runs {words}")
            if parts:
                lines.append(f"{case.name or 'base'}: {'; '.join(parts)}")
        return lines

    def values(self, case: Case, metric: str) -> dict[int, float | None]:
        """{seed: number} of the runs that have ended."""
        return {seed: summary.get("metrics", {}).get(metric)
                for seed, summary in self.summaries(case).items()}

    def copies(self, case: Case) -> bool:
        """Do the seeds change nothing? Its runs are one observation then: n is 1."""
        return are_copies(list(self.summaries(case).values()))

    def observations(self, case: Case) -> list[dict[str, Any]]:
        """The summaries of a case's runs; of copies the first."""
        found = list(self.summaries(case).values())
        return found[:1] if self.copies(case) else found

    def observed(self, case: Case, metric: str) -> dict[int, float | None]:
        """As values(); of copies the first."""
        values = self.values(case, metric)
        return dict(list(values.items())[:1]) if self.copies(case) else values

    def compare(self, case: Case, base: Case, metric: str) -> tuple[Difference, str]:
        """How far a case is from its base, seed by seed, over what both evaluate, and a word on
        what they do not; copies of two runs are one pair."""
        own, other = self.values(case, metric), self.values(base, metric)
        pairs = {seed: pair_of(self.evaluated(case, seed), self.evaluated(base, seed), metric,
                               (own[seed], other[seed])) for seed in own if seed in other}
        if self.copies(case) and self.copies(base):
            pairs = dict(list(pairs.items())[:1])
        found = difference({seed: pair.first for seed, pair in pairs.items()},
                           {seed: pair.base for seed, pair in pairs.items()})
        return found, "; ".join(dict.fromkeys(pair.why for pair in pairs.values() if pair.why))

    def evaluated(self, case: Case, seed: int) -> Evaluated:
        """What the numbers of a run that has ended are of."""
        if (case.name, seed) not in self._evaluated:
            self._evaluated[case.name, seed] = evaluated(self.runs(case)[seed],
                                                         self.summaries(case)[seed])
        return self._evaluated[case.name, seed]

    def metrics(self, chosen: Sequence[str] | None = None) -> list[str]:
        """The metrics to show: those chosen, else the usual ones that some run has. Raises Refused
        for one that no run has, once any has ended."""
        known = {name for case in self.cases for summary in self.summaries(case).values()
                 for name in summary.get("metrics", {})}
        missing = [name for name in chosen or () if name not in {*known, "target_round"}]
        if known and missing:
            raise Refused(f"no run has the metric '{missing[0]}'; known: "
                          f"{', '.join(sorted(known))}")
        return list(chosen) if chosen else [name for name in METRICS if name in known]

    def base_of(self, case: Case, against: Against) -> Case:
        """The case that another is compared with: it has these values, and all else as the other.
        Raises Refused for keys and values that the study does not have."""
        wanted = dict(case.values)
        for key, value in against.items():
            known = list(dict.fromkeys(c.values[key] for c in self.cases if key in c.values))
            if not known:
                raise Refused(f"against {key}={value}: '{key}' does not vary; hint: known: "
                              f"{', '.join(self.keys) or 'nothing'}")
            meant = [other for other in known if alike(other, text_of(value))]
            if not meant:
                raise Refused(f"against {key}={value}: no case has it; hint: known: "
                              f"{', '.join(known)}")
            wanted[key] = meant[0]
        for other in self.cases:
            if other.values == wanted:
                return other
        raise Refused(f"no case is {','.join(f'{k}={v}' for k, v in wanted.items())}, to compare "
                      f"{case.name} with")

    def lines(self, metrics: Sequence[str], against: Against | None = None,
              bounds: bool = True) -> list[Line]:
        """A line for every metric and case; with `against` the cases are compared, and p-values are
        corrected for all comparisons of a metric. `bounds`: of the means."""
        found = []
        for metric in metrics:
            lines = [Line(case, metric, interval(self.observed(case, metric).values(), bounds))
                     for case in self.cases]
            if against:
                bases = [self.base_of(case, against) for case in self.cases]
                compared = [(line, base) for line, base in zip(lines, bases)
                            if base is not line.case]
                apart = [self.compare(line.case, base, metric) for line, base in compared]
                for (line, base), one, (_, why) in zip(
                        compared, corrected([one for one, _ in apart]), apart):
                    line.base, line.difference, line.why = base, one, why
            found += lines
        return found

    # -- as frames

    @property
    def frame(self) -> pandas.DataFrame:
        """A line a run: a column a key, seed, rounds, seconds, digests, metrics. Of runs without a
        result the column `failed` has the error that has ended them, else "not ended" or "not
        begun"; it is there where a run lacks its result."""
        lines = {(case.name, seed): {
            **case.values, "seed": seed, **{key: value for key, value in summary.items()
                                            if not isinstance(value, (dict, list)) and key != "seed"},
            **summary.get("metrics", {})}
            for case in self.cases for seed, summary in self.summaries(case).items()}
        for one in self.absent():
            lines[one.case.name, one.seed] = {
                **one.case.values, "seed": one.seed,
                "failed": one.why or ("not ended" if one.begun else "not begun")}
        order = {case.name: place for place, case in enumerate(self.cases)}
        return _frame([lines[key] for key in sorted(lines, key=lambda key: (order[key[0]], key[1]))],
                      self.keys)

    @property
    def curves(self) -> pandas.DataFrame:
        """A line an evaluation, of all runs that have begun: a column a key, seed, round, and what
        the run had cost by then (bytes of updates, seconds of rounds), then its metrics."""
        return _frame([{**case.values, "seed": seed, **line}
                       for case in self.cases for seed, run in self.runs(case).items()
                       for line in evaluations_of(run)], self.keys)

    def means(self, metrics: Sequence[str] | None = None,
              against: Against | None = None) -> pandas.DataFrame:
        """A line a metric and case: a column a key, metric, n, mean, and the ends of its 95 %
        interval, low and high; with `against`, such as {"method": "fedavg"}, the paired difference
        to that case and p-values, see hanse.inference. Raises Refused."""
        return _frame([line.numbers() for line in self.lines(self.metrics(metrics), against)],
                      self.keys)

    def to(self, target: str, against: Against | None = None, by: str = "") -> pandas.DataFrame:
        """Rounds, bytes and seconds to a target, "common_accuracy>=0.97,0.99": a line a level and
        case. Of runs that have ended; see Reached, and `by` of reached(). Raises Refused."""
        return _frame([line.numbers() for line in reached(self, Target.of(target), against, by=by)],
                      self.keys)


def _seeds(numbers: Sequence[str]) -> str:
    few = ", ".join(numbers) if len(numbers) <= 5 else f"{numbers[0]} to {numbers[-1]}"
    return f"seed{'s' * (len(numbers) > 1)} {few}"


@dataclasses.dataclass
class Line:
    """A case's number, and how far it is from another's."""
    case: Case
    metric: str
    interval: Interval
    base: Case | None = None
    difference: Difference | None = None
    why: str = ""  # it is of less than all, or of nothing

    def numbers(self) -> dict[str, Any]:
        """As columns of a table; None where there is no number."""
        own, compared = self.interval, self.difference or Difference(Interval(0))
        apart = compared.interval
        return {**self.case.values, "metric": self.metric, "n": own.n, "mean": own.mean,
                "low": own.low, "high": own.high, "difference": apart.mean, "p": compared.p,
                "deviation": own.deviation, "against": self.base.name if self.base else None,
                "pairs": apart.n if self.base else None, "difference_low": apart.low,
                "difference_high": apart.high, "p_holm": compared.p_holm,
                "p_wilcoxon": compared.p_wilcoxon, "p_wilcoxon_holm": compared.p_wilcoxon_holm}


# -- rounds to a target

@dataclasses.dataclass(frozen=True)
class Target:
    """Levels of a metric that are to be reached from below, or with `below` from above."""
    metric: str
    levels: tuple[float, ...]
    below: bool = False

    @classmethod
    def of(cls, text: str) -> Target:
        """'common_accuracy>=0.97,0.99'. Raises Refused."""
        found = re.fullmatch(r"\s*([\w@.-]+)\s*([<>])=\s*([^<>=]+)", text)
        try:
            assert found
            levels = tuple(float(level) for level in found[3].split(","))
            assert all(map(math.isfinite, levels))
        except (AssertionError, ValueError):
            raise Refused(f"'{text}' is no target; hint: common_accuracy>=0.97,0.99 or "
                          "loss_mean<=0.5") from None
        return cls(found[1], levels, found[2] == "<")

    def name(self, level: float) -> str:
        return f"{self.metric} {'<=' if self.below else '>='} {level:g}"

    def first(self, evaluations: Sequence[Mapping[str, Any]], level: float) -> Mapping | None:
        """The first evaluation that reaches a level."""
        for line in evaluations:
            value = line.get(self.metric)
            if isinstance(value, float) and (value <= level if self.below else value >= level):
                return line
        return None


@dataclasses.dataclass
class Reached:
    """What it costs a case to reach a level: `costs`, {name of COSTS: interval} over the runs that
    reach it; how many (`k`) of the `n` runs that have ended do; and `factor`, how many times as much
    `factor_of` the first case (or the base) takes, where all runs of both reach it: the geometric
    mean over common seeds with its 95 % interval, which is positive. `why`: there is no factor."""
    case: Case
    level: float
    n: int
    k: int
    costs: dict[str, Interval]
    by_seed: dict[int, Mapping[str, Any]] = dataclasses.field(default_factory=dict, repr=False)
    factor: float | None = None
    factor_low: float | None = None
    factor_high: float | None = None
    factor_of: str = ""
    why: str = ""

    def compare(self, base: Reached, cost: str, bounds: bool) -> None:
        """Sets the factor, of this cost, where all runs of both reach the level; with `bounds` its
        interval."""
        self.factor_of = cost
        pairs = [(base.by_seed[seed].get(cost), line.get(cost))
                 for seed, line in self.by_seed.items() if seed in base.by_seed]
        if self.n != self.k or base.n != base.k or not pairs or not all(
                first and own and first > 0 and own > 0 for first, own in pairs):
            return
        logs = interval([math.log(first / own) for first, own in pairs], bounds)
        self.factor, self.factor_low, self.factor_high = (
            None if value is None else printed(math.exp(value))
            for value in (logs.mean, logs.low, logs.high))

    def numbers(self) -> dict[str, Any]:
        return {**self.case.values, "level": self.level, "n": self.n, "reached": self.k,
                "never": self.n - self.k,
                **{f"{name}{end}": getattr(cost, field) for name, cost in self.costs.items()
                   for end, field in (("", "mean"), ("_low", "low"), ("_high", "high"))},
                "factor": self.factor, "factor_low": self.factor_low,
                "factor_high": self.factor_high, "factor_of": self.factor_of or None}


def reached(study: Study, target: Target, against: Against | None = None,
            bounds: bool = True, by: str = "") -> list[Reached]:
    """A line a level and case. `bounds`: of the means. `by`: of COSTS, what factors are of; by
    default virtual seconds where both cases have a clock, else rounds where these are one unit.
    Raises Refused for a metric that no run has evaluated."""
    if by and by not in COSTS:
        raise Refused(f"by {by}: no cost; hint: known: {', '.join(COSTS)}")
    evaluations = {case.name: {seed: evaluations_of(study.runs(case)[seed])
                               for seed in study.summaries(case)} for case in study.cases}
    units = {case.name: sorted({unit_of(study.runs(case)[seed]) for seed in study.summaries(case)})
             for case in study.cases}
    known = dict.fromkeys(name for runs in evaluations.values() for lines in runs.values()
                          for line in lines for name, value in line.items()
                          if isinstance(value, float))
    if known and target.metric not in known:
        raise Refused(f"no run evaluates '{target.metric}'; known: "
                      f"{', '.join(name for name in known if name not in COSTS)}")
    found: list[Reached] = []
    for level in target.levels:
        lines = {case.name: _reached(case, level, {
            seed: target.first(run, level) for seed, run in evaluations[case.name].items()}, bounds)
            for case in study.cases}
        for case in study.cases:
            base = lines[(study.base_of(case, against) if against else study.cases[0]).name]
            own = lines[case.name]
            clock = all("virtual_seconds" in one.costs for one in (own, base))
            kinds = units[case.name], units[base.case.name]
            if by or clock or kinds[0] == kinds[1] and len(kinds[0]) == 1:
                own.compare(base, by or ("virtual_seconds" if clock else "rounds"), bounds)
            elif own.n and base.n:
                own.why = (f"no factor to {base.case.name or 'base'}: its round is "
                           f"{' or '.join(kinds[1])}, here {' or '.join(kinds[0])}; --by bytes "
                           "compares bytes")
        found += lines.values()
    return found


def _reached(case: Case, level: float, runs: Mapping[int, Mapping | None],
             bounds: bool) -> Reached:
    by_seed = {seed: {**line, "rounds": line["round"]} for seed, line in runs.items()
               if line is not None}
    there = list(by_seed.values())
    names = [name for name in COSTS if name in ("rounds", "seconds")
             or any(line.get(name) is not None for line in there)]
    return Reached(case, level, len(runs), len(there), {
        name: interval([line[name] for line in there], bounds) for name in names}, by_seed)


# -- the lines of a run

def evaluations_of(run: Path) -> list[dict[str, Any]]:
    """The lines of evaluations.csv: `round` a whole number, words as they are, all else numbers,
    None where there is none. In front stands what the rounds until then have cost: `bytes` that
    the participants' updates are (else: that ranks have sent), `seconds`, and `virtual_seconds`
    where the run has a virtual clock."""
    folder = pathlib.Path(run)
    costs = _costs_of(folder)
    lines = []
    for line in rows_there(folder / "evaluations.csv"):
        at = int(line["round"])
        numbers = {name: _number(text) for name, text in line.items() if name != "round"}
        lines.append({"round": at, **costs.get(at, {"bytes": None, "seconds": None}), **numbers})
    return lines


def _costs_of(folder: pathlib.Path) -> dict[int, dict[str, float]]:
    """{round: what the run had cost behind it}, of round 0 too. virtual_seconds says so itself, the
    others are of each round."""
    rounds = rows_there(folder / "rounds.csv")
    columns = rounds[0] if rounds else {}
    sums = {"bytes": "bytes_updates" if "bytes_updates" in columns else "bytes_sent",
            "seconds": "seconds"}
    clock = {"virtual_seconds": 0.0} if "virtual_seconds" in columns else {}
    behind = {**dict.fromkeys(sums, 0.0), **clock}
    costs = {0: dict(behind)}
    for line in rounds:
        for name, column in sums.items():
            behind[name] += float(line.get(column) or 0)
        for name in clock:
            behind[name] = float(line.get(name) or behind[name])
        costs[int(line["round"])] = dict(behind)
    return costs


def _number(text: str | None) -> float | str | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return text
    return value if value is None or math.isfinite(value) else None


# -- the folder

def read_folder(path: Path) -> Study | None:
    """The study of that folder, also of one that is still running and of one without a file; None
    for a folder that holds neither a study's file nor runs of cases. Raises Refused for a file that
    cannot be read."""
    folder = pathlib.Path(path)
    table = read_study(folder)
    cases = cases_of(table) if table else []
    known = {case.folder_in(folder).name for case in cases}
    for other in sorted(folder.glob("*/")):
        if other.name not in known and (numbered(other, "seed-") or _logs_in(other)):
            cases.append(Case(other.name, {}, values=values_of_name(other.name)))
    return Study(folder, table, cases) if cases else None


def _logs_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """What runs of a case have said, also those that were refused before they began."""
    return [path for path in folder.glob("seed-*.log")
            if path.stem.removeprefix("seed-").isdigit()]


def _frame(lines: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> pandas.DataFrame:
    """Keys whose values are all numbers become such; where a number is missing there is NaN."""
    import pandas
    frame = pandas.DataFrame(list(lines))
    for name, column in frame.items():
        texts = name not in keys and any(isinstance(value, str) for value in column)
        if not texts and not pandas.api.types.is_numeric_dtype(column):
            try:
                frame[name] = pandas.to_numeric(column)
            except (TypeError, ValueError):
                pass
    return frame
