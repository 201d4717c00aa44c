"""Where a module computes: the part by its name, and the line of the source that is not torch's."""
from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
CALLERS = {os.path.join(OWN, name) for name in ("exporting.py", "graph_tracing.py")}
PYTHON = sysconfig.get_paths()["stdlib"] + os.sep


def names_of(module: Any) -> dict[int, str]:
    """The parts of a module by their places in memory: "0.fc (Linear)", the whole one by its class
    alone."""
    return {id(part): f"{name} ({type(part).__name__})" if name else type(part).__name__
            for name, part in module.named_modules()}


def here(names: Mapping[int, str]) -> str:
    """"0.fc (Linear), net.py:12": the innermost part whose forward runs, and the innermost line that
    neither torch nor Python's library nor this package has; one of them, or "", where that is all."""
    import torch
    from torch import nn

    foreign = (os.path.dirname(torch.__file__) + os.sep, OWN)
    part = line = ""
    frame: Any = sys._getframe(1)
    while frame is not None and not (part and line):
        file = frame.f_code.co_filename
        if file in CALLERS:
            break
        if not line and not file.startswith(foreign) and not _is_pythons(file):
            line = f"{os.path.basename(file)}:{frame.f_lineno}"
        if not part and frame.f_code.co_name == "forward":
            owner = frame.f_locals.get("self")
            part = names.get(id(owner), "") if isinstance(owner, nn.Module) else ""
        frame = frame.f_back
    return ", ".join(word for word in (part, line) if word)


def _is_pythons(file: str) -> bool:
    return file.startswith(PYTHON) and "-packages" + os.sep not in file or file.startswith("<frozen")


def within(text: str, place: str) -> str:
    """`text`, with the place behind it where one is known."""
    return f"{text} ({place})" if place else text
