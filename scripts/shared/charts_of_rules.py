"""Charts of what samplers and rules decide: who takes part, with which weights and direction."""
import functools
import json

import numpy as np
from matplotlib.ticker import MaxNLocator

from .charting import (NAMED, draw_band, draw_column, draw_line, draw_points, evaluations_of,
                       label_of, scale_for, start_at_zero, tables_of, window_note)
from .figures import COLOURS, GREY, LIGHT_GREY
from .run_files import Runs, alone, client_values, has, smooth, window_of

# Columns of rounds.csv that are of no rule.
ROUND = {"round", "clients", "seconds", "seconds_train", "seconds_comm", "seconds_wait",
         "bytes_sent", "loss", "mixed_loss", "seconds_evaluate", "seconds_broadcast",
         "seconds_reduce", "seconds_step", "seconds_draw", "seconds_losses", "seconds_products", "bytes_broadcast",
         "bytes_reduce", "bytes_updates", "virtual_seconds", "round_virtual_seconds", "counted",
         "staleness_mean", "staleness_max"}
OF_CLOCKS = {  # what their columns are called; a rule's have its own names
    "on_line": "clients on line", "drawn": "clients drawn", "arrived": "clients that arrived",
    "late": "clients that came late", "lost": "clients that never reported",
    "wasted_client_seconds": "work that did not count (s of clients)",
    "wasted_bytes": "messages that did not count (bytes)",
    "duration_p50": "median time of a client (s)", "duration_max": "longest time of a client (s)",
    "discarded": "updates that were too old", "in_flight_mean": "tasks in flight",
    "versions_kept": "older models that are kept"}
PARTICIPATION = "participation.csv"
FEW_NODES = 8  # of as many every weight has a strip of its own
MANY_POINTS = 20000  # are drawn as an image in SVG and PDF


def moves(table, name):
    return has(table, name) and np.nanmin(table[name]) < np.nanmax(table[name])


# -- participation

def participants(axis, runs):
    """Where their number changes, or where not all clients are available."""
    for index, run, table in tables_of(runs, Runs.rounds, "rounds.csv"):
        if moves(table, "clients"):
            draw_line(axis, table["round"], table["clients"], label_of(run, runs, "took part"),
                      index)
    for _, _, table in tables_of(runs, Runs.sampling, "sampling.csv") if alone(runs) else []:
        if moves(table, "available"):
            draw_line(axis, table["round"], table["available"], "available", 1)
    axis.set(title="Participants of a round", xlabel="round", ylabel="clients")
    start_at_zero(axis)


def times_drawn(axis, runs):
    """How often each client took part, from the sampler's trace (run.trace = true)."""
    for index, run in enumerate(runs):
        try:
            trace = json.loads((run.folder / "trace-sampler.json").read_text())
            draws = [client for line in trace["rounds"] for client in set(line["draws"])]
            counts = np.bincount(draws, minlength=int(trace["clients"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        draw_line(axis, 100 * (np.arange(len(counts)) + 1) / max(len(counts), 1), np.sort(counts),
                  label_of(run, runs), index)
    axis.set(title="How often clients took part", xlabel="clients, by participation (%)",
             ylabel="rounds")
    start_at_zero(axis)


def times_counted(run):
    """{client: rounds in which its update counted}."""
    table = run._table(PARTICIPATION, "client", "counted")
    clients, counts = np.unique(table["client"][table["counted"] == 1], return_counts=True)
    return dict(zip(clients, counts))


def changes(run, first):
    """Of a run alone what each client gained from the first to the last evaluation, where it has
    history.h5, else what it has at the end; beside another the change against that, `first`. Returns
    times counted, values, and what they are."""
    counts = times_counted(run)
    if first is None and run.has("history.h5"):
        clients, values, what = run.gains()
        what = f"gain in {what}"
    else:
        table = run.clients()
        clients, (values, what) = table["client"], client_values(table)
    if first is not None:
        before = first.clients()
        there = dict(zip(before["client"], client_values(before)[0]))
        values = values - np.array([there.get(client, np.nan) for client in clients])
        what = f"change of {what}"
    return np.array([counts.get(client, 0) for client in clients]), values, what


def change_by_participation(axis, runs):
    """Who takes part more often, and what that brings; of runs that are each one."""
    first = None if alone(runs) or runs[0].several else runs[0]
    shown = runs if alone(runs) else [run for run in runs[1:] if first and not run.several]
    for _, run, (counts, values, what) in tables_of(shown, lambda run: changes(run, first),
                                                    PARTICIPATION):
        draw_points(axis, run, runs, counts, values)
        against = f" against {first.name}" if first else ""
        axis.set(xlabel="rounds in which the client's update counted", ylabel=what,
                 title=f"Participation of each client and its {what.split(' (')[0]}{against}")
    if axis.has_data() and not axis.get_ylabel().startswith(("accuracy", "loss")):
        axis.axhline(0, color=GREY, linewidth=0.8)


def variance(axis, runs):
    """Of one run what its draws say of it, what the probabilities give, and the least; of several
    what the probabilities give where that was measured, else what the draws say."""
    tables = tables_of(runs, Runs.sampling, "sampling.csv")
    window = max((window_of(table) for *_, table in tables), default=1)
    shown = []
    for index, run, table in tables:
        column = "variance" if has(table, "variance") else "variance_estimate"
        lines = [("variance_estimate", "estimated from the draw", 0, {"color": "#B8B8B8"}),
                 ("variance", "of the draw's probabilities", 0, {}),
                 ("best_variance", "least possible", 1, {})] if alone(runs) else [
                     (column, run.name, index, {})]
        for name, label, number, style in lines:
            if has(table, name):
                shown.append(smooth(table[name], window))
                draw_line(axis, table["round"], shown[-1], label, number, **style)
    axis.set(title=f"Sampling variance{window_note(window)}", xlabel="round",
             ylabel="1/K sum of a / q")
    if shown:
        axis.set_yscale(scale_for(np.concatenate(shown)))


def regret(axis, runs):
    draw_column(axis, runs, tables_of(runs, Runs.sampling, "sampling.csv"), "regret")
    axis.set(title="Cumulative regret of the sampler", ylabel="variance above the least, summed")
    start_at_zero(axis)


def probabilities(axis, runs):
    for _, _, table in evaluations_of(runs) if alone(runs) else []:
        if not has(table, "sampling_entropy"):
            continue
        for low, high, alpha, label in [("min", "max", 0.12, "smallest to largest"),
                                        ("p10", "p90", 0.25, "10 % to 90 % of clients")]:
            draw_band(axis, table["round"], table[f"sampling_{low}"], table[f"sampling_{high}"],
                      label, alpha=alpha)
        draw_line(axis, table["round"], table["sampling_median"], "median client")
        ends = np.concatenate([table["sampling_min"], table["sampling_max"]])
        axis.set_yscale(scale_for(ends))
    axis.set(title="Probabilities of the clients", xlabel="round", ylabel="probability in a draw")


def entropy(axis, runs):
    """As the number of clients whose even probabilities have this entropy."""
    for index, run, table in evaluations_of(runs):
        if has(table, "sampling_entropy"):
            draw_line(axis, table["round"], np.exp(table["sampling_entropy"]), label_of(run, runs),
                      index)
    axis.set(title="Entropy of the probabilities", xlabel="round", ylabel="exp(entropy) (clients)")
    start_at_zero(axis)


# -- decisions

def weights_of(table):
    """The rule's weights, [clients, lines]."""
    return np.array([table[name] for name in table if name.startswith("p_")])


def decisions(axis, runs):
    """The rule's weights over clients. Few clients have a line each; of many, which nobody could
    tell apart, a few that the rule moved most are named, and the others are grey."""
    title = None
    for _, run, table in tables_of(runs, Runs.decisions, "decisions.csv") if alone(runs) else []:
        weights = weights_of(table)
        last = weights[:, -1]
        named = np.argsort(-np.abs(last - 1 / len(last)), kind="stable")[:NAMED]
        others = np.setdiff1d(np.arange(len(last)), named)
        if len(others):
            axis.plot(table["round"], weights[others].T, color=LIGHT_GREY, linewidth=0.8,
                      rasterized=weights.size > MANY_POINTS)
        for index, client in enumerate(sorted(named, key=lambda client: -last[client])):
            draw_line(axis, table["round"], weights[client],
                      f"{run.label(client)}: {last[client]:.3g}", index)
        axis.axhline(1 / len(last), color=GREY, linewidth=1.2, linestyle=":",
                     label=f"equal weights: {1 / len(last):.3g}")
        shown = "" if len(named) == len(last) else f", the {len(named)} farthest from equal"
        title = f"Last weight of the clients{shown}"
    axis.set(title="Weight of each client in the update", xlabel="round", ylabel="decision p")
    start_at_zero(axis)
    return title


def concentration(axis, runs):
    """How many equally weighted clients a decision is worth. Means over runs are left out: the
    weights of their clients are those of no run."""
    for index, run, table in tables_of(runs, Runs.decisions, "decisions.csv"):
        if not run.several:
            worth = 1 / np.maximum((weights_of(table) ** 2).sum(axis=0), 1e-30)
            draw_line(axis, table["round"], worth, label_of(run, runs), index)
    axis.set(title="Clients that the decision is worth", xlabel="round", ylabel="1 / sum of p²")
    start_at_zero(axis)


def weights_over_time(axis, runs):
    """A strip of colours over time for each pair of nodes, where they are few."""
    for _, run, (weights, rounds) in tables_of(runs, Runs.weights, "weights.csv") \
            if alone(runs) else []:
        count = weights.shape[1]
        if count > FEW_NODES:
            continue
        image = axis.imshow(weights.reshape(len(rounds), -1).T, cmap="viridis", aspect="auto",
                            interpolation="nearest", vmin=0, vmax=max(weights.max(), 1e-9),
                            extent=(rounds[0], rounds[-1] + (len(rounds) == 1), count * count, 0))
        axis.figure.colorbar(image, ax=axis, label="weight")
        for border in range(1, count):
            axis.axhline(border * count, color="white", linewidth=3)
        axis.set_yticks(count * np.arange(count) + count / 2,
                        [run.label(i, "node") for i in range(count)])
        axis.set(title=f"Weight of each node for {run.label(0, 'node')} (top) to "
                       f"{run.label(count - 1, 'node')} (bottom)", xlabel="round")
        axis.grid(False)


def weight_matrix(axis, runs, part):
    """Each node's weights for all nodes: the last ones (part 3), of many nodes also the first ones
    (part 0), and those after one and two thirds of the rounds."""
    for _, _, (weights, rounds) in tables_of(runs, Runs.weights, "weights.csv") \
            if alone(runs) else []:
        line = (len(rounds) - 1) * part // 3
        if part < 3 and (weights.shape[1] <= FEW_NODES or line == len(rounds) - 1):
            continue
        image = axis.imshow(weights[line], cmap="viridis", interpolation="nearest", vmin=0,
                            vmax=max(weights.max(), 1e-9), aspect="auto")
        axis.figure.colorbar(image, ax=axis, label="weight")
        axis.set(title=f"Weights in round {rounds[line]:.0f}", xlabel="weight for node",
                 ylabel="node")
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(MaxNLocator(integer=True))
        axis.grid(False)


# -- directions: rules that weigh updates by their inner products

def angles(axis, runs):
    """Degrees between the step and each participant's update; of many, the median and the range."""
    for _, run, table in tables_of(runs, Runs.directions, "directions.csv") if alone(runs) else []:
        rounds = np.unique(table["round"])
        found = [table["angle"][table["round"] == r] for r in rounds]
        clients = np.unique(table["client"]).astype(int)
        if len(clients) <= NAMED:
            for index, client in enumerate(clients):
                mine = table["client"] == client
                axis.plot(table["round"][mine], table["angle"][mine], color=COLOURS[index],
                          label=run.label(client))
        else:
            draw_band(axis, rounds, np.array([np.nanmin(a) for a in found]),
                      np.array([np.nanmax(a) for a in found]), "range of participants")
            axis.plot(rounds, [np.nanmedian(a) for a in found], color=COLOURS[0], label="median")
        axis.axhline(90, color=GREY, linewidth=0.8)
    axis.set(title="Angle of the step to each update", xlabel="round", ylabel="degrees")


def step(axis, runs):
    for _, run, table in tables_of(runs, Runs.rounds, "directions.csv") if alone(runs) else []:
        if has(table, "squared_norm"):
            length = np.sqrt(table["squared_norm"])
            taken = length * table["scale"]
            axis.plot(table["round"], length, color=COLOURS[2], label="found")
            axis.plot(table["round"], np.where(taken > 0, taken, np.nan), color=COLOURS[1],
                      label="taken")
            axis.set_yscale("log")
    axis.set(title="Length of the step", xlabel="round")


def improved(axis, runs):
    draw_column(axis, runs, tables_of(runs, Runs.evaluations, "directions.csv"), "improved", 100)
    axis.set(title="Clients whose loss fell", ylabel="%", ylim=(-3, 103))


def uniformity(axis, runs):
    draw_column(axis, runs, tables_of(runs, Runs.evaluations, "directions.csv"), "accuracy_kl")
    axis.set(title="KL of the accuracies to uniform")


# -- what else a rule reports of its rounds

def columns_of_rules(runs):
    """A chart for each column of rounds.csv beside those that every run has."""
    tables = tables_of(runs, Runs.rounds, "rounds.csv")
    names = dict.fromkeys(name for *_, table in tables for name in table if name not in ROUND)
    return [functools.partial(column_of_a_rule, name=name) for name in names]


def column_of_a_rule(axis, runs, name):
    """Where it moves."""
    words = OF_CLOCKS.get(name, name.replace("_", " "))
    for index, run, table in tables_of(runs, Runs.rounds, "rounds.csv"):
        if moves(table, name):
            draw_line(axis, table["round"], table[name], label_of(run, runs), index)
    axis.set(title=f"Each round: {words.split(' (')[0]}", xlabel="round", ylabel=words)
