"""A pass of a module, watched for what no file of it can do, of either kind."""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from .graph_cleaning import RANDOM
from .graph_places import here, within
from .graph_recording import CHOOSES, VARYING, tensors_in
from .program import Refused

ACTIVATIONS = {"aten::_softmax": "softmax", "aten::softmax": "softmax",
               "aten::_safe_softmax": "softmax", "aten::_log_softmax": "log_softmax",
               "aten::log_softmax": "log_softmax", "aten::sigmoid": "sigmoid",
               "aten::sigmoid_": "sigmoid"}
SHAPES = {f"aten::{name}" for name in (
    "view", "_unsafe_view", "reshape", "_reshape_alias", "transpose", "t", "permute", "unsqueeze",
    "squeeze", "slice", "select", "expand", "clone", "alias", "detach", "_to_copy", "contiguous")}


class Watch:
    """`parameters` and `buffers` by their names, of the pass; `names` are those of the module's
    parts. `values` counts the entries that the operators have made, `last_activation` is softmax,
    log_softmax or sigmoid where the output has been through nothing else since."""

    def __init__(self, parameters: Mapping[str, Any], buffers: Mapping[str, Any],
                 names: Mapping[int, str], training: bool):
        self.values, self.last_activation = 0, ""
        self._makers: dict[int, tuple[str, Any, Any]] = {}
        self._parameters = {_memory(tensor): name for name, tensor in parameters.items()}
        self._buffers = {_memory(tensor) for tensor in buffers.values()}
        self._names, self._training = names, training
        self._held: list[Any] = [*parameters.values(), *buffers.values()]
        self._varies: set[int] | None = None   # memory that samples or training change
        self.mode = self._mode()

    @contextlib.contextmanager
    def fixed_choices(self, x: Any) -> Iterator[None]:
        """Refuses numbers that the module asks for, of the samples x or of what training changes:
        a trace keeps them."""
        import torch
        from torch import Tensor
        from torch.overrides import TorchFunctionMode

        self._varies = {_memory(x), *self._parameters}
        watch = self
        lists = {Tensor.numpy, Tensor.tolist, Tensor.__array__}

        class Lists(TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                if function in lists and watch._depends(args):
                    watch._refuse_choice()
                return function(*args, **(kwargs or {}))

        with Lists(), mock.patch.object(torch.jit, "is_tracing", lambda: True):
            yield
        self._varies = None

    def _mode(self) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                watch._before(function, args, kwargs or {})
                result = function(*args, **(kwargs or {}))
                watch._after(function._schema, args, kwargs or {}, result)
                return result

        return Mode()

    def _before(self, function: Any, args: Any, kwargs: Any) -> None:
        import torch

        op = function._schema.name
        if not self._training and _draws(function, args, kwargs):
            raise Refused(self._here(f"the module draws random numbers by {op}") + " in evaluation, "
                          "too; hint: dropout(x, p, self.training)")
        if self._varies is not None and function in (torch.ops.aten._local_scalar_dense.default,
                                                     torch.ops.aten.equal.default):
            if self._depends(args):
                self._refuse_choice()
        for place, argument in enumerate(function._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            for tensor in tensors_in(given):
                self._write(op, tensor, args)

    def _write(self, op: str, tensor: Any, args: Any) -> None:
        memory = _memory(tensor)
        if name := self._parameters.get(memory):
            raise Refused(self._here(f"the module changes its parameter {name} by {op}") +
                          "; hint: training alone changes parameters, by their gradients")
        if self._varies is not None and (memory in self._buffers or self._depends(args)):
            self._varies.add(memory)

    def end(self, output: Any) -> None:
        """The pass has given that."""
        op, source, _ = self._makers.get(id(output), ("", None, None))
        while op in SHAPES:
            op, source, _ = self._makers.get(id(source), ("", None, None))
        self.last_activation = ACTIVATIONS.get(op, "")
        self._makers, self._held = {}, []

    def _after(self, schema: Any, args: Any, kwargs: Any, result: Any) -> None:
        made, op = tensors_in(result), schema.name
        if all(part.alias_info is None for part in schema.returns):   # it has memory of its own
            self.values += sum(tensor.numel() for tensor in made)
        for tensor in made:   # held, so that their places in memory stay theirs
            self._makers[id(tensor)] = (op, args[0] if args else None, tensor)
        if self._varies is None:
            return
        if self._depends([args, list(kwargs.values())]):
            self._varies |= {_memory(tensor) for tensor in made}

    def _depends(self, value: Any) -> bool:
        return any(_memory(tensor) in (self._varies or ()) for tensor in tensors_in(value))

    def _refuse_choice(self) -> None:
        raise Refused(self._here(f"{CHOOSES} {VARYING}") + ", and a trace keeps one choice; hint: "
                      "torch.where instead of if, or torch.jit.script")

    def _here(self, text: str) -> str:
        return within(text, here(self._names))


def _draws(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call takes random numbers: some do in training alone, which an argument says."""
    import torch

    schema = function._schema
    given = {argument.name: argument.default_value for argument in schema.arguments}
    given.update(zip(given, args))
    given.update(kwargs)
    if False in (given.get("training"), given.get("train")):
        return False
    return schema.name in RANDOM or torch.Tag.nondeterministic_seeded in getattr(
        function, "tags", [])


def _memory(tensor: Any) -> int:
    storage = getattr(tensor, "untyped_storage", tensor.storage)
    with warnings.catch_warnings():   # typed storages are old in some versions
        warnings.simplefilter("ignore")
        return storage().data_ptr()
