"""The nodes of an exported graph: the operators that torch has called, rewritten to operators that every LibTorch
from 1.13 on has and whose random numbers Hanse draws. torch is imported when it is needed."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from .program import Refused

# Views and parts of the first argument, which their schemas do not say.
HIDDEN_VIEWS = {"aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes",
                "aten::unsafe_chunk"}
UNIFORM = {"aten::rand", "aten::rand_like"}
FRESH = {"aten::empty", "aten::empty_like", "aten::new_empty", "aten::zeros", "aten::zeros_like",
         "aten::new_zeros", "aten::ones", "aten::ones_like", "aten::new_ones", "aten::full",
         "aten::full_like", "aten::new_full"}
CHOICE = "aten::is_set_to"   # the mark of a tensor whose number the module has asked for
SUMS = {"aten::add", "aten::add_"}
PRODUCTS = {"aten::bmm", "aten::matmul", "aten::_unsafe_view", "aten::view", "aten::mul",
            "aten::baddbmm"}
RANDOM = {"aten::rand", "aten::rand_like", "aten::randn", "aten::randn_like", "aten::randint",
          "aten::randint_like", "aten::randperm", "aten::normal", "aten::normal_", "aten::uniform_",
          "aten::uniform", "aten::random_", "aten::random", "aten::exponential_", "aten::cauchy_",
          "aten::log_normal_", "aten::geometric_", "aten::multinomial", "aten::poisson",
          "aten::binomial", "aten::_fused_dropout", "aten::rrelu_with_noise",
          "aten::rrelu_with_noise_", "aten::bernoulli", "aten::bernoulli_"}


@dataclasses.dataclass(eq=False)
class Node:
    """One call. `op` is the operator's name with its namespace, "item", "input" or "constant";
    arguments are Node, lists and plain values; `value` is the tensor of a constant, `overload` its
    name, and of an input its kind; `shape`, `dtype` and `contiguous` tell of a result that is one
    tensor."""
    op: str
    args: list[Any] = dataclasses.field(default_factory=list)
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    overload: str = ""
    schema: Any = None
    value: Any = None
    shape: tuple[int, ...] | None = None
    dtype: Any = None
    contiguous: bool = False

    @property
    def given(self) -> bool:
        """Whether it is there before the graph runs."""
        return self.op in ("input", "constant")


@dataclasses.dataclass(eq=False)
class Graph:
    """`nodes` in their order, inputs and constants among them; `outputs` by their names, of which a
    list may hold None."""
    nodes: list[Node]
    outputs: dict[str, Any]

    @property
    def constants(self) -> list[Node]:
        return [node for node in self.nodes if node.op == "constant"]

    @property
    def inputs(self) -> list[Node]:
        return [node for node in self.nodes if node.op == "input"]

    @property
    def calls(self) -> list[Node]:
        return [node for node in self.nodes if not node.given]

    def reads(self, node: Node) -> bool:
        return any(node in nodes_in([call.args, call.kwargs]) for call in self.calls)

    def replace(self, others: Mapping[Node, Node]) -> None:
        """Calls and outputs read other nodes in the place of those named."""
        def other(node: Node) -> Node:
            return others.get(node, node)

        for node in self.calls:
            node.args, node.kwargs = replaced(node.args, other), replaced(node.kwargs, other)
        self.outputs = replaced(self.outputs, other)


def replaced(value: Any, change: Callable[[Node], Any]) -> Any:
    """`value` with change(node) in the place of each node in it."""
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [replaced(part, change) for part in value]
    if isinstance(value, dict):
        return {name: replaced(part, change) for name, part in value.items()}
    return value


def nodes_in(value: Any) -> list[Node]:
    found: list[Node] = []
    replaced(value, found.append)
    return found


def cleaned(graph: Graph) -> Graph:
    """The same in operators of the format: random ones become hanse::keep, and what is written
    belongs to the graph. Raises Refused for a random operator that has no such form."""
    graph = _rewritten(graph)
    graph = _live(_own_writes(graph))
    for node in graph.calls:
        _require_allowed(node)
    return graph


def _rewritten(graph: Graph) -> Graph:
    """Each node as its rules below say."""
    now: dict[Node, Any] = {}   # a list where the items of the old node are nodes of their own
    nodes: list[Node] = []
    sources = dependence(graph, lambda node: node.overload == "x" and node.op == "input")

    def current(node: Node) -> Any:
        return now.get(node, node)

    for node in graph.nodes:
        if node.given:
            nodes.append(node)
            continue
        old_args = node.args
        if node.op == "item" and isinstance(now.get(old_args[0]), list):
            now[node] = now[old_args[0]][old_args[1]]
            continue
        node.args, node.kwargs = replaced(node.args, current), replaced(node.kwargs, current)
        rule = RULES.get(node.op)
        new = rule(node, sources) if rule else None
        if new is None:
            nodes.append(node)
            continue
        made, result = new
        nodes += made
        now[node] = result
        if node.op == "aten::bernoulli_":   # who reads the tensor that it filled reads the mask
            now[old_args[0]] = now[node.args[0]] = result
    return Graph(nodes, replaced(graph.outputs, current))


def dependence(graph: Graph, on: Callable[[Node], bool]) -> dict[Node, bool]:
    """For each node whether it depends on one of those that `on` chooses."""
    depends: dict[Node, bool] = {}
    for node in graph.nodes:
        depends[node] = on(node) or any(depends[read]
                                        for read in nodes_in([node.args, node.kwargs]))
    return depends


def _require_fixed_choices(graph: Graph, copies: set[Node]) -> None:
    """Of what a step changes, and of samples, the module may not ask for numbers."""
    depends = dependence(graph, lambda node: node in copies or
                         node.op == "input" and node.overload != "buffer")
    for node in graph.calls:
        if depends[node]:
            _require_known_shape(node)
    if any(node.op == CHOICE and depends[node] for node in graph.nodes):
        raise Refused("the module chooses what it computes by values of samples or of what "
                      "training changes, which a graph cannot; hint: torch.where instead of if, or "
                      "an option that leaves it out")


def _require_known_shape(node: Node) -> None:
    import torch

    masks = [index for index in nodes_in(node.args[1:]) if index.dtype == torch.bool]
    if torch.Tag.dynamic_output_shape in _tags(node) and (node.op != "aten::index" or masks):
        raise Refused(f"{node.op} gives a shape that depends on values, which a graph does not "
                      "have; hint: torch.where")


def _tags(node: Node) -> list[Any]:
    import torch

    packet = getattr(torch.ops.aten, node.op.removeprefix("aten::"), None)
    return getattr(getattr(packet, node.overload or "default", None), "tags", [])


def _require_allowed(node: Node) -> None:
    """Raises Refused for what readers of graphs do not allow."""
    import torch

    if node.op in RANDOM or torch.Tag.nondeterministic_seeded in _tags(node) and _draws(node):
        raise Refused(f"the module draws random numbers by {node.op}, which a graph does not have; "
                      "hint: torch.nn.Dropout and tensor.bernoulli_(p) are drawn by Hanse")
    _require_known_shape(node)
    if node.op in ("aten::as_strided", "aten::as_strided_"):
        raise Refused(f"{node.op} is not in graphs; hint: view, transpose and slices")
    if node.dtype is not None and node.dtype.is_complex:
        raise Refused(f"{node.op} computes complex numbers, which graphs do not have; hint: "
                      "kind='torchscript'")


def _draws(node: Node) -> bool:
    """Whether an operator that may draw does: attention draws where its dropout_p is not 0."""
    return "attention" not in node.op


Made = tuple[list[Node], Any]


def call(name: str, *args: Any, like: Node | None = None, **kwargs: Any) -> Node:
    """A node of aten's operator "name.overload", of the shape of `like`."""
    import torch

    op, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.aten, op), overload or "default")._schema
    return Node(f"aten::{op}", list(args), kwargs, overload, schema,
                shape=like.shape if like else None, dtype=like.dtype if like else None)


def keep(node: Node, p: float, kind: str = "float") -> Made:
    """1 with probability p, else 0, in the shape and the type of `node`."""
    import torch

    if node.shape is None:
        raise Refused(f"the shape of what {node.op} draws is not known")
    mask = Node("hanse::keep", [list(node.shape), float(p), kind], shape=node.shape)
    if kind == "bool" or node.dtype in (None, torch.float32):
        return [mask], mask
    typed = call("_to_copy", mask, dtype=node.dtype, like=node)
    return [mask, typed], typed


def _bernoulli(node: Node, _: dict[Node, bool]) -> Made | None:
    argument = node.args[1] if len(node.args) > 1 else None
    if node.op == "aten::bernoulli_" and node.args[0].op not in FRESH:
        return None
    if isinstance(argument, Node) or (argument is None and node.op == "aten::bernoulli"):
        source = argument if isinstance(argument, Node) else node.args[0]
        place = {"aten::full": 1, "aten::full_like": 1, "aten::new_full": 2}.get(source.op)
        if place is None or not isinstance(source.args[place], (int, float)):
            return None
        return keep(node, source.args[place])
    return keep(node, 0.5 if argument is None else argument)


def _floor(node: Node, _: dict[Node, bool]) -> Made | None:
    """floor(p + u) of u uniform in [0, 1), as layers of stochastic depth draw their masks."""
    total = node.args[0]
    if total.op not in SUMS or len(total.args) != 2:
        return None
    for uniform, p in (total.args, total.args[::-1]):
        if isinstance(uniform, Node) and uniform.op in UNIFORM and isinstance(p, float) and p <= 1:
            return keep(node, p)
    return None


def _native_dropout(node: Node, _: dict[Node, bool]) -> Made | None:
    import torch

    x, p, train = [*node.args, True][:3]
    if train is False:
        ones = call("ones_like", x, dtype=torch.bool, like=x)
        return [ones], [x, ones]
    made, mask = keep(x, 1.0 - p, "bool")
    kept = call("mul.Tensor", x, mask, like=x)
    scaled = call("mul.Scalar", kept, 0.0 if p == 1 else 1.0 / (1.0 - p), like=x)
    return [*made, kept, scaled], [scaled, mask]


def _native_dropout_backward(node: Node, _: dict[Node, bool]) -> Made:
    gradient, mask, scale = node.args
    kept = call("mul.Tensor", gradient, mask, like=gradient)
    scaled = call("mul.Scalar", kept, float(scale), like=gradient)
    return [kept, scaled], scaled


def _safe_softmax(node: Node, depends: dict[Node, bool]) -> Made:
    """A softmax that gives zeros where a whole row is -inf, as a mask that the samples bring can
    make it; where the mask does not depend on them the plain softmax."""
    scores, dim = node.args[:2]
    plain = call("_softmax", scores, dim, False, like=node)
    if scores.op in PRODUCTS or scores.op in SUMS and not any(
            depends.get(mask, True) for mask in nodes_in(scores.args[1:])):
        return [plain], plain
    hidden = call("eq.Scalar", scores, -float("inf"), like=node)
    empty = call("all.dim", hidden, dim, True)
    safe = call("masked_fill.Scalar", plain, empty, 0.0, like=node)
    return [plain, hidden, empty, safe], safe


def _view(node: Node, _: dict[Node, bool]) -> Made:
    """Strides that were those of the trace are left to the operator."""
    view = call("view", *node.args[:2], like=node)
    return [view], view


def _strided(node: Node, _: dict[Node, bool]) -> Made | None:
    """Strides in which the entries stand in C's order make a view of that shape."""
    source, shape, strides = node.args[:3]
    if not source.contiguous or node.args[3:] not in ([], [0], [None]) or \
            math.prod(shape) != math.prod(source.shape):
        return None
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != step:
            return None
        step *= size
    return _view(node, _)


def _transposed(node: Node, _: dict[Node, bool]) -> Made | None:
    twice = node.args[0].op == node.op and node.args[0].args[1:] == node.args[1:]
    return ([], node.args[0].args[0]) if twice else None


def _same(node: Node, _: dict[Node, bool]) -> Made:
    return [], node.args[0]


def _copy(node: Node, _: dict[Node, bool]) -> Made:
    copy = call("clone", node.args[0], like=node)
    return [copy], copy


RULES: dict[str, Callable[[Node, dict[Node, bool]], Made | None]] = {
    "aten::bernoulli": _bernoulli, "aten::bernoulli_": _bernoulli,
    "aten::floor": _floor, "aten::floor_": _floor,
    "aten::native_dropout": _native_dropout,
    "aten::native_dropout_backward": _native_dropout_backward,
    "aten::_safe_softmax": _safe_softmax,
    "aten::_reshape_alias": _view, "aten::as_strided": _strided,
    "aten::as_strided_": _strided, "aten::t": _transposed, "aten::transpose": _transposed,
    "aten::detach": _same, "aten::alias": _same, "aten::lift_fresh": _same, "aten::lift": _same,
    "aten::lift_fresh_copy": _copy, "aten::detach_copy": _copy, "aten::alias_copy": _copy,
}


def _written(node: Node) -> list[Node]:
    """The arguments that a call writes into."""
    if node.op == "aten::native_batch_norm":   # its schema does not say so
        return [part for part in node.args[3:5] if part is not None] if node.args[5] else []
    if node.schema is None:
        return []
    found: list[Node] = []
    for place, argument in enumerate(node.schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            found += nodes_in(given)
    return found


def _storages(graph: Graph) -> dict[Node, set[Node]]:
    """For each node those whose memory its result may share."""
    memory: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        sources: list[Node] = []
        if node.op == "item" or node.op in HIDDEN_VIEWS:
            sources = [node.args[0]]
        elif node.schema is not None and any(r.alias_info is not None
                                             for r in node.schema.returns):
            for place, argument in enumerate(node.schema.arguments):
                if argument.alias_info is not None:
                    sources += nodes_in(node.args[place] if place < len(node.args)
                                        else node.kwargs.get(argument.name))
        memory[node] = set().union(*(memory[part] for part in sources)) if sources else {node}
    return memory


def _own_writes(graph: Graph) -> Graph:
    """What stands before the graph runs and is written into is copied at its start."""
    memory = _storages(graph)
    targets = {root for node in graph.calls for target in _written(node)
               for root in memory[target] if root.given}
    copies = {node: call("clone", node, like=node) for node in graph.nodes if node in targets}
    graph.replace(copies)
    given = [node for node in graph.nodes if node.given]
    graph = Graph([*given, *copies.values(), *graph.calls], graph.outputs)
    _require_fixed_choices(graph, set(copies.values()))
    return graph


def _live(graph: Graph) -> Graph:
    """Without calls that nothing needs: neither an output nor who reads what they write."""
    memory = _storages(graph)
    live: set[Node] = set()
    roots: set[Node] = set()
    wanted = nodes_in(graph.outputs)
    while wanted:
        while wanted:
            node = wanted.pop()
            if node not in live:
                live.add(node)
                roots |= memory[node]
                wanted += nodes_in([node.args, node.kwargs])
        wanted = [node for node in graph.calls if node not in live
                  and any(memory[target] & roots for target in _written(node))]
    return Graph([node for node in graph.nodes if node.op == "input" or node in live],
                 graph.outputs)
