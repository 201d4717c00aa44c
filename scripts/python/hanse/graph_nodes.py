"""The nodes of an exported graph: calls of torch's operators."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

CHOICE = "choice"   # the mark of tensors whose numbers have been asked for; its value says for what


@dataclasses.dataclass(eq=False)
class Node:
    """One call. `op` is the operator's name with its namespace, "item", "input" or "constant";
    arguments are Node, lists and plain values; `value` is the tensor of a constant, `overload` its
    name, and of an input its kind; `shape`, `dtype` and `contiguous` tell of a result that is one
    tensor; `place` says where the module calls it."""
    op: str
    args: list[Any] = dataclasses.field(default_factory=list)
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    overload: str = ""
    schema: Any = None
    value: Any = None
    shape: tuple[int, ...] | None = None
    dtype: Any = None
    contiguous: bool = False
    place: str = ""

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


def replaced(value: Any, change: Callable[[Any], Any], kind: type = Node) -> Any:
    """`value` with change(part) in the place of each node, or part of another kind, in it."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [replaced(part, change, kind) for part in value]
    if isinstance(value, dict):
        return {name: replaced(part, change, kind) for name, part in value.items()}
    return value


def nodes_in(value: Any) -> list[Node]:
    found: list[Node] = []
    replaced(value, found.append)
    return found


def dependence(graph: Graph, on: Callable[[Node], bool]) -> dict[Node, bool]:
    """For each node whether it depends on one of those that `on` chooses."""
    depends: dict[Node, bool] = {}
    for node in graph.nodes:
        depends[node] = on(node) or any(depends[read]
                                        for read in nodes_in([node.args, node.kwargs]))
    return depends


def call(name: str, *args: Any, like: Node | None = None, **kwargs: Any) -> Node:
    """A node of aten's operator "name.overload", of the shape of `like`."""
    import torch

    op, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.aten, op), overload or "default")._schema
    return Node(f"aten::{op}", list(args), kwargs, overload, schema,
                shape=like.shape if like else None, dtype=like.dtype if like else None)
