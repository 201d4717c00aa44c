"""Curves of Kaplan and Meier: steps, bands, marks where samples are censored, and numbers at risk."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MOST_MARKS = 200  # of censored samples in a curve; more are a thick line
LINE = 12         # points from one group's numbers at risk to the next one's


def groups_of(groups: Sequence[Any]) -> list[Any]:
    """The groups that are drawn, in the table's order: `all` only where it is alone."""
    found = list(dict.fromkeys(groups))
    return [group for group in found if group != "all"] or found


def at_risk(times: numpy.ndarray, risk: numpy.ndarray, left: float, at: float) -> str:
    """How many samples have a time of `at` or later. `left`: those behind the last time; they are
    there where small risk sets are hidden, and are not told."""
    place = numpy.searchsorted(times, at)
    if place < len(times):
        return f"{risk[place]:.0f}"
    return "0" if left == 0 else "–"


def draw_kaplan_meier(axis: Axes, frame: pandas.DataFrame,
                      colours: Sequence[str] | None = None) -> None:
    """Draws the groups of kaplan-meier.csv on an axis; their numbers at risk stand below it, under
    the ticks of the time."""
    import matplotlib
    colours = colours or matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    curves = [(group, frame[frame["group"] == group]) for group in groups_of(frame["group"])]
    for place, (group, own) in enumerate(curves):
        draw_curve(axis, own, str(group), colours[place % len(colours)])
    last = max(own["time"].max() for _, own in curves)
    axis.set(xlabel="time", ylabel="survival", xlim=(0, last * 1.02 or 1), ylim=(0, 1.03))
    ticks = [tick for tick in axis.get_xticks() if 0 <= tick <= last]
    axis.set_xticks(ticks)
    write_below(axis, (0, 0), -42, "at risk", {"fontweight": "bold"})
    for place, (group, own) in enumerate(curves):
        below, style = -42 - LINE * (place + 1), {"color": colours[place % len(colours)]}
        if len(curves) > 1:
            write_below(axis, (0, 0), below, f"{group}  ", {**style, "ha": "right"}, aside=-14)
        times, risk = own["time"].to_numpy(), own["at_risk"].to_numpy()
        left = (own["at_risk"] - own["events"] - own["censored"]).to_numpy()[-1]
        for tick in ticks:
            write_below(axis, (tick, 0), below, at_risk(times, risk, left, tick),
                        {**style, "ha": "center"})
    axis.inches = 4.2 + LINE * len(curves) / 72  # of a figure with room for all


def draw_curve(axis: Axes, own: pandas.DataFrame, name: str, colour: str) -> None:
    """A step at each time; the interval as a band."""
    time, survival = own["time"].to_numpy(), own["survival"].to_numpy()
    steps = numpy.r_[0, time]
    axis.step(steps, numpy.r_[1, survival], where="post", color=colour, label=name)
    axis.fill_between(steps, numpy.r_[1, own["low"]], numpy.r_[1, own["high"]], step="post",
                      color=colour, alpha=0.15, linewidth=0)
    censored = own["censored"].to_numpy() > 0
    if censored.sum() <= MOST_MARKS:
        axis.plot(time[censored], survival[censored], linestyle="", marker="|", markersize=6,
                  color=colour)


def write_below(axis: Axes, place: tuple[float, float], points: float, text: str,
                style: dict[str, Any], aside: float = 0) -> None:
    """Text under the axis, so many points below it."""
    axis.annotate(text, place, xycoords=("data", "axes fraction"), xytext=(aside, points),
                  textcoords="offset points", fontsize="small", va="top", annotation_clip=False,
                  **style)


def figure(frame: pandas.DataFrame) -> Any:
    """A figure of its own with the curves."""
    import matplotlib.pyplot as plt
    drawn, axis = plt.subplots(layout="constrained")
    draw_kaplan_meier(axis, frame)
    drawn.set_figheight(axis.inches)
    if len(groups_of(frame["group"])) > 1:
        axis.legend(frameon=False)
    return drawn
