"""Files that other processes may write or read at the same time."""
from __future__ import annotations

import contextlib
import csv
import os
import pathlib
import socket
from collections.abc import Iterable, Iterator
from typing import Any


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A name beside `path` that no other process has. The file that is written there takes the place
    of `path` at the end of the block; after an error in the block nothing is left of it."""
    temporary = path.with_name(f"{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_table(path: pathlib.Path, rows: Iterable[Iterable[Any]]) -> None:
    """The file has these rows as CSV, empty fields for None, or it is as it was."""
    with replacing(path) as whole, open(whole, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_whole(path: pathlib.Path, text: str) -> None:
    """The file has this text, or it is as it was."""
    with replacing(path) as temporary:
        temporary.write_text(text)
