"""The files that the runs of scripts/digests read: found on the machine, or made."""
import array
import csv
import dataclasses
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess

from shared.sweeping import ROOT

INPUTS, CLASSES = (1, 6, 6), 5  # what the made network takes, and tells apart
CLIENTS = 24


@dataclasses.dataclass
class Made:
    """The value of an option that is a file, which a method of Sources writes."""
    how: str
    what: dict = None


def words(options):
    """The program's arguments."""
    return [f"--{key}={value}" for key, value in options.items() if value is not None]


def node(op, *args, overload="", **kwargs):
    return {"op": op, "overload": overload, "args": list(args), "kwargs": kwargs}


def layer_graphs(pixels):
    """Passes of a dense layer. Values: 0 weight, 1 bias, 2 samples, in training 3 what the outputs'
    gradient is; then the nodes' results."""
    def outputs(first):
        return [node("aten::view", {"v": 2}, [{"rows": [1, 0]}, pixels]), node("aten::t", {"v": 0}),
                node("aten::addmm", {"v": 1}, {"v": first}, {"v": first + 1})]
    back = [node("aten::t", {"v": 3}), node("aten::mm", {"v": 7}, {"v": 4}),
            node("aten::sum", {"v": 3}, [0], overload="dim_IntList")]
    return {"evaluation": {"nodes": outputs(3), "outputs": 5},
            "training": {"nodes": outputs(4) + back,
                         "outputs": {"output": 6, "gradients": [8, 9], "buffers": []}}}


class Sources:
    """The data of job files: found on the machine, or made in their shape."""

    def __init__(self, given, scratch, program):
        self.given, self.scratch, self.program = given, scratch, program

    def filled(self, options):
        """The options with the files that are to be made."""
        def path(value):
            return getattr(self, value.how)(*([value.what] if value.what else []))
        return {key: path(value) if isinstance(value, Made) else value
                for key, value in options.items()}

    def options(self, job):
        """Options that name the job's data, and whether the data are made."""
        path = re.search(r"^path *= *(\S+)", job.read_text(), re.M)
        if path is None or (ROOT / path.group(1)).exists():
            return {}, False
        path = pathlib.Path(path.group(1))
        if path.suffix == ".csv":
            return self.table(path.stem)
        if path.suffix == ".txt":
            found = self.given and self.given / path.stem / "input.txt"
            return ({"data.path": found}, False) if found and found.is_file() else (
                {"data.path": self.plays()}, True)
        found = self.given and self.given / path.name
        if found and found.is_dir():
            return {"data.path": found}, False
        return {"data.kind": "random", "data.shape": "1,28,28", "data.classes": 10}, True

    def table(self, name):
        """magic04.data and shuttle.trn without a header, or samples of their shape."""
        out = self.scratch / f"{name}.csv"
        raw = sorted((self.given / name).glob(f"{name}*.*")) if self.given else []
        if raw:
            lines = [re.split(r"[,\s]+", line.strip()) for line in raw[0].open() if line.strip()]
        else:
            draw = random.Random(1)
            lines = [[*(f"{draw.gauss(0, 1):.4f}" for _ in range(9)), i % 2] for i in range(2000)]
        with out.open("w", newline="") as file:
            csv.writer(file).writerows(
                [[*(f"f{i}" for i in range(len(lines[0]) - 1)), "label"], *lines])
        return {"data.path": out}, not raw

    def plays(self):
        """A text of roles, for data.kind = text."""
        draw, out = random.Random(1), self.scratch / "plays.txt"
        words = ["love", "night", "king", "sword", "and", "the", "of", "thy", "heart", "crown"]
        roles = [f"ROLE {role}:\n" + " ".join(draw.choices(words, k=4000)) + "\n\n"
                 for role in "ABCDE"]
        out.write_text("".join(roles))
        return out

    def converted(self, options):
        """The data of these options as a file of Hanse."""
        out = self.scratch / "converted.h5"
        subprocess.run([self.program, "convert", os.devnull, out, *words(options)], cwd=ROOT,
                       capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return out

    def numbers(self, column):
        """A table with three numbers in turn for the clients: {its column: the first number}."""
        (name, first), = column.items()
        out = self.scratch / f"{name}s.csv"
        out.write_text(f"client,{name}\n" + "".join(
            f"{client},{first + client % 3}\n" for client in range(CLIENTS)))
        return out

    def graph(self):
        """A network of one dense layer, for model.kind = graph."""
        pixels, out = math.prod(INPUTS), self.scratch / "layer.graph"
        tensors = {"fc.weight": [CLASSES, pixels], "fc.bias": [CLASSES]}
        note = {"format": 1, "writer": "scripts/digests", "sample": INPUTS, "output": [CLASSES],
                "parameters": [{"name": name, "tensor": name, "trains": True} for name in tensors],
                "buffers": [], "constants": [], "graphs": layer_graphs(pixels)}
        header, values = {"__metadata__": {"hanse.graph": json.dumps(note)}}, array.array("f")
        for name, shape in tensors.items():
            begin = values.itemsize * len(values)
            values.extend(0.3 * math.sin(0.7 * i) for i in range(math.prod(shape)))
            header[name] = {"dtype": "F32", "shape": shape,
                            "data_offsets": [begin, values.itemsize * len(values)]}
        text = json.dumps(header).encode()
        out.write_bytes(struct.pack("<Q", len(text)) + text + values.tobytes())
        return out
