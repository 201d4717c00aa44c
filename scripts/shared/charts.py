"""The pictures of runs, each described once: scripts/plot writes a picture as a file, with its
charts beside each other; scripts/report shows every chart by itself.

A chart is a function of an axis and the runs, [Runs]. It draws one run in detail and several beside
each other, and nothing where no run has what it shows; it returns the legend's title, or None."""
import dataclasses
import functools
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from . import charts_of_rules as rules
from . import charts_of_statistics, charts_of_time, over_keys
from .charting import (NAMED, draw_band, draw_column, draw_cumulative, draw_line, draw_mean,
                       draw_nodes, draw_points, evaluations_of, label_of, start_at_zero, tables_of,
                       window_note)
from .figures import COLOURS, GREY, PHASE_COLOURS, STYLE, line_style, shorten, upper_first
from .run_files import (SPREADS, Runs, alone, client_values, common_prefix, has, median_phases,
                        over_repeats, phases, shown_phases, smooth, smooth_nodes, time_unit,
                        window_of)
from .summaries import SAMPLES, prefix_of

NAMED_CLASSES = 30
NUMBERED_CLASSES = 12  # as many cells have room for numbers
plt.rcParams.update(STYLE)


# -- learning

def accuracy(axis, runs):
    draw_column(axis, runs, tables_of(runs, Runs.evaluations), "accuracy_mean", 100,
                ("accuracy_worst10", "accuracy_best10", "accuracy, worst to best 10 %"),
                "accuracy, mean")
    if alone(runs) and axis.lines:
        x, y = axis.lines[0].get_xdata(), axis.lines[0].get_ydata()
        last = np.flatnonzero(np.isfinite(y))[-1]
        axis.annotate(f"{y[last]:.1f} %", (x[last], y[last]), xytext=(7, 0), va="center",
                      textcoords="offset points", color=COLOURS[0], fontweight="bold")
    what = "accuracy over clients" if alone(runs) else "accuracy, mean of clients"
    axis.set(title=upper_first(common_prefix(runs) + what), ylabel="accuracy (%)")


def worst_accuracy(axis, runs):
    if not alone(runs):
        draw_column(axis, runs, evaluations_of(runs), "accuracy_worst10", 100)
    axis.set(title=upper_first(f"{common_prefix(runs)}accuracy, worst 10 % of clients"),
             ylabel="accuracy (%)")


def loss(axis, runs):
    prefix = common_prefix(runs)
    tables = tables_of(runs, Runs.evaluations)
    axis.set(title="Loss over clients", ylabel="loss")
    draw_column(axis, runs, tables, "loss_mean", mean=f"{prefix}loss, mean")
    if not alone(runs):
        axis.set_title(upper_first(f"{prefix}loss, mean of clients"))
        return
    for _, run, table in tables:
        for index, column, what in [(2, "validation_loss_mean", "validation"),
                                    (1, "train_loss_mean", "training")]:
            if has(table, column) and (column, run.split()) != ("train_loss_mean", "train"):
                draw_line(axis, table["round"], table[column], f"{what} loss, mean", index)


def asked_metric(axis, runs, column):
    draw_column(axis, runs, evaluations_of(runs), column,
                spread=(f"{column}_worst", f"{column}_best", "worst to best client"),
                mean="mean of clients")
    axis.set(title=SPREADS[column])


def common_accuracy(axis, runs):
    draw_column(axis, runs, evaluations_of(runs), "common_accuracy", 100)
    axis.set(title="Accuracy, common test set", ylabel="accuracy (%)")


def attack_success(axis, runs):
    draw_column(axis, runs, evaluations_of(runs), "attack_success", 100)
    axis.set(title="Samples that are taken for what attackers want", ylabel="%")
    start_at_zero(axis)


def classes(axis, runs):
    """A line a class; of many classes those with the lowest accuracies."""
    if alone(runs):
        for _, _, found in tables_of(runs, Runs.classes, "classes.csv"):
            for index, (name, rounds, values) in enumerate(found[:NAMED]):
                draw_line(axis, rounds, 100 * values, name, index)
    axis.set(title="Accuracy of each class", xlabel="round", ylabel="accuracy (%)")


def quality_of_bytes(axis, runs):
    """Where updates are compressed: what is reached with what all clients have sent."""
    if not any(run.compresses() for run in runs):
        return
    sent_by_all = [0]
    for index, run, (sent, values, label) in tables_of(runs, Runs.quality_of_bytes):
        draw_line(axis, sent, values, label_of(run, runs), index)
        what = upper_first(f"{common_prefix(runs)}{label.split(' (')[0]}")
        axis.set(title=f"{what}, mean of clients, by what they have sent", ylabel=label,
                 xlabel="updates sent by all clients (MB)")
        sent_by_all.append(sent.max())
    if len(runs) > 1:
        axis.set_xscale("symlog", linthresh=max(max(sent_by_all), 1e-9) / 1e3)


def confusion(axis, runs):
    """Of each label the shares of its samples that are taken for each class."""
    axis.set(title="What samples are taken for", xlabel="taken for", ylabel="label")
    for _, _, (counts, names) in tables_of(runs, Runs.confusion, "confusion.csv") \
            if alone(runs) else []:
        shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        clear = (*plt.matplotlib.colors.to_rgb(COLOURS[0]), 0)
        shades = LinearSegmentedColormap.from_list("shades", [clear, COLOURS[0]])
        image = axis.imshow(shares, cmap=shades, vmin=0, vmax=100)
        axis.figure.colorbar(image, ax=axis, label="samples of the label (%)")
        axis.grid(False)
        if len(names) <= NUMBERED_CLASSES:
            for (row, column), share in np.ndenumerate(shares):
                if share >= 0.5:
                    axis.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8,
                              **({"color": "#FEFEFE"} if share > 60 else {}))
        if len(names) <= NAMED_CLASSES:
            axis.set_xticks(range(len(names)), names, rotation=90)
            axis.set_yticks(range(len(names)), names)


# -- clients

def clients(axis, runs):
    """Share of clients (y) with at most x; of one run those held out, too."""
    for index, run, (values, label) in tables_of(runs, lambda run: client_values(run.clients())):
        held_out = alone(runs) and run.held_out()
        draw_cumulative(axis, values, label=label_of(run, runs, "clients" if held_out else None),
                        **line_style(index))
        if alone(runs):
            mean = np.nanmean(values)
            axis.axvline(mean, color=COLOURS[1], linewidth=1.4, linestyle="--",
                         label=f"mean of clients: {mean:.4g}{' %' if '%' in label else ''}")
        if held_out:
            draw_cumulative(axis, client_values(held_out)[0], color=COLOURS[2],
                            label="held-out clients")
        label = common_prefix(runs) + label
        axis.set(title=f"Clients with at most this {label.split(' (')[0]}", xlabel=label,
                 ylabel="clients (%)", ylim=(0, 102))


def sizes(axis, runs):
    """Each client's value against its samples."""
    for _, run, table in tables_of(runs, Runs.clients) if alone(runs) else []:
        if not has(table, "samples"):
            continue
        values, label = client_values(table)
        draw_points(axis, run, runs, table["samples"], values)
        if np.nanmax(table["samples"]) > 20 * max(1, np.nanmin(table["samples"])):
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(ScalarFormatter())
            axis.xaxis.set_minor_locator(NullLocator())
        label = prefix_of(run.split()) + label
        axis.set(title=f"{upper_first(label.split(' (')[0])} and size of each client",
                 xlabel=SAMPLES.get(run.split(), "samples"), ylabel=label)


def deviation_of_clients(axis, runs):
    if not alone(runs):
        draw_column(axis, runs, evaluations_of(runs), "accuracy_std", 100)
    axis.set(title="Deviation of accuracy over clients", ylabel="accuracy (%)")


def gains(axis, runs):
    """Who gained and who lost between the first and the last evaluation."""
    for _, _, (found, values, what) in tables_of(runs, Runs.gains, "history.h5") \
            if alone(runs) else []:
        ordered, place = np.sort(values), np.arange(len(found))
        draw_band(axis, place, 0 * ordered, np.maximum(ordered, 0), alpha=1, step="mid")
        draw_band(axis, place, np.minimum(ordered, 0), 0 * ordered, index=1, alpha=1, step="mid")
        gained, lost = (values > 0).sum(), (values < 0).sum()
        axis.set(title=f"Gain of each client: {gained} gained, {lost} lost",
                 xlabel="clients, by their gain", ylabel=f"gain in {what}")


def quantiles(axis, runs):
    """The clients' quantiles over the rounds."""
    for _, _, (rounds, columns) in tables_of(runs, Runs.history, "history.h5") \
            if alone(runs) else []:
        what = "accuracy (%)" if "accuracy" in columns else "loss"
        values = 100 * columns["accuracy"] if "accuracy" in columns else columns["loss"]
        seen = np.isfinite(values).any(axis=1)
        shares = [0, 0.1, 0.5, 0.9, 1]
        low, tenth, median, ninth, high = np.nanquantile(values[seen], shares, axis=1)
        draw_band(axis, rounds[seen], low, high, "all clients", alpha=0.12)
        draw_band(axis, rounds[seen], tenth, ninth, "10 % to 90 %", alpha=0.25)
        draw_line(axis, rounds[seen], median, "median client")
        axis.set(title=f"Clients' {what.split(' (')[0]} over time", xlabel="round", ylabel=what)


# -- the data

def labels(axis, runs):
    """Who has how much of each label."""
    axis.set(title="Samples of each label and client", xlabel="client", ylabel="label")
    for _, run, counts in tables_of(runs, Runs.partition, "partition.csv") if alone(runs) else []:
        image = axis.imshow(np.ma.masked_equal(counts, 0), aspect="auto", origin="lower",
                            cmap="viridis_r", interpolation="nearest")
        axis.figure.colorbar(image, ax=axis, label="samples")
        whole_clients(axis, run, counts.shape[1])
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        names = run.class_names()
        if names and len(counts) <= NAMED_CLASSES:
            axis.set_yticks(range(len(counts)), [names.get(i, str(i)) for i in range(len(counts))])
        axis.grid(False)


def samples(axis, runs):
    axis.set(title="Samples of each client", xlabel="client", ylabel="samples")
    for _, run, counts in tables_of(runs, Runs.partition, "partition.csv") if alone(runs) else []:
        place = np.r_[-0.5, np.repeat(np.arange(1, counts.shape[1]) - 0.5, 2),
                      counts.shape[1] - 0.5]
        axis.fill_between(place, np.repeat(counts.sum(axis=0), 2), color=COLOURS[0], linewidth=0)
        axis.margins(x=0)
        whole_clients(axis, run, counts.shape[1])
        start_at_zero(axis)


def whole_clients(axis, run, count):
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    if count <= NAMED:
        axis.set_xticks(range(count), [run.label(c, "").strip() for c in range(count)])


# -- online runs and bandits

def nodes(axis, runs, column):
    """A column of online.csv."""
    for index, run, (table, rounds) in tables_of(runs, Runs.online, "online.csv"):
        window, values = 1, table[column]
        if column == "accuracy":
            window = window_of({"round": rounds})
            values = 100 * smooth_nodes(values, window)
        if not np.isfinite(values).any():
            continue
        draw_nodes(axis, run, runs, index, rounds, values)
        title, label = {
            "accuracy": (f"Accuracy on {common_prefix(runs)}batches{window_note(window)}",
                         "accuracy (%)"),
            "cumulative_loss": ("Loss of each node's model, summed", "sum of losses"),
            "regret": ("Regret against the best single node", "sum of losses in [0, 1]")}[column]
        mean = "" if alone(runs) else ", mean of nodes"
        axis.set(title=title + mean, xlabel="round", ylabel=label)
        if column == "regret" and alone(runs):
            draw_bound(axis, runs, np.nanmax(values))
    if column == "cumulative_loss":
        start_at_zero(axis)


def draw_bound(axis, runs, most):
    """The bound on the regret, where the regret would still be seen beside it."""
    for _, _, table in evaluations_of(runs):
        if has(table, "regret_bound") and most > 0.05 * np.nanmax(table["regret_bound"]):
            axis.plot(table["round"], table["regret_bound"], color=GREY, linestyle=":",
                      label="bound on the regret")


def bandit(axis, runs, column):
    """Means over the repeats, with bands."""
    for index, run, table in tables_of(runs, Runs.bandit, "bandit.csv"):
        draw_mean(axis, over_repeats(table, column, run.band), label_of(run, runs), index)
    title, label = {"regret": ("Regret since the first phase", "cumulative regret"),
                    "scalars_sent": ("Communication since the first phase", "scalars sent")}[column]
    axis.set(title=title, xlabel="round", ylabel=label)
    start_at_zero(axis)


# -- time

def time(axis, runs):
    if len(runs) > 1:
        return median_rounds(axis, runs)
    for _, _, table in tables_of(runs, Runs.rounds):
        window, parts = window_of(table), phases(table)
        medians = median_phases(table["seconds"], parts)
        factor, unit = time_unit(medians.sum())
        below = np.zeros(len(table["round"]))
        for place, name, phase in shown_phases([smooth(phase, window) for phase in parts]):
            draw_band(axis, table["round"], factor * below, factor * (below + phase), alpha=1,
                      label=f"{name}: {factor * medians[place]:.3g} {unit}",
                      color=PHASE_COLOURS[place])
            below = below + phase
        axis.set(title=f"Time of a round{window_note(window)}", xlabel="round",
                 ylabel=f"time ({unit})", ylim=(0, None))
        axis.margins(x=0)
        return (f"The median round: {factor * medians.sum():.3g} {unit}"
                + wait_note(table, factor, unit))
    return None


def wait_note(table, factor, unit):
    """What the other ranks do while the one of the picture trains; nothing where it is not much."""
    wait_s = np.median(np.nan_to_num(table.get("seconds_wait", np.zeros(1))))
    if wait_s < 0.01 * np.median(table["seconds"]):
        return ""
    return f"; who trains less waits up to {factor * wait_s:.3g} {unit}"


def median_rounds(axis, runs):
    found = tables_of(runs, Runs.rounds)
    if not found:
        return
    medians = np.array([median_phases(table["seconds"], phases(table)) for *_, table in found])
    factor, unit = time_unit(np.max(medians.sum(axis=1)))
    left = np.zeros(len(found))
    for place, name, widths in shown_phases(factor * medians.T):
        axis.barh(range(len(found)), widths, left=left, height=0.62, color=PHASE_COLOURS[place],
                  label=name)
        left += widths
    for position, total in enumerate(left):
        axis.annotate(f"{total:.3g} {unit}", (total, position), xytext=(5, 0), color=GREY,
                      textcoords="offset points", va="center")
    axis.set_yticks(range(len(found)), [shorten(run.name, 24) for _, run, _ in found])
    axis.invert_yaxis()
    axis.grid(False, axis="y")
    axis.margins(x=0.16)
    axis.set(title="Time of the median round", xlabel=f"time ({unit})")


def bytes_sent(axis, runs):
    for index, run, table in tables_of(runs, Runs.rounds):
        if np.nansum(table.get("bytes_sent", 0)) > 0:
            draw_line(axis, table["round"], np.cumsum(np.nan_to_num(table["bytes_sent"])) / 1e6,
                      label_of(run, runs), index)
    axis.set(title="Sent so far by all ranks", xlabel="round", ylabel="MB")
    start_at_zero(axis)


@dataclasses.dataclass(frozen=True)
class Picture:
    """Charts that stand beside each other in a file NAME.png, and in this section of a report."""
    name: str
    section: str
    charts: list | Callable  # functions of an axis and the runs; or what makes them of the runs
    file: str = ""  # without which no run has such a picture


def each(chart, **choices):
    """The chart for each of these values of its argument."""
    ((name, values),) = choices.items()
    return [functools.partial(chart, **{name: value}) for value in values]


PICTURES = [
    Picture("online", "Online", each(nodes, column=["accuracy", "cumulative_loss", "regret"]),
            "online.csv"),
    Picture("regret", "Bandits", each(bandit, column=["regret", "scalars_sent"]), "bandit.csv"),
    Picture("survival", "Statistics", [charts_of_statistics.kaplan_meier], "kaplan-meier.csv"),
    Picture("varied", "What was varied", over_keys.charts_of),
    Picture("learning", "Learning", [accuracy, worst_accuracy, loss]),
    Picture("metrics", "Learning", [common_accuracy, *each(asked_metric, column=SPREADS), classes,
                                     attack_success]),
    Picture("bytes", "Learning", [quality_of_bytes]),
    Picture("confusion", "Learning", [confusion], "confusion.csv"),
    Picture("clients", "Fairness", [clients, sizes, deviation_of_clients]),
    Picture("history", "Fairness", [gains, quantiles], "history.h5"),
    Picture("partition", "Data", [labels, samples], "partition.csv"),
    Picture("participation", "Participation", [rules.participants, rules.times_drawn,
                                               rules.change_by_participation]),
    Picture("sampling", "Participation", [rules.variance, rules.regret, rules.probabilities,
                                          rules.entropy]),
    Picture("decisions", "Decisions", [rules.decisions, rules.concentration],
            "decisions.csv"),
    Picture("weights", "Decisions", [rules.weights_over_time,
                                     *each(rules.weight_matrix, part=[0, 1, 2, 3])], "weights.csv"),
    Picture("directions", "Decisions", [rules.angles, rules.step, rules.improved,
                                        rules.uniformity], "directions.csv"),
    Picture("rule", "Decisions", rules.columns_of_rules),
    Picture("clock", "Virtual time", charts_of_time.CHARTS),
    Picture("lanes", "Virtual time", [charts_of_time.lanes], "participation.csv"),
    Picture("time", "Where the time went", [time, bytes_sent]),
]


def pictures_of(runs):
    """[(picture, charts)]: all that these runs may have. Bandits learn no model, nor do statistics,
    which say nothing of single clients either."""
    common_prefix(runs)  # names the runs by what they are evaluated on, where that differs
    absent = set()
    if all(run.has("bandit.csv") for run in runs):
        absent = {"learning"}
    if all(run.has("statistics.json") for run in runs):
        absent = {"learning", "clients"}
    return [(picture, picture.charts(runs) if callable(picture.charts) else picture.charts)
            for picture in PICTURES
            if not picture.file or any(run.has(picture.file) for run in runs)
            if picture.name not in absent]
