"""What a study prints: tables of means with intervals, of differences and of rounds to a target;
for a terminal, as Markdown, as LaTeX, and with plain numbers as CSV."""
import collections
import dataclasses
import math
import re
import shutil
import sys
import textwrap

from hanse.files import write_table, write_whole
from hanse.folders import read_job
from hanse.inference import LEAST_PAIRED, LEAST_WILCOXON, printed, require_scipy
from hanse.likeness import LIMIT, rules_of
from hanse.program import Refused
from hanse.several import listed
from hanse.studies import reached

from shared import sweeping
from shared.summaries import Column, cautions, two_digits
from shared.sweeping import number_text

# Metrics that read better in percent.
FRACTIONS = {f"accuracy_{name}" for name in ("mean", "weighted", "std", "worst10", "best10",
                                             "worst5", "best5", "gap")}
FRACTIONS |= {"top5", "balanced_accuracy", "common_accuracy"}
# What a study may be about beside accuracies: a column where it differs between the runs, else words
# below the tables.
ABOUT = {"target_virtual_seconds": "{:.6g} virtual seconds to the target",
         "virtual_seconds": "{:.6g} virtual seconds", "privacy_epsilon": "epsilon {:.4g}",
         "privacy_delta": "delta {:g}", "attackers": "{:.0f} attackers",
         "update_bytes_per_client": "{:.4g} bytes of updates a client"}
LOG_WIDTH = 100  # columns of what is no terminal
COSTS = {"rounds": ("rounds", 1), "bytes": ("MB", 1e-6), "seconds": ("seconds", 1),
         "virtual_seconds": ("virtual seconds", 1)}
TEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
       "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
       "<": "$<$", ">": "$>$", "|": "$|$", "\"": "''", "±": r"$\pm$", "∞": r"$\infty$",
       "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", "µ": r"$\mu$"}
TEX_HEAD = r"""% Tables of the study {title}, to \input; the rules are those of booktabs where it is loaded.
\providecommand{\toprule}{\hline}
\providecommand{\midrule}{\hline}
\providecommand{\bottomrule}{\hline}
"""


@dataclasses.dataclass
class Table:
    """`texts`: how many columns, from the left, hold words."""
    title: str
    head: list
    rows: list
    texts: int


# -- cells

def interval_text(interval, percent=False, of=None, missing="-", sign=""):
    """84.12 % ± 0.31: the mean and half of its interval; (0.31) is a deviation, where there are no
    bounds. `of`: how many runs there are; where some lack the number it says so: 41 ± 16, 2 of
    5."""
    half = interval.half
    if interval.mean is None:
        text = missing
    elif half and not percent:
        digits = max(0, 1 - math.floor(math.log10(half)))  # two of the half count
        text = f"{interval.mean:{sign}.{digits}f} ± {half:.{digits}f}"
    elif half is not None:
        text = f"{number_text(interval.mean, percent, sign)} ± {100 * half:.{2 if half else 0}f}"
    else:
        text = number_text(interval.mean, percent, sign)
        if interval.deviation is not None:
            spread = interval.deviation
            text += f" ({100 * spread:.2f})" if percent else f" ({two_digits(spread)})"
    if of is not None and 1 < of != interval.n and text != "-":
        text += f", {interval.n} of {of}"
    return text


def p_text(p):
    if p is None:
        return "-"
    return "<0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def short_keys(keys):
    """{key: what heads its column}: lr of client.lr, and aggregator of aggregator.kind, where no
    other key is called so."""
    short = {key: key.removesuffix(".kind").rpartition(".")[2] for key in keys}
    return {key: name if list(short.values()).count(name) == 1 else key
            for key, name in short.items()}


def keys_of(study):
    """The heads of the columns that tell cases apart, and of each case its cells."""
    if not study.keys:
        return ["case"], {case.name: [case.name or "base"] for case in study.cases}
    return (list(short_keys(study.keys).values()),
            {case.name: [case.values.get(key, "") for key in study.keys] for case in study.cases})


# -- tables

def means(study, columns, metrics, lines):
    """A row a case. `columns`: {case's name: Column} of its runs, `lines`: of Study.lines()."""
    failed = collections.Counter(one.case.name for one in study.absent() if one.why)
    head, cells = keys_of(study)
    texts = len(head)
    for metric in metrics:
        head += [metric, f"{metric}, median"] if metric == "target_round" else [metric]
    head.insert(texts, "runs")
    rows = []
    for case in study.cases:
        column = columns[case.name]
        row = [*cells[case.name], sweeping.runs_text(
            len(column.summaries), column.runs, column.diverged(), failed[case.name])]
        for metric in metrics:
            line = next(one for one in lines if one.case is case and one.metric == metric)
            missing = "not reached" if metric == "target_round" and column.target else "-"
            known = column.summaries or missing == "-"
            of = None if column.copies() else len(column.summaries)
            row.append(interval_text(line.interval, metric in FRACTIONS, of,
                                     missing if known else "-"))
            if metric == "target_round":
                row.append(column.median_cell() if column.summaries else "-")
        rows.append(row)
    return Table("", head, rows, texts)


def pivoted(study, columns, key, metric, lines):
    """A row for what is left of the cases without a key, and a column for each value of it."""
    others = [other for other in study.keys if other != key]
    values = list(dict.fromkeys(case.values.get(key, "") for case in study.cases))
    rows = {}
    for line in lines:
        if line.metric == metric:
            left = tuple(line.case.values.get(other, "") for other in others)
            column = columns[line.case.name]
            rows.setdefault(left, {})[line.case.values.get(key, "")] = interval_text(
                line.interval, metric in FRACTIONS, None if column.copies() else column.runs)
    names = short_keys(study.keys)
    head = [*(names[other] for other in others), *(f"{names[key]} = {value}" for value in values)]
    return Table(metric, head, [[*left, *(cells.get(value, "-") for value in values)]
                                for left, cells in rows.items()], len(others))


def differences(study, against, metric, lines):
    """A row a case that is compared: with which seeds, how far, and p-values."""
    compared = [line for line in lines if line.metric == metric and line.difference]
    head, cells = keys_of(study)
    texts, percent = len(head), metric in FRACTIONS
    tests = [(name, field) for name, field in (
        ("p (t)", "p"), ("Holm", "p_holm"), ("p (W)", "p_wilcoxon"), ("Holm", "p_wilcoxon_holm"))
        if (len(compared) > 1 or name != "Holm")
        and any(getattr(line.difference, field) is not None for line in compared)]
    rows = []
    for line in compared:
        interval = line.difference.interval
        rows.append([*cells[line.case.name], interval.n,
                     interval_text(interval, percent, sign="+").replace(" %", ""),
                     *(p_text(getattr(line.difference, field)) for _, field in tests)])
    title = f"{metric}, difference to {', '.join(f'{k}={v}' for k, v in against.items())}"
    return Table(title + (", in points" if percent else ""),
                 [*head, "seeds", "difference", *(name for name, _ in tests)], rows,
                 texts)


def targets(study, target, lines):
    """A table a level: how many runs reach it, and what that costs."""
    tables = []
    for level in target.levels:
        own = [line for line in lines if line.level == level]
        head, cells = keys_of(study)
        costs = [name for name in COSTS if any(name in line.costs for line in own)]
        rows = []
        for line in own:
            row = [*cells[line.case.name], f"{line.k} of {line.n}"]
            for name in costs:
                cost = line.costs.get(name)
                row.append("-" if not cost else interval_text(scaled(cost, COSTS[name][1])))
            rows.append([*row, factor_text(line)])
        tables.append(Table(f"to {target.name(level)}",
                            [*head, "reached", *(COSTS[name][0] for name in costs), "factor"],
                            rows, len(head)))
    return tables


def factor_text(line):
    """4×, or with its interval 4× (3.1 to 5.2)."""
    if line.factor is None:
        return "-"
    ends = line.factor_low, line.factor_high
    around = f" ({ends[0]:.3g} to {ends[1]:.3g})" if None not in ends and ends[0] < ends[1] else ""
    return f"{line.factor:.3g}×{around}"


def scaled(interval, factor):
    return dataclasses.replace(interval, **{
        name: value if value is None else factor * value
        for name, value in (("mean", interval.mean), ("deviation", interval.deviation),
                            ("half", interval.half))})


# -- words below the tables

def notes(study, columns, lines, report):
    found = []
    splits = {run["split"] for column in columns.values() for run in column.summaries
              if "split" in run}
    common = [name for name in dict.fromkeys(line.metric for line in lines)
              if name.startswith("common_")]
    if splits - {"test"} or common:
        parts = [f"{', '.join(sorted(splits))} samples of the clients"] * bool(splits)
        parts += [f"{', '.join(common)} on the common test set"] * bool(common)
        found.append(f"evaluated on: {'; '.join(parts)}")
    if any(line.interval.half is not None for line in lines):
        found.append("mean ± half of its 95 % interval over seeds (Student's t)")
    elif any(line.interval.deviation is not None for line in lines):
        found.append("mean (deviation over seeds)")
    if report.get("against"):
        found += notes_on_tests(study, lines) + notes_on_likeness(lines)
    rules, told = notes_on_rules(study), cautions(columns.values())
    if limit := common_limit(study):  # of time: that rounds are more or fewer is what it shows
        told = [line for line in told if "runs of unlike length" not in line]
        found.append(f"all runs have {limit} of virtual time")
    return found + rules + told


def notes_on_factors(lines, first):
    """What factors are of, why there is none, and of whose runs some never get there."""
    found = []
    kinds = dict.fromkeys(line.factor_of for line in lines if line.factor is not None)
    for kind in kinds:
        cases = dict.fromkeys(line.case.name or "base" for line in lines if line.factor_of == kind)
        of = f" ({', '.join(cases)})" if len(kinds) > 1 else ""
        words = COSTS[kind][0]
        found.append(f"factor{of}: {words} of {first} / {words}, where all runs of both reach it, "
                     "geometric mean and 95 % interval over common seeds")
    found += dict.fromkeys(f"{line.case.name or 'base'}: {line.why}" for line in lines if line.why)
    never = {}
    for line in lines:
        if line.k < line.n:
            never.setdefault(line.level, []).append(f"{line.case.name or 'base'} {line.n - line.k} "
                                                    f"of {line.n}")
    found += [f"runs that never reach {level:g}: {', '.join(cases)}"
              for level, cases in never.items()]
    return found


def common_limit(study):
    """The limit of virtual time that all runs have; nothing without one."""
    limits = {rules_of(run)[LIMIT] for case in study.cases for run in study.runs(case).values()}
    return limits.pop() if len(limits) == 1 and "none" not in limits else ""


def notes_on_rules(study):
    """What must agree between the jobs of cases that are compared, and does not."""
    rules = [rules_of(run) for case in study.cases for run in study.runs(case).values()]
    found = {what: sorted({one[what] for one in rules}) for what in (rules[0] if rules else ())}
    return [f"Caution: unlike {what}: {listed(values)}" for what, values in found.items()
            if len(values) > 1]


def notes_on_likeness(lines):
    """What is compared over less than all, or not at all."""
    found = {}
    for line in lines:
        if line.why:
            pair = f"{line.case.name or 'base'} and {line.base.name or 'base'}"
            found.setdefault((pair, line.why), []).append(line.metric)
    return [f"{pair}: {', '.join(metrics)} {why}" for (pair, why), metrics in found.items()]


def notes_on_tests(study, lines):
    compared = [line for line in lines if line.difference]
    if not compared:
        return []
    found = ["difference: mean over common seeds of a run less that of the same seed, ± half of "
             "its 95 % interval"]
    pairs = {line.difference.interval.n for line in compared}
    if max(pairs) >= LEAST_PAIRED:
        found.append("p (t): paired t test, two-sided" + (
            "; p (W): Wilcoxon's signed ranks" if max(pairs) >= LEAST_WILCOXON else
            f"; Wilcoxon's signed ranks need {LEAST_WILCOXON} common seeds"))
        together = max(sum(line.metric == other.metric for other in compared) for line in compared)
        if together > 1:
            found.append(f"Holm: the p before it, corrected for the {together} comparisons of a "
                         "metric")
    if min(pairs) < LEAST_PAIRED:
        found.append(f"no p-value of fewer than {LEAST_PAIRED} common seeds: so few do not tell "
                     "how much differences vary")
    short = dict.fromkeys(line.case.name or "base" for line in compared
                          if line.difference.interval.n < len(study.seeds))
    if short:
        found.append(f"of the {len(study.seeds)} seeds those count that both cases have: fewer in "
                     f"{', '.join(short)}")
    return found


def what_it_is_about(study):
    """The metrics of ABOUT that differ between runs, and a line on the others."""
    varied, same = [], []
    for metric, words in ABOUT.items():
        values = [value for case in study.cases for value in study.values(case, metric).values()]
        known = {printed(value) for value in values if value is not None}
        if len(known) > 1 or known and None in values:
            varied.append(metric)
        elif known:
            same.append(words.format(*known))
    return varied, [f"every run: {', '.join(same)}"] * bool(same)


# -- names

def words_of(texts, study, metrics):
    """{what stands in a table: what shall stand there} of WHAT=TEXT, with keys also as heads of
    columns have them. Raises Refused for a WHAT that no table has."""
    pairs = [f"{key}={value}" for case in study.cases for key, value in case.values.items()]
    known = dict.fromkeys([*study.keys, *metrics, *pairs,
                           *(value for case in study.cases for value in case.values.values())])
    words = {}
    for text in texts:
        what = max((one for one in known if text.startswith(f"{one}=")), key=len, default=None)
        if what is None:
            raise Refused(f"--name {text}: no column or cell is called so; they are "
                          f"{', '.join(known)}")
        words[what] = text[len(what) + 1:]
    return {**{short: words[key] for key, short in short_keys(study.keys).items() if key in words},
            **words}


def named(table, words, keys):
    """The table with these words in heads, in the title, and in its first columns, which `keys` tell
    apart."""
    def of(text):
        return words.get(text) or re.sub(r"[^\s,=()]+", lambda one: words.get(one[0], one[0]), text)
    rows = [[*(words.get(f"{key}={cell}") or words.get(cell, cell)
               for key, cell in zip(keys, row[:table.texts])), *row[table.texts:]]
            for row in table.rows] if table.texts == len(keys) else table.rows
    return Table(of(table.title), list(map(of, table.head)), rows, table.texts)


# -- the whole

def show(study, report):
    """Prints the tables, and writes table.csv, table.md, with `latex` table.tex, and of targets
    targets.csv. `report`: metrics, against {KEY: VALUE}, pivot, to (a Target), latex, told (have
    failed runs been told of?). Raises Refused for names that the study does not have."""
    against, bounds = report.get("against"), True
    try:
        require_scipy()
    except Refused as refused:
        if against:
            raise
        bounds, said = False, str(refused)
    metrics = study.metrics(report.get("metrics"))
    columns = {case.name: Column(
        list(study.summaries(case).values()), len(study.seeds),
        any(read_job(run).get("run.target") for run in study.runs(case).values()))
        for case in study.cases}
    if not report.get("metrics") and any(column.target for column in columns.values()):
        metrics = list(dict.fromkeys([*metrics, "target_round"]))  # of no run, if none reached it
    varied, about = ([], []) if report.get("metrics") else what_it_is_about(study)
    shown = [*metrics, *varied]
    names = words_of(report.get("name", ()), study, shown)
    lines = study.lines(metrics, against, bounds) + study.lines(varied, None, bounds)
    if report.get("pivot"):
        tables = [pivoted(study, columns, report["pivot"], metric, lines) for metric in metrics]
    else:
        tables = [means(study, columns, shown, lines)]
    if against:
        tables += [differences(study, against, metric, lines) for metric in metrics]
    words = about + notes(study, columns, lines, report)
    if report.get("to"):
        found = reached(study, report["to"], against, bounds, report.get("by", ""))
        tables += targets(study, report["to"], found)
        words.append("reached: of the runs that have ended; what it costs is of those that reach it")
        words += notes_on_factors(found, "the compared case" if against else "the first row")
        write_numbers(study.path / "targets.csv", [line.numbers() for line in found])
    if not bounds and any(line.interval.n > 1 for line in lines):
        words.append(said)
    failed = study.shortfall(failed_alone=True)
    if not report.get("told"):
        words += failed
    write_numbers(study.path / "table.csv", [line.numbers() for line in lines])
    if names:
        keys = [key for key in study.keys if key != report.get("pivot")]
        tables = [named(table, names, study.keys if place or keys == study.keys else keys)
                  for place, table in enumerate(tables)]
    print("\n\n".join(text(table, width()) for table in tables))
    print("\n".join(["", *(textwrap.fill(line, width()) for line in words)]))
    parts = [*map(markdown, tables), *(f"{line}\n" for line in failed)]
    write_whole(study.path / "table.md", "\n".join(parts))
    if report.get("latex"):
        write_latex(study, tables, report, failed)


def write_latex(study, tables, report, lines):
    """table.tex, with these lines as comments."""
    path = study.path / "table.tex"
    write_whole(path, TEX_HEAD.replace("{title}", study.title) + "".join([
        *(latex(table, report.get("caption"), f"tab:{study.path.resolve().name}"
                + (f"-{place}" if place > 1 else "")) for place, table in enumerate(tables, 1)),
        *(f"% {line}\n" for line in lines)]))
    print(path)


def width():
    fallback = (LOG_WIDTH, 24)
    return shutil.get_terminal_size(fallback).columns if sys.stdout.isatty() else LOG_WIDTH


def text(table, columns):
    """Aligned; of a table that is wider than that several below each other, each with the words."""
    title = [table.title] * bool(table.title)
    return "\n".join([*title, sweeping.text_tables(table.head, table.rows, columns, table.texts)])


def markdown(table):
    title = f"**{table.title}**\n\n" if table.title else ""
    return title + sweeping.markdown_table(table.head, table.rows, table.texts)


def escaped(value):
    return "".join(TEX.get(c, c) for c in str(value))


def latex(table, caption=None, label=""):
    """A tabular, whose first columns are words; with a caption in a table that floats."""
    def line(cells):
        return " & ".join(map(escaped, cells)) + r" \\"
    form = "l" * table.texts + "r" * (len(table.head) - table.texts)
    lines = [rf"\begin{{tabular}}{{{form}}}", r"\toprule", line(table.head), r"\midrule",
             *map(line, table.rows), r"\bottomrule", r"\end{tabular}"]
    if caption:
        whole = f"{caption}: {table.title}" if table.title else caption
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(whole)}}}",
                 rf"\label{{{label}}}", *lines, r"\end{table}"]
    return "\n".join([f"\n% {table.title or 'means'}", *lines, ""])


def write_numbers(path, lines):
    """A CSV of these numbers; an empty field where there is none."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    write_table(path, [names, *(map(line.get, names) for line in lines)])
