"""An attack of one's own: the honest mean, and as far from it as the farthest honest update.

attack.args: strength (1), a factor on that distance.
"""
import numpy as np


class Attack:
    def __init__(self, args):
        self.strength = float(args.get("strength", 1))

    def attack(self, r):
        mean, deviation = r.honest, r.honest + 1
        g = r.gram
        squares = g.diagonal() - 2 * g[mean] + g[mean, mean]  # |u_i - h|^2
        length = np.sqrt(g[deviation, deviation])
        coefficients = np.zeros(r.honest + 2)
        coefficients[mean] = 1
        if length > 0:
            coefficients[deviation] = self.strength * np.sqrt(squares[:r.honest].max()) / length
        return coefficients
