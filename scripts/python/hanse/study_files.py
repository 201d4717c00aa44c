"""A study as a TOML file: one job, what varies between its cases, and seeds. The file goes with the
results, as study.toml.

  title       what it is called (the file's name)
  job         a job file: beside the study, else from the working directory, else in the checkout
  seeds       how many runs each case has (1); first-seed is run.seed of the first of them (1)
  ranks       of a run (1)
  set         {KEY = VALUE}, options of every run
  rows        [{name = "a name", set = {KEY = VALUE}}, ...], cases by name; without them
  parts       rows that others are made of: a row with each = true is one row for each of them, with
              each = [NAME, ...] for these, with what both say; "{}" in its name is the part's name.
              With each = {KEY = [VALUE, ...]} it is one for each value
  like        the name of another study's file beside it, which says all that this one does not
  change      [{name = ..., ...}, ...]: changes the rows of these names, with `like` as the other file
              has them: `set` is on top of theirs
  [vary]      KEY = [VALUE, ...]: a case for every combination; method = ["fedavg", "fedadam"]
              chooses methods by name. A value that is a list is one with commas
              A value log:A..B, uniform:A..B or whole:A..B (whole numbers) is a range, for:
  random      how many cases are drawn, each value for itself from its range or list; random-seed
              (1) numbers other draws. More of them go on with the same draws
  cases       [{KEY = VALUE, ...}, ...], these alone, in the place of every combination
  search      "halving", and budget, how many whole runs it may cost (searching.py)
  [report]    metrics = [NAME, ...], against = ["KEY=VALUE", ...], pivot = KEY,
              to = "METRIC>=VALUE,VALUE", by = "bytes", latex = true, caption = "...",
              name = ["WHAT=TEXT", ...]: the options of scripts/sweep;
              sites = true: the table of scripts/sweep --sites

The tables of scripts/reproduce have this form too, and more (scripts/shared/paper_tables.py).
"""
from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .errors import Refused
from .folders import Path, numbered, read_job

# The folder with jobs, data and scripts: of a checkout or an installation, or of a wheel beside this
# package.
WHEEL = pathlib.Path(__file__).resolve().parents[1] / "hanse_program" / "share" / "hanse"
CHECKOUT = WHEEL if WHEEL.exists() else pathlib.Path(__file__).resolve().parents[3]
FILE = "study.toml"  # in the folder of the runs
SEARCH = "search.toml"  # the same of a search, whose runs lie in folders of that folder
KEYS = ("title", "job", "seeds", "first-seed", "ranks", "set", "rows", "parts", "vary", "report",
        "like", "change", "random", "random-seed", "cases", "search", "budget")
RANGE = re.compile(r"(log|uniform|whole):([^.]+(?:\.\d+)?(?:e[+-]?\d+)?)\.\.(.+)")
# Those of the tables of papers.
MORE_KEYS = ("note", "time", "default", "columns", "quick", "data", "tuning", "settings")
OWN_KEYS = ("run.seed", "run.out", "run.overwrite")  # of each run: a study sets them
REPORT_KEYS = ("metrics", "against", "pivot", "to", "by", "latex", "caption", "name", "sites")
# Methods by the names of their papers, for method = [...]: the options in which they differ.
PLAIN = {"run.protocol": "federated", "aggregator.kind": "fedavg", "client.update": "sgd",
         "server.optimizer": "sgd", "server.lr": "1", "server.lr-decay": "1"}
ADAPTIVE = {key: PLAIN[key] for key in ("run.protocol", "aggregator.kind", "client.update")}
METHODS = {"fedavg": PLAIN, "fedprox": {**PLAIN, "client.update": "prox"},
           **{name: {**PLAIN, "client.update": name}
              for name in ("fednova", "feddyn", "scaffold", "ditto")},
           "fedavgm": {**ADAPTIVE, "server.optimizer": "momentum"},
           **{f"fed{name}": {**ADAPTIVE, "server.optimizer": name}
              for name in ("adam", "yogi", "adagrad")}}
ROW = "row"  # the key of a case by name
KINDS = ("run.protocol", "aggregator.kind", "client.update", "server.optimizer")


@dataclasses.dataclass
class Case:
    """One row of the table: a name, the options that make it, the words before the program where
    they are not those of the sweep, and {key: text} what tells it from the other cases."""
    name: str
    options: dict
    launch: list | None = None
    values: dict[str, str] = dataclasses.field(default_factory=dict)

    def folder(self) -> str:
        """Of this case alone: where the name has signs that no folder gets, its digest is behind."""
        plain = self.plain_folder()
        if plain == (self.name or "base"):
            return plain
        return f"{plain}~{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"

    def plain_folder(self) -> str:
        """The same without a digest, which several cases may share."""
        return "".join(c if c.isalnum() or c in "=.,-+" else "_" for c in self.name) or "base"

    def folder_in(self, out: Path) -> pathlib.Path:
        """Where its runs lie or are to lie. Studies of before had plain folders: runs there go on if
        their jobs have this case's options."""
        own, before = (pathlib.Path(out) / name for name in (self.folder(), self.plain_folder()))
        if own == before or own.is_dir():
            return own
        jobs = [read_job(run) for run in numbered(before, "seed-")]
        ours = all(job and self.agrees(job) for job in jobs)
        return before if jobs and ours else own

    def agrees(self, job: Mapping[str, str]) -> bool:
        """Does a run's job have the options of this case, as far as it names them?"""
        return all(alike(job.get(key, value), value) for key, value in self.options.items())


def alike(one: str, other: str) -> bool:
    """The same text, or the same numbers, one or several with commas."""
    def plain(text: str) -> list[Any]:
        return [_number_or_text(part.strip()) for part in str(text).split(",")]
    return str(one) == str(other) or plain(one) == plain(other)


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


# -- the file

def read_file(path: Path) -> dict[str, Any]:
    """A study's file as a dictionary: keys of options are whole ("client.lr"), their values texts.
    Raises Refused, in a line, for what is no study."""
    table = _read(pathlib.Path(path))
    try:
        if isinstance(table.get("rows"), list):
            table = {**table, "rows": _rows_of(table)}
        return _checked(table)
    except Refused as refused:
        raise Refused(f"{path}: {refused}") from None


def _read(path: pathlib.Path, likes: Sequence[pathlib.Path] = ()) -> dict[str, Any]:
    """What the file says, and the one that it is like."""
    try:
        import tomllib
    except ImportError:
        raise Refused(f"{path}: studies need Python 3.11; hint: give the options instead") from None
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if "like" in table:
        if path in likes:
            raise Refused(f"{path}: it is like itself")
        table = {**_read(path.with_name(f"{table['like']}.toml"), [*likes, path]), **table}
    rows = {row.get("name"): row for row in table.get("rows", []) if isinstance(row, dict)}
    for row in table.pop("change", []):
        name = row.get("name") if isinstance(row, dict) else row
        if not isinstance(row, dict) or name not in rows:
            raise Refused(f"{path}: no row '{name}' to change; hint: known: {', '.join(rows)}")
        rows[name] = {**rows[name], **row, "set": _set_of(rows[name], row)}
        table = {**table, "rows": list(rows.values())}
    return table


def _rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows, each that is of parts as one for each part."""
    return [one for row in table["rows"]
            for one in (_of_parts(row, table.get("parts", []))
                        if isinstance(row, dict) and "each" in row else [row])]


def _of_parts(row: Mapping[str, Any], parts: Sequence[Any]) -> list[dict[str, Any]]:
    """Its `paper` is by part, and so is may-diverge where it is a list; the `base` of a part is the
    row of another one."""
    def called(name: str) -> str:
        return str(row.get("name", "")).replace("{}", name)
    each, paper, diverging = (row.get(key, {}) for key in ("each", "paper", "may-diverge"))
    parts = _parts_of(each, parts)
    names = [part["name"] for part in parts]
    if unknown := [name for name in (*paper, *([] if diverging is True else diverging))
                   if name not in names]:
        raise Refused(f"row '{row.get('name')}' has no part '{unknown[0]}'; hint: known: "
                      f"{', '.join(names)}")
    common = {key: value for key, value in row.items()
              if key not in ("each", "paper", "may-diverge")}
    rows = []
    for part, name in zip(parts, names):
        one = {**common, **part, "name": called(name), "set": _set_of(row, part)}
        if "base" in part:
            one["base"] = called(part["base"])
        if name in paper:
            one["paper"] = paper[name]
        if diverging is True or name in diverging:
            one["may-diverge"] = True
        rows.append(one)
    return rows


def _set_of(*rows: Mapping[str, Any]) -> dict[str, Any]:
    """What all of them set; the last counts."""
    return {key: value for row in rows for key, value in _flat(row.get("set", {})).items()}


def _parts_of(each: Any, parts: Sequence[Any]) -> list[dict[str, Any]]:
    if isinstance(each, dict):
        return [{"name": text_of(value), "set": {key: value}}
                for key, values in _flat(each).items() for value in values]
    known = {part["name"]: part for part in parts if isinstance(part, dict) and "name" in part}
    names = list(known) if each is True else each
    if not isinstance(names, list) or not names or not set(names) <= set(known):
        raise Refused(f"each = {each!r} names no parts; hint: known: {', '.join(known) or 'none'}")
    return [known[name] for name in names]


def _checked(table: dict[str, Any]) -> dict[str, Any]:
    _require_known(table, KEYS, MORE_KEYS)
    if not isinstance(table.get("job"), str):
        raise Refused("it names no job; hint: job = \"first.cfg\"")
    for key in ("seeds", "first-seed", "ranks", "random", "random-seed"):
        value = table.get(key, 1)
        if type(value) is not int or value < (0 if key.endswith("-seed") else 1):
            raise Refused(f"{key} = {value!r}: a whole number is needed"
                          + ("" if key.endswith("-seed") else ", of at least 1"))
    if not isinstance(table.get("budget", 1), (int, float)):
        raise Refused(f"budget = {table['budget']!r}: a number of whole runs is needed")
    for key in ("set", "vary", "report"):
        if not isinstance(table.get(key, {}), dict):
            raise Refused(f"{key} is no table; hint: {{KEY = VALUE}}")
    rows = table.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("name")
                                             for row in rows):
        raise Refused("rows without names; hint: rows = [{name = \"fast\", set = {KEY = VALUE}}]")
    vary = {key: [text_of(value) for value in values] if isinstance(values, list) else []
            for key, values in _flat(table.get("vary", {})).items()}
    for key, values in vary.items():
        if not all(values) or not values:
            raise Refused(f"[vary] {key} is no list of values; hint: {key} = [VALUE, VALUE]")
    for options in (vary, _flat(table.get("set", {})), *(row.get("set", {}) for row in rows)):
        for key in options:
            refuse_own(key, "a study", "seeds and first-seed, or --out")
    if ("vary" in table or "rows" in table) and not vary and not rows and "cases" not in table:
        raise Refused("it varies nothing; hint: [vary] KEY = [VALUE, VALUE]")
    report = table.get("report", {})
    _require_known(report, REPORT_KEYS, where="[report] ")
    return {**table, "set": options_of(table.get("set", {})), "vary": vary,
            "rows": [{**row, "set": options_of(row.get("set", {}))} for row in rows],
            "report": {**report, **{key: listed_of(report[key]) for key in ("metrics", "against", "name")
                                    if key in report}}}


def refuse_own(key: str, who: str, how: str) -> None:
    """Refuses a key that `who` sets for each run; `how` the user sets it instead."""
    if key in OWN_KEYS:
        raise Refused(f"{key}: {who} sets it; hint: {how}")


def _require_known(table: Mapping[str, Any], known: Sequence[str], more: Sequence[str] = (),
                   where: str = "") -> None:
    for key in table:
        if key not in known and key not in more:
            raise Refused(f"{where}unknown key '{key}'; hint: known: {', '.join(known)}")


def _flat(table: Mapping[str, Any], beginning: str = "") -> dict[str, Any]:
    """{"client.lr": ...}, also of client.lr = ... without quotation marks."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found.update(_flat(value, f"{beginning}{key}.") if isinstance(value, dict)
                     else {beginning + key: value})
    return found


def options_of(table: Mapping[str, Any]) -> dict[str, str]:
    """{"section.key": text} of a table of TOML, or of a mapping of Python values."""
    return {key: text_of(value) for key, value in _flat(table).items()}


def text_of(value: Any) -> str:
    """A value as the program's options have it: true, 0.1, 200,100."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(text_of, value)) if isinstance(value, (list, tuple)) else str(value)


def listed_of(value: Any) -> list[str]:
    """What may be given as one text, or as several."""
    return [value] if isinstance(value, str) else [str(one) for one in value]


def toml_of(table: Mapping[str, Any]) -> str:
    """The text of a study's file, which read_file() reads."""
    def quoted(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def inline(options: Mapping[str, str]) -> str:
        return "{" + ", ".join(f"{quoted(key)} = {quoted(value)}"
                               for key, value in options.items()) + "}"

    lines = [f"{key} = {quoted(table[key])}" for key in ("title", "job", "seeds", "first-seed",
                                                         "ranks", "random", "random-seed",
                                                         "search", "budget") if table.get(key)]
    if table.get("set"):
        lines.append(f"set = {inline(table['set'])}")
    if table.get("rows"):
        rows = "".join(f"  {{name = {quoted(row['name'])}, set = {inline(row.get('set', {}))}}},\n"
                       for row in table["rows"])
        lines.append(f"rows = [\n{rows}]")
    if table.get("cases"):
        lines.append("cases = [\n" + "".join(f"  {inline(case)},\n" for case in table["cases"]) + "]")
    for name in ("vary", "report"):
        if table.get(name):
            lines += ["", f"[{name}]", *(f"{quoted(key)} = {quoted(value)}"
                                         for key, value in table[name].items())]
    return "\n".join(lines) + "\n"


def study_of(source: Path, *, vary: Mapping[str, Sequence[str]] | None = None,
             options: Mapping[str, str] | None = None, **numbers: int | str | None
             ) -> tuple[dict[str, Any], str]:
    """A study to run, as read_file() gives it, and the text that goes with its results.

    `source`: a study's file, a folder that has one, or a job file. On top of what it says come what
    varies, `options` of every run, and `numbers`: seeds, first_seed, ranks, random, random_seed,
    search, budget. Without any of these the text is the file's own. `job` of the study says where it lies. Raises Refused."""
    path = pathlib.Path(source)
    if path.is_dir():
        path = path / (SEARCH if (path / SEARCH).is_file() else FILE)
        if not path.is_file():
            raise Refused(f"{source} holds no {FILE}; hint: name a job file, or a study's file")
    of_file = path.suffix == ".toml"
    given = {key.replace("_", "-"): value for key, value in numbers.items() if value is not None}
    table = read_file(path) if of_file else {"job": os.fspath(source), "set": {}, "vary": {}}
    table = {"seeds": 1, "first-seed": 1, "ranks": 1, **table, **given,
             "set": {**table["set"], **(options or {})}, "vary": {**table["vary"], **(vary or {})}}
    if "random" in table:
        table.setdefault("random-seed", 1)
    if of_file:
        table["job"] = _job_of(table["job"], path)
    alone = of_file and "like" not in table and not (vary or options or given)
    text = path.read_text() if alone else toml_of(table)
    return table, text


def read_study(folder: Path) -> dict[str, Any]:
    """The file in a folder of runs; {} where there is none."""
    path = pathlib.Path(folder) / FILE
    return read_file(path) if path.is_file() else {}


def _job_of(name: str, study: pathlib.Path) -> str:
    """Where a study's job lies: beside its file, else from the working directory, else in the
    checkout; the name itself where it is nowhere."""
    places = [study.parent / name, pathlib.Path(name), CHECKOUT / name]
    return str(next((path for path in places if path.is_file()), name))


# -- cases

def cases_of(table: Mapping[str, Any]) -> list[Case]:
    """A case for every row and combination of values, in their order. Raises Refused for what
    contradicts a method, and for a name that stands twice."""
    common = table.get("set", {})
    cases = []
    for row, pairs in _chosen(table):
        words = ([row["name"]] if row["name"] else []) + [f"{k}={v}" for k, v in pairs.items()]
        cases.append(Case(",".join(words),
                          _options_of_case({**row.get("set", {}), **pairs}, common),
                          values={**({ROW: row["name"]} if row["name"] else {}), **pairs}))
    names = [case.name for case in cases]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Refused(f"two cases are called '{twice[0]}'; hint: give a value once")
    return cases


def _chosen(table: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], dict[str, str]]]:
    """The row and {key: value} of each case."""
    vary = table.get("vary", {})
    rows = table.get("rows") or [{"name": "", "set": {}}]
    if "cases" in table:
        known = {row["name"]: row for row in rows}
        for values in table["cases"]:
            if values.get(ROW, "") not in known:
                raise Refused(f"cases: no row is called '{values.get(ROW, '')}'")
            yield known[values.get(ROW, "")], {k: v for k, v in values.items() if k != ROW}
    elif "random" in table:
        yield from itertools.product(rows, drawn(vary, table["random"], table.get("random-seed", 1)))
    else:
        for key, values in vary.items():
            if ranges := [value for value in values if RANGE.fullmatch(value)]:
                raise Refused(f"{key}={ranges[0]} is a range; hint: --random N draws N cases")
        yield from ((row, dict(zip(vary, values))) for row, values in
                    itertools.product(rows, itertools.product(*vary.values())))


def drawn(vary: Mapping[str, Sequence[str]], count: int, seed: int) -> list[dict[str, str]]:
    """So many cases, each value from its range or list; as many as there are, where these are fewer.
    Draw i of a key depends on the seed, i and the key alone. Raises Refused for what is no range."""
    cases: dict[tuple, dict[str, str]] = {}
    for number in range(100 * count):
        one = {key: _draw(key, values, f"{seed} {number} {key}") for key, values in vary.items()}
        cases.setdefault(tuple(one.values()), one)
        if len(cases) == count:
            break
    return list(cases.values())


def _draw(key: str, values: Sequence[str], which: str) -> str:
    share = int(hashlib.sha256(which.encode()).hexdigest()[:13], 16) / 16 ** 13  # in [0, 1)
    found = RANGE.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        return values[int(share * len(values))]
    kind, ends = found[1], [_number_or_text(text) for text in found.groups()[1:]]
    low, high = ends
    numbers = all(isinstance(end, float) and math.isfinite(end) for end in ends)
    if not numbers or not low < high or kind == "log" and low <= 0 \
            or kind == "whole" and not (low.is_integer() and high.is_integer()):
        raise Refused(f"{key}={values[0]}: no range; hint: log:0.001..1, uniform:0..0.9 or whole:1..50")
    if kind == "whole":
        return str(int(low + int(share * (high - low + 1))))
    return f"{low * (high / low) ** share if kind == 'log' else low + (high - low) * share:.4g}"


def _options_of_case(given: dict[str, str], common: Mapping[str, str]) -> dict[str, str]:
    """The program's options: a method's, and what is given beside it. A case of a method's name is
    that method: another kind beside it is refused, and so are options of every run that differ from
    the method's, which no name would tell."""
    method = given.pop("method", None)
    if method is not None and method not in METHODS:
        raise Refused(f"unknown method '{method}'; hint: known: {', '.join(METHODS)}")
    own = METHODS[method] if method else {}
    for key, value in own.items():
        if common.get(key, value) != value:
            raise Refused(f"--{key}={common[key]}: method {method} has {key} = {value}; hint: "
                          "leave one of them out" + ("" if key in KINDS else ", or --set it: the "
                                                     "case's name then tells"))
        if key in KINDS and given.get(key, value) != value:
            raise Refused(f"--set {key}={given[key]}: method {method} has {key} = {value}; hint: "
                          "instead of method, --set the keys themselves")
    return {**own, **given}


def values_of_name(name: str) -> dict[str, str]:
    """{key: text} of a case's name, 'client.lr=0.1,model.hidden=20,10'."""
    parts = re.split(r",(?=(?:method|[a-z]+\.[a-z0-9-]+)=)", name)
    pairs = [part.partition("=") for part in parts]
    if all(equals and (key == "method" or "." in key) for key, equals, _ in pairs):
        return {key: value for key, _, value in pairs}
    return {} if name == "base" else {ROW: name}
