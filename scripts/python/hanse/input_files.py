"""The files that a job names, by size and digest: whoever goes on with a study sees that one has
changed."""
from __future__ import annotations

import glob
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Known = Mapping[str, Mapping[str, Any]]  # {path: {"size": bytes, "written": stamp, "digest": text}}
CHUNK = 1 << 20
NO_INPUTS = ("run.out", "run.name")


def named_by(options: Mapping[str, Any]) -> list[str]:
    """Paths among the values: every file, and behind keys that end with "path" also folders and
    names with a star. Those that are not there are left out."""
    found: dict[str, None] = {}
    for key, value in options.items():
        whole = str(value)
        for text in () if key in NO_INPUTS else (whole, *map(str.strip, whole.split(","))):
            inputs = key.endswith("path") and (os.path.isdir(text) or "*" in text)
            if text and (inputs or os.path.isfile(text)):
                found[text] = None
    return list(found)


def described(paths: Iterable[str], known: Known) -> dict[str, dict[str, Any]]:
    """Size and digest of each. Those whose size and times of writing are `known` are not read
    again. Cost: the others are read once. Raises OSError."""
    found = {}
    for path in paths:
        files = list(_files_of(path))
        stats = [os.stat(file) for _, file in files]
        stamp = {"size": sum(one.st_size for one in stats), "files": len(files),
                 "written": max((one.st_mtime_ns for one in stats), default=0)}
        before = known.get(path, {})
        same = all(before.get(name) == value for name, value in stamp.items())
        found[path] = {**stamp, "digest": before["digest"] if same else _digest_of(files)}
    return found


def changed(found: Known, known: Known) -> list[str]:
    """Those of both that have another content now."""
    return [path for path, one in found.items()
            if path in known and known[path]["digest"] != one["digest"]]


def _files_of(path: str) -> Iterator[tuple[str, str]]:
    """(name, path) of a file, of all that a star stands for, or of all in a folder, in an order of
    their own; hidden ones are left out."""
    if os.path.isfile(path):
        yield "", path
    elif os.path.isdir(path):
        for folder, inside, names in os.walk(path):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            for name in sorted(names):
                file = os.path.join(folder, name)
                if not name.startswith(".") and os.path.isfile(file):
                    yield os.path.relpath(file, path), file
    else:
        yield from ((name, name) for name in sorted(glob.glob(path)) if os.path.isfile(name))


def _digest_of(files: Iterable[tuple[str, str]]) -> str:
    whole = hashlib.sha256()
    for name, path in files:
        own = hashlib.sha256()
        with pathlib.Path(path).open("rb") as file:
            while part := file.read(CHUNK):
                own.update(part)
        whole.update(f"{name}\0{own.hexdigest()}\n".encode())
    return whole.hexdigest()[:32]
