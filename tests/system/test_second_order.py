"""FedNew and FedNL: on any ranks, after a resume, on hospitals, and what they refuse."""

import json
import os

import harness
import test_bad_input

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEART = [os.path.join(ROOT, "jobs", "heart-second-order.cfg"),
         "--data.path=" + os.path.join(ROOT, "data", "heart", "heart.csv")]
SILOS = {"federation.clients": 6, "federation.partition": "power-law", "data.classes": 3,
         "data.shape": "9", "sampler.kind": "full", "client.weight-decay": 0.01}
FEDNEW = {**SILOS, "client.update": "fednew"}
FEDNL = {**SILOS, "client.update": "fednl"}


class AnyRanks(harness.Case):
    """The straight run, which those on more ranks and one stopped and resumed must equal."""

    def check(self, name, changes):
        job = self.job(changes, name=f"{name}.cfg")
        straight = self.train(job, name)
        for ranks, role in ((2, "shared"), (3, "dedicated"), (4, "shared")):
            run = self.train(job, f"{name}-{ranks}", ranks, {"server.role": role})
            self.assert_digest(run, straight, f"{name} on {ranks} ranks")
        stopped = self.train(job, name + "-stopped", ranks=2, changes={"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
        self.assert_digest(stopped, straight, f"{name} resumed")
        self.assertEqual(harness.text(stopped, "clients.csv"), harness.text(straight, "clients.csv"))
        return harness.digest(straight)

    def test_same_bits(self):
        jobs = {"fednew": FEDNEW,
                "mlp": {**FEDNEW, "model.kind": "mlp", "model.hidden": "5",
                        "aggregator.weights": "uniform", "client.alpha": 1, "client.rho": 1},
                "lenet": {**FEDNEW, "data.shape": "1,12,12", "model.kind": "lenet",
                          "client.alpha": 1, "client.rho": 1, "client.iterations": 4,
                          "federation.clients": 3},
                "fednl": FEDNL,
                "top": {**FEDNL, "client.compressor": "top", "client.hessian-start": "zero"},
                "projection": {**FEDNL, "client.safeguard": "projection",
                               "client.hessian-rate": 0.5, "aggregator.weights": "uniform"}}
        digests = harness.together([lambda name=name: self.check(name, jobs[name]) for name in jobs])
        self.assertEqual(len(set(digests)), len(jobs))

    def test_a_float32_sum(self):
        for name, changes in {"fednew": FEDNEW, "fednl": FEDNL}.items():
            job = self.job(changes, name=f"{name}.cfg")
            exact = self.train(job, name + "-exact")
            fast = self.train(job, name + "-fast", 2, {"comm.reduction": "fast"})
            self.assertAlmostEqual(harness.summary(fast)["metrics"]["train_loss_mean"],
                                   harness.summary(exact)["metrics"]["train_loss_mean"], places=4)


class Heart(harness.Case):
    """Twenty rounds of FedNL are at the optimum; fedavg is not after fifty."""

    def loss(self, name, *changes):
        run = self.path(name)
        self.hanse("run", *HEART, f"--run.out={run}", *changes)
        return harness.summary(run)["metrics"]["train_loss_weighted"]

    def test_rounds_to_the_optimum(self):
        calls = [("optimum", "--client.update=fednl", "--run.rounds=40"),
                 ("fednl", "--client.update=fednl", "--run.rounds=20"),
                 ("fednew", "--client.update=fednew", "--run.rounds=30"),
                 ("fedavg", "--client.update=sgd", "--run.rounds=50")]
        optimum, fednl, fednew, fedavg = harness.together(
            [lambda call=call: self.loss(*call) for call in calls])
        self.assertAlmostEqual(fednl, optimum, delta=1e-5)
        self.assertAlmostEqual(fednew, optimum, delta=1e-4)
        self.assertGreater(abs(fedavg - optimum), 1e-3)


class Plan(harness.Case):
    def bytes_sent(self, update):
        """Of a round on two ranks."""
        job = self.job({**SILOS, "client.update": update}, name=f"{update}.cfg")
        return json.loads(self.hanse("plan", job, "--ranks=2", "--json").stdout())["sent_bytes"]

    def test_sums_go_up_only(self):
        sgd = self.bytes_sent("sgd")
        # 30 parameters more both ways, 4 bytes down and 8 up each; or 30 * 31 / 2 + 1 up.
        self.assertEqual(self.bytes_sent("fednew") - sgd, 30 * 12)
        self.assertEqual(self.bytes_sent("fednl") - sgd, (30 * 31 // 2 + 1) * 8)


class BadInput(test_bad_input.BadInput):
    def test_needs_everyone(self):
        self.refuse("fednew needs everyone", "sampler.kind",
                    changes={**FEDNEW, "sampler.kind": "uniform"}, places=(None,))
        self.refuse("fednl needs everyone", "sampler.availability",
                    changes={**FEDNL, "sampler.availability": 0.5})

    def test_other_parts(self):
        for key, value in {"aggregator.kind": "term", "client.momentum": 0.5, "client.clip": 1,
                           "server.optimizer": "adam"}.items():
            self.refuse("fednl needs", key, changes={**FEDNL, key: value}, places=(None,))

    def test_models(self):
        self.refuse("fednew needs the Hessian", "client.update", "hint",
                    changes={**FEDNEW, "data.shape": "3,8,8", "model.kind": "cnn-cifar"})
        self.refuse("2000 parameters", "2001", "fednew",
                    changes={**FEDNL, "data.classes": 2, "data.shape": "2000",
                             "model.loss": "binary-logistic"})

    def test_ranges(self):
        for key, value in {"client.rho": 0, "client.alpha": -1, "client.tolerance": 1,
                           "client.iterations": 0}.items():
            self.refuse(key, changes={**FEDNEW, key: value}, places=(None,))
        for key, value in {"client.rank": 0, "client.hessian-rate": 1.5, "client.compressor": "qr",
                           "client.least-eigenvalue": 0}.items():
            self.refuse(key, changes={**FEDNL, key: value}, places=(None,))


class Failure(harness.Case):
    def test_a_hessian_that_is_not_positive_definite(self):
        """More parameters than samples and no penalty: a singular Hessian, known from the start."""
        job = self.job({**FEDNL, "client.weight-decay": 0, "federation.samples": 4})
        process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2, expect=1)
        self.assert_one_error(process, 1, "not positive definite", "client.weight-decay")


if __name__ == "__main__":
    harness.main()
