"""What a run has left: its tables as columns of numbers and as pandas frames, its model as a state
dict."""
from __future__ import annotations

import csv
import io
import json
import math
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import Refused
from .folders import (Path, Place, read_columns, read_history, read_job, summary_there, whole_text,
                      why_failed)
from .several import (absent_cases, mean_and_deviation, median_of_targets, names, places,
                      unlike)

if TYPE_CHECKING:
    import numpy
    import pandas


class Run:
    """A run directory. Tables are read when they are asked for, and anew each time. All but columns()
    need pandas (Debian: python3-pandas). A folder of repeats (run.repeats) gives the lines of all
    repeats, with the column `repeat` in front."""

    def __init__(self, path: Path) -> None:
        self.path = pathlib.Path(path)
        if not (self.path / "job.cfg").is_file():
            raise FileNotFoundError(f"{path} is no run directory: it has no job.cfg; hint: "
                                    "hanse.read_several() reads folders of sweeps")

    def __repr__(self) -> str:
        return f"Run('{self.path}')"

    @property
    def job(self) -> dict[str, str]:
        """{"section.key": text} of every option."""
        return read_job(self.path)

    @property
    def repeats(self) -> list[Run]:
        """The runs of a folder of repeats; a run has none."""
        (place,) = places(self.path)
        return [Run(path) for path in place.runs if path != self.path]

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json; {} while the run has not finished. For a folder of repeats it has means and
        deviations, and in "n" the number of repeats in each."""
        path = self.path / "summary.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def table(self, name: str) -> pandas.DataFrame:
        """A CSV file of the run as a frame. Raises FileNotFoundError, naming those there are."""
        import pandas
        if repeats := self.repeats:
            tables = {place: run.table(name) for place, run in enumerate(repeats, 1)}
            whole = pandas.concat(tables, names=["repeat"])
            return whole.reset_index(level=0).reset_index(drop=True)
        return pandas.read_csv(io.StringIO(whole_text(self._path_of(name))))

    def columns(self, name: str) -> dict[str, numpy.ndarray]:
        """A CSV file of the run as {column: float64 [lines]}, NaN where no number stands. Raises as
        table()."""
        return read_columns(self._path_of(name))

    def _path_of(self, name: str) -> pathlib.Path:
        path = self.path / name
        if not path.is_file():
            known = ", ".join(sorted(file.name for file in self.path.glob("*.csv")))
            raise FileNotFoundError(f"{self.path} has no {name}; it has: {known}")
        return path

    @property
    def rounds(self) -> pandas.DataFrame:
        """A line a round."""
        return self.table("rounds.csv")

    @property
    def evaluations(self) -> pandas.DataFrame:
        """A line an evaluation."""
        return self.table("evaluations.csv")

    def _clients(self, held_out: int) -> pandas.DataFrame:
        clients = self.table("clients.csv")
        return clients[clients["held_out"] == held_out].reset_index(drop=True)

    @property
    def clients(self) -> pandas.DataFrame:
        """A line a client, at the end: its name, split (evaluated on its test, its validation or
        its train samples), samples, loss, accuracy. Clients held out of training are not among them."""
        return self._clients(0)

    @property
    def held_out(self) -> pandas.DataFrame:
        """As clients, for the clients held out of training."""
        return self._clients(1)

    @property
    def participation(self) -> pandas.DataFrame:
        """A line a round and participant, see participation.csv in jobs/results-and-metrics.md.
        Raises FileNotFoundError where report.participation left it out."""
        return self.table("participation.csv")

    @property
    def scores(self) -> pandas.DataFrame:
        """With evaluate.scores = true, a line a sample that the last evaluation was of: client, row
        (its place in the source), fold (train, validation, test, held-out), label and score, the
        probability of class 1; of several classes score_0, score_1, ..."""
        return self.table("scores.csv")

    def interval(self, metric: str, client: int | None = None, by: Any = None,
                 level: float = 0.95) -> tuple[float, float, float]:
        """A metric of the samples that the run was tested on, and its interval over them: value, low,
        high; NaN where it is not defined. Needs scores.csv.

            run.interval("auroc", client=2)
            run.interval("auroc", by=table["patient"])    # visits of one patient belong together

        `metric`: auroc (DeLong et al. 1988), accuracy (Wilson 1927), auprc, brier, ece, mse or mae
        (2,000 bootstrap draws). `by`: a value for each row of the source; samples with one value are
        drawn together, and all intervals are the bootstrap's. Raises Refused."""
        import numpy

        from . import scoring
        self._refuse_repeats("interval()")
        if metric not in scoring.METRICS:
            raise Refused(f"no metric '{metric}'; hint: {', '.join(scoring.METRICS)}")
        found = scoring.read_scores(self.path / scoring.FILE).tested
        if client is not None:
            found = found.part(found.client == client)
        groups = None if by is None else numpy.asarray(by)[found.row]
        low, high = scoring.interval_of(found, metric, by=groups, level=level)
        return scoring.METRICS[metric](found), low, high

    @property
    def partition(self) -> pandas.DataFrame:
        """Who has which samples: a line a client and label, with the label's class and the client's
        samples of it for training and for tests; the first 1,000 clients. Raises FileNotFoundError
        where there are no classes."""
        return self.table("partition.csv")

    @property
    def history(self) -> dict[str, pandas.DataFrame]:
        """With evaluate.history = true: {column of clients.csv: frame}, a line an evaluation, a column
        a client; NaN where the evaluation was not of the client."""
        import pandas
        self._refuse_repeats("history")
        rounds, columns = read_history(self.path / "history.h5")
        index = pandas.Index(rounds, name="round")
        return {name: pandas.DataFrame(values, index=index) for name, values in columns.items()}

    @property
    def statistics(self) -> dict[str, pandas.DataFrame]:
        """With run.protocol = statistics: {"cox": frame, "cox-baseline": frame, ...}, a frame for
        each CSV file of a statistic. The first one's attrs have what is one number: n, log_likelihood
        and so on, and `notes`. Raises FileNotFoundError where there are none."""
        self._refuse_repeats("statistics")
        path = self.path / "statistics.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.path} has no statistics.json: the run has not finished, or "
                                    "its run.protocol is not statistics")
        frames = {}
        for kind, found in json.loads(path.read_text()).items():
            frames[kind] = self.table(f"{kind}.csv")
            tables = [name for name, value in found.items() if isinstance(value, dict)]
            frames[kind].attrs = {name: value for name, value in found.items()
                                  if name == "notes" or not isinstance(value, (dict, list))}
            frames.update({f"{kind}-{name}": self.table(f"{kind}-{name}.csv") for name in tables})
        return frames

    def figure(self, name: str) -> Any:
        """A matplotlib figure of a statistic: "kaplan-meier", curves with their bands and numbers at
        risk; "forest", what groups find of glm or cox alone, against all samples; "histogram", of
        columns by group. Raises ValueError, naming those there are, and FileNotFoundError."""
        from . import statistics_figures, survival_figures
        fit = "cox" if (self.path / "cox-groups.csv").is_file() else "glm"
        figures = {"kaplan-meier": (survival_figures.figure, ["kaplan-meier"]),
                   "forest": (statistics_figures.forest_figure, [f"{fit}-groups", f"{fit}-meta"]),
                   "histogram": (statistics_figures.histogram_figure, ["histogram"])}
        if name not in figures:
            raise ValueError(f"no figure is called '{name}'; there are: {', '.join(figures)}")
        self._refuse_repeats(f"figure('{name}')")
        draw, tables = figures[name]
        return draw(*(self.table(f"{table}.csv") for table in tables))

    def state_dict(self) -> dict[str, numpy.ndarray]:
        """The trained model, see the function of that name."""
        self._refuse_repeats("state_dict()")
        return state_dict(self.path / "model.h5")

    def predict(self, data: pandas.DataFrame | Path, *, client: str | None = None,
                model: str | None = None, unknown: str | None = None) -> pandas.DataFrame:
        """What the run's model says of new data, as `hanse predict` (jobs/predict.md): of a frame,
        whose columns are matched by their names, or of a file or folder of the run's kind. A line a
        sample, with the frame's index: id, the columns that the model does not read, and for classes
        p_NAME, their probabilities, else `predicted`. `client` names whose own tensors, means and
        deviations take part, `model` best, model, averaged or a file; unknown = "missing" takes
        categories that the run does not know as missing. Raises Refused or Failed."""
        import pandas

        from .program import ask
        self._refuse_repeats("predict()")
        options = {"client": client, "model": model, "unknown": unknown}
        words = [f"--{key}={value}" for key, value in options.items() if value is not None]

        def answer(path: Path) -> pandas.DataFrame:
            said = ask("predict", str(self.path), str(path), *words,
                       notices=lambda told: print(told, end="", file=sys.stderr))
            return pandas.read_csv(io.StringIO(said), float_precision="round_trip")

        if not isinstance(data, pandas.DataFrame):
            return answer(data)
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "frame.csv"
            data.to_csv(table, index=False, quoting=csv.QUOTE_NONNUMERIC)
            return answer(table).set_index(data.index)

    def _refuse_repeats(self, what: str) -> None:
        if repeats := self.repeats:
            raise FileNotFoundError(f"{self.path} is a folder of {len(repeats)} repeats; hint: "
                                    f".repeats[0].{what}")


def read(path: Path) -> Run:
    """The Run at `path`. Raises FileNotFoundError when that is no run directory."""
    return Run(path)


def read_several(path: Path) -> dict[str, list[Run]]:
    """{name: runs that differ by their seeds} of a folder of scripts/sweep, of one of its cases, or
    of a folder of repeats. Raises FileNotFoundError when it is none of these."""
    found = places(path)
    return {name: [Run(run) for run in place.runs] for name, place in zip(names(found), found)}


def compare(*paths: Path | Run) -> pandas.DataFrame:
    """A frame with a line a run: what summary.json has, metrics among the columns.

    A folder of repeats, and each case of a sweep's folder, is a line, of its finished runs: `runs`
    says how many these are. Where runs have failed, or there is none yet, the column `failed` has
    the reason, "not ended" without one; cases of a study that have not begun are lines, too. A metric NAME is then their mean and NAME_std their deviation (of a
    sample, n - 1); NAME_n says of how many runs it is where some have no such number.
    target_round_median is the median of the rounds to run.target, infinite where runs that have not
    reached it decide. Columns that are not numbers are empty where the runs differ. Warns when the
    lines have unlike lengths, data or evaluated samples."""
    import pandas
    found = [place for path in paths
             for place in (_places(path.path if isinstance(path, Run) else path))]
    summaries = [[one for run in place.runs if (one := summary_there(run))] for place in found]
    if not any(summaries):
        raise FileNotFoundError(f"{found[0].path} has no summary.json: the run has not finished")
    for line in unlike(summaries):
        warnings.warn(line, stacklevel=2)
    lines = {str(place.path): {**(_line(place, runs) if runs else {"runs": 0}),
                               **_failure(place, runs)} for place, runs in zip(found, summaries)}
    for path in paths:
        for one in [] if isinstance(path, Run) else absent_cases(path):
            lines.setdefault(str(one.folder.parent), {"runs": 0, "failed": one.why or "not begun"})
    return pandas.DataFrame.from_dict(lines, orient="index")


def _failure(place: Place, summaries: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Why runs of a place have no numbers; nothing where all that failed are told, or none has."""
    reasons = dict.fromkeys(why for run in place.runs if summary_there(run) is None
                            and (why := why_failed(run)))
    words = "; ".join(reasons) or ("" if summaries else "not ended")
    return {"failed": words} if words else {}


def _places(path: Path) -> list[Place]:
    found = places(path)
    if len(found) == 1 and not found[0].several:
        read(path)  # refuses what has no job.cfg
    return found


def _line(place: Place, summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not place.several:
        (summary,) = summaries
        plain = {key: value for key, value in summary.items() if not isinstance(value, dict)}
        return {"runs": summary.get("repeats", 1), **plain, **summary["metrics"]}
    line: dict[str, Any] = {"runs": len(summaries)}
    for key, value in summaries[0].items():
        if isinstance(value, (dict, list)):
            continue
        values = [summary.get(key) for summary in summaries]
        alike = all(other == value for other in values)
        line[key] = value if alike else mean_and_deviation(values)[0] if isinstance(
            value, float) else None
    metrics = [summary.get("metrics", {}) for summary in summaries]
    for name in dict.fromkeys(name for one in metrics for name in one):
        values = [one.get(name) for one in metrics]
        line[name], line[f"{name}_std"] = mean_and_deviation(values)
        if None in values:
            line[f"{name}_n"] = sum(value is not None for value in values)
    if read_job(place.runs[0]).get("run.target"):
        values = [one.get("target_round") for one in metrics]
        line.setdefault("target_round", math.nan)
        line.update(target_round_n=sum(value is not None for value in values),
                    target_round_median=median_of_targets(values))
    return line


def state_dict(path: Path) -> dict[str, numpy.ndarray]:
    """{name: array} of a model.h5: float32 tensors in the shapes of the model, and int64 ones that
    it carries. `/row`, the same values once more, is left out."""
    import h5py
    import numpy
    arrays = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset) and name != "row":
            arrays[name] = numpy.asarray(item[()])

    with h5py.File(path) as file:
        file.visititems(add)
    return arrays
