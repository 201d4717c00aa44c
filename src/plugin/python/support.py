"""What the bridge (bridge.cpp) asks of Python: rules of a file, and errors in one line.

jobs/own-rules.md has the contract of the classes. Arrays arrive as bytes, in the machine's order.
"""
import contextlib
import inspect
import os
import sys
import traceback
import types

import _hanse

try:
    import numpy
except ModuleNotFoundError:
    raise ImportError(f"{sys.executable} has no numpy; install it, or choose another Python with "
                      "HANSE_PYTHON") from None

KINDS = {1: "Aggregator", 2: "Sampler", 3: "Optimizer", 4: "Metric", 5: "Attack"}
WORK = {"Aggregator": ("mix", "columns"), "Sampler": ("draw",), "Optimizer": ("step",),
        "Metric": ("__call__",), "Attack": ("attack",)}  # one of these methods
KNOWN = {"Aggregator": ("sizes", "losses", "norms", "gram", "layers", "rates"),
         "Sampler": ("candidates",), "Attack": ("last",)}

float64 = numpy.dtype("f8")
float32 = numpy.dtype("f4")
int64 = numpy.dtype("i8")
frombuffer = numpy.frombuffer
modules = {}  # by path


class Refusal(Exception):
    """What a rule may not do, with its place."""


class Report:
    """A round's participants, as mix() sees them."""


class Honest:
    """A round's honest participants, as attack() sees them."""
    __slots__ = ("round", "honest", "byzantine", "gram")


class Evaluation:
    """The evaluated clients."""
    __slots__ = ("name", "samples", "loss", "accuracy", "auroc", "train_samples", "train_loss")


class Rng:
    """Hanse's random stream of a round, during its draw."""

    @staticmethod
    def random(n):
        return frombuffer(_hanse.uniform(n), float64)

    @staticmethod
    def normal(n):
        return frombuffer(_hanse.normal(n), float64)

    @staticmethod
    def integers(low, high, n):
        return frombuffer(_hanse.integers(low, high, n), int64)

    @staticmethod
    def permutation(n):
        return frombuffer(_hanse.permutation(n), int64)

    @staticmethod
    def choice(n, k, p=None):
        """k distinct ones of 0, ..., n - 1 in the order drawn, by their probabilities."""
        if k < 0 or k > n:
            raise ValueError(f"{k} distinct ones of {n}")
        if p is None:
            return Rng.permutation(n)[:k]
        p = numpy.asarray(p, float64)
        if p.shape != (n,) or not (numpy.isfinite(p) & (p >= 0)).all():
            raise ValueError(f"p is not {n} numbers that are finite and not negative")
        if numpy.count_nonzero(p) < k:
            raise ValueError(f"{k} distinct ones, and {numpy.count_nonzero(p)} have p > 0")
        # The first of exponential times with these rates.
        with numpy.errstate(divide="ignore"):
            times = numpy.where(p > 0, -numpy.log1p(-Rng.random(n)) / p, numpy.inf)
        return numpy.argsort(times, kind="stable")[:k]


def describe(error, path):
    """The error in one line, with the rule's last line on the way to it."""
    if isinstance(error, Refusal):
        return str(error)
    place = path
    if isinstance(error, SyntaxError) and error.filename == path:
        place = f"{path}:{error.lineno}"
        error = type(error)(error.msg)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == path:
            place = f"{path}:{line}"
    text = " ".join(str(error).split())
    return f"{place}: {type(error).__name__}" + (f": {text}" if text else "")


def module_of(path):
    """The module of a file, which is run once."""
    if path not in modules:
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in sys.path:
            sys.path.insert(0, folder)
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
        module = types.ModuleType(f"hanse_rule_{len(modules)}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        exec(code, module.__dict__)
        modules[path] = module
    return modules[path]


def aligned(shape):
    """An array whose memory begins at a multiple of 64 bytes, so that no sum's order depends on where
    it lies."""
    size = 8 * shape[0] * shape[1]
    memory = numpy.empty(size + 64, numpy.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin:begin + size].view(float64).reshape(shape)


def arrays_of(told, k):
    """The numbers that a rule is told, {name: array or None}; without staleness nobody is late."""
    arrays = {name: None if data is None else frombuffer(data, dtype)
              for name, (dtype, data) in told.items()}
    if arrays["staleness"] is None:
        arrays["staleness"] = frombuffer(bytes(8 * k), int64)
    return arrays


def names_of(method, told):
    """Those of the names in `told` that a method asks for as parameters."""
    parameters = inspect.signature(method).parameters
    takes_all = any(one.kind == one.VAR_KEYWORD for one in parameters.values())
    return [name for name in told if takes_all or name in parameters]


class Rule:
    """A rule of a file, and what is checked of its answers."""

    def __init__(self, path, kind, args, clients, per_round, samples):
        self.path = path
        self.name = name = KINDS[kind]
        kind = getattr(module_of(path), name, None)
        if not isinstance(kind, type):
            raise Refusal(f"{path}: it has no class {name}")
        self.kind = kind
        self.methods = [method for method in WORK[name] if callable(getattr(kind, method, None))]
        if not self.methods:
            raise Refusal(f"{path}: its class {name} has no method {' or '.join(WORK[name])}")
        if hasattr(kind, "state") != hasattr(kind, "load"):
            raise Refusal(f"{path}: its class {name} has one of state() and load(), not both")
        self.rule = kind.__new__(kind)
        self.per_round = per_round
        if name == "Sampler":
            self.rule.per_round = per_round
            self.rule.sizes = frombuffer(samples, float64).astype(int64)
            self.rule.sizes.flags.writeable = False
        if kind.__init__ is not object.__init__:
            given = {"Metric": (), "Attack": (args,)}
            self.rule.__init__(*given.get(name, (clients, args)))
        self.observes = hasattr(kind, "observe")

    def refuse(self, method, text):
        """Says what a method has done, at the line of its definition."""
        code = getattr(getattr(self.kind, method, None), "__code__", None)
        line = f":{code.co_firstlineno}" if code and code.co_filename == self.path else ""
        raise Refusal(f"{self.path}{line}: {method}() {text}")

    def numbers(self, method, value, shape, what, dtype=float64, kinds="iufb"):
        array = numpy.asarray(value)
        if array.dtype.kind not in kinds:
            self.refuse(method, f"returns a {type(value).__name__}, not {what}")
        if array.shape != shape:
            self.refuse(method, f"returns an array of shape {array.shape}, not {what}")
        return numpy.ascontiguousarray(array, dtype)

    def needs(self):
        needs = getattr(self.rule, "needs", ())
        if isinstance(needs, str):
            raise Refusal(f"{self.path}: needs is a text, not a set of texts")
        known = KNOWN[self.name]
        for need in needs:
            if need not in known:
                raise Refusal(f"{self.path}: unknown need {need!r}; known: {', '.join(known)}")
        if "candidates" in needs and not callable(getattr(self.kind, "candidates", None)):
            raise Refusal(f"{self.path}: its class Sampler has no method candidates")
        if "columns" in self.methods and "layers" in needs:
            raise Refusal(f"{self.path}: columns() makes one step of all layers; needs has 'layers'")
        columns = 0 if "columns" not in self.methods else 1 if "mix" in self.methods else 2
        return {"columns": columns, **dict.fromkeys(needs, 1)}

    def mix(self, number, layers, clients, lam, told):
        report = Report()
        report.round = number
        report.clients = frombuffer(clients, int64)
        report.lam = frombuffer(lam, float64)
        k = len(report.clients)
        arrays = arrays_of(told, k)
        report.samples = arrays.pop("sizes")
        vars(report).update(arrays)
        layered = "layers" in getattr(self.rule, "needs", ())
        if report.gram is not None:
            report.gram = report.gram.reshape((layers, k, k) if layered else (k, k))
        shape, what = (k,), f"{k} coefficients"
        if layered:
            shape, what = (layers, k), f"{k} coefficients for each of {layers} layers"
        return self.numbers("mix", self.rule.mix(report), shape, what)

    def columns(self, k, width, values, weights):
        rows = aligned((k, width))
        rows[:] = frombuffer(values, float64).reshape((k, width))
        step = self.rule.columns(rows, frombuffer(weights, float64))
        step = self.numbers("columns", step, (width,), f"a step of {width} columns")
        wrong = numpy.flatnonzero(~numpy.isfinite(step))
        if wrong.size:
            self.refuse("columns", f"returns {step[wrong[0]]} for column {wrong[0]} of {width}")
        return step

    def ids(self, method, clients):
        size = numpy.size(clients)
        kinds = "iu" if size > 0 else "iuf"  # numpy calls an empty list one of floats
        return self.numbers(method, clients, (size,), "ids of clients", int64, kinds)

    @contextlib.contextmanager
    def asking(self, asked):
        """self.per_round is what a draw asks for, as long as it lasts: at other times a resumed
        run could not know it."""
        usual = self.rule.per_round
        if asked < self.per_round:
            self.rule.per_round = asked
        yield
        self.rule.per_round = usual

    def candidates(self, number, available, asked):
        available = frombuffer(available, int64)
        with self.asking(asked):
            named = self.ids("candidates", self.rule.candidates(number, available, Rng))
        if len(named) > len(available):
            self.refuse("candidates", f"returns {len(named)} of {len(available)} clients")
        return named

    def draw(self, number, clients, losses, asked):
        given = () if losses is None else (frombuffer(losses, float64),)
        with self.asking(asked):
            drawn = self.rule.draw(number, frombuffer(clients, int64), *given, Rng)
        if not isinstance(drawn, (tuple, list)) or len(drawn) != 2:
            self.refuse("draw", f"returns a {type(drawn).__name__}, not clients and weights")
        clients, weights = drawn
        size = numpy.size(clients)
        if size > asked:
            most = (f"sampler.per-round = {asked}" if asked == self.per_round else
                    f"the {asked} that this draw asks for, which self.per_round is during a draw")
            self.refuse("draw", f"returns {size} clients, more than {most}")
        return (self.ids("draw", clients),
                self.numbers("draw", weights, (size,), f"a weight for each of {size} clients"))

    def observe(self, clients, told):
        if not self.observes:
            return
        clients = frombuffer(clients, int64)
        arrays = arrays_of(told, len(clients))
        given = [clients, arrays.pop("feedback"), arrays.pop("losses")]
        self.rule.observe(*given, **{name: arrays[name]
                                     for name in names_of(self.kind.observe, arrays)})

    def observe_late(self, clients, durations):
        if hasattr(self.kind, "observe_late"):
            self.rule.observe_late(frombuffer(clients, int64), frombuffer(durations, float64))

    def step(self, rate, theta, update):
        theta, update = frombuffer(theta, float32), frombuffer(update, float32)
        if rate != 1:
            update *= float32.type(rate)
        size = len(theta)
        return self.numbers("step", self.rule.step(theta, update), (size,), f"{size} parameters",
                            float32)

    def attack(self, number, honest, byzantine, rows, gram):
        report = Honest()
        report.round, report.honest, report.byzantine = number, honest, byzantine
        report.gram = frombuffer(gram, float64).reshape((rows, rows))
        return self.numbers("attack", self.rule.attack(report), (rows,), f"{rows} coefficients")

    def measure(self, names, *columns):
        clients = Evaluation()
        clients.name = names
        for name, column in zip(Evaluation.__slots__[1:], columns):
            setattr(clients, name, frombuffer(column, float64))
        found = self.rule(clients)
        if not isinstance(found, dict):
            self.refuse("__call__", f"returns a {type(found).__name__}, not a dict")
        for name in found:
            if not isinstance(name, str):
                self.refuse("__call__", f"returns the name {name!r}, which is no text")
        return [(name, float(value)) for name, value in found.items()]

    def save(self):
        if not hasattr(self.kind, "state"):
            return []
        state = self.rule.state()
        if not isinstance(state, dict):
            self.refuse("state", f"returns a {type(state).__name__}, not a dict")
        arrays = []
        for name in sorted(state):
            if not isinstance(name, str) or not name or "/" in name or name == ".":
                self.refuse("state", f"returns the name {name!r}; it must be a text without '/'")
            array = numpy.asarray(state[name])
            if array.dtype.kind not in "biufcUS":
                self.refuse("state", f"returns {name!r}, which is no array of numbers or texts")
            arrays.append((name, array.dtype.str, array.shape, array.tobytes()))
        return arrays

    def load(self, arrays):
        if not hasattr(self.kind, "load"):
            if arrays:
                raise Refusal(f"{self.path}: the checkpoint has a state, and the rule no load()")
            return
        self.rule.load({name: frombuffer(data, dtype).reshape(shape).copy()
                        for name, dtype, shape, data in arrays})
