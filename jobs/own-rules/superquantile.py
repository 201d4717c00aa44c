# The mean over the share `tail` of the samples whose clients have the largest losses: what
# aggregator.kind = superquantile does, as a rule of one's own.
import numpy as np


class Aggregator:
    needs = {"sizes", "losses"}

    def __init__(self, clients, args):
        self.tail = float(args.get("tail", 0.5))

    def mix(self, r):
        most = r.lam * r.draw_weights
        most = most / most.sum() / self.tail
        coefficients = np.zeros(len(most))
        left = 1.0
        for i in np.argsort(-r.losses, kind="stable"):
            coefficients[i] = min(most[i], left)
            left -= coefficients[i]
        return coefficients
