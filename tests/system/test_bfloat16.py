"""A run in bfloat16 has the same bits with every family of kernels, on ranks of unlike ones too; of a
graph on any ranks of one machine."""

import os

import torch

import harness
from torch_files import write_graph

MODELS = {
    "linear": {"model.kind": "linear"},
    "mlp": {
        "model.kind": "mlp",
        "model.hidden": "70,33",
        "client.optimizer": "adamw",
        "client.lr": 0.01,
        "client.clip": 1,
    },
    "dqn-fed": {"model.kind": "mlp", "model.hidden": "17", "aggregator.kind": "dqn-fed"},
    "cnn-cifar": {  # with dropout
        "run.rounds": 4,
        "data.shape": "3,14,14",
        "model.kind": "cnn-cifar",
    },
    "lenet": {"run.rounds": 4, "data.shape": "1,28,28", "model.kind": "lenet"},
    "resnet18": {  # images of sides that strides do not divide
        "run.rounds": 2,
        "evaluate.every": 2,
        "data.shape": "3,13,10",
        "model.kind": "resnet18",
        "model.channels": 12,
    },
    "lstm": {
        "run.rounds": 4,
        "data.shape": "7",
        "data.tokens": 11,
        "data.classes": 11,
        "model.kind": "lstm",
        "model.units": 20,
        "model.dropout": 0.2,
    },
    "transformer": {
        "run.rounds": 4,
        "data.shape": "7",
        "data.tokens": 11,
        "data.classes": 11,
        "model.kind": "transformer",
        "model.embedding": 8,
        "model.heads": 2,
        "model.dropout": 0.2,
    },
}


def network():
    """A convolution with batch norm, dropout and a dense layer."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.2),
        torch.nn.Flatten(), torch.nn.Linear(4 * 7 * 6, 5))


def kernels():
    """Values of HANSE_KERNELS, from the plain ones to the fastest of this processor."""
    with open("/proc/cpuinfo") as file:
        flags = next(line for line in file if line.startswith("flags")).split()
    known = [("Haswell", "avx2"), ("SkylakeX", "avx512bw"), ("Cooperlake", "avx512_bf16"),
             ("SapphireRapids", "amx_bf16")]
    return ["Nehalem"] + [name for name, flag in known if flag in flags]


class Bfloat16(harness.Case):
    def narrow(self, changes):
        return self.job({"model.precision": "bfloat16", **changes})

    def compare_families(self, name):
        job = self.narrow(MODELS[name])
        values = kernels()
        runs = harness.together([
            lambda value=value: self.train(job, value, environment={"HANSE_KERNELS": value})
            for value in values])
        for run, value in zip(runs, values):
            self.assert_digest(run, runs[0], value)
            for table in ("evaluations.csv", "clients.csv"):
                self.assertEqual(harness.text(run, table), harness.text(runs[0], table), value)
        by = {harness.summary(run)["product_kernels"] for run in runs}
        self.assertEqual(len(by), len(values), by)
        if "SapphireRapids" not in values:
            print("this processor has no AMX: its kernels are left out", flush=True)
        return job, runs[0]

    def test_linear(self):
        self.compare_families("linear")

    def test_mlp(self):
        job, run = self.compare_families("mlp")
        self.assertEqual(harness.summary(run)["precision"], "bfloat16")
        other = self.train(job, "float32", changes={"model.precision": "float32"})
        self.assertNotEqual(harness.digest(run), harness.digest(other))
        self.assertNotIn("precision", harness.summary(other))

    def test_dqn_fed(self):
        self.compare_families("dqn-fed")

    def test_cnn_with_dropout(self):
        self.compare_families("cnn-cifar")

    def test_lenet(self):
        self.compare_families("lenet")

    def test_resnet18(self):
        self.compare_families("resnet18")

    def test_lstm_with_dropout(self):
        self.compare_families("lstm")

    def test_transformer_with_dropout(self):
        self.compare_families("transformer")

    def test_transformer_with_adapters(self):
        job = self.narrow({**MODELS["transformer"], "client.lora": 2})
        self.assert_digest(self.train(job, "two", 2), self.train(job, "alone"))

    def unlike(self):
        """A program whose ranks have different kernels."""
        folder = self.path("unlike")
        os.makedirs(folder, exist_ok=True)
        lib = os.path.join(os.path.dirname(harness.program()), "lib")
        if not os.path.exists(os.path.join(folder, "lib")):
            os.symlink(lib, os.path.join(folder, "lib"))
        cases = "".join(f"{i}) export HANSE_KERNELS={value};; "
                        for i, value in enumerate(kernels()[:4]))
        path = self.write("unlike/hanse", "#!/bin/sh\ncase ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in "
                          f"{cases}esac\nexec {harness.program()} \"$@\"\n")
        os.chmod(path, 0o755)
        return path

    def test_ranks_with_unlike_kernels(self):
        for name in ("mlp", "cnn-cifar"):
            job = self.narrow(MODELS[name])
            self.own_program = None
            alone = self.train(job, f"{name}-alone")
            self.own_program = self.unlike()
            for ranks in (2, 3, 4):
                run = self.train(job, f"{name}-{ranks}", ranks)
                self.assert_digest(run, alone, f"{name} on {ranks} ranks")
        refused = self.hanse("run", self.job(), f"--run.out={self.path('f')}", ranks=2, expect=None)
        self.assert_one_error(refused, 2, "kernels", "HANSE_KERNELS")

    def test_large_numbers_are_told(self):
        """Where products round them: beyond 2^8."""
        rows = [f"s{i % 4},{2016 + i % 8},{i % 7},{int(i % 8 > 3)}" for i in range(160)]
        table = self.write("years.csv", "\n".join(["site,year,dose,label", *rows, ""]))
        job = {"data.kind": "csv", "data.path": table, "data.client-column": "site",
               "data.classes": None, "model.precision": "bfloat16", "client.lr": 1e-6,
               "run.rounds": 1, "sampler.per-round": 2, "federation.clients": None}

        def said(**more):
            keys = {key.replace("__", "."): value for key, value in more.items()}
            return self.hanse("run", self.job({**job, **keys}), "--run.out=run",
                              "--run.overwrite=true", ranks=2).stderr()

        self.assertEqual(said().count(
            "warning: column 'year': 140 of 160 numbers are not exact in bfloat16, 8 different ones "
            "become 2; data.standardize centres them before that"), 1)
        for quiet in (said(data__standardize="all"), said(model__precision="float32")):
            self.assertNotIn("not exact", quiet)
        tokens = {"data.kind": "random", "data.shape": "5", "data.tokens": 600, "data.classes": 600,
                  "model.kind": "lstm", "model.units": 4, "federation.clients": 3,
                  "model.precision": "bfloat16", "run.rounds": 1, "sampler.per-round": 2}
        quiet = self.hanse("run", self.job(tokens), "--run.out=tokens").stderr()
        self.assertNotIn("not exact", quiet)
        self.write("years.csv", "site,year,label\na,3.4e38,0\na,1,1\nb,2,0\nb,3,1\n")
        process = self.hanse("run", self.job(job), "--run.out=run", "--run.overwrite=true", expect=2)
        self.assert_one_error(process, 2, "column 'year' has the value 3.39999995e+38",
                              "not finite in bfloat16")

    def test_a_resume_keeps_the_precision(self):
        changes = MODELS["mlp"]
        run = self.train(self.narrow(changes), "half", 2, {"run.rounds": 5})
        for other in ("float32", "tf32"):
            refused = self.hanse("resume", run, f"--model.precision={other}", expect=None)
            self.assert_one_error(refused, 2, "model.precision")
        self.hanse("resume", run, "--run.rounds=8", ranks=3)
        self.assert_digest(run, self.train(self.narrow(changes), "straight",
                                           changes={"run.rounds": 8}))

    def check_libtorch(self, by, changes, places=harness.PLACES):
        """Ranks and resumes have one run's bits, others than float32's, and its files say by what."""
        changes = {"model.precision": "bfloat16", **changes}
        run, resumed = self.compare_places(changes, places)
        self.assertEqual(harness.summary(run)["product_kernels"], by)
        wide = self.train(self.job(changes), "wide", changes={"model.precision": "float32"})
        self.assertNotEqual(harness.digest(run), harness.digest(wide))
        refused = self.hanse("resume", resumed, "--model.precision=float32", expect=None)
        self.assert_one_error(refused, 2, "model.precision")
        again = self.hanse("run", self.job(changes), f"--run.out={self.path('again')}")
        self.assertIn(f"products in bfloat16 by {by}", again.stdout() + again.stderr())

    def test_graph(self):
        path = write_graph(network(), torch.rand(1, 9, 8), self.path("own.graph"))
        changes = {"run.rounds": 4, "evaluate.every": 2, "data.shape": "1,9,8",
                   "model.kind": "graph", "model.path": path, "federation.clients": 5,
                   "sampler.per-round": 3, "client.batch": 8, "data.test-fraction": 0}
        self.check_libtorch("LibTorch in float32, of rounded factors", changes)

    def test_graph_with_adapters(self):
        path = write_graph(network(), torch.rand(1, 9, 8), self.path("own.graph"))
        job = self.narrow({"run.rounds": 2, "data.shape": "1,9,8", "model.kind": "graph",
                           "model.path": path, "client.lora": 2, "data.test-fraction": 0})
        self.assert_digest(self.train(job, "two", 2), self.train(job, "alone"))

    def test_what_has_no_such_products_is_refused(self):
        for changes, parts in (
                ({"model.kind": "linear", "model.precision": "tf32", "run.device": "cpu"},
                 ("tf32 is a format of GPUs, and this run has none", "model.precision", "hint")),
                ({"model.kind": "mlp", "client.lora": 2, "client.lora-layers": "fc1.weight"},
                 ("adapters", "float32"))):
            refused = self.hanse("run", self.narrow(changes), f"--run.out={self.path('r')}",
                                 expect=None)
            self.assert_one_error(refused, 2, *parts)


if __name__ == "__main__":
    harness.main()
