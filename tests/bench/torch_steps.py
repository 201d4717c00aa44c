#!/usr/bin/env python3
"""Milliseconds of a step of SGD of the benchmarks' models as one writes it with PyTorch.

  PYTHON tests/bench/torch_steps.py [--compile] [--autocast] [--vmap=N] [--device=cuda] MODEL ...

One thread, samples at random, on the CPU or another device. Prints a JSON object: the version of
torch, and the median of the steps of each model; with --compile of the model and its loss behind
torch.compile, with --autocast of both in bfloat16 by torch.autocast, with --vmap=N of N clients with
models of their own by torch.func.vmap, divided by N.
"""
import json
import math
import statistics
import sys
import time

import torch
from torch import nn


class Lstm(nn.Module):
    """LEAF's Shakespeare model."""

    def __init__(self, tokens=97, units=256):
        super().__init__()
        self.embedding = nn.Embedding(tokens, 8)
        self.lstm = nn.LSTM(8, units, 2, batch_first=True)
        self.fc = nn.Linear(units, tokens)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0][:, -1])


class Transformer(nn.Module):
    def __init__(self, tokens=97, length=80, d=64):
        super().__init__()
        at = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, d, 2) / d)
        positions = torch.stack([at.sin(), at.cos()], dim=2).reshape(length, d)
        self.register_buffer("positions", positions)
        self.embedding = nn.Embedding(tokens, d)
        self.layer = nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0.0, batch_first=True)
        self.fc = nn.Linear(d, tokens)
        self.scale = math.sqrt(d)

    def forward(self, x):
        return self.fc(self.layer(self.embedding(x) * self.scale + self.positions).mean(1))


class Block(nn.Module):
    """Of ResNet-18, with group norm of two groups."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(2, width)
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride, bias=False), nn.GroupNorm(2, width))

    def forward(self, x):
        inner = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(inner)) + self.shortcut(x)).relu()


class Mean(nn.Module):
    """Of an image's pixels."""

    def forward(self, x):
        return x.mean((2, 3))


def resnet18():
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(2, 64), nn.ReLU()], 64
    for width in (64, 128, 256, 512):
        layers += [Block(inputs, width, 1 if inputs == width else 2), Block(width, width, 1)]
        inputs = width
    return nn.Sequential(*layers, Mean(), nn.Linear(512, 10))


def cnn_leaf():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 2048), nn.ReLU(), nn.Linear(2048, 62))


def cnn_cifar():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(12544, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10))


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))


# Model, batch, shape of a sample, classes; the samples of those that embed are tokens.
MODELS = {"lr": (linear, 10, (1, 28, 28), 10), "mlp": (mlp, 20, (1, 28, 28), 10),
          "cifar": (cnn_cifar, 10, (3, 32, 32), 10), "femnist": (cnn_leaf, 20, (1, 28, 28), 62),
          "lenet": (lenet, 10, (3, 32, 32), 10), "resnet18": (resnet18, 10, (3, 32, 32), 10),
          "lstm": (Lstm, 10, (80,), 97), "transformer": (Transformer, 10, (80,), 97),
          "transformer-256": (lambda: Transformer(d=256), 10, (80,), 97)}


def samples_of(name, device, *clients):
    _, batch, shape, classes = MODELS[name]
    if len(shape) == 1:
        x = torch.randint(classes, (*clients, batch, *shape), device=device)
    else:
        x = torch.rand(*clients, batch, *shape, device=device)
    return x, torch.randint(classes, (*clients, batch), device=device)


def step_ms(name, compiled, autocast, device):
    torch.manual_seed(1)
    model = MODELS[name][0]().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = samples_of(name, device)

    def loss_of(x, y):
        return nn.functional.cross_entropy(model(x), y)

    loss = torch.autocast(device, torch.bfloat16)(loss_of) if autocast else loss_of
    loss = torch.compile(loss) if compiled else loss

    def step():
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()

    return median_ms(step, device)


def vmap_step_ms(name, clients, device):
    torch.manual_seed(1)
    model = MODELS[name][0]().to(device)
    rows = {key: value.detach().expand(clients, *value.shape).clone()
            for key, value in model.named_parameters()}
    buffers = dict(model.named_buffers())
    x, y = samples_of(name, device, clients)

    def loss(row, x, y):
        outputs = torch.func.functional_call(model, {**row, **buffers}, (x,))
        return nn.functional.cross_entropy(outputs, y)

    gradients = torch.func.vmap(torch.func.grad(loss), randomness="different")

    def step():
        for key, gradient in gradients(rows, x, y).items():
            rows[key].sub_(gradient, alpha=0.01)

    return median_ms(step, device) / clients


def median_ms(step, device):
    times, start = [], time.perf_counter()
    while len(times) < 15 or (time.perf_counter() - start < 4 and len(times) < 3000):
        begin = time.perf_counter()
        step()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[5:])


def main(words):
    compiled, autocast = "--compile" in words, "--autocast" in words
    device = "cuda" if "--device=cuda" in words else "cpu"
    torch.set_num_threads(1)
    clients = next((int(word[7:]) for word in words if word.startswith("--vmap=")), 0)
    print(json.dumps({"torch": torch.__version__,
                      **{name: vmap_step_ms(name, clients, device) if clients
                         else step_ms(name, compiled, autocast, device)
                         for name in words if name in MODELS}}))


if __name__ == "__main__":
    main(sys.argv[1:])
