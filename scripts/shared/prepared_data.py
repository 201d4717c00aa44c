"""Makes what a job reads of data as they are fetched: `prepare` of a table in scripts/reproductions.

Each function takes what --data names (a file or folder; None where the table needs none), a folder
to write in and the table's [data]; it returns the options that name the result. It writes anew only
where a source is newer.
"""
import csv
import os
import pathlib
import re
import subprocess

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


def cifar_records(folder, part, classes):
    """A label and 3072 bytes, the channels one after another, for each picture."""
    import numpy
    from PIL import Image

    for label, name in enumerate(classes):
        paths = [path for path in (folder / part / name).rglob("*")
                 if path.suffix in (".png", ".jpg", ".jpeg")]
        for path in sorted(paths, key=os.fsencode):
            with Image.open(path) as image:
                pixels = numpy.asarray(image.convert("RGB"))
            if pixels.shape != (32, 32, 3):
                raise Refused(f"{path} is not of 32 x 32 pixels; hint: is it CIFAR-10?")
            yield bytes([label]) + pixels.transpose(2, 0, 1).tobytes()


def cifar(folder, out, _):
    """CIFAR-10's binary files: the folder's own, or made of pictures in train/CLASS and test/CLASS, in
    the order in which data.kind = images reads these."""
    if (folder / "data_batch_1.bin").is_file():
        return {"data.path": folder}
    result = out / "cifar"
    if (result / "batches.meta.txt").is_file():
        return {"data.path": result}
    if not (folder / "train").is_dir():
        raise Refused(f"{folder} has neither data_batch_1.bin nor train; hint: scripts/fetch-data "
                      "says where CIFAR-10 is found")
    classes = sorted((path.name for path in (folder / "train").iterdir()), key=os.fsencode)
    result.mkdir(parents=True, exist_ok=True)
    train = list(cifar_records(folder, "train", classes))
    for i in range(5):  # as many files as the original has
        (result / f"data_batch_{i + 1}.bin").write_bytes(
            b"".join(train[len(train) * i // 5:len(train) * (i + 1) // 5]))
    (result / "test_batch.bin").write_bytes(b"".join(cifar_records(folder, "test", classes)))
    (result / "batches.meta.txt").write_text("".join(f"{name}\n" for name in classes))
    return {"data.path": result}


def network(folder, out, data):
    """The network that scripts/export-model writes with the words `export`, beside the data."""
    file = out / "network.pt"
    if not file.is_file():
        out.mkdir(parents=True, exist_ok=True)
        script = pathlib.Path(__file__).resolve().parents[1] / "export-model"
        said = subprocess.run([script, *data["export"][:1], file, *data["export"][1:]],
                              capture_output=True, text=True, check=False)
        if said.returncode:
            raise Refused(said.stderr.strip())
    return {"model.path": file, **({"data.path": folder} if folder else {})}


PREPARED = {"cifar": cifar, "columns": columns, "network": network}
