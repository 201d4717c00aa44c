"""The charts of scripts/report: each function takes the runs, [Run], and returns charts (svg_chart)
or HTML. A run whose file is missing or empty is left out; what no run has is not drawn."""
import html
import json

import numpy as np

from shared import svg_chart
from shared.run_files import (SPREADS, BadFile, alone, client_values, common_prefix,
                              evaluated_probabilities, has, median_phases, over_repeats,
                              phases, shown_phases, smooth, smooth_nodes, time_unit, window_of)
from shared.splits import SAMPLES, prefix_of, upper_first
from shared.svg_chart import Chart, style_of

PHASE_STYLES = ["c0", "c4", "c1", "c2", "c3", "c5", "c6", "rest"]
# Columns of rounds.csv in every run.
ROUND = {"round", "clients", "seconds", "seconds_train", "seconds_comm", "seconds_wait",
         "bytes_sent", "loss", "mixed_loss", "seconds_evaluate", "seconds_broadcast", "seconds_reduce",
         "seconds_step", "seconds_draw", "seconds_losses", "seconds_products", "bytes_broadcast",
         "bytes_reduce"}
NAMED = 7  # clients with a name and a colour in a chart of many


def tables_of(runs, read):
    """[(index, run, table)] of the runs whose table can be read."""
    found = []
    for index, run in enumerate(runs):
        try:
            found.append((index, run, read(run)))
        except BadFile:
            pass
    return found


def shown(*charts):
    return [chart for chart in charts if not chart.empty()]


def smoothed(title, window):
    return f"{title}, mean of {window} rounds" if window > 1 else title


# -- learning

def accuracy_chart(runs):
    """One run with the spread of its clients, of several the means."""
    title = upper_first(f"{common_prefix(runs)}accuracy over clients")
    if not alone(runs):
        return column_chart(runs, "accuracy_mean", title, "accuracy (%)", 100)
    chart = Chart(title, "round", "accuracy (%)")
    for index, run, table in tables_of(runs, lambda run: run.evaluations()):
        if not has(table, "accuracy_mean"):
            continue
        if has(table, "accuracy_worst10"):
            chart.band(table["round"], 100 * table["accuracy_worst10"],
                       100 * table["accuracy_best10"], "worst to best 10 % of clients")
        chart.line(table["round"], 100 * table["accuracy_mean"], "mean of clients", style_of(index))
    return chart


def column_chart(runs, column, title, unit, factor=1):
    """Of several runs in one their mean and deviation."""
    chart = Chart(title, "round", unit)
    for index, run, table in tables_of(runs, lambda run: run.evaluations()):
        if has(table, column):
            mean, deviation = factor * table[column], factor * table.deviation.get(column, 0)
            if np.any(deviation):
                chart.band(table["round"], mean - deviation, mean + deviation,
                           style=style_of(index))
            chart.line(table["round"], mean, run.name, style_of(index))
    return chart


def loss_chart(runs):
    prefix = common_prefix(runs)
    if not alone(runs):
        return column_chart(runs, "loss_mean", upper_first(f"{prefix}loss, mean of clients"),
                            "loss")
    chart = Chart("Loss, mean of clients", "round", "loss")
    for _, _, table in tables_of(runs, lambda run: run.evaluations()):
        for style, column, label in [("c0 d0", "loss_mean", f"{prefix}samples"),
                                     ("c2 d2", "validation_loss_mean", "validation samples"),
                                     ("c1 d1", "train_loss_mean", "training samples")]:
            if has(table, column) and (column, prefix) != ("train_loss_mean", "training "):
                chart.line(table["round"], table[column], label, style)
    return chart


def spread_chart(runs, column, title):
    """Of one run the spread of its clients, of several the means."""
    if not alone(runs):
        return column_chart(runs, column, title, "")
    chart = Chart(title, "round", "")
    for index, run, table in tables_of(runs, lambda run: run.evaluations()):
        if not has(table, column):
            continue
        if has(table, f"{column}_worst"):
            chart.band(table["round"], table[f"{column}_worst"], table[f"{column}_best"],
                       "worst to best client")
        chart.line(table["round"], table[column], "mean of clients", style_of(index))
    return chart


def class_chart(run):
    """A line a class, of those with the lowest accuracies where there are many."""
    chart = Chart("Accuracy of each class, over all clients", "round", "accuracy (%)")
    for index, (name, rounds, accuracy) in enumerate(run.classes()[:NAMED]):
        chart.line(rounds, 100 * accuracy, name, style_of(index))
    return chart


def quality_of_bytes_chart(runs):
    """Where updates are compressed: what is reached with what all clients have sent."""
    chart = None
    for index, run, (sent, values, label) in tables_of(runs, lambda run: run.quality_of_bytes()):
        what = upper_first(f"{common_prefix(runs)}{label.split(' (')[0]}")
        chart = chart or Chart(f"{what}, mean of clients, by what they have sent",
                               "updates sent by all clients (MB)", label)
        chart.line(sent, values, run.name, style_of(index))
    return [chart] if chart else []


def learning(runs):
    charts = [accuracy_chart(runs)]
    if not alone(runs):
        title = upper_first(f"{common_prefix(runs)}accuracy, worst 10 % of clients")
        charts.append(column_chart(runs, "accuracy_worst10", title, "accuracy (%)", 100))
    charts.append(column_chart(runs, "common_accuracy", "Accuracy, common test set",
                               "accuracy (%)", 100))
    charts += [spread_chart(runs, column, title) for column, title in SPREADS.items()]
    if alone(runs) and runs[0].has("classes.csv"):
        charts.append(class_chart(runs[0]))
    if any(run.compresses() for run in runs):
        charts += quality_of_bytes_chart(runs)
    matrices = tables_of(runs, confusion_matrix) if alone(runs) else []
    return shown(*charts, loss_chart(runs)) + [matrix for _, _, matrix in matrices]


def bandits(runs):
    """Mean and deviation over the repeats."""
    charts = [Chart("Regret since the first phase", "round", "cumulative regret", zero_y=True),
              Chart("Communication since the first phase", "round", "scalars sent", zero_y=True)]
    for index, run, table in tables_of(runs, lambda run: run.bandit()):
        for chart, column in zip(charts, ("regret", "scalars_sent")):
            rounds, mean, deviation = over_repeats(table, column)
            if deviation.any():
                chart.band(rounds, mean - deviation, mean + deviation, style=style_of(index))
            chart.line(rounds, mean, run.name, style_of(index))
    return shown(*charts)


def nodes_lines(chart, rounds, values, index, runs, run):
    """Of one run a line a node, or of many nodes mean and range; of several runs the means."""
    if not alone(runs):
        chart.line(rounds, np.nanmean(values, axis=1), run.name, style_of(index))
    elif values.shape[1] <= NAMED:
        for node in range(values.shape[1]):
            chart.line(rounds, values[:, node], run.label(node, "node"), style_of(node))
    else:
        chart.band(rounds, values.min(axis=1), values.max(axis=1), "worst to best node")
        chart.line(rounds, values.mean(axis=1), "mean of nodes")


def online(runs):
    found = tables_of(runs, lambda run: run.online())
    window = max((window_of({"round": rounds}) for _, _, (_, rounds) in found), default=1)
    mean = ", mean of nodes" if not alone(runs) else ""
    batches = f"Accuracy on {common_prefix(runs)}batches{mean}"
    accuracy = Chart(smoothed(batches, window), "round", "accuracy (%)")
    loss = Chart(f"Loss of each node's model, summed{mean}", "round", "sum of losses", zero_y=True)
    regret = Chart(f"Regret against the best node{mean}", "round", "sum of losses in [0, 1]")
    for index, run, (table, rounds) in found:
        for chart, column in ((loss, "cumulative_loss"), (regret, "regret")):
            if has(table, column):
                nodes_lines(chart, rounds, table[column], index, runs, run)
        if has(table, "accuracy"):
            nodes_lines(accuracy, rounds, 100 * smooth_nodes(table["accuracy"], window), index,
                        runs, run)
    return shown(accuracy, loss, regret)


# -- fairness

def cumulative_chart(runs):
    """Share of clients (y) with at most x; of one run those held out, too."""
    chart = None
    prefix = common_prefix(runs)
    for index, run, (values, label) in tables_of(runs, lambda run: client_values(run.clients())):
        label = prefix + label
        chart = chart or Chart(f"Clients with at most this {label.split(' (')[0]}", label,
                               "clients (%)", zero_y=True)
        cumulative_line(chart, values, run.name if not alone(runs) else "clients", style_of(index))
        if alone(runs):
            mean = float(np.nanmean(values))
            chart.mark(f"mean: {mean:.4g}", x=mean)
            if held_out := run.held_out():
                cumulative_line(chart, client_values(held_out)[0], "held-out clients", style_of(2))
    return chart


def cumulative_line(chart, values, name, style):
    ordered = np.sort(values[np.isfinite(values)])
    quantiles = np.linspace(0, 1, min(len(ordered), svg_chart.MOST_POINTS))
    points = np.quantile(ordered, quantiles, method="inverted_cdf")
    share = 100 * np.searchsorted(ordered, points, side="right") / len(ordered)
    chart.line(np.r_[points[:1], points], np.r_[0, share], name, style, steps=True)


def size_chart(run):
    """Each client's value against its samples; of very many clients an even selection."""
    table = run.clients()
    values, label = client_values(table)
    kept = np.unique(np.linspace(0, len(values) - 1, 1500).astype(int))
    samples = table["samples"][kept]
    wide = np.nanmax(samples) > 20 * max(1, np.nanmin(samples))
    label = prefix_of(run.split()) + label
    what = label.split(" (")[0]
    chart = Chart(f"{what.capitalize()} and size of each client",
                  SAMPLES.get(run.split(), "samples"), label, log_x=wide)
    chart.dots(samples, values[kept],
               [f"{run.label(table['client'][i])}: {svg_chart.number(values[i])}" for i in kept])
    return chart


def gains_chart(run):
    """Who gained and who lost from the first to the last evaluation (evaluate.history = true)."""
    clients, gains, what = run.gains()
    order = np.argsort(gains)
    kept = order[np.unique(np.linspace(0, len(order) - 1, 1500).astype(int))]
    chart = Chart(f"Gain of each client: {int((gains > 0).sum())} gained, "
                  f"{int((gains < 0).sum())} lost", "clients, by their gain (%)",
                  f"gain in {what}")
    place = 100 * (np.searchsorted(gains[order], gains[kept], side="right")) / len(order)
    chart.dots(place, gains[kept],
               [f"{run.label(clients[i])}: {svg_chart.number(gains[i])}" for i in kept])
    chart.mark("no gain", y=0)
    return chart


def confusion_matrix(run):
    """Of each label (row) the shares of its samples that are taken for each class, as HTML."""
    counts, names = run.confusion()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cells = "".join(
        f'<i style="opacity:{share:.3f}" title="{html.escape(names[i])} taken for '
        f'{html.escape(names[j])}: {counts[i, j]:.0f} samples, {100 * share:.3g} %"></i>'
        for i, row in enumerate(shares) for j, share in enumerate(row))
    return (f'<figure><h3>Label (row) and the class that samples are taken for (column)</h3>'
            f'<div class="matrix" style="grid-template-columns:repeat({len(names)},1fr)">'
            f'{cells}</div><p class="note">full colour: all samples of the label</p></figure>')


def fairness(runs):
    charts = [chart for chart in [cumulative_chart(runs)] if chart]
    if alone(runs) and runs[0].has("history.h5"):
        charts += [chart for _, _, chart in tables_of(runs, gains_chart)]
    if not alone(runs):
        charts.append(column_chart(runs, "accuracy_std", "Deviation of accuracy over clients",
                                   "accuracy (%)", 100))
    else:
        charts += [size_chart(run) for _, run, table in tables_of(runs, lambda run: run.clients())
                   if has(table, "samples")]
    return shown(*charts)


# -- participation

def participants_chart(runs):
    chart = Chart("Participants of a round", "round", "clients", zero_y=True)
    for index, run, table in tables_of(runs, lambda run: run.rounds()):
        if has(table, "clients"):
            chart.line(table["round"], table["clients"],
                       run.name if not alone(runs) else "took part", style_of(index))
    if alone(runs):
        for _, _, table in tables_of(runs, lambda run: run.sampling()):
            if has(table, "available"):
                chart.line(table["round"], table["available"], "available", "c1 d1")
    return chart


def times_drawn(run):
    """How often each client took part, from the sampler's trace (run.trace = true)."""
    try:
        trace = json.loads((run.folder / "trace-sampler.json").read_text())
        draws = [client for line in trace["rounds"] for client in set(line["draws"])]
        return np.bincount(draws, minlength=int(trace["clients"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drawn_chart(runs):
    chart = Chart("How often clients took part", "clients, by participation (%)", "rounds",
                  zero_y=True)
    for index, run in enumerate(runs):
        counts = times_drawn(run)
        if counts is not None and len(counts):
            chart.line(100 * (np.arange(len(counts)) + 1) / len(counts), np.sort(counts),
                       run.name if not alone(runs) else "rounds of a client", style_of(index))
    return chart


def probability_charts(runs):
    spread = Chart("Probabilities of the clients", "round", "probability in a draw", log_y=True)
    entropy = Chart("Entropy of the probabilities", "round", "exp(entropy) (clients)", zero_y=True)
    for index, run, table in tables_of(runs, evaluated_probabilities):
        if table is None:
            continue
        if alone(runs):
            for low, high, label, faint in [("min", "max", "smallest to largest", True),
                                            ("p10", "p90", "10 % to 90 % of clients", False)]:
                spread.band(table["round"], table[f"sampling_{low}"], table[f"sampling_{high}"],
                            label, faint=faint)
            spread.line(table["round"], table["sampling_median"], "median client")
        entropy.line(table["round"], np.exp(table["sampling_entropy"]), run.name, style_of(index))
    return [spread, entropy]


def variance_charts(runs):
    tables = tables_of(runs, lambda run: run.sampling())
    window = max((window_of(table) for *_, table in tables), default=1)
    variance = Chart(smoothed("Sampling variance", window), "round", "1/K sum of a / q", log_y=True)
    regret = Chart("Cumulative regret of the sampler", "round", "variance above the least, summed",
                   zero_y=True)
    for index, run, table in tables:
        column = "variance" if has(table, "variance") else "variance_estimate"
        if has(table, column):
            variance.line(table["round"], smooth(table[column], window), run.name, style_of(index))
        if has(table, "regret"):
            regret.line(table["round"], table["regret"], run.name, style_of(index))
    return [variance, regret]


def participation(runs):
    return shown(participants_chart(runs), drawn_chart(runs), *probability_charts(runs),
                 *variance_charts(runs))


# -- decisions

def decisions_chart(run):
    """The rule's weights over clients: the ones it moved most are named, the others grey."""
    table = run.decisions()
    weights = np.array([table[name] for name in table if name.startswith("p_")])  # [clients, lines]
    last = weights[:, -1]
    named = np.argsort(-np.abs(last - 1 / len(last)), kind="stable")[:NAMED]
    chart = Chart("Weight of each client in the update", "round", "decision p", zero_y=True)
    for client in np.setdiff1d(np.arange(len(last)), named):
        chart.line(table["round"], weights[client], style="rest thin")
    for index, client in enumerate(sorted(named, key=lambda client: -last[client])):
        chart.line(table["round"], weights[client], run.label(client), style_of(index))
    chart.mark(f"equal weights: {1 / len(last):.3g}", y=1 / len(last), style="rest")
    return chart


def concentration_chart(runs):
    """How many equally weighted clients the decision is worth: 1 / sum p^2."""
    chart = Chart("Clients that the decision is worth", "round", "1 / sum of p²", zero_y=True)
    for index, run, table in tables_of(runs, lambda run: run.decisions()):
        weights = np.array([table[name] for name in table if name.startswith("p_")])
        chart.line(table["round"], 1 / np.maximum((weights ** 2).sum(axis=0), 1e-30), run.name,
                   style_of(index))
    return chart


def weight_matrix(run):
    """Of Fed-Exp: each node's last weights for all nodes, as HTML."""
    weights, rounds = run.weights()
    last = weights[-1]

    def label(node):
        return run.label(node, "node")
    top = max(last.max(), 1e-9)
    cells = "".join(f'<i style="opacity:{value / top:.3f}" title="{html.escape(label(i))} for '
                    f'{html.escape(label(j))}: {value:.3g}"></i>' for i, row in enumerate(last) for j, value in
                    enumerate(row))
    return (f'<figure><h3>Weight of each node (row) for each node (column), round {rounds[-1]:.0f}'
            f'</h3><div class="matrix" style="grid-template-columns:repeat({len(last)},1fr)">'
            f'{cells}</div><p class="note">full colour: {top:.3g}</p></figure>')


def rule_charts(runs):
    """What a rule reports of its rounds beside the columns that every run has."""
    tables = tables_of(runs, lambda run: run.rounds())
    names = dict.fromkeys(name for *_, table in tables for name in table if name not in ROUND)
    charts = []
    for name in names:
        chart = Chart(f"Of each round: {name.replace('_', ' ')}", "round", name.replace("_", " "))
        for index, run, table in tables:
            if has(table, name) and np.nanmin(table[name]) < np.nanmax(table[name]):
                chart.line(table["round"], table[name], run.name, style_of(index))
        charts.append(chart)
    return charts


def decisions(runs):
    if not alone(runs):  # a mean over runs of the clients' weights is not the weights' of any
        single = [run for run in runs if not run.several]
        return shown(concentration_chart(single), *rule_charts(runs))
    charts = [decisions_chart(run) for _, run, _ in tables_of(runs, lambda run: run.decisions())]
    charts += shown(*rule_charts(runs))
    return charts + [weight_matrix(run) for _, run, _ in tables_of(runs, lambda run: run.weights())]


# -- time

def stacked_time(run):
    table = run.rounds()
    window = window_of(table)
    parts = phases(table)
    medians = median_phases(table["seconds"], parts)
    factor, unit = time_unit(medians.sum())
    chart = Chart(smoothed("Time of a round", window), "round", f"time ({unit})", zero_y=True)
    below = np.zeros(len(table["round"]))
    for place, name, part in shown_phases([smooth(phase, window) for phase in parts]):
        label = f"{name}: {factor * medians[place]:.3g} {unit}"
        chart.band(table["round"], factor * below, factor * (below + part), label,
                   f"{PHASE_STYLES[place]} full")
        below = below + part
    return chart


def time_bars(runs):
    found = tables_of(runs, lambda run: run.rounds())
    if not found:
        return []
    medians = np.array([median_phases(table["seconds"], phases(table)) for *_, table in found])
    factor, unit = time_unit(np.max(medians.sum(axis=1)))
    parts = [(name, PHASE_STYLES[place], values)
             for place, name, values in shown_phases(factor * medians.T)]
    legend = "".join(f"<li>{swatch(f'band {style} full')}{name}</li>" for name, style, _ in parts)
    title = "Time of the median round"
    table = svg_chart.bars(title, [run.name for _, run, _ in found], parts, unit)
    return [f'<figure><h3>{title}</h3><ul class="legend">{legend}</ul>{table}</figure>']


def bytes_chart(runs):
    chart = Chart("Sent so far by all ranks", "round", "MB", zero_y=True)
    for index, run, table in tables_of(runs, lambda run: run.rounds()):
        if np.nansum(table.get("bytes_sent", 0)) > 0:
            chart.line(table["round"], np.cumsum(np.nan_to_num(table["bytes_sent"])) / 1e6,
                       run.name, style_of(index))
    return chart


def time(runs):
    if len(runs) > 1:
        return [*time_bars(runs), *shown(bytes_chart(runs))]
    return [*[stacked_time(run) for _, run, _ in tables_of(runs, lambda run: run.rounds())],
            *shown(bytes_chart(runs))]


# -- as HTML

def swatch(classes):
    shape = {"band": '<rect width="22" height="10"/>'}.get(classes.split()[0],
                                                          '<path d="M0 5H22"/>')
    return f'<svg viewBox="0 0 22 10"><g class="{classes}">{shape}</g></svg>'


def figure(chart):
    """A chart with its title and legend; HTML stays as it is."""
    if isinstance(chart, str):
        return chart
    entries = chart.legend if len(chart.legend) > 1 else []
    legend = "".join(f"<li>{swatch(classes)}{html.escape(label)}</li>"
                     for classes, label in entries)
    return (f'<figure><h3>{html.escape(chart.title)}</h3><ul class="legend">{legend}</ul>'
            f'{chart.svg()}</figure>')
