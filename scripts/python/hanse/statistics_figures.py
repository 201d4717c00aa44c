"""A forest plot of groups against all samples, and histograms of groups."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

WIDE = 1.959963984540054  # deviations on each side of a 95 % interval
MOST_COLUMNS = 12         # histograms in a figure


def draw_forest(axis: Axes, groups: pandas.DataFrame, meta: pandas.DataFrame,
                colours: Sequence[str] | None = None) -> None:
    """Draws a block for each coefficient: its groups' own estimates with 95 % intervals, the random
    effect of the meta-analysis, and the estimate of all samples in one fit."""
    import matplotlib
    colours = colours or matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    names = [name for name in meta["name"] if name != "(constant)"]
    place, places, labels = 0.0, [], []
    for name in names:
        lines = [(str(row.group), row.coefficient, row.standard_error, colours[0], "s")
                 for row in groups[groups["name"] == name].itertuples()]
        own = meta[meta["name"] == name].iloc[0]
        lines += [("random effect", own["random"], own["random_error"], colours[1], "D"),
                  ("all samples", own["pooled"], own["pooled_error"], colours[2], "D")]
        axis.text(0, place, f" {name}", transform=axis.get_yaxis_transform(), va="center",
                  fontweight="bold")
        for label, estimate, error, colour, marker in lines:
            place -= 1
            places.append(place)
            labels.append(label)
            axis.errorbar(estimate, place, xerr=WIDE * error, fmt=marker, markersize=4,
                          linewidth=1.2, color=colour)
        place -= 1.4
    axis.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    axis.set_yticks(places, labels)
    axis.tick_params(axis="y", length=0)
    axis.set(xlabel="coefficient, 95 % interval", ylim=(place + 0.6, 0.8))
    axis.inches = 0.6 + 0.19 * -place  # of a figure with room for all


def draw_histogram(axis: Axes, frame: pandas.DataFrame, column: str,
                   colours: Sequence[str] | None = None) -> None:
    """Draws a column of histogram.csv as outlines: the share of each group's samples by bin."""
    import matplotlib
    colours = colours or matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    own = frame[(frame["column"] == column) & numpy.isfinite(frame["low"]) &
                numpy.isfinite(frame["high"])]
    key = frame.columns[0] if frame.columns[0] != "column" else None
    parts = [("", own)] if key is None else [
        (str(group), part) for group, part in own.groupby(key, sort=False) if group != "all"]
    for place, (group, part) in enumerate(parts):
        counts = part["count"].fillna(0).to_numpy()
        ends = numpy.r_[part["low"].to_numpy(), part["high"].to_numpy()[-1]]
        axis.stairs(counts / max(counts.sum(), 1), ends, label=group or None,
                    color=colours[place % len(colours)], linewidth=1.3)
    axis.set(xlabel=column, ylabel="share of samples", ylim=(0, None))


def forest_figure(groups: pandas.DataFrame, meta: pandas.DataFrame) -> Any:
    """A figure of its own with the forest."""
    import matplotlib.pyplot as plt
    drawn, axis = plt.subplots(layout="constrained")
    draw_forest(axis, groups, meta)
    drawn.set_figheight(axis.inches)
    return drawn


def histogram_figure(frame: pandas.DataFrame) -> Any:
    """A figure of its own, with an axis for each of the first twelve columns."""
    import matplotlib.pyplot as plt
    columns = list(dict.fromkeys(frame["column"]))[:MOST_COLUMNS]
    rows = -(-len(columns) // 3)
    drawn, axes = plt.subplots(rows, min(3, len(columns)), squeeze=False, layout="constrained",
                               figsize=(9, 2.4 * rows))
    for axis, column in zip(axes.flat, columns):
        draw_histogram(axis, frame, column)
    for axis in axes.flat[len(columns):]:
        axis.set_visible(False)
    if frame.columns[0] != "column":
        axes.flat[0].legend(frameon=False, fontsize="small")
    return drawn
