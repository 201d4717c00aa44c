"""Means over runs that differ by their seeds, the bands around them, and the words that say in a
drawing what these are."""
import dataclasses
import importlib

import numpy as np

from hanse import inference
from hanse.several import listed


def half_interval(values):
    """Half of the 95 % interval of the mean of each column: t_{0.975, n-1} s / sqrt(n), of n
    independent runs; values [runs, points], two runs or more."""
    runs = len(values)
    return inference.t_quantile(runs) * np.std(values, axis=0, ddof=1) / np.sqrt(runs)


def around(half):
    """The band that reaches half(values) to both sides of the mean."""
    return lambda values: (np.mean(values, axis=0) - half(values),
                           np.mean(values, axis=0) + half(values))


# Name of a band: what drawings call it, and its ends (low, high) of values [runs, points].
BANDS = {
    "interval": ("95 % interval", around(half_interval)),
    "range": ("min to max", lambda values: (np.min(values, axis=0), np.max(values, axis=0))),
    "deviation": ("one standard deviation", around(lambda v: np.std(v, axis=0, ddof=1))),
    "none": (None, None),
}


def is_there(band):
    """Can such a band be computed here? The interval needs SciPy."""
    return band != "interval" or importlib.util.find_spec("scipy") is not None


@dataclasses.dataclass
class Curve:
    """A mean over n runs and the band around it, all [points]. `low` and `high` are None without a
    band; `steps` where each value holds until the next x."""
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    n: int = 1
    band: str = "none"
    steps: bool = False

    def times(self, factor):
        ends = [None if end is None else factor * end for end in (self.low, self.high)]
        return dataclasses.replace(self, y=factor * self.y, low=ends[0], high=ends[1])

    def behind(self, x):
        """The part of it behind x."""
        kept = [None if part is None else part[self.x > x]
                for part in (self.x, self.y, self.low, self.high)]
        return dataclasses.replace(self, **dict(zip(("x", "y", "low", "high"), kept)))


def mean_curve(x, values, band, steps=False):
    """The mean of values [runs, points] at x [points], with that band; one run has none."""
    values = np.asarray(values, dtype=float)
    if len(values) == 1 or band == "none":
        return Curve(x, values.mean(axis=0), n=len(values), steps=steps)
    return Curve(x, values.mean(axis=0), *BANDS[band][1](values), len(values), band, steps)


def words_on(counts, bands=()):
    """'n = 5, band: 95 % interval': of how many runs the curves are, and what their bands are."""
    said = [f"n = {listed(sorted(set(counts)))}"]
    bands = dict.fromkeys(BANDS[band][0] for band in bands if band != "none")
    return ", ".join(said + [f"band: {' or '.join(bands)}"] * bool(bands))
