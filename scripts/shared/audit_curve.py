"""The trade-off curve of `hanse audit --curve`: how often a run with the canary has a score above a
threshold, over how often one without it has, and what the claimed epsilon allows."""
import csv

import numpy as np
from hanse.errors import Refused

from .figures import GREY

COLUMNS = ["threshold", "without", "with", "epsilon", "delta"]


def most_with(without, epsilon, delta):
    """The largest share of runs with the canary in which an event may be seen, where it is seen in
    these shares of the runs without it."""
    few = np.exp(epsilon) * without + delta
    many = 1 - np.exp(-epsilon) * (1 - delta - without)
    return np.clip(np.minimum(few, many), 0, 1)


def read(path):
    """{column: numbers}. Raises Refused."""
    try:
        with open(path, newline="") as file:
            rows = list(csv.reader(file))
        if rows[:1] != [COLUMNS] or len(rows) < 2:
            raise Refused(f"{path}: no trade-off curve; hint: hanse audit JOB.cfg --curve={path}")
        return dict(zip(COLUMNS, np.array(rows[1:], float).T))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except ValueError:
        raise Refused(f"{path}: a line has not the numbers of a curve") from None


def chart_of(path):
    """chart(axis, runs) of one file."""
    table = read(path)
    epsilon, delta = table["epsilon"][0], table["delta"][0]

    def chart(axis, _):
        order = np.lexsort((table["with"], table["without"]))
        axis.step(np.r_[0, table["without"][order], 1], np.r_[0, table["with"][order], 1],
                  where="post", label="measured")
        shares = np.linspace(0, 1, 401)
        if np.isfinite(epsilon):
            axis.plot(shares, most_with(shares, epsilon, delta), linestyle="--",
                      label=f"the claim's bound, epsilon {epsilon:.3g}, delta {delta:.3g}")
        axis.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="no difference")
        axis.set(xlabel="share of the runs without the canary", ylabel="share of those with it",
                 xlim=(0, 1), ylim=(0, 1.02))
        axis.set_title("scores above a threshold", loc="left")

    return chart
