"""Modules as TorchScript: two traces on the same parameters, since a trace keeps the mode of
dropout and batch norm that it was made in."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .graph_tracing import State, first_line, mode_of
from .program import Path, Refused

FORWARD = """
def forward(self, x):
    if self.training:
        return self.hanse_training(x)
    return self.hanse_evaluation(x)
"""


def write(module: Any, state: State, contract: Any, path: Path
          ) -> Callable[[bool, Any, Any], tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Writes the file, whose parameters have the module's names, and returns what it gives. Raises
    Refused for a module that torch.jit.trace does not take."""
    import torch

    script = traced(module, state, contract)
    try:
        script.save(str(path))
    except (OSError, RuntimeError) as error:
        raise Refused(f"cannot write {path}: {first_line(error)}") from None
    names = [name for name, value in state.parameters.items() if value.requires_grad]

    def result(training: bool, x: Any, delta: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        with warnings.catch_warnings():   # that TorchScript is deprecated
            warnings.simplefilter("ignore")
            script = torch.jit.load(str(path))
        script.train(training)
        with torch.enable_grad(), torch.jit.optimized_execution(False):
            output = script(x)
            known = dict(script.named_parameters())
            gradients = torch.autograd.grad(output, [known[name] for name in names], delta,
                                            allow_unused=True) if training else []
        after = {name: value for name, value in script.named_buffers() if name in state.buffers}
        return output.detach(), dict(zip(names, gradients)), after if training else {}

    return result


def traced(module: Any, state: State, contract: Any) -> Any:
    """The script module, in training. The module keeps its values and its modes."""
    import torch

    def in_mode(training: bool) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            with mode_of(module, training):
                return contract.forward(module, x)
        return forward

    methods = {"hanse_training": in_mode(True), "hanse_evaluation": in_mode(False)}
    values = {name: value.detach().clone() for name, value in state.buffers.items()}
    x = contract.rows(2)
    module.__dict__.update(methods)
    try:
        with mode_of(module, True), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script = torch.jit.trace_module(module, {name: (x.clone(),) for name in methods},
                                            check_trace=False)
            script.define(FORWARD)
    except Refused:
        raise
    except Exception as error:   # the module's own code may raise anything
        raise Refused(f"the module cannot be traced: {first_line(error)}") from error
    finally:
        for name in methods:
            module.__dict__.pop(name)
        with torch.no_grad():   # the trace of training has moved batch norm's means
            for name, value in values.items():
                state.buffers[name].copy_(value)
    for name, value in script.named_buffers():
        if name in values:
            value.copy_(values[name])
    return script.train()
