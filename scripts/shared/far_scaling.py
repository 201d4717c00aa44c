"""More ranks than there are cores, for scripts/bench-scaling: runs whose training is only declared,
and what `hanse plan` estimates."""
import dataclasses
import json
import math

from hanse.program import ask, option_words

from .run_files import PHASES

SAMPLE_US = "simulate.sample-us"
TOLERATED = 1.1  # between two measurements of the same


@dataclasses.dataclass
class Machines:
    """Hosts of so many cores and their links; the rest is measured here, by `hanse plan`."""
    cores: int
    link_gbit: float
    latency_us: float
    rates: dict = None

    def hosts(self, ranks):
        return math.ceil(ranks / self.cores)

    def plan(self, options, ranks, changes):
        """What `hanse plan` says of so many ranks on these hosts."""
        return planned(options, [], changes, f"--ranks={ranks}", f"--hosts={self.hosts(ranks)}",
                       f"--cores={self.cores}", f"--link-gbit={self.link_gbit}",
                       f"--latency-us={self.latency_us}")

    def keys(self, ranks):
        """Of a run that simulates them."""
        return {**self.rates, "simulate.hosts": self.hosts(ranks), "simulate.cores": self.cores,
                "simulate.link-gbit": self.link_gbit, "simulate.latency-us": self.latency_us}


def planned(options, launch, changes, *arguments):
    """What `hanse plan` says, behind the words that start its ranks."""
    return json.loads(ask("plan", options.job, "--json", *arguments,
                          *option_words({**options.common, **changes}), launch=launch))


def rates_now(options, launch):
    """How long a sample and a byte between ranks take here while every core is busy, by the ranks
    that `launch` starts."""
    plan = planned(options, launch, {})
    return {SAMPLE_US: 1e6 * plan["sample_seconds"], "simulate.memory-gbit": plan["memory_gbit"],
            "simulate.memory-latency-us": plan["memory_latency_us"]}


def measured_rates(options, launch):
    """rates_now() of the first time: all rows of a folder have the same."""
    path = options.out / "rates.json"
    if not path.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rates_now(options, launch), indent=1))
    return json.loads(path.read_text())


def planned_row(plan, rates):
    """Participants, seconds, those of the phases of run_files.PHASES, bytes and memory, with the time
    of a sample that `rates` has in the place of the one that the plan has found for itself."""
    network = plan["exchange_seconds"] - plan["server_seconds"] + plan["small_seconds"]
    train_s = plan["train_seconds"] * 1e-6 * rates[SAMPLE_US] / plan["sample_seconds"]
    told = {"training": train_s, "communication": max(0.0, network),
            "inner products": plan.get("gram_seconds", 0), "server step": plan["server_seconds"]}
    return {"participants": plan["participants"],
            "seconds": plan["round_seconds"] + train_s - plan["train_seconds"],
            "phases": [told.get(name, 0) for name, _ in PHASES], "bytes": plan["sent_bytes"],
            "memory_bytes": plan["peak_bytes"], "model_digest": ""}


def disturbance(before, after, ratios):
    """What shows that other work disturbed the measurement: the time of a sample before the runs and
    behind them (None: nothing ran), and simulated over measured rounds, {ranks: ratio}."""
    words = []
    if after and apart(after[SAMPLE_US] / before[SAMPLE_US]):
        words.append(f"a sample took {before[SAMPLE_US]:.4g} us before the runs and "
                     f"{after[SAMPLE_US]:.4g} us behind them")
    off = [f"{ratio:.2f} times on {ranks}" for ranks, ratio in ratios.items() if apart(ratio)]
    if off:
        words.append(f"the simulated round takes the measured one {', '.join(off)} ranks")
    return "; ".join(words)


def apart(ratio):
    return max(ratio, 1 / ratio) > TOLERATED


def bottleneck(parts, even_s):
    """Of a round: what takes longest. `parts` by run_files.PHASES; `even_s`: of the training, if it
    could be divided evenly among the ranks."""
    of = dict(zip((name for name, _ in PHASES), parts))
    named = {"training": min(of["training"], even_s),
             "the longest client": max(0, of["training"] - even_s), "the link": of["communication"],
             "rank 0": of["drawing"] + of["server step"] + of["bookkeeping"],
             "losses": of["losses"], "inner products": of["inner products"]}
    return max(named, key=named.get)
