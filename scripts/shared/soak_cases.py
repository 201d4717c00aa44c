"""What scripts/soak tries: a random job, and where it is disturbed. A seed gives both."""
import dataclasses
import random

# Families from which a job may take a rule of another case, and the section that it takes.
SECTIONS = {"samplers": "sampler.", "aggregators": "aggregator.", "updates": "client.",
            "optimizers": "server."}
# Families whose runs may have any number of rounds.
ANY_ROUNDS = (*SECTIONS, "partitions")
MOST_RANKS = 3


@dataclasses.dataclass
class Disturbance:
    """The run is killed or asked to stop at a moment: 0 is its start, 1 the first round, 2 the end."""
    ranks: int
    how: str
    moment: float


@dataclasses.dataclass
class Plan:
    seed: int
    name: str
    job: object  # its file; None where all options are given
    options: dict
    disturbances: list
    last_ranks: int  # of the start that comes to the end
    places: tuple = ()  # numbers of ranks on which it also runs undisturbed, beside one

    def most_ranks(self):
        return max(self.last_ranks, *(one.ranks for one in self.disturbances))

    def text(self):
        steps = [f"{one.how} at {one.moment:.2f} on {one.ranks}" for one in self.disturbances]
        return f"{self.name}, {', '.join(steps)}, ends on {self.last_ranks}"


def family(case):
    return case.name.split("/")[0]


def mixed(draw, case, cases):
    """The case's options, with sections of other cases; which have been mixed in."""
    options, names = dict(case.options), [case.name]
    if family(case) not in ANY_ROUNDS:
        return options, names
    for other_family, section in SECTIONS.items():
        if other_family == family(case) or draw.random() < 0.6:
            continue
        other = draw.choice([other for other in cases if family(other) == other_family])
        options.update({key: value for key, value in other.options.items()
                        if key.startswith(section)})
        names.append(other.name)
    options["run.rounds"] = draw.randint(4, 300)
    options["evaluate.every"] = draw.choice([0, 1, 7])
    return options, names


def make_plan(seed, cases):
    """The plan of a seed. `cases` are of digest_cases, the same ones in the same order each time."""
    draw = random.Random(seed)
    options, names = mixed(draw, draw.choice(cases), cases)
    by_name = {case.name: case for case in cases}
    options["run.seed"] = draw.randint(0, 10 ** 6)
    options["checkpoint.every"] = draw.choice([0, 1, 2, 5, 20])
    options["checkpoint.keep"] = draw.choice([0, 1, 2])
    disturbances = [Disturbance(draw.randint(1, MOST_RANKS), draw.choice(["kill", "stop"]),
                                draw.choice([draw.uniform(0, 1), draw.uniform(1, 2)]))
                    for _ in range(draw.randint(1, 3))]
    return Plan(seed, " + ".join(names), by_name[names[0]].job, options, disturbances,
                draw.randint(1, MOST_RANKS))
