"""What is frozen before the first trained tensor of a graph, computed once (model.frozen-cache)."""

import csv
import glob
import io
import os
import re

import numpy
import torch

import harness
from torch_files import write_graph

JOB = {"model.kind": "graph", "run.rounds": 4, "evaluate.every": 2, "data.test-fraction": 0.25,
       "federation.clients": 7, "sampler.per-round": 3, "client.batch": 5}
ADAPTERS = {"client.train": "", "client.lora": 2, "client.lora-layers": "layers.1.*"}
SAID = "what is frozen before the first tensor that moves is"


class Attention(torch.nn.Module):
    """Pixels as 8 tokens, two layers of attention, a head on the first token."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.table = torch.nn.Linear(8, 6)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({"qkv": torch.nn.Linear(6, 18), "norm": torch.nn.LayerNorm(6),
                                 "out": torch.nn.Linear(6, 6)}) for _ in range(2))
        self.drop = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(6, 5)

    def forward(self, x):
        h = self.table(x.reshape(-1, 8, 8))
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm"](h)).chunk(3, -1)
            weights = torch.softmax(q @ k.transpose(1, 2), -1)
            h = self.drop(h + layer["out"](weights @ v))
        return self.head(h[:, 0])


class Convolutions(torch.nn.Module):
    """With batch norm, and writes into values."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 3, 3)
        self.norm = torch.nn.BatchNorm2d(3)
        self.second = torch.nn.Conv2d(3, 4, 3)
        self.head = torch.nn.Linear(4 * 16, 5)

    def forward(self, x):
        h = torch.relu_(self.norm(torch.relu_(self.first(x))))
        return self.head(torch.relu_(self.second(h)).flatten(1))


class FrozenCase(harness.Case):
    def keys(self, module=None, **changes):
        torch.manual_seed(3)
        path = write_graph(module or Attention(), torch.rand(1, 8, 8), self.path("net.graph"))
        return {**JOB, "model.path": path, "client.train": "head.*", **changes}

    def said(self, keys, name, ranks=None, file_bytes=None, **changes):
        """The run's folder, and what it says."""
        process = self.hanse("run", self.job(keys), f"--run.out={self.path(name)}",
                             *harness.options(changes), ranks=ranks, file_bytes=file_bytes)
        return self.path(name), process.stderr()

    def values(self, said):
        """Frozen values of a sample; 0: nothing is frozen."""
        found = re.search(SAID + r" (\d+) values a sample", said)
        return int(found[1]) if found else 0

    def compare_kept(self, keys, values):
        """The same bits wherever frozen values are kept. Returns the folder of a run that kept them
        in memory."""
        run, said = self.said(keys, "auto")
        self.assertEqual(self.values(said), values, said)
        for kept in ("off", "memory", "file"):
            folder = {"model.frozen-cache-path": self.folder} if kept == "file" else {}
            other, said = self.said(keys, kept, **{"model.frozen-cache": kept, **folder})
            self.assertEqual(self.values(said), values, said)
            self.assert_digest(other, run, kept)
            self.assertEqual(harness.text(other, "evaluations.csv"),
                             harness.text(run, "evaluations.csv"), kept)
        return run


class SameBits(FrozenCase):
    def test_a_head(self):
        self.compare_kept(self.keys(), 6)  # the first token

    def test_adapters_of_the_upper_layer(self):
        self.compare_kept(self.keys(**ADAPTERS), 2 * 8 * 6)

    def test_adapters_whose_weights_are_formed(self):
        self.compare_kept(self.keys(**ADAPTERS, **{"client.lora-path": "merged",
                                                   "model.base-precision": "bfloat16"}), 2 * 8 * 6)

    def test_own_models(self):
        self.compare_kept(self.keys(**{"client.personal": "head.bias", "evaluate.tune-steps": 2,
                                       "evaluate.view": "personalised"}), 6)

    def test_what_evaluations_tune_moves(self):
        self.compare_kept(self.keys(**{"evaluate.tune": "layers.1.*", "evaluate.tune-steps": 2}),
                          8 * 6)

    def test_representations(self):
        """What the last layer reads is frozen itself, or made of it."""
        for train, update, values in (("head.*", "fedproto", 6),
                                      ("layers.1.*,head.*", "moon", 8 * 6)):
            keys = self.keys(**{"client.train": train, "client.update": update})
            write_graph(Attention(), torch.rand(1, 8, 8), keys["model.path"], representation="head")
            self.compare_kept({**keys, "run.overwrite": "true"}, values)

    def test_networks_of_convolutions(self):
        """Without the cache passes compute all, with the same bits."""
        for kind, train in (("lenet", "fc3.*"), ("resnet18", "layer4.*,fc.*")):
            keys = {**JOB, "model.kind": kind, "model.channels": 4, "model.groups": 2,
                    "client.train": train, "run.overwrite": "true", "data.shape": "1,16,16"}
            if kind == "lenet":
                del keys["model.channels"], keys["model.groups"]
            run, said = self.said(keys, "kept", ranks=2, **{"model.frozen-cache": "memory"})
            self.assertGreater(self.values(said), 0)
            other, said = self.said(keys, "off", **{"model.frozen-cache": "off"})
            self.assertEqual(self.values(said), 0)
            self.assert_digest(other, run, kind)

    def test_the_attacker_s_patches(self):
        self.compare_kept(self.keys(**{"attack.kind": "backdoor", "attack.clients": 2,
                                       "attack.target": 1}), 6)

    def test_a_prediction_agrees(self):
        """It computes all of a pass, on other batches."""
        draw = numpy.random.default_rng(1)
        data = self.path("data.npz")
        numpy.savez(data, x=draw.random((60, 1, 8, 8), "f4"), y=draw.integers(0, 5, 60))
        run, _ = self.said(self.keys(**{
            "data.kind": "npz", "data.path": data, "data.shape": None, "data.classes": None,
            "federation.samples": None, "evaluate.scores": "true", "model.frozen-cache": "file"}),
            "run")
        self.assertEqual(len(glob.glob(self.path("frozen-*.cache"))), 1)  # beside the data
        said = self.hanse("predict", run, data).stdout()
        predicted = list(csv.DictReader(io.StringIO(said)))
        scores = harness.table(run, "scores.csv")
        self.assertGreater(len(scores), 10)
        for line in scores:
            own = predicted[int(line["row"])]
            for k in range(5):
                self.assertAlmostEqual(float(own[f"p_{k}"]), float(line[f"score_{k}"]), delta=1e-6)

    def test_ranks_and_resumes(self):
        self.compare_places(self.keys(**{"client.train": "layers.1.*,head.*"}))

    def test_momentum_and_scores(self):
        keys = self.keys(**{"client.momentum": 0.5, "evaluate.scores": "true"})
        self.compare_places(keys, places=())

    def test_writes_into_values(self):
        module = Convolutions()
        self.compare_kept(self.keys(module, **{"client.train": "norm.*,second.*,head.*"}), 3 * 36)


class Cuts(FrozenCase):
    def frozen(self, module=None, **changes):
        return self.values(self.said(self.keys(module, **changes), "run",
                                     **{"run.overwrite": "true"})[1])

    def test_batch_norm_in_training_is_not_frozen(self):
        self.assertEqual(self.frozen(Convolutions()), 3 * 36)

    def test_a_dropout_ends_what_is_frozen(self):
        # Of the layer before it: keys, queries and values' sum with the residual.
        self.assertEqual(self.frozen(Attention(0.5)), 8 * 6)

    def test_nothing_is_frozen_before_the_first_tensor(self):
        self.assertEqual(self.frozen(**{"client.train": "table.*,head.*"}), 0)
        self.assertEqual(self.frozen(**{"client.train": ""}), 0)

    def test_augmentation_switches_it_off(self):
        keys = self.keys(**{"client.flip": 0.5})
        run, said = self.said(keys, "memory", **{"model.frozen-cache": "memory"})
        self.assertIn("client.flip changes samples, and what is frozen with them", said)
        other, said = self.said(keys, "auto")
        self.assertNotIn(SAID, said)
        self.assert_digest(other, run)


class Files(FrozenCase):
    def setUp(self):
        super().setUp()
        self.kept = self.path("kept")
        os.mkdir(self.kept)
        self.file = {"model.frozen-cache": "file", "model.frozen-cache-path": self.kept}

    def files(self):
        return sorted(glob.glob(os.path.join(self.kept, "*")))

    def test_runs_share_a_file(self):
        keys = self.keys(**self.file)
        expected, _ = self.said(keys, "off", **{"model.frozen-cache": "off"})
        runs = harness.together([lambda i=i: self.train(self.job(keys, f"{i}.cfg"), f"run-{i}", 2)
                                 for i in range(2)])
        before = [open(path, "rb").read() for path in self.files()]
        runs.append(self.train(self.job(keys), "again"))
        self.assertEqual(len(before), 1)
        self.assertEqual([open(path, "rb").read() for path in self.files()], before)
        for run in runs:
            self.assert_digest(run, expected)

    def test_other_data_weights_and_heads(self):
        keys = self.keys(**self.file)
        self.train(self.job(keys), "run")
        self.train(self.job({**keys, "client.lr": 0.3}), "rate")
        self.assertEqual(len(self.files()), 1)
        self.train(self.job({**keys, "data.seed": 9}), "data")
        self.assertEqual(len(self.files()), 2)
        torch.manual_seed(4)
        write_graph(Attention(), torch.rand(1, 8, 8), keys["model.path"])
        self.train(self.job(keys), "weights")
        self.assertEqual(len(self.files()), 3)

    def test_a_damaged_file_is_computed_again(self):
        keys = self.keys(**self.file)
        expected = self.train(self.job(keys), "run")
        path, = self.files()
        whole = open(path, "rb").read()
        last = len(whole.rstrip(b"\0")) - 1
        for place, what in ((last, "block 8 of"), (20, "has no frozen values of this job")):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            with open(path, "wb") as file:
                file.write(damaged)
            run, said = self.said(keys, f"after-{place}")
            self.assertIn(what, said)
            self.assert_digest(run, expected)
        self.assertEqual(len(self.files()), 1)

    def test_a_folder_that_cannot_be_written(self):
        keys = self.keys(**{**self.file, "model.frozen-cache-path": self.path("none")})
        run, said = self.said(keys, "run", ranks=2)
        self.assertEqual(said.count("cannot create the file"), 1, said)
        self.assert_digest(run, self.said(keys, "off", **{"model.frozen-cache": "off"})[0])

    def test_a_full_disk(self):
        keys = self.keys(**self.file, **ADAPTERS, **{"federation.clients": 40})
        run, said = self.said(keys, "run", file_bytes=200_000)
        self.assertEqual(said.count("no room for"), 2, said)  # the disk, and what follows from it
        self.assertEqual(self.files(), [])
        self.assert_digest(run, self.said(keys, "off", **{"model.frozen-cache": "off"})[0])

    def test_data_without_a_folder(self):
        process = self.hanse("run", self.job(self.keys(**{"model.frozen-cache": "file"})),
                             f"--run.out={self.path('no')}", expect=None)
        self.assert_one_error(process, 2, "the data has no folder", "model.frozen-cache-path")


if __name__ == "__main__":
    harness.main()
