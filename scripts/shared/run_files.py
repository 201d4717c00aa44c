"""Reads what runs leave in their directories; shared by scripts/plot and scripts/report."""
import functools
import pathlib
import zlib

import numpy as np

from hanse.errors import Refused
from hanse.inference import are_copies
from hanse.folders import Place, read_columns, read_history, read_job, rows_there, summary_there
from hanse.several import LONGEST_NAME, names, tails

from .bands import is_there, mean_curve
from .summaries import WORDS, Column, cautions, has_target, prefix_of

# Columns of evaluations.csv that have a spread over clients, NAME_worst and NAME_best.
SPREADS = {"auroc": "Area under the ROC curve", "top5": "Top-5 accuracy",
           "balanced_accuracy": "Balanced accuracy", "f1": "F1 of class 1",
           "auroc_macro": "Area under the ROC curve, mean of classes",
           "auroc_prevalence": "Area under the ROC curve, classes by their samples",
           "auprc": "Average precision", "brier": "Brier score", "ece": "Calibration error"}
# Phases of a round, as pictures stack them, and their columns in rounds.csv.
PHASES = [("training", "seconds_train"), ("communication", "seconds_comm"),
          ("waiting", "seconds_wait"), ("drawing", "seconds_draw"), ("losses", "seconds_losses"),
          ("inner products", "seconds_products"), ("server step", "seconds_step"),
          ("bookkeeping", None)]


class Table(dict):
    """Columns by name, float64 each; of several runs their means, of which `curves` has the Curve
    of each column."""
    curves = {}


def read_table(path):
    try:
        table = read_columns(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; hint: is this a run directory?") from None
    if not any(map(len, table.values())):
        raise Refused(f"{path}: empty; hint: the run has not come that far")
    return Table(table)


def pooled(tables):
    """One below the other, the columns that all have."""
    return Table({name: np.concatenate([table[name] for table in tables])
                  for name in tables[0] if all(name in table for table in tables)})


def mean_table(tables, band, copies=False):
    """Means of each line, and such a band around them, of the rounds that all tables have: where
    some runs ended early, what is behind would be a mean of the others alone. `copies` are one run."""
    common = functools.reduce(np.intersect1d, [table["round"] for table in tables])
    kept = [{name: column[np.isin(table["round"], common)] for name, column in table.items()}
            for table in tables]
    if len({len(table["round"]) for table in kept}) > 1 or not len(common):
        raise Refused("the runs have no rounds in common")
    tables = kept[:1] if copies else kept
    curves = {name: mean_curve(common, [table[name] for table in tables], band)
              for name in kept[0] if all(name in table for table in kept)}
    whole = Table({name: curve.y for name, curve in curves.items()})
    whole.curves = curves
    return whole


def read_texts(path, *columns):
    """Lines of these columns as texts; none where the file or one of the columns is missing."""
    return [[row[column] for column in columns] for row in rows_there(path)
            if row.keys() >= set(columns)]


def need(table, path, *names):
    for name in names:
        if name not in table:
            raise Refused(f"{path}: no column '{name}'")


def has(table, name):
    return name in table and np.isfinite(table[name]).any()


def reads(name, *columns):
    """A method that reads a CSV file, which has these columns."""
    return lambda self: self._table(name, *columns)


class Runs:
    """What pictures show under one name: a run, by its Place or its folder, or runs of one job that
    differ by their seeds, as one. Tables of several are means over them; those of clients and of
    bandits have the lines of all. Each file is read when a picture asks for it."""

    def __init__(self, place, band="interval"):
        self.place = place if isinstance(place, Place) else Place(
            pathlib.Path(place), [pathlib.Path(place)])
        self.band, self.several = band, self.place.several  # the band is around means
        self.folder = self.place.path if self.several else self.place.runs[0]
        self.name = self.case = self.folder.resolve().name
        self.names = None  # of clients; read when one is asked for
        self.tables = {}  # that have been read, by name
        self.complaints = {}  # lines for the user on what could not be read

    @functools.cached_property
    def members(self):
        """Each run alone; of several those with a round, where any has one."""
        begun = [folder for folder in self.place.runs if (folder / "rounds.csv").is_file()]
        return [Runs(folder) for folder in begun or self.place.runs] if self.several else [self]

    @functools.cached_property
    def copies(self):
        """Do the seeds change nothing? The runs are one observation then."""
        found = [summary_there(folder) for folder in self.place.runs] if self.several else []
        return None not in found and are_copies(found)

    def call(self, name):
        """It has this name in drawings and tables; means say there of how many runs they are."""
        self.case = name
        self.name = f"{name} ({self.count()})" if self.several else name

    def count(self):
        """How many runs it is the mean of, in words."""
        there, count = len(self.members), self.place.count
        if self.copies:
            return "copies of one run"
        return f"{there} runs" if there == count else f"{there} of {count} runs"

    evaluations = reads("evaluations.csv", "round")
    rounds = reads("rounds.csv", "round", "seconds")
    decisions = reads("decisions.csv", "round", "p_0")
    directions = reads("directions.csv", "round", "client", "angle")
    sampling = reads("sampling.csv", "round", "variance_estimate")
    bandit = reads("bandit.csv", "round", "repeat", "regret", "scalars_sent")

    def clients(self):
        """Those that are trained on. Clients held out of training are never mixed with them."""
        return self._clients(held_out=False)

    def held_out(self):
        """The others; None where there are none."""
        table = self._clients(held_out=True)
        return table if len(table["client"]) else None

    def _clients(self, held_out):
        table = self._table("clients.csv", "client")
        chosen = (table.get("held_out", np.zeros(len(table["client"]))) == 1) == held_out
        return {name: column[chosen] for name, column in table.items()}

    def split(self):
        """What the clients are evaluated on: "test", "validation", "train", "mixed"; "" of an older run,
        and where the runs differ."""
        lines = [read_texts(member.folder / "evaluations.csv", "split") for member in self.members]
        found = {own[-1][0] if own else "" for own in lines}
        return found.pop() if len(found) == 1 else ""

    def label(self, client, what="client"):
        """The name that the data give to a client, or its number."""
        if self.names is None:
            self.names = {int(number): name
                          for file in ("partition.csv", "clients.csv")
                          for number, name in read_texts(self.folder / file, "client", "name")
                          if name}
        return self.names.get(int(client), f"{what} {int(client)}")

    def class_names(self):
        """{label: name} of the classes that have one."""
        return {int(label): name
                for label, name in read_texts(self.folder / "partition.csv", "label", "class")
                if name}

    def partition(self):
        """Samples by label and client, [labels, clients]."""
        table = self._table("partition.csv", "client", "label", "train", "test")
        client, label = table["client"].astype(int), table["label"].astype(int)
        counts = np.zeros((label.max() + 1, client.max() + 1))
        counts[label, client] = table["train"] + table["test"] + table.get("validation", 0)
        return counts

    def classes(self):
        """[(name, rounds, accuracies)] of classes.csv; that of the lowest last accuracy is first."""
        table = self._table("classes.csv", "round", "label", "accuracy")
        names = self.class_names()
        found = []
        for label in np.unique(table["label"]).astype(int):
            own = table["label"] == label
            found.append((names.get(label, f"class {label}"), table["round"][own],
                          table["accuracy"][own]))
        return sorted(found, key=lambda one: one[2][-1])

    def compresses(self):
        """Does comm.compress change what clients send?"""
        return self.job().get("comm.compress", "none") != "none"

    def job(self):
        """{section.key: value} of job.cfg."""
        return read_job(self.place.runs[0])

    def quality_of_bytes(self):
        """Megabytes that clients have sent until each evaluation, and what it found: the mean accuracy
        in percent, or the mean loss of a regression; with what it is."""
        rounds, table = self.rounds(), self.evaluations()
        need(rounds, self.folder / "rounds.csv", "bytes_updates")
        sent = np.r_[0, np.cumsum(rounds["bytes_updates"])] / 1e6
        sent = sent[np.searchsorted(rounds["round"], table["round"], side="right")]
        if has(table, "accuracy_mean"):
            return sent, 100 * table["accuracy_mean"], "accuracy (%)"
        return sent, table["loss_mean"], "loss"

    def confusion(self):
        """Samples by label (row) and by the class they are taken for, and the classes' names."""
        table = self._table("confusion.csv", "label", "predicted", "samples")
        label, predicted = table["label"].astype(int), table["predicted"].astype(int)
        size = max(label.max(), predicted.max()) + 1
        counts = np.zeros((size, size))
        counts[label, predicted] = table["samples"]
        names = self.class_names()
        return counts, [names.get(k, str(k)) for k in range(size)]

    def history(self):
        """Of history.h5: the rounds of the evaluations, and {column: [evaluations, clients]}, NaN of
        clients that an evaluation was not of."""
        path = self.folder / "history.h5"
        try:
            rounds, columns = read_history(path)
        except (ImportError, OSError, KeyError) as error:
            raise Refused(f"{path}: {error}") from None
        if not len(rounds):
            raise Refused(f"{path}: empty; hint: the run has not come that far")
        return rounds, {name: values.astype(float) for name, values in columns.items()}

    def gains(self):
        """What each client has gained from its first to its last evaluation, of those with two: their
        numbers, the gains, and what they are of."""
        _, columns = self.history()
        values, what, better = (100 * columns["accuracy"], "accuracy (%)", 1) \
            if "accuracy" in columns else (columns["loss"], "loss", -1)
        known = np.isfinite(values)
        clients = np.flatnonzero(known.sum(axis=0) > 1)
        if not len(clients):
            raise Refused("history.h5: no client has two evaluations")
        first = known.argmax(axis=0)[clients]
        last = len(values) - 1 - known[::-1].argmax(axis=0)[clients]
        return clients, better * (values[last, clients] - values[first, clients]), what

    def online(self):
        """Columns of online.csv, [rounds, nodes] each, and the rounds."""
        table = self._table("online.csv", "round", "node", "loss", "accuracy", "cumulative_loss",
                            "regret")
        nodes = int(np.nanmax(table["node"])) + 1
        whole = len(table["round"]) // nodes * nodes  # the run may be writing a round's lines
        return ({name: column[:whole].reshape(-1, nodes) for name, column in table.items()},
                table["round"][:whole:nodes])

    def weights(self):
        """Weights of node i for node j, [lines, i, j], and their rounds."""
        table = self._table("weights.csv", "round", "node", "p_0")
        weights = np.array([table[name] for name in table if name.startswith("p_")]).T
        nodes = weights.shape[1]
        whole = len(weights) // nodes * nodes
        return weights[:whole].reshape(-1, nodes, nodes), table["round"][:whole:nodes]

    def has(self, name):
        return any((member.folder / name).exists() for member in self.members)

    def _table(self, name, *columns):
        if self.several:
            return self._of_members(name, columns)
        path = self.folder / name
        if name not in self.tables:
            self.tables[name] = read_table(path)
        need(self.tables[name], path, *columns)
        return self.tables[name]

    def _of_members(self, name, columns):
        tables, error = [], None
        for member in self.members:
            try:
                tables.append(member._table(name, *columns))
            except Refused as bad:
                error = bad
        if not tables:
            raise error
        if name in ("clients.csv", "bandit.csv"):
            return pooled(tables)
        try:
            return mean_table(tables, self.band, self.copies)
        except Refused as refused:
            raise Refused(f"{self.folder}/{name}: {refused}") from None


def runs_of(found, band="interval"):
    """The Runs of each place, named by what tells them apart, with such bands. Raises Refused where
    these cannot be computed."""
    means = any(place.several or (place.path / "bandit.csv").exists() for place in found)
    if means and not is_there(band):
        raise Refused("the 95 % interval needs SciPy; hint: scripts/setup installs it, and --band "
                     "range shows the lowest and the highest run instead")
    runs = [Runs(place, band) for place in found]
    for run, name in zip(runs, names(found)):
        run.call(name)
    return runs


def summary_of(run):
    """summary.json; of a run that has not ended, what its last evaluation says."""
    if summary := summary_there(run.folder):
        return summary, True
    summary = {"name": run.name, "metrics": {}}
    try:
        summary["metrics"] = last_values(run.evaluations())
        if run.split():
            summary["split"] = run.split()
    except Refused:
        pass
    try:
        summary["rounds"] = int(run.rounds()["round"][-1])
    except Refused:
        pass
    return summary, False


def column_of(run):
    """A run's column of a table; and have all of its runs ended?"""
    found = [summary_of(one) for one in run.members]
    return (Column([summary for summary, _ in found], run.place.count, has_target(run.place)),
            all(ended for _, ended in found))


CURVES = ("Curves of several runs are their means, as far as the shortest goes. Clients are those "
          "of all runs.")


def notes(columns):
    """The cautions on curves."""
    return [CURVES] * any(column.several for column in columns) + cautions(columns)


def place_beside(paths):
    """A name for what shows the first of these beside the others: of them, and no other set's."""
    ends = [end.replace("/", "-") for end in tails(paths)]
    name = "+".join(ends[1:])
    if len(name) <= LONGEST_NAME:
        return name
    return f"{len(ends) - 1}-others-{zlib.crc32(' '.join(map(str, paths)).encode()):08x}"


def alone(runs):
    """One run, of which pictures show more than of several."""
    return len(runs) == 1 and not runs[0].several


def common_prefix(runs):
    """The prefix of all runs; nothing when they differ, and then each run's name says it."""
    splits = {run.split() for run in runs}
    if len(splits) == 1:
        return prefix_of(splits.pop())
    for run in runs:
        note = f" ({WORDS.get(run.split(), 'unknown')} samples)"
        if not run.name.endswith(note):
            run.name += note
            run.case += note
    return ""


def client_values(table):
    """What to show of each client: accuracy in percent, or the loss of a regression."""
    if has(table, "accuracy"):
        return 100 * table["accuracy"], "accuracy (%)"
    if has(table, "loss"):
        return table["loss"], "loss"
    raise Refused("clients.csv: neither accuracy nor loss of any client")


def smooth(values, window):
    """Moving mean; at the ends over what there is."""
    values = np.nan_to_num(values)
    ends = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    low = np.maximum(index - window // 2, 0)
    high = np.minimum(index + window // 2 + 1, len(values))
    return (ends[high] - ends[low]) / (high - low)


def window_of(table):
    """Rounds to smooth over: a thirtieth, odd: the same number on both sides."""
    return len(table["round"]) // 30 | 1


def phases(table):
    """Seconds of each phase of each round, [phases][rounds]: what rank 0 does, and the training of
    the rank that trains longest. They sum to the round. seconds_comm and seconds_wait are those of
    the rank with the most, which waits for rank 0 and for the longest training; so they count as
    far as the others leave room. Bookkeeping is what no column has."""
    left = np.nan_to_num(table["seconds"])
    columns = dict(PHASES[:-1])
    others = ("training", "communication", "waiting")
    taken = {}
    for name in [*(name for name in columns if name not in others), *others]:
        taken[name] = np.clip(np.nan_to_num(table.get(columns[name], 0 * left)), 0, left)
        left = left - taken[name]
    return [taken.get(name, left) for name, _ in PHASES]


def median_phases(seconds, values):
    """The phases, [phases], of the median of these rounds; they sum to it. `values` [phases][rounds]
    is what sums to `seconds`. Each phase has its share of the middle fifth of the rounds: medians of
    the phases would be of different rounds."""
    seconds, values = np.nan_to_num(seconds), np.asarray(values, dtype=float)
    n = len(seconds)
    middle = np.argsort(seconds, kind="stable")[(n - 1) // 2 - n // 10:n // 2 + n // 10 + 1]
    sums = values[:, middle].sum(axis=1)
    return sums * (np.median(seconds) / max(sums.sum(), 1e-30))


def shown_phases(values):
    """(place in PHASES, name, values) of the phases that are not 0 throughout; values [phases][...]."""
    return [(place, name, values[place]) for place, (name, _) in enumerate(PHASES)
            if np.any(values[place])]


def smooth_nodes(values, window):
    """Moving mean over the rounds that have a value, a column a node."""
    known = np.isfinite(values)
    columns = [smooth(np.where(known[:, i], values[:, i], 0), window) /
               np.maximum(smooth(known[:, i].astype(float), window), 1e-9)
               for i in range(values.shape[1])]
    return np.array(columns).T


def time_unit(seconds):
    """Factor and name of the unit in which this many seconds read well."""
    for factor, name in [(1, "s"), (1e3, "ms")]:
        if seconds * factor >= 1:
            return factor, name
    return 1e6, "µs"


def over_repeats(table, column, band):
    """The mean of each round over the repeats of bandits, with such a band."""
    rounds, count = np.unique(table["round"], return_counts=True)
    whole = count == count.max()  # the run may be writing a round's lines
    values = [table[column][table["round"] == t] for t in rounds[whole]]
    return mean_curve(rounds[whole], np.transpose(values), band)


def last_values(table):
    """The numbers of a table's last line; those that are missing are left out."""
    return {name: float(column[-1]) for name, column in table.items()
            if name != "round" and np.isfinite(column[-1])}
