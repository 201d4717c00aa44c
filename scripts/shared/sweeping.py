"""What the scripts share that run many jobs: their options, tables, and the study of a folder."""
import csv
import os
import pathlib
import re
import signal
import sys

from hanse.files import replacing, write_whole
from hanse.folders import read_job
from hanse.program import STOPPED, Refused, find_program, mpirun  # noqa: F401
from hanse.studies import read_folder
from hanse.study_files import Case, refuse_own  # noqa: F401
from hanse.sweeps import Sweep, processors  # noqa: F401

from shared.summaries import BadRun, Column, mean_text, two_digits

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program_of(path):
    """The program of that path, whole. Raises Refused where there is none."""
    if not os.access(path, os.X_OK):
        raise Refused(f"{path}: no such program; hint: scripts/build hanse")
    return path.resolve()


def read_common(words, script, who, how):
    """The --section.key=value words among those that the script's argparse does not know."""
    common = {}
    for word in words:
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals or "." not in key:
            raise Refused(f"unknown option '{word}'; hint: scripts/{script} --help")
        refuse_own(key, who, how)
        common[key] = value
    return common


def require_positive(options, *names):
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise Refused(f"--{name} {value}: at least 1 is needed")


def ending_quietly(main, *arguments):
    """The status of main(*arguments), which prints what was asked for; no complaint where the reader, such as
    head, wants no more of it."""
    try:
        status = main(*arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush
        return 128 + signal.SIGPIPE


def as_called(text):
    """The text with the names of scripts where they lie: in an installation, which has no
    scripts/build, scripts/plot is hanse-plot."""
    scripts = ROOT / "scripts"
    if (scripts / "build").exists():
        return text
    return re.sub(r"scripts/([a-z-]+)",
                  lambda name: f"hanse-{name[1]}" if (scripts / name[1]).is_file() else name[0], text)


# -- the table

def column_of_case(sweep, case):
    """A case's finished runs, as a column of a table."""
    own = [task for task in sweep.tasks if task.case is case]
    found = [task.summary() for task in own]
    return Column([summary for summary in found if summary], len(own),
                  any(read_job(task.folder).get("run.target") for task in own))


def cell_text(values, percent, missing="-"):
    """84.12 % (0.31), or 0.4512 (0.0034); where some runs lack the number, how many have it."""
    def show(value):
        value = 0.0 if abs(value) < 1e-12 else value  # what rounding left of nothing
        return f"{100 * value:.2f} %" if percent else f"{value:.4g}"
    return mean_text(values, show, None if percent else two_digits, missing)


def runs_text(done, seeds, diverged=0):
    """How many runs of a case have ended, of how many, and how many of them have diverged."""
    ended = done if done == seeds else f"{done} of {seeds}"
    return f"{ended}, {diverged} diverged" if diverged else ended


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


def aligned(lines, texts=1):
    """Lines of cells with their columns aligned; the first `texts` hold words."""
    widths = widths_of(lines)
    return ["  ".join(str(c).ljust(width) if i < texts else str(c).rjust(width)
                      for i, (c, width) in enumerate(zip(line, widths))).rstrip() for line in lines]


def text_table(head, rows, texts=1):
    """The same for a terminal, below a head."""
    lines = aligned([head, *rows], texts)
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def markdown_table(head, rows, texts=1):
    """The first `texts` columns hold words, the others numbers."""
    lines = [head, ["---" if i < texts else "---:" for i in range(len(head))], *rows]
    return "".join("| " + " | ".join(str(c).replace("|", r"\|") for c in line) + " |\n"
                   for line in lines)


def write_table(out, head, rows):
    """table.csv and table.md."""
    with replacing(out / "table.csv") as whole, open(whole, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    write_whole(out / "table.md", markdown_table(head, rows))


def write_runs(sweep):
    """A line a finished run, with every metric that a run has."""
    found = [(task, task.summary()) for task in sweep.tasks]
    found = [(task, summary) for task, summary in found if summary]
    names = dict.fromkeys(name for _, summary in found for name in summary.get("metrics", {}))
    diverges = any("diverged" in summary for _, summary in found)
    with replacing(sweep.out / "runs.csv") as whole, open(whole, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "seed", "rounds", "seconds", "model_digest", "data_digest",
                         "split", *(["diverged"] if diverges else []), *names])
        for task, summary in found:
            writer.writerow([task.case.name, task.seed,
                             *(summary.get(key, "") for key in ("rounds", "seconds", "model_digest",
                                                                "data_digest", "split")),
                             *([summary.get("diverged", {}).get("round", "")] if diverges else []),
                             *(summary.get("metrics", {}).get(name, "") for name in names)])


# -- the study of a folder

def study_of(folder):
    """The study that lies in a folder, finished or running; None where none does.

    It has `title`; `keys`, what tells its cases apart; `cases`, in the order of the file, each with
    `name` and `values`, {key: text}; `seeds`, those each case is to have; `runs(case)`, {seed: run
    directory} of those begun; and `table["report"]`, what the file's [report] says. Raises BadRun
    where the file cannot be read."""
    try:
        return read_folder(folder)
    except Refused as refused:
        raise BadRun(str(refused)) from None
