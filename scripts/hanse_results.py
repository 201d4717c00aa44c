"""What a run has left, for Python: its tables as pandas frames, its model as a state dict.

    import sys
    sys.path.append("scripts")
    import hanse_results

    run = hanse_results.read("runs/first")
    run.summary["metrics"]["accuracy_mean"]       # also of a run that is still going: {} then
    run.evaluations.plot(x="round", y="accuracy_mean")
    run.clients.sort_values("accuracy").head(10)  # who is served worst, of those that train
    run.held_out["accuracy"].mean()               # clients held out of training stand apart
    run.summary["split"]                          # evaluated on test or on training samples
    run.table("sampling.csv")                     # any table of the run directory
    hanse_results.compare("runs/first", "runs/other")[["accuracy_mean", "accuracy_worst10"]]

    arrays = hanse_results.state_dict("runs/first/model.h5")          # {name: numpy array}
    net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})

Needs pandas for the tables and h5py for the model (Debian: python3-pandas, python3-h5py).
"""
import io
import json
import pathlib


class Run:
    """A run directory. Tables are read when they are asked for, and anew each time."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        if not (self.path / "job.cfg").is_file():
            raise FileNotFoundError(f"{path} is no run directory: it has no job.cfg")

    def __repr__(self):
        return f"Run('{self.path}')"

    @property
    def job(self):
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
    def summary(self):
        """summary.json; {} while the run has not finished."""
        path = self.path / "summary.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def table(self, name):
        """A CSV file of the run as a frame. Raises FileNotFoundError, naming those there are."""
        import pandas
        path = self.path / name
        if not path.is_file():
            known = ", ".join(sorted(file.name for file in self.path.glob("*.csv")))
            raise FileNotFoundError(f"{self.path} has no {name}; it has: {known}")
        text = path.read_text()
        whole = text[:text.rfind("\n") + 1]  # a run that goes on may be writing the last line
        return pandas.read_csv(io.StringIO(whole))

    rounds = property(lambda self: self.table("rounds.csv"), doc="A line a round.")
    evaluations = property(lambda self: self.table("evaluations.csv"), doc="A line an evaluation.")

    def _clients(self, held_out):
        clients = self.table("clients.csv")
        return clients[clients["held_out"] == held_out].reset_index(drop=True)

    clients = property(lambda self: self._clients(0), doc="""A line a client, at the end: its name,
        split (evaluated on its test or its train samples), samples, loss, accuracy. Clients held
        out of training are not among them.""")
    held_out = property(lambda self: self._clients(1), doc="The same of those held out.")

    def state_dict(self):
        """The trained model, see the function of that name."""
        return state_dict(self.path / "model.h5")


def read(path):
    """The Run at `path`. Raises FileNotFoundError when that is no run directory."""
    return Run(path)


def compare(*paths):
    """A frame with a line a finished run: what summary.json has, metrics among the columns."""
    import pandas
    lines = {}
    for path in paths:
        summary = read(path).summary
        if not summary:
            raise FileNotFoundError(f"{path} has no summary.json: the run has not finished")
        plain = {key: value for key, value in summary.items() if not isinstance(value, dict)}
        lines[str(path)] = {**plain, **summary["metrics"]}
    return pandas.DataFrame.from_dict(lines, orient="index")


def state_dict(path):
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
