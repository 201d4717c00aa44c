#!/usr/bin/python3
"""adaptive-osmd with all M probabilities of all experts in numpy arrays: what the sampler of
hanse-bench-rules is compared with. The same rounds: draw K of M and learn from the drawn, after
1000 rounds for which the rates of 8 experts are set, on feedback of the same law.

  tests/bench/osmd_numpy.py [CLIENTS]

prints a JSON line a way to project: "sort" is Algorithm 2 as it is printed, "passes" finds the same
without a sort. {"rule": ..., "project": ..., "clients": M, "participants": K, "rounds": n,
"experts": E, "seconds_per_decision_median": x}.
"""
# Debian's numpy belongs to Debian's Python, hence the first line.
import json
import os
import statistics
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the sampler has; read when numpy is loaded
import numpy as np  # noqa: E402

PER_ROUND = 10
HORIZON = 1000
ROUNDS = 101
ALPHA = 0.4
A_MAX = 10.0  # times lambda^2


def project_by_sorting(p, floor):
    """Algorithm 2 in place: those from rank m* on are scaled, the others are put on the floor."""
    ordered = np.sort(p)
    tail = np.cumsum(ordered[::-1])[::-1]
    share = 1 - np.arange(len(p)) * floor
    first = np.argmax(ordered * share > floor * tail)
    p *= share[first] / tail[first]
    np.maximum(p, floor, out=p)


def project_by_passes(p, floor):
    """The same: p <- max(floor, c p), c such that p sums to 1. Those above the floor only become
    fewer, so that a few passes find them."""
    count = len(p)
    mass = p.sum()
    while True:
        c = (1 - (len(p) - count) * floor) / mass
        above = p * c > floor
        left = np.count_nonzero(above)
        if left == count:
            break
        count = left
        mass = np.dot(p, above)
    p *= c
    np.maximum(p, floor, out=p)


class AdaptiveOsmd:
    """Algorithm 5 of Zhao et al. 2025 with replacement. p: [E, M]."""

    def __init__(self, clients):
        log_m = np.log(clients)
        spread = 4 * (log_m - np.log(ALPHA)) / log_m * (HORIZON - 1)
        experts = int(np.ceil(np.log2(1 + spread) / 2)) + 1
        self.floor = ALPHA / clients
        a_max = A_MAX / clients**2
        smallest = PER_ROUND * self.floor**3 / a_max * np.sqrt(2 * log_m / HORIZON)
        self.eta = smallest * 2.0**np.arange(experts)
        self.gamma = self.floor * np.sqrt(8 * PER_ROUND / (HORIZON * a_max))
        rank = np.arange(1, experts + 1)
        self.log_theta = np.log((1 + 1 / experts) / (rank * (rank + 1)))
        self.p = np.full((experts, clients), 1 / clients)

    def draw(self, random):
        q = np.exp(self.log_theta) @ self.p
        cumulated = np.cumsum(q)
        drawn = np.searchsorted(cumulated, random.random(PER_ROUND) * cumulated[-1], side="right")
        clients, counts = np.unique(drawn, return_counts=True)
        return clients, counts, q[clients] / cumulated[-1]

    def observe(self, clients, counts, q, a, project):
        p = self.p[:, clients]
        share = counts * a / (PER_ROUND**2 * p * q)
        self.p[:, clients] = p * np.exp(self.eta[:, None] * share / p)
        for row in self.p:
            project(row, self.floor)
        self.log_theta -= self.gamma * share.sum(axis=1)
        self.log_theta -= np.log(np.sum(np.exp(self.log_theta)))


class Bench:
    """Rounds of a rule, and the clock on them: of the processor, since rounds of milliseconds are
    interrupted."""

    def __init__(self, clients):
        self.random = np.random.default_rng(1)
        self.level = np.sqrt(0.5) * self.random.standard_normal(clients)
        self.rule = AdaptiveOsmd(clients)

    def round_s(self, project):
        start_s = time.thread_time()
        drawn, counts, q = self.rule.draw(self.random)
        drawn_s = time.thread_time()
        noise = np.sqrt(0.5) * self.random.standard_normal(len(drawn))
        a = np.exp((self.level[drawn] + noise) / 2) / len(self.level)**2
        observe_s = time.thread_time()
        self.rule.observe(drawn, counts, q, a, project)
        return time.thread_time() - observe_s + drawn_s - start_s


def main():
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    bench = Bench(clients)
    for _ in range(HORIZON):
        bench.round_s(project_by_passes)
    for name, project in [("sort", project_by_sorting), ("passes", project_by_passes)]:
        seconds = [bench.round_s(project) for _ in range(ROUNDS)]
        print(json.dumps({"rule": "adaptive-osmd in numpy", "project": name, "clients": clients,
                          "participants": PER_ROUND, "rounds": ROUNDS,
                          "experts": len(bench.rule.eta),
                          "seconds_per_decision_median": statistics.median(seconds)}))


if __name__ == "__main__":
    main()
