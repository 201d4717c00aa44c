"""Networks as data (model.kind = graph) in the real program."""

import json
import os
import struct

import h5py
import numpy

import harness

PIXELS, CLASSES = 72, 5
GRAPH = {"run.rounds": 4, "evaluate.every": 2, "data.shape": "1,9,8", "model.kind": "graph",
         "federation.clients": 5, "sampler.per-round": 3, "client.batch": 8,
         "data.test-fraction": 0}


class Graph:
    """A network, written by hand: batch norm if asked for, dropout, a layer. `integer` is a type that
    samples become before, `last` an operator behind all, `compared` a note of its writer, `sample`
    the shape of a sample."""

    def __init__(self, norm=True, trains=True, integer=None, last=None, compared=None,
                 sample=(1, 9, 8)):
        self.sample = sample
        spread = numpy.sin(numpy.arange(CLASSES * PIXELS, dtype="f4") * 0.7) * 0.3
        self.tensors = {"fc.weight": spread.reshape(CLASSES, PIXELS),
                        "fc.bias": numpy.linspace(-0.1, 0.1, CLASSES, dtype="f4")}
        self.norm, self.integer, self.last, self.compared = norm, integer, last, compared
        self.buffers = []
        if norm:
            self.buffers = ["bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]
            self.tensors["bn.running_mean"] = numpy.zeros(PIXELS, "f4")
            self.tensors["bn.running_var"] = numpy.ones(PIXELS, "f4")
            self.tensors["bn.num_batches_tracked"] = numpy.zeros((), "i8")
        self.parameters = [{"name": "fc.weight", "tensor": "fc.weight", "trains": trains},
                           {"name": "fc.bias", "tensor": "fc.bias", "trains": True}]
        self.x = 2 + len(self.buffers)
        self.graphs = {"evaluation": self.evaluation(), "training": self.training(trains)}

    def add(self, op, *args, overload="", **kwargs):
        self.nodes.append({"op": op, "overload": overload, "args": list(args), "kwargs": kwargs})
        return {"v": self.first + len(self.nodes) - 1}

    def layers(self, training):
        """Values: weight 0, bias 1, buffers, x, in training delta."""
        self.nodes, self.first = [], self.x + (2 if training else 1)
        h = self.add("aten::view", {"v": self.x}, [{"rows": [1, 0]}, PIXELS])
        moved = []
        if self.integer:
            h = self.add("aten::_to_copy", h, dtype={"dtype": self.integer})
            h = self.add("aten::_to_copy", h, dtype={"dtype": "float32"})
        if self.norm:
            mean, variance = {"v": 2}, {"v": 3}
            if training:
                mean, variance = self.add("aten::clone", mean), self.add("aten::clone", variance)
                moved = [mean["v"], variance["v"], None]
            h = self.add("aten::native_batch_norm", h, None, None, mean, variance, training, 0.1,
                         1e-5)
            h = self.add("item", h, 0)
        if training:
            keep = self.add("hanse::keep", [{"rows": [1, 0]}, PIXELS], 0.75, "float")
            h = self.add("aten::mul", h, keep, overload="Tensor")
        t = self.add("aten::t", {"v": 0})
        return h, self.add("aten::addmm", {"v": 1}, h, t), moved

    def evaluation(self):
        _, output, _ = self.layers(False)
        if self.last:
            output = self.add(*self.last[:1], output, *self.last[1:])
        return {"nodes": self.nodes, "outputs": output["v"]}

    def training(self, trains):
        h, output, moved = self.layers(True)
        delta = {"v": self.x + 1}
        weight = self.add("aten::mm", self.add("aten::t", delta), h)
        bias = self.add("aten::sum", delta, [0], overload="dim_IntList")
        gradients = [weight["v"], bias["v"]] if trains else [bias["v"]]
        return {"nodes": self.nodes,
                "outputs": {"output": output["v"], "gradients": gradients, "buffers": moved}}

    def bytes(self):
        told = {} if self.compared is None else {"compared": self.compared}
        note = {"format": 1, "writer": "hand", **told, "sample": list(self.sample), "output": [CLASSES],
                "parameters": self.parameters,
                "buffers": [{"name": name, "tensor": name} for name in self.buffers],
                "constants": [], "graphs": self.graphs}
        header, data = {"__metadata__": {"hanse.graph": json.dumps(note)}}, b""
        for name, values in self.tensors.items():
            begin = len(data)
            data += values.tobytes()
            header[name] = {"dtype": "F32" if values.dtype == "f4" else "I64",
                            "shape": list(values.shape), "data_offsets": [begin, len(data)]}
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data


def tensors(run):
    with h5py.File(os.path.join(run, "model.h5"), "r") as file:
        return {name: file[name][()] for name in file}


class GraphCase(harness.Case):
    def keys(self, graph=None, **changes):
        return {**GRAPH, "model.path": self.write("net.graph", (graph or Graph()).bytes()),
                **changes}


class SameBits(GraphCase):
    """Ranks of all kinds for what differs between ranks, a state and buffers; for the rest a run whose
    halves have two ranks and three."""

    def compare_halves(self, keys):
        self.compare_places(keys, places=())

    def test_dropout_and_batch_norm(self):
        self.compare_places(self.keys())

    def test_adam_and_unbiased_draws(self):
        self.compare_halves(self.keys(**{
            "server.optimizer": "adam", "server.lr": 0.05, "sampler.kind": "weighted",
            "client.momentum": 0.5, "aggregator.estimator": "unbiased"}))

    def test_scaffold(self):
        self.compare_places(self.keys(**{"client.update": "scaffold", "server.lr": 0.5}))

    def test_adapters(self):
        self.compare_halves(self.keys(**{"client.lora": 2, "client.lora-layers": "fc.weight"}))

    def compare_narrow_base(self, path, formed):
        """Half the memory, and the bits of a run that starts from the rounded file."""
        keys = self.keys(Graph(norm=False), **{
            "client.lora": 2, "client.lora-path": path, "model.base-precision": "bfloat16"})
        self.compare_halves(keys)
        said = self.start("run", self.job({**keys, "run.out": self.path(path)})).wait().stderr()
        self.assertIn("365 frozen parameters, which a host holds once in bfloat16", said)
        self.assertEqual(path == "split", "1 matrix, split" in said)
        plan = json.loads(self.hanse("plan", self.job(keys), "--json").stdout())
        self.assertEqual(plan["frozen_bytes"], 2 * 365)
        self.assertEqual(plan["formed_bytes"], 4 * formed)
        rounded = Graph(norm=False)
        for name, values in rounded.tensors.items():
            bits = values.view("u4")
            rounded.tensors[name] = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16).view("f4")
        wide = self.keys(rounded, **{"client.lora": 2, "client.lora-path": path})
        self.assert_digest(self.train(self.job(wide), path + "-wide"), self.path(path))

    def test_a_narrow_base_split(self):
        self.compare_narrow_base("split", 0)

    def test_a_narrow_base_merged(self):
        self.compare_narrow_base("merged", CLASSES * PIXELS)

    def test_personal_layers(self):
        self.compare_halves(self.keys(Graph(norm=False), **{"client.personal": "fc.bias"}))

    def test_a_rule_by_layers(self):
        self.compare_halves(self.keys(Graph(norm=False), **{"aggregator.kind": "fedlf"}))

    def test_a_rule_of_gradients(self):
        self.compare_halves(self.keys(Graph(norm=False), **{"aggregator.kind": "dqn-fed"}))


class Parts(GraphCase):
    def test_frozen_tensors_stay_and_are_not_sent(self):
        graph = Graph(trains=False)
        run = self.train(self.job(self.keys(graph)), "run", 3)
        found = tensors(run)
        numpy.testing.assert_array_equal(found["fc.weight"], graph.tensors["fc.weight"])
        for name in ("fc.bias", "bn.running_mean"):
            self.assertGreater(abs(found[name] - graph.tensors[name]).max(), 0, name)

    def test_what_is_chosen_is_trained(self):
        graph = Graph()
        found = tensors(self.train(self.job(self.keys(graph, **{"client.train": "*.bias"})), "run"))
        numpy.testing.assert_array_equal(found["fc.weight"], graph.tensors["fc.weight"])
        self.assertGreater(abs(found["fc.bias"] - graph.tensors["fc.bias"]).max(), 0)


class Clusters(GraphCase):
    def test_buffers_have_no_copies(self):
        """Where all take one copy, and where two are taken while nothing moves but buffers."""
        plain = self.train(self.job(self.keys()), "plain")
        still = self.keys(**{"client.lr": 1e-30})
        alone = self.train(self.job(still, "still.cfg"), "alone")
        for name, keys, expected, copies in (("one", self.keys(), plain, [0] * 5),
                                             ("two", still, alone, [0, 1, 0, 1, 1])):
            path = self.write(f"{name}.csv", "client,cluster\n" + "".join(
                f"{client},{copy}\n" for client, copy in enumerate(copies)))
            run = self.train(self.job({**keys, "client.clustered": "*", "federation.models": 2,
                                       "client.cluster-by": "file",
                                       "federation.clusters-path": path}, f"{name}.cfg"), name, 2)
            for tensor in ("fc.weight", "fc.bias", "bn.running_mean", "bn.running_var"):
                numpy.testing.assert_array_equal(tensors(run)[tensor], tensors(expected)[tensor])
            self.assertIn("cluster1.fc.weight", tensors(run))


class Told(GraphCase):
    """What is odd but allowed is said in a line at the start."""

    def said(self, graph, **changes):
        process = self.hanse("run", self.job(self.keys(graph)), f"--run.out={self.path('run')}",
                             "--run.overwrite=true",
                             *[f"--{key}={value}" for key, value in changes.items()])
        return process.stderr()

    def test_an_activation_at_the_end(self):
        softmax = Graph(last=("aten::_softmax", 1, False))
        self.assertIn("warning: the network ends with softmax, and model.loss = cross-entropy",
                      self.said(softmax))
        self.assertNotIn("ends with", self.said(Graph()))

    def test_batches_that_no_export_has_compared(self):
        self.assertIn("warning: batches have up to 20 rows, and hanse.export has compared the "
                      "network of model.path with its module in up to 5",
                      self.said(Graph(compared=5)))
        for compared in (None, 64):
            self.assertNotIn("compared", self.said(Graph(compared=compared)))


class WholeNumbers(GraphCase):
    def refused(self, graph, *parts, **changes):
        for ranks in (None, 2):
            process = self.hanse("run", self.job(self.keys(graph, **changes)),
                                 f"--run.out={self.path('no')}", ranks=ranks, expect=None)
            self.assert_one_error(process, 2, *parts)

    def test_fractions_and_what_is_beyond_the_type_are_refused(self):
        self.refused(Graph(integer="uint8"), "client ", "no whole number from 0 to 255, and the "
                     "network converts it to uint8", "hint: export the module with a float sample")
        tokens = {"data.shape": PIXELS, "data.tokens": 300, "data.classes": CLASSES}
        self.refused(Graph(integer="int8", sample=[PIXELS]), "no whole number from -128 to 127", **tokens)

    def test_whole_numbers_are_trained(self):
        tokens = {"data.shape": PIXELS, "data.tokens": 11, "data.classes": CLASSES}
        self.train(self.job(self.keys(Graph(integer="uint8", sample=[PIXELS]), **tokens)), "run")


class BadFiles(GraphCase):
    def refused(self, data, *parts, **changes):
        job = self.job({**GRAPH, "model.path": self.write("bad.graph", data), **changes})
        for ranks in (None, 2):
            process = self.hanse("run", job, f"--run.out={self.path('bad')}", ranks=ranks,
                                 expect=None)
            self.assert_one_error(process, 2, *parts)

    def test_that_are_damaged(self):
        good = Graph().bytes()
        self.refused(good[:300], "no safetensors", "bad.graph")
        self.refused(good.replace(b'hanse.graph', b'hanse.grape'), "no note hanse.graph")

    def test_that_are_hostile(self):
        good = Graph().bytes()
        self.refused(good.replace(b"aten::mul", b"aten::set"), "aten::set",
                     "is not in this program's list of operators")
        graph = Graph()
        graph.graphs["training"]["nodes"][-1]["op"] = "aten::zero_"
        graph.graphs["training"]["nodes"][-1].update(overload="", args=[{"v": 0}])
        self.refused(graph.bytes(), "aten::zero_", "writes into value 0")

    def test_of_operators_that_this_libtorch_lacks(self):
        graph = Graph()
        graph.graphs["training"]["nodes"][-1]["overload"] = "of_tomorrow"
        self.refused(graph.bytes(), "aten::sum.of_tomorrow: LibTorch ", "has no such operator",
                     "HANSE_TORCH")

    def test_that_trust_kernels(self):
        """What LibTorch does not check ends in a line, not in a signal."""
        graph = Graph()
        graph.graphs["training"]["nodes"][-1].update(kwargs={"dtype": 9})
        self.refused(graph.bytes(), "aten::sum.dim_IntList: an argument is no ScalarType")
        graph = Graph()
        graph.graphs["evaluation"]["nodes"][0] = {
            "op": "aten::reflection_pad1d", "args": [{"v": graph.x}, []]}
        self.refused(graph.bytes(), "aten::reflection_pad1d: a list has 0 numbers, not 2")

    def test_of_other_data(self):
        self.refused(Graph().bytes(), "takes samples [1, 9, 8]", "has [1, 5, 5]",
                     **{"data.shape": "1,5,5"})
        self.refused(Graph().bytes(), "output for a sample is [5], not [7]", **{"data.classes": 7})

    def test_have_no_hessian(self):
        for update in ("fednew", "fednl"):
            self.refused(Graph(norm=False).bytes(), f"{update} needs the Hessian of the loss, and a "
                         "graph has first derivatives alone", "model.kind = linear, mlp",
                         **{"client.update": update, "sampler.kind": "full",
                            "sampler.per-round": None})

    def test_that_changed_before_the_resume(self):
        run = self.train(self.job(self.keys()), "run", changes={"run.rounds": 2})
        self.write("net.graph", Graph(norm=False).bytes())
        for ranks in (None, 2):
            process = self.hanse("resume", run, "--run.rounds=4", ranks=ranks, expect=None)
            self.assert_one_error(process, 2, "model.path", "changed since the checkpoint")


@harness.measures_memory
class Memory(GraphCase):
    def test_of_a_pass_is_planned(self):
        """Two tensors of 8 rows live at once: what the allocator counts, and the system, too."""
        wide = 40000
        graph = Graph(norm=False)
        graph.nodes, graph.first = graph.graphs["training"]["nodes"], graph.x + 2
        repeated = graph.add("aten::repeat", {"v": graph.x}, [1, 1, 1, wide])
        squared = graph.add("aten::mul", repeated, repeated, overload="Tensor")
        nothing = graph.add("aten::mul", graph.add("aten::sum", squared), 0, overload="Scalar")
        outputs = graph.graphs["training"]["outputs"]
        bias = graph.add("aten::add", {"v": outputs["gradients"][1]}, nothing, overload="Tensor")
        outputs["gradients"][1] = bias["v"]
        job = self.job(self.keys(graph, **{"client.steps": 1}))
        plan = json.loads(self.hanse("plan", job, "--json").stdout())
        held = 2 * 4 * 8 * PIXELS * wide
        self.assertAlmostEqual(plan["pass_bytes"], held, delta=1e6)
        self.assertIn("tensors of the network's passes", self.hanse("plan", job).stdout())
        peak = harness.summary(self.train(job, "run"))["peak_memory_bytes"]
        self.assertAlmostEqual(plan["peak_bytes"], peak, delta=40e6, msg=f"{plan}")
        # Beside LibTorch's own pages, which the first call of it takes.
        self.assertAlmostEqual(plan["rank_bytes"], peak, delta=100e6, msg=f"{plan}")


if __name__ == "__main__":
    harness.main()
