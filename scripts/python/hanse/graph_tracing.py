"""Traces of a module as the graphs of a file: evaluation, and a training step that is cut at the
output."""
from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from .graph_cleaning import cleaned
from .graph_merging import DELTAS, SIZES, Constants, merged, written
from .graph_nodes import Graph, Node, call
from .graph_places import names_of
from .graph_recording import recorded
from .program import Refused


@dataclasses.dataclass
class State:
    """The tensors of a module by their names: each once, `also` its other names. `places` are the
    dictionaries of its parts that hold it, with its key there."""
    parameters: dict[str, Any]
    buffers: dict[str, Any]
    also: dict[str, list[str]]
    persistent: set[str]
    places: dict[str, list[tuple[Any, str]]]

    @property
    def tensors(self) -> dict[str, Any]:
        return {**self.parameters, **self.buffers}


def state_of(module: Any) -> State:
    """Raises Refused for parameters that are not float32, and for tensors that are elsewhere than
    on the CPU."""
    import torch

    state = State({}, {}, {}, set(), {})
    names: dict[int, str] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):   # one may have two names
        held = [(part._parameters, state.parameters), (part._buffers, state.buffers)]
        for holder, known in held:
            for key, tensor in holder.items():
                if tensor is None:
                    continue
                name = f"{prefix}.{key}" if prefix else key
                first = names.setdefault(id(tensor), name)
                if first == name:
                    known[name] = tensor
                    state.places[name] = []
                    if known is state.parameters or key not in part._non_persistent_buffers_set:
                        state.persistent.add(name)
                else:
                    state.also.setdefault(first, []).append(name)
                state.places[first].append((holder, key))
                if tensor.device.type != "cpu":
                    raise Refused(f"{name} is on {tensor.device}; hint: module.cpu()")
                if known is state.parameters and tensor.dtype != torch.float32:
                    raise Refused(f"{name} is {str(tensor.dtype)[6:]}, and Hanse trains float32; "
                                  "hint: module.float()")
    if not any(tensor.requires_grad for tensor in state.parameters.values()):
        raise Refused("the module has no parameter that trains (requires_grad)")
    return state


def copies(state: State) -> dict[str, Any]:
    """The tensors as the file has them: their entries in C's order."""
    import torch

    return {name: value.detach().clone(memory_format=torch.contiguous_format)
            for name, value in state.tensors.items()}


@contextlib.contextmanager
def swapped(module: Any, state: State, tensors: Mapping[str, Any]) -> Iterator[None]:
    """The module computes with `tensors`, by the names of `state`, until the end."""
    import torch

    def refresh() -> None:
        for part in module.modules():
            if isinstance(part, torch.nn.RNNBase):   # it holds its weights a second time
                part._flat_weights = [getattr(part, name, None)
                                      for name in part._flat_weights_names]

    before = [(holder, key, holder[key]) for places in state.places.values()
              for holder, key in places]
    try:
        for name, tensor in tensors.items():
            for holder, key in state.places[name]:
                holder[key] = tensor
        refresh()
        yield
    finally:
        for holder, key, tensor in before:
            holder[key] = tensor
        refresh()


def still_parts(module: Any) -> list[Any]:
    """Parts that are in evaluation mode where the module itself trains: they stay so."""
    return [part for part in module.modules() if module.training and not part.training]


@contextlib.contextmanager
def mode_of(module: Any, training: bool) -> Iterator[None]:
    """The module in training or in evaluation until the end; its still_parts() do not train."""
    modes = [(part, part.training) for part in module.modules()]
    still = still_parts(module)
    module.train(training)
    for part in still:
        part.training = False
    try:
        yield
    finally:
        for part, was in modes:
            part.training = was


@contextlib.contextmanager
def plain_kernels() -> Iterator[None]:
    """Operators that every LibTorch has: no oneDNN, no fused attention. Random numbers that are
    drawn meanwhile do not move torch's generator."""
    import torch

    cuda = torch.backends.cuda
    names = [name for name in ("flash", "mem_efficient", "cudnn")
             if hasattr(cuda, f"enable_{name}_sdp")]
    were = {name: getattr(cuda, f"{name}_sdp_enabled")() for name in names}
    mha = getattr(torch.backends, "mha", None)
    fast = mha.get_fastpath_enabled() if mha else None
    try:
        for name in names:
            getattr(cuda, f"enable_{name}_sdp")(False)
        if mha:
            mha.set_fastpath_enabled(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.backends.mkldnn.flags(enabled=False), torch.random.fork_rng(devices=[]):
                yield
    finally:
        for name, was in were.items():
            getattr(cuda, f"enable_{name}_sdp")(was)
        if mha:
            mha.set_fastpath_enabled(fast)


def step(module: Any, state: State, contract: Any, training: bool,
         tensors: Mapping[str, Any], x: Any, deltas: list[Any]
         ) -> tuple[list[Any], list[Any], list[Any]]:
    """The output for the samples x [n, ...] and the representation, where the contract has one; the
    gradients of the sum of each times its delta, of the parameters that train (None: it has none);
    and the buffers after it. Evaluation has no gradients."""
    import torch

    leaves = {name: tensors[name].detach().requires_grad_() for name in state.parameters}
    buffers = {name: tensors[name] for name in state.buffers}
    trained = [leaves[name] for name, value in state.parameters.items() if value.requires_grad]
    with torch.enable_grad(), mode_of(module, training), swapped(module, state,
                                                                 {**leaves, **buffers}):
        results = contract.results(module, x)
        after = []
        for name in state.buffers:
            holder, key = state.places[name][0]
            after.append(holder[key].detach())
    if not training:
        return [result.detach() for result in results], [], after
    for result, what in zip(results, ("the output", "the representation")):
        if not result.requires_grad:
            raise Refused(f"{what} does not depend on a parameter by operators that torch "
                          "differentiates")
    gradients = torch.autograd.grad(results, trained, deltas, allow_unused=True)
    return [result.detach() for result in results], [gradient.to_dense() if gradient is not None and gradient.is_sparse
                             else gradient for gradient in gradients], after


def traced(module: Any, state: State, contract: Any, training: bool, rows: int) -> Graph:
    """The graph for batches of `rows`: inputs are parameters, buffers, x, and in training delta, and
    that of the representation where there is one."""
    import torch

    failures: list[Exception] = []
    for told in (False, True):   # some modules do not choose by values if they know of a tracer
        try:
            with mock.patch.object(torch.jit, "is_tracing", lambda: told):
                return _traced(module, state, contract, training, rows)
        except Exception as error:   # torch and the module raise errors of many kinds
            failures.append(error)
    if isinstance(failures[0], Refused):
        raise failures[0]
    raise Refused(f"the module cannot be traced: {first_line(failures[0])}") from failures[0]


def _traced(module: Any, state: State, contract: Any, training: bool, rows: int) -> Graph:
    import torch

    names = list(state.tensors)
    inputs = [*copies(state).values(), contract.rows(rows)]
    if training:
        inputs += [torch.ones(rows, *shape) for shape in contract.deltas]

    def function(*given: Any) -> list[Any]:
        (output, *read), gradients, after = step(
            module, state, contract, training, dict(zip(names, given)), given[len(names)],
            list(given[len(names) + 1:]))
        return [output, gradients, after if training else [], *read]

    own = {value.data_ptr(): name for name, value in state.tensors.items() if value.numel()}
    parts = names_of(module)
    kinds = ["parameter"] * len(state.parameters) + ["buffer"] * len(state.buffers)
    with plain_kernels():
        torch.manual_seed(1)
        graph = recorded(function, inputs, [*kinds, "x", *DELTAS][:len(inputs)],
                         ["output", "gradients", "buffers", "representation"], own, parts)
    return cleaned(graph)


def first_line(error: BaseException | None) -> str:
    """What an error says, without a traceback's lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def last_line(error: BaseException) -> str:
    """What an error of TorchScript says, behind its traceback."""
    return str(error).strip().splitlines()[-1]


@dataclasses.dataclass
class Graphs:
    """Both graphs as the file has them, the constants that they read, and the buffers: those that
    training changes, or that are averaged. The others are constants under their own names."""
    graphs: dict[str, Any]
    constants: dict[str, Any]
    buffers: list[str]


def trace(module: Any, state: State, contract: Any) -> Graphs:
    """Raises Refused for a module that draws random numbers in other ways than dropout does, and
    for one whose operators, or their numbers other than integers a n + b, depend on the rows n."""
    traces = {name: [traced(module, state, contract, name == "training", rows) for rows in SIZES]
              for name in ("evaluation", "training")}
    buffers = _buffers(state, traces["training"])
    constants = Constants(set(state.tensors))
    for graph in (graph for graphs in traces.values() for graph in graphs):
        for node, name in zip(graph.inputs, state.tensors):
            if name in state.buffers and name not in buffers:
                node.op, node.overload, node.value = "constant", name, state.buffers[name]
        graph.nodes = [node for node in graph.nodes if node.op != "constant" or graph.reads(node)]
        _store(graph)
        for node in graph.constants:
            constants.number(node)
    first = [*state.parameters, *buffers]
    return Graphs({name: merged([written(graph, first, constants) for graph in graphs],
                                [node.place for node in graphs[0].calls])
                   for name, graphs in traces.items()}, constants.tensors, buffers)


def _buffers(state: State, graphs: list[Graph]) -> list[str]:
    import torch

    first = len(state.parameters)
    changed = {name for graph in graphs for place, name in enumerate(state.buffers)
               if graph.outputs["buffers"][place] is not graph.inputs[first + place]}
    kept = [name for name, tensor in state.buffers.items() if name in changed or
            name in state.persistent and tensor.dtype in (torch.float32, torch.int64)]
    for name in kept:
        if state.buffers[name].dtype not in (torch.float32, torch.int64):
            raise Refused(f"training changes the buffer {name}, which is "
                          f"{str(state.buffers[name].dtype)[6:]}; hint: float32 or int64")
    for graph in graphs:
        graph.outputs["buffers"] = [
            None if value is graph.inputs[first + place] else value
            for place, (name, value) in enumerate(zip(state.buffers, graph.outputs["buffers"]))
            if name in kept]
    return kept


def _store(graph: Graph) -> None:
    """Constants become float32, int64 or bool, and are converted where the graph starts."""
    import torch

    converted: dict[Node, Node] = {}
    for node in graph.constants:
        was = node.value.dtype
        if was in (torch.float32, torch.int64, torch.bool):
            continue
        if was.is_complex:
            raise Refused("the module has complex numbers, which a graph does not hold")
        stored = Node("constant", overload=node.overload, value=node.value.to(
            torch.float32 if was.is_floating_point else torch.int64))
        graph.nodes[graph.nodes.index(node)] = stored
        converted[node] = call("_to_copy", stored, dtype=was)
    graph.replace(converted)
    given = [node for node in graph.nodes if node.given]
    graph.nodes = [*given, *converted.values(), *graph.calls]
