#!/usr/bin/env python3
"""Steps of SGD of the modules of tests/scripts/zoo.py, as one writes them with PyTorch.

  PYTHON tests/bench/module_steps.py FOLDER

One thread. Prints a JSON object: torch's version, and the names of modules. Then it answers lines:

  NAME          writes NAME as a graph, and the samples of one client, and prints the keys of a job
                that trains it, and its steps a round
  step          prints the seconds of a step of eager PyTorch, the mean of a round
"""
import contextlib
import json
import math
import pathlib
import sys
import time

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

    def __init__(self, name, folder):
        torch.manual_seed(0)
        self.module, sample, more = {**zoo.ZOO, **zoo.RECIPES}[name]()
        self.contract = exporting._contract(torch, sample, more.get("call"), more.get("axis"))
        with contextlib.redirect_stdout(sys.stderr):
            self.keys = hanse.export(self.module, sample, folder / "graph", **more)
        self.module.train()
        trained = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=LR)
        rows = self.contract.rows(BATCH * BATCHES)
        shape = self.contract.output = list(self.contract.forward(self.module, rows[:2]).shape[1:])
        generator = torch.Generator().manual_seed(1)
        if shape == [1]:
            labels = torch.rand(len(rows), generator=generator)
            self.loss, shaped = nn.functional.mse_loss, lambda y: y.unsqueeze(1)
        else:
            labels = torch.randint(shape[-1], (len(rows), *shape[:-1]), generator=generator)
            self.loss, shaped = nn.functional.cross_entropy, lambda y: y.flatten()
        self.batches = [(self.contract.inputs(x), shaped(y))
                        for x, y in zip(rows.split(BATCH), labels.split(BATCH))]
        (folder / "samples.h5").unlink(missing_ok=True)
        hanse.write_federation(folder / "samples.h5", {"one": (rows.numpy(), labels.numpy())},
                               classes=None if shape == [1] else shape[-1])
        self.run(1)
        self.epochs = max(LEAST_EPOCHS,
                          round(ROUND_S / BATCHES / min(self.run(1) for _ in range(3))))

    def step(self, inputs, labels):
        self.optimizer.zero_grad()
        keywords = dict(zip(self.contract.names, inputs)) if self.contract.names else {}
        call = self.contract.call or (lambda module, *a, **k: module(*a, **k))
        output = exporting._tensor(call(self.module, *([] if keywords else inputs), **keywords))
        output = self.contract._shaped(output, BATCH)
        if output.dim() == 3:
            output = output.flatten(0, 1)
        self.loss(output, labels).backward()
        self.optimizer.step()

    def run(self, epochs):
        """Seconds of a step."""
        begin = time.perf_counter()
        for _ in range(epochs):
            for inputs, labels in self.batches:
                self.step(inputs, labels)
        return (time.perf_counter() - begin) / epochs / BATCHES

    def told(self, folder):
        keys = {"data.kind": "hanse", "data.path": str(folder / "samples.h5"),
                "client.epochs": self.epochs, "client.batch": BATCH, "client.lr": LR,
                "model.loss": "squared-error" if self.contract.output == [1] else "cross-entropy"}
        return {"keys": {**keys, **self.keys}, "steps": self.epochs * BATCHES}


def has_packages(name):
    try:
        return "/" not in name or bool(__import__(name.split("/")[0]))
    except ImportError:
        return False


def main(folder):
    torch.set_num_threads(1)
    names = [name for name in {**zoo.ZOO, **zoo.RECIPES} if has_packages(name)]
    answer({"torch": torch.__version__, "names": names})
    steps = None
    for line in sys.stdin:
        if line.strip() == "step":
            answer(steps.run(steps.epochs))
            continue
        try:
            steps = Steps(line.strip(), folder)
            answer(steps.told(folder))
        except Exception as error:   # the module's own code may raise anything
            answer({"failed": f"{type(error).__name__}: {error}"})


def answer(value):
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
