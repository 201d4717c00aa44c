"""Clients that train a part of the model: some tensors, adapters, or both."""

import os

import h5py
import numpy
import torch

import harness
from torch_files import write_graph

MLP = {"model.kind": "mlp", "model.hidden": "7,6", "run.rounds": 6, "evaluate.every": 3}
ADAPTERS = {**MLP, "client.lora": 2, "client.lora-layers": "*", "client.train": "fc3.*"}
TRANSFORMER = {"data.shape": "9", "data.tokens": 11, "data.classes": 11, "model.embedding": 6,
               "model.kind": "transformer", "model.heads": 2, "federation.clients": 7,
               "federation.samples": 15, "run.rounds": 4, "evaluate.every": 2,
               "sampler.per-round": 4, "client.lora": 3}


def tensors(run, file="model.h5"):
    with h5py.File(os.path.join(run, file), "r") as source:
        return {name: source[name][()] for name in source}


class SameBits(harness.Case):
    def compare(self, changes, places=harness.PLACES):
        alone, run = self.compare_places(changes, places)
        for name, values in tensors(alone).items():
            numpy.testing.assert_array_equal(tensors(run)[name], values, name)
        return alone, run

    def test_tensors_with_kept_moments(self):
        self.compare({**MLP, "client.train": "fc1.bias,fc3.*", "client.optimizer": "adam",
                      "client.optimizer-state": "kept", "client.lr": 0.01})

    def test_adapters_of_a_transformer(self):
        self.compare(TRANSFORMER)

    def test_adapters_by_inner_products(self):
        self.compare({**ADAPTERS, "aggregator.kind": "fedmgda+", "server.average": "true"})


class OwnNetworks(harness.Case):
    def test_parameters_without_a_gradient_stay_at_home(self):
        torch.manual_seed(3)
        module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 9),
                                     torch.nn.BatchNorm1d(9), torch.nn.Linear(9, 5))
        module[1].weight.requires_grad = False
        start = {name: value.numpy().copy() for name, value in module.state_dict().items()}
        path = write_graph(module, torch.rand(1, 8, 8), self.path("own.graph"))
        job = self.job({"model.kind": "graph", "model.path": path,
                        "run.rounds": 4, "client.drop-last": "true"})
        run = self.train(job, "run", 3)
        self.assert_digest(self.train(job, "alone"), run)
        found = tensors(run)
        numpy.testing.assert_array_equal(found["1.weight"], start["1.weight"])
        for name in ("1.bias", "2.weight", "2.running_mean", "3.weight"):
            self.assertGreater(abs(found[name] - start[name]).max(), 0, name)
        with h5py.File(os.path.join(run, "model.h5"), "r") as file:
            self.assertEqual(file.attrs["frozen"], 64 * 9)
        # Fewer values than the frozen tensor has.
        rounds = harness.summary(run)["bytes_per_round"]
        self.assertLess(rounds, 2 * 64 * 9 * 12)


class Files(harness.Case):
    def test_what_is_frozen_stays_and_adapters_merge(self):
        job = self.job({**ADAPTERS, "run.state-dict": "true", "evaluate.best": "loss_mean"})
        run = self.train(job, "run")
        merged = self.train(job, "merged", 2, {"run.merge-adapters": "true"})
        self.assert_digest(run, merged)
        start = self.train(job, "start", changes={"client.lr": 1e-30, "client.lora": 0,
                                                  "client.train": "*"})
        was, apart, whole = tensors(start), tensors(run), tensors(merged)
        numpy.testing.assert_array_equal(apart["fc1.bias"], was["fc1.bias"])
        numpy.testing.assert_array_equal(apart["fc1.weight"], was["fc1.weight"])
        self.assertGreater(abs(apart["fc3.bias"] - was["fc3.bias"]).max(), 0)
        self.assertNotIn("fc3.weight.lora_A", apart)
        for name in ("fc1.weight", "fc2.weight"):
            a, b = apart[name + ".lora_A"], apart[name + ".lora_B"]
            self.assertGreater(abs(b).max(), 0)
            numpy.testing.assert_allclose(whole[name], apart[name] + b @ a, atol=1e-6)
        self.assertEqual(sorted(whole), sorted(was))
        said = self.hanse("inspect", os.path.join(run, "model.h5")).stdout()
        frozen = 64 * 7 + 7 + 7 * 6 + 6
        for part in (f"frozen: {frozen} of them", "adapters: 2", "fc2.weight.lora_B", "[6, 2]"):
            self.assertIn(part, said)
        self.assertEqual(sorted(tensors(run, "best.h5")), sorted(apart))
        # Both are starts of the same model.
        for path in ("run/model.h5", "merged/model.h5", "run/state_dict.pt", "merged/state_dict.pt"):
            still = {"client.lr": 1e-30, "run.rounds": 1, "evaluate.start": "true",
                     "model.start": self.path(path), "run.overwrite": "true"}
            again = self.train(job, "again", 2, still)
            self.assertAlmostEqual(float(harness.column(again, "evaluations.csv", "loss_mean")[0]),
                                   float(harness.column(run, "evaluations.csv", "loss_mean")[-1]),
                                   places=5)

    def test_bytes_of_a_round_are_those_of_the_part(self):
        job = self.job({**MLP, "model.hidden": "500,400", "client.train": "fc3.*"})
        small = self.job({"run.rounds": 6, "evaluate.every": 3, "data.shape": "400"}, "small.cfg")
        part, alone = self.train(job, "part", 3), self.train(small, "alone", 3)
        self.assertEqual(harness.summary(part)["bytes_per_round"],
                         harness.summary(alone)["bytes_per_round"])
        said = self.hanse("plan", job).stdout()
        self.assertIn("frozen parameters", said)

    def test_another_frozen_part_is_refused(self):
        first = self.train(self.job(MLP), "first")
        start = os.path.join(first, "model.h5")
        run = self.train(self.job(ADAPTERS), "run", changes={"model.start": start})
        self.train(self.job({**MLP, "run.seed": 9}), "first", changes={"run.overwrite": "true"})
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=8", expect=None), 2,
                              "changed since the checkpoint", "model.start")

    def test_each_client_has_adapters_of_its_own(self):
        job = self.job({**ADAPTERS, "client.train": None, "client.personal": "*.lora_B"})
        run = self.train(job, "shared-a")
        self.assertEqual(abs(tensors(run)["fc1.weight.lora_B"]).max(), 0)
        self.assertGreater(float(harness.column(run, "clients.csv", "loss")[0]), 0)
        local = self.train(job, "local", 2, {"run.protocol": "local"})
        self.assertEqual(abs(tensors(local)["fc1.weight.lora_B"]).max(), 0)


class SmallMatrices(harness.Case):
    def test_the_default_leaves_them_out_and_says_so(self):
        job = self.job({**MLP, "client.lora": 7, "run.out": self.path("run")})
        said = self.start("run", job).wait()
        self.assertEqual(said.status, 0, said.describe())
        self.assertIn("rank 7 on 1 matrix, none on fc2.weight [6, 7] and 1 more, which are smaller",
                      said.stderr())
        with h5py.File(self.path("run/model.h5")) as file:
            self.assertEqual([name for name in file if "lora" in name],
                             ["fc1.weight.lora_A", "fc1.weight.lora_B"])


class Refused(harness.Case):
    def test_bad_input(self):
        job = self.job(MLP)
        adapters = self.train(self.job(ADAPTERS, "adapters.cfg"), "adapters") + "/model.h5"
        for changes, *parts in [
                ({"client.train": "fc1.*,conv*"}, "'conv*'", "client.train", "fc1.weight, fc1.bias"),
                ({"client.lora": 2, "client.lora-layers": "*.bias"}, "'*.bias'",
                 "client.lora-layers", "fc1.weight, fc2.weight"),
                ({"client.lora": 7, "client.lora-layers": "fc?.weight"},
                 "a rank of 7 is above a side of fc2.weight [6, 7]", "client.lora"),
                ({"client.lora": 65}, "a rank of 65 is above a side of fc1.weight [7, 64]"),
                ({"client.lora": -1}, "client.lora"),
                ({"client.lora": 1, "client.train": "*"}, "trained themselves", "client.train"),
                ({"run.merge-adapters": "true"}, "no adapters", "run.merge-adapters"),
                ({"client.lora": 1, "run.device": "cuda"}, ""),
                ({"model.start": adapters}, "another model", "lora_"),
                ({"model.start": adapters, "client.lora": 3}, "fc1.weight.lora_A [3, 64] ([2, 64]")]:
            process = self.hanse("run", job, f"--run.out={self.path('no')}",
                                 *harness.options(changes), expect=None)
            self.assert_one_error(process, 2, *parts)


if __name__ == "__main__":
    harness.main()
