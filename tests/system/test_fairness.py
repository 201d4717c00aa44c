"""What a fair rule leaves: its decision over the clients, and the fairness report."""

import os

import hanse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SILOS = {"federation.clients": 4, "federation.samples": 60, "sampler.kind": "full",
         "data.classes": 2, "aggregator.kind": "aaggff-s"}
HEART = [os.path.join(ROOT, "jobs", "heart-aaggff-s.cfg"),
         "--data.path=" + os.path.join(ROOT, "data", "heart", "heart.csv")]


class Decisions(hanse.Case):
    def test_at_every_evaluation(self):
        run = self.train(self.job(SILOS), "run")
        lines = hanse.table(run, "decisions.csv")
        self.assertEqual([line["round"] for line in lines], ["4", "8", "12"])
        for line in lines:
            p = [float(line[f"p_{client}"]) for client in range(4)]
            self.assertAlmostEqual(sum(p), 1, places=7)
            self.assertGreaterEqual(min(p), 0)
        self.assertEqual(len(lines[0]), 5)

    def test_the_same_on_any_ranks_and_after_a_resume(self):
        job = self.job(SILOS)
        run = self.train(job, "run")
        two = self.train(job, "two", ranks=2, changes={"run.rounds": 6})
        self.hanse("resume", two, "--run.rounds=12", ranks=3)
        # round 6 was the last when it was evaluated
        lines = [line for line in hanse.table(two, "decisions.csv") if line["round"] != "6"]
        self.assertEqual(lines, hanse.table(run, "decisions.csv"))
        self.assert_digest(two, run)

    def test_none_where_nobody_would_look(self):
        for name, changes in {"fedavg": {"aggregator.kind": "fedavg"},
                              "many": {"federation.clients": 101}}.items():
            run = self.train(self.job({**SILOS, **changes}), name)
            self.assertFalse(os.path.exists(os.path.join(run, "decisions.csv")), name)
        hundred = self.train(self.job({**SILOS, "federation.clients": 100}), "hundred")
        self.assertEqual(len(hanse.table(hundred, "decisions.csv")[0]), 101)


class EveryRule(hanse.Case):
    """The same bits on one rank, and stopped and resumed on others."""

    def check(self, kind, changes):
        job = self.job(changes, name=f"{kind}.cfg")
        alone = self.train(job, kind)
        stopped = self.train(job, kind + "-stopped", ranks=2, changes={"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
        self.assert_digest(stopped, alone, kind)

    def test_aggregators(self):
        devices = {"federation.clients": 12, "sampler.per-round": 4}
        rules = {"aaggff-s": SILOS}
        for kind in ["fedavg", "propfair", "afl", "qfedavg", "term", "superquantile",
                     "aaggff-d"]:
            rules[kind] = {**devices, "aggregator.kind": kind, "aggregator.base": 9}
        for variant in ["reference", "corrected"]:
            rules["aaggff-d-" + variant] = {**devices, "aggregator.kind": "aaggff-d",
                                            "aggregator.variant": variant}
        rules["estimated-losses"] = {**devices, "aggregator.kind": "term",
                                     "aggregator.loss": "batches(1)", "client.batch": 3}
        layers = {**devices, "model.kind": "mlp", "model.hidden": "7,5"}
        for weights in ["samples", "uniform"]:
            rules["fedmgda+-" + weights] = {**layers, "aggregator.kind": "fedmgda+",
                                            "aggregator.weights": weights}
        for variant in ["paper", "reference"]:
            rules["fedlf-" + variant] = {**layers, "aggregator.kind": "fedlf",
                                         "aggregator.variant": variant}
        # Pairs in the clients' states; of full batches with a gradient more, of several steps too;
        # gradients in factors.
        for name, more in {"pairs": {"client.batch": 4}, "full-batches": {"client.batch": 0},
                           "steps": {"client.steps": 4, "client.gradient": "mean"},
                           "factors": {"client.steps": 5, "client.batch": 1},
                           "no-pairs": {"client.rate": "gradient"}}.items():
            rules["dqn-fed-" + name] = {**layers, "aggregator.kind": "dqn-fed", "client.pairs": 3,
                                        "client.momentum": 0, "aggregator.radius": 0.5,
                                        "aggregator.backtrack": 6, **more}
        rules["adafed"] = {**layers, "aggregator.kind": "adafed", "client.momentum": 0,
                           "client.rate-power": 2, "aggregator.radius": 0.5}
        hanse.together([lambda kind=kind: self.check(kind, rules[kind]) for kind in rules])

    def test_numbers_of_rules_on_inner_products(self):
        job = self.job({"aggregator.kind": "dqn-fed", "client.momentum": 0, "client.batch": 0,
                        "sampler.kind": "full", "federation.clients": 4})
        run = self.train(job, "dqn", 2)
        for row in hanse.table(run, "rounds.csv"):
            self.assertGreater(float(row["squared_norm"]), 0)
            self.assertEqual([row["ridge"], row["dropped"], row["conflicts"]], ["0", "0", "0"])
            self.assertLess(float(row["angle_max"]), 90)
        clients = hanse.table(run, "directions.csv")
        self.assertEqual([row["client"] for row in clients[:4]], ["0", "1", "2", "3"])
        self.assertEqual(len(clients), 4 * len(self.rounds(run)))
        self.assertTrue(all(float(row["rate"]) > 0 for row in clients))

    def test_server_optimizers_and_the_proximal_term(self):
        kinds = ["momentum", "adam", "yogi", "adagrad"]
        hanse.together([lambda kind=kind: self.check(
            kind, {"server.optimizer": kind, "server.lr": 0.05, "server.lr-decay": 0.9,
                   "client.update": "prox", "client.mu": 0.1}) for kind in kinds])


class AreaUnderRoc(hanse.Case):
    def test_for_two_classes_only(self):
        two = self.train(self.job(SILOS), "two")
        self.assertTrue(0 <= hanse.summary(two)["metrics"]["auroc"] <= 1)
        self.assertEqual(len(hanse.column(two, "evaluations.csv", "auroc")), 3)
        three = self.train(self.job({**SILOS, "data.classes": 3}), "three")
        self.assertNotIn("auroc", hanse.summary(three)["metrics"])
        self.assertNotIn("auroc", hanse.table(three, "evaluations.csv")[0])

    def test_unknown_where_no_client_has_both_classes(self):
        run = self.train(self.job({**SILOS, "federation.partition": "by-label",
                                   "federation.labels-per-client": 1}), "run")
        self.assertNotIn("auroc", hanse.summary(run)["metrics"])
        self.assertEqual(hanse.column(run, "evaluations.csv", "auroc"), ["", "", ""])


class HeartDisease(hanse.Case):
    """jobs/heart-aaggff-s.cfg is fast enough to be run as it is."""

    def test_the_worst_hospital_gains(self):
        worst = {}
        for kind in ("fedavg", "aaggff-s"):
            worst[kind] = 0
            for seed in range(1, 6):
                run = self.path(f"{kind}-{seed}")
                self.hanse("run", *HEART, f"--run.out={run}", f"--aggregator.kind={kind}",
                           f"--run.seed={seed}")
                metrics = hanse.summary(run)["metrics"]
                worst[kind] += metrics["accuracy_worst10"] / 5
                self.assertGreater(metrics["auroc"], 0.7)
        self.assertGreater(worst["aaggff-s"], worst["fedavg"] + 0.05)

    def test_the_same_on_three_ranks(self):
        for name, ranks in (("alone", None), ("three", 3)):
            self.hanse("run", *HEART, f"--run.out={self.path(name)}", ranks=ranks)
        self.assert_digest(self.path("alone"), self.path("three"))


class Standardize(hanse.Case):
    def test_pixels_are_not_standardized(self):
        process = self.hanse("run", self.job({"data.standardize": "all"}),
                             f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(process, 2, "data.standardize", "hint")


if __name__ == "__main__":
    hanse.main()
