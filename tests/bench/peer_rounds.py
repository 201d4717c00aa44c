#!/usr/bin/env python3
"""Rounds of FedAvg as others compute them, for scripts/bench --only xla.

  PYTHON tests/bench/peer_rounds.py PEER FILE.npz

PEER is fedjax (FedJAX's own fed_avg), scan or vmap (a round in JAX, jitted whole: over clients and
steps in turn, or over all clients at once), torch (a plain loop in eager PyTorch) or pfl
(pfl-research's FederatedAveraging on PyTorch). FILE has the clients' samples, the first model, and
the model after one round or the loss of the first one, by Hanse (scripts/shared/peers.py writes it).

Each line on stdin is a number of rounds, answered by the processor seconds of one of them; "apart" is
answered by how far the model after the round that comes next, or the loss, is from Hanse's. All
clients take part in each round, with their samples in a new order. The last batch of a client is
smaller in torch and pfl, filled with more of its samples in FedJAX, and masked in scan and vmap, which
gather batches of indices inside the jitted round. None measures losses in training, which Hanse does.
"""
import contextlib
import functools
import json
import math
import os
import re
import sys
import time

import numpy as np

DROPOUT = (0.25, 0.5)  # of cnn-cifar


class Job:
    """What FILE says."""

    def __init__(self, path):
        with np.load(path) as file:
            arrays = dict(file)
        self.model = str(arrays["model"])
        self.batch, self.epochs = int(arrays["batch"]), int(arrays["epochs"])
        self.lr = float(arrays["lr"])
        x = arrays["x"]
        self.x = x.astype(np.int32) if x.ndim == 2 else x.astype(np.float32) / 255
        self.y, self.offsets = arrays["y"].astype(np.int32), arrays["offsets"]
        self.loss = float(arrays["loss"])  # of the first model; NaN: its tensors are compared
        self.start, self.expected = ({name.partition("/")[2]: value for name, value in arrays.items()
                                      if name.startswith(part)} for part in ("start/", "expected/"))
        self.draw = np.random.default_rng(1)

    def clients(self):
        return [slice(*pair) for pair in zip(self.offsets[:-1], self.offsets[1:])]

    def order(self, client):
        """Of a client's samples in an epoch."""
        return client.start + self.draw.permutation(client.stop - client.start).astype(np.int32)

    def batches(self, client):
        """Indices of a client's batches in a round."""
        for _ in range(self.epochs):
            order = self.order(client)
            for begin in range(0, len(order), self.batch):
                yield order[begin:begin + self.batch]


def greatest_distance(ours, others):
    return max(float(np.max(np.abs(np.asarray(ours[name]) - others[name]))) for name in others)


# -- JAX

def as_jax(model, tensors):
    """Layouts that suit XLA's CPU: images have their channels last, matrices the inputs first."""
    side = {"cnn-leaf": 7, "cnn-cifar": 14}.get(model)
    def turned(name, value):
        if value.ndim == 4:
            return value.transpose(2, 3, 1, 0)
        if value.ndim != 2 or name.startswith("embedding"):
            return value
        if name == "fc1.weight" and side:
            value = value.reshape(len(value), -1, side, side).transpose(0, 2, 3, 1)
        return value.reshape(len(value), -1).T
    return {name: np.ascontiguousarray(turned(name, value)) for name, value in tensors.items()}


def jax_networks():
    """Logits by name, of parameters, samples and a key for dropout (None: none)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def dense(p, name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    def convolution(p, name, x, padding="SAME", stride=1):
        y = lax.conv_general_dilated(x, p[f"{name}.weight"], (stride, stride), padding,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y + p[f"{name}.bias"] if f"{name}.bias" in p else y

    def pooled(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def flat(x):
        return x.reshape(len(x), -1)

    def dropped(x, share, key):
        return x if key is None else jnp.where(jax.random.bernoulli(key, 1 - share, x.shape),
                                               x / (1 - share), 0)

    def linear(p, x, _):
        return dense(p, "fc1", flat(x))

    def mlp(p, x, _):
        return dense(p, "fc2", jax.nn.relu(dense(p, "fc1", flat(x))))

    def cnn_leaf(p, x, _):
        for name in ("conv1", "conv2"):
            x = pooled(jax.nn.relu(convolution(p, name, x)))
        return mlp(p, x, None)

    def cnn_cifar(p, x, key):
        keys = (None, None) if key is None else jax.random.split(key)
        for name in ("conv1", "conv2"):
            x = jax.nn.relu(convolution(p, name, x, "VALID"))
        x = dropped(flat(pooled(x)), DROPOUT[0], keys[0])
        return dense(p, "fc2", dropped(jax.nn.relu(dense(p, "fc1", x)), DROPOUT[1], keys[1]))

    def normed(p, name, x):
        groups = x.reshape(len(x), -1, 2, x.shape[-1] // 2)
        mean = groups.mean((1, 3), keepdims=True)
        variance = jnp.square(groups - mean).mean((1, 3), keepdims=True)
        plain = ((groups - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
        return plain * p[f"{name}.weight"] + p[f"{name}.bias"]

    def block(p, name, x, stride):
        y = jax.nn.relu(normed(p, f"{name}.bn1", convolution(p, f"{name}.conv1", x, ((1, 1), (1, 1)),
                                                             stride)))
        y = normed(p, f"{name}.bn2", convolution(p, f"{name}.conv2", y))
        if f"{name}.downsample.0.weight" in p:
            x = normed(p, f"{name}.downsample.1",
                       convolution(p, f"{name}.downsample.0", x, "VALID", stride))
        return jax.nn.relu(x + y)

    def resnet18(p, x, _):
        x = jax.nn.relu(normed(p, "bn1", convolution(p, "conv1", x)))
        for layer in (1, 2, 3, 4):
            x = block(p, f"layer{layer}.0", x, 1 if layer == 1 else 2)
            x = block(p, f"layer{layer}.1", x, 1)
        return dense(p, "fc", x.mean((1, 2)))

    def lstm(p, x, _):
        x = p["embedding.weight"][x.T]  # the steps of time first
        for layer in ("l0", "l1"):
            inputs = (x @ p[f"lstm.weight_ih_{layer}"] + p[f"lstm.bias_ih_{layer}"]
                      + p[f"lstm.bias_hh_{layer}"])
            def cell(state, one, w=p[f"lstm.weight_hh_{layer}"]):
                i, f, g, o = jnp.split(one + state[0] @ w, 4, axis=-1)
                c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h
            zeros = jnp.zeros((x.shape[1], len(p[f"lstm.weight_hh_{layer}"])))
            x = lax.scan(cell, (zeros, zeros), inputs)[1]
        return dense(p, "fc", x[-1])

    return {"linear": linear, "mlp": mlp, "cnn-leaf": cnn_leaf, "cnn-cifar": cnn_cifar,
            "resnet18": resnet18, "lstm": lstm}


class InJax:
    """A job whose parameters lie in JAX; `round` is a subclass's."""

    def __init__(self, job):
        import jax
        import jax.numpy as jnp
        self.jax, self.job, network = jax, job, jax_networks()[job.model]
        if job.x.ndim == 4:
            job.x = np.ascontiguousarray(job.x.transpose(0, 2, 3, 1))
        self.p = {name: jnp.asarray(value) for name, value in as_jax(job.model, job.start).items()}
        self.keys, self.has_dropout = jax.random.key(1, impl="rbg"), job.model == "cnn-cifar"

        def loss(p, x, y, mask, key):
            logits = network(p, x, key)
            own = jnp.take_along_axis(logits, y[:, None], 1)[:, 0]
            losses = jax.nn.logsumexp(logits, axis=1) - own
            return losses.mean() if mask is None else (losses * mask).sum() / jnp.maximum(mask.sum(), 1)
        self.loss = loss

    def next_key(self):
        self.keys, key = self.jax.random.split(self.keys)
        return key

    def apart(self):
        """After the next round, or of the loss."""
        job = self.job
        if not math.isnan(job.loss):
            return abs(float(self.jax.jit(self.loss)(self.p, job.x, job.y, None, None)) - job.loss)
        self.round()
        return greatest_distance(self.p, as_jax(job.model, job.expected))


class WholeRound(InJax):
    """One jitted function, over batches of indices that a round draws."""

    def __init__(self, job, way):
        super().__init__(job)
        jax, jnp, lax = self.jax, self.jax.numpy, self.jax.lax
        self.xs, self.ys = jnp.asarray(job.x), jnp.asarray(job.y)
        sizes = np.diff(job.offsets)
        self.steps = (job.epochs * -(-sizes // job.batch)).astype(np.int32)
        shares = (sizes / sizes.sum()).astype(np.float32)
        gradient = jax.grad(self.loss)

        def step(q, xs, ys, index, mask, key):
            g = gradient(q, xs[index], ys[index], mask, key if self.has_dropout else None)
            return {name: q[name] - job.lr * g[name] for name in q}

        def in_turn(p, xs, ys, index, mask, key):
            def client(total, one):
                index, mask, steps, share, key = one
                q = lax.fori_loop(0, steps, lambda i, q: step(q, xs, ys, index[i], mask[i],
                                                              jax.random.fold_in(key, i)), p)
                return {name: total[name] + share * q[name] for name in q}, None
            zeros = {name: jnp.zeros_like(value) for name, value in p.items()}
            keys = jax.random.split(key, len(shares))
            return lax.scan(client, zeros, (index, mask, self.steps, shares, keys))[0]

        def at_once(p, xs, ys, index, mask, key):
            def client(index, mask, key):
                def one(state, batch):
                    q, key = state
                    key, own = jax.random.split(key)
                    return (step(q, xs, ys, *batch, own), key), None
                return lax.scan(one, (p, key), (index, mask))[0][0]
            rows = jax.vmap(client)(index, mask, jax.random.split(key, len(shares)))
            return {name: jnp.tensordot(shares, value, 1) for name, value in rows.items()}

        self.whole = jax.jit(in_turn if way == "scan" else at_once, donate_argnums=0)
        shape = (len(sizes), self.steps.max(), job.batch)
        self.index, self.mask = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        # Of each client and epoch, its samples one after the other; a new epoch begins a new batch.
        starts = [(i, client, epoch * -(-sizes[i] // job.batch) * job.batch)
                  for i, client in enumerate(job.clients()) for epoch in range(job.epochs)]
        self.places = [(client, np.s_[i, begin:begin + sizes[i]]) for i, client, begin in starts]
        flat = self.mask.reshape(len(sizes), -1)
        for _, place in self.places:
            flat[place] = 1

    def round(self):
        flat = self.index.reshape(len(self.index), -1)
        for client, place in self.places:
            flat[place] = self.job.order(client)
        self.p = self.whole(self.p, self.xs, self.ys, self.index, self.mask, self.next_key())
        self.jax.block_until_ready(self.p)


class FedJax(InJax):
    def __init__(self, job):
        super().__init__(job)
        if not hasattr(self.jax, "tree_map"):  # FedJAX 0.0.17 asks for it, newer JAX lacks it
            self.jax.tree_map = self.jax.tree_util.tree_map
        import fedjax
        from fedjax.algorithms import fed_avg
        gradient = self.jax.grad(self.loss)
        self.algorithm = fed_avg.federated_averaging(
            lambda p, batch, key: gradient(p, batch["x"], batch["y"], None,
                                           key if self.has_dropout else None),
            fedjax.optimizers.sgd(job.lr), fedjax.optimizers.sgd(1.0),
            fedjax.ShuffleRepeatBatchHParams(batch_size=job.batch, num_epochs=job.epochs, seed=1))
        self.state = self.algorithm.init(self.p)
        self.clients = [(str(i), fedjax.ClientDataset({"x": job.x[client], "y": job.y[client]}))
                        for i, client in enumerate(job.clients())]

    def round(self):
        keys = self.jax.random.split(self.next_key(), len(self.clients))
        self.state, _ = self.algorithm.apply(
            self.state, [(*client, key) for client, key in zip(self.clients, keys)])
        self.p = self.state.params
        self.jax.block_until_ready(self.p)


# -- PyTorch

def torch_network(job):
    """The module of torch_steps.py, with the first model's tensors."""
    import torch
    import torch_steps
    name = {"linear": "lr", "cnn-leaf": "femnist", "cnn-cifar": "cifar"}.get(job.model, job.model)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    network = torch_steps.MODELS[name][0]()
    with torch.no_grad():
        for value, start in zip(network.parameters(), in_order(job, network, job.start)):
            value.copy_(torch.from_numpy(start))
    return network


def in_order(job, network, tensors):
    """Hanse's tensors in the order of the module's: that of their use, weights before biases."""
    def place(name):
        name = re.sub(r"(conv|bn)(\d)", lambda part: f"{part[2]}{part[1]}", name)  # 1bn, 1conv, 2bn
        name = re.sub(r"(weight|bias)_(ih|hh)_l(\d)", r"\3.\1.\2", name)
        for old, new in (("bn", "n"), ("conv", "c"), ("weight", "a"), ("bias", "b"), (".ih", ".0"),
                         (".hh", ".1"), ("fc", "z")):
            name = name.replace(old, new)
        return name
    names = sorted(tensors, key=place)
    if [tensors[name].shape for name in names] != [value.shape for value in network.parameters()]:
        raise ValueError(f"{job.model}: other tensors than the module's")
    return [tensors[name] for name in names]


class InTorch:
    def __init__(self, job):
        import torch
        self.torch, self.job, self.network = torch, job, torch_network(job)
        self.x, self.y = torch.from_numpy(job.x), torch.from_numpy(job.y).long()
        self.x = self.x.long() if job.x.ndim == 2 else self.x

    def apart(self):
        torch, job = self.torch, self.job
        if not math.isnan(job.loss):
            with torch.no_grad():
                self.network.eval()
                loss = float(torch.nn.functional.cross_entropy(self.network(self.x), self.y))
                self.network.train()
            return abs(loss - job.loss)
        self.round()
        expected = dict(enumerate(in_order(job, self.network, job.expected)))
        return greatest_distance(dict(enumerate(value.detach().numpy()
                                                for value in self.network.parameters())), expected)


class Loop(InTorch):
    def round(self):
        torch, job, network = self.torch, self.job, self.network
        values = list(network.parameters())
        start = [value.detach().clone() for value in values]
        total = [torch.zeros_like(value) for value in start]
        for client in job.clients():
            with torch.no_grad():
                for value, first in zip(values, start):
                    value.copy_(first)
            optimizer = torch.optim.SGD(values, lr=job.lr)
            for batch in job.batches(client):
                optimizer.zero_grad()
                index = torch.from_numpy(batch)
                torch.nn.functional.cross_entropy(network(self.x[index]), self.y[index]).backward()
                optimizer.step()
            share = (client.stop - client.start) / len(job.y)
            for sum_, value in zip(total, values):
                sum_.add_(value.detach(), alpha=share)
        with torch.no_grad():
            for value, mean in zip(values, total):
                value.copy_(mean)


class Pfl(InTorch):
    def __init__(self, job):
        super().__init__(job)
        torch = self.torch
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.aggregate.weighting import WeightByDatapoints
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.data.dataset import Dataset
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.data.sampling import get_user_sampler
        from pfl.hyperparam.base import NNTrainHyperParams
        from pfl.model.pytorch import PyTorchModel

        network = self.network
        network.loss = lambda x, y: torch.nn.functional.cross_entropy(network(x), y)
        network.metrics = lambda x, y: {}
        self.model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0))
        clients = job.clients()
        x, y = self.x.numpy(), self.y.numpy()
        names = [str(i) for i in range(len(clients))]

        def samples(name):
            client = clients[int(name)]
            order = client.start + job.draw.permutation(client.stop - client.start)
            return Dataset((torch.from_numpy(x[order]), torch.from_numpy(y[order])), user_id=name)
        data = FederatedDataset(samples, get_user_sampler("minimize_reuse", names))
        backend = SimulatedBackend(training_data=data, val_data=None,
                                   postprocessors=[WeightByDatapoints()])
        train = NNTrainHyperParams(local_num_epochs=job.epochs, local_learning_rate=job.lr,
                                   local_batch_size=job.batch)

        params = NNAlgorithmParams(2, 2, len(clients), None)  # evaluated in even rounds, this is 1

        algorithm = FederatedAveraging()

        def round_():
            contexts, *_ = algorithm.get_next_central_contexts(self.model, 1, params, train, None)
            results = [(context, *backend.gather_results(
                model=self.model, training_algorithm=algorithm, central_context=context))
                       for context in contexts]
            algorithm.process_aggregated_statistics_from_all_contexts(
                [one[:2] for one in results], results[0][2], self.model)
        self.round = round_


PEERS = {"fedjax": FedJax, "scan": functools.partial(WholeRound, way="scan"),
         "vmap": functools.partial(WholeRound, way="vmap"), "torch": Loop, "pfl": Pfl}


def main(name, path):
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")  # what libraries print is no answer
    with contextlib.redirect_stdout(sys.stderr):
        peer = PEERS[name](Job(path))
        print(json.dumps({"peer": name}), file=answers, flush=True)
        for line in sys.stdin:
            if line.strip() == "apart":
                answer = peer.apart()
            else:
                begin = time.process_time()
                for _ in range(int(line)):
                    peer.round()
                answer = (time.process_time() - begin) / int(line)
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
