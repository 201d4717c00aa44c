"""Charts of runs of statistics."""
from hanse.results import Run
from hanse.statistics_figures import draw_forest, draw_histogram
from hanse.survival_figures import draw_kaplan_meier

from .figures import COLOURS
from .run_files import alone


def kaplan_meier(axis, runs):
    """Survival of each group, of one run."""
    for run in runs if alone(runs) and runs[0].has("kaplan-meier.csv") else []:
        draw_kaplan_meier(axis, Run(run.folder).table("kaplan-meier.csv"), COLOURS)
        axis.set_title("Survival", loc="left")


def forest(axis, runs):
    """What groups find alone of a regression, against all samples."""
    for run in runs if alone(runs) else []:
        fit = "cox" if run.has("cox-groups.csv") else "glm"
        found = Run(run.folder)
        draw_forest(axis, found.table(f"{fit}-groups.csv"), found.table(f"{fit}-meta.csv"), COLOURS)
        axis.set_title("Each group alone, and all samples", loc="left")


def histograms(runs):
    """A chart for each of the first twelve columns."""
    if not alone(runs):
        return []
    frame = Run(runs[0].folder).table("histogram.csv")

    def chart(column):
        def draw(axis, _):
            draw_histogram(axis, frame, column, COLOURS)
            axis.set_title(column, loc="left")
        return draw
    return [chart(column) for column in list(dict.fromkeys(frame["column"]))[:12]]
