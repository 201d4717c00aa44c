"""hanse.export: files of modules equal the modules, keep their names, and are refused where not."""
import contextlib
import io
import json
import os
import pathlib
import struct
import sys
import unittest
from unittest import mock

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402
from hanse import graph_cleaning, graph_files, graph_views  # noqa: E402

try:
    import operators
    import torch
    import zoo
    from torch import nn
except ImportError as error:
    raise unittest.SkipTest(f"torch is missing: {error}") from None

SLOW = {"rnn", "gru"}   # operators of lstm and others, thousands of times
MODULES = {**zoo.ZOO, **operators.OPERATORS}


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
        for name in MODULES.keys() - SLOW:
            with self.subTest(name):
                module, sample, more = MODULES[name]()
                keys, said = self.export(module, sample, **more)
                self.assertEqual(keys, {"model.kind": "graph", "model.path": "model.graph"})
                self.assertRegex(said, r"differs from the module by \d\.\de[-+]\d\d "
                                 r"in batches of up to \d+\n$")
                graph, _ = graph_files.read("model.graph")
                named = {node["op"] for part in graph["graphs"].values() for node in part["nodes"]}
                self.assertEqual({op for op in named - {"item", "hanse::keep"}
                                  if not graph_cleaning.is_listed(op)}, set())
                self.assertGreater(graph["compared"], 129)

    def test_the_list_of_operators_has_names_with_and_without_a_dash(self):
        for op, is_listed in (("aten::add", True), ("aten::add_", True), ("aten::__and__", True),
                              ("aten::set_", False), ("aten::as_strided", False), ("aten::", False),
                              ("aten::_", False), ("prim::add", False), ("add", False)):
            self.assertEqual(graph_cleaning.is_listed(op), is_listed, op)

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
        self.export(module, torch.rand(4))
        graph, _ = graph_files.read("model.graph")
        self.assertEqual([(entry["name"], entry.get("also")) for entry in graph["parameters"]],
                         [("0.weight", ["again.weight"]), ("0.bias", ["again.bias"]),
                          ("1.weight", None), ("1.bias", None)])

    def test_layers_that_use_a_matrix_in_another_way_are_noted(self):
        class Conv1D(nn.Module):   # of transformers: y = x W + b
            def __init__(self):
                super().__init__()
                self.weight, self.bias = nn.Parameter(torch.rand(4, 4)), nn.Parameter(torch.rand(4))

            def forward(self, x):
                return torch.addmm(self.bias, x, self.weight)

        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.conv, self.head = nn.Embedding(7, 4), Conv1D(), nn.Linear(4, 7)
                self.head.weight = self.table.weight

            def forward(self, x):
                return self.head(self.conv(self.table(x)[:, -1]))

        self.export(Tied(), torch.arange(3))
        graph, _ = graph_files.read("model.graph")
        self.assertEqual({entry["name"]: entry.get("uses") for entry in graph["parameters"]},
                         {"table.weight": {"table.weight": "embedding"},
                          "conv.weight": {"conv.weight": "transposed"}, "conv.bias": None,
                          "head.bias": None})

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

    def test_representations(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.fc, self.spare = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(1, 1)

            def forward(self, x):
                return self.fc(torch.tanh(self.body(x)))

        module = Net()
        plain, said = self.export(module, torch.rand(4), "plain.graph")
        self.assertNotIn("representation", said)
        _, said = self.export(module, torch.rand(4), representation="fc")
        self.assertIn("representations [6]", said)
        graph, tensors = graph_files.read("model.graph")
        self.assertEqual(graph["representation"], [6])
        self.assertNotIn("representation", graph_files.read("plain.graph")[0])
        x, delta, other = torch.rand(5, 4), torch.randn(5, 3), torch.randn(5, 6)
        h = torch.tanh(module.body(x))
        loss = (module.fc(h) * delta).sum() + (h * other).sum()
        expected = torch.autograd.grad(loss, list(module.parameters())[:4])
        found = graph_files.replay(graph, "training", tensors, x, delta, other)
        torch.testing.assert_close(found["representation"], h.detach())
        for mine, right in zip(found["gradients"], expected):
            torch.testing.assert_close(mine, right)
        torch.testing.assert_close(graph_files.replay(graph, "evaluation", tensors, x),
                                   {"output": module.fc(h).detach(), "representation": h.detach()})
        self.refuse(module, "no part head", "body, fc, spare", representation="head")
        self.refuse(module, "does not call spare", representation="spare")
        self.refuse(By(lambda fc, x: fc(x)), "does not depend on a parameter", representation="fc")
        self.refuse(By(lambda fc, x: fc(x.unsqueeze(1)).squeeze(1)), "[rows, width]",
                    representation="fc")
        self.refuse(torch.jit.script(module), "TorchScript", representation="fc")

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
            y = fc(x)
            return y * (0.8 + torch.rand(x.shape[0], 1)).floor() if fc.training else y

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
        module, sample, _ = zoo.ZOO["cnn"]()
        module[1].eval()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        attributes, drawn = set(vars(module)), torch.get_rng_state()
        self.export(module, sample)
        self.assertEqual([module.training, module[0].training, module[1].training],
                         [True, True, False])
        self.assertEqual(set(vars(module)), attributes)
        self.assertTrue(torch.equal(torch.get_rng_state(), drawn))
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_what_no_graph_can_be_is_refused(self):
        here = "(By, test_exporting.py:"
        for words, function in (
                (["chooses what it computes by values of samples or of what training", here],
                 lambda fc, x: fc(x) if x.sum() > 0 else fc(-x)),
                (["chooses what it computes by values"],
                 lambda fc, x: fc(x) if fc.weight.sum() > 0 else fc(-x)),
                (["chooses what it computes by values"],
                 lambda fc, x: fc(x) if torch.equal(x, x.abs()) else fc(-x)),
                (["random numbers by aten::randn_like (By, test_exporting.py:", "in evaluation"],
                 lambda fc, x: fc(x + torch.randn_like(x))),
                (["random numbers by aten::randn_like (By, test_exporting.py:", "does not have"],
                 lambda fc, x: fc(x + torch.randn_like(x)) if fc.training else fc(x)),
                (["aten::div (By, test_exporting.py:",
                  "the number of rows: for 3, 4 and 7 of them it has [9, 16, 49]"],
                 lambda fc, x: fc(x) / x.shape[0] ** 2),
                (["aten::mul (the gradient of By, test_exporting.py:", "it has [1.0, 0.66"],
                 lambda fc, x: fc(x) / fc(x).var(0)),
                (["for other numbers of rows, from aten::addmm (fc (Linear), test_exporting.py:"],
                 lambda fc, x: fc(x) if len(x) < 5 else fc(x).relu()),
                (["aten::nonzero gives a shape that depends on values of samples", here],
                 lambda fc, x: fc(x) + x.nonzero().shape[0]),
                (["aten::index gives a shape that depends on values of samples", here],
                 lambda fc, x: fc(x) * x[x > 0].sum()),
                (["one_hot without num_classes"],
                 lambda fc, x: fc(torch.nn.functional.one_hot(x.long()).float().mean(2))),
                (["complex", here], lambda fc, x: torch.fft.rfft(fc(x)).real),
                (["aten::as_strided", "no slices, views or transposes", here],
                 lambda fc, x: fc(x).as_strided((len(x), 2), (3, 0))),
                (["aten::linalg_matrix_exp is not in this program's list of operators", here],
                 lambda fc, x: fc(x) @ torch.matrix_exp(fc.weight[:, :3] * 0.1)),
                (["[3] for 2 samples"], lambda fc, x: fc(x).sum(0)),
                (["no tensor is; hint: call="], lambda fc, x: "text"),
                (["float64, and outputs are float32"], lambda fc, x: fc(x).double())):
            with self.subTest(words):
                self.refuse(By(function), *words)
        self.assertEqual(list(self.folder.glob("model*")), [])

    def test_what_is_fixed_at_the_export_may_be_chosen_by(self):
        """Masks and numbers of what neither samples nor training change."""
        def forward(fc, x):
            even = (torch.arange(4) % 2 == 0).nonzero()[:, 0]
            return fc(x * 2 if module.mask.any() else x) + x[:, module.mask] + x[:, even].sum(1, True)

        module = By(forward)
        module.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.export(module, torch.rand(4))
        graph, tensors = graph_files.read("model.graph")
        x = torch.rand(9, 4)
        found = graph_files.replay(graph, "evaluation", tensors, x)
        torch.testing.assert_close(found, module.eval()(x).detach())

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
        self.refuse(nn.Linear(4, 3), "cannot write none/model.graph", path="none/model.graph")

    def test_torch_is_asked_for(self):
        with mock.patch.dict(sys.modules, torch=None):
            self.refuse(None, "torch is missing", "pip install torch", sample=3)


class BatchesTest(Exporting):
    """Files hold for batches of every size, and say up to which this was seen."""

    def test_that_are_cut_or_chosen_by_are_refused(self):
        for words, function in (
                ("the output in evaluation of 64 rows is [16, 3], not [64, 3]",
                 lambda fc, x: torch.cat([part - part.mean(0) for part in fc(x).split(16)])),
                ("in evaluation of 64 rows differs",
                 lambda fc, x: fc(x) + x[:min(len(x), 8)].mean()),
                ("in evaluation of 513 rows differs",
                 lambda fc, x: fc(x) if x.shape[0] < 500 else fc(x).relu())):
            with self.subTest(words):
                self.refuse(By(function), "another result than the module", words)

    def test_too_large_ones_are_not_tried(self):
        module = By(lambda fc, x: fc(x) + x.repeat(1, 1 << 18).mean(1, True))
        _, said = self.export(module, torch.rand(4))
        graph, _ = graph_files.read("model.graph")
        self.assertLess(graph["compared"], 64)
        self.assertGreater(graph["compared"], 5)
        self.assertIn(f"in batches of up to {graph['compared']}\n", said)

    def test_that_fail_are_told_in_one_line(self):
        def forward(fc, x):
            if len(x) > 100:
                raise ValueError("no more than 100\nplease")
            return fc(x)

        self.refuse(By(forward), "fails on a batch of 129: ValueError: no more than 100")


class ModesTest(Exporting):
    def test_parts_in_evaluation_mode_stay_so(self):
        module = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3)).train()
        module[0].eval()
        module[1].eval()
        _, said = self.export(module, torch.rand(4))
        self.assertIn("in evaluation mode stay so in training: 0, 1; hint", said)
        self.export(module, torch.rand(4))
        graph, tensors = graph_files.read("model.graph")
        self.assertNotIn("hanse::keep", str(graph["graphs"]["training"]))
        x = torch.rand(8, 4) + 5
        given = graph_files.replay(graph, "training", tensors, x, torch.ones(8, 3))
        torch.testing.assert_close(given["output"], module.eval()(x).detach())

    def test_a_module_in_evaluation_mode_trains_as_a_whole(self):
        module, sample, _ = zoo.ZOO["mlp-dropout"]()
        _, said = self.export(module.eval(), sample)
        self.assertNotIn("evaluation mode", said)
        self.assertIn("hanse::keep", str(graph_files.read("model.graph")[0]["graphs"]["training"]))

    def test_evaluation_that_draws_is_refused(self):
        self.refuse(By(lambda fc, x: nn.functional.dropout(fc(x), 0.5)),
                    "random numbers by aten::bernoulli_ (By, test_exporting.py:",
                    "in evaluation, too")

    def test_parameters_that_forward_changes_are_refused(self):
        self.refuse(nn.Sequential(nn.Embedding(9, 4, max_norm=1.0), nn.Flatten(),
                                  nn.Linear(12, 3)),
                    "changes its parameter 0.weight by aten::embedding_renorm_ (0 (Embedding))",
                    sample=torch.tensor([1, 2, 3]))

    def test_cumulative_means_are_refused(self):
        module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None))
        self.refuse(module, "1 (BatchNorm1d) has a cumulative mean (momentum=None)")
        module[1].eval()   # it counts nothing
        self.export(module, torch.rand(4))

    def test_an_activation_at_the_end_is_told(self):
        for said, last in (("softmax", nn.Softmax(1)), ("log_softmax", nn.LogSoftmax(1)),
                           ("sigmoid", nn.Sigmoid()), ("", nn.Tanh())):
            with self.subTest(said):
                module = nn.Sequential(nn.Linear(4, 3), last, nn.Unflatten(1, (3, 1)))
                _, text = self.export(module, torch.rand(4),
                                      call=lambda m, x: {"logits": m(x)[:, :, 0]})
                self.assertEqual(f"ends with {said}, and" in text, said != "", text)


class ViewsTest(unittest.TestCase):
    def test_of_strides(self):
        """Slices, steps, places, transposes, views across axes, axes of one; entries in any order
        that is none of these are refused."""
        base = torch.arange(60).reshape(3, 4, 5)
        for view in (base[:, 1:3], base[1:, :, ::2], base[:, 2], base[2, 1:, 3], base.transpose(0, 2),
                     base.permute(1, 2, 0)[:, 1:4], base.view(3, 20)[:, 2:9], base.view(12, 5)[3:11],
                     base.view(3, 2, 2, 5)[:, 1, :, 1::3], base[:, 1:2].unsqueeze(3),
                     base.view(-1)[7:31:3], base[1, 2, 3], base):
            calls = graph_views.of_strides(base.shape, view.shape, view.stride(),
                                           view.storage_offset())
            found = base
            for name, *arguments in calls:
                op, _, overload = name.partition(".")
                found = getattr(getattr(torch.ops.aten, op), overload or "default")(
                    found, *arguments)
            self.assertTrue(torch.equal(found, view), calls)
        for shape, strides, offset in (((3, 2, 2), (20, 1, 1), 0), ((3, 3), (20, 0), 0),
                                       ((3, 6), (20, 4), 0), ((2, 20), (31, 1), 0)):
            self.assertIsNone(graph_views.of_strides(base.shape, shape, strides, offset))


class TorchScriptTest(Exporting):
    """Files of torch.jit, of which graphs are made."""

    def test_scripts_become_graphs_of_what_they_compute(self):
        for name in ("lenet", "cnn", "encoder", "mlp-dropout"):
            with self.subTest(name):
                module, sample, _ = zoo.ZOO[name]()
                torch.jit.script(module).save("model.pt")
                keys, _ = self.export("model.pt", sample)
                self.assertEqual(keys, {"model.kind": "graph", "model.path": "model.graph"})
                graph, tensors = graph_files.read("model.graph")
                for key, value in module.named_parameters():
                    self.assertTrue(torch.equal(tensors[key], value), key)
                x = torch.stack([sample.float(), sample.float().flip(0)])
                torch.testing.assert_close(graph_files.replay(graph, "evaluation", tensors, x),
                                           module.eval()(x.to(sample.dtype)).detach())
                self.assertEqual("hanse::keep" in str(graph["graphs"]["training"]),
                                 any("Dropout" in type(part).__name__ for part in module.modules()))

    def test_traces_become_graphs(self):
        """Their convolutions have an operator of their own."""
        module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
        torch.jit.trace(module, torch.rand(2, 1, 4, 4)).save("model.pt")
        self.export("model.pt", torch.rand(1, 4, 4))
        graph, tensors = graph_files.read("model.graph")
        x = torch.rand(3, 1, 4, 4)
        torch.testing.assert_close(graph_files.replay(graph, "evaluation", tensors, x),
                                   module(x).detach())

    def test_a_trace_of_one_mode_is_told(self):
        for module, told in ((nn.Dropout(), True), (nn.BatchNorm1d(3), True), (nn.ReLU(), False)):
            network = nn.Sequential(nn.Linear(4, 3), module).eval()
            torch.jit.trace(network, torch.rand(2, 4)).save("model.pt")
            self.assertEqual("a trace of one mode" in self.export("model.pt", torch.rand(4))[1], told)
        torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.Dropout())).save("model.pt")
        self.assertNotIn("a trace of one mode", self.export("model.pt", torch.rand(4))[1])

    def test_what_cannot_be_one_is_told_in_one_line(self):
        torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None))).save("a.pt")
        self.refuse("a.pt", "1 (BatchNorm1d) has a cumulative mean (momentum=None)")
        torch.jit.script(zoo.ZOO["lstm"]()[0]).save("b.pt")
        self.refuse("b.pt", "cannot be traced", "export the module of which the TorchScript was made",
                    sample=zoo.ZOO["lstm"]()[1])
        self.refuse("none.pt", "no such file: none.pt")
        pathlib.Path("c.pt").write_text("no archive")
        self.refuse("c.pt", "c.pt is no TorchScript file", "give the module itself")


if __name__ == "__main__":
    unittest.main()
