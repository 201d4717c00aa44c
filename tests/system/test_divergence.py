"""run.on-divergence: training that leaves the range of numbers, as an error and as a result."""

import json
import os

import harness

STOP = {"run.on-divergence": "stop"}
# Squared errors at a rate at which each round makes the model some times as long.
WILD = {"run.rounds": 60, "data.kind": "csv", "data.client-column": "who", "data.label-column": "y",
        "data.task": "regression", "data.classes": None, "federation.clients": None,
        "federation.samples": None, "model.loss": "squared-error", "client.batch": 0,
        "client.lr": 1.5, "sampler.kind": "full", "sampler.per-round": None,
        "data.test-fraction": 0.25, "evaluate.every": 3}
FILES = ("evaluations.csv", "clients.csv")


class DivergenceCase(harness.Case):
    def wild(self, changes=None, name="job.cfg"):
        lines = [f"c{i % 5},{(i * 7) % 11 - 5},{(i * 5) % 13 - 6},{(i * 3) % 7}" for i in range(60)]
        path = self.write("data.csv", "\n".join(["who,a,b,y", *lines]) + "\n")
        return self.job({**WILD, "data.path": path, **(changes or {})}, name)

    def check_result(self, job, name, ranks=(1, 2, 3), files=FILES):
        """The job ends as a result: that of a run of the rounds before, on any ranks, and after a
        resume. Returns the round in which it has diverged."""
        run = self.train(job, name, changes=STOP)
        found = harness.summary(run)
        self.assertEqual(set(found["diverged"]), {"round", "reason"}, name)
        last = found["diverged"]["round"] - 1
        self.assertEqual(found["rounds"], last)
        self.assertEqual(self.rounds(run), list(range(1, last + 1)))
        if last > 0:
            before = self.train(job, f"{name}-before", changes={"run.rounds": last})
            self.assert_digest(run, before, name)
            for file in files:
                self.assertEqual(harness.text(run, file), harness.text(before, file), (name, file))
        for count in ranks[1:]:
            other = self.train(job, f"{name}-{count}", count, changes=STOP)
            self.assert_digest(other, run, name)
            self.assertEqual(harness.summary(other)["diverged"]["round"], last + 1)
        kept = [harness.text(run, file) for file in files]
        self.hanse("resume", run, ranks=2)
        self.assertEqual(harness.summary(run)["diverged"], found["diverged"])
        self.assertEqual(harness.digest(run), found["model_digest"])
        self.assertEqual([harness.text(run, file) for file in files], kept)
        return last + 1


class Federated(DivergenceCase):
    def test_is_an_error_or_a_result(self):
        job = self.wild()
        failed = self.path("failed")
        process = self.hanse("run", job, f"--run.out={failed}", ranks=2, expect=None)
        self.assert_one_error(process, 1, "the update of a client is not finite or above", "round")
        diverged = self.check_result(job, "run")
        self.assertGreater(diverged, 4)
        shown = self.hanse("run", job, f"--run.out={self.path('shown')}",
                           "--run.on-divergence=stop")
        self.assertRegex(shown.stdout(), rf"diverged +in round {diverged}: the update of a client")
        self.assertIn("the training has diverged", shown.stderr())
        self.assertNotIn("hint", harness.summary(self.path("shown"))["diverged"]["reason"])
        status = json.loads(self.hanse("status", self.path("shown"), "--json").stdout())
        self.assertEqual(status[0]["state"], "done")
        # A run that has failed ends as a result, from its checkpoint.
        every = self.train(job, "every", changes={"run.rounds": 3, "checkpoint.every": 1})
        self.hanse("resume", every, "--run.rounds=60", expect=1)
        self.hanse("resume", every, "--run.on-divergence=stop", ranks=2)
        self.assert_digest(every, self.path("shown"))

    def test_states_of_clients_go_back_too(self):
        for name, more in {"scaffold": {"client.update": "scaffold", "server.optimizer": None},
                           "ditto": {"client.update": "ditto"},
                           "momentum": {"client.worker-momentum": 0.5}}.items():
            self.check_result(self.wild(more, f"{name}.cfg"), name, ranks=(1, 3))

    def test_rules_that_weigh_after_the_training(self):
        for name, more in {
                "median": {"aggregator.kind": "median"},
                "geometric-median": {"aggregator.kind": "geometric-median"}}.items():
            run = self.train(self.wild(more, f"{name}.cfg"), name, 2, {**STOP, "run.rounds": 400})
            self.assertIn("diverged", harness.summary(run), name)

    def test_a_step_of_the_server(self):
        job = self.job({"server.lr": 1e38, "server.optimizer": "sgd", "client.lr": 100})
        run = self.train(job, "run", 2, STOP)
        found = harness.summary(run)
        self.assertEqual((found["rounds"], found["diverged"]["round"]), (0, 1))
        self.assertIn("the model behind the server's step is not finite",
                      found["diverged"]["reason"])
        self.assertEqual(harness.column(run, "evaluations.csv", "round"), ["0"])
        start = self.train(job, "start", changes={"evaluate.start": "true", "run.rounds": 1,
                                                  "server.lr": 1})
        self.assertEqual(harness.column(run, "evaluations.csv", "loss_mean")[0],
                         harness.column(start, "evaluations.csv", "loss_mean")[0])

    def test_asynchronous_rounds(self):
        job = self.wild({"clock.kind": "virtual", "clock.speed": "lognormal(1,0.8)",
                         "async.kind": "fedbuff", "async.concurrency": 4, "async.buffer": 2,
                         "sampler.kind": "uniform", "run.rounds": 100})
        self.check_result(job, "run", files=("evaluations.csv",))

    def test_what_is_no_divergence_stays_an_error(self):
        job = self.job({"aggregator.kind": "krum", "aggregator.byzantine": 1,
                        "sampler.availability": 0.2, **STOP})
        process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2, expect=None)
        self.assert_one_error(process, 1, "krum with f = 1 needs at least 5 rows")

    def test_repeats_are_counted(self):
        job = self.wild({**STOP, "run.repeats": 2})
        run = self.train(job, "run", 2)
        found = harness.summary(run)
        self.assertEqual((found["diverged"], len(found["rounds_done"])), (2, 2))
        self.assertIn("2 of 2 repeats", self.hanse("resume", run).stdout())


class OtherProtocols(DivergenceCase):
    def test_local(self):
        self.check_result(self.wild({"run.protocol": "local"}), "run")

    def test_centralized(self):
        self.check_result(self.wild({"run.protocol": "centralized", "sampler.kind": None}), "run")

    def test_online(self):
        for kind in ("local", "fedsgd", "fed-exp", "omni-fedge"):
            job = self.job({
                "run.protocol": "online", "online.kind": kind, "client.batch": None,
                "client.lr": None, "sampler.per-round": None, "federation.clients": 4,
                "federation.samples": 60, "model.kind": "mlp", "model.hidden": "7",
                "online.lr": 1e30, "online.loss-scale": 6 if kind == "fed-exp" else None},
                f"{kind}.cfg")
            run = self.train(job, kind, 2, STOP)
            found = harness.summary(run)
            self.assertEqual(found["rounds"] + 1, found["diverged"]["round"], kind)
            self.assert_digest(self.train(job, f"{kind}-1", 1, STOP), run, kind)
            self.hanse("resume", run)
            self.assertEqual(harness.digest(run), found["model_digest"])
            if found["rounds"] > 0:
                before = self.train(job, f"{kind}-before", changes={"run.rounds": found["rounds"]})
                self.assert_digest(run, before, kind)
                self.assertEqual(harness.text(run, "online.csv"), harness.text(before, "online.csv"))


class Attackers(DivergenceCase):
    FEW = {"federation.clients": 8, "sampler.kind": "full", "sampler.per-round": None}

    def test_the_attacker_is_named(self):
        for name, more, words in (
                ("nan", {"attack.kind": "nan"}, "the update that an attacker sends is not finite"),
                ("far", {"attack.kind": "ipm", "attack.strength": 1e9},
                 "a weighted update is out of range")):
            job = self.job({**self.FEW, "attack.clients": "6,", **more}, f"{name}.cfg")
            process = self.hanse("run", job, f"--run.out={self.path(name)}", ranks=2, expect=None)
            self.assert_one_error(process, 1, words, "client 6")
            self.assertNotIn("radius", process.errors()[0])
            found = harness.summary(self.train(job, f"{name}-stop", 2, STOP))
            self.assertIn("client 6", found["diverged"]["reason"])

    def test_no_innocent_client_is_named(self):
        """The attackers' updates are finite, and drive the model so far that honest training ends."""
        job = self.wild({"client.lr": 0.001, "attack.kind": "sign-flip", "attack.clients": "4,",
                         "attack.strength": 3000, "server.optimizer": "sgd", "run.rounds": 200})
        process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2, expect=None)
        self.assertEqual(process.status, 1)
        self.assertNotRegex(process.errors()[0], r"\(client 'c[0-3]'")

    def test_a_rule_by_losses_cannot_do_without_a_finite_one(self):
        job = self.job({**self.FEW, "attack.kind": "feedback", "attack.clients": "6,",
                        "attack.feedback": 1.79e308, "aggregator.kind": "afl"})
        process = self.hanse("run", job, f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(process, 1, "loss inf of participant 6", "client 6, round 1")
        run = self.train(job, "stop", 2, STOP)
        self.assertEqual(harness.summary(run)["diverged"]["round"], 1)

    def test_one_liar_ends_no_run_with_a_sampler_that_learns(self):
        for kind in ("osmd", "adaptive-osmd", "mabs", "vrb", "avare", "oort", "optimal",
                     "power-of-choice"):
            job = self.job({"attack.kind": "feedback", "attack.clients": "0,1,2",
                            "attack.feedback": 1e200, "sampler.kind": kind,
                            "run.rounds": 20}, f"{kind}.cfg")
            run = self.train(job, kind, 2)
            self.assertEqual(len(self.rounds(run)), 20)
            self.assert_digest(self.train(job, f"{kind}-1"), run, kind)

    def test_honest_updates_beyond_the_range_of_a_sum(self):
        """The attackers' mean of them has no range: entries of 2^18 / 5 and more."""
        job = self.wild({"attack.kind": "sign-flip", "attack.clients": "4,",
                         "aggregator.kind": "median", "client.lr": 1.2, "run.rounds": 400})
        run = self.train(job, "run", 2, STOP)
        self.assertNotIn("attack", harness.summary(run)["diverged"]["reason"].split("(")[0])


if __name__ == "__main__":
    harness.main()
