# An epsilon-greedy bandit: most participants are those with the largest last losses, the others
# come at random. Clients that have not taken part yet come first.
import numpy as np


class Sampler:
    def __init__(self, clients, args):
        self.epsilon = float(args.get("epsilon", 0.2))
        self.losses = np.full(clients, np.inf)

    def draw(self, round, available, rng):
        shuffled = available[rng.permutation(len(available))]  # equal losses in random order
        greedy = shuffled[np.argsort(-self.losses[shuffled], kind="stable")]
        explores = rng.random(min(self.per_round, len(available))) < self.epsilon
        best = greedy[: np.count_nonzero(~explores)]
        others = shuffled[~np.isin(shuffled, best)]
        chosen = np.concatenate([best, others[: np.count_nonzero(explores)]])
        return chosen, np.ones(len(chosen))

    def observe(self, clients, feedback, losses):
        self.losses[clients] = losses

    def state(self):
        return {"losses": self.losses}

    def load(self, state):
        self.losses = state["losses"]
