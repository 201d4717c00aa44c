"""Robust rules among attackers: the same bits on any ranks, and what a round tells of them."""

import json
import math
import os
import statistics

import harness

SILOS = {"federation.clients": 11, "sampler.kind": "full", "model.kind": "mlp",
         "model.hidden": "9", "aggregator.byzantine": 2}
RULES = {
    "krum": {},
    "multi-krum": {"aggregator.keep": 5},
    "mda": {},
    "monna": {"aggregator.pivot": 4},
    "geometric-median": {"aggregator.before": "bucketing(2)", "aggregator.byzantine": 1},
    "centered-clipping": {"aggregator.radius": 0.05, "aggregator.iterations": 2},
    "fltrust": {"federation.clients": 13, "federation.held-out": 2, "aggregator.root": 1},
    "smea": {"aggregator.before": "clip(0.3)"},
    "caf": {"aggregator.before": "arc"},
    "median": {"aggregator.before": "bucketing(2),nnm"},
    "trimmed-mean": {},
    "meamed": {"aggregator.before": "nnm"},
    "bulyan": {},
    "fedavg": {"aggregator.before": "clip(0.2)"},
}
ATTACKS = ["sign-flip", "ipm", "alie", "optimal-alie", "optimal-ipm", "min-max", "min-sum",
           "mimic", "gauss", "nan", "label-flip", "replace"]


class EveryRule(harness.Case):
    """The same bits on one rank, on four, and stopped and resumed on others."""

    def check(self, name, changes):
        job = self.job(changes, name=f"{name}.cfg")
        alone = self.train(job, name)
        self.assert_digest(self.train(job, name + "-four", ranks=4), alone, name)
        stopped = self.train(job, name + "-stopped", ranks=2, changes={"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
        self.assert_digest(stopped, alone, name)
        for field in ("kappa_hat", "byzantine_weight", "rejected"):
            self.assertEqual(harness.column(stopped, "rounds.csv", field),
                             harness.column(alone, "rounds.csv", field), name)

    def test_each_with_some_of_the_attacks(self):
        every = os.environ.get("HANSE_EVERY_ATTACK") == "1"
        cases = {}
        for i, (rule, more) in enumerate(RULES.items()):
            changes = {**SILOS, "aggregator.kind": rule, "attack.clients": "2,5", **more}
            for attack in ATTACKS if every else (ATTACKS[i % 12], ATTACKS[(5 * i + 3) % 12]):
                cases[f"{rule}-{attack}"] = {**changes, "attack.kind": attack}
        harness.together([lambda name=name: self.check(name, cases[name]) for name in cases])

    def test_an_honest_round_is_the_mean(self):
        # Momentum makes float rows of all updates, which rules that keep them need anyway.
        same = {**SILOS, "aggregator.byzantine": 0, "client.worker-momentum": 0.4}
        mean = self.train(self.job({**same, "aggregator.weights": "uniform"}), "mean")
        for name, changes in {
                "multi-krum": {"aggregator.kind": "multi-krum", "aggregator.keep": 11},
                "mda": {"aggregator.kind": "mda"}, "smea": {"aggregator.kind": "smea"},
                "monna": {"aggregator.kind": "monna"}, "caf": {"aggregator.kind": "caf"},
                "nnm": {"aggregator.before": "nnm", "aggregator.weights": "uniform"},
                "arc": {"aggregator.before": "arc", "aggregator.weights": "uniform"},
                "bucketing": {"aggregator.before": "bucketing(1)",
                              "aggregator.weights": "uniform"}}.items():
            run = self.train(self.job({**same, **changes}, name=f"{name}.cfg"), name, ranks=2)
            self.assert_digest(run, mean, name)


class Bounds(harness.Case):
    """With too few participants attackers who send one row win every round."""

    def check(self, *parts, status=2, **changes):
        job = self.job({**SILOS, **changes})
        process = self.hanse("run", job, f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(process, status, *parts)

    def test_known_before_the_first_round(self):
        for kind in ("krum", "multi-krum"):
            few = {"aggregator.kind": kind, "federation.clients": 6, "attack.kind": "sign-flip",
                   "attack.clients": 2}
            words = f"{kind} with f = 2 needs at least 7 rows (Blanchard et al. 2017), not 6"
            self.check(words, **few)
            self.check(words, **{**few, "aggregator.byzantine": "auto"})
            self.check(words, **{**few, "aggregator.byzantine": "0.3"})
            self.check(words, **{**few, "aggregator.before": "nnm"})
            self.train(self.job({**SILOS, **few, "federation.clients": 7}), f"{kind}-7")
            self.train(self.job({**SILOS, **few, "aggregator.variant": "reference"}),
                       f"{kind}-reference")
        self.check("krum with f = 2 needs at least 7 rows", "not 6",
                   **{"aggregator.kind": "krum", "aggregator.before": "bucketing(2)"})
        self.check("nnm with f = 2 needs at least 5 rows", **{
            "aggregator.before": "nnm", "federation.clients": 4})
        self.check("12 updates cannot be kept of 11 rows", "(aggregator.keep)",
                   **{"aggregator.kind": "multi-krum", "aggregator.keep": 12})
        self.check("29 rows have more than 1000000 sets", "draw fewer participants", **{
            "aggregator.kind": "smea", "federation.clients": 29, "aggregator.byzantine": 9})
        self.check("client 4, which monna trusts, has to take part in every round, and 8 of 11",
                   "(aggregator.pivot)", "sampler.kind = full",
                   **{"aggregator.kind": "monna", "aggregator.pivot": 4,
                      "sampler.kind": "uniform", "sampler.per-round": 8})
        self.check("bucketing averages", "(aggregator.before)",
                   **{"aggregator.kind": "monna", "aggregator.before": "bucketing(2)"})

    def test_of_small_rounds(self):
        away = {"aggregator.kind": "krum", "aggregator.byzantine": 2, "federation.clients": 9,
                "sampler.availability": 0.7}
        self.check("krum with f = 2 needs at least 7 rows", status=1, **away)
        run = self.train(self.job({**SILOS, **away, "aggregator.shortfall": "skip"}), "skip", 2)
        seen = [int(row["clients"]) for row in harness.table(run, "rounds.csv")]
        self.assertTrue(min(seen) < 7)


class Columns(harness.Case):
    def test_no_value_that_counts_is_cut(self):
        """Prices around 30,000 in 40 rows: a step of rate 1/2 from zeros is half of their median."""
        prices = [30000 + 37 * i % 201 for i in range(40)]
        path = self.write("prices.csv", "\n".join(
            ["who,x,price", *(f"{i:02d},0,{price}" for i, price in enumerate(prices))]) + "\n")
        exact = statistics.median(prices) / 2
        for kind in ("median", "trimmed-mean", "meamed", "bulyan"):
            job = self.job({
                "data.kind": "csv", "data.path": path, "data.client-column": "who",
                "data.label-column": "price", "data.task": "regression", "data.classes": None,
                "federation.clients": None, "federation.samples": None, "data.test-fraction": 0,
                "model.loss": "squared-error", "model.init": "zeros", "sampler.kind": "full",
                "sampler.per-round": None, "client.batch": 0, "client.lr": 0.5, "run.rounds": 1,
                "aggregator.kind": kind, "aggregator.byzantine": 9}, f"{kind}.cfg")
            run = self.train(job, kind)
            self.assert_digest(self.train(job, f"{kind}-3", 3), run, kind)
            shown = self.hanse("inspect", os.path.join(run, "model.h5")).stdout()
            bias = [line.split()[-1] for line in shown.splitlines() if "bias" in line]
            self.assertAlmostEqual(float(bias[0]), exact, delta=60, msg=shown)
            # Beyond 2^18 the step itself has no room.
            far = self.hanse("run", job, f"--run.out={self.path('far')}", "--client.lr=20",
                             "--run.overwrite=true", expect=None)
            self.assert_one_error(far, 1, "an entry of the step is out of range", "round 1",
                                  "2.62e+05", "client.lr")

    def test_replay_cuts_nothing(self):
        for kind, rows, expected in (("trimmed-mean", [[2e5]] * 5, 2e5), ("median", [[5e5]] * 2, 5e5),
                                     ("meamed", [[2.0 ** 90], [3 * 2.0 ** 90], [2 * 2.0 ** 90]],
                                      2 * 2.0 ** 90)):
            trace = self.write("trace.json", json.dumps({
                "rule": {"aggregator.kind": kind, "aggregator.byzantine": 0},
                "rounds": [{"rows": rows}]}))
            found = json.loads(self.hanse("replay", trace).stdout())["rounds"][0]["update"]
            self.assertEqual(found, [expected])

    def test_a_rule_for_fewer_attackers_than_there_are_may_move_without_a_bound(self):
        # A bucket of an attacker's is in every mean of five of the six neighbours.
        job = self.job({**SILOS, "aggregator.kind": "median", "aggregator.byzantine": 1,
                        "aggregator.before": "bucketing(2),nnm", "attack.clients": "2,5",
                        "attack.kind": "optimal-alie"})
        run = self.hanse("run", job, f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(run, 1, "out of range", "aggregator.byzantine")

    def test_of_rounds_with_attackers(self):
        job = self.job({**SILOS, "aggregator.kind": "multi-krum", "aggregator.before": "arc",
                        "attack.clients": 2, "attack.kind": "sign-flip", "attack.strength": 5})
        run = self.train(job, "run", 2)
        for row in harness.table(run, "rounds.csv"):
            self.assertEqual(row["rejected"], "0")
            self.assertGreater(float(row["kappa_hat"]), 0)
            self.assertTrue(0 <= float(row["byzantine_weight"]) <= 1)
            self.assertTrue(0 < float(row["honest_recall"]) <= 1)
            self.assertGreater(float(row["radius"]), 0)
            self.assertGreaterEqual(float(row["krum_margin"]), 0)
            self.assertNotIn("squared_norm", row)
        self.assertFalse(os.path.exists(os.path.join(run, "directions.csv")))

    def test_a_column_rule_holds_where_the_mean_does_not(self):
        kappa = {}
        for kind in ("fedavg", "trimmed-mean"):
            job = self.job({**SILOS, "aggregator.kind": kind, "attack.clients": 2,
                            "attack.kind": "sign-flip", "attack.strength": 30,
                            "run.rounds": 1})
            run = self.train(job, kind, 2)
            kappa[kind] = float(harness.column(run, "rounds.csv", "kappa_hat")[0])
        self.assertLess(2 * kappa["trimmed-mean"], kappa["fedavg"])

    def test_kappa_is_below_what_is_proven(self):
        n, f = 11, 2
        least = f / (n - 2 * f)
        for kind, proven in {"trimmed-mean": 6 * least * (1 + least), "krum": 6 * (1 + least),
                             "median": 4 * (1 + least) ** 2,
                             "geometric-median": 4 * (1 + least) ** 2}.items():
            job = self.job({**SILOS, "aggregator.kind": kind, "attack.clients": f,
                            "aggregator.iterations": 100, "aggregator.smoothing": 1e-6,
                            "attack.kind": "optimal-alie"}, name=f"{kind}.cfg")
            run = self.train(job, kind, 2)
            found = [float(x) for x in harness.column(run, "rounds.csv", "kappa_hat")]
            self.assertLess(max(found), proven, kind)
            self.assertGreater(min(found), 0, kind)

    def test_updates_that_are_not_finite_are_rejected(self):
        changes = {**SILOS, "attack.clients": 2, "attack.kind": "nan"}
        for kind in ("multi-krum", "trimmed-mean", "centered-clipping"):
            job = self.job({**changes, "aggregator.kind": kind}, name=f"{kind}.cfg")
            run = self.train(job, kind, 2)
            self.assertEqual(set(harness.column(run, "rounds.csv", "rejected")), {"2"})
            self.assertTrue(all(math.isfinite(float(x))
                                for x in harness.column(run, "rounds.csv", "loss")))
        self.assert_one_error(self.hanse("run", self.job(changes), ranks=2, expect=None), 1,
                              "client", "not finite")


class Traces(harness.Case):
    def test_replay_gives_the_weights_of_the_run(self):
        for kind, more in {"krum": {}, "centered-clipping": {"aggregator.radius": 0.05},
                           "geometric-median": {"aggregator.before": "bucketing(2)",
                                                "aggregator.byzantine": 1}}.items():
            job = self.job({**SILOS, "aggregator.kind": kind, "attack.clients": 2,
                            "attack.kind": "alie", "run.trace": "true", **more},
                           name=f"{kind}.cfg")
            run = self.train(job, kind, 2)
            path = os.path.join(run, "trace-aggregator.json")
            replayed = json.loads(self.hanse("replay", path).stdout())["rounds"]
            weights = [float(line["weight"]) for line in harness.table(run, "participation.csv")]
            for t, found in enumerate(replayed):
                for i in range(11):
                    self.assertAlmostEqual(found["weights"][i], weights[11 * t + i], places=5)


if __name__ == "__main__":
    harness.main()
