"""Sequence and residual networks, and networks from Python's torch, in the real program."""

import collections
import json
import os
import subprocess
import threading

import h5py
import numpy
import torch

import harness
from torch_files import SCRIPTS, TORCH, results, tensors_of, write_graph

torch.set_num_threads(1)
EXPORT = threading.Lock()

TOKENS = {"data.shape": "9", "data.tokens": 11, "data.classes": 11, "model.embedding": 6,
          "federation.clients": 7, "federation.samples": 15, "run.rounds": 4, "evaluate.every": 2,
          "sampler.per-round": 4}
MODELS = {
    "lstm": {**TOKENS, "model.kind": "lstm", "model.units": 10, "model.dropout": 0.3},
    "transformer": {**TOKENS, "model.kind": "transformer", "model.heads": 2, "model.layers": 2,
                    "model.dropout": 0.1, "client.momentum": 0.5},
    "resnet18": {"run.rounds": 3, "evaluate.every": 2, "data.shape": "3,9,8",
                 "model.kind": "resnet18", "model.channels": 4, "federation.clients": 5,
                 "sampler.per-round": 3},
    "lenet": {"run.rounds": 3, "evaluate.every": 2, "data.shape": "2,13,15", "model.kind": "lenet",
              "federation.clients": 5, "sampler.per-round": 3, "client.momentum": 0.5},
}
# Batch norm, which needs two samples a batch, and dropout.
CNN = {"run.rounds": 4, "evaluate.every": 2, "data.shape": "1,9,8", "model.kind": "graph",
       "federation.clients": 5, "sampler.per-round": 3, "client.batch": 8,
       "data.test-fraction": 0}


class ModelCase(harness.Case):
    EXPORTED = {}  # bytes of the files: half of a test's time is torch's start in Python

    def export(self, name, file, *arguments):
        path = self.path(file)
        with EXPORT:
            if (name, arguments) not in self.EXPORTED:
                process = subprocess.run(
                    [os.path.join(SCRIPTS, "export-model"), name, path, *arguments],
                    capture_output=True, text=True, check=False)
                self.assertEqual(process.returncode, 0, process.stderr)
                with open(path, "rb") as exported:
                    self.EXPORTED[name, arguments] = exported.read()
        return self.write(file, self.EXPORTED[name, arguments])

    def cnn(self, **changes):
        path = self.export("cnn", "cnn.graph", "--shape=1,9,8", "--classes=5")
        return {**CNN, "model.path": path, **changes}

    def save(self, module, file="own.pt"):
        """As TorchScript, which losses are."""
        path = self.path(file)
        with TORCH:
            torch.jit.script(module).save(path)
        return path

    def graph(self, module, sample, file="own.graph"):
        return write_graph(module, sample, self.path(file))


class WarmStart(ModelCase):
    JOB = {"model.kind": "mlp", "model.hidden": 7, "run.rounds": 1}
    STILL = {"client.lr": 1e-30, "run.overwrite": "true"}  # the model stays where it starts

    def tensors(self, run):
        with h5py.File(os.path.join(run, "model.h5"), "r") as file:
            return {name: file[name][()] for name in file}

    def test_starts_from_tensors_of_the_same_names(self):
        job = self.job({**self.JOB, "run.rounds": 3, "run.state-dict": "true"})
        first = self.train(job, "first", changes={"run.seed": 3})
        for file in ("model.h5", "state_dict.pt"):
            start = {"model.start": os.path.join(first, file)}
            self.assert_digest(self.train(job, "again", 2, {**self.STILL, **start}), first, file)
        other = self.train(job, "other", changes={**self.STILL, "model.hidden": 5})
        partial = self.train(job, "partial", changes={
            **self.STILL, "model.hidden": 5, "model.start": os.path.join(first, "model.h5"),
            "model.start-partial": "true"})
        was, fresh, now = (self.tensors(run) for run in (first, other, partial))
        numpy.testing.assert_array_equal(now["fc2.bias"], was["fc2.bias"])
        for name in ("fc1.weight", "fc1.bias", "fc2.weight"):
            numpy.testing.assert_array_equal(now[name], fresh[name])

    def safetensors(self, file, tensors):
        header, values = {}, b""
        for name, tensor in tensors.items():
            array = tensor.numpy().tobytes()
            header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                            "data_offsets": [len(values), len(values) + len(array)]}
            values += array
        text = json.dumps(header).encode()
        with open(self.path(file), "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text + values)

    def test_all_files_of_weights_start_the_same_model(self):
        job = self.job({**self.JOB, "run.rounds": 2, "run.state-dict": "true"})
        first = self.train(job, "first", changes={"run.seed": 3})
        state = collections.OrderedDict(torch.load(os.path.join(first, "state_dict.pt")))
        parameters = {name: torch.nn.Parameter(value.clone()) for name, value in state.items()}
        optimizer = torch.optim.Adam(parameters.values())
        sum(value.sum() for value in parameters.values()).backward()
        optimizer.step()
        parameters = {name: torch.nn.Parameter(value) for name, value in state.items()}
        for file, value in [("ordered.pt", state), ("parameters.pt", parameters),
                            ("checkpoint.pt", {"epoch": 3, "model": state,
                                               "optimizer": optimizer.state_dict()}),
                            ("double.pt", {name: value.double() for name, value in state.items()}),
                            ("ddp.pt", {f"module.{name}": value for name, value in state.items()})]:
            torch.save(value, self.path(file))
        self.safetensors("all.safetensors", state)
        names = list(state)
        self.safetensors("1.safetensors", {name: state[name] for name in names[:1]})
        self.safetensors("2.safetensors", {name: state[name] for name in names[1:]})
        self.write("index.json", json.dumps({"weight_map": {
            name: "1.safetensors" if name == names[0] else "2.safetensors" for name in names}}))
        for file in ("ordered.pt", "parameters.pt", "checkpoint.pt", "double.pt", "ddp.pt",
                     "all.safetensors", "index.json"):
            run = self.train(job, "again", None, {**self.STILL, "model.start": self.path(file)})
            self.assert_digest(run, first, file)
        said = self.start("run", job, f"--run.out={self.path('no')}",
                          f"--model.start={self.path('ddp.pt')}").wait()
        self.assertIn("names in the file begin with module.", said.stderr())

    def test_a_shard_that_changed_before_the_resume(self):
        job = self.job({**self.JOB, "run.rounds": 1, "run.state-dict": "true"})
        first = self.train(job, "first")
        state = torch.load(os.path.join(first, "state_dict.pt"))
        self.safetensors("1.safetensors", state)
        index = self.write("index.json",
                           json.dumps({"weight_map": {name: "1.safetensors" for name in state}}))
        run = self.train(job, "run", changes={"model.start": index})
        self.safetensors("1.safetensors", {name: value + 1 for name, value in state.items()})
        process = self.hanse("resume", run, "--run.rounds=2", expect=None)
        self.assert_one_error(process, 2, "model.start", "changed since the checkpoint")

    def test_files_of_another_model_are_refused(self):
        job = self.job(self.JOB)
        first = os.path.join(self.train(job, "first"), "model.h5")
        with open(self.path("cut.h5"), "wb") as cut, open(first, "rb") as whole:
            cut.write(whole.read()[:-100])
        torch.save(torch.nn.Linear(2, 2), self.path("module.pt"))
        torch.save({"a.x": torch.zeros(2), "b.x": torch.zeros(3)}, self.path("others.pt"))
        with h5py.File(first, "r") as file:
            whole = {name: torch.from_numpy(file[name][()]) for name in file}
        torch.save({**whole, "fc1.weight": whole["fc1.weight"].to(torch.int8)},
                   self.path("small.pt"))
        torch.save({**whole, "fc1.weight": whole["fc1.weight"].double() * 1e300},
                   self.path("large.pt"))
        with h5py.File(self.path("double.h5"), "w") as file:
            for name, values in whole.items():
                file[name] = values.double() if name == "fc1.weight" else values
        for changes, *parts in [
                ({"model.start": "missing.h5"}, "no such file: missing.h5", "model.start"),
                ({"model.start": first, "model.hidden": 8}, "another model",
                 "fc1.weight [8, ", "([7, ", "model.start-partial"),
                ({"model.start": first, "model.hidden": "7,3"}, "fc3.weight (not in the file)"),
                ({"model.start": first, "model.kind": "lenet", "data.shape": "1,28,28",
                  "model.start-partial": "true"}, "no tensor of the model", "conv1.weight"),
                ({"model.start": self.path("small.pt")}, "fc1.weight (int8 in the file)"),
                ({"model.start": self.path("double.h5")}, "fc1.weight (float64 in the file)"),
                ({"model.start": self.path("large.pt")}, "fc1.weight has ",
                 "and float32 ends at 3.4e+38", "large.pt"),
                ({"model.start": self.path("cut.h5")}, "cut.h5"),
                ({"model.start": self.path("module.pt")}, "module.pt",
                 "torch.nn.modules.linear.Linear, no dictionary", "torch.save(model.state_dict()"),
                ({"model.start": self.path("others.pt")}, "no tensor of the model: fc1.weight",
                 "it has a.x, b.x")]:
            process = self.hanse("run", job, f"--run.out={self.path('no')}",
                                 *[f"--{key}={value}" for key, value in changes.items()], expect=None)
            self.assert_one_error(process, 2, *parts)


    def test_adapters_are_merged_into_a_whole_model(self):
        job = self.job(self.JOB)
        adapted = self.train(job, "adapted", changes={"client.lora": 2, "client.lr": 0.1})
        with h5py.File(os.path.join(adapted, "model.h5"), "r") as file:
            expected = file["fc1.weight"][()] + file["fc1.weight.lora_B"][()] @ file[
                "fc1.weight.lora_A"][()]
        start = {"model.start": os.path.join(adapted, "model.h5")}
        process = self.hanse("run", job, f"--run.out={self.path('no')}",
                             f"--model.start={start['model.start']}", expect=None)
        self.assert_one_error(process, 2, "fc1.weight.lora_A (not in the model)",
                              "--run.merge-adapters=true")
        self.assertNotIn("start-partial", process.stderr())
        self.hanse("resume", adapted, "--run.merge-adapters=true")
        found = self.tensors(self.train(job, "next", changes={**start, **self.STILL}))
        numpy.testing.assert_allclose(found["fc1.weight"], expected, atol=1e-6)


class SameBits(ModelCase):
    def test_lstm(self):
        self.compare_places(MODELS["lstm"])

    def test_transformer(self):
        self.compare_places(MODELS["transformer"])

    def test_resnet18(self):
        self.compare_places(MODELS["resnet18"])

    def test_resnet18_of_few_channels_on_two_threads(self):
        job = self.job({**MODELS["resnet18"], "data.shape": "1,12,12", "client.batch": 5,
                        "run.rounds": 1, "run.threads": 2})
        self.assert_digest(self.train(job, "once"), self.train(job, "again"), "a second time")

    def test_lenet(self):
        self.compare_places(MODELS["lenet"])

    def test_lenet_on_two_threads(self):
        job = self.job({**MODELS["lenet"], "run.rounds": 1, "run.threads": 2})
        self.assert_digest(self.train(job, "once"), self.train(job, "again"), "a second time")

    def test_graph(self):
        self.compare_places(self.cnn())

    def test_graph_with_adam_and_unbiased_draws(self):
        """Ranks of every kind have the module above; here the run's halves have two and three."""
        self.compare_places(self.cnn(**{"server.optimizer": "adam", "server.lr": 0.05,
                                 "sampler.kind": "weighted", "client.momentum": 0.5,
                                 "aggregator.estimator": "unbiased"}), places=())

    def test_graph_with_scaffold(self):
        self.compare_places(self.cnn(**{"client.update": "scaffold", "server.lr": 0.5}), places=())


def bits(tensor):
    return tensor.contiguous().numpy().tobytes()


class RoundTrip(ModelCase):
    """A step of 1e-100 moves no parameter: what comes out is what went in."""

    def check(self, path, changes, moved=()):
        job = self.job({"run.rounds": 1, "client.lr": 1e-100, "run.state-dict": "true",
                        "model.kind": "graph", "model.path": path, **changes})
        run = self.train(job, "run")
        before = tensors_of(path)
        loaded = torch.load(os.path.join(run, "state_dict.pt"), weights_only=True)
        arrays = results.state_dict(os.path.join(run, "model.h5"))
        self.assertEqual(sorted(loaded), sorted(before))
        self.assertEqual(sorted(arrays), sorted(before))
        for name, tensor in before.items():
            self.assertEqual(loaded[name].dtype, tensor.dtype, name)
            self.assertEqual(loaded[name].shape, tensor.shape, name)
            self.assertEqual(bits(loaded[name]), arrays[name].tobytes(), name)
            same = bits(loaded[name]) == bits(tensor)
            self.assertEqual(same, not name.endswith(tuple(moved) or "\0"), name)
        return loaded

    def test_dense_layers(self):
        self.check(self.export("mlp", "mlp.graph", "--shape=1,8,8", "--classes=5"), {})

    def test_recurrent(self):
        self.check(self.export("gru", "gru.graph", "--shape=9", "--classes=5", "--vocabulary=11"),
                   {"data.shape": "9", "data.tokens": 11})

    def test_batch_norm(self):
        changes = self.cnn(**{"run.rounds": 1})
        loaded = self.check(changes["model.path"], {**changes, "client.lr": 1e-100},
                            ("running_mean", "running_var"))
        self.assertEqual(loaded["1.num_batches_tracked"].dtype, torch.int64)


class Proximal(torch.nn.Module):
    """What client.update = prox minimises."""

    def forward(self, labels, logits, row, received_row):
        distance = row - received_row
        return torch.nn.functional.cross_entropy(logits, labels) + 0.25 * (distance * distance).sum()


class Taught(torch.nn.Module):
    """Random, and with all that an objective may name."""

    def forward(self, logits, labels, sample_weights, row, received_row, received_logits):
        kept = torch.dropout(logits, 0.3, True)
        losses = torch.nn.functional.cross_entropy(kept, labels, reduction="none")
        taught = (logits - received_logits).pow(2).mean()
        return (losses * sample_weights).mean() + taught + 1e-3 * (row - received_row).abs().sum()


class Doubtful(torch.nn.Module):
    def forward(self, logits, label):
        return logits.sum()


OBJECTIVE = {"run.rounds": 6, "client.epochs": 2, "evaluate.every": 6}


class OwnLoss(ModelCase):
    def compare_own(self, changes, places=harness.PLACES):
        self.compare_places({**OBJECTIVE, "federation.clients": 7, "sampler.per-round": 4, **changes,
                             "client.objective": self.save(Taught(), "taught.pt")}, places)

    def test_a_linear_model(self):
        self.compare_own({}, places=())

    def test_a_network_and_scaffold(self):
        self.compare_own({"model.kind": "lenet", "data.shape": "1,12,12",
                          "client.update": "scaffold"})

    def test_proximal_is_prox(self):
        job = self.job({**OBJECTIVE, "client.lr": 0.2})
        own = self.train(job, "own", changes={"client.objective": self.save(Proximal())})
        prox = self.train(job, "prox", changes={"client.update": "prox", "client.mu": 0.5})
        plain = self.train(job, "plain")
        rows = [torch.cat([torch.from_numpy(value).flatten() for value in
                           results.state_dict(os.path.join(run, "model.h5")).values()])
                for run in (own, prox, plain)]
        self.assertLess(float((rows[0] - rows[1]).abs().max()), 2e-6)
        self.assertGreater(float((rows[1] - rows[2]).abs().max()), 1e-3)

    def test_another_file_is_refused_at_resume(self):
        path = self.save(Proximal())
        run = self.train(self.job(OBJECTIVE), "run", changes={"client.objective": path})
        self.save(Taught())
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=8", expect=None), 2,
                              "the file has changed since the checkpoint", "client.objective")

    def test_what_cannot_be_trained_so(self):
        path = self.save(Proximal())
        job = self.job({**OBJECTIVE, "client.objective": path, "sampler.kind": "full"})
        for changes, words in (
                ({"client.update": "fednl"}, ("fednl needs the Hessians", "client.objective")),
                ({"aggregator.kind": "dqn-fed"}, ("dqn-fed works on gradients", "client.objective")),
                ({"client.objective": self.save(Doubtful(), "doubtful.pt")},
                 ("the argument label", "doubtful.pt", "known: logits, labels")),
                ({"client.objective": "none.pt"}, ("no such file: none.pt", "export-objective"))):
            process = self.hanse("run", job, *harness.options(changes), expect=None)
            self.assert_one_error(process, 2, *words)

    def test_the_examples(self):
        calls = []
        for name, more in (("proximal", []), ("focal", []), ("distillation", []),
                           ("logit-adjusted", ["--counts=10,20,30,40,50"])):
            path = self.path(name + ".pt")
            subprocess.run([os.path.join(SCRIPTS, "export-objective"), name, path, *more], check=True,
                           capture_output=True)
            calls.append(lambda name=name, path=path: self.train(
                self.job({**OBJECTIVE, "client.objective": path}, name + ".cfg"), name))
        calls.append(lambda: self.train(self.job(OBJECTIVE, "plain.cfg"), "plain"))
        self.assertEqual(len(set(map(harness.digest, harness.together(calls)))), 5)


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(self.norm(x))


class AsTorchComputes(ModelCase):
    SITES = [7, 12, 5]  # rows of each client

    def csv(self):
        random = torch.Generator().manual_seed(3)
        lines, clients = ["site,a,b,c,label"], []
        for site, rows in enumerate(self.SITES):
            x = torch.randn(rows, 3, generator=random) * (site + 1) + site
            x = x.mul(64).round().div(64)
            y = (x[:, 0] > site).long()
            y[:2] = torch.tensor([0, 1])
            clients.append((x, y))
            lines += [f"{site},{a},{b},{c},{label}"
                      for (a, b, c), label in zip(x.tolist(), y.tolist())]
        return self.write("sites.csv", "\n".join(lines) + "\n"), clients

    def federate(self, changes=None):
        """One full-batch step of every client, by hanse and by torch."""
        model = Normed()
        path = self.graph(model, torch.rand(3))
        table, clients = self.csv()
        run = self.train(self.job({
            "run.rounds": 1, "data.kind": "csv", "data.path": table, "data.client-column": "site",
            "data.test-fraction": 0, "federation.partition": "by-column", "sampler.kind": "full",
            "client.batch": 0, "client.epochs": 2, "client.lr": 0.25, "model.kind": "graph",
            "model.path": path, **(changes or {})}), "run")
        mean = {}
        for x, y in clients:
            local = Normed()
            local.load_state_dict(model.state_dict())
            optimizer = torch.optim.SGD(local.parameters(), 0.25)
            for _ in range(2):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(local(x), y).backward()
                optimizer.step()
            for name, value in local.state_dict().items():
                mean[name] = mean.get(name, 0) + value * (len(y) / sum(self.SITES))
        return model.state_dict(), mean, results.Run(run).state_dict()

    def assert_close(self, arrays, expected, name):
        torch.testing.assert_close(torch.from_numpy(arrays[name]), expected, rtol=1e-4, atol=1e-5,
                                   msg=lambda text: f"{name}: {text}")

    def test_a_round_with_batch_norm(self):
        start, mean, arrays = self.federate()
        for name in mean:
            if name != "norm.num_batches_tracked":
                self.assert_close(arrays, mean[name], name)
        self.assertEqual(arrays["norm.num_batches_tracked"].tolist(), 0)
        self.assertNotEqual(arrays["norm.running_mean"].tolist(),
                            start["norm.running_mean"].tolist())

    def test_the_server_rate_is_not_for_buffers(self):
        start, mean, arrays = self.federate({"server.lr": 0.5})
        self.assert_close(arrays, (start["fc.weight"] + mean["fc.weight"]) / 2, "fc.weight")
        for name in ("norm.running_mean", "norm.running_var"):
            self.assert_close(arrays, mean[name], name)

    def test_momentum_moves_buffers_by_forward_passes_only(self):
        _, mean, arrays = self.federate({"client.momentum": 1e-9, "client.weight-decay": 1e-6})
        for name in ("norm.running_mean", "norm.running_var"):
            self.assert_close(arrays, mean[name], name)

    def tokens(self):
        """A table of tokens, with its content as tensors."""
        x = torch.randint(0, 11, (60, 7), generator=torch.Generator().manual_seed(5))
        y = x[:, -1].clamp(max=3)
        y[:4] = torch.arange(4)
        lines = ["label," + ",".join(f"t{i}" for i in range(7))]
        lines += [",".join(map(str, [label, *row])) for row, label in zip(x.tolist(), y.tolist())]
        return self.write("tokens.csv", "\n".join(lines) + "\n"), x, y

    def trained(self, changes):
        """The state dict, and the run's loss with the one that `logits` gives."""
        table, x, y = self.tokens()
        run = self.train(self.job({
            "run.rounds": 3, "data.kind": "csv", "data.path": table, "data.test-fraction": 0,
            "federation.clients": 3, "sampler.per-round": 3, "model.vocabulary": 11,
            "run.state-dict": "true", **changes}), "run")
        state = torch.load(os.path.join(run, "state_dict.pt"))
        return state, harness.summary(run)["metrics"]["train_loss_weighted"], x, y

    def check(self, model, logits, loss, y):
        model.eval()
        with torch.no_grad():
            expected = torch.nn.functional.cross_entropy(logits(model), y).item()
        self.assertAlmostEqual(loss, expected, places=5)

    def test_lstm_loads_into_torch(self):
        state, loss, x, y = self.trained({"model.kind": "lstm", "model.units": 12})
        model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(11, 8),
                                     "lstm": torch.nn.LSTM(8, 12, 2, batch_first=True),
                                     "fc": torch.nn.Linear(12, 4)})
        model.load_state_dict(state)
        self.check(model, lambda m: m["fc"](m["lstm"](m["embedding"](x))[0][:, -1]), loss, y)

    def test_transformer_loads_into_torch(self):
        state, loss, x, y = self.trained({"model.kind": "transformer", "model.embedding": 8,
                                          "model.units": 20, "model.layers": 2, "model.heads": 2})
        layer = torch.nn.TransformerEncoderLayer(8, 2, 20, batch_first=True)
        model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(11, 8),
                                     "layers": torch.nn.TransformerEncoder(layer, 2).layers,
                                     "fc": torch.nn.Linear(8, 4)})
        model.load_state_dict(state)
        t, i = torch.arange(7.0)[:, None], torch.arange(4.0)
        angles = t / 10000 ** (2 * i / 8)
        positions = torch.stack([angles.sin(), angles.cos()], 2).flatten(1)

        def logits(m):
            z = m["embedding"](x) * 8 ** 0.5 + positions
            for encoder in m["layers"]:
                z = encoder(z)
            return m["fc"](z.mean(1))

        self.check(model, logits, loss, y)


class BadFiles(ModelCase):
    def refuse(self, path, *parts, changes=None, ranks=(None, 2)):
        job = self.job({**CNN, "model.path": path, **(changes or {})})
        for rank_count in ranks:
            process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=rank_count,
                                 expect=None)
            self.assert_one_error(process, 2, *parts)
            self.assertEqual(len(process.lines()), 1, process.describe())

    def test_no_file(self):
        self.refuse(self.path("none.pt"), "no such file", "none.pt", "model.path")

    def test_no_path(self):
        self.refuse(None, "model.path", "hanse.export", ranks=(None,))

    def test_torchscript(self):
        """What was a form of models is one of losses alone; export makes graphs of old files."""
        path = self.save(Normed())
        self.refuse(path, "model.kind: unknown value 'torchscript'",
                    'hanse.export("net.pt", sample, "net.graph")', "model.kind = graph",
                    changes={"model.kind": "torchscript"})
        changes = {"data.shape": "3", "data.classes": 2, "client.drop-last": "true"}
        run = self.train(self.job({**CNN, **changes, "model.path": self.graph(path, torch.rand(3))}),
                         "run")
        self.assertIn("norm.running_mean", results.Run(run).state_dict())

    def test_a_libtorch_that_is_not_there(self):
        job = self.job(self.cnn())
        process = self.hanse("run", job, f"--run.out={self.path('run')}", expect=None,
                             environment={"HANSE_TORCH": "0.9.1"})
        self.assert_one_error(process, 2, "no LibTorch 0.9.1 lies beside hanse-torch.so",
                              "HANSE_TORCH")
        run = self.train(job, "run", environment={"HANSE_TORCH": "system"})
        self.assertRegex(harness.summary(run)["versions"]["libtorch"], r"^\d+\.\d+\.\d+$")

    def test_samples_that_do_not_fit(self):
        self.refuse(self.cnn()["model.path"], "cnn.graph", "[1, 9, 8]", "[3, 4, 4]",
                    changes={"data.shape": "3,4,4"})

    def test_classes_that_do_not_fit(self):
        self.refuse(self.cnn()["model.path"], "cnn.graph", "[5]", "[7]",
                    changes={"data.classes": 7})

    def test_tokens_outside_the_vocabulary(self):
        job = self.job({**MODELS["lstm"], "model.vocabulary": 10})
        for ranks in (None, 2):
            process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=ranks,
                                 expect=None)
            self.assert_one_error(process, 2, "client ", "the value 10", "model.vocabulary")

    def test_a_batch_the_module_cannot_take(self):
        """A last batch of one, for batch norm on vectors: found before the first round."""
        changes = {"data.shape": "3", "data.classes": 2, "federation.samples": 17}
        path = self.graph(Normed(), torch.rand(3))
        self.refuse(path, "client 0, training: ", "own.graph", "batch of 1",
                    "hint: client.drop-last = true", changes=changes)
        job = self.job({**CNN, "model.path": path, **changes, "client.drop-last": "true"})
        self.assert_digest(self.train(job, "two", 2), self.train(job, "alone"))

    def test_a_file_that_changed_before_the_resume(self):
        changes = self.cnn()
        run = self.train(self.job(changes), "run", changes={"run.rounds": 2})
        self.export("cnn", "cnn.graph", "--shape=1,9,8", "--classes=5", "--seed=2")
        process = self.hanse("resume", run, "--run.rounds=4", ranks=2, expect=None)
        self.assert_one_error(process, 2, "model.path", "changed since the checkpoint")


class Buffers(ModelCase):
    def test_samplers_do_not_learn_from_them(self):
        """Parameters that do not move tell a sampler 0, however far the buffers go."""
        run = self.train(self.job(self.cnn(**{"client.lr": 1e-100, "run.trace": "true",
                                              "sampler.kind": "osmd", "sampler.eta": 0.1})), "run")
        rounds = json.loads(harness.text(run, "trace-sampler.json"))["rounds"]
        self.assertEqual({a for one in rounds for a in one["feedback"]}, {0})

    def test_rules_of_inner_products_refuse_them(self):
        job = self.job(self.cnn(**{"aggregator.kind": "dqn-fed"}))
        for ranks in (None, 2):
            process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=ranks,
                                 expect=None)
            self.assert_one_error(process, 2, "dqn-fed", "buffers", "group norm")

    def test_a_limit_on_a_round_refuses_them(self):
        """Who is left out would leave weights that are no mean's: a variance could be negative."""
        job = self.job(self.cnn(**{"run.round-seconds": 100}))
        for ranks in (None, 2):
            process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=ranks,
                                 expect=None)
            self.assert_one_error(process, 2, "buffers", "run.round-seconds = 0")

    def test_the_user_is_told(self):
        job = self.job(self.cnn())
        said = self.start("run", job, f"--run.out={self.path('run')}").wait()
        self.assertEqual(said.status, 0, said.describe())
        expected = "96 values in 4 buffers are averaged like parameters"
        self.assertIn(expected, said.stderr())
        self.assertIn("2 integer buffers stay as they are", said.stderr())
        self.assertIn(expected, self.hanse("plan", job).stdout())


if __name__ == "__main__":
    harness.main()
