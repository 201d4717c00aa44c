"""What a recorded graph becomes before it is written: operators of the format, which write into
tensors of the graph alone, and none that nothing needs."""
from __future__ import annotations

import functools
import pathlib
from typing import Any

from .graph_nodes import CHOICE, Graph, Node, call, dependence, nodes_in
from .graph_places import within
from .graph_recording import VARYING
from .graph_rules import rewritten
from .program import Refused

LIST = pathlib.Path(__file__).with_name("operators.txt")
# Views and parts of the first argument, which their schemas do not say.
HIDDEN_VIEWS = {"aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes",
                "aten::unsafe_chunk"}
RANDOM = {"aten::rand", "aten::rand_like", "aten::randn", "aten::randn_like", "aten::randint",
          "aten::randint_like", "aten::randperm", "aten::normal", "aten::normal_", "aten::uniform_",
          "aten::uniform", "aten::random_", "aten::random", "aten::exponential_", "aten::cauchy_",
          "aten::log_normal_", "aten::geometric_", "aten::multinomial", "aten::poisson",
          "aten::binomial", "aten::_fused_dropout", "aten::rrelu_with_noise",
          "aten::rrelu_with_noise_", "aten::bernoulli", "aten::bernoulli_"}


@functools.cache
def listed_operators() -> frozenset[str]:
    """Those that a file may name, which the program reads, too; without their namespace, aten."""
    return frozenset(name for line in LIST.read_text().splitlines() if not line.startswith("#")
                     for name in line.split())


def is_listed(op: str) -> bool:
    """Whether the program takes an operator, "aten::NAME" or "aten::NAME_", from a file."""
    space, _, name = op.partition("::")
    return space == "aten" and (name in listed_operators() or
                                len(name) > 1 and name.removesuffix("_") in listed_operators())


def cleaned(graph: Graph) -> Graph:
    """The same in operators of the format: random ones become hanse::keep, and what is written
    belongs to the graph. Raises Refused for a random operator that has no such form."""
    graph = rewritten(graph)
    graph = _live(_own_writes(graph))
    for node in graph.calls:
        _require_allowed(node)
    return graph


def _require_fixed_choices(graph: Graph, copies: set[Node]) -> None:
    """Of what a step changes, and of samples, the module may not ask for numbers."""
    depends = dependence(graph, lambda node: node in copies or
                         node.op == "input" and node.overload != "buffer")
    for node in graph.nodes:
        if node.op == CHOICE and depends[node]:
            raise Refused(within(f"{node.value} {VARYING}", node.place) + ", and a graph is one for "
                          "all values; hint: torch.where instead of if and of masks, or an option "
                          "that leaves it out")


def _tags(node: Node) -> list[Any]:
    import torch

    packet = getattr(torch.ops.aten, node.op.removeprefix("aten::"), None)
    return getattr(getattr(packet, node.overload or "default", None), "tags", [])


def _require_allowed(node: Node) -> None:
    """Raises Refused for what readers of graphs do not allow."""
    import torch

    if node.op in RANDOM or torch.Tag.nondeterministic_seeded in _tags(node):
        raise Refused(within(f"the module draws random numbers by {node.op}", node.place) +
                      ", which a graph does not have; hint: torch.nn.Dropout and "
                      "tensor.bernoulli_(p) are drawn by Hanse")
    if node.op in ("aten::as_strided", "aten::as_strided_"):
        raise Refused(within(f"{node.op} has strides that are no slices, views or transposes",
                             node.place) + ", and a graph has no others; hint: torch.cat of parts "
                      "instead of writing into some")
    if node.dtype is not None and node.dtype.is_complex:
        raise Refused(within(f"{node.op} computes complex numbers", node.place) +
                      ", which graphs do not have; hint: real and imaginary parts apart")
    if node.op not in ("item", "hanse::keep") and not is_listed(node.op):
        raise Refused(within(f"{node.op} is not in this program's list of operators", node.place) +
                      "; hint: others that compute the same")


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
