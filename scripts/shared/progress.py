"""How far runs are, as `hanse status` tells it, and why those ended that did not get there."""
import pathlib
import types

from hanse.folders import why_failed
from hanse.program import status

UNKNOWN = dict.fromkeys(("of_rounds", "rounds_per_second", "seconds_left", "metric", "value"))
STATES = ("running", "failed", "stopped", "done")
RUN_FILES = ("job.cfg", "rounds.csv", "lock")  # by which a folder is a run


def described(folder, found):
    """What `hanse status` has `found`, and `why` the run does not go on."""
    state, why = found["state"], found.get("error", "")
    if state == "stopped" and (why := why_failed(folder)):
        state = "failed"
    elif state == "stopped" and (folder / "lock").exists():
        why = "it was killed, or its host has gone; hanse resume goes on"
    return types.SimpleNamespace(**{**UNKNOWN, **found, "state": state, "why": why})


def progress_of(folders):
    """{folder: what hanse.status() says} of these runs, as attributes, by one call of the program.
    Raises Refused where there is no program."""
    folders = [pathlib.Path(folder) for folder in folders]
    begun = [folder for folder in folders if any((folder / name).exists() for name in RUN_FILES)]
    found = dict(zip(begun, status(*begun))) if begun else {}
    return {folder: described(folder, found.get(folder, {"state": "stopped", "rounds": 0}))
            for folder in folders}
