"""The chart of how often clients took part and what that has to do with what they have."""
import numpy as np

from .charting import draw_points, tables_of
from .figures import GREY
from .run_files import alone, client_values

FILE = "participation.csv"


def times_counted(run):
    """{client: rounds in which its update counted}."""
    table = run._table(FILE, "client", "counted")
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
    for _, run, (counts, values, what) in tables_of(shown, lambda run: changes(run, first), FILE):
        draw_points(axis, run, runs, counts, values)
        against = f" against {first.name}" if first else ""
        axis.set(xlabel="rounds in which the client's update counted", ylabel=what,
                 title=f"Participation of each client and its {what.split(' (')[0]}{against}")
    if axis.has_data() and not axis.get_ylabel().startswith(("accuracy", "loss")):
        axis.axhline(0, color=GREY, linewidth=0.8)
