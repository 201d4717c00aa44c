"""A pass of a module, watched for what no file of it can do."""
from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from .graph_cleaning import RANDOM
from .graph_places import here, within
from .graph_recording import tensors_in
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
        self._names, self._training = names, training
        self._held: list[Any] = [*parameters.values(), *buffers.values()]
        self.mode = self._mode()

    def _mode(self) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                watch._before(function, args, kwargs or {})
                result = function(*args, **(kwargs or {}))
                watch._after(function._schema, args, result)
                return result

        return Mode()

    def _before(self, function: Any, args: Any, kwargs: Any) -> None:
        import torch

        op = function._schema.name
        if not self._training and _draws(function, args, kwargs):
            raise Refused(self._here(f"the module draws random numbers by {op}") + " in evaluation, "
                          "too; hint: dropout(x, p, self.training)")
        for place, argument in enumerate(function._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            for tensor in tensors_in(given):
                self._write(op, tensor)

    def _write(self, op: str, tensor: Any) -> None:
        memory = _memory(tensor)
        if name := self._parameters.get(memory):
            raise Refused(self._here(f"the module changes its parameter {name} by {op}") +
                          "; hint: training alone changes parameters, by their gradients")

    def end(self, output: Any) -> None:
        """The pass has given that."""
        op, source, _ = self._makers.get(id(output), ("", None, None))
        while op in SHAPES:
            op, source, _ = self._makers.get(id(source), ("", None, None))
        self.last_activation = ACTIVATIONS.get(op, "")
        self._makers, self._held = {}, []

    def _after(self, schema: Any, args: Any, result: Any) -> None:
        made, op = tensors_in(result), schema.name
        if all(part.alias_info is None for part in schema.returns):   # it has memory of its own
            self.values += sum(tensor.numel() for tensor in made)
        for tensor in made:   # held, so that their places in memory stay theirs
            self._makers[id(tensor)] = (op, args[0] if args else None, tensor)

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
