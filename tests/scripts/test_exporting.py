"""hanse.export: files of modules equal the modules, keep their names, and are refused where not."""
import contextlib
import io
import json
import os
import re
import struct
import sys
import unittest
from unittest import mock

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402
from hanse import graph_files  # noqa: E402

try:
    import torch
    import zoo
    from torch import nn
except ImportError as error:
    raise unittest.SkipTest(f"torch is missing: {error}") from None

SLOW = {"rnn", "gru"}   # operators of lstm and others, thousands of times
READER = SCRIPTS.parent / "src/model/graphs/operators.cpp"


class By(nn.Module):
    """A dense layer, and a function of it and its input."""

    def __init__(self, function):
        super().__init__()
        self.fc, self.function = nn.Linear(4, 3), function

    def forward(self, x):
        return self.function(self.fc, x)


class Exporting(ScriptTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def export(self, module, sample, path="model.graph", **more):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            keys = hanse.export(module, sample, path, **more)
        return keys, said.getvalue()

    def refuse(self, module, *words, sample=None, **more):
        with self.assertRaises(hanse.Refused) as caught:
            self.export(module, torch.rand(4) if sample is None else sample, **more)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))


class GraphsTest(Exporting):
    def test_every_module_of_the_zoo_equals_its_file(self):
        for name in zoo.ZOO.keys() - SLOW:
            with self.subTest(name):
                module, sample, more = zoo.ZOO[name]()
                keys, said = self.export(module, sample, **more)
                self.assertEqual(keys, {"model.kind": "graph", "model.path": "model.graph"})
                self.assertRegex(said, r"differs from the module by \d\.\de[-+]\d\d\n$")
                graph, _ = graph_files.read("model.graph")
                named = {node["op"] for part in graph["graphs"].values() for node in part["nodes"]}
                self.assertEqual({op for op in named if not self.is_read(op)}, set())

    def is_read(self, op):
        """Whether the program's reader of graphs allows an operator."""
        allowed = " ".join(re.findall(r'"([a-z0-9_ ]+)"', READER.read_text())).split()
        bare = op.removeprefix("aten::")
        return op in ("item", "hanse::keep") or bare in allowed or bare.removesuffix("_") in allowed

    def test_a_file_that_computes_something_else_is_refused(self):
        def read(path, original=graph_files.read):
            graph, tensors = original(path)
            for node in graph["graphs"]["training"]["nodes"]:
                if node["op"] == "aten::threshold_backward":
                    node["args"][2] = 0.1
            return graph, tensors

        module, sample, _ = zoo.ZOO["mlp-batch-norm"]()
        with mock.patch.object(graph_files, "read", read):
            self.refuse(module, "has another result", "the gradient of", sample=sample)

    def test_the_file_has_the_modules_names_and_values(self):
        module, sample, _ = zoo.ZOO["encoder"]()
        self.export(module, sample)
        data = (self.folder / "model.graph").read_bytes()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        graph, tensors = graph_files.read("model.graph")
        self.assertEqual(header["__metadata__"]["format"], "pt")
        self.assertEqual((graph["format"], graph["sample"], graph["output"]), (1, [12], [12, 30]))
        self.assertEqual([entry["name"] for entry in graph["parameters"]],
                         [name for name, _ in module.named_parameters()])
        tied = {entry["name"]: entry.get("also") for entry in graph["parameters"]}
        self.assertEqual(tied["embedding.weight"], ["head.weight"])
        self.assertEqual(graph["buffers"], [])
        for name, value in module.named_parameters():
            self.assertTrue(torch.equal(tensors[name], value))

    def test_a_part_that_has_two_names_ties_its_tensors(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        module.again = module[0]
        self.export(module, torch.rand(4), "model.pt", kind="torchscript")
        self.assertIn("again.weight", torch.jit.load("model.pt").state_dict())
        self.export(module, torch.rand(4))
        graph, _ = graph_files.read("model.graph")
        self.assertEqual([(entry["name"], entry.get("also")) for entry in graph["parameters"]],
                         [("0.weight", ["again.weight"]), ("0.bias", ["again.bias"]),
                          ("1.weight", None), ("1.bias", None)])

    def test_tensors_that_no_state_dict_has_are_constants(self):
        module = By(lambda fc, x: fc(x) * module.scale + module.shift)
        module.register_buffer("scale", torch.full((3,), 2.0), persistent=False)
        module.register_buffer("shift", torch.ones(3, dtype=torch.int32))
        module.register_buffer("unread", torch.ones(2), persistent=False)
        self.export(module, torch.rand(4))
        graph, tensors = graph_files.read("model.graph")
        self.assertEqual((graph["buffers"], sorted(graph["constants"])),
                         ([], ["scale", "shift"]))
        self.assertEqual(tensors["shift"].dtype, torch.int64)

    def test_dropout_is_drawn_in_training_alone(self):
        module, sample, _ = zoo.ZOO["mlp-dropout"]()
        self.export(module, sample)
        graph, tensors = graph_files.read("model.graph")
        drawn = [node["args"] for node in graph["graphs"]["training"]["nodes"]
                 if node["op"] == "hanse::keep"]
        self.assertEqual(drawn, [[[{"rows": [1, 0]}, 64], 0.5, "float"]])
        self.assertNotIn("hanse::keep", [node["op"] for node
                                         in graph["graphs"]["evaluation"]["nodes"]])
        x = torch.rand(6, 20)
        whole = graph_files.replay(graph, "training", tensors, x, torch.ones(6, 10),
                                   keep=lambda sizes, p: torch.ones(sizes))
        hidden = 2 * module[0](x).relu()   # kept ones are divided by 1 - p
        torch.testing.assert_close(whole["output"], module[3](hidden).detach())

    def test_frozen_parameters_have_no_gradient(self):
        module, sample, _ = zoo.ZOO["mlp-frozen"]()
        self.export(module, sample)
        graph, _ = graph_files.read("model.graph")
        self.assertEqual([entry["trains"] for entry in graph["parameters"]],
                         [False, False, True, True, True, True])
        self.assertEqual(len(graph["graphs"]["training"]["outputs"]["gradients"]), 4)
        self.assertEqual([entry["name"] for entry in graph["buffers"]],
                         ["1.running_mean", "1.running_var", "1.num_batches_tracked"])

    def test_layers_of_stochastic_depth_draw_masks(self):
        def forward(fc, x):
            return fc(x) * (0.8 + torch.rand(x.shape[0], 1)).floor()

        self.export(By(forward), torch.rand(4))
        graph, _ = graph_files.read("model.graph")
        self.assertIn({"op": "hanse::keep", "args": [[{"rows": [1, 0]}, 1], 0.8, "float"]},
                      graph["graphs"]["training"]["nodes"])

    def test_samples_and_their_buffers_may_be_written(self):
        def forward(fc, x):
            x[:, 0] = 1.0
            return fc(x.mul_(2))

        self.export(By(forward), torch.rand(4))
        graph, tensors = graph_files.read("model.graph")
        x = torch.rand(2, 4)
        before = x.clone()
        graph_files.replay(graph, "evaluation", tensors, x)
        self.assertTrue(torch.equal(x, before))

    def test_the_module_is_not_changed(self):
        for kind in ("graph", "torchscript"):
            module, sample, _ = zoo.ZOO["cnn"]()
            module[1].eval()
            before = {name: value.clone() for name, value in module.state_dict().items()}
            attributes, drawn = set(vars(module)), torch.get_rng_state()
            self.export(module, sample, kind=kind)
            self.assertEqual([module.training, module[0].training, module[1].training],
                             [True, True, False])
            self.assertEqual(set(vars(module)), attributes)
            self.assertTrue(torch.equal(torch.get_rng_state(), drawn))
            for name, value in module.state_dict().items():
                self.assertTrue(torch.equal(value, before[name]), name)

    def test_what_no_graph_can_be_is_refused(self):
        for words, function in (
                ("chooses what it computes by values",
                 lambda fc, x: fc(x) if x.sum() > 0 else fc(-x)),
                ("chooses what it computes by values",
                 lambda fc, x: fc(x) if fc.weight.sum() > 0 else fc(-x)),
                ("random numbers by aten::randn_like", lambda fc, x: fc(x + torch.randn_like(x))),
                ("aten::div (call 2) depends on the number of rows by [9, 16, 49]",
                 lambda fc, x: fc(x) / x.shape[0] ** 2),
                ("for other numbers of rows, from aten::addmm on",
                 lambda fc, x: fc(x) if len(x) < 5 else fc(x).relu()),
                ("aten::nonzero", lambda fc, x: fc(x) + x.nonzero().shape[0]),
                ("complex", lambda fc, x: torch.fft.rfft(fc(x)).real),
                ("aten::as_strided", lambda fc, x: fc(x).as_strided((len(x), 2), (3, 2))),
                ("[3] for 2 samples", lambda fc, x: fc(x).sum(0)),
                ("no tensor is; hint: call=", lambda fc, x: "text"),
                ("float64, and outputs are float32", lambda fc, x: fc(x).double())):
            with self.subTest(words):
                self.refuse(By(function), words)

    def test_parameters_that_hanse_does_not_train_are_refused(self):
        self.refuse(nn.Linear(4, 3).double(), "weight is float64", "module.float()")
        self.refuse(nn.Linear(4, 3).requires_grad_(False), "no parameter that trains")
        hidden = By(lambda fc, x: x @ hidden.held[0].t() + fc(x))
        hidden.held = [hidden.fc.weight]
        self.refuse(hidden, "uses fc.weight by another way")

    def test_other_samples_are_refused(self):
        self.refuse(nn.Linear(4, 3), "no samples of the shape [2, 5]", "no axis of the batch",
                    sample=torch.rand(2, 5))
        self.refuse(nn.Embedding(4, 3), "tokens are integers", sample=torch.ones(1))
        self.refuse(nn.Linear(4, 3), "no tensor", sample=3)
        self.refuse(nn.Linear(4, 3), "graph or torchscript", kind="onnx")
        self.refuse(nn.Linear(4, 3), "cannot write none/model.graph", path="none/model.graph")

    def test_torch_is_asked_for(self):
        with mock.patch.dict(sys.modules, torch=None):
            self.refuse(None, "torch is missing", "pip install torch", sample=3)


class TorchScriptTest(Exporting):
    def test_every_module_of_the_zoo_equals_its_file(self):
        for name in zoo.ZOO.keys() - SLOW - {"spectral-norm"}:
            with self.subTest(name):
                module, sample, more = zoo.ZOO[name]()
                keys, _ = self.export(module, sample, "model.pt", kind="torchscript", **more)
                self.assertEqual(keys, {"model.kind": "torchscript", "model.path": "model.pt"})
                script = torch.jit.load("model.pt")
                self.assertLessEqual({name for name, _ in module.named_parameters()},
                                     {name for name, _ in script.named_parameters()})

    def test_a_trace_that_cannot_be_differentiated_is_refused(self):
        module, sample, _ = zoo.ZOO["spectral-norm"]()
        self.refuse(module, "the file does not compute", sample=sample, kind="torchscript")


if __name__ == "__main__":
    unittest.main()
