"""Random jobs of federated rounds, for scripts/soak and its test: a seed draws a kind of each family,
some of the words that the kind's keys choose among, and some further options.

Kinds, keys and words are those of `hanse list`, so that a new one is drawn without a change here. What a
kind needs beside its name, and values that are no words, stand in the tables below."""
import os
import random
import re

from hanse.program import ask

from shared.soak_cases import Disturbance, Plan

# Small rounds of random samples, most of whose kinds go together.
BASE = {"run.rounds": 6, "evaluate.every": 3, "checkpoint.every": 1, "data.kind": "random",
        "data.shape": "1,4,4", "data.classes": 3, "data.test-fraction": 0.25,
        "federation.clients": 12, "federation.samples": 12, "client.batch": 4, "client.lr": 0.05,
        "sampler.per-round": 5, "sampler.horizon": 6, "attack.clients": 2, "model.hidden": 5,
        "model.kind": "linear", "async.concurrency": 5, "async.buffer": 2, "privacy.delta": 1e-3,
        "aggregator.kind": "fedavg", "aggregator.shortfall": "skip", "clock.speed": "lognormal(0, 1)"}
# Families, and how often their first kind is taken, which leaves rounds as they are. Those that go with
# few others come last: what they need is drawn over what was drawn before.
FAMILIES = {"samplers": 0.3, "aggregators": 0.2, "attacks": 0.6, "optimizers": 0.4, "steps": 0.7,
            "schedules": 0.8, "partitions": 0.7, "clocks": 0.6, "asynchrony": 0.5, "updates": 0.5,
            "privacy": 0.9}
WORDS = 0.25  # how often a kind's key gets another of its words
OWN = "jobs/own-rules"
# What kinds and words need; of a list one is drawn.
NEEDS = {
    ("sampler.kind", "formula"): {"sampler.formula": "sqrt(a) * (1 + age)"},
    ("sampler.kind", "python"): {"sampler.path": [f"{OWN}/bandit.py", f"{OWN}/loudest.py"]},
    ("aggregator.kind", "formula"): {"aggregator.formula": ["lambda * exp(F)", "w / (1 + norm)"]},
    ("aggregator.kind", "fltrust"): {"federation.held-out": 1},
    ("aggregator.kind", "python"): {"aggregator.path": [f"{OWN}/superquantile.py",
                                                        f"{OWN}/weighted_median.py"]},
    ("server.optimizer", "python"): {"server.path": f"{OWN}/momentum.py"},
    ("attack.kind", "python"): {"attack.path": [f"{OWN}/outward.py", f"{OWN}/patient.py"]},
    ("attack.kind", "feedback"): {"attack.feedback": 3},
    ("client.update", "fednew"): {"client.weight-decay": 0.01, "sampler.kind": "full",
                                  "clock.kind": "none", "async.kind": "none"},
    ("client.update", "fednl"): {"client.weight-decay": 0.01, "aggregator.kind": "fedavg",
                                 "sampler.kind": "full", "clock.kind": "none", "async.kind": "none"},
    ("client.update", "moon"): {"model.kind": "mlp"},
    ("client.update", "fedproto"): {"model.kind": "mlp"},
    ("async.kind", "fedbuff"): {"clock.kind": "virtual"},
    ("async.kind", "fedasync"): {"clock.kind": "virtual"},
    ("client.nesterov", "true"): {"client.momentum": 0.5},
    ("client.update", "scaffold"): {"sampler.kind": "uniform", "client.optimizer": "sgd"},
    ("client.update", "feddyn"): {"sampler.kind": "uniform", "aggregator.kind": "fedavg",
                                  "server.optimizer": "sgd"},
    ("client.update", "fednova"): {"aggregator.kind": "fedavg", "client.optimizer": "sgd"},
    ("privacy.kind", "central"): {"aggregator.kind": "fedavg", "sampler.kind": ["full", "poisson"]},
    ("privacy.kind", "distributed"): {"aggregator.kind": "fedavg", "sampler.kind": "full"},
    ("aggregator.weights", "capped"): {"aggregator.cap": 10},
    ("aggregator.kind", "aaggff-s"): {"sampler.kind": "full"},
    ("clock.round", "deadline"): {"clock.deadline-seconds": 0.2},
    ("clock.late", "partial"): {"clock.round": "deadline"},
    ("clock.late", "carry"): {"clock.round": "deadline"},
    ("federation.partition", "shards"): {"federation.labels-per-client": 2},
    ("federation.partition", "sizes"): {"federation.sizes": "4,8,16",
                                        "federation.size-probabilities": "0.5,0.3,0.2"},
    ("federation.partition", "power-law"): {"federation.min-samples": 4},
    ("federation.partition", "dirichlet"): {"federation.min-samples": 2},
    ("federation.partition", "labels"): {"federation.labels-per-client": 2},
    ("federation.partition", "class-shares"): {"federation.share": 1},
    ("federation.partition", "similarity"): {"federation.similarity": 0.3},
}
# Kinds that need a file which is not here, or are no federated rounds.
LEFT_OUT = {"plugin", "by-column", "by-label"}
# Keys that end a run by how many happen to come.
NEVER = {"aggregator.shortfall"}
# Further options, each as often as its share.
FURTHER = [
    (0.4, {"run.check-rules": ["true"]}),
    (0.3, {"model.kind": ["mlp"]}),
    (0.05, {"model.kind": ["lenet"], "data.shape": ["1,12,12"]}),
    (0.2, {"model.precision": ["bfloat16"]}),
    (0.1, {"client.personal": ["*bias"]}),
    (0.05, {"client.phases": ["*bias 1, all 1"]}),
    (0.05, {"client.alternate": ["*weight,*bias"]}),
    (0.2, {"comm.compress": ["top-k", "random-k", "sign", "quantize"], "comm.keep": ["0.3"]}),
    (0.1, {"client.worker-momentum": ["0.5"]}),
    (0.1, {"sampler.availability": ["0.7", "blocks(3, 2)"]}),
    (0.1, {"aggregator.before": ["nnm", "clip(0.5)", "bucketing(2)", "clip(0.5),nnm"]}),
    (0.1, {"attack.first-round": ["3"], "attack.last-round": ["4"]}),
    (0.1, {"clock.availability": ["markov(5, 3)", "diurnal(20, 0.5)"]}),
    (0.1, {"clock.lost": ["0.2"]}),
    (0.1, {"clock.jitter": ["0.3"]}),
    (0.1, {"async.max-staleness": ["1"]}),
    (0.1, {"server.average": ["true"]}),
    (0.1, {"federation.held-out": ["2"]}),
    (0.1, {"client.stragglers": ["0.5"], "client.epochs": ["3"]}),
    (0.1, {"sampler.per-round": ["1", "12"]}),
    (0.1, {"data.shape": ["1,8,80"]}),  # more than one block of columns with an mlp
    (0.05, {"run.trace": ["true"]}),
    (0.05, {"client.lr": ["1000"]}),
]


def read_listing(text):
    """{family: (key, {kind: {option: its words}})} of what `hanse list` prints."""
    families, kinds, words = {}, {}, None
    for line in text.splitlines():
        if head := re.match(r"(\S+) \((\S+)\)$", line):
            kinds = {}
            families[head[1]] = (head[2], kinds)
        elif kind := re.match(r"  (\S+) {2,}\S", line):
            words = kinds.setdefault(kind[1], {})
        elif re.match(r"  \S", line):
            words = None  # options of every kind
        elif (option := re.match(r"    (\S+) = \S+  (.+ \| .+)$", line)) and words is not None:
            words[option[1]] = [word for word in option[2].split(" | ")
                                if re.fullmatch(r"[a-z][a-z0-9+-]*", word)]
    return families


def listed(program):
    """read_listing() of the program."""
    return read_listing(ask("list", program=program))


def add_needs(options, met, choose):
    """Adds to the options what their kinds and words need that are not in `met`, and notes them there;
    `choose` takes one of a list."""
    for pair in list(options.items()):
        if pair not in met:
            options.update({option: choose(value) if isinstance(value, list) else value
                            for option, value in NEEDS.get(pair, {}).items()})
            met.add(pair)


def one_of_each(families):
    """(name, options) of a job for each kind of the families that rounds have, all else as in BASE."""
    for family in FAMILIES:
        key, kinds = families[family]
        for kind in kinds:
            if kind not in LEFT_OUT:
                rule = "trimmed-mean" if family == "attacks" and kind != "none" else "fedavg"
                options = {**BASE, "clock.kind": "none", "attack.kind": "none",
                           "aggregator.kind": rule, key: kind}
                met = set()
                while not met.issuperset(options.items()):
                    add_needs(options, met, lambda values: values[0])
                if options["attack.kind"] == "none":
                    options = {k: value for k, value in options.items() if k[:7] != "attack."}
                yield f"{key} = {kind}", options


def draw_options(seed, families):
    """The options of a seed's job."""
    draw = random.Random(seed)
    options, met = {**BASE, "run.seed": draw.randint(1, 10 ** 6)}, set()
    for family, plain in FAMILIES.items():
        key, kinds = families[family]
        names = [name for name in kinds if name not in LEFT_OUT]
        kind = names[0] if draw.random() < plain else draw.choice(names)
        if family == "asynchrony" and options["clock.kind"] == "none":
            kind = "none"
        options[key] = kind
        for option, words in kinds[kind].items():
            if option not in NEVER and draw.random() < WORDS:
                options[option] = draw.choice(words)
        add_needs(options, met, draw.choice)
    for share, more in FURTHER:
        if draw.random() < share:
            options.update({option: draw.choice(values) for option, values in more.items()})
    if options["attack.kind"] == "none":
        options = {key: value for key, value in options.items() if not key.startswith("attack.")}
    return options


def make_plan(seed, families):
    """The plan of a seed: on 1, 2 and 3 ranks in peace, and killed on some and resumed on others."""
    draw = random.Random(-seed)
    kills = [Disturbance(draw.randint(1, 3), draw.choice(["kill", "kill", "stop"]),
                         draw.uniform(1, 2))]
    return Plan(seed, "combination", None, draw_options(seed, families), kills, draw.randint(1, 3),
                places=(2, 3))


def own_python():
    """The environment in which rules in Python run: an interpreter that has numpy."""
    return {**os.environ, "HANSE_PYTHON": os.environ.get("HANSE_PYTHON", "/usr/bin/python3")}
