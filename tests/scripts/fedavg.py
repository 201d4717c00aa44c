"""Federated averaging of a module in plain torch, from the random streams that are documented
(include/hanse/base/random.hpp, jobs/models.md): what a run of the program must end with."""
import contextlib

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

F = torch.nn.functional
SHUFFLE, DROPOUT = 5, 6   # purposes
FUSED = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
NO_DROPOUT = FUSED and FUSED.default   # newer torch takes another operator where there is dropout


class Stream:
    """64-bit numbers of Philox 4x64-10 with the key (seed, purpose) and the counter (block, round,
    client, 0), whose block is the first word."""

    def __init__(self, seed, purpose, round_=0, client=0):
        first = (client << 128) + (round_ << 64)
        before = (first - 1) % 2 ** 256   # numpy counts before it draws
        self.philox = numpy.random.Philox(counter=before, key=(purpose << 64) + seed)

    def next(self):
        return int(self.philox.random_raw())

    def bits(self, count):
        """uint32 [count]: two a number, the low one first; the last number may be left half."""
        return self.philox.random_raw((count + 1) // 2).view(numpy.uint32)[:count]

    def below(self, n):
        """Uniform in {0, ..., n - 1} (Lemire 2019)."""
        product = self.next() * n
        while product % 2 ** 64 < 2 ** 64 % n:
            product = self.next() * n
        return product >> 64

    def shuffle(self, values):
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]


class HanseMasks:
    """Masks of a pass as a graph draws them: 32 bits an entry, which is kept below p 2^32."""

    def __init__(self, seed):
        self.stream = Stream(seed, DROPOUT)

    def kept(self, like, p=0.5):
        kept = self.stream.bits(like.numel()) < numpy.uint64(int(p * 2 ** 32))
        return torch.from_numpy(kept).reshape(like.shape)

    def uniform(self, sizes):
        """Numbers u with floor(p + u) = 1 where an entry is kept."""
        bits = self.stream.bits(torch.Size(sizes).numel()).astype(numpy.float64)
        return torch.from_numpy(1 - (bits + 1) / 2 ** 32).reshape(sizes)


class Drawn(TorchDispatchMode):
    """The random operators of a module take what they draw from `masks`."""

    def __init__(self, masks):
        super().__init__()
        self.masks = masks

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        aten = torch.ops.aten
        if function is aten.bernoulli_.float:
            return args[0].copy_(self.masks.kept(*args))
        if function is aten.rand.default:
            return self.masks.uniform(args[0]).float()
        if function is aten.rand_like.default:
            return self.masks.uniform(args[0].shape).float()
        fixed = function is NO_DROPOUT or (  # rrelu draws in training alone
            function is aten.rrelu_with_noise.default and not any(args[4:5]))
        if torch.Tag.nondeterministic_seeded in function.tags and not fixed:
            raise NotImplementedError(f"{function} draws random numbers")
        return function(*args, **(kwargs or {}))


def sample_losses(kind, z, y):
    """The loss of each sample, for outputs z [n, outputs] or [n, positions, classes]."""
    if kind == "squared-error":
        return ((z - y.reshape(z.shape)) ** 2 / 2).mean(1)
    if kind == "binary-logistic":
        return F.softplus((1 - 2 * y.reshape(z.shape)) * z).mean(1)
    losses = F.cross_entropy(z.movedim(-1, 1), y, ignore_index=-1, reduction="none")
    return losses if y.dim() == 1 else losses.sum(1) / (y >= 0).sum(1)


@contextlib.contextmanager
def kept_as_it_is(module):
    """What is done meanwhile to the tensors of a module is undone at the end."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    start = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    training = module.training
    try:
        yield tensors, dict(start)
    finally:
        write(tensors, start)
        module.train(training)


def write(tensors, values):
    with torch.no_grad():
        for name, value in values.items():
            tensors[name].copy_(value)


def train_client(module, forward, x, y, kind, lr, order, batch, epochs, noise, masks):
    """Passes of SGD over the samples, each in a new order."""
    module.train()
    trained = [p for p in module.parameters() if p.requires_grad]
    places = list(range(len(x)))
    for _ in range(epochs):
        order.shuffle(places)
        for first in range(0, len(x), batch):
            chosen = places[first:first + batch]
            with Drawn(masks(noise.next())):
                loss = sample_losses(kind, forward(x[chosen]), y[chosen]).mean()
                gradients = torch.autograd.grad(loss, trained, allow_unused=True)
            with torch.no_grad():
                for parameter, gradient in zip(trained, gradients):
                    if gradient is not None:
                        parameter -= lr * gradient


def evaluate(module, forward, clients, kind):
    """The mean loss of all samples."""
    module.eval()
    with torch.no_grad():
        losses = [sample_losses(kind, forward(x), y).double() for x, y in clients]
    return torch.cat(losses).mean().item()


def train(module, forward, clients, kind="cross-entropy", lr=0.05, *, rounds=3, batch=8, epochs=1,
          seed=1, masks=HanseMasks, nudge=0.0):
    """Trains a module, which stays as it is: the float tensors of its state dict in the end, and the
    loss after each round. forward(x): the outputs for samples x of `clients`, pairs (x, y). Floats
    are averaged by samples, integers stay. `nudge`: how far the start is moved, at random."""
    samples, losses = sum(len(x) for x, _ in clients), []
    with kept_as_it_is(module) as (tensors, now):
        generator = torch.Generator().manual_seed(7)
        for name, _ in module.named_parameters():
            now[name] = now[name] + nudge * torch.randn(now[name].shape, generator=generator)
        for round_ in range(1, rounds + 1):
            change = {name: torch.zeros_like(value, dtype=torch.float64)
                      for name, value in now.items() if value.is_floating_point()}
            for number, (x, y) in enumerate(clients):
                write(tensors, now)
                train_client(module, forward, x, y, kind, lr, Stream(seed, SHUFFLE, round_, number),
                             batch, epochs, Stream(seed, DROPOUT, round_, number), masks)
                for name in change:
                    change[name] += len(x) / samples * (tensors[name] - now[name])
            now.update({name: (now[name] + by).float() for name, by in change.items()})
            write(tensors, now)
            losses.append(evaluate(module, forward, clients, kind))
        return {name: value.clone() for name, value in module.state_dict().items()
                if value.is_floating_point()}, losses
