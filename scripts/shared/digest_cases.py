"""The shortened runs of scripts/digests: every job file, and a few rounds of every kind.

The names of the kinds come from `hanse list`, so that a new kind is run without a change here. What
a kind needs beside its name, and further variants worth a run, are in the tables below.
"""
import dataclasses
import os
import pathlib
import re

from hanse.program import ask, mpirun

from shared.digest_inputs import Made, words
from shared.sweeping import ROOT

SHORT = {"run.rounds": 8, "evaluate.every": 4, "checkpoint.every": 0}
HEART = {**SHORT, "data.kind": "csv", "data.path": "data/heart/heart.csv",
         "data.client-column": "hospital", "data.standardize": "client", "data.test-fraction": 0.2,
         "federation.partition": "by-column", "model.kind": "linear",
         "model.loss": "binary-logistic", "client.batch": 20, "client.lr": 0.05,
         "sampler.kind": "full"}
IMAGES = {**SHORT, "data.kind": "random", "data.shape": "1,6,6", "data.classes": 5,
          "data.test-fraction": 0.2, "federation.clients": 24, "federation.samples": 20,
          "model.kind": "linear", "client.batch": 5, "client.lr": 0.1, "sampler.per-round": 6}
# The same in the place of HEART, for rules.
PICTURES = {**IMAGES, "data.standardize": "none", "federation.partition": "iid",
            "model.loss": "cross-entropy", "sampler.kind": "uniform"}
HIDDEN = {"model.kind": "mlp", "model.hidden": 8}
GRAPH = {"model.kind": "graph", "model.path": Made("graph")}
BANDIT = {"run.protocol": "bandit", "run.rounds": 10, "run.repeats": 2, "federation.clients": 6,
          "bandit.arms": "hartmann-6", "bandit.count": 20, "evaluate.every": 5,
          "checkpoint.every": 0}
ONLINE = {"run.protocol": "online", "online.loss-scale": 10, "online.horizon": 8,
          "federation.clients": 6, "federation.samples": 60}
SEQUENCES = {"run.rounds": 2, "evaluate.every": 2, "data.shape": 8, "data.tokens": 12,
             "data.classes": 12, "federation.clients": 6, "federation.samples": 10}
SMALL_SET = {"run.rounds": 2, "evaluate.every": 2, "federation.clients": 4,
             "federation.samples": 10, "sampler.per-round": 2}

# What shortens a job, beside SHORT.
JOBS = {
    "async-fashion": {"run.rounds": 6},
    "bench-cifar": {"run.rounds": 1, "federation.clients": 50, "sampler.per-round": 4},
    "bench-femnist": {"run.rounds": 1, "federation.clients": 50, "sampler.per-round": 4},
    "bench-lr": {"run.rounds": 30, "federation.clients": 200},
    "bench-lstm": {"run.rounds": 1, "federation.clients": 10, "sampler.per-round": 2},
    "bench-mlp": {"run.rounds": 2, "federation.clients": 20},
    "bench-online": {"run.rounds": 4, "federation.clients": 10},
    "berka": {"data.client-column": "", "federation.partition": "iid", "federation.clients": 7},
    "byzantine-mnist": {"evaluate.test": "own"},
    "cifar-dqn-fed": {"run.rounds": 2, "evaluate.every": 2},
    "fashion-500": {"run.rounds": 5, "evaluate.every": 5},
    "fashion-mnist": {"run.rounds": 4},
    "fed-exp-fashion": {"run.rounds": 4},
    "fed-exp-mnist": {"run.rounds": 4, "federation.samples": 5600},  # what its nodes need
    "fed-exp-plots": {"run.rounds": 4, "model.kind": "mlp", "model.hidden": "20", "online.steps": 4},
    "fmnist-dqn-fed": {"run.rounds": 4},
    "mcmahan": {"evaluate.test": "own", "run.target": ""},
    "mnist-silos": {"run.rounds": 4},
    "niid-bench": {"run.rounds": 1, "client.epochs": 1, "evaluate.test": "own"},
    "osmd-fashion": {"run.rounds": 30, "evaluate.every": 0},
    "osmd-mnist": {"run.rounds": 30, "evaluate.every": 0},
    "osmd-support": {"run.rounds": 50, "evaluate.every": 10},
    "osmd-synthetic": {"run.rounds": 50, "evaluate.every": 10},
    "scaffold": {"run.rounds": 2, "evaluate.every": 0, "client.epochs": 1},
    "shakespeare-adapters": {"run.rounds": 1, "evaluate.every": 0, "data.stride": 4000,
                             "federation.min-samples": 2},
    "shakespeare-dqn-fed": {"run.rounds": 1, "evaluate.every": 0, "data.stride": 4000,
                            "federation.min-samples": 2, "client.pairs": 1},
    "tiny-imagenet": {"run.rounds": 2, "federation.clients": 50},
}
# Options of a job that plays a bandit.
BANDIT_JOB = {"run.rounds": 20, "run.repeats": 2, "evaluate.every": 10}

# family: (options of all its kinds, {kind: what this kind needs}); the key comes from `hanse list`.
FAMILIES = {
    "samplers": (IMAGES, {"formula": {"sampler.formula": "sqrt(a) * (1 + age)"},
                          "python": {"sampler.path": "jobs/own-rules/bandit.py"}}),
    "aggregators": (HEART, {"formula": {"aggregator.formula": "lambda * exp(F - mean(F))"},
                            "fltrust": {"federation.held-out": 1},
                            "python": {"aggregator.path": "jobs/own-rules/superquantile.py"}}),
    "updates": (HEART, {"fedntd": PICTURES,
                        "moon": HIDDEN, "fedproto": HIDDEN,
                        "fednew": {"client.weight-decay": 0.01},
                        "fednl": {"client.weight-decay": 0.01}}),
    "steps": (HEART, {}),
    "schedules": ({**HEART, "client.lr-decay": 0.7, "client.lr-decay-every": 2}, {}),
    "optimizers": (HEART, {"python": {"server.path": "jobs/own-rules/momentum.py"}}),
    "models": ({**IMAGES, **SMALL_SET}, {
        "mlp": {"model.hidden": "12,8"},
        "cnn-leaf": {"data.shape": "1,28,28"},
        "cnn-cifar": {"data.shape": "3,32,32"},
        "cnn-mcmahan": {"data.shape": "1,28,28"},
        "cnn-byzfl": {"data.shape": "1,28,28"},
        "lenet": {"data.shape": "1,28,28"},
        "resnet18": {"data.shape": "3,8,8", "model.channels": 8, "model.groups": 2},
        "lstm": {**SEQUENCES, "model.units": 16},
        "transformer": {**SEQUENCES, "model.embedding": 16, "model.heads": 2},
        "graph": GRAPH,
    }),
    "data": (SHORT, {
        "idx": {"data.path": "data/tiny-idx", "data.test-fraction": 0,
                "federation.clients": 2, "sampler.kind": "full"},
        "csv": HEART,
        "random": IMAGES,
        "synthetic-regression": {"model.loss": "squared-error", "model.bias": "false",
                                 "federation.clients": 10, "federation.samples": 20,
                                 "federation.partition": "by-column", "data.test-fraction": 0},
        "synthetic-classification": {"federation.clients": 10, "data.dimension": 5},
        "text": {**SEQUENCES, "data.shape": None, "data.tokens": None, "data.classes": None,
                 "data.window": 8, "model.kind": "lstm", "model.units": 16,
                 "federation.min-samples": 2, "sampler.kind": "full",
                 "data.path": Made("plays")},
        "hanse": {**{key: value for key, value in HEART.items() if not key.startswith("data.")},
                  "data.path": Made("converted", HEART)},
    }),
    "partitions": (IMAGES, {
        "dirichlet": {"federation.alpha": 0.5, "federation.min-samples": 2},
        "shards": {"federation.labels-per-client": 2},
        "sizes": {"federation.sizes": "5,10,20", "federation.size-probabilities": "0.5,0.3,0.2"},
        "power-law": {"federation.power": 2.5, "federation.min-samples": 5},
        "labels": {"federation.labels-per-client": 2},
        "class-shares": {"federation.share": 1},
        "similarity": {"federation.similarity": 0.3},
        "by-label": {"federation.clients": 5, "federation.labels-per-client": 1,
                     "sampler.per-round": 3},
        "by-column": {**HEART, "data.shape": None},
    }),
    "online": ({**IMAGES, **ONLINE}, {}),
    "bandits": (BANDIT, {}),
    "protocols": (IMAGES, {"bandit": BANDIT, "online": ONLINE}),
}
# Kinds whose input is not made here.
NEEDS_FILE = {"data/tff": "needs a file of TensorFlow Federated",
              "data/leaf": "needs a folder of LEAF",
              "data/images": "needs pictures",
              "data/cifar": "needs the files of CIFAR",
              "data/npz": "needs a file of NumPy",
              **{f"{family}/plugin": "needs a library of the user's own"
                 for family in ("samplers", "aggregators", "optimizers")}}

# Further options of a kind: "family/kind": {name: options}.
VARIANTS = {
    "aggregators/trimmed-mean": {
        "mixed": {**PICTURES, "aggregator.byzantine": 1,
                  "aggregator.before": "clip(0.1),nnm"}},
    "aggregators/centered-clipping": {
        "buckets": {**PICTURES, "aggregator.radius": 0.02,
                    "aggregator.before": "bucketing(2)", "run.trace": "true"}},
    "samplers/uniform": {
        "replacement": {"sampler.replacement": "true"},
        "availability": {"sampler.availability": "0.5"},
        "blocks": {"sampler.availability": "blocks(3, 2)"},
        "held-out": {"federation.held-out": 4},
        "fast": {"comm.reduction": "fast"},
        "aaggff-d": {"aggregator.kind": "aaggff-d", "run.trace": "true"},
        "afl": {"aggregator.kind": "afl"}},
    "samplers/weighted": {"distinct": {"sampler.replacement": "false"},
                          "unbiased": {"federation.partition": "power-law",
                                       "federation.min-samples": 5,
                                       "aggregator.estimator": "unbiased"}},
    "samplers/osmd": {"variation": {"sampler.variation": 20},
                      "reference": {"sampler.variant": "reference"},
                      "running": {"sampler.a-max": "running"}},
    "samplers/adaptive-osmd": {"reference": {"sampler.variant": "reference"},
                               "corrected": {"sampler.variant": "corrected"},
                               "distinct": {"sampler.replacement": "false"},
                               "availability": {"sampler.availability": "0.5"},
                               "regret": {"evaluate.regret": "true", "run.trace": "true"}},
    "samplers/osmd-doubling": {"uniform": {"sampler.restart": "uniform"}},
    "samplers/mabs": {"reference": {"sampler.variant": "reference"}},
    "samplers/vrb": {"reference": {"sampler.variant": "reference"},
                     "mixing": {"sampler.mixing": 0.3}},
    "samplers/oort": {"reference": {"sampler.variant": "reference"}},
    "samplers/avare": {"distinct": {"sampler.replacement": "false"}},
    "aggregators/fedavg": {"uniform": {"aggregator.weights": "uniform"},
                           "unbiased": {"aggregator.estimator": "unbiased"},
                           "fast": {"comm.reduction": "fast"},
                           "extrapolate": {"server.extrapolate": "true"},
                           "decay": {"client.lr-decay": 0.5, "client.lr-decay-every": 2,
                                     "server.lr-decay": 0.9}},
    "aggregators/propfair": {"reference": {"aggregator.variant": "reference",
                                           "aggregator.base": 0.7},
                             "base": {"aggregator.base": 0.7}},
    "aggregators/afl": {"reference": {"aggregator.variant": "reference", "aggregator.rate": 2},
                        "rate": {"aggregator.rate": 2},
                        "average": {"server.average": "true"},
                        "batches": {"aggregator.loss": "batches(1)"}},
    "aggregators/qfedavg": {"q0": {"aggregator.q": 0}, "q5": {"aggregator.q": 5},
                            "uniform": {"aggregator.weights": "uniform"}},
    "aggregators/term": {"uniform": {"aggregator.weights": "uniform"}},
    "aggregators/aaggff-s": {"reference": {"aggregator.variant": "reference"},
                             "frechet": {"aggregator.cdf": "frechet"},
                             "logistic": {"aggregator.cdf": "logistic"}},
    "aggregators/aaggff-d": {"reference": {"aggregator.variant": "reference"},
                             "paper": {"aggregator.variant": "paper"},
                             "lipschitz": {"aggregator.lipschitz": 0.5},
                             "trace": {"run.trace": "true"}},
    "aggregators/fedmgda+": {"anywhere": {"aggregator.epsilon": 1},
                             "samples": {"aggregator.weights": "samples"}},
    "aggregators/fedheal": {"strict": {"aggregator.threshold": 0.8},
                            "mlp": {"model.kind": "mlp", "model.hidden": 8,
                                    "client.update": "scaffold"}},
    "aggregators/fedlf": {"window": {"aggregator.absent": "window", "sampler.kind": "uniform",
                                     "sampler.per-round": 2},
                          "reference": {"aggregator.variant": "reference"},
                          "mlp": {"model.kind": "mlp", "model.hidden": 8}},
    "aggregators/dqn-fed": {"gradient": {"client.rate": "gradient"},
                            "pairs": {"client.pairs": 3, "aggregator.radius": 1},
                            "mean": {"client.gradient": "mean"},
                            "last": {"client.gradient": "last"},
                            "whole": {"client.batch": 0, "aggregator.backtrack": 5}},
    "aggregators/adafed": {"power": {"client.rate-power": 3, "client.batch": 0}},
    "updates/sgd": {"momentum": {"client.momentum": 0.9, "client.weight-decay": 0.01,
                                 "client.clip": 1},
                    "personal": {"model.kind": "mlp", "model.hidden": 8,
                                 "client.personal": "fc2.*"},
                    "phases": {"model.kind": "mlp", "model.hidden": 8, "client.personal": "fc2.*",
                               "client.phases": "personal 2, shared 1"},
                    "turns": {"model.kind": "mlp", "model.hidden": 8,
                              "client.alternate": "fc1.*,fc2.*"},
                    "tuned": {"model.kind": "mlp", "model.hidden": 8, "client.train": "fc1.*",
                              "evaluate.tune-steps": 2, "evaluate.tune": "*"},
                    "personalised": {"evaluate.view": "personalised"},
                    **{f"clusters-{by}": {**PICTURES, **HIDDEN, "client.clustered": "fc2.*",
                                          "federation.models": 3, "client.cluster-by": by, **more}
                       for by, more in (("loss", {}), ("labels", {}), ("file", {
                           "federation.clusters-path": Made("numbers", {"cluster": 0})}))},
                    **{f"lora-{kind}": {**HIDDEN, "client.lora": 2, "client.lora-kind": kind,
                                        "client.lora-alpha": alpha}
                       for kind, alpha in (("plain", "auto"), ("ffa", 4), ("fedsa", 4),
                                           ("rolora", 2), ("flora", 4))},
                    "lora-ranks": {**PICTURES, **HIDDEN, "client.lora": 3,
                                   "client.lora-kind": "flora", "client.lora-alpha": 4,
                                   "client.lora-ranks": Made("numbers", {"rank": 1})},
                    "lora-scale": {**HIDDEN, "client.lora": 2, "client.lora-alpha": 3,
                                   "client.lora-scale": "root", "client.lora-dropout": 0.3,
                                   "evaluate.metrics": "lora-gap"},
                    "lora-tensors": {**HIDDEN, "client.lora": 2, "client.lora-layers": "fc1.*",
                                     "client.train": "fc2.*,*.lora_B"},
                    **{f"lora-{path}{precision}": {
                        **PICTURES, **GRAPH, "client.lora": 2, "client.lora-alpha": 4,
                        "client.lora-dropout": 0.2, "client.lora-path": path,
                        "model.base-precision": precision[1:] or None}
                       for path in ("split", "merged") for precision in ("", "-bfloat16")},
                    "train-bfloat16": {**PICTURES, **HIDDEN, "client.train": "fc2.*",
                                       "model.base-precision": "bfloat16"}},
    "updates/prox": {"mu": {"client.mu": 1},
                     "stragglers": {"client.epochs": 4, "client.stragglers": 0.7}},
    "updates/ditto": {"lambda": {"client.lambda": 0.1}},
    "updates/apfl": {"reference": {"client.variant": "reference", "client.mixture": 0.8},
                     "fixed": {"client.adapt": "false", "model.kind": "mlp", "model.hidden": 8}},
    "updates/pfedme": {"inner": {"client.inner": 2, "client.inner-lr": 0.01, "client.mu": 1}},
    "updates/per-fedavg": {"inner": {"client.inner-lr": 0.01, "evaluate.tune-steps": 3}},
    "updates/fedsam": {"momentum": {"client.global-momentum": 0.9},
                       "fedcm": {"client.global-momentum": 0.9, "client.rho": 0,
                                 "client.momentum": 0.5, "sampler.kind": "uniform",
                                 "sampler.per-round": 2}},
    "updates/fedntd": {"temperature": {"client.temperature": 3, "client.distillation": 0.3,
                                       "model.kind": "mlp", "model.hidden": 8,
                                       "client.momentum": 0.5}},
    "updates/moon": {"mu": {**HIDDEN, "client.mu": 5, "client.temperature": 0.1,
                            "client.personal": "fc2.*", "client.momentum": 0.5}},
    "updates/fedproto": {"reference": {**HIDDEN, "client.variant": "reference",
                                       "client.lambda": 3, "aggregator.weights": "uniform"},
                         "means": {**HIDDEN, "client.personal": "*"}},
    "updates/fednew": {"alpha": {"client.alpha": 0.1, "client.rho": 0.5}},
    "updates/fednl": {"top": {"client.weight-decay": 0.01, "client.compressor": "top"},
                      "zero": {"client.weight-decay": 0.01, "client.hessian-start": "zero"},
                      "projection": {"client.weight-decay": 0.01,
                                     "client.safeguard": "projection",
                                     "client.least-eigenvalue": 0.01}},
    "steps/adamw": {"kept": {"client.optimizer-state": "kept", "client.weight-decay": 0.1,
                             "client.accumulate": 2, "client.label-smoothing": 0.1,
                             "client.class-weights": "all", "model.loss": "cross-entropy"}},
    "schedules/cosine": {"steps": {"client.schedule-over": "steps", "client.warmup": 2}},
    "models/linear": {"zeros": {"model.init": "zeros"}, "no-bias": {"model.bias": "false"},
                      "augmented": {"client.crop": 2, "client.flip": 0.5, "client.cutout": 3},
                      "mixed": {"client.crop": 1, "client.mixup": 0.4}},
    "online/fed-exp": {"corrected": {"online.variant": "corrected"}, "peers": {"online.peers": 2},
                       "in-place": {"online.mixing": "in-place"},
                       "passes": {"online.horizon": 3, "online.passes": 3, "online.batch": 1,
                                  "online.steps": 4},
                       "predict-first": {"online.order": "predict-then-train"},
                       "c": {"online.c": 0.1}, "labels": {"online.drift": "labels"},
                       "swap": {"online.drift": "swap"}},
    "online/omni-fedge": {"mlp": {"model.kind": "mlp", "model.hidden": 8, "online.lambda": 0.8}},
    "online/local": {"ridge-batch": {"online.gamma": "ridge-batch"},
                     "ridge-all": {"online.gamma": "ridge-all"}},
    "online/fedsgd": {"peers": {"online.peers": 2}},
    "bandits/fed-go-ucb": {"network-mean": {"bandit.ucb": "network-mean"},
                           "ellipsoid": {"bandit.ucb": "ellipsoid"},
                           "per-arm": {"bandit.statistics": "per-arm"},
                           "cosine": {"bandit.arms": "cosine-8", "bandit.spread": 0.5},
                           "ackley": {"bandit.arms": "ackley", "bandit.inputs": 3}},
    "bandits/one-go-ucb": {"first": {"bandit.gradients": "first"}},
    "bandits/n-go-ucb": {"shared": {"bandit.models": "shared"}},
    "bandits/dis-lin-ucb": {"packed": {"bandit.statistics": "packed"}},
    "protocols/centralized": {"full": {"sampler.kind": "full"}},
    "protocols/local": {"full": {"sampler.kind": "full"}},
}


@dataclasses.dataclass
class Case:
    """One run. `job` is the job file, None where all options are given."""
    name: str
    options: dict
    job: pathlib.Path = None


def reads_file(case):
    """Does the case read a file that is not the program's?"""
    return case.name in NEEDS_FILE or any(isinstance(value, Made) for value in case.options.values())


def command_of(program, ranks, job, options):
    """The words of a run of the job file, or of the options alone, on so many ranks."""
    return [*mpirun(program, ranks), str(program), "run", str(job or os.devnull), *words(options)]


def kind_lines(text):
    """(key, names) of a family in the output of `hanse list FAMILY`."""
    key = re.search(r"^\S+ \((\S+)\)$", text, re.M)
    return key and key.group(1), re.findall(r"^  (\S+) {2,}\S", text, re.M)


def kind_cases(family, key, kinds):
    base, needs = FAMILIES[family]
    for kind in kinds:
        options = {**base, **needs.get(kind, {}), key: kind}
        yield Case(f"{family}/{kind}", options)
        for name, more in VARIANTS.get(f"{family}/{kind}", {}).items():
            yield Case(f"{family}/{kind}+{name}", {**options, **more, key: kind})


def job_cases(folder, sources):
    """The job files of `folder`, on the data that `sources` finds or makes."""
    for job in sorted(folder.glob("*.cfg")):
        bandit = "protocol = bandit" in job.read_text()
        short = {**SHORT, **(BANDIT_JOB if bandit else JOBS.get(job.stem, {}))}
        more, made = sources.options(job)
        name = f"jobs/{job.stem}" + (" (made data)" if made else "")
        yield Case(name, {**short, **more}, job)


def listed(program, family):
    """(key, names) of the family's kinds."""
    return kind_lines(ask("list", family, program=program))


def all_cases(program, sources):
    """Every case: the job files', and those of the kinds as the program lists them."""
    cases = list(job_cases(ROOT / "jobs", sources))
    for family in FAMILIES:
        cases += kind_cases(family, *listed(program, family))
    for case in cases:
        case.options = sources.filled(case.options)
    return cases
