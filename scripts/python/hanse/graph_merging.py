"""Graphs of traces as the graph of a file: JSON, in which the rows are symbolic. Traces of different
sizes agree but for integers a n + b."""
from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from .graph_nodes import Graph, Node
from .graph_places import within
from .program import Refused

DELTAS = ("delta", "delta of the representation")   # kinds of inputs
SIZES = (3, 4, 7)   # rows of the traces; the third proves what the first two say


class Constants:
    """Tensors that only graphs use, each once, by their own names or new ones. `taken` are names
    that others have."""

    def __init__(self, taken: set[str]):
        self.tensors: dict[str, Any] = {}
        self._taken, self._known = taken, {}

    def number(self, node: Node) -> int:
        value = node.value.detach().contiguous()
        key = (value.dtype, tuple(value.shape), value.numpy().tobytes())
        if key not in self._known:
            self._known[key] = len(self.tensors)
            self.tensors[node.overload or self._new_name()] = value
        return self._known[key]

    def _new_name(self) -> str:
        return next(name for name in (f"constant.{place}" for place in itertools.count())
                    if name not in self._taken and name not in self.tensors)


def written(graph: Graph, first: list[str], constants: Constants) -> dict[str, Any]:
    """The graph as JSON: values are numbered from the tensors `first`, constants, x, deltas on."""
    numbers: dict[Node, int] = {node: place for place, node in enumerate(
        node for node in graph.inputs if node.overload in ("parameter", "buffer"))}
    behind = len(first)
    for node in graph.constants:
        numbers[node] = behind + constants.number(node)
    behind += len(constants.tensors)
    for node in graph.inputs:
        if node.overload in ("x", *DELTAS):
            numbers[node] = behind
            behind += 1
    nodes = []
    for node in graph.calls:
        entry: dict[str, Any] = {"op": node.op, "args": _json(node.args, numbers)}
        if node.overload:
            entry["overload"] = node.overload
        if node.kwargs:
            entry["kwargs"] = _json(node.kwargs, numbers)
        nodes.append(entry)
        numbers[node] = behind + len(nodes) - 1

    def number(value: Node | None) -> int | None:
        return None if value is None else numbers[value]

    results = {part: number(graph.outputs[part]) for part in ("output", "representation")
               if part in graph.outputs}
    if graph.outputs["gradients"] == [] and graph.outputs["buffers"] == []:
        return {"nodes": nodes, "outputs": results if len(results) > 1 else results["output"]}
    return {"nodes": nodes, "outputs": {
        **results,
        "gradients": [number(value) for value in graph.outputs["gradients"]],
        "buffers": [number(value) for value in graph.outputs["buffers"]]}}


def _json(value: Any, numbers: Mapping[Node, int]) -> Any:
    import torch

    if isinstance(value, Node):
        return {"v": numbers[value]}
    if isinstance(value, (list, tuple)):
        return [_json(part, numbers) for part in value]
    if isinstance(value, dict):
        return {name: _json(part, numbers) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"f": str(value)}
    for kind, name in ((torch.dtype, "dtype"), (torch.layout, "layout"),
                       (torch.device, "device"), (torch.memory_format, "memory_format")):
        if isinstance(value, kind):
            text = str(value).removeprefix("torch.").removesuffix("_format")
            return {name: text}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Refused(f"the graph has an argument that the file does not hold: {value!r}")


def merged(graphs: list[dict[str, Any]], places: list[str]) -> dict[str, Any]:
    """One graph of those of three sizes of batches. `places` are those of the first's nodes."""
    counts = {len(graph["nodes"]) for graph in graphs}
    if len(counts) > 1 or any(graph["outputs"] != graphs[0]["outputs"] for graph in graphs):
        at = next((at for at, nodes in enumerate(zip(*(g["nodes"] for g in graphs)))
                   if len({node["op"] for node in nodes}) > 1), min(counts) - 1)
        raise Refused("the module computes otherwise for other numbers of rows, from " +
                      within(graphs[0]["nodes"][at]["op"], places[at]) + " on; hint: its forward "
                      "may not choose by the size of the batch")
    nodes = []
    for place, several in zip(places, zip(*(graph["nodes"] for graph in graphs))):
        try:
            nodes.append(_merged(several))
        except ValueError as error:
            raise Refused(within(several[0]["op"], place) + f" depends on the number of rows: for "
                          f"{', '.join(map(str, SIZES[:-1]))} and {SIZES[-1]} of them it has "
                          f"{error}; hint: only integers a n + b of n rows may differ") from None
    return {"nodes": nodes, "outputs": graphs[0]["outputs"]}


def _merged(values: tuple[Any, ...]) -> Any:
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        raise ValueError(str(list(values)))
    if isinstance(first, (dict, list)) and any(len(value) != len(first) for value in values):
        raise ValueError(str(list(values)))
    if isinstance(first, list):
        return [_merged(parts) for parts in zip(*values)]
    if isinstance(first, dict) and "v" not in first:
        return {name: _merged(tuple(value.get(name) for value in values)) for name in first}
    if all(value == first for value in values):
        return first
    if isinstance(first, dict):
        raise ValueError("other tensors")
    if type(first) is not int:
        raise ValueError(str(list(values)))
    slope, rest = divmod(values[1] - values[0], SIZES[1] - SIZES[0])
    offset = values[0] - slope * SIZES[0]
    if rest or values[2] != slope * SIZES[2] + offset:
        raise ValueError(str(list(values)))
    return {"rows": [slope, offset]}
