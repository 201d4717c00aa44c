"""Simulated runs: real messages and sums, declared training, the same bits on any number of ranks."""

import json
import os

import harness

SAMPLE_S = 0.01
SIMULATED = {"simulate.sample-us": 1e6 * SAMPLE_S, "data.test-fraction": 0,
             "aggregator.estimator": "unbiased", "server.optimizer": "momentum"}
# 23 clients of 20 samples; five of them a round.
CLIENT_S = 20 * SAMPLE_S
KINDS = [{"client.update": "scaffold"}, {"client.update": "feddyn", "server.optimizer": "sgd",
                                         "aggregator.estimator": "normalized"},
         {"aggregator.kind": "fedmgda+"}, {"aggregator.kind": "dqn-fed"},
         {"client.personal": "fc1.bias"}]


class Simulation(harness.Case):
    def simulate(self, name, ranks=None, changes=None):
        return self.train(self.job(SIMULATED, f"{name}.cfg"), name, ranks, changes)

    def seconds(self, run, column):
        return [float(value) for value in harness.column(run, "rounds.csv", column)]

    def assert_times(self, found, expected, more=0.05):
        """Of rounds; the processor's own work is on top."""
        for seconds in found:
            self.assertGreaterEqual(seconds, expected - 1e-9)
            self.assertLess(seconds, expected + more)


class Ranks(Simulation):
    def test_one_and_64(self):
        """The model of one rank; each of the five clients trains on a rank of its own."""
        one, many = harness.together([
            lambda: self.simulate("one"),
            lambda: self.simulate("many", 64, {
                "run.rounds": 12, "simulate.hosts": 32, "simulate.cores": 2,
                "simulate.latency-us": 1000, "run.timeline": "true"})])
        self.assert_digest(many, one, "on 64 simulated ranks")
        self.assert_times(self.seconds(one, "seconds_train"), 5 * CLIENT_S)
        self.assert_times(self.seconds(one, "seconds"), 5 * CLIENT_S)
        self.assert_times(self.seconds(many, "seconds_train"), CLIENT_S)
        for seconds in self.seconds(many, "seconds_comm"):  # of trees of 32 hosts
            self.assertGreater(seconds, 0.02)
        summary = harness.summary(many)
        self.assertIs(summary["simulated"], True)
        self.assertNotIn("metrics", summary)
        self.assertLess(summary["accounts"]["phases"]["training"]["least"], CLIENT_S)  # rank 0's
        events = json.loads(harness.text(many, "timeline.json"))
        clients = [event for event in events if event["name"] == "client 3"]
        self.assertGreater(len(clients), 0)
        for event in clients:
            self.assertAlmostEqual(event["dur"], 1e6 * CLIENT_S, delta=1e3)
            self.assertLess(event["ts"] + event["dur"], 1e6 * summary["seconds"] + 1e6)

    def test_cores_are_shared(self):
        run = self.simulate("run", 2, {"simulate.cores": 0.5, "sampler.per-round": 4})
        self.assert_times(self.seconds(run, "seconds_train"), 2 * CLIENT_S * 4)

    def test_resume_on_other_ranks(self):
        straight = self.simulate("straight", 2)
        run = self.simulate("run", 3, {"run.rounds": 7, "simulate.hosts": 3})
        self.hanse("resume", run, "--run.rounds=12", "--simulate.hosts=1")
        self.assert_digest(run, straight)

    def test_kinds(self):
        """What clients send beside their updates, what they keep, and what rules ask for."""
        def check(number, changes):
            runs = [self.train(self.job({**SIMULATED, **changes, "run.rounds": 4},
                                        f"{number}-{ranks}.cfg"), f"{number}-{ranks}", ranks)
                    for ranks in (None, 3)]
            with self.subTest(changes=changes):
                self.assert_digest(*runs)
                self.assert_times(self.seconds(runs[0], "seconds_train"), 5 * CLIENT_S, 0.2)
        harness.together([lambda number=number, changes=changes: check(number, changes)
                        for number, changes in enumerate(KINDS)])


class NoTraining(Simulation):
    def test_cannot_be_taken_for_one(self):
        run = self.path("run")
        process = self.hanse("run", self.job({**SIMULATED, "evaluate.start": "true"}),
                             f"--run.out={run}")
        self.assertIn("simulated run: no client is trained", process.stderr())
        self.assertIn("no client was trained", process.stdout())
        self.assertNotIn("accuracy", process.stdout())
        for name in ("model.h5", "clients.csv"):
            self.assertFalse(os.path.exists(os.path.join(run, name)), name)
        self.assertEqual(harness.table(run, "evaluations.csv"), [])
        trained = self.train(self.job(), "trained")
        self.assertNotIn("simulated", harness.summary(trained))
        self.assertNotEqual(harness.digest(run), harness.digest(trained))

    def test_bad_input(self):
        for changes, words in (
                ({"client.update": "fednl", "sampler.kind": "full"},
                 ["client.update", "fednl cannot be simulated", "simulate.sample-us = 0"]),
                ({"simulate.hosts": 3}, ["simulate.hosts", "3 hosts, but 2 ranks"]),
                ({"simulate.sample-us": -1}, ["simulate.sample-us"])):
            process = self.hanse("run", self.job({**SIMULATED, **changes}), "--run.out=run",
                                 ranks=2, expect=None)
            self.assert_one_error(process, 2, *words)


if __name__ == "__main__":
    harness.main()
