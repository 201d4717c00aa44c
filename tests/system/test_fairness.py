"""What a fair rule leaves: its decision over the clients, and the fairness report."""

import itertools
import json
import os
import unittest

import harness

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SILOS = {"federation.clients": 4, "federation.samples": 60, "sampler.kind": "full",
         "data.classes": 2, "aggregator.kind": "aaggff-s"}
HEART = [os.path.join(ROOT, "jobs", "heart-aaggff-s.cfg"),
         "--data.path=" + os.path.join(ROOT, "data", "heart", "heart.csv")]


class Decisions(harness.Case):
    def test_at_every_evaluation(self):
        run = self.train(self.job(SILOS), "run")
        lines = harness.table(run, "decisions.csv")
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
        lines = [line for line in harness.table(two, "decisions.csv") if line["round"] != "6"]
        self.assertEqual(lines, harness.table(run, "decisions.csv"))
        self.assert_digest(two, run)

    def test_none_where_nobody_would_look(self):
        for name, changes in {"fedavg": {"aggregator.kind": "fedavg"},
                              "many": {"federation.clients": 101}}.items():
            run = self.train(self.job({**SILOS, **changes}), name)
            self.assertFalse(os.path.exists(os.path.join(run, "decisions.csv")), name)
        hundred = self.train(self.job({**SILOS, "federation.clients": 100}), "hundred")
        self.assertEqual(len(harness.table(hundred, "decisions.csv")[0]), 101)


class EveryRule(harness.Case):
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
        for variant in ["reference", "paper"]:
            rules["aaggff-d-" + variant] = {**devices, "aggregator.kind": "aaggff-d",
                                            "aggregator.variant": variant}
        rules["estimated-losses"] = {**devices, "aggregator.kind": "term",
                                     "aggregator.loss": "batches(1)", "client.batch": 3}
        layers = {**devices, "model.kind": "mlp", "model.hidden": "7,5"}
        for weights in ["samples", "uniform"]:
            rules["fedmgda+-" + weights] = {**layers, "aggregator.kind": "fedmgda+",
                                            "aggregator.weights": weights}
        for variant, absent in itertools.product(["paper", "reference"], ["none", "window"]):
            rules[f"fedlf-{variant}-{absent}"] = {
                **layers, "aggregator.kind": "fedlf", "aggregator.variant": variant,
                "aggregator.absent": absent}
        # What the rule keeps of a client lies behind what the client keeps itself.
        for update in ["sgd", "scaffold", "ditto"]:
            rules["fedheal-" + update] = {**layers, "aggregator.kind": "fedheal",
                                          "client.update": update}
        rules["averaged"] = {**devices, "aggregator.kind": "afl", "server.average": "true"}
        # Pairs in the clients' states; of full batches with a gradient more, of several steps too;
        # gradients in factors.
        for name, more in {"pairs": {"client.batch": 4}, "full-batches": {"client.batch": 0},
                           "steps": {"client.steps": 4, "client.gradient": "mean"},
                           "updates": {"client.steps": 4},
                           "factors": {"client.steps": 5, "client.batch": 1,
                                       "client.gradient": "last"},
                           "no-pairs": {"client.rate": "gradient"}}.items():
            rules["dqn-fed-" + name] = {**layers, "aggregator.kind": "dqn-fed", "client.pairs": 3,
                                        "client.momentum": 0, "aggregator.radius": 0.5,
                                        "aggregator.backtrack": 6, **more}
        rules["adafed"] = {**layers, "aggregator.kind": "adafed", "client.momentum": 0,
                           "client.rate-power": 2, "aggregator.radius": 0.5}
        harness.together([lambda kind=kind: self.check(kind, rules[kind]) for kind in rules])

    def test_a_default_of_the_rule_counts_for_all_who_read_the_key(self):
        run = self.train(self.job({"aggregator.kind": "fedmgda+", "client.update": "scaffold",
                                   "sampler.kind": "osmd", "run.rounds": 1}), "run")
        self.assertIn("weights = uniform\n", harness.text(run, "job.cfg"))

    def test_numbers_of_rules_on_inner_products(self):
        job = self.job({"aggregator.kind": "dqn-fed", "client.momentum": 0, "client.batch": 0,
                        "sampler.kind": "full", "federation.clients": 4})
        run = self.train(job, "dqn", 2)
        for row in harness.table(run, "rounds.csv"):
            self.assertGreater(float(row["squared_norm"]), 0)
            self.assertEqual([row["ridge"], row["dropped"], row["conflicts"]], ["0", "0", "0"])
            self.assertLess(float(row["angle_max"]), 90)
        clients = harness.table(run, "directions.csv")
        self.assertEqual([row["client"] for row in clients[:4]], ["0", "1", "2", "3"])
        self.assertEqual(len(clients), 4 * len(self.rounds(run)))
        self.assertTrue(all(float(row["rate"]) > 0 for row in clients))

    def test_a_step_that_no_halving_makes_good_is_told_once(self):
        """Where each step raises a loss the model stays as it was; bfloat16 is warned before."""
        job = self.job({"aggregator.kind": "dqn-fed", "client.momentum": 0, "client.batch": 0,
                        "sampler.kind": "full", "federation.clients": 4, "run.rounds": 3,
                        "client.rate-limit": 0, "client.rate": "gradient", "client.lr": 1e9,
                        "aggregator.backtrack": 1, "model.precision": "bfloat16"})
        said = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2).stderr()
        self.assertEqual(said.count("the model stays as it was (aggregator.backtrack)"), 1, said)
        self.assertEqual(said.count("hardly change with short steps"), 1, said)
        rows = harness.table(self.path("run"), "rounds.csv")
        self.assertEqual([(row["scale"], row["loss"] == rows[0]["loss"]) for row in rows],
                         [("0", True)] * 3)

    def test_server_optimizers_and_the_proximal_term(self):
        kinds = ["momentum", "adam", "yogi", "adagrad"]
        harness.together([lambda kind=kind: self.check(
            kind, {"server.optimizer": kind, "server.lr": 0.05, "server.lr-decay": 0.9,
                   "client.update": "prox", "client.mu": 0.1}) for kind in kinds])


def tensors(path):
    """One row of all values of a model file, in its order."""
    with h5py.File(path) as file:
        return np.concatenate([np.ravel(file[name]) for name in ("fc1.weight", "fc1.bias")])


class Hospitals:
    """Logistic regression of the four hospitals in float64, on all of a client's samples."""

    LR, STEPS = 1e-5, 2

    def __init__(self):
        with open(os.path.join(ROOT, "data", "heart", "heart.csv")) as file:
            lines = [line.strip().split(",") for line in file][1:]
        names = sorted({line[0] for line in lines})
        self.samples = [np.array([line[1:] for line in lines if line[0] == name], float)
                        for name in names]

    def loss(self, client, theta):
        z = self.samples[client][:, :-1] @ theta[:-1] + theta[-1]
        return np.mean(np.logaddexp(0, np.where(self.samples[client][:, -1] == 1, -z, z)))

    def update(self, client, theta):
        x, y = self.samples[client][:, :-1], self.samples[client][:, -1]
        moved = theta.copy()
        for _ in range(self.STEPS):
            slope = (1 / (1 + np.exp(-(x @ moved[:-1] + moved[-1]))) - y) / len(y)
            moved -= self.LR * np.append(slope @ x, slope.sum())
        return moved - theta


def shortest(rows):
    """Of the rows' hull: the best of all faces."""
    best = None
    for size in range(1, len(rows) + 1):
        for face in itertools.combinations(rows, size):
            face = np.array(face)
            system = np.block([[face @ face.T, np.ones((size, 1))],
                               [np.ones((1, size)), np.zeros((1, 1))]])
            weights = np.linalg.lstsq(system, np.append(np.zeros(size), 1), rcond=None)[0][:-1]
            point = weights @ face
            if min(weights) < -1e-12 or abs(weights.sum() - 1) > 1e-9:
                continue
            if best is None or point @ point < best @ best:
                best = point
    return best


@unittest.skipIf(h5py is None, "h5py is not installed")
class AgainstTheFormulas(harness.Case):
    """Whole runs beside a few lines of numpy, from the formulas."""

    ROUNDS = 9

    def play(self, changes, step):
        """The run's model and that of step(round, participants, theta) -> theta."""
        # Three, then two of the four hospitals take part; the trace says who.
        run = self.path("run")
        self.hanse("run", *HEART, f"--run.out={run}", f"--run.rounds={self.ROUNDS}",
                   "--run.trace=true", "--data.standardize=none", "--data.test-fraction=0",
                   f"--client.lr={Hospitals.LR}", f"--client.epochs={Hospitals.STEPS}",
                   "--client.batch=0", "--model.init=zeros", "--sampler.kind=uniform",
                   *harness.options(changes), ranks=2)
        with open(os.path.join(run, "trace-aggregator.json")) as file:
            rounds = json.load(file)["rounds"]
        theta = np.zeros(16)
        for number, one in enumerate(rounds, 1):
            theta = step(number, one["participants"], theta)
        found = tensors(os.path.join(run, "model.h5"))
        self.assertGreater(np.abs(theta).max(), 1e-4)
        np.testing.assert_allclose(found, theta, rtol=2e-4, atol=1e-5 * np.abs(theta).max())
        traced = os.path.join(run, "trace-aggregator.json")
        replayed = json.loads(self.hanse("replay", traced).stdout())
        self.assertEqual(len(replayed["rounds"]), self.ROUNDS)
        return rounds, replayed["rounds"]

    def test_fedheal(self):
        hospitals = Hospitals()
        tau, beta = 0.3, 0.4
        share, rounds = {}, {}
        distance = {}
        w, delta = np.full(4, 1 / 4), np.zeros(4)
        weights = []

        def step(_, participants, theta):
            d, masks = {}, {}
            for i in participants:
                down = -hospitals.update(i, theta)  # theta - theta_i
                positive = (down >= 0).astype(float)
                if i not in share:
                    masks[i], share[i], rounds[i] = np.ones(16), positive, 0
                else:
                    alike = np.where(positive, share[i], 1 - share[i])
                    masks[i] = (alike > tau + 1e-9).astype(float)
                    share[i] = (share[i] * rounds[i] + positive) / (rounds[i] + 1)
                rounds[i] += 1
                d[i] = masks[i] * down
                distance[i] = np.linalg.norm(d[i][:15]) + abs(d[i][15])
            for i in participants:
                delta[i] = (1 - beta) * delta[i] + beta * distance[i] / sum(distance.values())
                w[i] += delta[i]
            p = {i: w[i] / sum(w[j] for j in participants) for i in participants}
            weights.append([p[i] for i in participants])
            s = sum(p[i] * masks[i] for i in participants)
            total = sum(p[i] * d[i] for i in participants)
            return theta - np.where(s > 0, total / np.where(s > 0, s, 1), 0)

        changes = {"aggregator.kind": "fedheal", "sampler.per-round": 3}
        _, replayed = self.play(changes, step)
        self.assertTrue(any(0 in np.ravel(share[i]) or 1 in np.ravel(share[i]) for i in share))
        for expected, found in zip(weights, replayed):
            np.testing.assert_allclose(found["weights"], expected, rtol=2e-4)

    def test_fedlf_with_absent_clients(self):
        hospitals = Hospitals()
        last = {}  # client: its round and update
        absent_rounds = []

        def step(number, participants, theta):
            updates = [hospitals.update(i, theta) for i in participants]
            losses = np.array([hospitals.loss(i, theta) for i in participants])
            length = np.mean([np.linalg.norm(u) for u in updates])
            m, norm = len(losses), np.linalg.norm(losses)
            h = (losses.sum() * losses - norm ** 2) / (np.sqrt(m) * norm ** 3)
            hull = [*updates, h @ np.array(updates)] if np.ptp(losses) > 1e-13 else [*updates]
            window = len(last) // m
            absent = [i for i in sorted(last)
                      if i not in participants and last[i][0] >= number - window]
            absent_rounds.append(len(absent))
            hull += [last[i][1] for i in absent]
            d = shortest([u / np.linalg.norm(u) * length for u in hull])
            for i, u in zip(participants, updates):
                last[i] = (number, u)
            if np.linalg.norm(d) < 1e-6 * length:
                return theta
            return theta + d * np.linalg.norm(np.mean(updates, axis=0)) / np.linalg.norm(d)

        changes = {"aggregator.kind": "fedlf", "aggregator.absent": "window",
                   "sampler.per-round": 2}
        traced, _ = self.play(changes, step)
        self.assertGreater(sum(absent_rounds), 5)
        self.assertEqual([len(one["gram"]) for one in traced], [2 + n for n in absent_rounds])


@unittest.skipIf(h5py is None, "h5py is not installed")
class AveragedModel(harness.Case):
    def test_is_the_mean_of_the_models_behind_all_rounds(self):
        job = self.job({"aggregator.kind": "afl", "server.average": "true", "checkpoint.every": 1,
                        "checkpoint.keep": 0, "run.rounds": 6})
        run = self.train(job, "run", 2)
        models = []
        for name in self.checkpoints(run):
            with h5py.File(os.path.join(run, "checkpoints", name)) as file:
                models.append(np.array(file["state/training/model"]))
        self.assertEqual(len(models), 6)
        average = tensors(os.path.join(run, "averaged.h5"))
        np.testing.assert_allclose(average, np.mean(models, axis=0), atol=1e-6)
        self.assertGreater(np.abs(average - models[-1]).max(), 1e-4)
        metrics = harness.summary(run)["metrics"]
        self.assertNotEqual(metrics["averaged_loss_mean"], metrics["loss_mean"])
        self.assertNotIn("averaged_train_loss_mean", metrics)

        stopped = self.train(job, "stopped", changes={"run.rounds": 3})
        self.hanse("resume", stopped, "--run.rounds=6", ranks=3)
        np.testing.assert_array_equal(tensors(os.path.join(stopped, "averaged.h5")), average)
        self.assertEqual(harness.summary(stopped)["metrics"], metrics)
        # The mean of one round is its model.
        one = self.train(job, "one", changes={"run.rounds": 1})
        np.testing.assert_array_equal(tensors(os.path.join(one, "averaged.h5")),
                                      tensors(os.path.join(one, "model.h5")))


class Improved(harness.Case):
    def test_is_of_the_participants(self):
        """Clients that were not there may lose; a step too long harms those that were."""
        job = self.job({"sampler.per-round": 1, "federation.clients": 3, "evaluate.every": 1,
                        "client.batch": 0, "client.lr": 0.01})
        run = self.train(job, "run")
        improved = harness.column(run, "evaluations.csv", "improved")
        self.assertEqual(improved[0], "")
        self.assertEqual(set(improved[1:]), {"1"})
        fell = harness.column(run, "evaluations.csv", "train_loss_fell")
        self.assertTrue(any(float(share) < 1 for share in fell[1:]))


class AreaUnderRoc(harness.Case):
    def test_for_two_classes_only(self):
        two = self.train(self.job(SILOS), "two")
        self.assertTrue(0 <= harness.summary(two)["metrics"]["auroc"] <= 1)
        self.assertEqual(len(harness.column(two, "evaluations.csv", "auroc")), 3)
        three = self.train(self.job({**SILOS, "data.classes": 3}), "three")
        self.assertNotIn("auroc", harness.summary(three)["metrics"])
        self.assertNotIn("auroc", harness.table(three, "evaluations.csv")[0])

    def test_spread_and_metrics_that_are_asked_for(self):
        """The same on any number of ranks; of each client, class and evaluation."""
        job = self.job({**SILOS, "evaluate.metrics": "f1, balanced-accuracy, classes"})
        one, three = self.train(job, "one"), self.train(job, "three", ranks=3)
        metrics = harness.summary(one)["metrics"]
        clients = harness.table(one, "clients.csv")
        for name in ("auroc", "f1", "balanced_accuracy"):
            values = sorted(float(row[name]) for row in clients if row[name])
            self.assertEqual(metrics[f"{name}_left_out"], len(clients) - len(values))
            self.assertAlmostEqual(metrics[name], sum(values) / len(values), places=6)
            self.assertAlmostEqual(metrics[f"{name}_worst"], values[0], places=6)
            self.assertAlmostEqual(metrics[f"{name}_best"], values[-1], places=6)
            self.assertEqual(len(harness.column(one, "evaluations.csv", f"{name}_gini")), 3)
        for name in ("evaluations.csv", "clients.csv", "classes.csv"):
            self.assertEqual(harness.text(one, name), harness.text(three, name))
        classes = harness.table(one, "classes.csv")
        self.assertEqual([row["label"] for row in classes], ["0", "1"] * 3)
        last = classes[-2:]
        self.assertEqual(sum(int(row["samples"]) for row in last),
                         sum(int(row["samples"]) for row in clients))
        correct = sum(int(row["samples"]) * float(row["accuracy"]) for row in last)
        expected = sum(int(row["samples"]) * float(row["accuracy"]) for row in clients)
        self.assertAlmostEqual(correct, expected, places=4)

    def test_metrics_that_the_data_do_not_have(self):
        for changes, parts in [({"evaluate.metrics": "recal"}, ["unknown metric 'recal'"]),
                               ({"evaluate.metrics": "recall"}, ["'recall' is no metric", "recall@5"]),
                               ({"evaluate.metrics": "top5"}, ["five of 2 classes"]),
                               ({"evaluate.metrics": "f1", "data.classes": 3}, ["two classes"])]:
            process = self.hanse("run", self.job({**SILOS, **changes}), expect=None)
            self.assert_one_error(process, 2, "evaluate.metrics", *parts)

    def test_unknown_where_no_client_has_both_classes(self):
        run = self.train(self.job({**SILOS, "federation.partition": "by-label",
                                   "federation.labels-per-client": 1}), "run")
        self.assertNotIn("auroc", harness.summary(run)["metrics"])
        self.assertEqual(harness.column(run, "evaluations.csv", "auroc"), ["", "", ""])


class HeartDisease(harness.Case):
    """jobs/heart-aaggff-s.cfg is fast enough to be run as it is."""

    def test_the_worst_hospital_gains(self):
        worst = {}
        for kind in ("fedavg", "aaggff-s"):
            worst[kind] = 0
            for seed in range(1, 6):
                run = self.path(f"{kind}-{seed}")
                self.hanse("run", *HEART, f"--run.out={run}", f"--aggregator.kind={kind}",
                           f"--run.seed={seed}")
                metrics = harness.summary(run)["metrics"]
                worst[kind] += metrics["accuracy_worst10"] / 5
                self.assertGreater(metrics["auroc"], 0.7)
        self.assertGreater(worst["aaggff-s"], worst["fedavg"] + 0.05)

    def test_the_same_on_three_ranks(self):
        for name, ranks in (("alone", None), ("three", 3)):
            self.hanse("run", *HEART, f"--run.out={self.path(name)}", ranks=ranks)
        self.assert_digest(self.path("alone"), self.path("three"))


class Standardize(harness.Case):
    def test_pixels_are_not_standardized(self):
        process = self.hanse("run", self.job({"data.standardize": "all"}),
                             f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(process, 2, "data.standardize", "hint")


if __name__ == "__main__":
    harness.main()
