"""FedProto's means of classes, and what MOON and FedProto need."""

import os

import sys

import h5py
import numpy as np
import torch

import harness

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts/python"))
import hanse  # noqa: E402

WIDTH, CLASSES = 5, 3
MLP = {"model.kind": "mlp", "model.hidden": WIDTH}
PROTO = {**MLP, "client.update": "fedproto", "data.kind": "csv", "data.path": "samples.csv",
         "data.standardize": "none", "data.test-fraction": 0, "data.task": "classification",
         "data.classes": None, "federation.clients": None, "federation.samples": None,
         "sampler.kind": "full", "sampler.per-round": None, "client.batch": 4, "run.rounds": 1,
         "checkpoint.every": 1, "checkpoint.keep": 20}


def state(run, number):
    path = os.path.join(run, "checkpoints", f"round-{number:06}.h5")
    with h5py.File(path) as file:
        return file["state/training/model"][:], file["state/training/control"][:].reshape(
            CLASSES, WIDTH + 1)


class Net(torch.nn.Module):
    """kind = mlp with nine hidden units."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(64, 9), torch.nn.Linear(9, 5)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Graphs(harness.Case):
    """A file tells what its last layer reads, and trains as the same network that Hanse has."""

    def test_graphs_train_as_the_kinds_do(self):
        torch.manual_seed(2)
        net = Net()
        path = self.path("net.graph")
        keys = hanse.export(net, torch.rand(1, 8, 8), path, representation="fc2")
        torch.save(net.state_dict(), self.path("net.pt"))
        base = {"run.rounds": 4, "client.epochs": 2}
        for update, more in (("moon", {"client.mu": 5}), ("fedproto", {"client.lambda": 3}),
                             ("fedproto", {"client.variant": "reference", "client.lambda": 30})):
            name = f"{update}-{len(more)}"
            changes = {**base, "client.update": update, **more}
            runs = [self.train(self.job({**changes, **network}, name="job.cfg"), f"{name}-{i}", ranks)
                    for i, (network, ranks) in enumerate((
                        ({"model.kind": "mlp", "model.hidden": 9,
                          "model.start": self.path("net.pt")}, None),
                        (keys, None), (keys, 2)))]
            self.assert_digest(runs[2], runs[1], name)
            losses = [np.array(harness.column(run, "rounds.csv", "loss"), float) for run in runs]
            np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
            plain = self.train(self.job({**base, **keys}), f"{name}-sgd")
            self.assertGreater(abs(float(harness.column(plain, "rounds.csv", "loss")[-1]) -
                                   losses[1][-1]), 1e-3)

    def test_a_graph_without_a_representation_says_so(self):
        keys = hanse.export(Net(), torch.rand(1, 8, 8), self.path("net.graph"))
        job = self.job({**keys, "client.update": "moon"})
        self.assert_one_error(self.hanse("run", job, expect=None), 2, "represent", "model.kind",
                              "hanse.export")


def network(row, x):
    """Representations and logits of kind = mlp."""
    at, layers = 0, []
    for inputs, outputs in ((4, WIDTH), (WIDTH, CLASSES)):
        weight = row[at:at + inputs * outputs].reshape(outputs, inputs)
        at += inputs * outputs
        layers.append((weight, row[at:at + outputs]))
        at += outputs
    h = torch.relu(x @ layers[0][0].T + layers[0][1])
    return h, h @ layers[1][0].T + layers[1][1]


class Prototypes(harness.Case):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.x = random.normal(size=(40, 4)).astype(np.float32)
        self.labels = np.arange(40) * 7 % 5 % CLASSES
        lines = ["label,site," + ",".join(f"x{j}" for j in range(4))]
        for label, row in zip(self.labels, self.x):
            # a site has one class alone, or two
            lines.append(f"{label},{min(label, 1)}," + ",".join(f"{value!r}" for value in
                                                                map(float, row)))
        self.write("samples.csv", "\n".join(lines) + "\n")

    def pooled(self, row):
        """The means of all samples' representations by a row of the model."""
        weight, bias = row[:4 * WIDTH].reshape(WIDTH, 4), row[4 * WIDTH:5 * WIDTH]
        h = np.maximum(self.x.astype(np.float64) @ weight.T + bias, 0)
        return np.array([h[self.labels == label].mean(axis=0) for label in range(CLASSES)])

    def test_means_are_those_of_the_pooled_samples(self):
        """However the samples are divided among clients; training moves nothing here."""
        for name, changes in (("iid", {"federation.clients": 5, "data.drop-columns": "site"}),
                              ("uneven", {"federation.clients": 3,
                                          "federation.partition": "dirichlet",
                                          "federation.alpha": 0.3, "data.drop-columns": "site"}),
                              ("sites", {"federation.partition": "by-column",
                                         "data.client-column": "site"})):
            job = self.job({**PROTO, **changes, "client.lr": 1e-30}, name=f"{name}.cfg")
            for ranks in (None, 3):
                model, means = state(self.train(job, f"{name}-{ranks}", ranks=ranks), 1)
                np.testing.assert_allclose(means[:, :WIDTH], self.pooled(model), rtol=0, atol=3e-7)
                self.assertEqual(list(means[:, WIDTH]), [1] * CLASSES)

    def rounds_by_hand(self, row, lr, rounds, extra, means_of):
        """The model behind rounds of one step of both sites on all their samples, in float64.
        extra(h, x, labels, site): what the loss has beside the cross-entropy."""
        sites = np.minimum(self.labels, 1)
        row = torch.tensor(row, dtype=torch.float64)
        for _ in range(rounds):
            trained = []
            for site in (0, 1):
                x = torch.tensor(self.x[sites == site], dtype=torch.float64)
                labels = torch.tensor(self.labels[sites == site])
                w = row.clone().requires_grad_()
                h, z = network(w, x)
                loss = torch.nn.functional.cross_entropy(z, labels) + extra(h, x, labels, site, row)
                gradient, = torch.autograd.grad(loss, [w])
                trained.append(row - lr * gradient)
            means_of(trained)
            share = float((sites == 1).mean())
            row = (1 - share) * trained[0] + share * trained[1]
        return row.numpy()

    def test_steps_are_those_of_the_papers(self):
        base = {**PROTO, "federation.partition": "by-column", "data.client-column": "site",
                "client.steps": 1, "client.batch": 0, "client.lr": 0.3, "run.rounds": 4}
        start, _ = state(self.train(self.job({**base, "client.lr": 1e-30, "run.rounds": 1}), "start"), 1)
        sites = np.minimum(self.labels, 1)
        mu, tau, lam = 2.0, 0.3, 0.7
        last, means = {}, {}

        def contrast(h, x, _, site, received):
            near = network(received, x)[0]
            far = network(last[site], x)[0] if site in last else near
            both = torch.stack([torch.cosine_similarity(h, other, 1, 1e-12) / tau
                                for other in (near, far)], 1)
            return -mu * torch.log_softmax(both, 1)[:, 0].mean()

        def keep_models(trained):
            last.update(enumerate(trained))

        def of_means(h, _, labels, *__):
            return lam * sum(((h[labels == c].mean(0) - mean).norm() for c, mean in means.items()
                              if (labels == c).any()), torch.zeros(()))

        def of_samples(h, _, labels, *__):
            if not means:
                return 0 * h.sum()
            to = torch.stack([means[int(label)] for label in labels])
            return lam * torch.nn.functional.mse_loss(h, to)

        def keep_means(trained):
            for c in range(CLASSES):   # each class is of one site
                x = torch.tensor(self.x[self.labels == c], dtype=torch.float64)
                means[c] = network(trained[min(c, 1)], x)[0].mean(0)

        self.assertEqual(set(sites), {0, 1})
        for name, keys, extra, keep in (
                ("moon", {"client.update": "moon", "client.mu": mu, "client.temperature": tau},
                 contrast, keep_models),
                ("proto", {"client.lambda": lam}, of_means, keep_means),
                ("reference", {"client.lambda": lam, "client.variant": "reference"}, of_samples,
                 keep_means)):
            means.clear()
            run = self.train(self.job({**base, **keys}), name)
            with h5py.File(os.path.join(run, "model.h5")) as file:
                found = file["row"][:]
            expected = self.rounds_by_hand(start, 0.3, 4, extra, keep)
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5, err_msg=name)
            plain = self.rounds_by_hand(start, 0.3, 4, lambda h, *_: 0 * h.sum(), keep)
            self.assertGreater(np.abs(found - plain).max(), 1e-2, name)

    def test_a_class_that_nobody_sends_keeps_its_mean(self):
        job = self.job({**PROTO, "federation.partition": "by-column", "data.client-column": "site",
                        "sampler.kind": "uniform", "sampler.per-round": 1, "run.rounds": 8})
        run = self.train(job, "run")
        drawn = {int(row["round"]): int(row["client"])
                 for row in harness.table(run, "participation.csv")}
        self.assertEqual(set(drawn.values()), {0, 1})
        before = np.zeros((CLASSES, WIDTH + 1))
        for number in range(1, 9):
            _, means = state(run, number)
            sent = means.any(axis=1) & (means != before).any(axis=1)
            self.assertEqual(list(sent), [drawn[number] == 0, drawn[number] == 1,
                                          drawn[number] == 1])
            before = means

    def test_means_travel_without_the_model(self):
        job = self.job({**PROTO, "federation.partition": "by-column", "data.client-column": "site",
                        "run.rounds": 3, "evaluate.every": 1, "client.personal": "*"})
        run = self.path("run")
        said = self.hanse("run", job, f"--run.out={run}", ranks=2).describe()
        self.assertIn("evaluations are of each client's own model", said)
        models, means = zip(*(state(run, number) for number in (1, 2, 3)))
        np.testing.assert_array_equal(models[0], models[2])
        self.assertFalse(np.array_equal(means[0], means[2]))
        self.assertNotEqual(*harness.column(run, "evaluations.csv", "loss_mean")[-2:])

    def test_without_weight_models_are_those_of_sgd(self):
        sgd = self.train(self.job(MLP), "sgd", changes={"client.update": "sgd"})
        for update, key in (("moon", "client.mu"), ("fedproto", "client.lambda")):
            run = self.train(self.job(MLP), update, changes={"client.update": update, key: 0})
            self.assert_digest(run, sgd, update)
            run = self.train(self.job(MLP), f"{update}-on", changes={"client.update": update})
            self.assertNotEqual(harness.digest(run), harness.digest(sgd))

    def test_what_they_need_is_said(self):
        for changes, parts in (
                ({"model.kind": "linear"}, ["hidden", "model.kind"]),
                ({**MLP, "client.label-smoothing": 0.1}, ["client.label-smoothing"]),
                ({**MLP, "client.update": "moon", "client.personal": "*"}, ["client.personal"])):
            job = self.job({"client.update": "moon", **changes})
            self.assert_one_error(self.hanse("run", job, expect=None), 2, *parts)


if __name__ == "__main__":
    harness.main()
