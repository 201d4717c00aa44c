"""Large networks of which clients train the top, for scripts/bench --only frozen: their modules, their
data and their jobs. Torch is asked for when a network is written."""
import pathlib

import hanse

CLIENTS, SAMPLES = 20, 50
CASES = {
    "vit-head": {"client.train": "head.*"},
    "bert-adapters": {"client.lora": 8, "client.lora-layers": "layers.10.*,layers.11.*"},
}


def write_case(name, folder, quick):
    """Keys of a job of that name, whose network and data lie in the folder. A quick one has small
    layers."""
    import numpy
    import torch

    torch.manual_seed(1)
    module, sample = MODULES[name](torch, 96 if quick else 768)
    folder = pathlib.Path(folder)
    keys = hanse.export(module, sample, folder / f"{name}.graph")
    random = numpy.random.default_rng(1)
    classes = 10
    clients = {}
    for client in range(CLIENTS):
        shape = (SAMPLES, *sample.shape)
        x = (random.random(shape) if sample.is_floating_point()
             else random.integers(0, 1000, shape)).astype("f4")
        clients[f"client-{client}"] = (x, random.integers(0, classes, SAMPLES))
    data = hanse.write_federation(folder / f"{name}.hanse", clients, classes=classes)
    shared = {"data.kind": "hanse", "data.path": data, "client.batch": 10, "client.lr": 0.01,
              "sampler.per-round": 4, "evaluate.every": 0}
    return {**keys, **shared, **CASES[name]}


def block_of(torch, width, heads, norm_first):
    """A layer of a transformer, without dropout."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attend(self, x):
            rows, length, _ = x.shape
            q, k, v = (part(x).view(rows, length, heads, width // heads).transpose(1, 2)
                       for part in (self.query, self.key, self.value))
            shares = torch.softmax(q @ k.transpose(-1, -2) / (width // heads) ** 0.5, -1)
            return self.out((shares @ v).transpose(1, 2).reshape(rows, length, width))

        def feed(self, x):
            return self.down(nn.functional.gelu(self.up(x)))

        def forward(self, x):
            if norm_first:
                x = x + self.attend(self.norm1(x))
                return x + self.feed(self.norm2(x))
            x = self.norm1(x + self.attend(x))
            return self.norm2(x + self.feed(x))

    return Block()


def vit(torch, width):
    """ViT-B's shape (Dosovitskiy et al. 2021) on pictures of 64 x 64 in patches of 8."""
    nn = torch.nn

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 8, 8)
            self.first = nn.Parameter(0.02 * torch.randn(1, 1, width))
            self.places = nn.Parameter(0.02 * torch.randn(1, 65, width))
            self.layers = nn.Sequential(*(block_of(torch, width, 12, True) for _ in range(12)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x):
            patches = self.patches(x).flatten(2).transpose(1, 2)
            first = self.first.expand(patches.shape[0], -1, -1)
            x = self.layers(torch.cat([first, patches], 1) + self.places)
            return self.head(self.norm(x)[:, 0])

    return Vit(), torch.rand(3, 64, 64)


def bert(torch, width):
    """BERT-base's layers (Devlin et al. 2019) on 32 tokens."""
    nn = torch.nn

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(1000, width)
            self.places = nn.Parameter(0.02 * torch.randn(1, 32, width))
            self.norm = nn.LayerNorm(width)
            self.layers = nn.ModuleList(block_of(torch, width, 12, False) for _ in range(12))
            self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 10)

        def forward(self, x):
            h = self.norm(self.table(x.long()) + self.places)
            for layer in self.layers:
                h = layer(h)
            return self.head(torch.tanh(self.pool(h[:, 0])))

    return Bert(), torch.randint(1000, (32,))


MODULES = {"vit-head": vit, "bert-adapters": bert}
