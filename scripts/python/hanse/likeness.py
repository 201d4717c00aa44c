"""What must agree where two runs are compared: the clients and samples that they are evaluated on, and
what their progress is counted in."""
from __future__ import annotations

import dataclasses
import math
import pathlib
import statistics
from collections.abc import Mapping
from typing import Any

from .folders import Path, read_job, rows_there

LIMIT = "limits of virtual time"
HELD_OUT = "held_out_"  # before the metrics of clients held out of training
SMALL_IS_BETTER = ("loss", "std", "gap", "gini", "kl", "angle", "regret", "left_out", "perplexity",
                   "mse", "mae")
SMALL_WORDS = {"brier", "ece"}  # whole words: "ece" is a part of others
OF_SAMPLES = ("accuracy", "auroc", "loss", "top5", "balanced", "f1", "brier",
              "auprc")  # that "split" names


def is_small_better(metric: str) -> bool:
    """Losses, errors and spreads are better small, all else large."""
    return any(word in metric for word in SMALL_IS_BETTER) or bool(SMALL_WORDS & set(metric.split("_")))


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """What a run's numbers are of. `clients`: {name: line of clients.csv} of those in training, and
    `held_out` of the others; empty where the data name no clients: made-up ones are alike."""
    split: str
    held_out_split: str
    clients: Mapping[str, Mapping[str, str]]
    held_out: Mapping[str, Mapping[str, str]]

    def clients_of(self, metric: str) -> Mapping[str, Mapping[str, str]]:
        return self.held_out if metric.startswith(HELD_OUT) else self.clients

    def split_of(self, metric: str) -> str:
        return self.held_out_split if metric.startswith(HELD_OUT) else self.split


def evaluated(run: Path, summary: Mapping[str, Any]) -> Evaluated:
    """Of a run that has ended."""
    lines = rows_there(pathlib.Path(run) / "clients.csv")
    named = all(line.get("name") for line in lines)
    parts = [{line["name"]: line for line in lines if named and line.get("held_out", "0") == kind}
             for kind in ("0", "1")]
    return Evaluated(summary.get("split", ""), summary.get("held_out_split", ""), *parts)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A number of two runs over what both have, and a line where that is not all; None and the
    reason where they cannot be compared."""
    first: float | None
    base: float | None
    why: str = ""


def pair_of(first: Evaluated, base: Evaluated, metric: str, numbers: tuple[Any, Any]) -> Pair:
    """`numbers`: what both runs have. Where the evaluated clients differ, a mean over clients is
    taken over those of both; no other number can be."""
    splits = first.split_of(metric), base.split_of(metric)
    of_samples = metric.removeprefix(HELD_OUT).startswith(OF_SAMPLES)
    if of_samples and all(splits) and splits[0] != splits[1]:
        return Pair(None, None, f"not compared: evaluated on {splits[0]} and {splits[1]} samples")
    own, other = first.clients_of(metric), base.clients_of(metric)
    if not own or not other or own.keys() == other.keys() or metric.startswith("common"):
        return Pair(*numbers)
    common = [name for name in own if name in other]
    if not common:
        return Pair(None, None, "not compared: they evaluate no client in common")
    means = []
    for lines, number in ((own, numbers[0]), (other, numbers[1])):
        whole = _mean_of(lines.values(), metric)
        if whole is None or not isinstance(number, (int, float)) or not math.isclose(
                whole, number, rel_tol=1e-6, abs_tol=1e-8):
            return Pair(None, None, f"not compared: {_counts(own, other)} clients, and it is no mean "
                        "over clients")
        means.append(_mean_of([lines[name] for name in common], metric))
    return Pair(*means, f"over the {len(common)} clients that both evaluate, of {_counts(own, other)}")


def _counts(own: Mapping, other: Mapping) -> str:
    return f"{len(own)} and {len(other)}"


def _mean_of(lines: Any, metric: str) -> float | None:
    """The mean over clients of the column that a metric is the mean of; None where there is none."""
    name = metric.removeprefix(HELD_OUT).removesuffix("_mean")
    try:
        values = [float(line[name]) for line in lines if line.get(name)]
    except ValueError:
        return None
    return statistics.fmean(values) if values else None


def unit_of(run: Path) -> str:
    """What a round of a run is: progress in unlike units is not compared."""
    job = read_job(run)
    protocol, kind = job.get("run.protocol", "federated"), job.get("async.kind", "none")
    if kind == "fedbuff":
        return f"{job.get('async.buffer', '10')} arrivals (fedbuff)"
    if kind != "none":
        return f"an arrival ({kind})"
    return "a round" if protocol == "federated" else f"a round ({protocol})"


def rules_of(run: Path) -> dict[str, str]:
    """{what must agree, in words: what the run's job says of it}."""
    job = read_job(run)
    limit, steps = job.get("run.virtual-seconds", "0"), job.get("evaluate.tune-steps", "0")
    own = job.get("client.update") == "ditto" or job.get("client.personal") or \
        job.get("run.protocol") == "local"
    view = job.get("evaluate.view", "auto")
    return {LIMIT: "none" if limit == "0" else f"{limit} s",
            "models evaluated": view if view != "auto" else "personalised" if own else "global",
            "steps before evaluation": steps}
