"""Modules of PyTorch as files that Hanse trains: graphs of operators, or TorchScript."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import graph_files, graph_tracing, traced_modules
from .graph_tracing import State
from .program import Path, Refused

if TYPE_CHECKING:
    import torch

# Whether it trains, samples and delta: a file's output, its gradients and buffers by their names.
Result = Callable[[bool, Any, Any], tuple[Any, dict[str, Any], dict[str, Any]]]
BOUND = 1e-4   # of the largest value: what a file may differ from its module, as float32 rounds


@dataclasses.dataclass
class Contract:
    """How Hanse's samples become a module's inputs, and what it returns one output. `parts` are the
    inputs of one sample, `names` their keywords (None: by position)."""
    parts: list[Any]
    names: list[str] | None
    call: Callable[..., Any] | None
    axis: int | None
    output: list[int] = dataclasses.field(default_factory=list)

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


def export(module: torch.nn.Module, sample: Any, path: Path, *, kind: str | None = None,
           call: Callable[..., Any] | None = None, axis: int | None = None) -> dict[str, str]:
    """Writes a module of PyTorch as a file that Hanse trains, and returns the keys of a job:

        keys = hanse.export(torchvision.models.resnet18(), torch.rand(3, 32, 32), "resnet.graph")
        hanse.run("first.cfg", keys)

    `sample`: one sample without the axis of the batch, with numbers such as data have: a tensor,
    or several (tuple, or dictionary of forward's keywords) where forward takes several. Hanse's
    samples are float32, of its shape; tensors of integers, such as tokens, are converted in the
    file, and several are cut in their order from one vector. `call(module, *inputs)`
    stands in the place of module(*inputs), for example `lambda model, x: model(x).logits[:, -1]`.

    The output is the tensor that the module returns, its `logits`, or the first of several: [rows],
    [rows, outputs], or with positions [rows, positions, outputs], of four axes and more [rows,
    outputs, ...]; `axis` says which axis the outputs are.

    `kind`: graph (operators as data, of evaluation and of a training step, the default) or
    torchscript (code: two traces on the same parameters). Both have dropout and batch norm in
    training alone, start from the module's values, and freeze what does not require a gradient. The
    module is not changed. The file is compared with it, in both modes, before export() ends, and
    the largest difference is printed.

    Needs torch 1.13 or newer. Raises Refused for modules that have no such form, say why, and for
    files that compute something else."""
    try:
        import torch
    except ImportError:
        raise Refused("torch is missing; hint: pip install torch, or apt install python3-torch"
                      ) from None
    if kind not in (None, "graph", "torchscript"):
        raise Refused(f"kind is graph or torchscript, not '{kind}'")
    contract = _contract(torch, sample, call, axis)
    state = graph_tracing.state_of(module)
    for training in (False, True):
        contract.output = _output(torch, module, state, contract, training)
    write = traced_modules.write if kind == "torchscript" else _write_graph
    result = write(module, state, contract, path)
    worst = max(_differences(module, state, contract, result, rows) for rows in (1, 2, 5))
    print(f"{path}: {sum(p.numel() for p in state.parameters.values())} parameters, samples "
          f"{contract.sample}, outputs {contract.output}; differs from the module by {worst:.1e}")
    return {"model.kind": kind or "graph", "model.path": str(path)}


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


def _output(torch: Any, module: Any, state: State, contract: Contract, training: bool) -> list[int]:
    """The shape of one sample's output."""
    tensors = graph_tracing.copies(state)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), \
            graph_tracing.mode_of(module, training), \
            graph_tracing.swapped(module, state, tensors):
        try:
            output = contract.forward(module, contract.rows(2))
        except Refused:
            raise
        except Exception as error:   # the module's own code may raise anything
            raise Refused(f"the module takes no samples of the shape {contract.sample}: "
                          f"{graph_tracing.first_line(error)}; hint: the sample has no axis of the "
                          "batch, and tokens are integers") from error
    if output.dtype != torch.float32:
        raise Refused(f"the module returns {str(output.dtype)[6:]}, and outputs are float32")
    return list(output.shape[1:])


def _write_graph(module: Any, state: State, contract: Contract, path: Path) -> Result:
    """Writes the file, and returns what its graphs give."""
    import torch

    graphs = graph_tracing.trace(module, state, contract)
    names = [name for name, value in state.parameters.items() if value.requires_grad]
    graph_files.write(path, {
        "format": 1, "writer": f"torch {torch.__version__}", "sample": contract.sample,
        "output": contract.output,
        "parameters": [{"name": name, "tensor": name, "trains": value.requires_grad,
                        **({"also": state.also[name]} if name in state.also else {})}
                       for name, value in state.parameters.items()],
        "buffers": [{"name": name, "tensor": name} for name in graphs.buffers],
        "constants": list(graphs.constants), "graphs": graphs.graphs},
        {**state.parameters, **{name: state.buffers[name] for name in graphs.buffers},
         **graphs.constants})
    graph, tensors = graph_files.read(path)

    def result(training: bool, x: Any, delta: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        if not training:
            return graph_files.replay(graph, "evaluation", tensors, x), {}, {}
        given = graph_files.replay(graph, "training", tensors, x, delta)
        after = {entry["name"]: tensors[entry["tensor"]] if value is None else value
                 for entry, value in zip(graph["buffers"], given["buffers"])}
        return given["output"], dict(zip(names, given["gradients"])), after

    return result


def _differences(module: Any, state: State, contract: Contract, result: Result,
                 rows: int) -> float:
    """The largest difference of a batch of `rows`. Raises Refused where one is too large."""
    import torch

    x = contract.rows(rows, seed=rows)
    delta = torch.randn(rows, *contract.output, generator=torch.Generator().manual_seed(rows))
    names = [name for name, value in state.parameters.items() if value.requires_grad]
    worst = 0.0
    for training in (False, True):
        with graph_tracing.plain_kernels(), graph_files.drawn_masks():
            torch.manual_seed(rows)
            try:
                output, gradients, after = graph_tracing.step(
                    module, state, contract, training, graph_tracing.copies(state), x.clone(),
                    delta)
            except Exception:   # the module's own code may raise anything
                if rows == 1:   # as batch norm does: Hanse tries the sizes of a job's batches
                    continue
                raise
            torch.manual_seed(rows)
            try:
                given = result(training, x, delta)
            except RuntimeError as error:
                raise Refused(f"the file does not compute: {graph_tracing.last_line(error)}"
                              ) from error
        mode = "training" if training else "evaluation"
        worst = max(worst, _difference(f"the output in {mode}", given[0], output))
        scale = max([g.abs().max().item() for g in gradients if g is not None], default=0.0)
        for name, right in zip(names, gradients):
            worst = max(worst, _difference(f"the gradient of {name}", given[1][name], right, scale))
        new = dict(zip(state.buffers, after))
        for name, mine in given[2].items():
            worst = max(worst, _difference(name, mine, new[name]))
    return worst


def _difference(what: str, mine: Any, right: Any, scale: float = 0.0) -> float:
    """The largest difference. Raises Refused where it is above BOUND of the largest value."""
    import torch

    if mine is None or right is None:
        if mine is right or not (right if mine is None else mine).any():
            return 0.0
        raise Refused(f"the file has another result than the module: {what} is missing on one side")
    mine, right = mine.to(torch.float64), right.to(torch.float64)
    difference = (mine - right).abs()
    difference[mine.isnan() & right.isnan() | (mine == right)] = 0.0
    worst = difference.max().item() if difference.numel() else 0.0
    finite = right[right.isfinite()].abs()
    scale = max(scale, finite.max().item() if finite.numel() else 0.0, 1e-3)
    if not worst <= BOUND * scale:
        raise Refused(f"the file has another result than the module: {what} differs by {worst:.2g} "
                      f"of {scale:.2g}")
    return worst
