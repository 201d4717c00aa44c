"""Files that other processes may write or read at the same time."""
from __future__ import annotations

import contextlib
import os
import pathlib
import socket
from collections.abc import Iterator


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


def write_whole(path: pathlib.Path, text: str) -> None:
    """The file has this text, or it is as it was."""
    with replacing(path) as temporary:
        temporary.write_text(text)
