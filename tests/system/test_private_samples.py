"""Steps that are private for samples: the same bits on any ranks and after a resume, what they cost,
what `hanse privacy` says of it, and what is refused."""

import json
import math
import os

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
    "lenet": {"model.kind": "lenet", "data.shape": "1,28,28", "federation.samples": 6},
    "resnet": {"model.kind": "resnet18", "model.channels": 4, "federation.samples": 6},
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

    def test_epsilon_is_that_of_the_client_that_costs_most(self):
        job = self.job({**BASE, "federation.partition": "power-law", "run.rounds": 2,
                        "sampler.kind": "uniform", "sampler.per-round": 9})
        run = self.train(job, "unequal")
        sizes = [int(row["samples"]) for row in harness.table(run, "participation.csv")]
        self.assertGreater(max(sizes), min(sizes))
        found = json.loads(self.hanse("privacy", job, "--json").stdout())
        samples = found["samples"]
        self.assertEqual(samples, min(size for size in sizes if size > 8))  # 8 are one whole batch
        self.assertAlmostEqual(found["rate"], 8 / samples)
        self.assertEqual(found["steps"], 2 * math.ceil(samples / 8))
        told = harness.summary(run)
        self.assertAlmostEqual(told["privacy"]["epsilon"], found["epsilon"], places=12)
        column = harness.column(run, "rounds.csv", "privacy_epsilon")
        self.assertAlmostEqual(float(column[-1]), found["epsilon"], places=6)
        self.assertIn("not private", told["privacy"]["flaw"])

    def test_epsilon_is_the_published_one(self):
        """dp-accounting 0.6.0, by distributions of the loss: q = 0.01, z = 1, 1000 steps."""
        job = self.job({**BASE, "federation.clients": 2, "federation.samples": 1000,
                        "data.test-fraction": 0, "client.batch": 10, "client.steps": 100,
                        "model.kind": "linear", "privacy.seed": "system"})
        found = json.loads(self.hanse("privacy", job, "--json", "--rounds=10").stdout())
        self.assertEqual(found["accountant"], "pld")
        self.assertAlmostEqual(found["epsilon"], 1.828244, delta=1e-3)
        whole_orders = 2.107753
        rdp = json.loads(self.hanse("privacy", job, "--json", "--rounds=10",
                                    "--privacy.accountant=rdp").stdout())
        self.assertLess(rdp["epsilon"], whole_orders)
        self.assertAlmostEqual(rdp["epsilon"], whole_orders, delta=0.01)
        text = self.hanse("privacy", job, "--statement").stdout()
        for part in ("for each sample of each of the 2 clients", "ChaCha20", "at rate 0.01",
                     "gradients of one sample are replaced by zeros"):
            self.assertIn(part, text)

    def test_the_run_ends_before_the_round_that_could_exceed_epsilon(self):
        asked = {**BASE, "run.rounds": 40, "privacy.noise": "auto", "privacy.epsilon": 3,
                 "sampler.kind": "uniform", "sampler.per-round": 4, "privacy.participations": 3}
        run = self.train(self.job(asked), "drawn")
        rounds = [int(row["round"]) for row in harness.table(run, "rounds.csv")]
        self.assertLess(len(rounds), 12)
        self.assertLessEqual(harness.summary(run)["privacy"]["epsilon"], 3)
        took = [int(row["client"]) for row in harness.table(run, "participation.csv")]
        self.assertEqual(max(took.count(client) for client in took), 3)
        limit = {**BASE, "run.rounds": 40, "privacy.max-epsilon": 8}
        run = self.train(self.job(limit), "limited")
        column = [float(x) for x in harness.column(run, "rounds.csv", "privacy_epsilon")]
        self.assertLess(column[-1], 8)
        self.assertGreater(column[-1] + (column[-1] - column[-2]), 8)

    def test_a_resume_does_not_go_beyond_the_epsilon_that_its_noise_was_found_for(self):
        job = self.job({**BASE, "privacy.noise": "auto", "privacy.epsilon": 3, "run.rounds": 2})
        run = self.train(job, "found")
        process = self.hanse("resume", run, "--run.rounds=4", expect=None)
        self.assert_one_error(process, 2, "over 2 rounds of a client", "privacy.max-epsilon")
        self.hanse("resume", run, "--run.rounds=4", "--privacy.max-epsilon=9")

    def test_what_is_refused(self):
        for changes, parts in (
                ({"privacy.kind": "distributed"}, ["privacy.kind", "central"]),
                ({"privacy.adjacency": "add-remove"}, ["privacy.adjacency", "zero-out"]),
                ({"privacy.clip-kind": "adaptive"}, ["privacy.clip-kind"]),
                ({"privacy.correlation": "tree", "sampler.kind": "cyclic"},
                 ["privacy.correlation"]),
                ({"aggregator.kind": "qfedavg"}, ["qfedavg is told of losses"]),
                ({"aggregator.kind": "propfair", "aggregator.base": 5}, ["propfair"]),
                ({"client.update": "scaffold"}, ["client.update", "sgd or prox"]),
                ({"client.accumulate": 2}, ["client.accumulate"]),
                ({"client.mixup": 0.3}, ["client.mixup"]),
                ({"client.drop-last": "true"}, ["client.drop-last"]),
                ({"client.class-weights": "client"}, ["client.class-weights"]),
                ({"sampler.kind": "osmd"}, ["sampler.kind"]),
                ({"privacy.step": "2^-2", "model.hidden": "500"}, ["privacy.step"]),
                ({"privacy.accountant": "zcdp"}, ["privacy.accountant"]),
        ):
            job = self.job({**BASE, **changes})
            self.assert_one_error(self.hanse("run", job, expect=None), 2, *parts)

    def test_what_may_be_published_is_copied(self):
        run = self.train(self.job({**BASE, "privacy.seed": "system"}), "secret")
        new = self.path("published")
        self.hanse("publish", run, new)
        self.assertEqual(sorted(os.listdir(new)), ["model.h5", "rounds.csv"])


if __name__ == "__main__":
    harness.main()
