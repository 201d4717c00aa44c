"""What the charts of runs have in common: which runs have a table, how curves and bands are drawn,
and the figure that charts stand in."""
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from hanse.errors import Refused
from matplotlib.ticker import MaxNLocator

from .bands import words_on
from .figures import COLOURS, legend_below, line_style, marker_of
from .run_files import Runs, alone, has

COUNTED = ("round", "version")  # axes without fractions
NAMED = len(COLOURS)  # clients with a name and a colour in a chart of many
MOST_POINTS = 500     # of a band; the library thins lines itself
SHAPES, SIZES = "osD^v<>ph*", (2, 1, 0.4)  # of points


def tables_of(runs, read, file=None):
    """[(index, run, read(run))] of the runs that can be read. The others' complaints say why; those
    without an optional `file` are left out."""
    found = []
    for index, run in enumerate(runs):
        if file and not run.has(file):
            continue
        try:
            found.append((index, run, read(run)))
        except Refused as error:
            run.complaints[str(error)] = None
    return found


def evaluations_of(runs):
    return tables_of(runs, Runs.evaluations, "evaluations.csv")


def label_of(run, runs, of_one=None):
    """A curve's label: the run's name among several."""
    return of_one if alone(runs) else run.name


def window_note(window):
    return f", mean of {window} rounds" if window > 1 else ""


def scale_for(values):
    """A logarithmic axis where the numbers differ by much."""
    seen = values[np.isfinite(values) & (values > 0)]
    return "log" if seen.size and seen.max() > 50 * seen.min() else "linear"


def start_at_zero(axis):
    if axis.has_data():
        axis.set_ylim(0, 1.06 * axis.dataLim.y1 if axis.dataLim.y1 > 0 else 1)


def draw_line(axis, x, y, label=None, index=0, **style):
    axis.plot(x, y, label=label, **{**line_style(index), **marker_of(x), **style})


def draw_points(axis, run, runs, x, y):
    """A point a client. Those of several runs are outlines, each run's of a size and shape of its
    own: equal points of two are seen as two, and mix to no colour."""
    many, index = len(x) > 500, runs.index(run)
    size, colour = 8 if many else 22, COLOURS[index % len(COLOURS)]
    style = {"color": colour, "linewidths": 0, "alpha": 0.25 if many else 0.6}
    if not alone(runs):
        size *= SIZES[index % len(SIZES)]
        style = {"facecolors": "none", "edgecolors": colour, "linewidths": 0.5 if many else 1,
                 "marker": SHAPES[index % len(SHAPES)]}
    axis.scatter(x, y, s=size, label=label_of(run, runs), rasterized=len(x) > 2000, **style)


def draw_band(axis, x, low, high, label=None, index=0, alpha=0.15, **style):
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(int)) \
        if len(x) > MOST_POINTS else slice(None)
    axis.fill_between(x[kept], low[kept], high[kept], label=label, alpha=alpha, linewidth=0,
                      **{"color": line_style(index)["color"], **style})


def draw_mean(axis, curve, label, index):
    """A mean and its band; the drawing says of how many runs, and what the band is."""
    axis.curves = [*getattr(axis, "curves", []), curve]
    steps = {"drawstyle": "steps-post"} if curve.steps else {}
    draw_line(axis, curve.x, curve.y, label, index, **steps)
    if curve.low is not None and np.any(curve.high > curve.low):
        draw_band(axis, curve.x, curve.low, curve.high, index=index,
                  **({"step": "post"} if curve.steps else {}))


def draw_column(axis, runs, tables, column, factor=1, spread=(None, None, ""), mean=None):
    """A curve for each run; of one run with the band between the columns of `spread`, of a mean of
    runs with the band around it. `mean`: what the curve of one run is called."""
    low, high, label = spread
    for index, run, table in tables:
        if not has(table, column):
            continue
        if alone(runs) and has(table, low) and has(table, high):
            draw_band(axis, table["round"], factor * table[low], factor * table[high], label)
        called = label_of(run, runs, mean)
        if run.several:
            draw_mean(axis, table.curves[column].times(factor), called, index)
        else:
            draw_line(axis, table["round"], factor * table[column], called, index)
    axis.set(xlabel="round")


def words_of(axis, runs, single=False):
    """What n and the bands are in a drawing of several runs' means, or of curves of single ones."""
    curves = getattr(axis, "curves", [])
    several = any(run.several for run in runs) or any(curve.n > 1 for curve in curves)
    if not several and not (single and curves):
        return None
    counts = [curve.n for curve in curves] or [1 if run.copies else len(run.members) for run in runs]
    return words_on(counts, [curve.band for curve in curves])


def draw_cumulative(axis, values, **style):
    """Share of clients (y) with at most x."""
    ordered = np.sort(values[np.isfinite(values)])
    share = 100 * np.arange(1, len(ordered) + 1) / len(ordered)
    axis.step(np.r_[ordered[:1], ordered], np.r_[0, share], where="post", **style)


def draw_nodes(axis, run, runs, index, rounds, values):
    """A line a node; of many nodes mean and range; of several runs the means. values [rounds,
    nodes]."""
    if not alone(runs):
        draw_line(axis, rounds, np.nanmean(values, axis=1), run.name, index)
    elif values.shape[1] <= NAMED:
        for node in range(values.shape[1]):
            draw_line(axis, rounds, values[:, node], run.label(node, "node"), node)
    else:
        draw_band(axis, rounds, values.min(axis=1), values.max(axis=1), "worst to best node")
        draw_line(axis, rounds, values.mean(axis=1), "mean of nodes")


def figure_of(charts, runs, width=5.4, height=4.2, most=4, print_of=None):
    """The charts that have something to show beside each other, at most `most` in a row; None where
    none has. A chart that needs more height says so, axis.inches; one that depends on the size of what
    is laid out has axis.fit(). With `print_of`, a Print, a chart as a figure of a paper."""
    figure, axes, titles = plt.figure(layout="constrained"), [], []
    for chart in charts:
        axis = figure.add_subplot()
        title = chart(axis, runs)
        if not axis.has_data():
            axis.remove()
            continue
        axes.append(axis)
        titles += [title] if title else []
        if axis.get_xlabel() in COUNTED and axis.get_xscale() == "linear":
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_title("" if print_of else textwrap.fill(axis.get_title("left"), int(8 * width)))
    if not axes:
        plt.close(figure)
        return None
    columns = min(len(axes), most)
    rows = -(-len(axes) // columns)
    grid = figure.add_gridspec(rows, columns)
    for place, axis in enumerate(axes):
        axis.set_subplotspec(grid[divmod(place, columns)])
    titles = titles[:1] + words_below(axes, runs, single=print_of is not None)
    if print_of:
        print_of.lay_out(figure)
    else:
        height = max([height, *(getattr(axis, "inches", 0) for axis in axes)])
        figure.set_size_inches(width * columns, height * rows)
        figure.get_layout_engine().set(w_pad=0.14, h_pad=0.08)
    fit(axes)
    plain_in = figure.get_figheight()
    legend_below(figure, axes, title="; ".join(titles) or None, columns=4 if columns < 3 else 6)
    if print_of:
        print_of.make_room(figure, plain_in)
    fit(axes)
    return figure


def fit(axes):
    for axis in axes:
        getattr(axis, "fit", lambda: None)()


def words_below(axes, runs, single):
    """What n and the bands are in charts beside each other, each once."""
    found = dict.fromkeys(filter(None, (words_of(axis, runs, single) for axis in axes)))
    return [words for words in found
            if not any(other.startswith(f"{words},") for other in found)]
