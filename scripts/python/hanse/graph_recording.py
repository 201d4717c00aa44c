"""Records the operators that torch calls, below its differentiation, as a graph."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .graph_functions import Origins
from .graph_nodes import CHOICE, Graph, Node, nodes_in, replaced
from .graph_places import here
from .program import Refused

CHOOSES = "the module chooses what it computes by values"
VARYING = "of samples or of what training changes"


def recorded(function: Callable[..., Any], inputs: list[Any], kinds: list[str],
             outputs: list[str], others: Mapping[int, str], names: Mapping[int, str]) -> Graph:
    """The graph of function(*inputs), whose result has a part for each of `outputs`: tensors, lists
    of them, None. `kinds` name the inputs. Tensors that the graph did not make are constants.
    Raises Refused for those of `others`, names by the places in memory. `names` are those of the
    module's parts."""
    origins = Origins(names)
    recorder = Recorder(inputs, kinds, others, names)
    origins.tell(recorder.note_origin)
    with origins.mode, recorder.mode:
        results = function(*inputs)
    return Graph(recorder.nodes,
                 {name: _mapped(part, recorder.known) for name, part in zip(outputs, results)})


class Recorder:
    """The nodes so far, and which of them made a tensor. Every tensor is held until the end, since
    its place in memory is its name."""

    def __init__(self, inputs: list[Any], kinds: list[str], others: Mapping[int, str],
                 names: Mapping[int, str]):
        self.nodes: list[Node] = []
        self._others, self._names = others, names
        self._placed = 0   # nodes before it have their places
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

    def note_origin(self, place: str) -> None:
        """The last nodes are the gradient of what stands at that place."""
        for node in self.nodes[self._placed:]:
            if not node.place:
                node.place = f"the gradient of {place}" if place else ""
        self._placed = len(self.nodes)

    def _mode(self) -> Any:
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        recorder = self
        asked = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default}

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                kwargs = kwargs or {}
                if function in asked:
                    recorder._ask(CHOOSES, args, kwargs)
                    return function(*args, **kwargs)
                if torch.Tag.dynamic_output_shape in getattr(function, "tags", []):
                    if function is not torch.ops.aten.index.Tensor:
                        recorder._ask(_of_unknown_shape(function), args, kwargs)
                        with without_modes():   # what it gives is a constant
                            return function(*args, **kwargs)
                    args = recorder._with_places(function, args)
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

    def _ask(self, what: str, args: Any, kwargs: Any) -> None:
        """Marks the tensors among the arguments: the graph holds for their present values alone."""
        for node in nodes_in(_mapped([list(args), kwargs], self.known)):
            self._add(Node(CHOICE, [node], value=what), None)

    def _with_places(self, function: Any, args: Any) -> Any:
        """The arguments of an index with the places that its masks choose."""
        import torch

        places: list[Any] = []
        for index in args[1]:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                places.append(index)
                continue
            self._ask(_of_unknown_shape(function), [index], {})
            with without_modes():
                places += index.nonzero().unbind(1)
        return (args[0], places, *args[2:])

    def _add(self, node: Node, result: Any) -> Node:
        node.place = here(self._names)
        node.shape = tuple(result.shape) if hasattr(result, "shape") else None
        node.dtype = getattr(result, "dtype", None)
        node.contiguous = result.is_contiguous() if node.shape is not None else False
        self.nodes.append(node)
        return node

    def _name(self, tensor: Any, node: Node) -> None:
        self._made[id(tensor)] = (node, tensor)


def tensors_in(value: Any) -> list[Any]:
    found: list[Any] = []
    _mapped(value, found.append)
    return found


def _of_unknown_shape(function: Any) -> str:
    return f"{function._schema.name} gives a shape that depends on values"


def _mapped(value: Any, known: Callable[[Any], Node]) -> Any:
    """`value` with nodes in the place of tensors."""
    import torch

    return replaced(value, known, torch.Tensor)


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
