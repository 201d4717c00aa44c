"""Private rounds: the same bits on any ranks and after a resume, what they tell, and their end."""

import os

import harness

BASE = {"federation.clients": 24, "sampler.kind": "uniform", "sampler.per-round": 5,
        "model.kind": "mlp", "model.hidden": "120", "aggregator.kind": "fedavg",
        "privacy.kind": "central", "run.rounds": 12, "evaluate.every": 6}
CYCLIC = {"sampler.kind": "cyclic", "sampler.per-round": 3}
MECHANISMS = {
    "discrete-gaussian": {},
    "skellam": {"privacy.mechanism": "skellam", "privacy.step": "2^-4"},
    "gaussian": {"privacy.mechanism": "gaussian"},
    "shares": {"privacy.kind": "distributed", "sampler.kind": "poisson"},
    "honest": {"privacy.kind": "distributed", "sampler.kind": "poisson", "privacy.honest": 0.5},
    "kept": {"client.personal": "*bias"},
    "adaptive": {"privacy.clip-kind": "adaptive", "privacy.count-noise": 2,
                 "sampler.kind": "poisson"},
    "capped": {"aggregator.weights": "capped", "aggregator.cap": 30, "client.update": "prox"},
    "tree": {**CYCLIC, "privacy.correlation": "tree"},
    "toeplitz": {**CYCLIC, "privacy.correlation": "toeplitz"},
    "banded": {**CYCLIC, "privacy.correlation": "banded", "privacy.bands": 4},
    "momentum": {"server.optimizer": "adam", "server.lr": 0.01},
    "system": {"privacy.seed": "system"},
}


class PrivateRounds(harness.Case):
    def check(self, name, changes):
        job = self.job({**BASE, **changes}, name=f"{name}.cfg")
        alone = self.train(job, name)
        if name != "system":  # of which no run is like another
            self.assert_digest(self.train(job, name + "-four", ranks=4), alone, name)
            stopped = self.train(job, name + "-stopped", ranks=2, changes={"run.rounds": 5})
            if "privacy.correlation" not in changes:
                self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
                self.assert_digest(stopped, alone, name)
        for field in ("privacy_epsilon", "clip", "noise_sd"):
            column = harness.column(alone, "rounds.csv", field)
            self.assertTrue(all(float(value) > 0 for value in column), (name, field))

    def test_every_mechanism_has_the_same_bits_on_any_ranks_and_goes_on(self):
        harness.together([lambda name=name, keys=keys: self.check(name, keys)
                        for name, keys in MECHANISMS.items()])

    def test_correlated_noise_goes_on_from_a_checkpoint(self):
        for name in ("tree", "toeplitz", "banded"):
            job = self.job({**BASE, **MECHANISMS[name], "checkpoint.every": 4,
                            "checkpoint.keep": 0}, name=f"on-{name}.cfg")
            whole = self.train(job, f"on-{name}", ranks=2)
            digest = harness.digest(whole)
            for number in (12, 8):
                os.remove(os.path.join(whole, "checkpoints", f"round-{number:06}.h5"))
            self.hanse("resume", whole, ranks=3)
            self.assertEqual(harness.digest(whole), digest, name)

    def test_the_run_ends_before_the_round_that_would_exceed_epsilon(self):
        run = self.train(self.job({**BASE, "privacy.max-epsilon": 8}), "ends")
        self.assertEqual(len(harness.column(run, "rounds.csv", "round")), 2)
        self.assertLess(float(harness.column(run, "rounds.csv", "privacy_epsilon")[-1]), 8)

    def test_noise_alone_moves_the_model_of_a_round_that_nobody_came_to(self):
        run = self.train(self.job({**BASE, "sampler.kind": "poisson", "sampler.per-round": 1}),
                         "nobody")
        clients = [int(value) for value in harness.column(run, "rounds.csv", "clients")]
        self.assertIn(0, clients)
        self.assertEqual(len(clients), 12)


if __name__ == "__main__":
    harness.main()
