"""Tries a rule written in Python on recorded numbers, without training.

    class Aggregator:
        needs = {"losses"}                   # of sizes, losses, norms, gram, layers, rates
        def mix(self, r):                    # a coefficient a participant, used as it is
            return r.lam * r.losses          # r.round, r.clients, r.samples, r.lam, ...

    class Aggregator:                        # by columns (parameters) of the updates
        def columns(self, rows, weights):    # rows [participants, width], weights [participants]
            return weights @ rows            # the step [width]

    class Sampler:
        def draw(self, round, available, rng):            # distinct clients, and their weights
            return available[:self.per_round], [1] * self.per_round
        def observe(self, clients, feedback, losses): ...

    class Sampler:                           # that looks at losses first
        needs = {"candidates"}
        def candidates(self, round, available, rng):      # whose losses draw() gets
            return available[:2 * self.per_round]
        def draw(self, round, candidates, losses, rng):
            return candidates[losses.argsort()[-self.per_round:]], [1] * self.per_round

    class Optimizer:                         # of the server
        def step(self, theta, update):
            return theta + update

Arrays are read-only float64 (clients: int64; theta and update: float32, and may be changed),
rounds count from 1. Each class may also have __init__(self, clients, args), with the number of
clients and a dict of texts, state(self), a dict of arrays, and load(self, state), which gets them
back. A sampler is told the most that it may draw, sampler.per-round, as its attribute per_round,
and the clients' training samples as its attribute sizes.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Connection, Listener
from types import SimpleNamespace
from typing import Any

from .program import HanseError, Path, Refused, replay

BY_SAMPLES = ("formula", "oort", "power-of-choice")  # whose traces begin with the clients' samples
CALLED_RULE = pathlib.Path(__file__).with_name("called_rule.py")


class Impure(HanseError):
    """A rule whose decisions do not follow from its inputs and its saved state alone."""


def rule_test(rule: type, trace: Path | Mapping[str, Any], args: Mapping[str, Any] | None = None,
              *, seed: int | None = None) -> dict[str, Any]:
    """Runs a rule over a trace, and returns what it decides: {"rounds": [...]}.

    `rule`: a class with mix() (an aggregator: {"weights": ...} a round), columns() (one by columns:
    {"update": ...} of the trace's "rows"), draw() and observe() (a sampler: {"clients": ...,
    "draw_weights": ...}) or step() (a server optimizer: {"theta": ...}).
    `trace`: what `run.trace = true` writes for a rule of that family (jobs/replay.md), as a file or
    as what would stand in it; of an optimizer {"theta": [...], "updates": [[...], ...]}.
    A sampler draws by itself; it observes what the trace has of those that it draws, and nothing of
    the others, and of its candidates draw() gets those whose loss the trace has. `args` is the rule's, with texts as values; `seed` is that of the run, by default
    the trace's or 1.

    `hanse replay --check` plays the trace, and the rule is called in this process: as in a run, and
    so that in every round a new object goes on from the state that the last one has saved. Raises
    Impure with the round and the first number that differs, what the rule itself raises, and
    Refused for a malformed trace or a decision that a run would refuse.
    """
    with tempfile.TemporaryDirectory(prefix="hanse-") as folder:
        file, address = pathlib.Path(folder, "rule.py"), os.path.join(folder, "calls")
        file.write_text(CALLED_RULE.read_text().replace('ADDRESS = ""', f"ADDRESS = {address!r}"))
        given = _trace_of(rule, _read(trace), str(file), seed)
        words = {key: str(value) for key, value in (args or {}).items()}
        calls = _Calls(rule, words)
        with Listener(address) as listener, ThreadPoolExecutor(1) as pool:
            playing = pool.submit(replay, given, check=True)
            playing.add_done_callback(lambda _: Client(address).close())  # ends accept()
            while not playing.done():
                with listener.accept() as program, contextlib.suppress(EOFError, OSError):
                    calls.answer(program)
        try:
            rounds = playing.result()["rounds"]
        except HanseError as error:
            text = str(error).replace(str(file), rule.__name__)
            if "the rule is not pure" in text:
                raise Impure(text.replace("the rule", rule.__name__, 1)) from None
            raise calls.error or type(error)(text) from None
    if "sampler.kind" in given["rule"]:
        return {"rounds": [{"clients": one["draws"], "draw_weights": one["weights"]}
                           for one in rounds]}
    decided = "theta" if "theta" in given else "weights"
    if callable(getattr(rule, "columns", None)):
        decided = "update"
    return {"rounds": [{decided: one[decided]} for one in rounds]}


def _read(trace: Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(trace, Mapping):
        return trace
    try:
        return json.loads(pathlib.Path(trace).read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"{os.fspath(trace)}: {error}") from None


def _trace_of(rule: type, trace: Mapping[str, Any], path: str, seed: int | None) -> dict[str, Any]:
    """The trace for a rule of that file in the place of the one that it was recorded of."""
    if callable(getattr(rule, "mix", None)) or callable(getattr(rule, "columns", None)):
        return {**trace, "rule": {"aggregator.kind": "python", "aggregator.path": path}}
    if callable(getattr(rule, "draw", None)):
        clients, recorded = int(trace.get("clients", 1)), trace.get("rule", {})
        most = int(recorded.get("sampler.per-round", clients))
        if recorded.get("sampler.kind") in BY_SAMPLES and "initial" in trace:
            trace = {"samples": trace["initial"], **trace}
        return {**trace, "seed": trace.get("seed", 1) if seed is None else seed, "own_draws": True,
                "rounds": [{"losses": one.get("feedback"), **one}
                           for one in trace.get("rounds", [])],
                "rule": {"sampler.kind": "python", "sampler.path": path,
                         "sampler.per-round": min(most, clients)}}
    if callable(getattr(rule, "step", None)):
        return {"rule": {"server.optimizer": "python", "server.path": path},
                "clients": trace.get("clients", 1), "theta": trace["theta"],
                "rounds": [{"update": update} for update in trace["updates"]]}
    raise Refused(f"{rule.__name__} is no rule; hint: an aggregator has mix() or columns(), a "
                  "sampler draw() and observe(), a server optimizer step()")


class _Calls:
    """The objects of a rule's class, and the calls of the program to them."""

    def __init__(self, rule: type, args: dict[str, str]) -> None:
        self.rule, self.args = rule, args
        self.made: list[Any] = []
        self.error: Exception | None = None  # the last that the rule itself raised

    def answer(self, program: Connection) -> None:
        """Until it has ended. Raises EOFError then."""
        while True:
            number, method, given = program.recv()
            try:
                work = getattr(self, f"_{method}", None) or getattr(self.made[number], method)
                if method in ("draw", "candidates"):
                    given = (*given, _stream(program))
                if method == "observe":
                    work = functools.partial(_observe, work)
                program.send(("returns", work(*_frozen(method, given))))
            except Exception as error:  # pylint: disable=broad-except  # the rule's own
                self.error = error
                program.send(("raises", f"{type(error).__name__}: {error}"))

    def _has(self) -> list[str]:
        return [name for name in ("mix", "columns", "observe", "observe_late", "candidates",
                                  "state", "load") if hasattr(self.rule, name)]

    def _make(self, clients: int, per_round: int | None, sizes: Any) -> tuple[int, Any]:
        made = self.rule.__new__(self.rule)
        if per_round is not None:
            made.per_round, made.sizes = per_round, sizes
        if self.rule.__init__ is not object.__init__:
            made.__init__(clients, dict(self.args))
        self.made.append(made)
        return len(self.made) - 1, getattr(made, "needs", ())


def _stream(program: Connection) -> SimpleNamespace:
    """The program's random numbers of a round."""
    def ask(name: str, *given: Any) -> Any:
        program.send((name, given))
        return program.recv()
    def choice(n: int, k: int, p: Any = None) -> Any:
        return ask("choice", n, k, p)

    return SimpleNamespace(choice=choice, **{
        name: functools.partial(ask, name)
        for name in ("random", "normal", "integers", "permutation")})


def _observe(observe: Callable[..., Any], clients: Any, feedback: Any, losses: Any,
             more: dict[str, Any]) -> None:
    """Tells a method of `more` what it names."""
    named = inspect.signature(observe).parameters
    observe(clients, feedback, losses, **{name: more[name] for name in more if name in named})


def _frozen(method: str, given: tuple[Any, ...]) -> list[Any]:
    """As a run gives them: arrays that are read-only but for step() and columns(), and mix()'s report."""
    for one in given if method not in ("step", "load", "columns") else ():
        for array in one.values() if isinstance(one, dict) else (one,):
            if hasattr(array, "flags"):
                array.flags.writeable = False
    return [SimpleNamespace(**given[0])] if method == "mix" else list(given)
