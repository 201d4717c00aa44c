"""What can be inferred from a few seeds: intervals of means, paired tests, and Holm's correction.
scipy computes them; it is imported here alone, and when it is needed."""
from __future__ import annotations

import dataclasses
import importlib
import math
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import Refused

LEVEL = 0.95
LEAST_PAIRED = 5    # pairs of a paired t test: below, a p-value would pretend to know the spread
LEAST_WILCOXON = 6  # pairs of Wilcoxon's test: of five no two-sided p-value is below 0.05
ENUMERATED = 14     # pairs up to which all signs of the differences are tried, equal ranks or not
DIGITS = 9          # that a run prints of a number: what is behind them decides nothing
COPIES = 1e-6       # relative to which numbers of copies of one run are equal
NOTHING = 1e-8      # below which what is left of sums is nothing


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean over `n` runs with its 95 % interval, mean +- t_{0.975, n-1} s / sqrt(n); s is the
    deviation of a sample. Without a number the mean is None; of one run alone the others are."""
    n: int
    mean: float | None = None
    deviation: float | None = None
    half: float | None = None

    @property
    def low(self) -> float | None:
        return None if self.half is None or self.mean is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None or self.mean is None else self.mean + self.half


@dataclasses.dataclass(frozen=True)
class Difference:
    """The differences over the seeds that two cases have in common, first - base: their interval,
    and two-sided p-values where there are pairs enough. `p_holm` and `p_wilcoxon_holm` are
    corrected by Holm for the comparisons that were made together."""
    interval: Interval
    p: float | None = None
    p_wilcoxon: float | None = None
    p_holm: float | None = None
    p_wilcoxon_holm: float | None = None


def require_scipy(module: str = "stats") -> Any:
    """scipy's module. Raises Refused, which says what to install."""
    try:
        return importlib.import_module(f"scipy.{module}")
    except ImportError:
        raise Refused("intervals and tests need scipy; hint: apt install python3-scipy, or pip "
                      "install scipy") from None


def t_quantile(n: int) -> float:
    """t_{0.975, n-1}, by which the deviation of the mean of n >= 2 runs becomes half an interval."""
    return float(require_scipy("special").stdtrit(n - 1, (1 + LEVEL) / 2))


def numbers_of(values: Iterable[float | None]) -> list[float]:
    """The finite numbers among them."""
    return [float(value) for value in values
            if isinstance(value, (int, float)) and math.isfinite(value)]


def printed(value: float) -> float:
    """The number as a run prints it, 0.7 of 0.6999999999999998."""
    return float(f"{value:.{DIGITS}g}")


def differences_of(pairs: Sequence[Sequence[float]]) -> list[float]:
    """first - second of each pair, to as many places as the largest number is printed with: equal
    ones are equal, and nothing is 0, whatever the binary fractions have left."""
    largest = max((abs(value) for pair in pairs for value in pair), default=0.0)
    places = DIGITS - 1 - math.floor(math.log10(largest)) if largest else 0
    return [round(first - second, places) + 0.0 for first, second in pairs]


def interval(values: Iterable[float | None], bounds: bool = True) -> Interval:
    """The interval of the mean of the numbers among `values`; without `bounds` the mean and the
    deviation alone. Bounds of two numbers or more need scipy: raises Refused without it."""
    known = numbers_of(values)
    if not known:
        return Interval(0)
    mean = statistics.fmean(known)
    if len(known) == 1:
        return Interval(1, mean)
    deviation = statistics.stdev(known)
    if not bounds:
        return Interval(len(known), mean, deviation)
    half = t_quantile(len(known)) * deviation / math.sqrt(len(known))
    return Interval(len(known), mean, deviation, half)


def difference(first: Mapping[int, float | None], base: Mapping[int, float | None]) -> Difference:
    """How far `first` is from `base`, both {seed: number}, paired by the seeds they have in common.
    They are differences of printed numbers. Nothing is corrected yet, see corrected()."""
    pairs = [numbers_of((first[seed], base[seed])) for seed in first if seed in base]
    known = differences_of([pair for pair in pairs if len(pair) == 2])
    return Difference(interval(known), _paired_t(known), _wilcoxon(known))


def _paired_t(differences: Sequence[float]) -> float | None:
    """None below five pairs, and where all differences are alike: they do not tell how much they
    vary."""
    if len(differences) < LEAST_PAIRED or len(set(differences)) == 1:
        return None
    return float(require_scipy().ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: Sequence[float]) -> float | None:
    """Wilcoxon's signed ranks without the zeros; None below six pairs, and where all are 0. Of few
    pairs all signs are tried, which is exact with equal ranks too; of more scipy chooses."""
    known = [value for value in differences if value]
    if len(differences) < LEAST_WILCOXON or not known:
        return None
    stats = require_scipy()
    if len(known) <= ENUMERATED:
        import numpy
        ranks = numpy.sign(known) * stats.rankdata(numpy.abs(known))
        return float(stats.permutation_test(
            (ranks,), lambda x, axis: x.sum(axis=axis), permutation_type="samples",
            n_resamples=2 ** ENUMERATED, vectorized=True).pvalue)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(stats.wilcoxon(known).pvalue)


def are_copies(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Have these summaries of runs that differ by their seeds the same metrics, up to the order of
    sums? Then the seeds change nothing, and the runs are one observation. Times count for nothing."""
    numbers = [{name: value for name, value in run.get("metrics", {}).items()
                if isinstance(value, (int, float)) and not name.endswith("seconds")} for run in runs]
    return len(numbers) > 1 and bool(numbers[0]) and all(
        own.keys() == numbers[0].keys()
        and all(math.isclose(value, numbers[0][name], rel_tol=COPIES, abs_tol=NOTHING)
                for name, value in own.items()) for own in numbers[1:])


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down p-values, in the order given: the k-th smallest of m is multiplied by
    m - k + 1, is never below the one before, and at most 1. None stays None and is not counted."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        corrected[place] = highest
    return corrected


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """The same comparisons, with p-values that are corrected for being made together."""
    plain, wilcoxon = holm([one.p for one in found]), holm([one.p_wilcoxon for one in found])
    return [dataclasses.replace(one, p_holm=p, p_wilcoxon_holm=w)
            for one, p, w in zip(found, plain, wilcoxon)]
