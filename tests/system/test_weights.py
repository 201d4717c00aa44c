"""Weights in files for Python and from it, tied weights, and signals, in the real program."""

import glob
import importlib.util
import json
import os
import re
import zipfile

import h5py
import numpy
import torch

import harness
import test_models
from test_models import bits
from torch_files import tensors_of


TOKENS = torch.arange(9)


class Tied(torch.nn.Module):
    """One matrix is the embedding and, turned, the last layer."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 6)
        self.head = torch.nn.Linear(6, 11)
        self.head.weight = self.embedding.weight
        self.register_buffer("seen", torch.tensor([3]))

    def forward(self, x):
        return self.head(self.embedding(x.long()).mean(1))


def read_safetensors(path):
    """{name: tensor} of a file, as its format says, with safetensors itself where it is there."""
    with open(path, "rb") as file:
        content = file.read()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    body, end, tensors = content[8 + length:], 0, {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin = entry["data_offsets"][0]
        assert begin == end, "a gap"
        end = entry["data_offsets"][1]
        kind = {"F32": torch.float32, "I64": torch.int64}[entry["dtype"]]
        tensors[name] = torch.frombuffer(bytearray(body[begin:end]),
                                         dtype=kind).reshape(entry["shape"])
    assert end == len(body) and header["__metadata__"] == {"format": "pt"}
    if importlib.util.find_spec("safetensors"):
        safetensors = importlib.import_module("safetensors.torch").load_file(path)
        assert {name: bits(value) for name, value in tensors.items()} == {
            name: bits(value) for name, value in safetensors.items()}
    return tensors


class TiedWeights(test_models.ModelCase):
    def tied_job(self, **changes):
        return self.job({**test_models.TOKENS, "model.kind": "graph",
                         "model.path": self.graph(Tied(), TOKENS, "tied.graph"), **changes})

    def test_each_name_is_written_and_read(self):
        """torch loads what a run writes, with nothing missing, and model.start reads it again."""
        job = self.tied_job()
        module, loaded = Tied(), {}
        for file, value in (("state_dict.pt", "true"), ("model.safetensors", "safetensors")):
            run = self.train(job, value, changes={"run.state-dict": value})
            path = os.path.join(run, file)
            loaded[file] = read_safetensors(path) if value != "true" else torch.load(path)
            self.assertEqual(sorted(loaded[file]), sorted(module.state_dict()))
            module.load_state_dict(loaded[file])
            for ranks in (None, 2):
                again = self.train(job, "again", ranks, {"model.start": path, "client.lr": 1e-30,
                                                         "run.overwrite": "true"})
                self.assert_digest(again, run, file)
        for name, value in loaded["state_dict.pt"].items():
            self.assertEqual(bits(loaded["model.safetensors"][name]), bits(value), name)
        self.assertEqual(bits(value), bits(module.seen))

    def test_files_with_one_name_and_with_two_values(self):
        job = self.tied_job(**{"run.rounds": 1})
        run = self.train(job, "run", changes={"run.state-dict": "true", "run.rounds": 2})
        state = torch.load(os.path.join(run, "state_dict.pt"))
        still = {"client.lr": 1e-30, "run.overwrite": "true"}
        for name in ("embedding.weight", "head.weight"):
            torch.save({key: value for key, value in state.items() if key != name},
                       self.path("one.pt"))
            again = self.train(job, "again", None, {**still, "model.start": self.path("one.pt")})
            self.assert_digest(again, run, name)
        state["head.weight"] = state["head.weight"] + 1
        torch.save(state, self.path("two.pt"))
        process = self.hanse("run", job, f"--run.out={self.path('no')}",
                             f"--model.start={self.path('two.pt')}", expect=None)
        self.assert_one_error(process, 2, "head.weight (the model ties it to embedding.weight, of "
                                          "other values in the file)")

    def test_adapters_find_each_name(self):
        job = self.tied_job(**{"client.lora": 2, "client.lora-layers": "head.weight"})
        with h5py.File(os.path.join(self.train(job, "run"), "model.h5")) as file:
            self.assertIn("embedding.weight.lora_A", file)


class Within(torch.nn.Module):
    """A module whose tensors have a prefix."""

    def __init__(self):
        super().__init__()
        self.m = Tied()

    def forward(self, x):
        return self.m(x)


class Prefixes(test_models.ModelCase):
    STILL = {"client.lr": 1e-30, "run.rounds": 1, "run.overwrite": "true"}

    def test_on_one_side_alone(self):
        state = Tied().state_dict()
        for module, file, said in (
                (Tied(), {f"_orig_mod.{name}": value for name, value in state.items()},
                 "names in the file begin with _orig_mod."),
                (Within(), state, "names of the model begin with m.")):
            torch.save(file, self.path("start.pt"))
            job = self.job({**test_models.TOKENS, **self.STILL, "model.kind": "graph",
                            "model.path": self.graph(module, TOKENS), "run.out": self.path("run"),
                            "model.start": self.path("start.pt")})
            process = self.start("run", job).wait()
            self.assertEqual(process.status, 0, process.describe())
            self.assertIn(said, process.stderr())
            with h5py.File(self.path("run/model.h5")) as found:
                for name in set(found) & set(module.state_dict()):
                    numpy.testing.assert_array_equal(found[name][()],
                                                     state[name.removeprefix("m.")].numpy())

    def test_two_that_do_as_well_are_refused(self):
        state = Tied().state_dict()
        torch.save({f"{prefix}.{name}": value for prefix in ("student", "teacher")
                    for name, value in state.items()}, self.path("two.pt"))
        job = self.job({**test_models.TOKENS, "model.kind": "graph",
                        "model.path": self.graph(Tied(), TOKENS), "model.start": self.path("two.pt")})
        process = self.hanse("run", job, f"--run.out={self.path('no')}", expect=None)
        self.assert_one_error(process, 2, "behind several prefixes: student., teacher.",
                              "model.start")


class SafeTensors(test_models.ModelCase):
    def test_a_resume_writes_what_the_run_would(self):
        changes = self.cnn(**{"run.state-dict": "safetensors"})
        whole = self.train(self.job(changes), "whole")
        part = self.train(self.job(changes), "part", changes={"run.rounds": 2})
        self.assertFalse(os.path.exists(os.path.join(whole, "state_dict.pt")))
        self.hanse("resume", part, "--run.rounds=4")
        files = [os.path.join(run, "model.safetensors") for run in (whole, part)]
        with open(files[0], "rb") as one, open(files[1], "rb") as other:
            self.assertEqual(one.read(), other.read())
        tensors = read_safetensors(files[0])
        self.assertEqual(tensors["1.num_batches_tracked"].dtype, torch.int64)
        names = tensors_of(changes["model.path"])
        self.assertEqual(sorted(tensors), sorted(names))

    def test_networks_of_the_program_need_no_libtorch(self):
        job = self.job({"model.kind": "mlp", "model.hidden": 7, "run.rounds": 1})
        run = self.train(job, "run", changes={"run.state-dict": "safetensors"})
        self.assertEqual(harness.summary(run)["versions"]["libtorch"], "not used")
        with h5py.File(os.path.join(run, "model.h5")) as file:
            for name, tensor in read_safetensors(os.path.join(run, "model.safetensors")).items():
                self.assertEqual(bits(tensor), file[name][()].tobytes(), name)
        other = self.train(job, "other", changes={"run.state-dict": "Yes"})
        self.assertTrue(os.path.exists(os.path.join(other, "state_dict.pt")))


class Signals(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 4, 3)
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.conv(x).relu().mean(-1))


class OneDimensional(test_models.ModelCase):
    def test_signals_of_npz_by_data_shape(self):
        """[n, channels, length] are grey pictures unless data.shape says what they are: a graph
        leaves sides of 1 out."""
        random = numpy.random.default_rng(5)
        x, y = random.normal(size=(60, 2, 16)).astype(numpy.float32), numpy.arange(60) % 3
        numpy.savez(self.path("ecg.npz"), x=x, y=y)
        network = Signals()
        path = self.graph(network, torch.rand(2, 16))
        job = self.job({"data.kind": "npz", "data.path": self.path("ecg.npz"), "data.shape": None,
                        "model.kind": "graph", "model.path": path, "run.rounds": 1,
                        "federation.clients": 3, "federation.samples": None,
                        "sampler.per-round": 3, "data.test-fraction": 0})
        run = self.train(job, "run", 2, {"data.shape": "2,16", "client.lr": 1e-30})
        self.assert_digest(self.train(job, "pictures", changes={"client.lr": 1e-30}), run)
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(network(torch.from_numpy(x)),
                                                     torch.from_numpy(y)).item()
        self.assertAlmostEqual(harness.summary(run)["metrics"]["loss_weighted"], loss, places=6)


def second_torch():
    """Versions of LibTorch that lie beside the program's own (scripts/setup --torch)."""
    names = glob.glob(os.path.join(os.path.dirname(harness.program()), "lib", "hanse-torch-*.so"))
    return [re.search("hanse-torch-(.*).so", name)[1] for name in names]


class Loss(torch.nn.Module):
    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.relu(scores).mean()


class SecondLibTorch(test_models.ModelCase):
    SECOND = {"HANSE_TORCH": "newest"}
    FIRST = {"HANSE_TORCH": "system"}

    def setUp(self):
        super().setUp()
        if not second_torch():
            self.skipTest("no second LibTorch is built (scripts/setup --torch)")

    def version(self, run):
        return harness.summary(run)["versions"]["libtorch"]

    def test_both_train_the_same_model(self):
        job = self.job(self.cnn(**{"run.state-dict": "true"}))
        runs = [self.train(job, "first", environment=self.FIRST),
                self.train(job, "second", environment=self.SECOND)]
        self.assertIn(self.version(runs[1]), second_torch())
        self.assertNotEqual(self.version(runs[0]), self.version(runs[1]))
        first, second = (torch.load(os.path.join(run, "state_dict.pt")) for run in runs)
        for name, value in first.items():
            torch.testing.assert_close(second[name], value, rtol=1e-4, atol=1e-5)
        again = self.train(job, "again", 2, environment=self.SECOND)
        self.assert_digest(again, runs[1], "two ranks")

    def test_a_resume_by_the_other_is_told(self):
        run = self.train(self.job(self.cnn()), "run", changes={"run.rounds": 2},
                         environment=self.FIRST)
        said = self.start("resume", run, "--run.rounds=4", environment=self.SECOND).wait()
        self.assertEqual(said.status, 0, said.describe())
        self.assertRegex(said.stderr(), r"by LibTorch \d+\.\d+\.\d+, the others will be by "
                         + re.escape(self.version(run)))

    def test_ranks_of_both_are_refused(self):
        script = self.write("mixed/hanse", f"""#!/bin/sh
case ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} in
  0) export HANSE_TORCH=system;;
  *) export HANSE_TORCH=newest;;
esac
exec {harness.program()} "$@"
""")
        os.chmod(script, 0o755)
        lib = os.path.join(os.path.dirname(harness.program()), "lib")
        os.symlink(lib, self.path("mixed/lib"))
        self.own_program = script
        process = self.hanse("run", self.job(self.cnn()), f"--run.out={self.path('no')}", ranks=2,
                             expect=None)
        self.assert_one_error(process, 2, "LibTorch", "set HANSE_TORCH to the same version")

    def test_hints_name_it(self):
        version = max(second_torch(), key=lambda text: [int(part) for part in text.split(".")])
        self.assertIn(f"HANSE_TORCH={version}", self.hanse("--version").stdout())
        torch.jit.script(Loss()).save(self.path("loss.pt"))
        path = self.path("newer.pt")
        with zipfile.ZipFile(self.path("loss.pt")) as old, zipfile.ZipFile(path, "w") as new:
            for item in old.infolist():
                new.writestr(item.filename, old.read(item).replace(b"torch.relu", b"torch.re"))
        job = self.job({"client.objective": path})
        for environment, hint in ((self.FIRST, f"hint: HANSE_TORCH={version} in the environment"),
                                  (self.SECOND, "hint: no newer LibTorch is there")):
            process = self.hanse("run", job, f"--run.out={self.path('no')}", expect=None,
                                 environment=environment)
            self.assert_one_error(process, 2, "Unknown builtin op", hint)


if __name__ == "__main__":
    harness.main()
