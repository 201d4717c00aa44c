"""The scores of single samples that a run leaves (evaluate.scores), what they are worth, and how sure
that is: curves over thresholds, and intervals for the samples of one hospital."""
from __future__ import annotations

import csv
import dataclasses
import math
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import Refused
from .folders import Path

if TYPE_CHECKING:
    import numpy

FILE = "scores.csv"
BINS = 15          # of the calibration error, as Guo et al. (2017) have it
LEVEL = 0.95
DRAWS = 2000       # of a bootstrap
Interval = tuple[float, float]
NOWHERE: Interval = (math.nan, math.nan)


@dataclasses.dataclass
class Scores:
    """Samples: `client` and `row` say whose they are and where they stand in the source, `fold` what
    for; `label` [n] is a class or a number, [n, k] of several. `score` [n] is the probability of
    class 1 or a prediction, [n, classes] the probability of each class."""
    client: numpy.ndarray
    row: numpy.ndarray
    fold: numpy.ndarray
    label: numpy.ndarray
    score: numpy.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def part(self, keep: numpy.ndarray) -> Scores:
        """Those that a mask or places name."""
        return Scores(self.client[keep], self.row[keep], self.fold[keep], self.label[keep],
                      self.score[keep])

    @property
    def tested(self) -> Scores:
        """The test samples of clients in training, or of nobody; where there are none, the samples
        for validation, and without these those that were trained on."""
        for fold in ("test", "validation", "train"):
            if (self.fold == fold).any():
                return self.part(self.fold == fold)
        return self

    @property
    def is_binary(self) -> bool:
        """Two classes: one score, a probability, of labels 0 and 1?"""
        import numpy
        return self.score.ndim == 1 and bool(numpy.isin(self.label, (0, 1)).all()) and bool(
            ((self.score >= 0) & (self.score <= 1) | numpy.isnan(self.score)).all())

    @property
    def is_of_classes(self) -> bool:
        return self.is_binary or self.score.ndim == 2 and self.label.ndim == 1

    @property
    def probabilities(self) -> numpy.ndarray:
        """[n, classes]."""
        import numpy
        return numpy.stack([1 - self.score, self.score], 1) if self.is_binary else self.score

    @property
    def right(self) -> numpy.ndarray:
        """Is each classified correctly? The first of equal probabilities is taken."""
        return self.probabilities.argmax(axis=1) == self.label


def read_scores(path: Path) -> Scores:
    """The samples of a scores.csv. Raises Refused where there is none."""
    import numpy
    path = pathlib.Path(path)
    try:
        with open(path, newline="") as file:
            head, *lines = list(csv.reader(file)) or [[]]
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; hint: run it with --evaluate.scores=true; a run that "
                      "has ended: hanse resume RUN_DIR --evaluate.scores=true") from None
    if head[:3] != ["client", "row", "fold"]:
        raise Refused(f"{path}: no table of scores")
    labels = [place for place, name in enumerate(head) if name.startswith("label")]
    scores = [place for place, name in enumerate(head) if name.startswith("score")]

    def numbers(places: Sequence[int]) -> numpy.ndarray:
        found = numpy.array([[float(line[place] or "nan") for place in places] for line in lines])
        found = found.reshape(len(lines), len(places))
        return found[:, 0] if len(places) == 1 else found

    return Scores(numpy.array([int(line[0]) for line in lines], dtype=int),
                  numpy.array([int(line[1]) for line in lines], dtype=int),
                  numpy.array([line[2] for line in lines], dtype=str), numbers(labels),
                  numbers(scores))


# -- numbers

def auroc(label: numpy.ndarray, score: numpy.ndarray) -> float:
    """The chance that a sample of class 1 scores above one of class 0, ties counted half; NaN: a class
    is missing, or a score."""
    placed = _placements(label, score)
    return math.nan if placed is None else float(placed[0].mean())


def _placements(label: Any, score: Any) -> tuple[numpy.ndarray, numpy.ndarray] | None:
    """Of each sample of class 1 the share of those of class 0 below it, ties counted half; of each
    of class 0 the share of those of class 1 above. O(n log n)."""
    import numpy
    positive, negative = numpy.sort(score[label == 1]), numpy.sort(score[label == 0])
    if not len(positive) or not len(negative) or numpy.isnan(score).any():
        return None

    def below(values, among):
        return (numpy.searchsorted(among, values, "left")
                + numpy.searchsorted(among, values, "right")) / (2 * len(among))

    return below(positive, negative), 1 - below(negative, positive)


def auroc_interval(label: numpy.ndarray, score: numpy.ndarray, level: float = LEVEL) -> Interval:
    """DeLong, DeLong and Clarke-Pearson (1988): AUC +- z sqrt(S10 / m + S01 / n), S10 and S01 the
    variances of the placements of the m samples of class 1 and the n of class 0, within [0, 1]. NaN:
    fewer than two samples of a class."""
    placed = _placements(label, score)
    if placed is None or min(map(len, placed)) < 2:
        return NOWHERE
    half = _quantile(level) * math.sqrt(sum(one.var(ddof=1) / len(one) for one in placed))
    area = float(placed[0].mean())
    return max(0.0, area - half), min(1.0, area + half)


def _quantile(level: float) -> float:
    return statistics.NormalDist().inv_cdf((1 + level) / 2)


def proportion_interval(successes: float, n: float, level: float = LEVEL) -> Interval:
    """Wilson (1927): the proportions p with |successes/n - p| <= z sqrt(p (1 - p) / n)."""
    if n == 0:
        return NOWHERE
    z, p = _quantile(level), successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap_interval(scores: Scores, number: Callable[[Scores], float], *, by: Any = None,
                       draws: int = DRAWS, seed: int = 1, level: float = LEVEL) -> Interval:
    """The percentiles of number(samples) over so many draws with replacement: of samples, or of the
    groups of those with the same value of `by` [n], all samples of a patient for example. Draws that
    have no such number (one class alone) are left out. Draw i depends on the seed and i alone."""
    import numpy
    if not len(scores):
        return NOWHERE
    groups = [numpy.array([place]) for place in range(len(scores))]
    if by is not None:
        _, which = numpy.unique(numpy.asarray(by), return_inverse=True)
        groups = [numpy.flatnonzero(which == group) for group in range(which.max() + 1)]
    found = []
    for draw in range(draws):
        chosen = numpy.random.default_rng((seed, draw)).integers(len(groups), size=len(groups))
        value = number(scores.part(numpy.concatenate([groups[group] for group in chosen])))
        if math.isfinite(value):
            found.append(value)
    if not found:
        return NOWHERE
    low, high = numpy.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def average_precision(label: numpy.ndarray, score: numpy.ndarray) -> float:
    """sum_t (R_t - R_{t-1}) P_t over the different scores, from the highest on."""
    import numpy
    if not (label == 1).any() or numpy.isnan(score).any():
        return math.nan
    order = numpy.argsort(-score, kind="stable")
    last = numpy.r_[numpy.diff(score[order]) != 0, True]
    right = numpy.cumsum(label[order] == 1)[last]
    taken = numpy.flatnonzero(last) + 1
    return float((numpy.diff(numpy.r_[0, right]) * right / taken).sum() / right[-1])


def brier(scores: Scores) -> float:
    """(p - y)^2 of class 1 of two, else the sum over the classes; the mean over samples."""
    import numpy
    if scores.is_binary:
        return float(((scores.score - scores.label) ** 2).mean())
    p = scores.probabilities
    return float(((p - numpy.eye(p.shape[1])[scores.label.astype(int)]) ** 2).sum(axis=1).mean())


def calibration_error(scores: Scores, bins: int = BINS) -> float:
    """Guo et al. (2017), equation 3, of the largest probability."""
    import numpy
    confidence = scores.probabilities.max(axis=1)
    bin_of = numpy.clip(numpy.ceil(confidence * bins) - 1, 0, bins - 1)
    return float(sum(abs((scores.right[bin_of == b] - confidence[bin_of == b]).sum())
                     for b in range(bins)) / len(scores))


def _of_class_1(number: Callable[[Any, Any], float]) -> Callable[[Scores], float]:
    return lambda scores: number(scores.label, scores.score) if scores.is_binary else math.nan


def _of_classes(number: Callable[[Scores], float]) -> Callable[[Scores], float]:
    return lambda scores: number(scores) if scores.is_of_classes and len(scores) else math.nan


def _of_numbers(number: Callable[[Any], Any]) -> Callable[[Scores], float]:
    return lambda scores: math.nan if scores.is_of_classes or not len(scores) else float(
        number(scores.score - scores.label).mean())


METRICS: Mapping[str, Callable[[Scores], float]] = {
    "auroc": _of_class_1(auroc), "auprc": _of_class_1(average_precision),
    "accuracy": _of_classes(lambda scores: float(scores.right.mean())),
    "brier": _of_classes(brier), "ece": _of_classes(calibration_error),
    "mse": _of_numbers(lambda error: error ** 2), "mae": _of_numbers(abs)}


def interval_of(scores: Scores, metric: str, *, by: Any = None, level: float = LEVEL) -> Interval:
    """DeLong's for auroc, Wilson's for accuracy, else percentiles of a bootstrap, and so for all where
    samples belong together, `by`."""
    if by is None and metric == "auroc" and scores.is_binary:
        return auroc_interval(scores.label, scores.score, level)
    if by is None and metric == "accuracy" and scores.is_of_classes:
        return proportion_interval(float(scores.right.sum()), len(scores), level)
    return bootstrap_interval(scores, METRICS[metric], by=by, level=level)


# -- curves

def roc(label: numpy.ndarray, score: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The false and the true positive rates of all thresholds, from (0, 0) to (1, 1)."""
    import numpy
    order = numpy.argsort(-score, kind="stable")
    last = numpy.r_[numpy.diff(score[order]) != 0, True]
    positive = label[order] == 1
    true, false = numpy.cumsum(positive)[last], numpy.cumsum(~positive)[last]
    return numpy.r_[0, false / false[-1]], numpy.r_[0, true / true[-1]]


def calibration(scores: Scores, bins: int = 10) -> tuple[numpy.ndarray, ...]:
    """Of bins of equal width: the mean probability, the share that has the outcome, and the number
    of samples; NaN of empty bins. The outcome is class 1 of two, else that the largest
    probability is right."""
    import numpy
    p = scores.score if scores.is_binary else scores.probabilities.max(axis=1)
    outcome = scores.label == 1 if scores.is_binary else scores.right
    bin_of = numpy.clip(numpy.ceil(p * bins) - 1, 0, bins - 1).astype(int)
    count = numpy.bincount(bin_of, minlength=bins)
    with numpy.errstate(invalid="ignore"):
        return (numpy.bincount(bin_of, p, bins) / count, numpy.bincount(bin_of, outcome, bins) / count,
                count)


def net_benefit(label: numpy.ndarray, score: numpy.ndarray, thresholds: numpy.ndarray
                ) -> numpy.ndarray:
    """Vickers and Elkin (2006): TP / n - FP / n x t / (1 - t), of those whose probability is at least
    t. Treating all is score = 1, treating none has 0."""
    import numpy
    taken = score[None, :] >= thresholds[:, None]
    true, false = (taken & (label == 1)).mean(axis=1), (taken & (label != 1)).mean(axis=1)
    return numpy.asarray(true - false * thresholds / (1 - thresholds))
