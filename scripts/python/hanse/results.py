"""What a run has left: its tables as pandas frames, its model as a state dict."""
from __future__ import annotations

import io
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import numpy
    import pandas

Path = Union[str, os.PathLike]


class Run:
    """A run directory. Tables are read when they are asked for, and anew each time. They need
    pandas (Debian: python3-pandas)."""

    def __init__(self, path: Path) -> None:
        self.path = pathlib.Path(path)
        if not (self.path / "job.cfg").is_file():
            raise FileNotFoundError(f"{path} is no run directory: it has no job.cfg")

    def __repr__(self) -> str:
        return f"Run('{self.path}')"

    @property
    def job(self) -> dict[str, str]:
        """{"section.key": text} of every option."""
        options, section = {}, ""
        for line in (self.path / "job.cfg").read_text().splitlines():
            line = line.split("#")[0].strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif "=" in line:
                key, value = line.split("=", 1)
                options[f"{section}.{key.strip()}"] = value.strip()
        return options

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json; {} while the run has not finished."""
        path = self.path / "summary.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def table(self, name: str) -> pandas.DataFrame:
        """A CSV file of the run as a frame. Raises FileNotFoundError, naming those there are."""
        import pandas
        path = self.path / name
        if not path.is_file():
            known = ", ".join(sorted(file.name for file in self.path.glob("*.csv")))
            raise FileNotFoundError(f"{self.path} has no {name}; it has: {known}")
        text = path.read_text()
        whole = text[:text.rfind("\n") + 1]  # a run that goes on may be writing the last line
        return pandas.read_csv(io.StringIO(whole))

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
        """The same of those held out."""
        return self._clients(1)

    @property
    def history(self) -> dict[str, pandas.DataFrame]:
        """With evaluate.history = true: {column of clients.csv: frame}, a line an evaluation, a column
        a client; NaN where the evaluation was not of the client."""
        import h5py
        import pandas
        with h5py.File(self.path / "history.h5") as file:
            there = file["round"][:] >= 0
            rounds = pandas.Index(file["round"][:][there], name="round")
            return {name: pandas.DataFrame(file[name][:][there], index=rounds)
                    for name in file if name != "round"}

    def state_dict(self) -> dict[str, numpy.ndarray]:
        """The trained model, see the function of that name."""
        return state_dict(self.path / "model.h5")


def read(path: Path) -> Run:
    """The Run at `path`. Raises FileNotFoundError when that is no run directory."""
    return Run(path)


def compare(*paths: Path | Run) -> pandas.DataFrame:
    """A frame with a line a finished run: what summary.json has, metrics among the columns."""
    import pandas
    lines = {}
    for path in paths:
        run = path if isinstance(path, Run) else read(path)
        summary = run.summary
        if not summary:
            raise FileNotFoundError(f"{run.path} has no summary.json: the run has not finished")
        plain = {key: value for key, value in summary.items() if not isinstance(value, dict)}
        lines[str(run.path)] = {**plain, **summary["metrics"]}
    return pandas.DataFrame.from_dict(lines, orient="index")


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
