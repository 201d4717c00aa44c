"""Writes clients and their samples as the file that data.kind = hanse maps into memory."""
from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from .program import Path, Refused, ask

ALIGNMENT = 64  # a cache line


def write_federation(path: Path, clients: Mapping[str, Sequence[Any]], *,
                     classes: Sequence[str] | int | None = None, test_fraction: float = 0.0,
                     seed: int = 1, several_labels: bool = False) -> pathlib.Path:
    """Writes a federation, and returns its path. `hanse run` reads it with data.kind = hanse and
    data.path = PATH.

    `clients`: {name: (x, y)}, or {name: (x, y, x_test, y_test)}. x is [samples, ...]: unsigned
    bytes are divided by 255 when they are read, all other numbers are kept as float32. y is
    [samples]: classes 0, 1, ..., or numbers to be predicted where `classes` is None. y of
    [samples, values] has several numbers to be predicted; with `classes` a class for each position
    of a sequence, -1 for none.
    `classes`: the names of the classes, in order, or their number.
    `several_labels`: y is [samples, classes], 1 for each class of a sample and 0 for the others.
    `test_fraction`: the share of samples, at least 0 and below 1, that `seed` picks for testing
    from clients without x_test; one sample at least stays for training.

    The program copies the samples to seal the file, so that a damaged one is refused: the disk
    needs their size twice meanwhile. Raises Refused, which names the client, for arrays that do not
    fit, and where the file cannot be written.
    """
    import numpy

    if not clients:
        raise Refused("a federation needs a client")
    if not 0 <= test_fraction < 1:
        raise Refused(f"test_fraction {test_fraction} is not in [0, 1)")
    random = numpy.random.default_rng(seed)
    if several_labels and classes is None:
        raise Refused("several_labels needs the classes")
    parts = [_arrays(name, value, classes, test_fraction, random, several_labels)
             for name, value in clients.items()]
    widths = {part[1].shape[1:] for part in parts}
    if len(widths) > 1:
        raise Refused(f"labels have one shape, these have {', '.join(map(str, sorted(widths)))}")
    shapes = {part[0].shape[1:]: name for part, name in zip(parts, clients)}
    if len(shapes) > 1:
        (one, first), (other, second) = list(shapes.items())[:2]
        raise Refused(f"samples have one shape: {one} of client {first}, {other} of {second}")
    target = pathlib.Path(path)
    plain = target.with_name(f"{target.name}.{socket.gethostname()}-{os.getpid()}.part")
    try:
        _write(plain, list(clients), parts, classes, several_labels)
        ask("convert", os.devnull, target, "--data.kind=hanse", f"--data.path={plain}",
            "--federation.partition=auto")
    except OSError as error:
        raise Refused(f"cannot write {plain}: {error}") from None
    finally:
        plain.unlink(missing_ok=True)
    return target


def _arrays(name: str, value: Sequence[Any], classes: Sequence[str] | int | None,
            test_fraction: float, random: Any, several: bool) -> tuple[Any, Any, int]:
    """Samples and labels of a client, those for training first, and how many these are."""
    import numpy

    if len(value) not in (2, 4):
        raise Refused(f"client {name}: expected (x, y) or (x, y, x_test, y_test)")
    pairs = []
    for x, y in (value[:2], value[2:])[:len(value) // 2]:
        x, y = numpy.asarray(x), numpy.asarray(y)
        x = x if x.dtype == numpy.uint8 else _floats(name, "x", x)
        if x.ndim < 2 or y.ndim not in ((2,) if several else (1, 2)) or len(y) != len(x):
            raise Refused(f"client {name}: x of shape {x.shape} and y of shape {y.shape}; hint: "
                          "[samples, ...] and [samples], or [samples, values]")
        pairs.append((x, _labels(name, y, classes, several)))
    if len(pairs) == 2:
        (x, y), (x_test, y_test) = pairs
        if x.shape[1:] != x_test.shape[1:] or y.shape[1:] != y_test.shape[1:]:
            raise Refused(f"client {name}: samples for tests have another shape than the others")
        return numpy.concatenate([x, x_test]), numpy.concatenate([y, y_test]), len(x)
    x, y = pairs[0]
    tested = max(0, min(round(test_fraction * len(x)), len(x) - 1))
    order = random.permutation(len(x)) if tested else numpy.arange(len(x))
    return x[order], y[order], len(x) - tested


def _floats(name: str, what: str, values: Any) -> Any:
    import numpy

    if values.dtype.kind not in "biuf":
        raise Refused(f"client {name}: {what} holds no numbers but {values.dtype}")
    return values.astype(numpy.float32)


def _labels(name: str, y: Any, classes: Sequence[str] | int | None, several: bool) -> Any:
    import numpy

    if classes is None:
        return _floats(name, "y", y)
    count = classes if isinstance(classes, int) else len(classes)
    if several:
        if y.shape[1] != count or not numpy.isin(y, (0, 1)).all():
            raise Refused(f"client {name}: y is [samples, {count}], of 0 and 1")
        return _floats(name, "y", y)
    numbers = y if y.dtype.kind in "biu" else _floats(name, "y", y)
    if y.ndim == 2 and 1 < count == y.shape[1] and len(y) and (
            numpy.isin(y, (0, 1)).all() and (numbers.sum(axis=1) == 1).all()):
        raise Refused(f"client {name}: y is one-hot; hint: y.argmax(axis=1), the class of each "
                      "sample")
    least = 0 if y.ndim == 1 else -1
    if len(y) and not ((numbers >= least) & (numbers < count) & (numbers == numpy.floor(y))).all():
        raise Refused(f"client {name}: labels are whole numbers in [0, {count})")
    return y.astype(numpy.int32)


def _write(path: pathlib.Path, names: list[str], parts: list[tuple[Any, Any, int]],
           classes: Sequence[str] | int | None, several: bool) -> None:
    """Writes the file without a seal; data/clients.md has the format."""
    import h5py
    import numpy

    sizes = [len(y) for _, y, _ in parts]
    offsets = numpy.concatenate([[0], numpy.cumsum(sizes)]).astype(numpy.int64)
    bytes_all = all(x.dtype == numpy.uint8 for x, _, _ in parts)
    count = 0 if classes is None or several else (
        classes if isinstance(classes, int) else len(classes))
    with h5py.File(path, "w", alignment_threshold=1, alignment_interval=ALIGNMENT) as file:
        file.attrs.update(version=1, classes=count, held_out=0,
                          encoding=numpy.bytes_("byte/255" if bytes_all else "float"))
        if several:
            file.attrs["multi_label"] = 1
        file["offsets"] = offsets
        file["train_end"] = offsets[:-1] + [train for _, _, train in parts]
        file["client_names"] = [str(name) for name in names]
        if classes is not None and not isinstance(classes, int):
            file["class_names"] = [str(name) for name in classes]
        features = file.create_dataset("features", (offsets[-1], *parts[0][0].shape[1:]),
                                       "uint8" if bytes_all else "float32")
        labels = file.create_dataset("labels" if count else "targets",
                                     (offsets[-1], *parts[0][1].shape[1:]),
                                     "int32" if count else "float32")
        for begin, (x, y, _) in zip(offsets, parts):
            scaled = x if bytes_all or x.dtype != numpy.uint8 else x / numpy.float32(255)
            features[begin:begin + len(y)] = scaled
            labels[begin:begin + len(y)] = y
