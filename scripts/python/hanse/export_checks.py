"""Whether a file computes what its module does."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import graph_files, graph_tracing
from .graph_tracing import State, first_line, last_line
from .program import Refused

# Whether it trains, samples and deltas: a file's output and representation, its gradients and
# buffers by their names.
Result = Callable[[bool, Any, list[Any]], tuple[list[Any], dict[str, Any], dict[str, Any]]]
BOUND = 1e-4   # of the largest value: what a file may differ from its module, as float32 rounds
SMALL = (1, 2, 5)
LARGE = (64, 129, 513)   # beyond and beside what networks cut batches into
MOST_VALUES = 1 << 25   # in the operators' results of a pass
PASSES = 3   # a step's operators, by those of the pass forward


def compare(module: Any, state: State, contract: Any, result: Result, values: int
            ) -> tuple[float, int]:
    """The largest difference over batches of several sizes, and the largest of these; larger ones
    need more memory than they are worth. `values` are those that the operators of a pass of two rows
    make. Raises Refused where a difference is too large."""
    most = 2 * MOST_VALUES // (PASSES * max(values, 1))
    sizes = sorted({*SMALL, *(min(size, most) for size in LARGE if most > SMALL[-1])})
    worst = max(_differences(module, state, contract, result, rows) for rows in sizes)
    return worst, sizes[-1]


def _differences(module: Any, state: State, contract: Any, result: Result,
                 rows: int) -> float:
    """The largest difference of a batch of `rows`. Raises Refused where one is too large."""
    import torch

    x = contract.rows(rows, seed=rows)
    generator = torch.Generator().manual_seed(rows)
    deltas = [torch.randn(rows, *shape, generator=generator) for shape in contract.deltas]
    names = [name for name, value in state.parameters.items() if value.requires_grad]
    worst = 0.0
    for training in (False, True):
        with graph_tracing.plain_kernels(), graph_files.drawn_masks():
            torch.manual_seed(rows)
            try:
                results, gradients, after = graph_tracing.step(
                    module, state, contract, training, graph_tracing.copies(state), x.clone(),
                    deltas)
            except Refused:
                raise
            except Exception as error:   # the module's own code may raise anything
                if rows == 1:   # as batch norm does: Hanse tries the sizes of a job's batches
                    continue
                raise Refused(f"the module fails on a batch of {rows}: {first_line(error)}"
                              ) from error
            torch.manual_seed(rows)
            try:
                given = result(training, x, deltas)
            except RuntimeError as error:
                said = last_line(error).removesuffix("RuntimeError:")
                raise Refused(f"the file does not compute a batch of {rows}: " + (
                    said or "a trace keeps the batch's size where forward asks for len(x); hint: "
                    "x.shape[0]")) from error
        mode = f"{'training' if training else 'evaluation'} of {rows} rows"
        for what, mine, right in zip(("output", "representation"), given[0], results):
            worst = max(worst, _difference(f"the {what} in {mode}", mine, right))
        scale = max([_largest(g) for g in gradients if g is not None], default=0.0)
        for name, right in zip(names, gradients):
            worst = max(worst, _difference(f"the gradient of {name} in {mode}", given[1][name], right,
                                           scale))
        new = dict(zip(state.buffers, after))
        for name, mine in given[2].items():
            worst = max(worst, _difference(f"{name} after {mode}", mine, new[name]))
    return worst


def _difference(what: str, mine: Any, right: Any, scale: float = 0.0) -> float:
    """The largest difference. Raises Refused where it is above BOUND of the largest value."""
    import torch

    if mine is None or right is None:
        if mine is right or not (right if mine is None else mine).any():
            return 0.0
        raise Refused(f"the file has another result than the module: {what} is missing on one side")
    if mine.shape != right.shape:
        raise Refused(f"the file has another result than the module: {what} is {list(mine.shape)}, "
                      f"not {list(right.shape)}")
    mine, right = mine.to(torch.float64), right.to(torch.float64)
    difference = (mine - right).abs()
    difference[mine.isnan() & right.isnan() | (mine == right)] = 0.0
    worst = difference.max().item() if difference.numel() else 0.0
    scale = max(scale, _largest(right), 1e-3)
    if not worst <= BOUND * scale:
        raise Refused(f"the file has another result than the module: {what} differs by {worst:.2g} "
                      f"of {scale:.2g}")
    return worst


def _largest(values: Any) -> float:
    """Of those that are finite."""
    finite = values[values.isfinite()].abs()
    return finite.max().item() if finite.numel() else 0.0
