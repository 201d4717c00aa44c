"""What finished runs say of themselves: their summary.json, how their numbers are printed, and
those of several runs as means."""
import dataclasses
import math

from hanse.folders import read_job, read_summary, summary_there
from hanse.inference import are_copies
from hanse.errors import Refused
from hanse.several import (absent, case_name, listed, mean_and_deviation, median_of_targets,
                           own_data, places, unlike)

# What clients are evaluated on, the column and key `split` of a run, in words.
WORDS = {"test": "test", "validation": "validation", "train": "training",
         "mixed": "test and training"}
SAMPLES = {"test": "test samples", "validation": "validation samples",
           "train": "training samples",
           "mixed": "test samples, or training samples where a client has no others"}


def prefix_of(split):
    """What stands before "accuracy" or "loss": "test ", "training ", ..., or nothing for several."""
    return f"{WORDS[split]} " if split in ("test", "validation", "train") else ""


def percent(value):
    return f"{100 * value:.2f} %"


def number(value):
    return f"{value:.4f}"


def seconds(value):
    return f"{value:.1f} s"


def milliseconds(value):
    return f"{1e3 * value:.4f} ms" if value < 1e-3 else f"{1e3 * value:.1f} ms"


def megabytes(value):
    return f"{value / 1e6:.2f} MB"


def sent(value):
    return f"{value / 1e6:.3g} MB"


def rounds(value):
    return f"{value:.4g}"


def two_digits(deviation):
    return f"{deviation:.2g}" if deviation < 100 else f"{deviation:.0f}"


# Label, key in the summary, how to print it. A run without the key (a regression has no accuracy)
# shows a dash; a row that no run has is left out.
ROWS = [
    ("training", "simulated", lambda _: "simulated: none"),
    ("evaluated on", "split", lambda split: SAMPLES.get(split, split)),
    ("accuracy, mean of clients", "metrics.accuracy_mean", percent),
    ("accuracy, mean of samples", "metrics.accuracy_weighted", percent),
    ("accuracy, worst 10 % of clients", "metrics.accuracy_worst10", percent),
    ("accuracy, best 10 % of clients", "metrics.accuracy_best10", percent),
    ("accuracy, deviation over clients", "metrics.accuracy_std", percent),
    ("area under the ROC curve", "metrics.auroc", number),
    ("area under the ROC curve, worst client", "metrics.auroc_worst", number),
    ("top-5 accuracy", "metrics.top5", percent),
    ("top-5 accuracy, worst client", "metrics.top5_worst", percent),
    ("balanced accuracy", "metrics.balanced_accuracy", percent),
    ("balanced accuracy, worst client", "metrics.balanced_accuracy_worst", percent),
    ("F1 of class 1", "metrics.f1", number),
    ("F1 of class 1, worst client", "metrics.f1_worst", number),
    ("accuracy on the stream", "metrics.online_accuracy", percent),
    ("loss on the stream", "metrics.online_loss", number),
    ("regret against the best node", "metrics.regret_mean", number),
    ("regret against the best mixture", "metrics.regret_mixture", number),
    ("bound on the regret", "metrics.regret_bound", number),
    ("loss, mean of clients", "metrics.loss_mean", number),
    ("validation accuracy, mean of clients", "metrics.validation_accuracy_mean", percent),
    ("validation loss, mean of clients", "metrics.validation_loss_mean", number),
    ("accuracy, common test set", "metrics.common_accuracy", percent),
    ("loss, common test set", "metrics.common_loss", number),
    ("accuracy, held-out clients", "metrics.held_out_accuracy_mean", percent),
    ("loss, held-out clients", "metrics.held_out_loss_mean", number),
    ("area under the ROC curve, held-out clients", "metrics.held_out_auroc", number),
    ("training loss, mean of clients", "metrics.train_loss_mean", number),
    ("regret, mean of repeats", "metrics.regret", number),
    ("regret, deviation over repeats", "metrics.regret_std", number),
    ("synchronizations", "metrics.syncs", number),
    ("rounds to the target", "metrics.target_round", rounds),
    ("virtual time to the target", "metrics.target_virtual_seconds", seconds),
    ("virtual time", "metrics.virtual_seconds", seconds),
    ("privacy, epsilon", "metrics.privacy_epsilon", number),
    ("privacy, delta", "metrics.privacy_delta", "{:g}".format),
    ("attackers", "metrics.attackers", "{:g}".format),
    ("updates, a client", "metrics.update_bytes_per_client", sent),
    ("diverged", "diverged", str),
    ("rounds", "rounds", str),
    ("ranks", "ranks", str),
    ("time in rounds", "seconds", seconds),
    ("time before the first round", "setup_seconds", seconds),
    ("a round, median", "seconds_per_round_median", milliseconds),
    ("sent a round, all ranks", "bytes_per_round", megabytes),
    ("model digest", "model_digest", str),
]


# Rows whose numbers belong to the samples that "split" names, or "held_out_split".
SPLIT_OF = {"metrics.accuracy": "split", "metrics.auroc": "split", "metrics.loss": "split",
            "metrics.top5": "split", "metrics.balanced": "split", "metrics.f1": "split",
            "metrics.online_accuracy": "split", "metrics.held_out": "held_out_split"}


def label_of(label, key, summaries):
    """The row's label, with "test" or "training" before it where all the runs agree."""
    for beginning, split in SPLIT_OF.items():
        if key.startswith(beginning):
            splits = {summary.get(split) for summary in summaries}
            return (prefix_of(splits.pop()) if len(splits) == 1 else "") + label
    return label


def look_up(summary, key):
    for part in key.split("."):
        summary = summary.get(part) if isinstance(summary, dict) else None
    return summary


@dataclasses.dataclass
class Column:
    """What stands under one name: a run, or several that differ by their seeds."""
    summaries: list  # of those that are there
    runs: int = 1    # that there are to be
    target: bool = False  # do they have run.target?

    @property
    def several(self):
        return self.runs > 1 or any("repeats" in summary for summary in self.summaries)

    def values(self, key):
        if key == "rounds":
            return [done for summary in self.summaries
                    for done in summary.get("rounds_done", [summary.get("rounds")])]
        return [look_up(summary, key) for summary in self.summaries]

    def copies(self):
        """Do the seeds change nothing? The runs are one observation then."""
        return are_copies(self.summaries)

    def mean(self, key):
        """None where it has no number."""
        numbers = [value for value in self.values(key) if isinstance(value, (int, float))]
        return mean_and_deviation(numbers)[0]

    def count(self):
        """How many runs, in words."""
        if self.runs > 1 or not self.summaries:
            there = len(self.summaries)
            return str(there) if there == self.runs else f"{there} of {self.runs}"
        return str(self.summaries[0].get("repeats", 1))

    def diverged(self):
        """How many of the runs have diverged (run.on-divergence = stop)."""
        found = [summary.get("diverged", 0) for summary in self.summaries]
        return sum(one if isinstance(one, int) else 1 for one in found)

    def cell_of_divergence(self):
        count = self.diverged()
        if count == 0 or self.several:
            runs = sum(summary.get("repeats", 1) for summary in self.summaries)
            return f"{count} of {runs}" if count else "-"
        return f"in round {self.summaries[0]['diverged']['round']}"

    def cell(self, key, text):
        if key == "diverged":
            return self.cell_of_divergence()
        values = self.values(key)
        if key.startswith("metrics.") and self.copies():
            values = values[:1]
        numbers = all(isinstance(value, (int, float, type(None))) for value in values)
        missing = "not reached" if self.target and key == "metrics.target_round" else "-"
        if self.summed_up() and key.startswith("metrics."):
            return self.cell_of_means(key, text, missing)
        if numbers and text is not str:
            return mean_text(values, text, two_digits if text is rounds else None, missing)
        known = sorted({value for value in values if value is not None})
        if not known:
            return "-"
        return text(known[0]) if len(known) == 1 else listed(known) if numbers else "differ"

    def summed_up(self):
        """Is there the summary of repeats alone, without theirs?"""
        return len(self.summaries) == 1 and "repeats" in self.summaries[0]

    def cell_of_means(self, key, text, missing):
        summary, name = self.summaries[0], key.partition(".")[2]
        runs, metrics = summary["repeats"], summary.get("metrics", {})
        known = summary.get("n", {}).get(name, runs if name in metrics else 0)
        return spread_text(metrics.get(name), metrics.get(f"{name}_std"), known, runs, text,
                           two_digits if text is rounds else None, missing)

    def median_cell(self):
        """The median of the rounds to the target; "-" without one."""
        targets = self.values("metrics.target_round")
        if not self.summaries or self.summed_up() or not (self.target or any(targets)):
            return "-"
        return median_text(targets, self.values("rounds"))


def mean_text(values, show, spread=None, missing="-"):
    """84.12 % (0.31): mean (deviation). Where some runs lack the number it says how many have it:
    41.5 (16), 2 of 5."""
    known = sum(value is not None for value in values)
    return spread_text(*mean_and_deviation(values), known, len(values), show, spread, missing)


def spread_text(mean, deviation, known, runs, show, spread=None, missing="-"):
    text = missing if mean is None else show(mean)
    if deviation is not None:
        text += f" ({spread(deviation) if spread else show(deviation).split()[0]})"
    if known < runs and runs > 1 and text != "-":
        text += f", {known} of {runs}"
    return text


def median_text(targets, rounds_run):
    """The median round of a target; >50 where runs decide that have not reached it in 50 rounds."""
    median = median_of_targets(targets)
    if math.isfinite(median):
        return rounds(median)
    least = min((number for number, target in zip(rounds_run, targets)
                 if target is None and number is not None), default=None)
    return "not reached" if least is None else f">{least}"


def column_of(place):
    """The finished runs of a place. Raises Refused where there is none."""
    found = [summary for run in place.runs if (summary := summary_there(run)) is not None]
    if not found:
        read_summary(place.runs[-1])  # says why there is none
    return Column(found, place.count, has_target(place))


def columns_of(found):
    """Those of all places; an empty one where no run has ended. Raises Refused where none has."""
    columns = []
    for place in found:
        try:
            columns.append(column_of(place))
        except Refused as refused:
            columns.append(Column([], place.count, has_target(place)))
            why = refused
    if not any(column.summaries for column in columns):
        raise why
    return columns


def absences(paths, names=(), columns=()):
    """Lines on what has no number: the runs that the studies at these paths lack, and, of other
    places, columns without an ended run."""
    lines = [line for path in paths for line in absent(path)]
    told = {case_name(line.partition(": ")[0]) for line in lines}
    return lines + [f"{name}: not ended" for name, column in zip(names, columns)
                    if not column.summaries and name not in told]


def has_target(place):
    return bool(read_job(place.runs[0]).get("run.target"))


def find_places(paths):
    """The places that all these paths name. Raises FileNotFoundError."""
    return [place for path in paths for place in places(path)]


def rows_of(columns):
    """(label, key, cells) of the table of these columns."""
    rows = []
    if any(column.several for column in columns):
        rows.append(("runs; mean (deviation)", "runs",
                     [column.count() for column in columns]))
    for label, key, text in ROWS:
        cells = [column.cell(key, text) for column in columns]
        if any(cell != "-" for cell in cells):
            summaries = [summary for column in columns for summary in column.summaries]
            rows.append((label_of(label, key, summaries), key, cells))
            if key == "metrics.target_round" and any(column.several for column in columns):
                medians = [column.median_cell() for column in columns]
                if set(medians) - {"-"}:
                    rows.append(("rounds to the target, median", "median", medians))
    return rows


def cautions(columns):
    """Lines on what a reader of these columns must know: whatever keeps them from being compared,
    and that means are over unlike data."""
    columns = list(columns)
    summaries = [column.summaries for column in columns]
    lines = [f"Caution: {line}" for line in unlike(summaries)]
    if count := sum(column.diverged() for column in columns):
        runs = sum(summary.get("repeats", 1) for found in summaries for summary in found)
        lines.append(f"{count} of {runs} runs diverged; their numbers are those of the round before.")
    if count := sum(column.copies() for column in columns):
        of = f"In {count} of {len(columns)} cases the" if len(columns) > 1 else "The"
        lines.append(f"{of} seeds change nothing: the runs are copies of one, which count once "
                     "(n is 1).")
    if own_data(summaries):
        lines.append("Each run of a mean has data of its own; data.seed keeps them the same.")
    return lines
