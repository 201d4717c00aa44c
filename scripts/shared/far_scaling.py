"""More ranks than there are cores, for scripts/bench-scaling: runs whose training is only declared,
and what `hanse plan` estimates."""
import dataclasses
import json
import math
import subprocess

from . import sweeping
from .sweeping import Refused


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
    keys = {**options.common, **changes}
    said = subprocess.run([*launch, str(sweeping.find_program()), "plan", options.job, "--json", *arguments,
                           *(f"--{key}={value}" for key, value in keys.items())],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if said.returncode:
        lines = said.stderr.strip().splitlines() or ["hanse plan said nothing"]
        raise Refused(lines[-1].split("error: ")[-1])
    return json.loads(said.stdout)


def measured_rates(options, launch):
    """How long a sample and a byte between ranks take here while every core is busy, by the ranks
    that `launch` starts; measured once a folder."""
    path = options.out / "rates.json"
    if not path.exists():
        plan = planned(options, launch, {})
        path.write_text(json.dumps({
            "simulate.sample-us": 1e6 * plan["sample_seconds"],
            "simulate.memory-gbit": plan["memory_gbit"],
            "simulate.memory-latency-us": plan["memory_latency_us"]}, indent=1))
    return json.loads(path.read_text())


def planned_row(plan):
    """Participants, seconds, those of the phases of run_files.PHASES, bytes and memory."""
    network = plan["exchange_seconds"] - plan["server_seconds"] + plan["small_seconds"]
    parts = [plan["train_seconds"], max(0.0, network), 0, 0, 0, plan.get("gram_seconds", 0),
             plan["server_seconds"], 0]
    return {"participants": plan["participants"], "seconds": plan["round_seconds"],
            "phases": parts, "bytes": plan["sent_bytes"], "memory_bytes": plan["peak_bytes"],
            "model_digest": ""}


def bottleneck(parts, even_s):
    """Of a round: what takes longest. `parts` by run_files.PHASES; `even_s`: of the training, if it
    could be divided evenly among the ranks."""
    named = {"training": min(parts[0], even_s), "the longest client": max(0, parts[0] - even_s),
             "the link": parts[1], "rank 0": parts[3] + parts[6] + parts[7],
             "losses": parts[4], "inner products": parts[5]}
    return max(named, key=named.get)
