"""What a study varies, as drawings over its keys need it: each case with its values and the numbers
of its runs, and a line on every number that is missing."""
import dataclasses
import difflib
import itertools
import math

from hanse.errors import Refused
from hanse.folders import read_job
from hanse.several import case_name
from hanse.studies import read_folder
from hanse.study_files import ROW

from .curves import main_metrics

# What axes call the keys that studies vary most; the others have their own names.
KEY_WORDS = {
    "method": "method", ROW: "case", "aggregator.kind": "aggregation rule",
    "aggregator.q": "exponent q of the losses", "async.buffer": "updates in the buffer",
    "async.concurrency": "tasks in flight", "attack.clients": "attackers",
    "attack.kind": "attack", "client.batch": "batch size",
    "client.clip": "clipping norm of gradients", "client.epochs": "local epochs",
    "client.lr": "client learning rate", "client.momentum": "client momentum",
    "client.mu": "weight μ of the proximal term", "client.optimizer": "client optimizer",
    "client.steps": "local steps", "client.update": "client update",
    "client.weight-decay": "weight decay",
    "clock.deadline-seconds": "deadline of a round (s)", "comm.bits": "bits of an entry",
    "comm.compress": "compression", "comm.keep": "entries that are sent",
    "federation.alpha": "Dirichlet concentration α", "federation.clients": "clients",
    "federation.held-out": "client held out of training", "model.hidden": "widths of hidden layers",
    "model.kind": "model", "privacy.clip": "clipping norm",
    "privacy.delta": "δ", "privacy.epsilon": "ε",
    "privacy.noise": "noise multiplier", "run.rounds": "rounds", "run.virtual-seconds":
    "virtual time (s)", "sampler.kind": "sampler", "sampler.per-round": "participants a round",
    "server.lr": "server learning rate", "server.optimizer": "server optimizer",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A case: its name, {key: text} of its values, and the numbers of the runs that have one."""
    name: str
    values: dict
    numbers: tuple


def study_in(paths):
    """The study of the one folder that is named. Raises Refused."""
    if len(paths) > 1:
        raise Refused(f"--over and --heat show one study; hint: name {paths[0]} alone")
    study = read_folder(paths[0])
    if study is None:
        raise Refused(f"{paths[0]} is no folder of a study, whose keys vary; hint: scripts/sweep "
                      "makes one")
    return study


def study_behind(runs):
    """The study that has all of these runs as its cases, and no others that have begun; None where
    there is none."""
    folders = {run.place.path for run in runs}
    if not all(run.place.case for run in runs) or len({path.parent for path in folders}) != 1:
        return None
    study = read_folder(next(iter(folders)).parent)
    begun = {case.folder_in(study.path) for case in study.cases if study.runs(case)}
    return study if begun == folders else None


# -- values

def values_of(study, keys=()):
    """{case's name: {key: text}}. A key that no list varies may be one that the rows set: what they
    set then stands in the place of their names."""
    if set(keys) <= set(study.keys):
        return {case.name: case.values for case in study.cases}
    sets = {row["name"]: row.get("set", {}) for row in study.table.get("rows", [])}
    return {case.name: {**sets.get(case.values.get(ROW), {}),
                        **{key: value for key, value in case.values.items() if key != ROW}}
            for case in study.cases}


def varied(values):
    """{key: its values} of the keys with two values or more: numbers ascend, words are in the
    study's order."""
    keys = dict.fromkeys(key for one in values for key in one)
    found = {key: dict.fromkeys(one[key] for one in values if key in one) for key in keys}
    return {key: ordered(texts) for key, texts in found.items() if len(texts) > 1}


def ordered(texts):
    return sorted(texts, key=float) if are_numbers(texts) else list(texts)


def are_numbers(texts):
    try:
        return all(math.isfinite(float(text)) for text in texts)
    except ValueError:
        return False


def require_varied(study, keys, option):
    """Refuses a key that has one value in the study, or none."""
    values = values_of(study, keys).values()
    known = varied(values)
    for key in keys:
        own = list(dict.fromkeys(one[key] for one in values if key in one)) or list(dict.fromkeys(
            case.options.get(key, study.table.get("set", {}).get(key)) for case in study.cases
            if key in {**study.table.get("set", {}), **case.options}))
        if key not in known:
            said = f"it has one value, {own[0]}" if len(own) == 1 else "the study does not vary it"
            raise Refused(f"{option} {key}: {said}; hint: "
                          f"{', '.join(known) or 'nothing'} varies in {study.path}")


# -- numbers

def number_of(summary, metric):
    """The metric of a run that has ended, or another number of its summary; None without one."""
    for value in (summary.get("metrics", {}).get(metric), summary.get(metric)):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def names_of_numbers(study):
    return dict.fromkeys(
        name for case in study.cases for summary in study.summaries(case).values()
        for name in [*summary.get("metrics", {}), *summary] if number_of(summary, name) is not None)


def require_metric(study, metric):
    """Refuses a metric that no run of the study has, once any has ended."""
    known = names_of_numbers(study)
    if not known:
        raise Refused(f"{study.path}: no run has ended; hint: scripts/sweep {study.path} goes on")
    if metric not in known:
        words = difflib.get_close_matches(metric, known, 4, 0.5) or list(known)
        raise Refused(f"--metric {metric}: no run of {study.path} has such a number at its end; "
                      f"hint: known: {', '.join(words)}")


def main_metric(study):
    """What the study is about: the metric that its report names first, else the first that its runs
    may be about and have; None where they have none."""
    known = names_of_numbers(study)
    jobs = [read_job(run) for case in study.cases for run in study.runs(case).values()]
    names = [*study.table.get("report", {}).get("metrics", []),
             *(name for job in jobs for name in main_metrics(job))]
    return next((name for name in names if name in known), None)


def cells_of(study, metric, keys=()):
    """A Cell for each case, also for those that have no number; copies of one run are one."""
    values = values_of(study, keys)
    return [Cell(case.name, values[case.name],
                 tuple(number for summary in study.observations(case)
                       if (number := number_of(summary, metric)) is not None))
            for case in study.cases]


def combinations(cells, without):
    """[({other key: text}, its cells)]: the cells that differ by these keys alone, together."""
    others = [key for key in varied([cell.values for cell in cells]) if key not in without]
    found = {}
    for cell in cells:
        own = tuple((key, cell.values[key]) for key in others if key in cell.values)
        found.setdefault(own, []).append(cell)
    return [(dict(own), members) for own, members in found.items()]


def words_for_values(values):
    """'fedavg, lr=0.1', as lines are called elsewhere."""
    return case_name(",".join(f"{key}={value}" for key, value in values.items()))


# -- what is missing

def gaps(study, metric, cells, keys):
    """Lines that name every run without a number (None: every run that has not ended) and why, every
    case without one of the keys, and every combination of their values that is no case."""
    found, absent = {}, {(one.case.name, one.seed): one for one in study.absent()}
    for case in study.cases:
        for seed in study.seeds:
            if why := why_missing(study.summaries(case).get(seed), absent.get((case.name, seed)), metric):
                found.setdefault((case.name or "base", why), []).append(seed)
    alike = {}
    for (name, why), seeds in found.items():
        alike.setdefault((tuple(seeds), why), []).append(name)
    lines = [f"{'; '.join(names)}: {'seed' if len(seeds) == 1 else 'seeds'} "
             f"{', '.join(map(str, seeds))}: {why}" for (seeds, why), names in alike.items()]
    lines += [f"{cell.name or 'base'}: not shown, it has no value of {key}"
              for key in keys for cell in cells if key not in cell.values]
    # Of drawn cases nobody expects every combination.
    return lines + ([] if "random" in study.table else empty_places(cells, keys))


def why_missing(summary, absent, metric):
    """Why a run with this summary, or without one `absent`, has no number; nothing where it has one."""
    if summary is not None:
        there = metric is None or number_of(summary, metric) is not None
        return "" if there else f"no number of '{metric}'"
    if absent and absent.why:
        return f"failed: {absent.why}"
    return "has not ended" if absent and absent.begun else "has not begun"


def empty_places(cells, keys):
    whole = [cell for cell in cells if cell.values.keys() >= set(keys)]
    known = varied([cell.values for cell in whole])
    lines = []
    for others, members in combinations(whole, keys):
        there = {tuple(cell.values[key] for key in keys) for cell in members}
        for place in itertools.product(*(known.get(key, []) for key in keys)):
            if place not in there:
                pairs = {**others, **dict(zip(keys, place))}
                lines.append("no case has " + ", ".join(f"{k}={v}" for k, v in pairs.items()))
    return lines
