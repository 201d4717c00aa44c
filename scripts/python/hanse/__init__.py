"""Hanse from Python: start runs, read their results, write federations, try rules of your own.

    import hanse

    run = hanse.run("first.cfg", {"client.lr": 0.1}, ranks=4)
    run.evaluations.plot(x="round", y="accuracy_mean")
    run.predict(frame)  # what its model says of new rows
    hanse.compare("runs/first", run.path)[["accuracy_mean", "accuracy_worst10"]]
    hanse.compare_clients("runs/first", run.path)  # who gains, who loses

    study = hanse.sweep("first.cfg", {"client.lr": [0.1, 0.03]}, seeds=5)
    study.means(["accuracy_mean"], against={"client.lr": 0.1})

    hanse.write_federation("mine.h5", {"north": (x, y), "south": (x2, y2)}, classes=["no", "yes"])
    hanse.write_table("visits.h5", frame, client="clinic", label="ill", missing="mean")
    keys = hanse.export(torch_module, sample, "model.graph")  # a job's keys that train it
    hanse.rule_test(MyRule, "runs/first/trace-aggregator.json")

The package starts the program `hanse`: that of the variable HANSE_PROGRAM, of the checkout that the
package lies in, or of PATH. It needs numpy and h5py, pandas for tables of results,
scipy for intervals and tests, and pyarrow for files of Parquet and Arrow.
"""
import pathlib

from .comparing import compare_clients
from .errors import Failed, HanseError, Refused, Stopped
from .exporting import export
from .federation import write_federation
from .program import find_program, plan, replay, resume, run, status
from .results import Run, compare, read, read_several, state_dict
from .rule_test import Impure, rule_test
from .studies import Study
from .sweeps import read_study, sweep
from .tables import clients_of_table, write_table

__all__ = ["Failed", "HanseError", "Impure", "Refused", "Run", "Stopped", "Study",
           "clients_of_table", "compare", "compare_clients", "export", "find_program", "plan",
           "read", "read_several", "read_study", "replay", "resume", "rule_test", "run", "state_dict",
           "status", "sweep", "write_federation", "write_table"]
__version__ = pathlib.Path(__file__).with_name("version.txt").read_text().strip()


def __dir__() -> list[str]:
    """What is public; the modules that these names come from are not."""
    return [*__all__, "__version__"]
