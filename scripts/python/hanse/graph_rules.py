"""Operators that a graph does not hold as operators of the format: random ones become hanse::keep,
whose masks Hanse draws."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import graph_views as views
from .graph_nodes import Graph, Node, call, dependence, nodes_in, replaced
from .program import Refused

UNIFORM = {"aten::rand", "aten::rand_like"}
FRESH = {"aten::empty", "aten::empty_like", "aten::new_empty", "aten::zeros", "aten::zeros_like",
         "aten::new_zeros", "aten::ones", "aten::ones_like", "aten::new_ones", "aten::full",
         "aten::full_like", "aten::new_full"}
SUMS = {"aten::add", "aten::add_"}
PRODUCTS = {"aten::bmm", "aten::matmul", "aten::_unsafe_view", "aten::view", "aten::mul",
            "aten::baddbmm"}

# The nodes that stand in a node's place, and the one of them that is its result; where its results
# are several a list of them.
Made = tuple[list[Node], Any]


def rewritten(graph: Graph) -> Graph:
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
        rule = RULES.get(node.op, _without_out)
        new = rule(node, sources)
        if new is None:
            nodes.append(node)
            continue
        made, result = new
        for other in made:
            other.place = node.place
        nodes += made
        now[node] = result
        if node.op == "aten::bernoulli_":   # who reads the tensor that it filled reads the mask
            now[old_args[0]] = now[node.args[0]] = result
    return Graph(nodes, replaced(graph.outputs, current))


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


def _norm_axes(v: Node, dim: int) -> list[int]:
    """All but the one that has a norm for each of its places."""
    return [axis for axis in range(len(v.shape or ())) if axis != dim]


def _weight_norm(node: Node, _: dict[Node, bool]) -> Made:
    """v g / |v|, and |v|."""
    v, g, dim = [*node.args, 0][:3]
    norms = call("linalg_vector_norm", v, 2, _norm_axes(v, dim), True, like=g)
    scale = call("div.Tensor", g, norms, like=g)
    weight = call("mul.Tensor", v, scale, like=v)
    return [norms, scale, weight], [weight, norms]


def _weight_norm_backward(node: Node, _: dict[Node, bool]) -> Made:
    """With s = sum(gradient v): g / |v| (gradient - v s / |v|^2), and s / |v|."""
    gradient, v, g, norms, dim = node.args
    products = call("mul.Tensor", gradient, v, like=v)
    sums = call("sum.dim_IntList", products, _norm_axes(v, dim), True, like=g)
    of_g = call("div.Tensor", sums, norms, like=g)
    scale = call("div.Tensor", g, norms, like=g)
    share = call("div.Tensor", of_g, norms, like=g)
    along = call("mul.Tensor", v, share, like=v)
    across = call("sub.Tensor", gradient, along, like=v)
    of_v = call("mul.Tensor", across, scale, like=v)
    return [products, sums, of_g, scale, share, along, across, of_v], [of_v, of_g]


def _view(node: Node, _: dict[Node, bool]) -> Made:
    """Strides that were those of the trace are left to the operator."""
    view = call("view", *node.args[:2], like=node)
    return [view], view


def _strided(node: Node, _: dict[Node, bool]) -> Made | None:
    """Strides that slices, views and transposes of a tensor in C's order have."""
    source, shape, strides = node.args[:3]
    offset = [*node.args[3:], 0][0] or 0
    if not source.contiguous or source.shape is None:
        return None
    chain = views.of_strides(source.shape, shape, strides, offset)
    if chain is None:
        return None
    made: list[Node] = []
    for name, *arguments in chain:
        made.append(call(name, made[-1] if made else source, *arguments))
    if not made:
        made = [call("view", source, list(shape))]
    made[-1].shape, made[-1].dtype = node.shape, node.dtype
    return made, made[-1]


def _without_out(node: Node, _: dict[Node, bool]) -> Made | None:
    """An operator that writes its result into a tensor `out` computes it, and it is copied."""
    import torch

    out = node.kwargs.get("out")
    if not isinstance(out, Node):
        return None
    packet = getattr(torch.ops.aten, node.op.removeprefix("aten::"))
    wanted = [argument.name for argument in node.schema.arguments if argument.name != "out"]
    for overload in packet.overloads():
        if [part.name for part in getattr(packet, overload)._schema.arguments] == wanted:
            others = {name: value for name, value in node.kwargs.items() if name != "out"}
            made = call(f"{node.op.removeprefix('aten::')}.{overload}".removesuffix(".default"),
                        *node.args, like=node, **others)
            copy = call("copy_", out, made, like=out)
            return [made, copy], copy
    return None


def _transposed(node: Node, _: dict[Node, bool]) -> Made | None:
    twice = node.args[0].op == node.op and node.args[0].args[1:] == node.args[1:]
    return ([], node.args[0].args[0]) if twice else None


def _same(node: Node, _: dict[Node, bool]) -> Made:
    return [], node.args[0]


def _copy(node: Node, _: dict[Node, bool]) -> Made:
    copy = call("clone", node.args[0], like=node)
    return [copy], copy


def _traced_convolution(node: Node, _: dict[Node, bool]) -> Made:
    """As traces of TorchScript have it: behind the arguments it says by what it is computed."""
    plain = call("convolution", *node.args[:9], like=node)
    return [plain], plain


RULES: dict[str, Callable[[Node, dict[Node, bool]], Made | None]] = {
    "aten::_convolution": _traced_convolution,
    "aten::bernoulli": _bernoulli, "aten::bernoulli_": _bernoulli,
    "aten::floor": _floor, "aten::floor_": _floor,
    "aten::native_dropout": _native_dropout,
    "aten::native_dropout_backward": _native_dropout_backward,
    "aten::_safe_softmax": _safe_softmax,
    "aten::_weight_norm_interface": _weight_norm,
    "aten::_weight_norm_interface_backward": _weight_norm_backward,
    "aten::_reshape_alias": _view, "aten::as_strided": _strided,
    "aten::as_strided_": _strided, "aten::t": _transposed, "aten::transpose": _transposed,
    "aten::detach": _same, "aten::alias": _same, "aten::lift_fresh": _same, "aten::lift": _same,
    "aten::lift_fresh_copy": _copy, "aten::detach_copy": _copy, "aten::alias_copy": _copy,
}
