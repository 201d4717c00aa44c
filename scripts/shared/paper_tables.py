"""Tables of papers, scripts/reproductions/NAME.toml: what they say, how they are cut and tuned, and
their numbers. The files have the form of studies (hanse/study_files.py), and more:

  title, job, note, seeds, first-seed (1), time (of all of it on 2 cores), default (the setting that
              is run when none is named; "whole" is all of it)
  set         options of every run; `quick` are those of --quick
  rows        name, set (options), paper (a text for each column, "" where it has no number; of a row
              of parts {PART = [TEXT, ...]}), grid, base (the
              row that its factors are of), worst and best ({KEY = [VALUE, ...]}: each of their
              combinations runs, and the row's number is the largest over `best` of the least over
              `worst`),
              may-diverge = true (a run that diverges is a result, and no failure of the table's; of
              a row of parts true for all, or a list of parts)
  columns     label, metric (of evaluations.csv or of `file`; of summary.json its metrics), at (a
              round), from (a round, of which on the number is the mean) or sum ("x" or "-log1p", of
              the numbers of all rounds), where ({COLUMN = TEXT}, of the file's lines), slowest (the
              share of the clients with the longest work on the virtual clock, over which a metric of
              clients.csv has its mean), times, scale = "percent" or
              "log"; or in the place of these
              to = "METRIC>=VALUE", the round of the first evaluation that reaches it, and with
              factor = true how many times these rounds the row `base` takes; or purity = "COLUMN" of
              clients.csv, the share of the clients whose group, the name up to its first "-", is
              the most frequent one among those of the same value
  [data]      what no package brings: name, get (from where), path (under the folder of --all), file
              (which must be there), prepare (a function of prepared_data.py); without a name what is
              only prepared; data = "NAME" are those of another table

A row's grid, {KEY = [VALUE, ...]}, is the product of its keys. Each point runs once, with the first
seed and the options of [tuning]; the best is the row's.

  [tuning]    metric (as in a column; larger is better), smaller = true, at, set: options by which
              runs are judged on validation samples and see no test samples

  [settings.NAME]   what a table is cut to: seeds, set, time, rows (their names), note, tuning (more
              options of a grid's runs), and grids: "off", where a row's `set` stands, or other lists
              for some keys
"""
import itertools
import json
import math
import pathlib
import re
import statistics

from hanse.folders import read_rows
from hanse.studies import Target, evaluations_of
from hanse.study_files import read_file

from shared import sweeping
from shared.prepared_data import PREPARED
from shared.sweeping import ROOT, Case, Refused, Sweep

DIVERGED = "is not finite or above"  # in the program's message
SUMMED = {"x": lambda x: x, "-log1p": lambda x: -math.log1p(x)}
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "reproductions"


def names():
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name):
    """The table of that name."""
    if name not in names():
        raise Refused(f"no table '{name}'; hint: known are {', '.join(names())}")
    table = read_file(FOLDER / f"{name}.toml")
    if isinstance(table.get("data"), str):
        table["data"] = read(table["data"])["data"]
    return table


# -- settings

def settings_of(table):
    """The settings by name; every table has `quick`, and one with a default has `whole`."""
    return {**({"whole": {}} if "default" in table else {}), **table.get("settings", {}),
            "quick": {"seeds": 1, "set": table["quick"], "grids": "off",
                      "note": "quick: one seed of few rounds; these numbers say nothing."}}


def cut(table, name):
    """The table as a setting has it."""
    settings = settings_of(table)
    if name not in settings:
        raise Refused(f"no setting '{name}'; hint: known are {', '.join(settings)}")
    setting = settings[name]
    grids = setting.get("grids", {})
    rows = [{**row, "grid": {} if grids == "off" else
             {key: grids.get(key, values) for key, values in row.get("grid", {}).items()}}
            for row in table["rows"] if row["name"] in setting.get("rows", [row["name"]])]
    tuning = table.get("tuning", {})
    return {**table, "rows": rows, "seeds": setting.get("seeds", table["seeds"]),
            "time": setting.get("time", table["time"]),
            "set": {**table.get("set", {}), **setting.get("set", {})},
            "tuning": {**tuning, "set": {**tuning.get("set", {}), **setting.get("tuning", {})}},
            "note": " ".join([table["note"].strip(), setting.get("note", "")]).strip()}


def points_of(row):
    """The options of each point of its grid, in the grid's order; none without a grid."""
    grid = row.get("grid")
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())] if grid else []


def members_of(row):
    """The options of each run of a row and seed: lists of those among which the worst counts, and of
    such lists the best."""
    def combinations(key):
        choices = row.get(key, {})
        return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]
    return [[{**best, **worst} for worst in combinations("worst")]
            for best in combinations("best")]


def runs_of(table, seeds=None):
    return (sum(len(cases_of(row)) for row in table["rows"]) * (seeds or table["seeds"])
            + sum(len(points_of(row)) for row in table["rows"]))


def finished_in(out):
    """How many runs of a table are there, those of grids among them."""
    return sum(1 for part in (out, out / "tuning") for _ in part.glob("*/seed-*/summary.json"))


def seconds_of(table, seeds=None, cores=2, finished=0):
    """Seconds for the runs that are not finished, from the table's `time`, "40 minutes"; a minute
    where that is not said so."""
    found = re.fullmatch(r"(\d+) (second|minute|hour)s?", table["time"])
    whole = int(found[1]) * {"second": 1, "minute": 60, "hour": 3600}[found[2]] if found else 60
    missing = max(0, runs_of(table, seeds) - finished)
    return whole * missing / runs_of(table) * 2 / min(2, cores)


def pace_of(times):
    """How many times as long as told tables take here, at least 1; `times` has what was told of
    each and what it took. Tables of less than a minute mostly start programs."""
    told, taken = (sum(column) for column in zip((0, 0), *(one for one in times if one[0] >= 60)))
    return max(1.0, taken / told) if told else 1.0


# -- data

def find_data(table, given, out):
    """Options that name the data. Refuses, and says where it comes from, when it is not there."""
    data = table.get("data", {})
    prepare = PREPARED[data["prepare"]] if "prepare" in data else None
    if "name" not in data:
        if given:
            raise Refused("--data: this table brings its own data")
        return prepare(None, out, data) if prepare else {}
    if not given:
        raise Refused(f"needs {data['name']}; hint: {data['get']}, then --data PATH")
    path = given / data["file"] if "file" in data else given
    if not any(p.exists() for p in (path, path.with_name(path.name + ".gz"))):
        raise Refused(f"{path} is missing; hint: {data['get']}")
    return prepare(given, out, data) if prepare else {"data.path": given}


# -- runs

def seeds_of(table, seeds):
    first = table.get("first-seed", 1)
    return range(first, first + seeds)


def text_of(point):
    return ", ".join(f"{key} = {value}" for key, value in point.items())


def case_of(row, member=None):
    """The choice is in the name, and so in the folder: another choice has other runs."""
    name = ", ".join([row["name"], *([row["tuned"]] if "tuned" in row else []),
                      *([text_of(member)] if member else [])])
    return Case(name, {**row.get("set", {}), **(member or {})})


def cases_of(row):
    return [case_of(row, member) for members in members_of(row) for member in members]


def sweep_of(table, seeds, common, out):
    """The runs of the rows; those whose grid has failed have none."""
    return Sweep(out, ROOT / table["job"],
                 [case for row in table["rows"] if not row.get("failed") for case in cases_of(row)],
                 seeds_of(table, seeds), common)


def failures_of(table, sweep):
    """The failures of the sweep that the table does not allow."""
    may = tuple(f"{case.name}, " for row in table["rows"] if row.get("may-diverge")
                for case in cases_of(row))
    return [text for text in sweep.failures if not (text.startswith(may) and DIVERGED in text)]


def grids_of(table, common, out):
    """The runs of the grids, a case for each point."""
    options = table.get("tuning", {}).get("set", {})
    return Sweep(out / "tuning", ROOT / table["job"],
                 [Case(f"{row['name']}, {text_of(point)}",
                       {**row.get("set", {}), **options, **point})
                  for row in table["rows"] for point in points_of(row)],
                 seeds_of(table, 1), common)


def choose(table, grids):
    """The table whose rows have the best points of their grids, from the runs of all points: `set`,
    `tuned`, a text, and `failed` where no point has a number. A point without one is worst; the
    first of equals is chosen."""
    tuning = table["tuning"]
    tasks = {task.case.name: task for task in grids.tasks}
    rows = []
    for row in table["rows"]:
        points = points_of(row)
        values = [value_of(tasks[f"{row['name']}, {text_of(point)}"], tuning) for point in points]
        known = [(-value if tuning.get("smaller") else value, -i)
                 for i, value in enumerate(values) if value is not None]
        if known:
            best = points[-max(known)[1]]
            failed = len(points) - len(known)
            row = {**row, "set": {**row.get("set", {}), **best},
                   "tuned": text_of(best) + (f" ({failed} of {len(points)} failed)" if failed
                                             else "")}
        elif points:
            row = {**row, "failed": True, "tuned": f"all {len(points)} failed"}
        rows.append(row)
    return {**table, "rows": rows}


# -- numbers

def counts(line, column):
    """Is the column's number of this line of a file?"""
    if any(line[key] != text for key, text in column.get("where", {}).items()):
        return False
    if "from" in column:
        return int(line["round"]) >= column["from"]
    return "at" not in column or int(line["round"]) == column["at"]


def texts_of(folder, column):
    """What a column's number is made of, as texts: of a file's lines, or of summary.json."""
    name = column.get("file", "evaluations.csv")
    if name == "summary.json":
        return [json.loads((folder / name).read_text())["metrics"][column["metric"]]]
    lines = read_rows(folder / name)
    if "slowest" in column:
        slow = slowest_of(folder, column["slowest"])
        lines = [line for line in lines if line["client"] in slow]
    return [line[column["metric"]] for line in lines if counts(line, column)]


def purity_of(folder, column):
    """How well the values of a column of clients.csv tell the groups of the clients apart."""
    groups = {}
    for line in read_rows(folder / "clients.csv"):
        if line.get(column):
            groups.setdefault(line[column], []).append(line["name"].partition("-")[0])
    most = sum(max(map(own.count, set(own))) for own in groups.values())
    return most / sum(map(len, groups.values()))


def slowest_of(folder, share):
    """The share of the drawn clients whose work takes longest on the virtual clock."""
    seconds = {line["client"]: float(line["seconds"])
               for line in read_rows(folder / "participation.csv") if line["seconds"]}
    ordered = sorted(seconds, key=lambda client: (-seconds[client], int(client)))
    return set(ordered[:math.ceil(share * len(ordered) - 1e-9)])


def value_of(task, column):
    """A run's number: from a file's last line or round `at`, the mean `from` a round on or over the
    `slowest` clients, a sum, or the round `to` a level; None when it has none, or no finite one."""
    if "to" in column:
        target = Target.of(column["to"])
        found = target.first(evaluations_of(task.folder), target.levels[0])
        return found and float(found["round"])
    try:
        texts = [] if "purity" in column else texts_of(task.folder, column)
        if "purity" in column:
            value = purity_of(task.folder, column["purity"])
        elif "sum" in column:
            value = math.fsum(SUMMED[column["sum"]](float(text)) for text in texts)
        elif "from" in column or "slowest" in column:
            value = statistics.fmean(map(float, filter(None, texts)))
        else:
            value = float(texts[-1])
    except (OSError, IndexError, KeyError, ValueError, ZeroDivisionError,
            statistics.StatisticsError):
        return None
    value *= column.get("times", 1)
    if column.get("scale") == "log":
        return math.log(value) if value > 1e-9 else None  # less is what rounding leaves of nothing
    return value if math.isfinite(value) else None


def numbers_of(table, sweep):
    """Our numbers, [rows][columns][finished runs], None where a run has none; and how many runs of
    each row have finished, of all members of a seed."""
    tasks = {(task.case.name, task.seed): task for task in sweep.tasks if task.summary()}

    def of_members(row, seed):
        """The row's tasks of a seed, as members_of(); None when one has not finished."""
        found = [[tasks.get((case_of(row, member).name, seed)) for member in members]
                 for members in members_of(row)]
        return None if any(None in members for members in found) else found

    done = [[seed for seed in sweep.seeds if of_members(row, seed)] for row in table["rows"]]
    rows = {row["name"]: row for row in table["rows"]}

    def value(row, seed, column):
        values = [[value_of(task, column) for task in members] for members in of_members(row, seed)]
        if any(None in members for members in values):
            return None
        return max(min(members) for members in values)

    def number(row, seed, column):
        if not column.get("factor"):
            return value(row, seed, column)
        base = rows.get(row.get("base"))
        if base is None or of_members(base, seed) is None:
            return None
        values = [value(base, seed, column), value(row, seed, column)]
        return None if None in values else values[0] / values[1]
    return [[[number(row, seed, column) for seed in own] for column in table["columns"]]
            for row, own in zip(table["rows"], done)], list(map(len, done))


def lines_of(table, sweep, apart=None):
    """Head and rows: what was tuned, ours, and the paper's where it has a number of that column; with
    `apart` (paper_page) also how far ours is from it."""
    columns = table["columns"]
    printed = [any(row.get("paper", [""] * len(columns))[i] for row in table["rows"])
               for i in range(len(columns))]
    tuned = any("tuned" in row for row in table["rows"])
    head = ["", *(["tuned"] if tuned else []), "runs"]
    for column, has_paper in zip(columns, printed):
        head += [column["label"], *(["paper"] if has_paper else []),
                 *(["ours - paper"] if has_paper and apart else [])]
    lines = []
    for row, own, runs in zip(table["rows"], *numbers_of(table, sweep)):
        cells = [row["name"], *([row.get("tuned", "-")] if tuned else []),
                 sweeping.runs_text(runs, len(sweep.seeds))]
        for i, (column, numbers) in enumerate(zip(columns, own)):
            percent = column.get("scale") == "percent"
            cells.append(sweeping.cell_text(numbers, percent))
            if printed[i]:
                text = row["paper"][i] if "paper" in row else ""
                cells += [text or "-", *([apart(text, numbers, percent)] if apart else [])]
        lines.append(cells)
    return head, lines
