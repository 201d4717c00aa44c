"""Strides as views that graphs have."""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

Call = tuple[Any, ...]   # an operator of aten and its arguments behind the tensor


def of_strides(base: Sequence[int], shape: Sequence[int], strides: Sequence[int], offset: int
               ) -> list[Call] | None:
    """Calls that make, of a tensor of the shape `base` in C's order, the view with such a shape and
    strides, in entries, from the entry `offset` on: view, slice, select, permute and unsqueeze, each
    of what the call before it gives. None: there are none, as where entries overlap."""
    sides = [axis for axis, size in enumerate(shape) if size != 1]
    if math.prod(base) == 0 or any(shape[axis] < 1 or strides[axis] < 1 for axis in sides):
        return None
    for axes in _axes(base, [strides[axis] for axis in sides]):
        chain = _slices(axes, [(shape[axis], strides[axis]) for axis in sides], offset)
        if chain is not None:
            first = [] if axes == list(base) else [("view", axes)]
            ones = [("unsqueeze", axis) for axis, size in enumerate(shape) if size == 1]
            return first + chain + ones
    return None


def _axes(base: Sequence[int], strides: list[int]) -> Iterator[list[int]]:
    """Shapes that a tensor of this one may be viewed in: itself, then those whose axes have some of
    its own strides and some of these, with the fewest changes first."""
    yield list(base)
    own = {math.prod(base[axis + 1:]) for axis in range(len(base))} | {1}
    entries = math.prod(base)
    inner = sorted(own - {1})
    for left in range(len(inner) + 1):
        for removed in itertools.combinations(inner, left):
            steps = sorted({*own, *strides} - (set(removed) - set(strides)), reverse=True)
            if all(above % step == 0 for above, step in zip([entries, *steps], steps)):
                yield [above // step for above, step in zip([entries, *steps], steps)]


def _slices(axes: list[int], sides: list[tuple[int, int]], offset: int) -> list[Call] | None:
    """`sides` are sizes and strides of the view's axes."""
    steps = [math.prod(axes[axis + 1:]) for axis in range(len(axes))]
    starts = [offset // step % size for size, step in zip(axes, steps)]
    if sum(start * step for start, step in zip(starts, steps)) != offset:
        return None
    chosen: dict[int, int] = {}   # axis of the view by that of the tensor
    calls: list[Call] = []
    for place, (size, stride) in enumerate(sides):
        axis = next((axis for axis in range(len(axes))
                     if axes[axis] > 1 and stride % steps[axis] == 0), None)
        if axis is None or axis in chosen:
            return None
        chosen[axis] = place
        by = stride // steps[axis]
        end = starts[axis] + (size - 1) * by + 1
        if end > axes[axis]:
            return None
        if (starts[axis], end, by) != (0, axes[axis], 1):
            calls.append(("slice.Tensor", axis, starts[axis], end, by))
    calls += [("select.int", axis, starts[axis]) for axis in reversed(range(len(axes)))
              if axis not in chosen]
    order = [chosen[axis] for axis in sorted(chosen)]   # of the view's axes, as they lie now
    wanted = [order.index(place) for place in range(len(sides))]
    if wanted != sorted(wanted):
        calls.append(("permute", wanted))
    return calls
