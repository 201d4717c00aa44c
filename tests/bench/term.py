import numpy as np


class Aggregator:
    needs = {"losses"}

    def mix(self, r):
        values = r.lam * np.exp(r.losses - r.losses.max())
        return values / values.sum()
