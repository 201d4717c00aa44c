"""Files of model.kind = graph: safetensors whose metadata hold graphs of operators, and a replay of
them by torch, which shows that a file computes what its module does."""
from __future__ import annotations

import contextlib
import json
import math
import pathlib
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .files import replacing
from .program import Path

TYPES = {"float32": "F32", "int64": "I64", "bool": "BOOL"}


def write(path: Path, graph: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Writes a safetensors file: `tensors` (float32, int64 or bool) by their names, `graph` as the
    metadata's hanse.graph. Raises OSError."""
    header: dict[str, Any] = {"__metadata__": {
        "format": "pt", "hanse.graph": json.dumps(graph, separators=(",", ":"), allow_nan=False)}}
    at = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[str(tensor.dtype)[6:]], "shape": list(tensor.shape),
                        "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(pathlib.Path(path)) as whole, open(whole, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().contiguous().numpy().tobytes())


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The graph and the tensors of a file that write() wrote."""
    import numpy
    import torch

    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    kinds = {"F32": numpy.float32, "I64": numpy.int64, "BOOL": numpy.bool_}
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(data[begin:end], kinds[entry["dtype"]]).copy()
        tensors[name] = torch.from_numpy(values).reshape(entry["shape"])
    return json.loads(metadata["hanse.graph"]), tensors


def replay(graph: Mapping[str, Any], name: str, tensors: Mapping[str, Any], x: Any,
           delta: Any = None, of_representation: Any = None, *, keep: Callable[[list[int], float], Any] | None = None) -> Any:
    """What the graph `name` gives: the output of evaluation; of training with `delta`, the
    gradient of the loss by the output, a dictionary of output, gradients and buffers. A graph with a
    representation gives it in a dictionary too, and takes the gradient by it. keep(sizes,
    p) draws the masks, by default from torch's generator. No state is changed."""
    import torch

    values = [tensors[entry["tensor"]] for entry in [*graph["parameters"], *graph["buffers"]]]
    values += [tensors[constant] for constant in graph["constants"]]
    values += [given for given in (x, delta, of_representation) if given is not None]
    rows = len(x)
    nodes, outputs = graph["graphs"][name]["nodes"], graph["graphs"][name]["outputs"]
    last = _last_reads(nodes, outputs)
    with torch.no_grad():
        for place, node in enumerate(nodes):
            args = [_argument(value, values, rows) for value in node["args"]]
            kwargs = {key: _argument(value, values, rows)
                      for key, value in node.get("kwargs", {}).items()}
            if node["op"] == "item":
                values.append(args[0][args[1]])
            elif node["op"] == "hanse::keep":
                sizes, p, kind = args
                mask = (keep or drawn)(sizes, p)
                values.append(mask.to(getattr(torch, {"float": "float32"}.get(kind, kind))))
            else:
                space, _, op = node["op"].partition("::")
                packet = getattr(getattr(torch.ops, space), op)
                values.append(getattr(packet, node.get("overload") or "default")(*args, **kwargs))
            for number in last.get(place, ()):
                values[number] = None
    if isinstance(outputs, int):
        return values[outputs]
    return {part: values[numbers] if isinstance(numbers, int) else
            [None if number is None else values[number] for number in numbers]
            for part, numbers in outputs.items()}


def _last_reads(nodes: list[Any], outputs: Any) -> dict[int, list[int]]:
    """By the place of a node the values that it reads and nothing behind it."""
    last = {number: place for place, node in enumerate(nodes)
            for number in _numbers([node["args"], node.get("kwargs", {})])}
    kept: set[Any] = set()
    for numbers in [outputs] if isinstance(outputs, int) else outputs.values():
        kept |= {numbers} if isinstance(numbers, int) else set(numbers)
    found: dict[int, list[int]] = {}
    for number, place in last.items():
        if number not in kept:
            found.setdefault(place, []).append(number)
    return found


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict) and "v" in value:
        yield value["v"]
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _numbers(part)


def drawn(sizes: list[int], p: float) -> Any:
    """A mask of torch's generator, drawn in the order of entries whatever its strides will be."""
    import torch

    return (torch.rand(sizes) + p).floor()


@contextlib.contextmanager
def drawn_masks() -> Iterator[None]:
    """Modules draw their dropout's masks as a replay does."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Masks(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            if function is torch.ops.aten.bernoulli_.float:
                p = args[1] if len(args) > 1 else 0.5
                return args[0].copy_(drawn(list(args[0].shape), p))
            if function is torch.ops.aten.rand_like.default:
                return torch.rand(args[0].shape)
            return function(*args, **(kwargs or {}))

    with Masks():
        yield


def _argument(value: Any, values: list[Any], rows: int) -> Any:
    import torch

    if isinstance(value, list):
        return [_argument(part, values, rows) for part in value]
    if not isinstance(value, dict):
        return value
    (kind, content), = value.items()
    if kind == "v":
        return values[content]
    if kind == "rows":
        return content[0] * rows + content[1]
    if kind == "f":
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
    if kind == "device":
        return torch.device(content)
    if kind == "memory_format":
        content = {"contiguous": "contiguous_format", "preserve": "preserve_format"}.get(
            content, content)
    return getattr(torch, content)
