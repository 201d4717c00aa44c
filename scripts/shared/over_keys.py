"""A metric over what a study varies: the chart over the values of one key, and the heat map of two.
The numbers are those of the runs that have ended."""
import dataclasses
import math

import matplotlib.pyplot as plt
import numpy as np
from hanse.errors import Refused
from hanse.study_files import Case
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

from . import varied
from .bands import Curve, mean_curve
from .charting import NAMED, draw_band
from .curves import make_logarithmic, words_in
from .figures import COLOURS, DASHES, line_style, shorten, upper_first

SEVERAL = 3          # values of a key from which a chart over it is drawn without being asked for
MOST_WORDS = 40      # values that are words, in a chart that nobody has asked for
LONGEST_TICK = 24    # letters of a value below an axis
SHADES = "cividis"   # its lightness rises evenly: in print, and for the colour-blind
DARK_INK, LIGHT_INK = "#000000", "#FEFEFE"  # on a cell's colour, which dark pages do not change
LEAST_LETTER, LETTER = 4.5, 9  # points of the numbers in cells
ROW_IN = 0.17                  # inches of a row of cells, at least


@dataclasses.dataclass(eq=False)
class Line:
    """The cells that differ by the shown key alone. It has a name, as runs in curves have."""
    values: dict
    cells: list
    case: str = ""

    def call(self, name):
        self.case = name


@dataclasses.dataclass
class KeyChart:
    """What a chart over keys is of. `called`: the metric's label, and the factor of its numbers;
    `said`: lines on what is missing."""
    metric: str
    called: tuple
    keys: tuple
    cells: list
    band: str = "interval"
    said: list = dataclasses.field(default_factory=list)
    words: dict = dataclasses.field(default_factory=dict)  # what keys are called, if not as usual

    def __post_init__(self):
        self.cells = [cell for cell in self.cells if cell.values.keys() >= set(self.keys)]
        self.places = {key: varied.ordered(dict.fromkeys(cell.values[key] for cell in self.cells))
                       for key in self.keys}

    def word(self, key):
        return self.words.get(key) or varied.KEY_WORDS.get(key, key)

    def curve(self, cells, x, factor):
        """The mean of a place, with its band; None where no run has a number."""
        numbers = [number for cell in cells for number in cell.numbers]
        if not numbers:
            return None
        return mean_curve(np.array([x]), factor * np.array(numbers)[:, None], self.band)


class OverKey(KeyChart):
    """A line for each combination of the other keys that vary: means, bands, and the runs' points.
    Values that are no numbers stand beside each other, and no line joins them."""
    log, first = "", 0  # `first`: which of the colours its lines begin with

    def __post_init__(self):
        super().__post_init__()
        (self.key,) = self.keys
        self.numeric = varied.are_numbers(self.places[self.key])
        self.lines = [Line(values, cells, varied.words_for_values(values))
                      for values, cells in varied.combinations(self.cells, self.keys)]

    @property
    def name(self):
        return f"{self.metric}-over-{self.key}"

    def __call__(self, axis, _):
        label, factor = self.called
        axis.curves = []
        for index, line in enumerate(self.lines):
            self.draw(axis, line, index, factor)
        word = self.word(self.key)
        axis.set(title=upper_first(f"{without_unit(label)}, by {without_unit(word)}"),
                 xlabel=word, ylabel=label)
        self.scale(axis)
        return "points: single runs" if any(curve.n > 1 for curve in axis.curves) else None

    def x_of(self, text, index):
        """Where a value stands: at itself, or words beside each other, the lines slightly apart."""
        if self.numeric:
            return float(text)
        apart = min(0.12, 0.6 / len(self.lines))
        return self.places[self.key].index(text) + apart * (index - (len(self.lines) - 1) / 2)

    def draw(self, axis, line, index, factor):
        by_value = {text: [] for text in self.places[self.key]}
        for cell in line.cells:
            by_value[cell.values[self.key]].append(cell)
        points = [(self.x_of(text, index), cells) for text, cells in by_value.items()]
        curves = [self.curve(cells, x, factor) for x, cells in points]
        if not any(curves):
            return
        axis.curves += filter(None, curves)
        x = np.array([x for x, _ in points])
        y, low, high = (np.array([math.nan if curve is None or getattr(curve, end) is None
                                  else getattr(curve, end)[0] for curve in curves])
                        for end in ("y", "low", "high"))
        style = line_style(self.first + index)
        axis.plot(x, y, label=line.case if len(self.lines) > 1 else None,
                  **{**style, "linestyle": style["linestyle"] if self.numeric else "none"},
                  marker="o", markersize=1.4 * plt.rcParams["lines.markersize"])
        if self.numeric:
            draw_band(axis, x, low, high, index=self.first + index)
        alone = np.isfinite(low) & (lonely(low) if self.numeric else True)
        axis.errorbar(x[alone], y[alone], (high - low)[alone] / 2, fmt="none", capsize=2,
                      ecolor=style["color"], elinewidth=1)
        self.draw_runs(axis, points, factor, style["color"])

    def draw_runs(self, axis, points, factor, colour):
        """A point a run, where a place has several."""
        found = [(x, factor * number) for x, cells in points
                 for numbers in [[number for cell in cells for number in cell.numbers]]
                 if len(numbers) > 1 for number in numbers]
        if found:
            axis.scatter(*zip(*found), s=2 * plt.rcParams["lines.markersize"] ** 2, linewidths=0,
                         color=colour, alpha=0.5)

    def scale(self, axis):
        """Logarithmic axes, and values of the key as the study writes them."""
        texts = self.places[self.key]
        if not self.numeric:
            ticks = range(len(texts))
            axis.set_xlim(-0.5, len(texts) - 0.5)
            axis.set_xticks(ticks, [shorten(text, LONGEST_TICK) for text in texts])
            axis.fit = lambda: turn_ticks(axis)
        shown = [Curve(np.array([0.0]), curve.y) for curve in axis.curves]
        if "y" in self.log:
            make_logarithmic(axis, "y", [(curve,) for curve in shown], 1)
        if "x" in self.log:
            axis.set_xscale("log")
        if self.numeric and has_room([float(text) for text in texts], "x" in self.log):
            axis.xaxis.set_major_locator(FixedLocator([float(text) for text in texts]))
            axis.xaxis.set_major_formatter(FixedFormatter(texts))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_minor_formatter(NullFormatter())

    def require_log(self, log):
        """Makes axes logarithmic. Refuses what has no place on such an axis."""
        if "x" in log:
            if not self.numeric:
                words = [text for text in self.places[self.key] if not varied.are_numbers([text])]
                raise Refused(f"--log x: {self.key} has values that are no numbers: "
                              f"{', '.join(words)}; hint: leave --log x out")
            if low := [text for text in self.places[self.key] if float(text) <= 0]:
                raise Refused(f"--log x: {self.key} = {low[0]} has no place on a logarithmic axis; "
                              "hint: leave --log x out")
        if "y" in log:
            for cell in self.cells:
                if low := [number for number in cell.numbers if number <= 0]:
                    raise Refused(f"--log y: {self.metric} = {low[0]:g} of {cell.name} has no place "
                                  "on a logarithmic axis; hint: leave --log y out")
        self.log = log


class HeatMap(KeyChart):
    """The means of a metric by two keys: the first from left to right, the second upwards. Maps of
    one study, which differ by its `others`, have one scale of colours, `ends` (low, high)."""
    others, ends, lines = {}, None, ()

    @property
    def name(self):
        others = "".join(f"-{key}={value}" for key, value in self.others.items())
        return f"{self.metric}-heat-{'-'.join(self.keys)}{Case(others, {}).folder() if others else ''}"

    def __call__(self, axis, _):
        label, factor = self.called
        axis.curves = []
        means = np.full([len(self.places[key]) for key in self.keys[::-1]], math.nan)
        for row, column, cells in self.grid():
            if curve := self.curve(cells, 0, factor):
                means[row, column] = curve.y[0]
                axis.curves.append(dataclasses.replace(curve, band="none"))
        if not axis.curves:
            return None
        low, high = factor * np.array(self.ends)
        mesh = axis.pcolormesh(np.ma.masked_invalid(means), cmap=SHADES, vmin=low, vmax=high,
                               edgecolors="#FFFFFF", linewidth=1)
        axis.figure.colorbar(mesh, ax=axis, label=label)
        self.write_numbers(axis, mesh, means)
        self.label(axis, label)
        return "cells: means" if any(curve.n > 1 for curve in axis.curves) else None

    def grid(self):
        """(row, column, its cells) of every place."""
        across, up = (self.places[key] for key in self.keys)
        for row, above in enumerate(up):
            for column, right in enumerate(across):
                yield row, column, [cell for cell in self.cells
                                    if [cell.values[key] for key in self.keys] == [right, above]]

    def write_numbers(self, axis, mesh, means):
        show = form_of(means)
        texts = []
        for (row, column), value in np.ndenumerate(means):
            known = math.isfinite(value)
            style = {"color": ink_on(mesh.to_rgba(value))} if known else {}
            texts.append(axis.text(column + 0.5, row + 0.5, show(value) if known else "none",
                                   ha="center", va="center", fontsize=LETTER, **style))
        axis.inches = ROW_IN * len(means) + 1.2
        axis.fit = lambda: self.said.extend(fit_cells(axis, texts, means.shape))

    def label(self, axis, label):
        across, up = self.keys
        axis.set_xticks(0.5 + np.arange(len(self.places[across])),
                        [shorten(text, LONGEST_TICK) for text in self.places[across]])
        axis.set_yticks(0.5 + np.arange(len(self.places[up])),
                        [shorten(text, LONGEST_TICK) for text in self.places[up]])
        axis.grid(False)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        if not varied.are_numbers(self.places[up]):
            axis.invert_yaxis()  # words are read from above
        others = varied.words_for_values(self.others)
        axis.set(xlabel=self.word(across), ylabel=self.word(up), title=upper_first(
            f"{without_unit(label)}, by {without_unit(self.word(across))} and "
            f"{without_unit(self.word(up))}{': ' if others else ''}{others}"))


# -- how they look

def without_unit(label):
    return label.partition(" (")[0]


def lonely(values):
    """Which numbers have none beside them: no band can be seen there."""
    there = np.r_[False, np.isfinite(values), False]
    return ~there[:-2] & ~there[2:]


def has_room(values, log, least=0.055):
    """Do ticks at all these values leave room for their texts?"""
    places = np.log(values) if log else np.array(values)
    return len(values) < 2 or np.diff(places).min() >= least * np.ptp(places)


def is_geometric(values):
    """Are these positive numbers, ascending, more evenly spread on a logarithmic axis?"""
    values = np.array(values)
    if values.min() <= 0 or values.max() < 5 * values.min():
        return False
    logs = np.log(values)
    return np.diff(logs).min() / np.ptp(logs) > np.diff(values).min() / np.ptp(values)


def luminance(colour):
    """Relative luminance of an RGB colour, 0 (black) to 1 (WCAG 2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def ink_on(colour):
    """Black or white, whichever is read better: with a contrast of at least 4.5."""
    light = luminance(colour) + 0.05
    return DARK_INK if light / 0.05 > 1.05 / light else LIGHT_INK


def form_of(means):
    """How numbers are written beside each other: three digits where they differ by much, and as
    many as tell the cells apart, up to four decimals."""
    known = means[np.isfinite(means)]
    least = np.ptp(known) / 50 if np.ptp(known) else abs(known[0]) / 100
    decimals = max(0, min(4, -math.floor(math.log10(least)))) if least else 0
    if np.abs(known).max() >= 1e5 or np.abs(known).max() < 1e-3:
        return lambda value: f"{value:.3g}"
    return lambda value: f"{value:.{decimals}f}"


def turn_ticks(axis):
    """Texts below the axis that would run into each other are turned, and the figure grows by their
    height."""
    figure, labels = axis.figure, axis.get_xticklabels()
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in labels]
    gap = 0.3 * plt.rcParams["font.size"] * figure.dpi / 72
    if labels[0].get_rotation() or not any(one.x1 + gap > other.x0
                                           for one, other in zip(boxes, boxes[1:])):
        return
    plt.setp(labels, rotation=40, ha="right", rotation_mode="anchor")
    figure.draw_without_rendering()
    higher = (max(label.get_window_extent().height for label in labels) - boxes[0].height) / figure.dpi
    grown = getattr(figure, "grown_in", 0)  # for another of its axes
    figure.set_figheight(figure.get_figheight() + max(0, higher - grown))
    figure.grown_in = max(higher, grown)


def fit_cells(axis, texts, shape):
    """Numbers as large as their cells let them be. Those that could not be read are left out; returns
    the lines that say so."""
    turn_ticks(axis)
    plt.setp(texts, fontsize=LETTER, visible=True)
    axis.figure.draw_without_rendering()
    box = axis.get_window_extent()
    extents = [text.get_window_extent() for text in texts]
    across = 0.88 * box.width / shape[1] / max(one.width for one in extents)
    up = 0.9 * box.height / shape[0] / max(one.height for one in extents)
    size = min(plt.rcParams["font.size"], LETTER * min(across, up), LETTER)
    for text in texts:
        text.set(fontsize=size, visible=size >= LEAST_LETTER)
    return [] if size >= LEAST_LETTER else [
        f"the numbers of {shape[1]} x {shape[0]} cells have no room in "
        f"{axis.figure.get_figwidth():.2g} inches; hint: --width takes up to 40"]


# -- which charts there are

def asked_for(study, options, metrics):
    """[(name, chart)] of --over or --heat. Raises Refused."""
    keys, option = ([options.over], "--over") if options.over else (options.heat, "--heat")
    if len(set(keys)) < len(keys):
        raise Refused(f"--heat {' '.join(keys)}: two keys are needed")
    varied.require_varied(study, keys, option)
    charts = []
    for metric in metrics or [varied.main_metric(study)]:
        varied.require_metric(study, metric)
        cells = varied.cells_of(study, metric, keys)
        if option == "--heat":
            charts += heat_maps(study, metric, tuple(keys), cells, options.band)
            continue
        chart = over(study, metric, keys[0], cells, options.band)
        if len(chart.lines) > len(COLOURS) * len(DASHES):
            raise Refused(f"--over {keys[0]}: {len(chart.lines)} lines, and "
                          f"{len(COLOURS) * len(DASHES)} can be told apart; hint: --heat KEY KEY")
        chart.require_log(options.log or "")
        charts.append(chart)
    return charts


def over(study, metric, key, cells, band):
    return OverKey(metric, called(study, metric), (key,), cells, band,
                   varied.gaps(study, metric, cells, (key,)))


def called(study, metric):
    return words_in(metric, [summary for case in study.cases
                             for summary in study.summaries(case).values()])


def heat_maps(study, metric, keys, cells, band):
    """A map for each combination of the other keys that vary."""
    said, found = varied.gaps(study, metric, cells, keys), []
    for others, members in varied.combinations(cells, keys):
        chart = HeatMap(metric, called(study, metric), keys, members, band, said)
        chart.others = others
        found.append(chart)
    means = [np.mean(cell.numbers) for cell in cells if cell.numbers]
    for chart in found:
        chart.ends = min(means), max(means)
    return found


def charts_of(runs):
    """Those that nobody has asked for: where these runs are a study of one or two keys, of which
    one has several values."""
    study = varied.study_behind(runs)
    metric = study and varied.main_metric(study)
    if not metric:
        return []
    cells = varied.cells_of(study, metric)
    keys = varied.varied([cell.values for cell in cells])
    several = [key for key, values in keys.items() if len(values) >= SEVERAL]
    if not several or len(keys) > 2:
        return []
    charts = [over(study, metric, key, cells, runs[0].band) for key in several]
    charts = [chart for chart in charts if len(chart.lines) <= NAMED
              and (chart.numeric or len(keys[chart.key]) <= MOST_WORDS)]
    for place, chart in enumerate(charts):
        chart.first = sum(len(other.lines) for other in charts[:place])  # one legend has all of them
        if chart.numeric and is_geometric([float(text) for text in keys[chart.key]]):
            chart.log = "x"
    return charts + (heat_maps(study, metric, tuple(keys), cells, runs[0].band)
                     if len(keys) == 2 else [])


def lines_of(charts):
    """What is missing in these charts, each line once."""
    return list(dict.fromkeys(line for chart in charts for line in getattr(chart, "said", ())))
