"""Records the operators that torch calls, below its differentiation, as a graph."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .graph_nodes import Graph, Node
from .program import Refused


def recorded(function: Callable[..., Any], inputs: list[Any], kinds: list[str],
             outputs: list[str], others: Mapping[int, str]) -> Graph:
    """The graph of function(*inputs), whose result has a part for each of `outputs`: tensors, lists
    of them, None. `kinds` name the inputs. Tensors that the graph did not make are constants.
    Raises Refused for those of `others`, names by the places in memory."""
    recorder = Recorder(inputs, kinds, others)
    with recorder.mode:
        results = function(*inputs)
    return Graph(recorder.nodes,
                 {name: _mapped(part, recorder.known) for name, part in zip(outputs, results)})


class Recorder:
    """The nodes so far, and which of them made a tensor. Every tensor is held until the end, since
    its place in memory is its name."""

    def __init__(self, inputs: list[Any], kinds: list[str], others: Mapping[int, str]):
        self.nodes: list[Node] = []
        self._others = others
        self._made: dict[int, tuple[Node, Any]] = {}
        for tensor, kind in zip(inputs, kinds):
            self._name(tensor, self._add(Node("input", overload=kind), tensor))
        self.mode = self._mode()

    def known(self, tensor: Any) -> Node:
        """The node that made a tensor; a constant where none did."""
        if id(tensor) not in self._made:
            if name := self._others.get(tensor.data_ptr()):
                raise Refused(f"the module uses {name} by another way than its attribute")
            with without_modes():
                value = tensor.detach().clone()
            self._name(tensor, self._add(Node("constant", value=value), tensor))
        return self._made[id(tensor)][0]

    def _mode(self) -> Any:
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        recorder = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                kwargs = kwargs or {}
                if function is torch.ops.aten._local_scalar_dense.default:
                    recorder._call(torch.ops.aten.is_set_to.default, (args[0], args[0]), {}, None)
                    return function(*args)
                result = NotImplemented
                if not torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CPU"):
                    with self:   # what is made of other operators is recorded as those
                        result = function.decompose(*args, **kwargs)
                if result is NotImplemented:
                    places = _mapped([list(args), kwargs], recorder.known)
                    result = function(*args, **kwargs)
                    recorder._call(function, *places, result)
                return result

        return Mode()

    def _call(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        args, kwargs = _mapped([list(args), kwargs], self.known)
        schema = function._schema
        node = self._add(Node(schema.name, args, kwargs, schema.overload_name, schema), result)
        if isinstance(result, (tuple, list)):
            for place, part in enumerate(result):
                if part is not None:
                    self._name(part, self._add(Node("item", [node, place]), part))
        elif result is not None:
            self._name(result, node)

    def _add(self, node: Node, result: Any) -> Node:
        node.shape = tuple(result.shape) if hasattr(result, "shape") else None
        node.dtype = getattr(result, "dtype", None)
        node.contiguous = result.is_contiguous() if node.shape is not None else False
        self.nodes.append(node)
        return node

    def _name(self, tensor: Any, node: Node) -> None:
        self._made[id(tensor)] = (node, tensor)


def _mapped(value: Any, known: Callable[[Any], Node]) -> Any:
    """`value` with nodes in the place of tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return known(value)
    if isinstance(value, (list, tuple)):
        return [_mapped(part, known) for part in value]
    if isinstance(value, dict):
        return {name: _mapped(part, known) for name, part in value.items()}
    return value


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """Calls within it are not recorded."""
    from torch.utils import _python_dispatch as dispatch

    with contextlib.ExitStack() as stack:
        if hasattr(dispatch, "_disable_current_modes"):
            stack.enter_context(dispatch._disable_current_modes())
        else:
            for _ in range(dispatch._len_torch_dispatch_stack()):
                stack.enter_context(dispatch._pop_mode_temporarily())
        yield
