"""How good each way of training is at each site: the table of `scripts/sweep --sites`. Every number
of a column is of the same samples, the site's test samples, which the scores of samples name."""
import dataclasses
import functools
import textwrap

import numpy as np
from hanse import scoring
from hanse.errors import Refused
from hanse.files import write_whole
from hanse.inference import interval
from hanse.study_files import ROW
from hanse.sweeps import HELD_OUT, client_names

from shared import study_tables
from shared.run_files import Runs
from shared.study_tables import Table, interval_text

# The rows of the table, and what they change in the job.
WHOLE = {"pooled": {"run.protocol": "centralized"}, "federated": {"run.protocol": "federated"},
         "local": {"run.protocol": "local"}}
LEFT_OUT = "leave-one-site-out"
WITHOUT = "without "  # and the site's name: a case of it
WORDS = {"pooled": "one model on the training samples of all sites in one place",
         "federated": "the job as it stands", "local": "each site its own model, of its own samples",
         LEFT_OUT: "at each site the model of the others' federation"}
INTERVALS = {"auroc": "DeLong's", "accuracy": "Wilson's"}


def site_table(table, refused):
    """The study's table with a row for each way of training and each site left out. Raises Refused;
    `refused` are options that do not go with it."""
    for option, value in refused.items():
        if value:
            raise Refused(f"--{option}: it does not go with --sites; hint: leave it out")
    if table["vary"] or "rows" in table:
        raise Refused("--sites and what varies do not go together; hint: a sweep of sites for each value")
    if HELD_OUT in table["set"]:
        raise Refused(f"--{HELD_OUT}: --sites holds each site out itself; hint: leave it out")
    names = client_names(table)
    if len(names) < 2:
        raise Refused(f"{table['job']}: {len(names)} client; hint: sites are compared where there are two")
    rows = [{"name": name, "set": {**options, HELD_OUT: "0"}} for name, options in WHOLE.items()]
    rows += [{"name": WITHOUT + name, "set": {**WHOLE["federated"], HELD_OUT: name}} for name in names]
    return {**table, "rows": rows, "set": {**table["set"], "evaluate.scores": "true"},
            "report": {**table.get("report", {}), "sites": True}}


@dataclasses.dataclass
class Site:
    """A site, its number as a client, and the places of its test samples in the source, by seed."""
    name: str
    client: int
    rows: dict


class Comparison:
    """The scores of a study of sites: {(method, site's name): {seed: Scores}}."""

    def __init__(self, study):
        self.study, self.words = study, []
        self.cases = {case.values[ROW]: case for case in study.cases}
        self.sites = self._sites()
        self.scores = {}
        for method in WHOLE:
            for site in self.sites:
                self.scores[method, site.name] = {
                    seed: part for seed, scores in self._of(method).items()
                    if (part := self._tested(scores, site, seed, method)) is not None}
        left_out = [name for name in self.cases if name.startswith(WITHOUT)]
        for name, site in zip(left_out, self.sites):
            self.scores[LEFT_OUT, site.name] = {
                seed: part for seed, scores in self._of(name).items()
                if (part := self._held_out(scores, site, seed)) is not None}

    @functools.cache  # of a method or a site that is left out
    def _of(self, name):
        """{seed: Scores} of a case's ended runs."""
        runs = self.study.runs(self.cases[name])
        return {seed: scoring.read_scores(runs[seed] / scoring.FILE)
                for seed in self.study.summaries(self.cases[name])}

    def _sites(self):
        """Of the first way of training that has ended, by seed."""
        found = {}
        for method in ("federated", "pooled", "local"):
            for seed, scores in self._of(method).items():
                run = Runs(self.study.runs(self.cases[method])[seed])
                tested = scores.part(scores.fold == "test")
                for client in np.unique(scores.client[scores.client >= 0]):
                    site = found.setdefault(client, Site(run.label(client, "site"), client, {}))
                    site.rows.setdefault(seed, np.sort(tested.row[tested.client == client]))
        return [found[client] for client in sorted(found)]

    def _tested(self, scores, site, seed, method):
        part = scores.part((scores.fold == "test") & (scores.client == site.client))
        return self._whole(part, site, seed, method)

    def _held_out(self, scores, site, seed):
        if seed not in site.rows:
            return None
        part = scores.part((scores.fold == "held-out") & np.isin(scores.row, site.rows[seed]))
        return self._whole(part, site, seed, LEFT_OUT)

    def _whole(self, part, site, seed, method):
        """The samples where they are all of the site's test samples, each once."""
        if not len(part) or not np.array_equal(np.sort(part.row), site.rows[seed]):
            self.words.append(f"{method}, {site.name}, seed {seed}: not the test samples of the others")
            return None
        return part

    def first(self):
        return next((scores for of in self.scores.values() for scores in of.values()), None)


def metrics_of(comparison, chosen):
    """The metrics that are asked for, else the usual one of such data. Raises Refused."""
    first = comparison.first()
    if first is None:
        raise Refused(f"{comparison.study.path}: no run has test samples with scores; hint: "
                      "data.test-fraction keeps samples for tests, evaluate.on = test uses them")
    if unknown := [name for name in chosen or () if name not in scoring.METRICS]:
        raise Refused(f"--metrics {unknown[0]}: not known of sites; hint: {', '.join(scoring.METRICS)}")
    return chosen or ["auroc" if first.is_binary else "accuracy" if first.is_of_classes else "mse"]


def numbers_of(comparison, metric, method):
    """{site's name: ({seed: number}, {seed: samples})} of a row."""
    number = scoring.METRICS[metric]
    return {site.name: {seed: value for seed, scores in
                        comparison.scores.get((method, site.name), {}).items()
                        if np.isfinite(value := number(scores))} for site in comparison.sites}


def cells(comparison, metric, method, lines):
    """A row's cells: each site's number, and the mean of sites; with plain numbers for `lines`."""
    found, percent = numbers_of(comparison, metric, method), metric == "accuracy"
    several = len(comparison.study.seeds) > 1
    row = []
    for site in comparison.sites:
        values = found[site.name]
        over_seeds = interval(values.values(), bounds=False)
        line = {"metric": metric, "method": method, "site": site.name, "seeds": over_seeds.n,
                "samples": len(next(iter(site.rows.values()))), "mean": over_seeds.mean,
                "deviation": over_seeds.deviation}
        row.append(interval_text(over_seeds, percent))
        if values and not several:
            (seed, value), = values.items()
            low, high = scoring.interval_of(comparison.scores[method, site.name][seed], metric)
            line.update(low=low, high=high)
            row[-1] = f"{of(value, percent)} ({of(low, percent)} to {of(high, percent)})"
        lines.append(line)
    seeds = [seed for seed in comparison.study.seeds if any(seed in one for one in found.values())]
    means = interval([np.mean([one[seed] for one in found.values() if seed in one])
                      for seed in seeds], bounds=False)
    lines.append({"metric": metric, "method": method, "site": "mean", "seeds": means.n,
                  "mean": means.mean, "deviation": means.deviation})
    text = of(means.mean, percent) if means.n and not several else interval_text(means, percent)
    return [*row, text]


def of(value, percent):
    return f"{100 * value:.1f} %" if percent else f"{value:.3f}"


def notes(comparison, metrics):
    several = len(comparison.study.seeds) > 1
    samples = ", ".join(f"{site.name} {len(next(iter(site.rows.values())))}"
                        for site in comparison.sites)
    found = ["every number of a column is of the same test samples of the site: " + samples]
    if several:
        found.append("mean (deviation over seeds); each seed splits the samples anew, alike in every row"
                     if varies(comparison) else "mean (deviation over seeds)")
    else:
        kinds = dict.fromkeys(INTERVALS.get(metric, "bootstrap") for metric in metrics)
        found.append(f"95 % intervals over the site's samples: {' and '.join(kinds)}")
    found.append("mean: of the sites that have such a number")
    found += [f"{site.name}: no {metric}, its test samples are of one class alone"
              for metric in metrics if metric in ("auroc", "auprc") for site in comparison.sites
              if not any(numbers_of(comparison, metric, method)[site.name] for method in WHOLE)]
    found += [f"{method}: {words}" for method, words in WORDS.items()]
    return found + [f"Caution: {line}" for line in dict.fromkeys(comparison.words)]


def varies(comparison):
    return any(len({tuple(rows) for rows in site.rows.values()}) > 1 for site in comparison.sites)


def show(study, report):
    """Prints the table, and writes table.csv, table.md and, with `latex`, table.tex. Raises Refused."""
    comparison = Comparison(study)
    metrics = metrics_of(comparison, report.get("metrics"))
    head = ["", *(site.name for site in comparison.sites), "mean"]
    lines = []
    tables = [Table(metric, head, [[method, *cells(comparison, metric, method, lines)]
                                   for method in (*WHOLE, LEFT_OUT)], 1) for metric in metrics]
    words = notes(comparison, metrics)
    failed = study.shortfall(failed_alone=True)
    width = study_tables.width()
    print("\n\n".join(study_tables.text(table, width) for table in tables))
    print("\n".join(["", *(textwrap.fill(line, width) for line in words + failed)]))
    study_tables.write_numbers(study.path / "table.csv", lines)
    write_whole(study.path / "table.md", "\n".join(
        [*map(study_tables.markdown, tables), *(f"{line}\n" for line in words + failed)]))
    if report.get("latex"):
        study_tables.write_latex(study, tables, report, words + failed)
