"""Modules of the zoo trained by the program, beside fedavg.py's training of the same module."""
import csv
import dataclasses

import fedavg
import numpy
import torch

import hanse

SIZES = (12, 16, 20)   # samples of the clients
LOSSES = {"regression": "squared-error", "autoencoder": "squared-error",
          "recommender": "binary-logistic"}   # cross-entropy: all others
RATES = {   # 0.05: all others
    "torchvision/resnet18-group-norm": 1e-3, "torchvision/mobilenet_v3_small": 1e-3,
    **dict.fromkeys(("torchvision/resnet18", "torchvision/resnet50", "torchvision/efficientnet_b0",
                     "torchvision/densenet121", "torchvision/shufflenet_v2_x0_5",
                     "torchvision/lraspp_mobilenet_v3_large", "timm/regnety_002",
                     "timm/mobilenetv4_conv_small"), 1e-5)}   # chaotic at larger ones
NUDGE = 1e-7
APART = 3   # times what the nudge moves, a file's training may be from the module's,
TURNED = 1e-4   # and what one ReLU moves whose input rounding turns from below to above zero


class Task:
    """What a module of the zoo learns: `clients`, pairs (x, y) of tensors, made up of its sample."""

    def __init__(self, name, module, sample, call=None):
        self.module, self.call, self.kind = module, call, LOSSES.get(name, "cross-entropy")
        self.names = list(sample) if isinstance(sample, dict) else None
        self.parts = list(sample.values()) if self.names else (
            list(sample) if isinstance(sample, tuple) else [sample])
        generator = numpy.random.default_rng(3)
        samples = [self._samples(size, generator) for size in SIZES]
        with fedavg.kept_as_it_is(module), torch.no_grad():
            module.eval()
            self.output = list(self.forward(samples[0]).shape[1:])
        self.clients = [(x, self._labels(name, x, generator)) for x in samples]

    def _samples(self, count, generator):
        """float32 [count, sample ...]; several inputs as one vector."""
        columns = []
        for part in self.parts:
            share = generator.random((count, *part.shape))
            values = share * (part.numpy() + 0.1) if part.is_floating_point() else (
                numpy.floor(share * (part.numpy() + 1)))
            columns.append(torch.from_numpy(values.astype(numpy.float32)))
        return columns[0] if len(columns) == 1 else torch.cat([c.flatten(1) for c in columns], 1)

    def _labels(self, name, x, generator):
        if name == "autoencoder":
            return x
        if self.kind == "squared-error":
            return x.mean(1) + torch.from_numpy(generator.normal(size=len(x))).float()
        if self.kind == "binary-logistic":
            return torch.from_numpy(generator.integers(2, size=len(x)))
        labels = torch.from_numpy(generator.integers(self.output[-1],
                                                     size=(len(x), *self.output[:-1])))
        if labels.dim() > 1:
            labels[:, -3:] = -1   # positions without a label
        return labels

    def forward(self, x):
        """The module's outputs [n, outputs] or [n, positions, outputs]."""
        columns = x.flatten(1).split([part.numel() for part in self.parts], 1)
        inputs = [values.reshape(len(x), *part.shape).to(part.dtype)
                  for part, values in zip(self.parts, columns)]
        call = self.call or (lambda module, *given, **named: module(*given, **named))
        z = call(self.module, **dict(zip(self.names, inputs))) if self.names else call(
            self.module, *inputs)
        if isinstance(z, tuple):
            z = z[0]
        if not isinstance(z, torch.Tensor):
            z = z["logits"] if "logits" in z else z["out"]
        if z.dim() == 4:   # [n, outputs, height, width]
            z = z.flatten(2).transpose(1, 2)
        return z.unsqueeze(1) if z.dim() == 1 else z

    def reference(self, lr, **more):
        """The tensors and the losses of plain torch."""
        return fedavg.train(self.module, self.forward, self.clients, self.kind, lr, **more)

    def run(self, keys, lr, folder, **changes):
        """The same of the program, by the job's keys that hanse.export() has returned."""
        classes = {"squared-error": None, "binary-logistic": 2}.get(self.kind, self.output[-1])
        data = hanse.write_federation(folder / "data.h5", {
            f"client {number}": (x.numpy(), y.numpy())
            for number, (x, y) in enumerate(self.clients)}, classes=classes)
        run = hanse.run({
            "data.kind": "hanse", "data.path": data, "federation.partition": "auto",
            "sampler.kind": "full", "model.loss": self.kind, "client.batch": 8, "client.lr": lr,
            "run.rounds": 3, "run.state-dict": True, "evaluate.every": 1, "run.out": folder / "run",
            **keys, **changes}, progress=False)
        with open(run.path / "evaluations.csv", newline="") as file:
            losses = [float(row["loss_weighted"]) for row in csv.DictReader(file)]
        return torch.load(run.path / "state_dict.pt"), losses


@dataclasses.dataclass
class Comparison:
    """The largest differences of the tensors and of the losses: the program's from plain torch, and
    plain torch's from itself, when its start is moved by NUDGE. `share`, `own_share`: the length of
    the difference in the trained parameters, by how far training has moved them."""
    lr: float
    tensors: float
    losses: float
    own_tensors: float
    own_losses: float
    share: float
    own_share: float

    @property
    def agrees(self):
        return (self.tensors <= APART * self.own_tensors + TURNED and
                self.losses <= APART * self.own_losses + TURNED and
                self.share <= APART * self.own_share + 0.01)


def differences(found, expected):
    """The largest of the tensors, and of the losses."""
    tensors = [(found[0][name] - value).abs().max().item() if value.numel() else 0.0
               for name, value in expected[0].items()]
    return max(tensors), max(abs(a - b) for a, b in zip(found[1], expected[1]))


def distance(module, found, expected):
    """Euclidean, in the parameters that train."""
    return sum((found[name] - expected[name]).double().square().sum().item()
               for name, value in module.named_parameters() if value.requires_grad) ** 0.5


def compare(name, task, keys, folder):
    """Trains by the rate of a name."""
    lr = RATES.get(name, 0.05)
    expected = task.reference(lr)
    own = task.reference(lr, nudge=NUDGE)
    found = task.run(keys, lr, folder)
    moved = distance(task.module, expected[0], task.module.state_dict())
    shares = [distance(task.module, other[0], expected[0]) / moved for other in (found, own)]
    return Comparison(lr, *differences(found, expected), *differences(own, expected), *shares)
