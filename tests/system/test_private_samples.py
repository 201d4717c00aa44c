"""Steps that are private for samples: the same bits on any ranks and after a resume, what they cost,
what `hanse privacy` says of it, and what is refused."""

import json

import harness

BASE = {"federation.clients": 9, "federation.samples": 40, "sampler.kind": "full",
        "model.kind": "mlp", "model.hidden": "20", "client.batch": 8, "privacy.kind": "central",
        "privacy.unit": "sample", "run.rounds": 6, "evaluate.every": 3, "privacy.seed": 5}
CASES = {
    "mlp": {},
    "steps": {"client.steps": 3, "client.batch": 0},
    "prox": {"client.update": "prox", "client.momentum": 0.9, "server.optimizer": "adam"},
    "adam": {"client.optimizer": "adam", "sampler.kind": "uniform", "sampler.per-round": 4},
    "median": {"aggregator.kind": "median", "sampler.kind": "poisson", "sampler.per-round": 5},
    "cnn": {"model.kind": "lenet", "data.shape": "1,28,28", "federation.samples": 6,
            "client.dropout": None},
    "lstm": {"model.kind": "lstm", "data.kind": "random", "model.units": 4},
    "skellam": {"privacy.mechanism": "skellam", "privacy.step": "2^-6", "model.kind": "linear",
                "privacy.noise": 2, "data.shape": "3"},
    "system": {"privacy.seed": "system"},
}


class PrivateSamples(harness.Case):
    def check(self, name, changes):
        job = self.job({**BASE, **changes}, name=f"{name}.cfg")
        alone = self.train(job, name)
        if name != "system":  # of which no run is like another
            self.assert_digest(self.train(job, name + "-three", ranks=3), alone, name)
            stopped = self.train(job, name + "-stopped", ranks=2, changes={"run.rounds": 2})
            self.hanse("resume", stopped, "--run.rounds=6", ranks=3)
            self.assert_digest(stopped, alone, name)
        for field in ("privacy_epsilon", "clip", "noise_sd"):
            column = harness.column(alone, "rounds.csv", field)
            self.assertTrue(all(float(value) > 0 for value in column), (name, field))

    def test_every_kind_has_the_same_bits_on_any_ranks_and_goes_on(self):
        harness.together([lambda name=name, keys=keys: self.check(name, keys)
                          for name, keys in CASES.items()])


if __name__ == "__main__":
    harness.main()
