"""What must not matter: each case makes one data set in several ways, and the trained models are the
same to the last bit."""

import gzip
import json
import os
import unittest

import harness
from test_data import DataCase, leaf_text, tff_file

try:
    import h5py
    import numpy as np
    from PIL import Image
except ImportError:
    Image = None

CLIENTS = ("north", "south", "east", "west")
SCALED = {"data.standardize": "all", "data.missing": "mean", "data.categories": "one-hot"}
HELD_OUT = {"federation.held-out": "east"}
VALIDATES = {"federation.validation-clients": "east"}
KEPT_OUT = (HELD_OUT, VALIDATES)
WEIGHTED = {"client.class-weights": "all"}
METHODS = ({"aggregator.kind": "aaggff-d"}, {"aggregator.kind": "dqn-fed"},
           {"aggregator.kind": "fedheal"}, {"aggregator.kind": "median"},
           {"client.update": "scaffold"}, {"client.update": "ditto"}, {"sampler.kind": "osmd"},
           {"sampler.kind": "vrb"}, {"sampler.kind": "oort"}, {"server.optimizer": "adam"},
           {"clock.kind": "virtual"}, {"evaluate.view": "personalised"})
MLP = {"model.kind": "mlp", "model.hidden": 6}
NAMED = {"data.client-column": "site", "data.label-column": "ill"}


def other(x):
    """Other numbers of the same kind."""
    return 3 * x[::-1] + 1


@unittest.skipIf(Image is None, "h5py, NumPy or Pillow is not installed")
class Invariance(DataCase):
    """A data set is written by `write_KIND(name, ...)`, whose options say what must not matter."""

    def digest(self, keys, ranks=None):
        self.count = getattr(self, "count", 0) + 1
        base = {"run.rounds": 3, "checkpoint.every": 0, "evaluate.every": 3, "data.shape": None,
                "data.classes": None, "federation.clients": None, "federation.samples": None,
                "sampler.per-round": 2, "data.test-fraction": 0.25}
        out = f"run-{self.count}"
        self.train(self.job({**base, **keys}, f"{out}.cfg"), out, ranks)
        return harness.digest(self.path(out))

    def assert_equal(self, *ways):
        """Each way is (keys) or (keys, ranks)."""
        digests = harness.together([lambda way=way: self.digest(*way) for way in ways])
        self.assertEqual(len(set(digests)), 1, list(zip(ways, digests)))

    def assert_different(self, one, another):
        """So that the case would show a difference."""
        self.assertNotEqual(self.digest(one), self.digest(another))

    # -- tables

    def rows(self, changed=None):
        """[site, age, sex, dose, ill] of 48 visits. `changed` has other numbers in one client."""
        draw = np.random.default_rng(3)
        rows = []
        for i in range(48):
            site = CLIENTS[i % 4]
            age, dose = draw.normal(50, 9), draw.normal(0, 2)
            values = [round(age, 2), draw.choice(["f", "m"]), round(dose, 3)]
            ill = int(age + 3 * dose > 50)
            if site == changed:
                values = [round(9 * age, 2), values[1], round(100 - dose, 3)]
            if i in (5, 9):
                values[i % 3] = ""
            rows.append([site, *values, ill])
        return rows

    def table(self, name, rows, head=("site", "age", "sex", "dose", "ill"), order=None,
              separator=",", end="\n", mark=""):
        order = order or head
        lines = [separator.join(order)]
        for row in rows:
            cells = dict(zip(head, row))
            lines.append(separator.join(str(cells[column]) for column in order))
        return self.write(name, mark + end.join(lines) + end)

    def csv(self, path, **more):
        return {"data.kind": "csv", "data.path": path, **NAMED, **SCALED,
                **{key.replace("__", ".").replace("_", "-"): value for key, value in more.items()}}

    def test_numbers_of_clients_that_are_kept_out(self):
        one = self.table("one.csv", self.rows())
        two = self.table("two.csv", self.rows(changed="east"))
        for kept_out in KEPT_OUT:
            for scope in ("all", "client", "none"):
                for more in ({"data.missing": "mean"}, {"data.missing": "median", **WEIGHTED},
                             {"data.missing": "category", **MLP}):
                    keys = {**kept_out, **more, "data.standardize": scope, "client.lr": 0.001}
                    self.assert_equal(({**self.csv(one), **keys},), ({**self.csv(two), **keys},))
        self.assert_different(self.csv(one), self.csv(two))

    def test_order_of_rows_of_different_clients(self):
        rows = self.rows()
        first = rows[:4]  # clients are numbered as they appear
        grouped = first + sorted(rows[4:], key=lambda row: CLIENTS.index(row[0]))
        self.assert_equal((self.csv(self.table("one.csv", rows)),),
                          (self.csv(self.table("two.csv", grouped)),))

    def test_ways_to_write_a_table(self):
        rows = self.rows()
        plain = self.table("plain.csv", rows)
        packed = self.path("packed.csv.gz")
        with open(plain, "rb") as source, gzip.open(packed, "wb") as file:
            file.write(source.read())
        quoted = [[f'"{cell}"' if cell != "" else cell for cell in row] for row in rows]
        self.assert_equal(*[(self.csv(path),) for path in (
            plain, packed, self.table("crlf.csv", rows, end="\r\n", mark="\ufeff"),
            self.table("semicolon.csv", rows, separator=";"),
            self.table("tabs.csv", rows, separator="\t"), self.table("quoted.csv", quoted))])

    def test_units_of_columns_that_are_standardized(self):
        rows = self.rows()
        scaled = [[site, age and 1024 * age, sex, dose and dose / 64, ill]
                  for site, age, sex, dose, ill in rows]
        for scope in ("all", "client"):
            for model in ({}, MLP):
                keys = {"data.standardize": scope, **model}
                self.assert_equal(({**self.csv(self.table("one.csv", rows)), **keys},),
                                  ({**self.csv(self.table("two.csv", scaled)), **keys},))

    def test_files_and_what_lies_beside_them(self):
        head = ["age", "sex", "dose", "ill"]
        parts = {site: [row[1:] for row in self.rows() if row[0] == site] for site in CLIENTS}

        def files(folder, order, name, columns=lambda _: head, more=None):
            for site in order:
                self.table(f"{folder}/{name(site)}", parts[site], head, columns(site))
            for path, text in (more or {}).items():
                self.write(f"{folder}/{path}", text)
            keys = self.csv(self.path(folder, name("*")))
            return ({**keys, "data.client-column": None, "federation.partition": "by-column",
                     **HELD_OUT},)

        def flat(site):
            return f"{site}.csv"

        self.assert_equal(
            files("one", CLIENTS, flat), files("two", CLIENTS[::-1], flat),
            files("turned", CLIENTS, flat, lambda site: head if site == "east" else head[::-1]),
            files("folders", CLIENTS, lambda site: f"{site}/data.csv",
                  more={".old/data.csv": "x", "empty/notes.txt": "x", "data.csv": "x"}),
            files("hidden", CLIENTS, flat, more={
                ".north.csv": "age,ill\n1,0\n", "._south.csv": "\0\5\26\7", "notes.txt": "x",
                "deep/centre.csv": "x", "north.csv.bak": "x", "north.csv.host-1.tmp": "x"}))

    # -- arrays, pictures and other people's formats: (keys of the job, {name: (x, y)})

    def samples(self, shape=(6,), changed=None):
        draw = np.random.default_rng(5)
        clients = {}
        for site in CLIENTS:
            x = draw.random((12, *shape), dtype=np.float32)
            y = (x.reshape(12, -1).sum(1) > np.prod(shape) / 2).astype(np.int64)
            clients[site] = (other(x) if site == changed else x, y)
        return clients

    def npz(self, name, clients):
        path = self.path(f"{name}.npz")
        np.savez(path, x=np.concatenate([x for x, _ in clients.values()]),
                 y=np.concatenate([y for _, y in clients.values()]),
                 client=np.repeat(list(clients), [len(y) for _, y in clients.values()]))
        return {"data.kind": "npz", "data.path": path, "federation.partition": "by-column"}

    def tff(self, name, clients):
        order = list(clients)[::-1] if name == "two" else list(clients)
        path = tff_file(self.path(f"{name}-tff.h5"), {
            site: {"pixels": clients[site][0], "label": clients[site][1].astype(np.int32)}
            for site in order})
        return {"data.kind": "tff", "data.path": path}

    def leaf(self, name, clients):
        users = {site: (x.reshape(len(x), -1).tolist(), y.tolist())
                 for site, (x, y) in clients.items()}
        text = json.loads(leaf_text(users))
        if name == "two":
            text = {**dict(reversed(text.items())), "more": 1}
            for hidden in (".DS_Store", "._all.json", "notes.txt"):
                self.write(f"{name}/train/{hidden}", "\0")
        self.write(f"{name}/train/all.json", json.dumps(text))
        shape = ",".join(map(str, next(iter(clients.values()))[0].shape[1:]))
        return {"data.kind": "leaf", "data.path": self.path(name), "data.shape": shape}

    def hanse_file(self, name, clients):
        path = self.path(f"{name}-converted.h5")
        job = self.job({**self.npz(name, clients), "data.shape": None, "data.classes": None,
                        "data.test-fraction": 0.25}, f"{name}-convert.cfg")
        self.hanse("convert", job, path, "--run.overwrite=true")
        return {"data.kind": "hanse", "data.path": path}

    def test_samples_of_clients_that_are_kept_out(self):
        image = (1, 4, 4)
        for kind, shape, more in [
                (self.npz, (6,), MLP), (self.npz, image, {"data.normalize": "all"}),
                (self.npz, (6,), {**WEIGHTED, "data.standardize": "all"}),
                (self.tff, (4, 4), {"data.normalize": "all"}), (self.tff, (4, 4), WEIGHTED),
                (self.leaf, image, {"data.normalize": "all"}),
                (self.hanse_file, image, {"data.normalize": "all", **WEIGHTED})]:
            for kept_out in KEPT_OUT:
                with self.subTest(kind=kind.__name__, **more, **kept_out):
                    self.assert_equal(
                        ({**kind("one", self.samples(shape)), **more, **kept_out},),
                        ({**kind("changed", self.samples(shape, "east")), **more, **kept_out},))

    def test_samples_of_clients_that_are_kept_out_for_every_method(self):
        one, changed = [
            {**self.npz(name, self.samples(changed=client)), "data.standardize": "all", **HELD_OUT}
            for name, client in (("one", None), ("changed", "east"))]
        for method in METHODS:
            with self.subTest(**method):
                self.assert_equal(({**one, **method},), ({**changed, **method},))

    def test_ways_to_write_clients(self):
        for kind in (self.tff, self.leaf):
            self.assert_equal((kind("one", self.samples((4, 4))),),
                              (kind("two", self.samples((4, 4))),))

    def test_hidden_files_beside_pictures_and_their_order(self):
        draw = np.random.default_rng(1)
        pictures = {f"{label}/{i}.png": draw.integers(0, 256, (5, 5), dtype=np.uint8)
                    for label in ("cat", "dog") for i in range(12)}
        for name, order in (("one", 1), ("two", -1)):
            for path, pixels in list(pictures.items())[::order]:
                os.makedirs(os.path.dirname(self.path(name, path)), exist_ok=True)
                Image.fromarray(pixels).save(self.path(name, path))
        for path in (".git/x.png", "cat/.thumb.png", "cat/.cache/1.png", "__MACOSX/cat/1.png",
                     "dog/notes.txt", "loose.png"):
            self.write(f"two/{path}", "no picture")
        keys = {"data.kind": "images", "federation.clients": 4, "model.kind": "linear"}
        self.assert_equal(*[({**keys, "data.path": self.path(name)},) for name in ("one", "two")])

    def idx(self, name, packed=False, beside=()):
        draw = np.random.default_rng(2)
        for kind, head, values in (
                ("images-idx3", [0x803, 40, 4, 4], draw.integers(0, 256, 640, dtype=np.uint8)),
                ("labels-idx1", [0x801, 40], np.arange(40, dtype=np.uint8) % 3)):
            data = np.array(head, ">u4").tobytes() + values.tobytes()
            self.write(f"{name}/train-{kind}-ubyte{'.gz' * packed}",
                       gzip.compress(data) if packed else data)
        for path in beside:
            self.write(f"{name}/{path}", "x")
        return {"data.kind": "idx", "data.path": self.path(name), "federation.clients": 4}

    def test_ways_to_write_idx_and_what_lies_beside_it(self):
        self.assert_equal((self.idx("plain"),), (self.idx("packed", packed=True),),
                          (self.idx("beside", beside=("._train-images-idx3-ubyte", ".DS_Store",
                                                      "README", "notes.txt")),))

    def test_cifar_beside_other_files(self):
        record = np.random.default_rng(4).integers(0, 256, (40, 3074), dtype=np.uint8)
        record[:, 1] = np.arange(40) % 10  # the fine labels
        for name in ("one", "two"):
            self.write(f"{name}/train.bin", record.tobytes())
        for path in (".hidden.bin", "._train.bin", "readme.html"):
            self.write(f"two/{path}", "x")
        self.assert_equal(*[({"data.kind": "cifar", "data.path": self.path(name),
                              "federation.clients": 4},) for name in ("one", "two")])

    def test_plays(self):
        speeches = [(site, f"to be {i} or not") for i in range(6) for site in CLIENTS]
        text = "".join(f"{site}:\n{words}\n\n" for site, words in speeches)
        said = {site: [words for name, words in speeches if name == site] for site in CLIENTS}
        grouped = "".join(f"{site}:\n{words}\n\n" for site in CLIENTS for words in said[site])
        changed = text.replace("east:\nto be", "east:\nnot as")
        keys = {"data.kind": "text", "data.window": 6, "model.kind": "lstm", "model.units": 8,
                "model.layers": 1, "federation.min-samples": 1}
        paths = [self.write(f"{i}.txt", play) for i, play in enumerate(
            (text, grouped, text.replace("\n", "\r\n"), "\n\n" + text))]
        self.assert_equal(*[({**keys, "data.path": path},) for path in paths])
        for kept_out in KEPT_OUT:
            self.assert_equal(*[({**keys, **kept_out, "data.path": path},)
                                for path in (paths[0], self.write("changed.txt", changed))])

    # -- what is no data

    def test_ranks_and_evaluations(self):
        """For every kind of data, a model each."""
        names = {"model.kind": "lstm", "model.units": 8, "model.layers": 1, "data.window": 6}
        play = self.write("play.txt", "".join(f"{site}:\nwords of {i}\n\n" for i in range(6)
                                              for site in CLIENTS))
        made_up = {"federation.clients": 4, "federation.samples": 12}
        for keys in (
                self.csv(self.table("ranks.csv", self.rows()), **HELD_OUT), self.idx("ranks"),
                {**self.npz("ranks", self.samples()), **MLP}, self.leaf("ranks", self.samples()),
                {**self.tff("ranks", self.samples((4, 4))), "data.normalize": "all"},
                self.hanse_file("held", self.samples()),
                {"data.kind": "text", "data.path": play, **names},
                {"data.kind": "random", "data.shape": "1,6,6", "data.classes": 3, **made_up},
                {"data.kind": "synthetic-classification", **made_up},
                {"data.kind": "synthetic-regression", "model.loss": "squared-error",
                 "client.lr": 0.001, "data.test-fraction": 0, **made_up}):
            with self.subTest(kind=keys["data.kind"]):
                evaluates = {"evaluate.every": 1, "evaluate.history": True, "evaluate.start": True}
                self.assert_equal((keys,), (keys, 2), (keys, 3), ({**keys, **evaluates},),
                                  ({**keys, "evaluate.clients": 2, "run.name": "other"},))


if __name__ == "__main__":
    harness.main()
