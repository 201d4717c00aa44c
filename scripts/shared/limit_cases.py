"""Short jobs with two keys at limits of their ranges, which a seed draws, and what is wrong with a run
of one: a signal, a run that does not end, or an error that blames a client that does nothing wrong."""
import dataclasses
import os
import random
import re
import subprocess

from hanse.program import option_words

SECTIONS = ("async", "clock", "attack", "aggregator", "sampler")
GREATEST = ("1.7976931348623157e308", "9223372036854775807")  # a number, a whole number
LEAST = "5e-324"  # above 0
# Keys whose values are texts of their own.
TEXTS = {
    "clock.speed": ("constant(5e-324)", "constant(1e300)", "uniform(1e-9, 1e9)", "lognormal(700, 9)",
                    "halfnormal(0, 1e-300)", "exponential(1e12)", "pareto(1e-3, 1)"),
    "clock.down-mbit": ("constant(5e-324)", "constant(1e308)", "pareto(0.1, 1e-9)"),
    "clock.up-mbit": ("constant(1e-12)", "constant(1e308)", "lognormal(0, 30)"),
    "clock.availability": ("markov(1e-6, 1e-6)", "markov(1e9, 1e-6)", "markov(1e-6, 1e9)",
                           "markov(1e300, 1)", "diurnal(1e-6, 1)", "diurnal(1e9, 1e-9)",
                           "diurnal(1e300, 0.5)", "diurnal(5, 5e-324)"),
    "clock.lost": ("0", "5e-324", "0.9999999999999999"),
    "clock.deadline-seconds": ("5e-324", "1e308", "quantile(5e-324)", "quantile(1)"),
    "attack.clients": ("1", "5", "11", "12", "5e-324", "0.9999999999999999", "0,", "11,"),
    "attack.target": ("0", "3", "9223372036854775807"),
    "aggregator.byzantine": ("0", "5", "12", "5e-324", "0.4999999999999999",
                             "9223372036854775807"),
    "aggregator.before": ("nnm", "arc", "clip(5e-324)", "clip(1e308)", "bucketing(1)",
                          "bucketing(9223372036854775807)"),
    "aggregator.loss": ("full", "batches(1)", "batches(9223372036854775807)"),
    "sampler.availability": ("5e-324", "1", "blocks(12)", "blocks(1, 9223372036854775807)"),
    "sampler.a-max": ("running", "5e-324", "1e308"),
    "sampler.eta": ("0", "5e-324", "1e308"),
    "sampler.gamma": ("0", "5e-324", "1e308"),
    "sampler.rate": ("0", "5e-324", "1e308"),
    "sampler.exploration-min": ("0", "1"),
    "sampler.clip-quantile": ("0", "5e-324", "1"),
}
NEED_FILES = ("python", "plugin", "formula")
CLIENTS = 12
BASE = {
    "run.rounds": 5, "run.max-seconds": 4, "data.kind": "random", "data.shape": "1,4,4",
    "data.classes": 4, "data.test-fraction": 0, "federation.clients": CLIENTS,
    "federation.samples": 12, "federation.held-out": 1, "model.kind": "linear", "client.batch": 6,
    "client.lr": 0.01, "sampler.per-round": 6, "evaluate.every": 0, "checkpoint.every": 0,
}
REFUSED, STOPPED = 2, 75
ATTEMPTS = 5
SECONDS = 30  # of a run that has to end after run.max-seconds


@dataclasses.dataclass
class Use:
    """A key as some kinds of its section read it."""
    key: str
    values: tuple
    kinds: tuple  # empty: all of them


def limits(field):
    """The values at the limits of a range as keys.md writes it: choices, or "auto | [0, inf)"."""
    values = []
    for part in (part.strip() for part in field.split(r"\|")):
        number = re.fullmatch(r"([\[(])([^,]+), ([^,]+)([\])])", part)
        if not number:
            values.append(part)
            continue
        opens, low, high, closes = number.groups()
        if low != "-inf":
            values.append(low if opens == "[" else LEAST if float(low) == 0 else
                          repr(float(low) * (1 + 1e-15)))
        if high == "inf":
            values += GREATEST
        else:
            values.append(high if closes == "]" else repr(float(high) * (1 - 1e-15)))
    return tuple(values)


def uses_of(markdown):
    """What `hanse list --markdown` says of the keys of SECTIONS."""
    uses = []
    for line in markdown.splitlines():
        row = re.match(r"\| `([a-z]+)\.([a-z0-9-]+)` \| (.*?) \| (.*?) \| (.*) \|$", line)
        if not row or row[1] not in SECTIONS or row[2] == "kind":
            continue
        key = f"{row[1]}.{row[2]}"
        values = TEXTS.get(key) or (limits(row[4].strip("`")) if row[4] else ())
        kinds = re.search(r"only for `([^`]*)`", row[5])
        kinds = tuple(kinds[1].split(", ")) if kinds else ()
        kinds = tuple(kind for kind in kinds if kind not in NEED_FILES)
        if values and kinds != ("clock.kind = virtual",):
            uses.append(Use(key, values, kinds))
    return uses


def kinds_of(markdown, section):
    row = re.search(rf"^\| `{section}\.kind` \| .*? \| `(.*?)` \|", markdown, re.MULTILINE)
    return [kind.strip() for kind in row[1].split(r"\|") if kind.strip() not in NEED_FILES]


def options_of(seed, attempt, markdown):
    """The options of a job of the seed."""
    draw = random.Random(f"{seed} {attempt}")
    options = dict(BASE)
    pair = draw.sample(uses_of(markdown), 2)
    sections = {use.key.split(".")[0] for use in pair}
    for section in ("sampler", "aggregator"):
        options[f"{section}.kind"] = draw.choice(kinds_of(markdown, section))
    options["aggregator.estimator"] = draw.choice(["normalized", "unbiased"])
    if "attack" in sections or draw.random() < 0.2:
        options["attack.kind"] = draw.choice(kinds_of(markdown, "attack"))
        options["attack.clients"] = 2
    if "async" in sections or draw.random() < 0.3:
        options["async.kind"] = draw.choice(["fedbuff", "fedasync"])
        options.update({"async.concurrency": draw.choice([1, 6, CLIENTS]),
                        "async.buffer": draw.choice([1, 3, 13]),
                        "async.normalize": draw.choice(["buffer", "weights"]),
                        "async.staleness": draw.choice(["poly", "hinge", "threshold"])})
    elif "clock" in sections or draw.random() < 0.3:
        options["clock.round"] = draw.choice(["all", "first", "deadline"])
        if options["clock.round"] == "deadline":
            options.update({"clock.late": draw.choice(["drop", "partial", "carry"]),
                            "clock.deadline-seconds": 0.1})
    if sections & {"async", "clock"} or {"async.kind", "clock.round"} & options.keys():
        options.update({"clock.kind": "virtual", "clock.speed": "lognormal(0, 1)"})
    for use in pair:
        section = use.key.split(".")[0]
        kinds = [kind for kind in kinds_of(markdown, section) if kind in use.kinds]
        if kinds and options.get(f"{section}.kind") not in kinds:
            options[f"{section}.kind"] = draw.choice(kinds)
    if options.get("async.kind") == "fedasync":
        options.update({"aggregator.kind": "fedavg", "aggregator.estimator": "normalized"})
    for use in pair:
        options[use.key] = draw.choice(use.values)
    return options


def fault(status, errors, options):
    """What is wrong with a run that has ended so; empty: nothing."""
    lines = [line for line in errors.splitlines() if line.startswith("hanse: error: ")]
    if status is None:
        return f"no end within {SECONDS} s"
    if status < 0 or status >= 128:
        return f"status {status}, a signal"
    if status in (0, STOPPED):
        return f"an error, and status {status}" if lines else ""
    if status not in (1, REFUSED) or len(lines) != 1:
        return f"status {status} with {len(lines)} errors"
    # Attacks make models of which any client may suffer, any client may be the one that receives a
    # model that is no number, and time ends with any client's task.
    blames = ("(client " in lines[0] and "attack.kind" not in options and
              "has received is not finite" not in lines[0] and "virtual time ends" not in lines[0])
    return f"a client is blamed: {lines[0]}" if status == 1 and blames else ""


def ended(command):
    """The status of a program and what it says; None where it does not end."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        return done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        return None, ""


def try_seed(seed, program, markdown, folder):
    """Runs jobs of the seed until one is not refused; returns the command of the last one, its status
    and what is wrong with it."""
    for attempt in range(ATTEMPTS):
        options = options_of(seed, attempt, markdown)
        out = folder / f"{seed}-{attempt}"
        command = [str(program), "run", os.devnull, *option_words({**options, "run.out": out})]
        status, errors = ended(command)
        found = fault(status, errors, options)
        if found or status != REFUSED:
            break
    return command, status, found
