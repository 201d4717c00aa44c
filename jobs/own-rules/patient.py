"""An attack with a memory: it pushes back along the last aggregate, as long as the honest mean, and
harder in every round in which the model still goes where the honest clients want it.

attack.args: strength (0.5), the first factor; growth (1.5), a round's.
"""
import numpy as np


class Attack:
    needs = {"last"}

    def __init__(self, args):
        self.strength = float(args.get("strength", 0.5))
        self.growth = float(args.get("growth", 1.5))

    def attack(self, r):
        mean, last = r.honest, r.honest + 2
        coefficients = np.zeros(r.honest + 3)
        g = r.gram
        if g[last, last] == 0:  # no round has had a step yet
            coefficients[mean] = -self.strength
            return coefficients
        if g[mean, last] > 0:  # the last aggregate and the honest mean agree
            self.strength *= self.growth
        coefficients[last] = -self.strength * np.sqrt(g[mean, mean] / g[last, last])
        return coefficients

    def state(self):
        return {"strength": self.strength}

    def load(self, state):
        self.strength = float(state["strength"])
