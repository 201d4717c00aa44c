"""Makes what a job reads of data as they are fetched: `prepare` of a table in scripts/reproductions.

Each function takes what --data names (a file or folder), a folder to write in and the table's
[data]; it returns the options that name the result. It writes anew only where a source is newer.
"""
import csv
import os
import re

from hanse.program import Refused


def made(result, sources, write):
    """Calls write(path), whose result takes the place of `result`, unless that is newer than all
    sources."""
    missing = [source for source in sources if not source.is_file()]
    if missing:
        raise Refused(f"{missing[0]} is missing; hint: scripts/fetch-data says where it is found")
    newest = max(source.stat().st_mtime_ns for source in sources)
    if result.exists() and result.stat().st_mtime_ns > newest:
        return result
    result.parent.mkdir(parents=True, exist_ok=True)
    temporary = result.with_name(f"{os.getpid()}-{result.name}")
    write(temporary)
    temporary.rename(result)
    return result


def write_csv(path, head, lines):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *lines])


def columns(raw, out, data):
    """A CSV with a header, of a file of lines with `features` numbers and a label, which `labels`
    may rename."""
    features, labels = data["features"], data.get("labels", {})

    def write(path):
        lines = []
        for number, line in enumerate(raw.read_text(errors="replace").split("\n"), 1):
            fields = re.split(r"[,\s]+", line.strip())
            if fields == [""]:
                continue
            if len(fields) != features + 1:
                raise Refused(f"{raw}:{number}: {len(fields)} fields, not {features + 1}; hint: is "
                              "it the right file?")
            lines.append([*fields[:-1], labels.get(fields[-1], fields[-1])])
        write_csv(path, [*(f"f{i}" for i in range(features)), "label"], lines)

    return {"data.path": made(out / "data.csv", [raw], write)}


PREPARED = {"columns": columns}
