"""Functions of torch in operators that graphs have, for traces: their values and derivatives are
the same. The mode also notes where each operator of the way back comes from."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .graph_places import here
from .program import Refused


def embedding(original: Callable[..., Any], indices: Any, weight: Any, padding_idx: Any = None,
              max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Any:
    """Its gradient is dense, as all of Hanse's are."""
    return original(indices, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)


def embedding_bag(original: Callable[..., Any], indices: Any, weight: Any, offsets: Any = None,
                  max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                  mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
                  include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
    """Bags of one length, a row of `indices` [n, length] each."""
    import torch

    if indices.dim() != 2 or max_norm is not None:
        return original(indices, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode,
                        sparse, per_sample_weights, include_last_offset, padding_idx)
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    values = torch.nn.functional.embedding(indices, weight, padding_idx,
                                           scale_grad_by_freq=scale_grad_by_freq)
    if per_sample_weights is not None:
        values = values * per_sample_weights.unsqueeze(-1)
    if padding_idx is None:
        return {"sum": lambda: values.sum(1), "mean": lambda: values.mean(1),
                "max": lambda: values.max(1)[0]}[mode]()
    counts = (indices != padding_idx).unsqueeze(-1)
    if mode == "max":
        largest = values.masked_fill(~counts, -float("inf")).max(1)[0]
        return torch.where(counts.any(1), largest, torch.zeros_like(largest))
    total = (values * counts).sum(1)
    return total / counts.sum(1).clamp(min=1) if mode == "mean" else total


def bilinear(original: Callable[..., Any], left: Any, right: Any, weight: Any, bias: Any = None
             ) -> Any:
    """left W_o right + b_o for each output o; weight [outputs, left, right]."""
    outputs, first, second = weight.shape
    half = left @ weight.permute(1, 0, 2).reshape(first, outputs * second)
    found = (half.unflatten(-1, (outputs, second)) * right.unsqueeze(-2)).sum(-1)
    return found if bias is None else found + bias


def prelu(original: Callable[..., Any], x: Any, weight: Any) -> Any:
    import torch

    if weight.numel() > 1 and x.dim() > 1:
        weight = weight.reshape(1, -1, *[1] * (x.dim() - 2))
    return torch.where(x > 0, x, weight * x)


def one_hot(original: Callable[..., Any], indices: Any, num_classes: int = -1) -> Any:
    """Rows of zeros where an index is no class."""
    import torch

    if num_classes < 0:
        raise Refused("one_hot without num_classes gives a shape that depends on values; hint: "
                      "one_hot(x, classes)")
    return (indices.unsqueeze(-1) == torch.arange(num_classes)).to(torch.int64)


def rrelu(original: Callable[..., Any], x: Any, lower: float = 1 / 8, upper: float = 1 / 3,
          training: bool = False, inplace: bool = False) -> Any:
    """Only training draws."""
    import torch

    if training:
        return original(x, lower, upper, training, inplace)
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2, inplace)


def functions() -> dict[Any, Callable[..., Any]]:
    """What stands in the place of a function, which comes first among its arguments."""
    import torch

    F = torch.nn.functional
    return {F.embedding: embedding, F.embedding_bag: embedding_bag, F.bilinear: bilinear,
            torch.bilinear: bilinear, F.prelu: prelu, torch.prelu: prelu, torch.Tensor.prelu: prelu,
            F.one_hot: one_hot, F.rrelu: rrelu}


class Origins:
    """Where the operators of the way back come from: the place of the function of the forward pass
    whose gradient they are. `names` are those of the module's parts."""

    def __init__(self, names: Mapping[int, str]):
        self.names = names
        self.mode = self._mode()
        self._known: dict[int, Any] = {}
        self._listeners: list[Callable[[str], None]] = []

    def tell(self, listener: Callable[[str], None]) -> None:
        """Calls listener(place) behind the last operator of each function's gradient."""
        self._listeners.append(listener)

    def _mode(self) -> Any:
        from torch.overrides import TorchFunctionMode

        known, origins = functions(), self

        class Mode(TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (),
                                   kwargs: Any = None) -> Any:
                other = known.get(function)
                result = other(function, *args, **(kwargs or {})) if other else function(
                    *args, **(kwargs or {}))
                origins._note(result)
                if result is None and args:   # it has changed what it is called on
                    origins._note(args[0])
                return result

        return Mode()

    def _note(self, result: Any) -> None:
        found = [getattr(part, "grad_fn", None) for part in (
            result if isinstance(result, (list, tuple)) else [result])]
        place = None
        while found:
            function = found.pop()
            if function is None or id(function) in self._known or not hasattr(
                    function, "register_hook"):
                continue
            self._known[id(function)] = function
            place = here(self.names) if place is None else place
            function.register_hook(self._hook(place))
            found += [before for before, _ in function.next_functions]

    def _hook(self, place: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            for listener in self._listeners:
                listener(place)
        return hook
