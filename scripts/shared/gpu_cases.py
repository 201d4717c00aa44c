"""What scripts/gpu-trial runs once on a GPU and once on CPUs: each kind of a round and of online
nodes, each model, and each row of the manual's table of what GPUs do."""
from shared import combinations, digest_cases

SHORT = {"run.rounds": 2, "evaluate.every": 2, "checkpoint.every": 0}
PICTURES = {"data.shape": "1,12,12", "model.kind": "lenet"}
# Options beside kinds.
ROWS = {
    "momentum that clients keep": {"client.momentum": 0.5, "client.optimizer-state": "kept"},
    "moments that clients keep": {"client.optimizer": "adam", "client.optimizer-state": "kept"},
    "momentum of what clients send": {"client.worker-momentum": 0.5},
    "steps of several batches": {"client.accumulate": 2},
    "augmented images": {**PICTURES, "client.crop": 1, "client.flip": 0.5, "client.cutout": 3},
    "mixed images": {**PICTURES, "client.mixup": 0.4},
    "smoothed labels": {"client.label-smoothing": 0.1},
    "weights of classes": {"client.class-weights": "all"},
    "compressed updates": {"comm.compress": "top-k", "comm.keep": 0.3},
    "masks between ranks": {"comm.masks": "true"},
    "models tuned for evaluations": {"evaluate.tune-steps": 2},
    "models that clients keep": {"model.kind": "mlp", "client.personal": "fc2.*"},
    "tensors that move in phases": {"model.kind": "mlp", "client.personal": "fc2.*",
                                    "client.phases": "personal 2, shared 1", "client.clip": 0.5},
    "tensors that move in turn": {"model.kind": "mlp", "client.alternate": "fc1.*,fc2.*"},
    "tensors that only evaluations move": {"model.kind": "mlp", "client.train": "fc1.*",
                                           "evaluate.tune-steps": 2, "evaluate.tune": "*"},
    "models that clients make": {"evaluate.view": "personalised"},
    "samples of clients in private": {
        "privacy.kind": "central", "privacy.unit": "sample", "privacy.clip": 1,
        "privacy.noise": 0.5, "privacy.delta": 1e-3},
    "late clients that count": {"clock.kind": "virtual", "clock.round": "deadline",
                                "clock.deadline-seconds": 0.2, "clock.late": "partial"},
    "a part of a model": {"model.kind": "mlp", "client.train": "fc2.*"},
    "adapters": {"model.kind": "mlp", "client.lora": 2},
    "pairs of earlier rounds": {"aggregator.kind": "dqn-fed", "client.pairs": 3},
    "steps that are taken back": {"aggregator.kind": "dqn-fed", "aggregator.backtrack": 3},
    "pooled samples": {"run.protocol": "centralized", "sampler.kind": "full"},
    "each client alone": {"run.protocol": "local", "sampler.kind": "full"},
}


def cases(program):
    """(name, options) of the runs. All are of two rounds."""
    families = combinations.listed(program)
    found = [(name, {**options, **SHORT}) for name, options in combinations.one_of_each(families)]
    for family in ("models", "online"):
        key, kinds = families[family]
        found += [(f"{key} = {case.name.split('/')[1]}", {**case.options, **SHORT})
                  for case in digest_cases.kind_cases(family, key, kinds)
                  if not digest_cases.reads_file(case) and "+" not in case.name]
    return found + [(name, {**combinations.BASE, **SHORT, **more}) for name, more in ROWS.items()]
