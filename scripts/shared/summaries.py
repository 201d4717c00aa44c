"""What a finished run says of itself: its summary.json and how its numbers are printed."""
import json
import pathlib

from .splits import SAMPLES, prefix_of


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
    ("training loss, mean of clients", "metrics.train_loss_mean", number),
    ("regret, mean of repeats", "metrics.regret", number),
    ("regret, deviation over repeats", "metrics.regret_std", number),
    ("synchronizations", "metrics.syncs", number),
    ("rounds", "rounds", str),
    ("ranks", "ranks", str),
    ("time in rounds", "seconds", seconds),
    ("time before the first round", "setup_seconds", seconds),
    ("a round, median", "seconds_per_round_median", milliseconds),
    ("sent a round, all ranks", "bytes_per_round", megabytes),
    ("model digest", "model_digest", str),
]


# Rows whose numbers are of what "split" says, or "held_out_split".
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


class BadRun(Exception):
    """A run directory without a readable summary; the text is one line for the user."""


def read_summary(run):
    path = pathlib.Path(run) / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except FileNotFoundError:
        raise BadRun(f"{path} is missing; hint: only a finished run has it") from None
    except (OSError, ValueError) as error:
        raise BadRun(f"{path} cannot be read: {error}") from None
    if not isinstance(summary, dict):
        raise BadRun(f"{path} holds no summary of a run")
    return summary


def look_up(summary, key):
    for part in key.split("."):
        summary = summary.get(part) if isinstance(summary, dict) else None
    return summary


def cell(summary, key, text):
    value = look_up(summary, key)
    return "-" if value is None else text(value)
