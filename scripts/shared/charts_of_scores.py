"""Charts of the scores of single samples, scores.csv: ROC, calibration and decision curves. Of one run
the clients beside each other, of several runs one curve each, with bands over seeds."""
import numpy as np
from hanse import scoring
from hanse.errors import Refused

from .bands import mean_curve
from .charting import NAMED, draw_line, draw_mean, label_of, tables_of
from .figures import COLOURS, GREY
from .run_files import alone

GRID = np.linspace(0, 1, 201)       # false positive rates at which ROC curves are averaged
THRESHOLDS = np.arange(1, 100) / 100
BINS = 10                           # of calibration
FOLDS = {"test": "test", "validation": "validation", "train": "training", "held-out": "held-out"}


def read(run):
    """[Scores] of the tested samples of each of its runs that has them. Raises Refused."""
    found, error = [], None
    for member in run.members:
        try:
            scores = scoring.read_scores(member.folder / scoring.FILE)
        except Refused as refused:
            error = refused
            continue
        if len(scores.tested):
            found.append(scores.tested)
    if not found:
        raise error or Refused(f"{run.folder}/{scoring.FILE}: empty")
    if not found[0].is_of_classes:
        raise Refused(f"{run.folder}/{scoring.FILE}: scores of numbers, not of classes")
    return found


def scores_of(runs, binary=False):
    """[(index, run, [Scores])] of the runs that have such; of two classes alone, if so asked."""
    return [one for one in tables_of(runs, read, scoring.FILE) if not binary or one[2][0].is_binary]


def parts_of(run, scores):
    """[(name, Scores)]: all samples, and each client's where they are few."""
    clients = np.unique(scores.client)
    parts = [("all clients", scores)]
    if 1 < len(clients) < NAMED:
        parts += [(run.label(client), scores.part(scores.client == client)) for client in clients]
    return parts


def has_both(scores):
    return len(np.unique(scores.label)) > 1


def words(found):
    """What samples a chart is of, for its title."""
    folds = {str(fold) for _, _, all_scores in found for scores in all_scores
             for fold in np.unique(scores.fold)}
    return f", {FOLDS[folds.pop()]} samples" if len(folds) == 1 else ""


def width_of(place):
    return {"linewidth": 2.4} if place == 0 else {"linewidth": 1.2}


# -- ROC

def roc_on_grid(scores):
    """The true positive rate at each of GRID: of class 1 of two, else the mean over the classes, each
    against the rest."""
    if scores.is_binary:
        return np.interp(GRID, *steps(*scoring.roc(scores.label, scores.score)))
    curves = [np.interp(GRID, *steps(*scoring.roc(scores.label == k, scores.score[:, k])))
              for k in np.unique(scores.label).astype(int)]
    return np.mean(curves, axis=0)


def steps(x, y):
    """Points whose x rise: of equal ones the highest y counts behind them, the lowest before."""
    return x + 1e-12 * np.arange(len(x)), y


def roc(axis, runs):
    found = scores_of(runs)
    for index, run, all_scores in found:
        kept = [scores for scores in all_scores if has_both(scores)]
        if not kept:
            run.complaints[f"{run.folder}/{scoring.FILE}: no ROC curve of one class alone"] = None
        elif alone(runs):
            draw_own_roc(axis, run, kept[0])
        else:
            curve = mean_curve(GRID, [roc_on_grid(scores) for scores in kept], run.band)
            draw_mean(axis, curve, label_of(run, runs), index)
    if axis.has_data():
        axis.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
    title = None
    if alone(runs) and axis.has_data():
        title = "With each curve its area and DeLong's 95 % interval"
    several = any(not scores[0].is_binary for _, _, scores in found)
    mean = ", mean of classes" if several and not alone(runs) else ""
    axis.set(title=f"ROC curve{mean}{words(found)}", xlabel="1 - specificity", ylabel="sensitivity",
             xlim=(0, 1), ylim=(0, 1.01))
    return title


def draw_own_roc(axis, run, scores):
    if not scores.is_binary:
        names = run.class_names()
        for place, k in enumerate(np.unique(scores.label).astype(int)[:NAMED]):
            label = scores.label == k
            draw_line(axis, *scoring.roc(label, scores.score[:, k]),
                      f"{names.get(k, f'class {k}')}, {area_text(label, scores.score[:, k])}",
                      place, marker="")
        return
    for place, (name, part) in enumerate(parts_of(run, scores)):
        if not has_both(part):
            continue
        draw_line(axis, *scoring.roc(part.label, part.score),
                  f"{name}, {area_text(part.label, part.score)}", place, marker="",
                  **width_of(place))


def area_text(label, score):
    return interval_text(scoring.auroc(label, score), scoring.auroc_interval(label, score))


# -- calibration

def calibration(axis, runs):
    found = scores_of(runs)
    for index, run, all_scores in found:
        if alone(runs):
            draw_own_calibration(axis, all_scores[0])
            continue
        curves = [scoring.calibration(scores, BINS) for scores in all_scores]
        there = np.all([count > 0 for _, _, count in curves], axis=0)
        x = np.mean([mean[there] for mean, _, _ in curves], axis=0)
        curve = mean_curve(x, [share[there] for _, share, _ in curves], run.band)
        draw_mean(axis, curve, label_of(run, runs), index)
    if axis.has_data():
        axis.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
    binary = all(scores[0].is_binary for _, _, scores in found)
    axis.set(title=f"Calibration{words(found)}", xlim=(0, 1), ylim=(0, 1),
             xlabel="probability" if binary else "largest probability",
             ylabel="observed share" if binary else "share that is right")


def draw_own_calibration(axis, scores):
    mean, share, count = scoring.calibration(scores, BINS)
    there = count > 0
    ends = np.array([scoring.proportion_interval(p * n, n)
                     for p, n in zip(share[there], count[there])]).T
    axis.errorbar(mean[there], share[there], abs(ends - share[there]), color=COLOURS[0], marker="o",
                  markersize=5, capsize=2, elinewidth=1,
                  label=f"all clients, error {scoring.calibration_error(scores):.3f}; bars: Wilson's "
                        "95 % intervals")


# -- decision curves

def decision(axis, runs):
    found = scores_of(runs, binary=True)
    shares = []
    for index, run, all_scores in found:
        values = [scoring.net_benefit(scores.label, scores.score, THRESHOLDS)
                  for scores in all_scores]
        shares += [(scores.label == 1).mean() for scores in all_scores]
        if alone(runs):
            draw_line(axis, THRESHOLDS, values[0], "the model, all clients", index)
        else:
            draw_mean(axis, mean_curve(THRESHOLDS, values, run.band), label_of(run, runs), index)
    if found:
        share = np.mean(shares)
        everyone = share - (1 - share) * THRESHOLDS / (1 - THRESHOLDS)
        axis.plot(THRESHOLDS, everyone, color=GREY, linestyle="--", linewidth=1, label="treat all")
        axis.axhline(0, color=GREY, linestyle=":", linewidth=1, label="treat none")
        axis.set_ylim(-0.1 * share, 1.05 * share)
    axis.set(title=f"Decision curve{words(found)}", xlabel="threshold probability",
             ylabel="net benefit", xlim=(0, 1))


# -- clients

def client_rows(run):
    """Lines of a table of a run's hospitals: name, samples, events, and each metric with its 95 %
    interval; none without scores of two classes."""
    found = scores_of([run], binary=True)
    if not found or not alone([run]):
        return []
    rows = []
    scores = found[0][2][0]
    parts = [(run.label(client), scores.part(scores.client == client))
             for client in np.unique(scores.client)]
    for name, part in [("all clients", scores), *parts] if len(parts) > 1 else parts:
        numbers = [(scoring.METRICS[metric](part), scoring.interval_of(part, metric))
                   for metric in ("auroc", "accuracy", "brier")]
        rows.append([name, len(part), int((part.label == 1).sum()),
                     *(interval_text(*number) for number in numbers)])
    return rows


HEAD = ["", "samples", "class 1", "AUROC (DeLong)", "accuracy (Wilson)", "Brier score (bootstrap)"]


def interval_text(value, ends):
    if not np.isfinite(value):
        return "-"
    return f"{value:.3f}" + (f" ({ends[0]:.3f} to {ends[1]:.3f})" if np.isfinite(ends[0]) else "")
