"""What the scripts share that run many jobs: the program, and tables."""
import functools
import os
import pathlib

from hanse import files
from hanse.folders import why_failed
from hanse.program import STOPPED, Refused, find_program, mpirun  # noqa: F401
from hanse.study_files import Case  # noqa: F401
from hanse.sweeps import Sweep, processors  # noqa: F401

from shared.summaries import mean_text, two_digits

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program_of(path):
    """The program of that path, whole. Raises Refused where there is none."""
    if not os.access(path, os.X_OK):
        raise Refused(f"{path}: no such program; hint: scripts/build hanse")
    return path.resolve()


# -- the table

def number_text(value, percent=False, sign=""):
    value = 0.0 if abs(value) < 1e-12 else value  # what rounding left of nothing
    return f"{100 * value:{sign}.2f} %" if percent else f"{value:{sign}.4g}"


def cell_text(values, percent):
    """84.12 % (0.31), or 0.4512 (0.0034); where some runs lack the number, how many have it."""
    return mean_text(values, functools.partial(number_text, percent=percent),
                     None if percent else two_digits)


def runs_text(done, seeds, diverged=0, failed=0):
    """How many runs of a case have ended, of how many, how many of them have diverged, and how many
    of the others have failed."""
    ended = str(done) if done == seeds else f"{done} of {seeds}"
    return ", ".join([ended, *[f"{diverged} diverged"] * bool(diverged),
                      *[f"{failed} failed"] * bool(failed)])


def widths_of(lines):
    return [max(len(str(line[i])) for line in lines) for i in range(len(lines[0]))]


def text_tables(head, rows, room, texts=1):
    """Aligned columns in as many tables as keep within `room` letters; the first `texts` columns hold
    words and stand in each."""
    lines = [head, *rows]
    widths = [width + 2 for width in widths_of(lines)]
    first = used = sum(widths[:texts]) - 2
    parts = [[]]
    for column, width in enumerate(widths[texts:], texts):
        if parts[-1] and used + width > room:
            parts.append([])
            used = first
        parts[-1].append(column)
        used += width
    cut = [[[line[i] for i in (*range(texts), *part)] for line in lines] for part in parts]
    return "\n\n".join(text_table(top, below, texts) for top, *below in cut)


def aligned(lines, words):
    """Lines of cells with their columns aligned, those of these numbers as words."""
    widths = widths_of(lines)
    return ["  ".join(str(c).ljust(width) if i in words else str(c).rjust(width)
                      for i, (c, width) in enumerate(zip(line, widths))).rstrip() for line in lines]


def text_table(head, rows, texts=1):
    """The same for a terminal, below a head."""
    lines = aligned([head, *rows], range(texts))
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def markdown_table(head, rows, texts=1):
    """The first `texts` columns hold words, the others numbers."""
    lines = [head, ["---" if i < texts else "---:" for i in range(len(head))], *rows]
    return "".join("| " + " | ".join(str(c).replace("|", r"\|") for c in line) + " |\n"
                   for line in lines)


def write_table(out, head, rows):
    """table.csv and table.md."""
    files.write_table(out / "table.csv", [head, *rows])
    files.write_whole(out / "table.md", markdown_table(head, rows))


def write_runs(sweep):
    """A line a finished run, with every metric that a run has; of a failed one the error."""
    found = [(task, task.summary() or {}) for task in sweep.tasks]
    errors = {task.folder: why_failed(task.folder) for task, summary in found if not summary}
    found = [(task, summary) for task, summary in found if summary or errors[task.folder]]
    names = dict.fromkeys(name for _, summary in found for name in summary.get("metrics", {}))
    diverges = any("diverged" in summary for _, summary in found)
    keys = ["rounds", "seconds", "model_digest", "data_digest", "split"]
    files.write_table(sweep.out / "runs.csv", [
        ["case", "seed", *keys, *(["diverged"] if diverges else []), *names,
         *(["failed"] if any(errors.values()) else [])],
        *([task.case.name, task.seed, *map(summary.get, keys),
           *([summary.get("diverged", {}).get("round")] if diverges else []),
           *map(summary.get("metrics", {}).get, names),
           *([errors.get(task.folder)] if any(errors.values()) else [])] for task, summary in found)])
