"""Clients and their samples out of tables: pandas frames, files of Parquet and Arrow, and pyarrow's
tables."""
from __future__ import annotations

import csv
import math
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .program import Options, Path, Refused, ask, option_words

if TYPE_CHECKING:
    import pandas


def write_table(path: Path, frame: pandas.DataFrame, *, label: str, client: str | None = None,
                features: Sequence[str] | None = None, missing: str = "refuse",
                categories: str = "refuse", options: Options | None = None) -> pathlib.Path:
    """Writes a frame as a federation, which data.kind = hanse reads, and returns its path:

        hanse.write_table("visits.h5", frame, client="clinic", label="ill", missing="mean",
                          categories="one-hot", options={"data.test-fraction": 0.2})

    A row is a sample. The program reads the frame as it reads a table in a file (data/README.md), so
    both give the same federation. `client`: the column that says whose the sample is; without one
    the federation.* keys of `options` share the samples out. `features`: the columns that are kept.
    Default: all others. `missing`, `categories`: data.missing and data.categories; columns of pandas'
    type `category` are categories whatever they hold. `options`: other keys of data and federation,
    such as data.standardize, data.task, or federation.held-out, of whose clients nothing is learnt.

    Values that are filled and categories are told on stderr. Needs pandas. Raises Refused for what the
    program refuses: each fault with its column and its row, frame.iloc[row]."""
    own = [name for name in (client, label) if name is not None]
    chosen = list(features) if features is not None else [name for name in frame.columns
                                                          if name not in own]
    for name in [*own, *chosen]:
        if name not in frame.columns:
            raise Refused(f"the frame has no column '{name}'; it has "
                          f"{', '.join(map(str, frame.columns))}")
    if twice := [name for name in [*own, *chosen] if list(frame.columns).count(name) > 1]:
        raise Refused(f"the frame has several columns '{twice[0]}'; hint: rename them")
    for name in chosen:
        if frame[name].dtype.kind in "mM":
            raise Refused(f"column '{name}' holds dates; hint: (frame.{name} - frame.{name}.min())"
                          ".dt.days is a number")
    named = [str(name) for name in chosen if str(frame[name].dtype) == "category"]
    if bad := [name for name in named if "," in name]:
        raise Refused(f"column '{bad[0]}' has a comma in its name; hint: rename it")
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "frame.csv"
        frame[[*own, *chosen]].to_csv(table, index=False, quoting=csv.QUOTE_NONNUMERIC)
        words = option_words({
            "data.kind": "csv", "data.path": table, "data.label-column": label,
            "data.client-column": client or "", "data.missing": missing,
            "data.categories": categories, "data.category-columns": ",".join(named),
            **(options or {})})
        try:
            ask("convert", os.devnull, path, *words,
                notices=lambda text: sys.stderr.write(_of_frame(text, table)))
        except Refused as refused:
            raise Refused(_of_frame(str(refused), table)) from None
    return pathlib.Path(path)


def _of_frame(message: str, table: pathlib.Path) -> str:
    """A message about the file `table` as one about the frame in it, whose rows count from 0."""
    rows = re.sub(rf"{re.escape(str(table))}:(\d+)",
                  lambda line: f"row {int(line[1]) - 2}" if line[1] != "1" else "the frame", message)
    return rows.replace(str(table), "the frame")


def clients_of_table(table: Any, *, client: str, label: str, features: Sequence[str] | None = None,
                     shape: Sequence[int] | None = None, regression: bool = False,
                     ) -> tuple[dict[str, tuple[Any, Any]], list[str] | None]:
    """The clients of a table, as write_federation() takes them, and the names of their classes:

        clients, classes = hanse.clients_of_table("visits.parquet", client="clinic", label="ill")
        hanse.write_federation("visits.h5", clients, classes=classes)

    `table`: a file of Parquet, or of Arrow (.arrow, .feather), or a pyarrow.Table; a row a sample.
    `client`: the column that says whose the sample is; clients stand in the order of their names.
    `label`: the column of classes, in the order of their names, or numbers first; with `regression`
    of numbers to be predicted, and there are no classes.
    `features`: the columns of the sample's numbers, in order; one of them alone may hold lists of
    one length. Default: all other columns. Unsigned bytes stay such.
    `shape`: the shape of a sample whose numbers are an image, for example (1, 28, 28).

    Needs pyarrow. Raises Refused, which names the column, for one that is missing, has no numbers,
    or misses values, and for numbers that do not have the shape.
    """
    import numpy

    table = _table(table)
    own = [client, label]
    chosen = list(features) if features else [name for name in table.column_names
                                              if name not in own]
    for name in [*own, *chosen]:
        if name not in table.column_names:
            raise Refused(f"the table has no column '{name}'; it has "
                          f"{', '.join(table.column_names)}")
        if table[name].null_count:
            raise Refused(f"column '{name}' misses {table[name].null_count} values")
    x = _numbers(table, chosen)
    if shape is not None:
        if math.prod(shape) != x.shape[1]:
            raise Refused(f"samples have {x.shape[1]} numbers, and {tuple(shape)} "
                          f"{math.prod(shape)}")
        x = x.reshape(len(x), *shape)
    labels = table[label].to_numpy()
    classes = None
    if regression:
        y = _column(label, labels)
    else:
        known, y = numpy.unique(labels, return_inverse=True)
        classes = [str(name) for name in known]
    names, whose = numpy.unique(table[client].to_numpy(), return_inverse=True)
    return {str(name): (x[whose == i], y[whose == i]) for i, name in enumerate(names)}, classes


def _table(source: Any) -> Any:
    try:
        import pyarrow
        from pyarrow import feather, parquet
    except ImportError as error:
        raise Refused(f"tables are read by pyarrow: {error}; hint: pip install pyarrow") from None

    if isinstance(source, pyarrow.Table):
        return source
    read = parquet.read_table if pathlib.Path(source).suffix == ".parquet" else feather.read_table
    try:
        return read(source)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise Refused(f"cannot read {source}: {error}") from None


def _column(name: str, values: Any) -> Any:
    import numpy

    if values.dtype != numpy.uint8 and not numpy.issubdtype(values.dtype, numpy.number):
        raise Refused(f"column '{name}' holds no numbers")
    return values if values.dtype == numpy.uint8 else values.astype(numpy.float32)


def _numbers(table: Any, names: list[str]) -> Any:
    """[rows, numbers of a sample]."""
    import numpy
    from pyarrow import types

    kind = table.schema.field(names[0]).type if names else None
    if kind is not None and len(names) == 1 and (types.is_list(kind) or types.is_large_list(kind)
                                                 or types.is_fixed_size_list(kind)):
        rows = table[names[0]].to_pylist()
        if len({len(row) for row in rows}) > 1:
            raise Refused(f"column '{names[0]}' holds lists of several lengths")
        return _column(names[0], numpy.array(rows, dtype=kind.value_type.to_pandas_dtype()))
    if not names:
        raise Refused("the table has no columns of features")
    return numpy.stack([_column(name, table[name].to_numpy()) for name in names], axis=1)
