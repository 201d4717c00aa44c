"""Tries a rule written in Python on recorded numbers, without the program.

    class Aggregator:
        needs = {"losses"}                   # of sizes, losses, norms, gram, layers, rates
        def mix(self, r):                    # a coefficient a participant, used as it is
            return r.lam * r.losses          # r.round, r.clients, r.samples, r.lam, ...

    class Sampler:
        def draw(self, round, available, rng):            # distinct clients, and their weights
            return available[:self.per_round], [1] * self.per_round
        def observe(self, clients, feedback, losses): ...

    class Optimizer:                         # of the server
        def step(self, theta, update):
            return theta + update

Arrays are read-only float64 (clients: int64; theta and update: float32), rounds count from 1. Each
class may also have __init__(self, clients, args), with the number of clients and a dict of texts,
state(self), a dict of arrays, and load(self, state), which gets them back. A sampler is told the
most that it may draw, sampler.per-round, as its attribute per_round.
"""
from __future__ import annotations

import copy
import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from .program import HanseError, Path, Refused

NEEDS = {"sizes", "losses", "norms", "gram", "layers", "rates"}
SAMPLING = 4  # the purpose of the streams that draw participants


class Impure(HanseError):
    """A rule whose decisions do not follow from its inputs and its saved state alone."""


class Stream:
    """The random numbers that a sampler is given: those of the program, bit for bit."""

    def __init__(self, seed: int, round: int) -> None:
        import numpy
        # Round 0 would be the block before the first: numpy counts up before each block.
        counter = numpy.array([2**64 - 1, round - 1, 0, 0], dtype=numpy.uint64)
        key = numpy.array([seed, SAMPLING], dtype=numpy.uint64)
        self._bits = numpy.random.Philox(key=key, counter=counter)

    def _next(self) -> int:
        return int(self._bits.random_raw())

    def _uniform(self) -> float:
        return (self._next() >> 11) * 2.0**-53

    def _below(self, n: int) -> int:
        product = self._next() * n
        while product % 2**64 < 2**64 % n:  # without bias
            product = self._next() * n
        return product >> 64

    def _normal(self) -> float:
        radius = math.sqrt(-2.0 * math.log(1.0 - self._uniform()))
        return radius * math.cos(2.0 * math.pi * self._uniform())

    def random(self, n: int) -> Any:
        """n numbers, uniform in [0, 1)."""
        return _floats([self._uniform() for _ in range(n)])

    def normal(self, n: int) -> Any:
        """n standard normal numbers."""
        return _floats([self._normal() for _ in range(n)])

    def integers(self, low: int, high: int, n: int) -> Any:
        """n whole numbers, uniform in [low, high)."""
        import numpy
        return numpy.array([low + self._below(high - low) for _ in range(n)], dtype=numpy.int64)

    def permutation(self, n: int) -> Any:
        """0, ..., n - 1 in a random order."""
        import numpy
        order: list[int] = []
        for i in range(n):  # inside out: i goes to a place among the first i + 1
            place = self._below(i + 1)
            order.append(i)
            order[i], order[place] = order[place], i
        return numpy.array(order, dtype=numpy.int64)


def rule_test(rule: type, trace: Path | Mapping[str, Any], args: Mapping[str, Any] | None = None,
              *, seed: int | None = None) -> dict[str, Any]:
    """Runs a rule over a trace, and returns what it decides: {"rounds": [...]}.

    `rule`: a class with mix() (an aggregator: {"weights": ...} a round), draw() and observe() (a
    sampler: {"clients": ..., "draw_weights": ...}) or step() (a server optimizer: {"theta": ...}).
    `trace`: what `run.trace = true` writes for a rule of that family (jobs/replay.md), as a file or
    as what would stand in it; of an optimizer {"theta": [...], "updates": [[...], ...]}.
    A sampler draws by itself; it observes what the trace has of those that it draws, and nothing of
    the others. `args` is the rule's, with texts as values; `seed` is that of the run, by default
    the trace's or 1.

    The rule runs three times: twice, and once so that in every round a new object goes on from
    the state that the last one has saved. Raises Impure with the round and the first number that
    differs, and Refused for a malformed trace or a decision that the program would refuse.
    """
    given = _read(trace)
    play = _player(rule)
    seed = int(given.get("seed", 1)) if seed is None else seed
    words = {key: str(value) for key, value in (args or {}).items()}
    first = play(rule, given, words, seed, False)
    for reloads, when in ((False, "when it runs again"),
                          (True, "when a new object starts every round from the saved state")):
        try:
            difference = _difference(first, play(rule, given, words, seed, reloads))
        except Exception as error:  # pylint: disable=broad-except  # the rule's own
            difference = f"it fails: {error}, but only"
        if difference:
            raise Impure(f"{rule.__name__} is not pure: {difference} {when}; hint: what a rule "
                         "learns belongs in state(), and chance comes from draw()'s rng")
    return first


def _player(rule: type) -> Callable[..., dict[str, Any]]:
    for method, play in (("mix", _mix_rounds), ("draw", _draw_rounds), ("step", _step_rounds)):
        if callable(getattr(rule, method, None)):
            return play
    raise Refused(f"{rule.__name__} is no rule; hint: an aggregator has mix(), a sampler draw() "
                  "and observe(), a server optimizer step()")


def _read(trace: Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(trace, Mapping):
        return trace
    try:
        return json.loads(pathlib.Path(trace).read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"{os.fspath(trace)}: {error}") from None


class Instance:
    """An object of the rule's class, and another one in its place when it is renewed."""

    def __init__(self, rule: type, clients: int, args: dict[str, str], **given: Any) -> None:
        """`given`: attributes that it has before its own __init__."""
        if hasattr(rule, "state") != hasattr(rule, "load"):
            raise Refused(f"{rule.__name__} has one of state() and load(), not both")
        self._class, self._clients, self._args, self._given = rule, clients, args, given
        self.rule = self._make()

    def _make(self) -> Any:
        made = self._class.__new__(self._class)
        vars(made).update(self._given)
        if self._class.__init__ is not object.__init__:
            made.__init__(self._clients, dict(self._args))
        return made

    def renew(self) -> None:
        state = _copied(self.rule.state()) if hasattr(self.rule, "state") else {}
        self.rule = self._make()
        if hasattr(self.rule, "load"):
            self.rule.load(state)


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """As a checkpoint keeps it: arrays with their types and shapes."""
    import numpy
    return {name: numpy.array(value, copy=True) for name, value in state.items()}


def _mix_rounds(rule: type, trace: Mapping[str, Any], args: dict[str, str], seed: int,
                reloads: bool) -> dict[str, Any]:
    del seed
    unknown = set(getattr(rule, "needs", ())) - NEEDS
    if unknown:
        raise Refused(f"{rule.__name__}.needs has {', '.join(sorted(unknown))}; hint: known are "
                      f"{', '.join(sorted(NEEDS))}")
    instance = Instance(rule, _clients(trace), args)
    results = []
    for number, given in enumerate(_rounds(trace), 1):
        if reloads:
            instance.renew()
        report = _report(number, given, trace, set(getattr(rule, "needs", ())))
        layers = len(report.gram) if report.gram is not None and report.gram.ndim == 3 else 1
        weights = _decided(instance.rule.mix(report), layers * len(report.clients),
                           f"rounds[{number - 1}]", "mix() returns a coefficient a participant")
        results.append({"weights": weights})
    return {"rounds": results}


def _report(number: int, given: Mapping[str, Any], trace: Mapping[str, Any],
            needs: set[str]) -> SimpleNamespace:
    import numpy
    where = f"rounds[{number - 1}]"
    wants_gram = needs & {"gram", "layers"}
    everyone = range(len(given["gram"]) if wants_gram and "gram" in given else _clients(trace))
    clients = _frozen(numpy.array(given.get("participants", everyone), dtype=numpy.int64))
    k = len(clients)
    sizes = _floats(given.get("sizes", numpy.ones(k)))
    report = SimpleNamespace(
        round=number, clients=clients, samples=_frozen(sizes),
        lam=_frozen(sizes / trace.get("samples", sizes.sum() or 1)),
        draw_weights=_frozen(_floats(given.get("draw_weights", numpy.ones(k)))))
    for name in ("losses", "norms", "rates", "gram"):
        wanted = name in needs or (name == "gram" and "layers" in needs)
        if wanted and name not in given:
            raise Refused(f"{where} has no {name}, which the rule needs")
        setattr(report, name, _frozen(_floats(given[name])) if wanted else None)
    if "layers" in needs and report.gram.ndim == 2:
        report.gram = _frozen(report.gram[None])
    return report


def _draw_rounds(rule: type, trace: Mapping[str, Any], args: dict[str, str], seed: int,
                 reloads: bool) -> dict[str, Any]:
    import numpy
    clients = _clients(trace)
    most = int(trace.get("rule", {}).get("sampler.per-round", clients))
    instance = Instance(rule, clients, args, per_round=min(most, clients))
    results = []
    for number, given in enumerate(_rounds(trace), 1):
        if reloads:
            instance.renew()
        where = f"rounds[{number - 1}]"
        available = _frozen(numpy.array(sorted(given.get("available", range(clients))),
                                        dtype=numpy.int64))
        drawn, weights = instance.rule.draw(number, available, Stream(seed, number))
        drawn = numpy.asarray(drawn)
        if len(set(drawn.tolist())) != len(drawn) or not set(drawn.tolist()) <= set(
                available.tolist()) or len(drawn) > most:
            raise Refused(f"{where}: draw() returned the clients {drawn.tolist()}; hint: at most "
                          f"{most} distinct ones of the available")
        weights = _decided(weights, len(drawn), where, "draw() returns a weight a client, >= 0")
        if any(weight < 0 for weight in weights):
            raise Refused(f"{where}: draw() returned the weights {weights}; hint: they are >= 0")
        results.append({"clients": drawn.tolist(), "draw_weights": weights})
        recorded = {client: (a, loss) for client, a, loss in
                    zip(given["draws"], given["feedback"], given.get("losses", given["feedback"]))}
        seen = [client for client in drawn.tolist() if client in recorded]
        if hasattr(instance.rule, "observe"):
            instance.rule.observe(_frozen(numpy.array(seen, dtype=numpy.int64)),
                                  _frozen(_floats([recorded[client][0] for client in seen])),
                                  _frozen(_floats([recorded[client][1] for client in seen])))
    return {"rounds": results}


def _step_rounds(rule: type, trace: Mapping[str, Any], args: dict[str, str], seed: int,
                 reloads: bool) -> dict[str, Any]:
    del seed
    import numpy
    theta = numpy.array(trace["theta"], dtype=numpy.float32)
    instance = Instance(rule, int(trace.get("clients", 1)), args)
    results = []
    for number, update in enumerate(trace["updates"]):
        if reloads:
            instance.renew()
        stepped = instance.rule.step(_frozen(theta.copy()),
                                     _frozen(numpy.array(update, dtype=numpy.float32)))
        where = f"updates[{number}]"
        theta = numpy.array(_decided(stepped, len(theta), where, "step() returns the parameters"),
                            dtype=numpy.float32)
        results.append({"theta": theta.tolist()})
    return {"rounds": results}


def _clients(trace: Mapping[str, Any]) -> int:
    if "clients" not in trace:
        raise Refused("the trace has no field 'clients'")
    return int(trace["clients"])


def _rounds(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "rounds" not in trace:
        raise Refused("the trace has no field 'rounds'")
    return copy.deepcopy(list(trace["rounds"]))


def _floats(values: Any) -> Any:
    import numpy
    return numpy.array(values, dtype=numpy.float64)


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _decided(values: Any, count: int, where: str, expected: str) -> list[float]:
    """The numbers that a rule returns. Raises Refused unless there are `count` finite ones."""
    import numpy
    try:
        array = numpy.asarray(values, dtype=numpy.float64).ravel()
    except (TypeError, ValueError) as error:
        raise Refused(f"{where}: {error}; hint: {expected}") from None
    if len(array) != count:
        raise Refused(f"{where}: {len(array)} numbers, not {count}; hint: {expected}")
    if not numpy.isfinite(array).all():
        place = int(numpy.flatnonzero(~numpy.isfinite(array))[0])
        raise Refused(f"{where}: number {place} is {array[place]}; hint: {expected}")
    return array.tolist()


def _difference(one: Any, other: Any, where: str = "") -> str:
    """The first number in which two results differ; nothing when they do not."""
    if isinstance(one, Mapping):
        pairs = [(f"{where}.{key}".lstrip("."), one[key], other[key]) for key in one]
    elif isinstance(one, list) and len(one) == len(other):
        pairs = [(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other))]
    else:
        same = one == other and math.copysign(1, 0 if isinstance(one, list) else one) == \
            math.copysign(1, 0 if isinstance(other, list) else other)
        return "" if same else f"{where} is {one}, but {other}"
    return next(filter(None, (_difference(a, b, here) for here, a, b in pairs)), "")
