"""How far runs are, as `hanse status` tells it, and why those ended that did not get there."""
import dataclasses
import pathlib

from hanse.program import status

STATES = ("running", "failed", "stopped", "done")
RUN_FILES = ("job.cfg", "rounds.csv", "lock")  # by which a folder is a run


@dataclasses.dataclass(frozen=True)
class Progress:
    """`rounds` of `rounds_in_all`, `rate` a second over the last ones, and the seconds left (None
    where nothing tells); what the run is about, `metric`, and its newest value; `why` it failed or
    was killed."""
    state: str
    rounds: int = 0
    rounds_in_all: int = 0
    rate: float | None = None
    left_s: float | None = None
    metric: str = ""
    value: float | None = None
    why: str = ""


def last_words(folder):
    """The error at the end of a run's log in a sweep."""
    try:
        lines = folder.with_name(f"{folder.name}.log").read_text(errors="replace").strip()
    except OSError:
        return ""
    _, error, words = lines.rpartition("\n")[2].partition("error: ")
    return words if error else ""


def described(folder, found):
    """What `hanse status` has `found`, with why the run does not go on."""
    state, why = found["state"], found.get("error", "")
    if state == "stopped" and (why := last_words(folder)):
        state = "failed"
    elif state == "stopped" and (folder / "lock").exists():
        why = "it was killed, or its host has gone; hanse resume goes on"
    return Progress(state, found["rounds"], found["of_rounds"] or 0, found["rounds_per_second"],
                    found["seconds_left"], found["metric"] or "", found["value"], why)


def progress_of(folders):
    """{folder: Progress} of these runs, by one call of the program. Raises Refused where there is no
    program."""
    folders = [pathlib.Path(folder) for folder in folders]
    begun = [folder for folder in folders if any((folder / name).exists() for name in RUN_FILES)]
    found = dict(zip(begun, status(*begun))) if begun else {}
    none = {"state": "stopped", "rounds": 0, "of_rounds": None, "rounds_per_second": None,
            "seconds_left": None, "metric": None, "value": None}
    return {folder: described(folder, found.get(folder, none)) for folder in folders}
