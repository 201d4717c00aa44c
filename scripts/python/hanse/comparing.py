"""Two runs compared client by client."""
from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from .folders import Path
from .inference import differences_of
from .likeness import is_small_better
from .results import Run

if TYPE_CHECKING:
    import pandas


def compare_clients(a: Path | Run, b: Path | Run, metric: str = "") -> pandas.DataFrame:
    """What each client in training has at the end of two runs: a frame with a line a client, which
    its name tells where both runs have names, else its number. Columns: client, name, samples, a and
    b (the metric of each run), difference (b - a), gain (does b give it more? of losses and errors,
    less), took_part_a and took_part_b (rounds in which its update counted, of participation.csv; NaN
    without that file). `attrs` has the metric, the numbers gain, lose and same, and the mean
    difference; clients without the metric in one of the runs count for nothing.

    `metric` is a column of clients.csv; "": accuracy, of regression loss. A folder of repeats has the
    means over its repeats. Raises FileNotFoundError when one is no finished run, ValueError when they
    have no client or no such metric in common. Warns where the data or the clients differ."""
    import pandas
    runs = [one if isinstance(one, Run) else Run(one) for one in (a, b)]
    tables = [run.clients for run in runs]
    metric = metric or _first_in_common(tables, ("accuracy", "loss"))
    if missing := [str(run.path) for run, table in zip(runs, tables) if metric not in table]:
        known = ", ".join(name for name in tables[0].columns[tables[0].columns.get_loc("samples"):]
                          if name in tables[1])
        raise ValueError(f"{missing[0]} has no {metric} of its clients; hint: both have {known}")
    named = all(table["name"].notna().all() for table in tables)
    key = "name" if named else "client"
    sides = [_side(run, table, metric, key) for run, table in zip(runs, tables)]
    found = sides[0].join(sides[1], how="inner", lsuffix="_a", rsuffix="_b")
    if not len(found):
        raise ValueError(f"{runs[0].path} and {runs[1].path} have no client in common; hint: clients "
                         f"are told apart by their {key}")
    _warn_of_differences(runs, [len(side) for side in sides], len(found))
    difference = pandas.Series(
        differences_of(found[["value_b", "value_a"]].to_numpy().tolist()), index=found.index)
    better = -difference if is_small_better(metric) else difference
    known = difference[difference.notna()]
    frame = pandas.DataFrame({
        "client": found["client_a"], "name": found["name_a"], "samples": found["samples_a"],
        "a": found["value_a"], "b": found["value_b"], "difference": difference,
        "gain": better > 0, "took_part_a": found["took_part_a"],
        "took_part_b": found["took_part_b"]}).sort_values("client").reset_index(drop=True)
    frame.attrs = {"metric": metric, "gain": int((better > 0).sum()),
                   "lose": int((better < 0).sum()), "same": int((difference == 0).sum()),
                   "mean": float(known.mean()) if len(known) else math.nan}
    return frame


def _first_in_common(tables: list[pandas.DataFrame], names: tuple[str, ...]) -> str:
    for name in names:
        if all(name in table and table[name].notna().any() for table in tables):
            return name
    return names[0]


def _side(run: Run, clients: pandas.DataFrame, metric: str, key: str) -> pandas.DataFrame:
    """One run's clients by their key: client, name, samples, value and took_part, [clients]; of
    repeats the means."""
    import pandas
    groups = clients.groupby(clients[key].rename("key"))
    side = pandas.DataFrame({name: groups[name].first() for name in ("client", "name", "samples")})
    side = side.assign(value=groups[metric].mean(), took_part=math.nan)
    try:
        lines = run.participation
    except FileNotFoundError:
        return side
    counts = lines[lines["counted"] == 1].groupby("client").size() / max(1, len(run.repeats))
    return side.assign(took_part=counts.reindex(side["client"], fill_value=0).to_numpy())


def _warn_of_differences(runs: list[Run], sizes: list[int], common: int) -> None:
    data = [run.summary.get("data_digest") for run in runs]
    if all(data) and data[0] != data[1]:
        warnings.warn("the runs have unlike data: a client of one is not that of the other",
                      stacklevel=3)
    if max(sizes) > common:
        warnings.warn(f"the runs have {sizes[0]} and {sizes[1]} clients, {common} in common",
                      stacklevel=3)
