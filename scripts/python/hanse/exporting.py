"""Modules of PyTorch as files that Hanse trains: graphs of operators."""
from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import export_checks, graph_files, graph_tracing
from .export_checks import Result
from .files import replacing
from .graph_places import names_of
from .graph_tracing import State
from .graph_watch import Watch
from .program import Path, Refused

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass
class Contract:
    """How Hanse's samples become a module's inputs, and what it returns one output. `parts` are the
    inputs of one sample, `names` their keywords (None: by position). `head` is the name of the part
    that reads the representation (None: there is none), `output` and `representation` are the
    shapes of a sample's."""
    parts: list[Any]
    names: list[str] | None
    call: Callable[..., Any] | None
    axis: int | None
    head: str | None = None
    output: list[int] = dataclasses.field(default_factory=list)
    representation: list[int] = dataclasses.field(default_factory=list)

    @property
    def sample(self) -> list[int]:
        """The shape of a sample as Hanse gives it: of several inputs the numbers of all."""
        if len(self.parts) == 1:
            return list(self.parts[0].shape)
        return [sum(part.numel() for part in self.parts)]

    def inputs(self, x: Any) -> list[Any]:
        """The module's inputs out of x, float32 [n, sample ...]."""
        if len(self.parts) == 1:
            return [_typed(x, self.parts[0].dtype)]
        given, at = [], 0
        for part in self.parts:
            values = x[:, at:at + part.numel()].reshape(x.shape[0], *part.shape)
            given.append(_typed(values, part.dtype))
            at += part.numel()
        return given

    def forward(self, module: Any, x: Any) -> Any:
        """[n, outputs], or [n, positions, outputs]."""
        given = self.inputs(x)
        keywords = dict(zip(self.names, given)) if self.names else {}
        positional = [] if self.names else given
        function = module if self.call is None else lambda *a, **k: self.call(module, *a, **k)
        return self._shaped(_tensor(function(*positional, **keywords)), x.shape[0])

    def results(self, module: Any, x: Any) -> list[Any]:
        """The output, and behind it the representation [n, width], or [n, positions, width], where
        there is one."""
        if self.head is None:
            return [self.forward(module, x)]
        read: list[Any] = []
        hook = module.get_submodule(self.head).register_forward_pre_hook(
            lambda _, given: read.append(given[0]))
        try:
            output = self.forward(module, x)
        finally:
            hook.remove()
        if not read:
            raise Refused(f"the module's forward does not call {self.head}")
        positions = list(output.shape[1:-1])
        if list(read[-1].shape[:-1]) != [x.shape[0], *positions]:
            raise Refused(f"{self.head} reads {list(read[-1].shape)} of {x.shape[0]} samples; hint: "
                          "a representation is [rows, width]" +
                          (", of positions [rows, positions, width]" if positions else ""))
        return [output, read[-1]]

    @property
    def deltas(self) -> list[list[int]]:
        """Shapes of a sample's gradients with respect to results()."""
        return [shape for shape in (self.output, self.representation) if shape]

    def _shaped(self, output: Any, rows: int) -> Any:
        if output.dim() == 0 or output.shape[0] != rows:
            raise Refused(f"the module returns {list(output.shape)} for {rows} samples; hint: the "
                          "first axis is the samples'")
        if self.axis == 0:
            raise Refused("axis 0 is the samples'; hint: axis=1")
        if output.dim() == 1:
            return output.unsqueeze(1)
        if output.dim() == 2:
            return output
        axis = self.axis if self.axis is not None else (-1 if output.dim() == 3 else 1)
        if not -output.dim() < axis < output.dim():
            raise Refused(f"axis is {axis}, and the module returns {list(output.shape)}")
        return output.movedim(axis, -1).flatten(1, -2)

    def rows(self, count: int, seed: int = 0) -> Any:
        """float32 [count, sample ...]: the sample, and others between zero and it."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        columns = []
        for part in self.parts:
            one = part.to(torch.float32)
            shape = (count, *part.shape)
            values = one * torch.rand(shape, generator=generator)
            noise = torch.rand(shape, generator=generator)
            values = values + noise if bool((one == one.floor()).all()) else values + 0.1 * noise
            if not part.dtype.is_floating_point:
                values = values.floor()
            values[0] = one
            columns.append(values if len(self.parts) == 1 else values.reshape(count, -1))
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1)


def _typed(values: Any, kind: Any) -> Any:
    """Tokens are float32 in Hanse and whole numbers in the module."""
    return values if kind == values.dtype else values.to(kind)


def _tensor(result: Any) -> Any:
    """The tensor of outputs in what a module returns: its logits, or the first."""
    import torch

    if isinstance(result, torch.Tensor):
        return result
    for name in ("logits", "out"):
        found = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(found, torch.Tensor):
            return found
    values = result.values() if isinstance(result, Mapping) else result
    if isinstance(values, (list, tuple)) or isinstance(result, Mapping):
        for value in values:
            if isinstance(value, torch.Tensor):
                return value
    raise Refused(f"the module returns {type(result).__name__}, in which no tensor is; hint: "
                  "call=lambda module, x: module(x).name")


def export(module: torch.nn.Module | Path, sample: Any, path: Path, *,
           call: Callable[..., Any] | None = None, axis: int | None = None,
           representation: str | None = None) -> dict[str, str]:
    """Writes a module of PyTorch as a file that Hanse trains, and returns the keys of a job:

        keys = hanse.export(torchvision.models.resnet18(), torch.rand(3, 32, 32), "resnet.graph")
        hanse.run("first.cfg", keys)

    `module` may be the path of a TorchScript file, of which a graph is made then.

    `sample`: one sample without the axis of the batch, with numbers such as data have: a tensor,
    or several (tuple, or dictionary of forward's keywords) where forward takes several. Hanse's
    samples are float32, of its shape; tensors of integers, such as tokens, are converted in the
    file, and several are cut in their order from one vector. `call(module, *inputs)`
    stands in the place of module(*inputs), for example `lambda model, x: model(x).logits[:, -1]`.

    The output is the tensor that the module returns, its `logits`, or the first of several: [rows],
    [rows, outputs], or with positions [rows, positions, outputs], of four axes and more [rows,
    outputs, ...]; `axis` says which axis the outputs are.

    `representation` names the part of the module, such as "fc", that reads the representation of a
    sample, which client.update = moon and fedproto compare: float32 [rows, width], or with positions
    [rows, positions, width].

    The file has operators as data, of evaluation and of a training step. It has dropout and batch
    norm in training alone, starts from the module's values, and freezes what does not require a
    gradient. The module is not changed; where it trains, parts of it that are in evaluation mode
    stay so. The file is compared with it, in both modes and for small and large batches, before
    export() ends, and the largest difference is printed.

    Needs torch 1.13 or newer. Raises Refused, and writes nothing, for modules that have no such
    form, says why and where, and for files that compute something else."""
    try:
        import torch
    except ImportError:
        raise Refused("torch is missing; hint: pip install torch, or apt install python3-torch"
                      ) from None
    if isinstance(module, (str, os.PathLike)):
        module = _loaded(torch, module)
    contract = _contract(torch, sample, call, axis)
    contract.head = _head(torch, module, representation)
    state = graph_tracing.state_of(module)
    _refuse_cumulative_means(torch, module)
    tried = [_tried(torch, module, state, contract, training) for training in (False, True)]
    file = _graphs_of(torch, module, state, contract)
    try:
        with replacing(pathlib.Path(path)) as draft:
            file.save(draft, None)
            worst, compared = export_checks.compare(module, state, contract, file.results(draft),
                                                    tried[True].values)
            file.save(draft, compared)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror or error}") from None
    for note in _notes(module, tried[False].last_activation):
        print(f"{path}: {note}")
    print(f"{path}: {sum(p.numel() for p in state.parameters.values())} parameters, samples "
          f"{contract.sample}, outputs {contract.output}"
          f"{f', representations {contract.representation}' if contract.representation else ''}; "
          f"differs from the module by {worst:.1e} in batches of up to {compared}")
    return {"model.kind": "graph", "model.path": str(path)}


def _graphs_of(torch: Any, module: Any, state: State, contract: Contract) -> GraphOf:
    try:
        return GraphOf(module, state, contract)
    except Refused as error:
        if not isinstance(module, torch.jit.ScriptModule) or "hint: " in str(error):
            raise
        raise Refused(f"{error}; hint: export the module of which the TorchScript was made, after "
                      "module.load_state_dict(torch.jit.load(FILE).state_dict())") from None


def _loaded(torch: Any, path: Path) -> Any:
    """The module of a TorchScript file, in training: a file keeps no mode."""
    if not pathlib.Path(path).is_file():
        raise Refused(f"no such file: {path}")
    try:
        return torch.jit.load(str(path), map_location="cpu").train()
    except (RuntimeError, AttributeError) as error:
        raise Refused(f"{path} is no TorchScript file that torch {torch.__version__} reads: "
                      f"{graph_tracing.last_line(error)}; hint: give the module itself") from None


def _keeps_a_mode(module: Any) -> bool:
    """Whether a TorchScript is a trace whose dropout or norms ask for no mode."""
    graph = str(getattr(module, "inlined_graph", ""))
    return 'name="training"' not in graph and any(
        f"aten::{name}(" in graph for name in ("dropout", "feature_dropout", "batch_norm"))


def _notes(module: Any, last_activation: str) -> Iterator[str]:
    """What is odd but allowed."""
    if _keeps_a_mode(module):
        yield ("the TorchScript is a trace of one mode, so that dropout and batch norm do in training "
               "what they did in the trace; hint: export the module itself")
    if last_activation:
        yield (f"the network ends with {last_activation}, and model.loss = cross-entropy and "
               "binary-logistic apply their own to that; hint: return the logits")
    still = graph_tracing.still_parts(module)
    names = [name for name, part in module.named_modules() if part in still]
    if names:
        yield (f"parts that are in evaluation mode stay so in training: {', '.join(names[:4])}"
               f"{', ...' if len(names) > 4 else ''}; hint: module.train()")


def _refuse_cumulative_means(torch: Any, module: Any) -> None:
    """That of batch norm divides by a count of batches, an integer, and those stay as they are."""
    still = graph_tracing.still_parts(module)
    for name, part in module.named_modules():
        kind = getattr(part, "original_name", type(part).__name__)   # of a scripted module
        is_norm = (isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
                   or kind.startswith("BatchNorm"))
        if is_norm and part not in still and getattr(part, "track_running_stats", True) and (
                getattr(part, "momentum", 0.1) is None):
            raise Refused(f"{name or 'the module'} ({kind}) has a cumulative mean "
                          "(momentum=None), whose count of batches no file keeps; hint: "
                          "momentum=0.1")


def _contract(torch: Any, sample: Any, call: Any, axis: int | None) -> Contract:
    names = None
    if isinstance(sample, Mapping):
        names, sample = [str(name) for name in sample], tuple(sample.values())
    parts = list(sample) if isinstance(sample, (tuple, list)) else [sample]
    if not parts or not all(isinstance(part, torch.Tensor) for part in parts):
        raise Refused("the sample is no tensor, nor a tuple or a dictionary of tensors")
    for part in parts:
        if part.is_complex() or not part.numel():
            raise Refused(f"the sample has {part.dtype} numbers of the shape {list(part.shape)}")
    parts = [part.detach().cpu().to(torch.float32) if part.is_floating_point()
             else part.detach().cpu() for part in parts]
    return Contract(parts, names, call, axis)


def _head(torch: Any, module: Any, name: str | None) -> str | None:
    if name is None:
        return None
    if isinstance(module, torch.jit.ScriptModule):
        raise Refused("a TorchScript does not tell what its parts read; hint: export the module of "
                      "which it was made")
    names = [called for called, _ in module.named_modules() if called]
    if name not in names:
        raise Refused(f"representation: the module has no part {name}; known: {', '.join(names)}")
    return name


def _tried(torch: Any, module: Any, state: State, contract: Contract, training: bool) -> Watch:
    """Watches a pass of two samples, and notes the shape of one sample's output."""
    tensors = graph_tracing.copies(state)
    parameters = {name: tensors[name] for name in state.parameters}
    buffers = {name: tensors[name] for name in state.buffers}
    watch = Watch(parameters, buffers, names_of(module), training)
    x = contract.rows(2)
    try:
        with graph_tracing.plain_kernels(), torch.no_grad(), \
                graph_tracing.mode_of(module, training), \
                graph_tracing.swapped(module, state, tensors), \
                watch.mode:
            output, *read = contract.results(module, x)
    except Refused:
        raise
    except Exception as error:   # the module's own code may raise anything
        raise Refused(f"the module takes no samples of the shape {contract.sample}: "
                      f"{graph_tracing.first_line(error)}; hint: the sample has no axis of the "
                      "batch, and tokens are integers") from error
    if output.dtype != torch.float32:
        raise Refused(f"the module returns {str(output.dtype)[6:]}, and outputs are float32")
    contract.output = list(output.shape[1:])
    for values in read:
        if values.dtype != torch.float32:
            raise Refused(f"{contract.head} reads {str(values.dtype)[6:]}, and representations are "
                          "float32")
        contract.representation = list(values.shape[1:])
    watch.end(output)
    return watch


def _uses(module: Any) -> dict[str, str]:
    """How layers use their weights, by name, where it is not as dense ones do: `transposed`, stored
    as [in, out] (Conv1D of transformers), or `embedding`."""
    words = {"Conv1D": "transposed", "Embedding": "embedding"}
    uses = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        kinds = [kind.__name__ for kind in type(part).__mro__]
        for kind in [getattr(part, "original_name", ""), *kinds]:   # of a scripted module
            if kind in words and getattr(getattr(part, "weight", None), "ndim", 0) == 2:
                uses[f"{prefix}.weight" if prefix else "weight"] = words[kind]
    return uses


def _uses_note(uses: Mapping[str, str], names: list[str]) -> dict[str, Any]:
    found = {name: uses[name] for name in names if name in uses}
    return {"uses": found} if found else {}


class GraphOf:
    """The graphs of a module, to be saved. `results` are what a saved file gives."""

    def __init__(self, module: Any, state: State, contract: Contract):
        import torch

        self._state = state
        self._graphs = graphs = graph_tracing.trace(module, state, contract)
        uses = _uses(module)
        self._note = {
            "format": 1, "writer": f"torch {torch.__version__}", "sample": contract.sample,
            "output": contract.output,
            **({"representation": contract.representation} if contract.head else {}),
            "parameters": [{"name": name, "tensor": name, "trains": value.requires_grad,
                            **({"also": state.also[name]} if name in state.also else {}),
                            **_uses_note(uses, [name, *state.also.get(name, [])])}
                           for name, value in state.parameters.items()],
            "buffers": [{"name": name, "tensor": name} for name in graphs.buffers],
            "constants": list(graphs.constants), "graphs": graphs.graphs}

    def save(self, path: pathlib.Path, compared: int | None) -> None:
        note = {**self._note, "compared": compared} if compared else self._note
        buffers = {name: self._state.buffers[name] for name in self._graphs.buffers}
        graph_files.write(path, note, {**self._state.parameters, **buffers,
                                       **self._graphs.constants})

    def results(self, path: pathlib.Path) -> Result:
        graph, tensors = graph_files.read(path)
        names = [entry["name"] for entry in graph["parameters"] if entry["trains"]]

        def results_of(given: Mapping[str, Any]) -> list[Any]:
            return [given[part] for part in ("output", "representation") if part in given]

        def result(training: bool, x: Any, deltas: list[Any]
                   ) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
            if not training:
                given = graph_files.replay(graph, "evaluation", tensors, x)
                return results_of(given) if isinstance(given, dict) else [given], {}, {}
            given = graph_files.replay(graph, "training", tensors, x, *deltas)
            after = {entry["name"]: tensors[entry["tensor"]] if value is None else value
                     for entry, value in zip(graph["buffers"], given["buffers"])}
            return results_of(given), dict(zip(names, given["gradients"])), after

        return result
