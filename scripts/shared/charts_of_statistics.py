"""Charts of runs of statistics."""
from hanse.results import Run
from hanse.survival_figures import draw_kaplan_meier

from .figures import COLOURS
from .run_files import alone


def kaplan_meier(axis, runs):
    """Survival of each group, of one run."""
    for run in runs if alone(runs) and runs[0].has("kaplan-meier.csv") else []:
        draw_kaplan_meier(axis, Run(run.folder).table("kaplan-meier.csv"), COLOURS)
        axis.set_title("Survival", loc="left")
