"""What a round costs beside its arithmetic, and a client beside its samples: the jobs of scripts/bench
--only round, and what follows from their measurements."""
import statistics
from typing import NamedTuple

JOB = "jobs/bench-lr.cfg"
SMALL = ["--federation.clients=1000", "--federation.samples=20", "--federation.partition=iid"]
ALL = ["--sampler.kind=full"]
SHARE_LIMIT = 0.1
# Name, participants, options, and the greatest share beside the arithmetic.
ROUNDS = [
    ("uniform", 100, ["--sampler.per-round=100"], SHARE_LIMIT),
    ("all clients", 1000, ALL, SHARE_LIMIT),
    ("adaptive-osmd", 100, ["--sampler.per-round=100", "--sampler.kind=adaptive-osmd"], None),
    ("afl", 100, ["--sampler.per-round=100", "--aggregator.kind=afl"], None),
    ("aaggff-d: losses first", 100, ["--sampler.per-round=100", "--aggregator.kind=aaggff-d"], None)]

BYTES_LIMIT = 64
SAMPLES, PIXELS, LABEL_BYTES = 2, 4, 4
MANY = ["--data.shape=1,2,2", "--data.classes=2", f"--federation.samples={SAMPLES}",
        "--federation.partition=iid", "--sampler.per-round=100"]
FEW_EVALUATED = "--evaluate.clients=1"
# Name, options, and the most bytes a client.
CLIENTS = [
    ("fedavg, uniform", [FEW_EVALUATED], BYTES_LIMIT),
    ("evaluation of all", [], None),
    ("adaptive-osmd", [FEW_EVALUATED, "--sampler.kind=adaptive-osmd"], None),
    ("oort", [FEW_EVALUATED, "--sampler.kind=oort"], None),
    ("weighted", [FEW_EVALUATED, "--sampler.kind=weighted"], None),
    ("power-of-choice", [FEW_EVALUATED, "--sampler.kind=power-of-choice"], None),
    ("afl", [FEW_EVALUATED, "--aggregator.kind=afl"], None)]


class Peaks(NamedTuple):
    """The greatest memory of two runs that differ in the number of their clients alone."""
    fewer: float
    more: float

    def a_client(self, clients):
        """Bytes a client beyond its samples, of these (fewer, more) numbers of clients."""
        return (self.more - self.fewer) / (clients[1] - clients[0]) - sample_bytes()


def sample_bytes():
    """Bytes of a client's samples: pixels are bytes, labels have 32 bits."""
    return SAMPLES * (PIXELS + LABEL_BYTES)


def shares(runs):
    """The median run's ms of a round and of its arithmetic, and the shares beside of all runs."""
    def median_ms(name):
        return 1e3 * statistics.median(run[name] for run in runs)

    return (median_ms("seconds_per_round"), median_ms("arithmetic_seconds"),
            [run["share_beside"] for run in runs])
