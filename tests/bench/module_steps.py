#!/usr/bin/env python3
"""Steps of SGD of the modules of tests/scripts/zoo.py, as one writes them with PyTorch.

  PYTHON tests/bench/module_steps.py FOLDER [DEVICE]

One thread, on the CPU or DEVICE. Prints a JSON object: torch's version, and the names of modules. Then
it answers lines:

  NAME          writes NAME as a graph, and the samples of one client, and prints the keys of a job
                that trains it, and its steps a round
  step          prints the seconds of a step of eager PyTorch, the mean of a round
  compiled      the same by torch.compile
  recorded      the same by one CUDA graph
"""
import contextlib
import json
import math
import pathlib
import sys
import time

import numpy  # noqa: F401  by which hanse.export writes
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts" / "python"), str(ROOT / "tests" / "scripts")]
import hanse  # noqa: E402
import zoo  # noqa: E402
from hanse import exporting  # noqa: E402

BATCH, BATCHES = 8, 4
LR = 1e-4   # whose steps leave a module as it is, but for rounding
ROUND_S, LEAST_EPOCHS = 0.15, 4  # of a round, whose own cost the steps share


class Steps:
    """A module in training: `x` and `y` are its batches, `steps` the number of a round."""

    def __init__(self, name, folder, device, clients):
        torch.manual_seed(0)
        self.module, sample, more = {**zoo.ZOO, **zoo.RECIPES}[name]()
        self.contract = exporting._contract(torch, sample, more.get("call"), more.get("axis"))
        with contextlib.redirect_stdout(sys.stderr):
            self.keys = hanse.export(self.module, sample, folder / "graph", **more)
        self.device = torch.device(device)
        self.module.to(device).train()
        trained = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=LR)
        rows = self.contract.rows(BATCH * BATCHES)
        shape = list(self.contract.forward(self.module, rows[:2].to(device)).shape[1:])
        self.contract.output = shape
        generator = torch.Generator().manual_seed(1)
        if shape == [1]:
            labels = torch.rand(len(rows), generator=generator)
            self.loss, shaped = nn.functional.mse_loss, lambda y: y.unsqueeze(1)
        else:
            labels = torch.randint(shape[-1], (len(rows), *shape[:-1]), generator=generator)
            self.loss, shaped = nn.functional.cross_entropy, lambda y: y.flatten()
        self.batches = [(self.contract.inputs(x.to(device)), shaped(y.to(device)))
                        for x, y in zip(rows.split(BATCH), labels.split(BATCH))]
        self.data = samples(folder / "samples.h5", rows, labels, clients,
                            classes=None if shape == [1] else shape[-1])
        self.run(1)
        self.epochs = max(LEAST_EPOCHS,
                          round(ROUND_S / BATCHES / min(self.run(1) for _ in range(3))))

    def step(self, inputs, labels):
        self.optimizer.zero_grad()
        self.find(inputs, labels)
        self.optimizer.step()

    def find(self, inputs, labels):
        keywords = dict(zip(self.contract.names, inputs)) if self.contract.names else {}
        call = self.contract.call or (lambda module, *a, **k: module(*a, **k))
        output = exporting._tensor(call(self.module, *([] if keywords else inputs), **keywords))
        output = self.contract._shaped(output, BATCH)
        if output.dim() == 3:
            output = output.flatten(0, 1)
        self.loss(output, labels).backward()

    def run(self, epochs, step=None):
        """Seconds of a step."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(epochs):
            for inputs, labels in self.batches:
                (step or self.step)(inputs, labels)
        self.wait()
        return (time.perf_counter() - begin) / epochs / BATCHES

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def compiled(self):
        """Seconds of a step whose module is compiled; the first batches compile it."""
        eager, self.module = self.module, torch.compile(self.module)
        try:
            self.run(1)
            return self.run(self.epochs)
        finally:
            self.module = eager

    def recorded(self):
        """Seconds of a step that is one CUDA graph, into whose memory each batch is copied."""
        inputs, labels = [x.clone() for x in self.batches[0][0]], self.batches[0][1].clone()
        aside = torch.cuda.Stream()
        with torch.cuda.stream(aside):
            for _ in range(3):
                self.step(inputs, labels)
        torch.cuda.current_stream().wait_stream(aside)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.find(inputs, labels)
            self.optimizer.step()

        def step(new_inputs, new_labels):
            for old, new in zip(inputs, new_inputs):
                old.copy_(new)
            labels.copy_(new_labels)
            graph.replay()

        return self.run(self.epochs, step)

    def told(self):
        keys = {**self.data, "client.epochs": self.epochs, "client.batch": BATCH, "client.lr": LR,
                "model.loss": "squared-error" if self.contract.output == [1] else "cross-entropy"}
        return {"keys": {**keys, **self.keys}, "steps": self.epochs * BATCHES}


def samples(path, rows, labels, clients, classes):
    """The keys of clients with the same samples, of whom one takes part; without h5py of as many images
    that the program draws."""
    path.unlink(missing_ok=True)
    drawn = {"sampler.per-round": 1}
    try:
        hanse.write_federation(path, {f"client-{i}": (rows.numpy(), labels.numpy())
                                      for i in range(clients)}, classes=classes)
    except ImportError:
        return {"data.kind": "random", "data.shape": ",".join(map(str, rows.shape[1:])),
                "data.classes": classes, "federation.clients": clients,
                "federation.samples": clients * len(rows), **drawn}
    return {"data.kind": "hanse", "data.path": str(path), **drawn}


def has_packages(name):
    try:
        return "/" not in name or bool(__import__(name.split("/")[0]))
    except ImportError:
        return False


def main(folder, device="cpu", clients="1"):
    torch.set_num_threads(1)
    names = [name for name in {**zoo.ZOO, **zoo.RECIPES} if has_packages(name)]
    answer({"torch": torch.__version__, "names": names})
    steps = None
    for line in sys.stdin:
        ways = {"step": lambda: steps.run(steps.epochs), "compiled": lambda: steps.compiled(),
                "recorded": lambda: steps.recorded()}
        try:
            if measure := ways.get(line.strip()):
                answer(measure())
                continue
            steps = Steps(line.strip(), folder, device, int(clients))
            answer(steps.told())
        except Exception as error:   # the module's own code may raise anything
            answer({"failed": f"{type(error).__name__}: {error}"})


def answer(value):
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
