"""Charts of runs with a virtual clock: what is reached when, who is slow, how stale updates are,
and who trained when."""
from typing import NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from .charting import draw_band, draw_column, draw_points, label_of, tables_of
from .charts_of_rules import PARTICIPATION, times_counted
from .curves import main_metric, metric_chart
from .figures import COLOURS, GREY, LIGHT_GREY
from .run_files import Runs, alone, has
from .summaries import read_summary

ARRIVALS = 40  # in lanes
CLASS = "staleness_"  # of summary.json: the least staleness of a class of updates stands behind it


def clocks_of(runs):
    """[(index, run, rounds.csv)] of the runs with a virtual clock."""
    return [found for found in tables_of(runs, Runs.rounds, "rounds.csv")
            if has(found[2], "virtual_seconds")]


# -- what is reached, who takes part

def reached_over_virtual_time(axis, runs):
    """Where all runs have a clock: others have no place on such an axis."""
    if len(clocks_of(runs)) == len(runs):
        metric_chart(axis, runs, main_metric(runs), "virtual-seconds")
        axis.set(title=f"{axis.get_title('left') or axis.get_title()} over virtual time")


def durations_of(run):
    """{client: seconds of its work}, the mean of its rounds, whether it counted in them or not."""
    table = run._table(PARTICIPATION, "client", "seconds")
    known = np.isfinite(table["seconds"])
    clients, places = np.unique(table["client"][known], return_inverse=True)
    seconds = np.bincount(places, table["seconds"][known]) / np.bincount(places)
    return dict(zip(clients, seconds))


def participations(axis, runs):
    """How often each client counted over how long it takes; of runs that are each one."""
    clocks = [run for _, run, _ in clocks_of(runs) if not run.several]
    for _, run, (durations, counts) in tables_of(
            clocks, lambda run: (durations_of(run), times_counted(run)), PARTICIPATION):
        draw_points(axis, run, runs, list(durations.values()),
                    [counts.get(client, 0) for client in durations])
    axis.set(title="Participation of each client by its duration",
             xlabel="virtual time of the client's work (s)",
             ylabel="rounds in which its update counted")
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    if axis.has_data():
        axis.set_ylim(bottom=-0.03 * axis.get_ylim()[1])


# -- staleness

def classes_of_staleness(run):
    """[(least staleness of the class, updates)] of a run that has ended, without the empty classes
    behind the last one; none of a synchronous run."""
    metrics = read_summary(run.folder).get("metrics", {})
    found = sorted((int(key[len(CLASS):]), count) for key, count in metrics.items()
                   if key.startswith(CLASS) and key[len(CLASS):].isdigit())
    while found and not found[-1][1]:
        found.pop()
    return found


def staleness_histogram(axis, runs):
    """The share of the updates in each class of staleness, 0, 1, 2 to 3, 4 to 7, ..."""
    ended = [run for run in runs if not run.several and run.has("summary.json")]
    found = [(run, classes) for _, run, classes in tables_of(ended, classes_of_staleness)
             if classes]
    if not found:
        return
    names = {least: str(least) if least < 2 else f"{least} to {2 * least - 1}"
             for _, classes in found for least, _ in classes}
    places = {least: place for place, least in enumerate(sorted(names))}
    width = 0.8 / len(found)
    for number, (run, classes) in enumerate(found):
        least, counts = zip(*classes)
        axis.bar([places[one] + (number - (len(found) - 1) / 2) * width for one in least],
                 100 * np.array(counts) / sum(counts), width,
                 color=COLOURS[runs.index(run) % len(COLOURS)], label=label_of(run, runs))
    slant = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if len(places) > 4 else {}
    axis.set_xticks(list(places.values()), [names[least] for least in places], **slant)
    axis.grid(False, axis="x")
    axis.set(title="Staleness of the updates", ylabel="updates (%)",
             xlabel="versions since the client received its model")


def staleness_over_rounds(axis, runs):
    tables = [found for found in clocks_of(runs) if has(found[2], "staleness_mean")]
    for _, _, table in tables if alone(runs) else []:
        draw_band(axis, table["round"], 0 * table["round"], table["staleness_max"],
                  "up to the largest")
    draw_column(axis, runs, tables, "staleness_mean", mean="mean of the version")
    axis.set(title="Staleness of each version's updates", xlabel="version", ylabel="staleness")


# -- lanes

class Task(NamedTuple):
    """The work of a client: from which version, when, and the round that its end belongs to."""
    client: int
    received: int
    round: int
    start: float
    end: float  # its arrival; of one that does not count the end of its round, where that is sooner
    counts: bool


def first_arrivals(run):
    """The first tasks by their ends, and the time of each version, [versions]. None of a run whose
    file does not say when tasks start."""
    times = np.r_[0, run.rounds()["virtual_seconds"]]
    table = run._table(PARTICIPATION, "round", "client", "received", "counted")
    if not (has(table, "start") and has(table, "arrival")):
        return [], times
    tasks = {}
    for counts in (True, False):  # one that is carried to a later round has a line in both
        lines = (table["counted"] == counts) & (table["round"] < len(times))
        for client, received, number, start, end in zip(
                *(table[name][lines] for name in ("client", "received", "round", "start", "arrival"))):
            end = end if counts else min(end, times[int(number)])
            task = Task(int(client), int(received), int(number), start, end, counts)
            tasks.setdefault((task.client, task.start), task)
    return sorted(tasks.values(), key=lambda task: task.end)[:ARRIVALS], times


def lanes(axis, runs):
    """A lane for each client of the first arrivals: when it trained, from which version, and where
    its update was folded, if it was."""
    clocks = [run for _, run, _ in clocks_of(runs)] if alone(runs) else []
    for _, run, (tasks, times) in tables_of(clocks, first_arrivals, PARTICIPATION):
        if not tasks:
            continue
        clients = list(dict.fromkeys(task.client for task in
                                     sorted(tasks, key=lambda task: (task.start, task.end))))
        versions = sorted({task.received for task in tasks})
        for version in range(max(task.round for task in tasks) + 1):
            axis.axvline(times[version], color=LIGHT_GREY, linewidth=0.8, zorder=0)
        named = set()
        for task in tasks:
            lane, folded = clients.index(task.client), times[task.round]
            color = COLOURS[versions.index(task.received) % len(COLOURS)]
            label = f"trained from version {task.received}"
            axis.barh(lane, task.end - task.start, left=task.start, height=0.62, color=color,
                      alpha=1 if task.counts else 0.4,
                      label=None if task.received in named or len(versions) > len(COLOURS)
                      else label)
            named.add(task.received)
            if task.counts:
                axis.plot([task.end, folded], [lane, lane], color=color, linewidth=1)
            axis.plot(folded if task.counts else task.end, lane, color=color, markersize=4,
                      marker="D" if task.counts else "X", linestyle="none")
        for marker, label in (("D", "folded into the next version"),
                              ("X", "late, lost or too old: it does not count"))[
                                  :1 if all(task.counts for task in tasks) else 2]:
            axis.add_line(Line2D([], [], color=GREY, marker=marker, markersize=4, linestyle="none",
                                 label=label))
        axis.set_yticks(range(len(clients)), [run.label(client, "").strip() for client in clients],
                        fontsize=7)
        axis.invert_yaxis()
        axis.margins(y=0.01)
        axis.grid(False)
        axis.inches = 1.5 + 0.14 * len(clients)
        axis.set(title=f"The first {len(tasks)} arrivals: who trained when", ylabel="client",
                 xlabel="virtual time (s), with a line where a version was made")


CHARTS = [reached_over_virtual_time, participations, staleness_histogram, staleness_over_rounds]
