"""run.protocol = online: the same bits on any ranks, exact resume, files, refusals."""

import json
import os
import re
import signal

import harness

# The keys of SMALL_JOB that this protocol does not read go.
ONLINE = {
    "run.protocol": "online",
    "client.batch": None,
    "client.lr": None,
    "sampler.per-round": None,
    "federation.clients": 5,
    "federation.samples": 60,
    "online.loss-scale": 6,
}
KINDS = {
    "fed-exp": {},
    "peers": {"online.peers": 3, "online.order": "predict-then-train", "online.c": 0.5},
    "corrected": {"online.variant": "corrected", "online.drift": "swap"},
    "ridge": {"online.gamma": "ridge-all", "online.drift": "labels"},
    "in-place": {"online.mixing": "in-place", "online.peers": 4},
    "omni-fedge": {"online.kind": "omni-fedge", "online.loss-scale": None, "model.kind": "mlp",
                   "model.hidden": "7"},
    "passes": {"online.horizon": 4, "online.passes": 3, "online.steps": 3, "online.batch": 2,
               "federation.partition": "class-shares", "federation.share": 0.8},
    "local": {"online.kind": "local"},
    "fedsgd": {"online.kind": "fedsgd", "model.kind": "mlp", "model.hidden": "7"},
}
FILES = ("evaluations.csv", "clients.csv", "online.csv")


class OnlineCase(harness.Case):
    def online(self, changes=None, name="job.cfg"):
        return self.job({**ONLINE, **(changes or {})}, name)

    def assert_same_run(self, run, expected, what):
        self.assert_digest(run, expected, what)
        weighted = os.path.exists(os.path.join(expected, "weights.csv"))
        for name in FILES + (("weights.csv",) if weighted else ()):
            self.assertEqual(harness.text(run, name), harness.text(expected, name), (name, what))
        for field in ("round", "clients", "loss", "mixed_loss"):
            self.assertEqual(harness.column(run, "rounds.csv", field),
                             harness.column(expected, "rounds.csv", field), what)


class SameBits(OnlineCase):
    def check(self, kind):
        job = self.online(KINDS[kind])
        alone = self.train(job, "alone")
        runs = harness.together([lambda ranks=ranks: self.train(job, f"ranks-{ranks}", ranks)
                               for ranks in (1, 2, 3, 4)])
        for ranks, run in zip((1, 2, 3, 4), runs):
            self.assert_same_run(run, alone, f"{kind} on {ranks} ranks")

    def test_fed_exp(self):
        self.check("fed-exp")

    def test_sampled_peers_and_the_test(self):
        self.check("peers")

    def test_corrected_with_drift(self):
        self.check("corrected")

    def test_in_place(self):
        self.check("in-place")

    def test_omni_fedge(self):
        self.check("omni-fedge")

    def test_ridge_on_all_data(self):
        self.check("ridge")

    def test_passes_over_a_stream(self):
        self.check("passes")

    def test_local(self):
        self.check("local")

    def test_fedsgd(self):
        self.check("fedsgd")

    def test_more_ranks_than_nodes(self):
        job = self.online({"federation.clients": 2})
        self.assert_same_run(self.train(job, "four", 4), self.train(job, "alone"), "4 ranks")


class Resume(OnlineCase):
    def check(self, kind, ranks, ranks_after):
        """A run that ends in mid-stream, and goes on to its end."""
        job = self.online({"online.horizon": 12, **KINDS[kind]})
        run = self.train(job, "run", ranks, {"run.rounds": 5})
        self.assertEqual(self.rounds(run), list(range(1, 6)))
        self.hanse("resume", run, "--run.rounds=12", "--evaluate.every=4", ranks=ranks_after)
        straight = self.train(job, "straight")
        self.assert_digest(run, straight, kind)
        for name in ("clients.csv", "online.csv"):
            self.assertEqual(harness.text(run, name), harness.text(straight, name), (name, kind))
        self.assertEqual(harness.table(run, "evaluations.csv")[-1],
                         harness.table(straight, "evaluations.csv")[-1])

    def test_fed_exp(self):
        self.check("fed-exp", 3, None)

    def test_sampled_peers_and_the_test(self):
        self.check("peers", None, 4)

    def test_corrected_with_drift(self):
        self.check("corrected", 2, 3)

    def test_in_place(self):
        self.check("in-place", 2, None)

    def test_omni_fedge(self):
        self.check("omni-fedge", 3, 2)

    def test_ridge_on_all_data(self):
        self.check("ridge", 4, 2)

    def test_passes_over_a_stream(self):
        self.check("passes", 3, 2)

    def test_local(self):
        self.check("local", 2, 1)

    def test_fedsgd(self):
        self.check("fedsgd", None, 2)

    def test_stopped_by_a_signal(self):
        job = self.online({"run.rounds": 20000, "data.shape": "4", "federation.samples": 30000,
                           "checkpoint.every": 0, "evaluate.every": 0})
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=3)
        self.wait_for_rounds(process, run, 3)
        process.signal(signal.SIGUSR1)
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())
        last = int(re.search(r"stopped after round (\d+)", process.stderr())[1])
        self.hanse("resume", run, f"--run.rounds={last + 7}", ranks=2)
        straight = self.train(job, "straight", changes={"run.rounds": last + 7,
                                                        "online.horizon": 20000})
        self.assert_digest(run, straight, f"after a stop at round {last}")
        self.assertEqual(harness.text(run, "online.csv"), harness.text(straight, "online.csv"))

    def test_the_stream_ends_where_it_was_set_to(self):
        run = self.train(self.online(), "run")
        process = self.hanse("resume", run, "--run.rounds=13", expect=None)
        self.assert_one_error(process, 2, "12 batches", "13 rounds", "run.rounds")


class Files(OnlineCase):
    def test_tables(self):
        run = self.train(self.online(), "run", 2)
        lines = harness.table(run, "online.csv")
        self.assertEqual([(int(line["round"]), int(line["node"])) for line in lines],
                         [(t, i) for t in range(1, 13) for i in range(5)])
        sums = [0.0] * 5
        for line in lines:
            node = int(line["node"])
            sums[node] += float(line["loss"])
            self.assertAlmostEqual(float(line["cumulative_loss"]), sums[node], places=6)
            self.assertTrue(0 <= float(line["accuracy"]) <= 1)
        weights = harness.table(run, "weights.csv")
        self.assertEqual([(int(line["round"]), int(line["node"])) for line in weights],
                         [(t, i) for t in (4, 8, 12) for i in range(5)])
        for line in weights:
            self.assertAlmostEqual(sum(float(line[f"p_{j}"]) for j in range(5)), 1, places=7)
        metrics = harness.summary(run)["metrics"]
        last = lines[-5:]
        self.assertAlmostEqual(metrics["online_loss"], sum(sums) / 60, places=6)
        self.assertAlmostEqual(metrics["regret_mean"],
                               sum(float(line["regret"]) for line in last) / 5, places=6)
        self.assertLessEqual(metrics["regret_max"], metrics["regret_bound"])
        self.assertLessEqual(metrics["regret_mean"], metrics["regret_mixture"] + 1e-9)
        self.assertFalse(os.path.exists(os.path.join(run, "decisions.csv")))

    def test_bytes_of_a_round_are_the_rows_and_the_losses(self):
        nodes, ranks, parameters = 5, 3, 64 * 5 + 5
        for kind, per_rank in (("fed-exp", 4 * nodes * parameters + 8 * nodes * (nodes + 3)),
                               ("fedsgd", 4 * nodes * parameters), ("local", 0)):
            run = self.train(self.online({"online.kind": kind}), kind, ranks)
            reports = 24 * 4 + 48 * 2  # four nodes and two ranks report to rank 0
            self.assertEqual({int(x) for x in harness.column(run, "rounds.csv", "bytes_sent")},
                             {(ranks - 1) * per_rank + reports}, kind)

    def test_model_file_holds_every_node(self):
        run = self.train(self.online({"online.kind": "local"}), "run", 2)
        shown = self.hanse("inspect", os.path.join(run, "model.h5")).stdout()
        for node in range(5):
            self.assertIn(f"node{node}/fc1.weight", shown)

    def test_regression(self):
        run = self.train(self.online({"data.classes": 0, "model.loss": "squared-error",
                                      "online.gamma": "ridge-batch"}), "run")
        self.assertEqual(set(harness.column(run, "online.csv", "accuracy")), {""})
        self.assertNotIn("online_accuracy", harness.summary(run)["metrics"])

    def test_written_job_reproduces_the_run(self):
        run = self.train(self.online({"online.eta": 0.75}), "run")
        again = self.train(os.path.join(run, "job.cfg"), "again")
        self.assert_same_run(again, run, "again")

    def test_keys_of_other_protocols_are_told(self):
        process = self.hanse("run", self.online({"client.batch": 3, "sampler.per-round": 4}),
                             f"--run.out={self.path('run')}")
        told = [line for line in process.lines() if "not used" in line]
        self.assertEqual(len(told), 1, process.describe())
        for key in ("client.batch", "sampler.per-round"):
            self.assertIn(key, told[0])


class Commands(OnlineCase):
    def test_plan(self):
        process = self.hanse("plan", self.online(), f"--run.out={self.path('run')}", "--ranks=3")
        for part in ("parameters of a model", "batches a stream", "model rows a rank",
                     "sent a round"):
            self.assertIn(part, process.stdout())
        self.assertFalse(os.path.exists(self.path("run", "rounds.csv")))

    def test_list(self):
        shown = self.hanse("list", "online").stdout()
        for part in ("fed-exp", "local", "fedsgd", "online.eta = auto", "online.drift",
                     "online.loss-scale"):
            self.assertIn(part, shown)
        self.assertIn("online", self.hanse("list", "protocols").stdout())

    def test_replay(self):
        trace = {"rule": {"online.kind": "fed-exp", "online.eta": 50}, "nodes": 2,
                 "rounds": [{"losses": [[0, 1], [1, 1]]}]}
        shown = self.hanse("replay", self.write("trace.json", json.dumps(trace))).stdout()
        (first, second), = [round["weights"] for round in json.loads(shown)["rounds"]]
        self.assertLess(first[1], 1e-20)
        self.assertEqual(second, [0.5, 0.5])


class Refusals(OnlineCase):
    def refuse(self, changes, *parts, status=2, ranks=None):
        process = self.hanse("run", self.online(changes), f"--run.out={self.path('run')}",
                             ranks=ranks, expect=None)
        self.assert_one_error(process, status, *parts)
        if status == 2:
            self.assertEqual(len(process.lines()), 1, process.describe())

    def test_more_peers_than_nodes(self):
        for ranks in (None, 3):
            self.refuse({"online.peers": 6}, "6 peers", "5 nodes", "online.peers", ranks=ranks)

    def test_a_stream_that_is_too_short(self):
        for ranks in (None, 2):
            self.refuse({"run.rounds": 500}, "too few for 500 batches", "client 0",
                        "online.horizon", ranks=ranks)
        self.refuse({"online.horizon": 11}, "11 batches", "12 rounds", "run.rounds")

    def test_a_rate_that_is_not_above_zero(self):
        for eta in ("0", "-0.5", "nan", "1e999"):
            self.refuse({"online.eta": eta}, "online.eta", eta)
        self.refuse({"online.eta": "quick"}, "online.eta", "quick", "auto")

    def test_losses_outside_the_unit_interval(self):
        for ranks in (None, 2):
            self.refuse({"online.loss-scale": 0, "run.overwrite": "true"}, "outside [0, 1]",
                        "online.loss-scale", "client", "round 1", status=1, ranks=ranks)

    def test_losses_that_are_no_numbers(self):
        for kind in ("fed-exp", "local"):
            self.refuse({"online.kind": kind, "online.lr": 3e38, "online.steps": 9,
                         "run.overwrite": "true"}, "loss of", "online.lr", status=1)

    def test_ridge_needs_a_linear_model(self):
        self.refuse({"online.gamma": "ridge-all", "model.kind": "mlp"}, "online.gamma", "mlp")
        self.refuse({"online.gamma": "ridge-batch", "model.bias": "false"}, "online.gamma", "bias")

    def test_fedsgd_steps_by_gradients(self):
        self.refuse({"online.kind": "fedsgd", "online.gamma": "ridge-all"}, "fedsgd", "online.gamma")
        for changes in ({"online.steps": 2}, {"online.batch": 1}):
            self.refuse({"online.kind": "omni-fedge", **changes}, "omni-fedge", "online.steps")

    def test_rounds_behind_the_last_pass(self):
        self.refuse({"online.horizon": 4, "online.passes": 2, "run.rounds": 9}, "8 batches",
                    "9 rounds")

    def test_unknown_names(self):
        self.refuse({"online.kind": "fedexp"}, "online.kind", "did you mean 'fed-exp'")
        self.refuse({"online.drift": "swop"}, "online.drift", "did you mean 'swap'")


if __name__ == "__main__":
    harness.main()
