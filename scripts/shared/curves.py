"""A metric of runs over rounds, bytes or time: the numbers of each run, means over the runs that
differ by their seeds, and the chart of them. Nothing is interpolated."""
import dataclasses
import difflib
import functools
import re

import numpy as np
from hanse.errors import Refused
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from .bands import mean_curve
from .charting import draw_mean
from .figures import upper_first
from .run_files import common_prefix, has
from .summaries import ROWS, label_of, megabytes, milliseconds, percent, seconds

# What runs are about: the first of these that they have, where their jobs say nothing else.
MAIN = ("common_accuracy", "online_accuracy", "regret", "accuracy_mean", "common_loss",
        "online_loss", "loss_mean")
# What a round is: runs that differ in these have rounds of unlike work.
ROUND_KEYS = ("run.protocol", "sampler.per-round", "async.kind", "async.buffer")
# How axes show what tables print so: the unit behind the label, and the factor.
UNITS = {percent: (" (%)", 100), seconds: (" (s)", 1), milliseconds: (" (ms)", 1e3),
         megabytes: (" (MB)", 1e-6)}
# Of accuracies, not in percent.
NO_SHARES = ("gini", "entropy", "kl", "angle", "left_out")


@dataclasses.dataclass(frozen=True)
class Axis:
    """What a curve can be drawn over: a column of rounds.csv, as it is or summed up, less another
    column where there is one."""
    label: str
    column: str = "round"
    summed: bool = False
    less: str = ""
    units: tuple = ((1, ""),)  # (how much one is, its name), ascending


BYTES = ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
SECONDS = ((1, "s"), (3600, "h"))
AXES = {
    "round": Axis("round"),
    "bytes": Axis("updates sent by clients", "bytes_updates", True, units=BYTES),
    "seconds": Axis("time of the rounds", "seconds", True, units=SECONDS),
    "virtual-seconds": Axis("virtual time", "virtual_seconds", units=SECONDS),
    "client-updates": Axis("updates of clients", "clients", True, "left_out"),
}


def find_metric(run, metric):
    """The table of the run that has the column: bandit.csv, which has every repeat, else
    evaluations.csv or rounds.csv. Raises Refused, with the nearest names."""
    known = {}
    for read in (run.bandit, run.evaluations, run.rounds):
        try:
            table = read()
        except Refused:
            continue
        known.update(dict.fromkeys(table))
        if metric in table and metric != "round" and np.isfinite(table[metric]).any():
            return table
    if not known:
        run.evaluations()  # raises
    words = difflib.get_close_matches(metric, known, 4, 0.5) or list(known)
    raise Refused(f"{run.folder}: no numbers of '{metric}'; it has {', '.join(words)}")


def main_metrics(job):
    """The metrics that a run of this job may be about, the first that it has counts: that of
    evaluate.best, that of run.target, and MAIN."""
    asked = [re.split("[:<>=]", job.get(key, ""))[0].strip()
             for key in ("evaluate.best", "run.target")]
    names = [name for name in asked if name] + list(MAIN)
    if job.get("evaluate.on") == "both":
        names = [one for name in names for one in (f"validation_{name}", name)]
    return names


def main_metric(runs):
    """What these runs are about: the first such metric of theirs that all of them have."""
    def has(run, metric):
        try:
            return find_metric(run, metric) is not None
        except Refused:
            return False
    members = [member for run in runs for member in run.members]
    names = [name for run in runs for name in main_metrics(run.job())]
    return next((metric for metric in names if all(has(run, metric) for run in members)),
                "loss_mean")


def axis_for(runs):
    """What their curves are drawn over where nobody says it: virtual time where all runs have a clock;
    where a round is not one unit, the bytes of clients' updates, if all have them; else rounds."""
    def have(column):
        try:
            return all(has(member.rounds(), column) for run in runs for member in run.members)
        except Refused:
            return False
    if have(AXES["virtual-seconds"].column):
        return "virtual-seconds"
    jobs = [run.job() for run in runs]
    alike = all(len({job.get(key) for job in jobs}) == 1 for key in ROUND_KEYS)
    return "bytes" if not alike and have(AXES["bytes"].column) else "round"


def places_on(run, x, rounds):
    """Where on the axis x these rounds of a run end, [rounds]; 0 before the first one."""
    if x == "round":
        return rounds
    axis, table = AXES[x], run.rounds()
    if axis.column not in table or not np.isfinite(table[axis.column]).any():
        raise Refused(f"{run.folder}/rounds.csv: no numbers of '{axis.column}', which "
                      f"--x {x} needs; hint: --x round")
    values = np.nan_to_num(table[axis.column]) - np.nan_to_num(table.get(axis.less, 0))
    ends = np.r_[0, np.cumsum(values) if axis.summed else values]
    return ends[np.searchsorted(table["round"], rounds, side="right")]


def series_of(run, metric, x="round"):
    """[(x, y)] of one run, finite numbers alone; of bandits one for each repeat."""
    table = find_metric(run, metric)
    repeats = np.unique(table["repeat"]) if "repeat" in table else [None]
    found = []
    for repeat in repeats:
        kept = np.isfinite(table[metric])
        if repeat is not None:
            kept &= table["repeat"] == repeat
        found.append((places_on(run, x, table["round"][kept]), table[metric][kept]))
    return found


def curve_of(run, metric, x="round"):
    """The mean over the runs of `run`, with its band. Over rounds it is of those that all have;
    over bytes and times, which runs reach at places of their own, every run counts with its last
    value at or before x, from where all have one to where the first of them ends."""
    series = [one for member in run.members for one in series_of(member, metric, x)]
    if any(not len(places) for places, _ in series):
        raise Refused(f"{run.folder}: a run has no numbers of '{metric}'")
    places = [places for places, _ in series]
    if x == "round" or all(np.array_equal(places[0], other) for other in places):
        common = functools.reduce(np.intersect1d, places)
        values = [y[np.isin(own, common)] for own, y in series]
        steps = False
    else:
        common = functools.reduce(np.union1d, places)
        common = common[(common >= max(own[0] for own in places))
                        & (common <= min(own[-1] for own in places))]
        values = [y[np.searchsorted(own, common, side="right") - 1] for own, y in series]
        steps = True
    if not len(common):
        raise Refused(f"{run.folder}: the runs have no {AXES[x].label} in common")
    return mean_curve(common, values[:1] if run.copies else values, run.band, steps)


def unit_of(axis, most):
    """How much one is, and the axis' label."""
    size, name = next((unit for unit in reversed(axis.units) if most >= unit[0]), axis.units[0])
    return size, f"{axis.label} ({name})" if name else axis.label


def words_for(metric, runs):
    """What a metric is called, and the factor that its numbers are shown with."""
    common_prefix(runs)  # names the runs by what they are evaluated on, where that differs
    return words_in(metric, [{"split": run.split()} for run in runs])


def words_in(metric, summaries):
    """The same, of a number of these runs' summaries."""
    for label, key, show in ROWS:
        if key in (f"metrics.{metric}", metric):
            unit, factor = UNITS.get(show, ("", 1))
            return label_of(label, key, summaries) + unit, factor
    label = metric.replace("_", " ")
    if "accuracy" in metric and not metric.endswith(NO_SHARES):
        return f"{label} (%)", 100
    return label, 1


def metric_chart(axis, runs, metric, x="round", log=""):
    """A curve for each run, or mean of runs. `log`: the axes that are logarithmic, as "xy"; round 0
    has no place on such an x."""
    found = []
    for index, run in enumerate(runs):
        try:
            curve = curve_of(run, metric, x)
            found.append((index, run, curve.behind(0) if "x" in log else curve))
        except Refused as error:
            run.complaints[str(error)] = None
    label, factor = words_for(metric, runs)
    size, below = unit_of(AXES[x], max((curve.x[-1] for *_, curve in found), default=1))
    counts = {curve.n for *_, curve in found}
    for index, run, curve in found:
        of_how_many = f" (n = {curve.n})" if len(counts) > 1 else ""
        called = run.case + of_how_many if len(runs) > 1 else None
        draw_mean(axis, dataclasses.replace(curve.times(factor), x=curve.x / size), called, index)
    axis.set(title=upper_first(label), xlabel=below, ylabel=label)
    for letter in log:
        make_logarithmic(axis, letter, found, factor)


def make_logarithmic(axis, letter, found, factor):
    """A logarithmic axis, with numbers between the powers of ten where it has few of these."""
    set_scale, side = ((axis.set_xscale, axis.xaxis) if letter == "x"
                       else (axis.set_yscale, axis.yaxis))
    set_scale("log", nonpositive="clip")
    values = np.concatenate([curve.x if letter == "x" else factor * curve.y
                             for *_, curve in found] or [np.ones(1)])
    values = values[values > 0]
    if letter == "y" and len(values):
        axis.set_ylim(bottom=values.min() / 1.3)  # a band may reach below 0
    if len(values) and values.max() < 300 * values.min():
        side.set_major_locator(LogLocator(subs=(1, 2, 5)))
        side.set_major_formatter(ScalarFormatter())
        side.set_minor_formatter(NullFormatter())

