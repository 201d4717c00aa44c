# Of some candidates, who are drawn by their samples, those with the largest losses take part.
import numpy as np


class Sampler:
    needs = {"candidates"}

    def __init__(self, clients, args):
        self.many = int(args.get("candidates", 2 * self.per_round))

    def candidates(self, round, available, rng):
        sizes = self.sizes[available]
        many = min(self.many, np.count_nonzero(sizes))
        return available[rng.choice(len(available), many, sizes)]

    def draw(self, round, candidates, losses, rng):
        order = np.lexsort((candidates, -losses))  # of equal losses the smaller number first
        chosen = candidates[order[: self.per_round]]
        return chosen, np.ones(len(chosen))
