"""The operators that a graph file may name: those of operators.txt, which the program reads, too."""
from __future__ import annotations

import functools
import pathlib

LIST = pathlib.Path(__file__).with_name("operators.txt")


@functools.cache
def names() -> frozenset[str]:
    """Without their namespace, which is aten's."""
    return frozenset(name for line in LIST.read_text().splitlines() if not line.startswith("#")
                     for name in line.split())


def is_listed(op: str) -> bool:
    """Whether the program takes an operator, "aten::NAME" or "aten::NAME_", from a file."""
    space, _, name = op.partition("::")
    return space == "aten" and (name in names() or
                                len(name) > 1 and name.removesuffix("_") in names())
