"""Modules as TorchScript: two traces on the same parameters, since a trace keeps the mode of
dropout and batch norm that it was made in."""
from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

from .export_checks import Result
from .graph_tracing import State, first_line, mode_of
from .program import Refused

NOTE = "hanse.compared"   # the rows of the largest batch that was compared with the module

FORWARD = """
def forward(self, x):
    if self.training:
        return self.hanse_training(x)
    return self.hanse_evaluation(x)
"""


class ScriptOf:
    """Two traces of a module, to be saved: its parameters have the module's names. `results` are
    what a saved file gives. Raises Refused for a module that torch.jit.trace does not take."""

    def __init__(self, module: Any, state: State, contract: Any):
        self._script, self._state = traced(module, state, contract), state

    def save(self, path: pathlib.Path, compared: int | None) -> None:
        try:
            self._script.save(str(path), _extra_files={NOTE: str(compared or "")})
        except RuntimeError as error:
            raise OSError(first_line(error)) from None

    def results(self, path: pathlib.Path) -> Result:
        import torch

        state = self._state
        names = [name for name, value in state.parameters.items() if value.requires_grad]

        def result(training: bool, x: Any, delta: Any
                   ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
            with warnings.catch_warnings():   # that TorchScript is deprecated
                warnings.simplefilter("ignore")
                script = torch.jit.load(str(path))
            script.train(training)
            with torch.enable_grad(), torch.jit.optimized_execution(False):
                output = script(x)
                known = dict(script.named_parameters())
                gradients = torch.autograd.grad(output, [known[name] for name in names], delta,
                                                allow_unused=True) if training else []
            for name, gradient in zip(names, gradients):
                if gradient is not None and gradient.is_sparse:
                    raise Refused(f"the gradient of {name} is sparse; hint: kind='graph', or "
                                  "sparse=False")
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
