"""Data sets in other people's formats, written by their own libraries: what Hanse makes of them."""

import json
import os
import re
import signal
import subprocess
import unittest

import harness

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

OWN_CLIENTS = {"data.shape": None, "data.classes": None, "federation.clients": None,
               "federation.samples": None, "sampler.per-round": 2, "run.rounds": 4,
               "evaluate.every": 2}
MB = 1e6


def tff_file(path, clients):
    """clients: {name: {dataset: array}}."""
    with h5py.File(path, "w") as file:
        for name, arrays in clients.items():
            for key, values in arrays.items():
                file.create_dataset(f"examples/{name}/{key}", data=values)
    return path


def images(rng, samples, classes=3, shape=(4, 4)):
    return {"pixels": rng.random((samples, *shape), dtype=np.float32),
            "label": rng.integers(0, classes, samples).astype(np.int32)}


def leaf_text(users):
    """users: {name: (x, y)}; as LEAF's own scripts write it."""
    return json.dumps({"users": list(users), "num_samples": [len(y) for _, y in users.values()],
                       "user_data": {name: {"x": x, "y": y} for name, (x, y) in users.items()}})


@unittest.skipIf(h5py is None, "h5py is not installed")
class DataCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(7)

    def data_job(self, kind, path, **more):
        keys = {key.replace("__", ".").replace("_", "-"): value for key, value in more.items()}
        return self.job({**OWN_CLIENTS, "data.kind": kind, "data.path": path, **keys})

    def convert(self, job, out="out.h5", expect=0):
        return self.hanse("convert", job, self.path(out), expect=expect)

    def converted(self, job):
        """(samples [train, test] of each client, attributes) of the converted data."""
        self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
        with h5py.File(self.path("out.h5")) as file:
            offsets, train_end = file["offsets"][:], file["train_end"][:]
            features = file["features"][:]
            labels = file["labels"][:]
            clients = [[(features[a:b], labels[a:b]) for a, b in [(begin, cut), (cut, end)]]
                       for begin, cut, end in zip(offsets[:-1], train_end, offsets[1:])]
            return clients, dict(file.attrs)

    def assert_part(self, part, features, labels):
        self.assertTrue(np.array_equal(part[0], features), f"{part[0]}\n{features}")
        self.assertEqual(part[0].dtype, features.dtype)
        self.assertEqual(list(part[1]), list(np.ravel(labels)))


    def refuse(self, job, *parts, out="out.h5"):
        """Status 2, one line, nothing left."""
        self.assert_one_error(self.convert(job, out, expect=None), 2, "hint: ", *parts)
        self.assertFalse(os.path.exists(self.path(out)))
        self.assertEqual([name for name in os.listdir(self.folder) if ".tmp" in name], [])


class RoundTrip(DataCase):
    def test_tff_emnist(self):
        train = {name: images(self.rng, n) for name, n in [("f2", 3), ("f1", 5), ("f0", 1)]}
        test = {name: images(self.rng, n) for name, n in [("f0", 2), ("f2", 4), ("g9", 3)]}
        job = self.data_job("tff", tff_file(self.path("train.h5"), train),
                            data__test_path=tff_file(self.path("test.h5"), test))
        clients, attributes = self.converted(job)
        self.assertEqual(attributes["classes"], 3)
        self.assertEqual(attributes["held_out"], 1)
        for name, (own_train, own_test) in zip(["f0", "f1", "f2", "g9"], clients):
            for part, source in [(own_train, train), (own_test, test)]:
                if name in source:
                    self.assert_part(part, source[name]["pixels"].reshape(-1, 1, 4, 4),
                                     source[name]["label"])
                else:
                    self.assertEqual(len(part[1]), 0)
        process = self.hanse("run", job, f"--run.out={self.path('run')}")
        self.assertIn("1 of 3 clients have no test samples", process.stderr())
        self.assertIn("1 clients have test samples alone", process.stderr())
        rows = harness.table(self.path("run"), "clients.csv")
        self.assertEqual([(row["name"], row["split"], row["held_out"]) for row in rows],
                         [("f0", "test", "0"), ("f1", "train", "0"), ("f2", "test", "0"),
                          ("g9", "test", "1")])
        self.assertEqual(harness.column(self.path("run"), "evaluations.csv", "split"), ["mixed"] * 2)
        self.assertIn("training samples of 1 that have no others", process.stdout())
        self.assertIn("\nclients = 4\n", harness.text(self.path("run"), "job.cfg"))

    def test_tff_test_file_of_other_clients(self):
        """What is measured on training samples is called so; labels of tests alone are read."""
        def own(label):
            return {**images(self.rng, 4), "label": np.array([0, 1, 0, label])}
        train = tff_file(self.path("train.h5"), {"f0": own(1), "f1": own(0)})
        test = tff_file(self.path("test.h5"), {"g0": own(5), "g1": own(3)})
        job = self.data_job("tff", train, data__test_path=test)
        process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2)
        self.assertIn("2 of 6 classes have test samples alone, and no client trains on them: 3, 5",
                      process.stderr())
        lines = process.stdout().splitlines()
        for label in ("training accuracy, mean of clients ", "training loss, mean of clients ",
                      "test accuracy, held-out clients ", "test loss, held-out clients "):
            self.assertEqual(len([line for line in lines if line.startswith(label)]), 1, lines)
        self.assertFalse([line for line in lines if line.startswith("test loss, mean")])
        summary = harness.summary(self.path("run"))
        self.assertEqual((summary["split"], summary["held_out_split"]), ("train", "test"))
        accuracies = [float(value)
                      for value in harness.column(self.path("run"), "clients.csv", "accuracy")]
        self.assertAlmostEqual(summary["metrics"]["held_out_accuracy_mean"],
                               sum(accuracies[2:]) / 2)

    def test_tff_cifar(self):
        source = {str(c): {"image": self.rng.integers(0, 256, (6, 4, 5, 3), dtype=np.uint8),
                           "coarse_label": np.full((6, 1), c, np.int64),
                           "label": self.rng.integers(0, 9, (6, 1))} for c in range(3)}
        job = self.data_job("tff", tff_file(self.path("train.h5"), source),
                            data__label_column="coarse_label", data__test_fraction=0)
        clients, attributes = self.converted(job)
        self.assertEqual(attributes["encoding"], b"byte/255")
        for c, (train, test) in enumerate(clients):
            self.assert_part(train, source[str(c)]["image"].transpose(0, 3, 1, 2), [c] * 6)
            self.assertEqual(len(test[1]), 0)

    def test_tff_compressed(self):
        source = images(self.rng, 40)
        with h5py.File(self.path("train.h5"), "w") as file:
            for key, values in source.items():
                file.create_dataset(f"examples/a/{key}", data=values, compression="gzip",
                                    chunks=True)
        job = self.data_job("tff", self.path("train.h5"), data__test_fraction=0)
        self.assert_part(self.converted(job)[0][0][0], source["pixels"].reshape(-1, 1, 4, 4),
                         source["label"])

    def test_tff_in_any_version_and_type(self):
        """Whatever HDF5 can store, the same samples come out."""
        source = {name: images(self.rng, n) for name, n in [("a", 3), ("b", 1), ("c", 4)]}
        for number, (label, pixel, options) in enumerate([
                ("<i4", "<f4", {}), ("<i8", "<f8", {}), (">i2", ">f4", {}), ("u1", "<f2", {}),
                ("<i4", "<f4", {"libver": "latest"}), ("<i4", "<f4", {"userblock_size": 512}),
                ("<i4", "<f4", {"track_order": True})]):
            path = self.path(f"{number}.h5")
            with h5py.File(path, "w", **options) as file:
                for name, arrays in source.items():
                    file[f"examples/{name}/label"] = arrays["label"].astype(label)
                    file[f"examples/{name}/pixels"] = arrays["pixels"].astype(pixel)
            clients, _ = self.converted(self.data_job("tff", path, data__test_fraction=0))
            for (train, _), arrays in zip(clients, source.values()):
                pixels = arrays["pixels"].astype(pixel).astype(np.float32)
                self.assert_part(train, pixels.reshape(-1, 1, 4, 4), arrays["label"])

    def test_tff_texts(self):
        texts = {"a": ["To be", "or not"], "b": ["ab"]}
        for fixed in (False, True):
            kind = "S9" if fixed else h5py.string_dtype()
            source = {name: {"snippets": np.array(lines, dtype=kind)}
                      for name, lines in texts.items()}
            job = self.data_job("tff", tff_file(self.path("train.h5"), source), data__window=4,
                                data__test_fraction=0)
            clients, attributes = self.converted(job)
            self.assertEqual((attributes["classes"], attributes["encoding"]), (97, b"token"))
            number = {character: ord(character) - 30 for character in "Tobernt a"} | {"\n": 1}
            stream = [number[character] for character in "To be\nor not"]
            windows = np.array([([0] * 4 + stream[:i])[-4:] for i in range(1, len(stream))],
                               np.uint8)
            self.assert_part(clients[0][0], windows, stream[1:])
            self.assert_part(clients[1][0], np.array([[0, 0, 0, ord("a") - 30]], np.uint8),
                             [ord("b") - 30])

    def test_tff_words(self):
        source = {"a": {"tokens": np.array(["how to sort a list", "a list"], h5py.string_dtype()),
                        "tags": np.array(["c++|sort", "python"], h5py.string_dtype())}}
        job = self.data_job("tff", tff_file(self.path("train.h5"), source), data__window=3,
                            data__vocabulary_size=2, data__test_fraction=0)
        clients, attributes = self.converted(job)
        self.assertEqual(attributes["classes"], 5)
        stream = [1, 1, 1, 3, 4, 2, 3, 4]  # a 3, list 4, 2 ends a text, 1 is any other word
        windows = np.array([([0] * 3 + stream[:i])[-3:] for i in range(1, 8)], np.uint8)
        self.assert_part(clients[0][0], windows, stream[1:])

    def test_tff_of_stack_overflow(self):
        """All of its datasets; the first samples of each client."""
        def post(n):
            return {"tokens": np.array(["a b c d e"] * n, h5py.string_dtype()),
                    "title": np.array(["t"] * n, h5py.string_dtype()),
                    "tags": np.array(["c++|sort"] * n, h5py.string_dtype()),
                    "creation_date": np.array(["2015-01-01"] * n, h5py.string_dtype()),
                    "score": np.arange(n), "type": np.array(["answer"] * n, h5py.string_dtype())}
        path = tff_file(self.path("train.h5"), {"u": post(4), "v": post(1)})
        test = tff_file(self.path("test.h5"), {"u": post(3), "v": post(1)})
        job = self.data_job("tff", path, data__test_path=test, data__window=3,
                            data__max_samples=5, data__stride=2)
        (u, v), _ = self.converted(job)
        stream = ([3, 4, 5, 6, 7, 2] * 4)[:-1]
        windows = [([0] * 3 + stream[:i])[-3:] for i in (1, 3, 5, 7, 9)]
        for part in u:
            self.assert_part(part, np.array(windows, np.uint8), [4, 6, 2, 4, 6])
        for part in v:
            self.assert_part(part, np.array(windows[:2], np.uint8), [4, 6])
        self.refuse(self.data_job("tff", path, data__label_column="score"), "score is no label",
                    "data.label-column", "next token", out="no.h5")
        self.refuse(self.data_job("tff", path, data__feature_column="score"),
                    "no dataset 'label'", "creation_date, score, tags, title, tokens, type",
                    out="no.h5")

    def leaf(self, train, test, files=1):
        for part, users in [("train", train), ("test", test)]:
            names = list(users)
            for i in range(files):
                self.write(f"leaf/{part}/all_{i}.json",
                           leaf_text({name: users[name] for name in names[i::files]}))
        return self.path("leaf")

    def test_leaf_images(self):
        def user(n):
            return (self.rng.random((n, 16), dtype=np.float32).tolist(),
                    self.rng.integers(0, 5, n).tolist())
        train, test = {"u1": user(4), "u0": user(3)}, {"u0": user(2), "v": user(3)}
        folder = self.leaf(train, test, files=2)
        clients, attributes = self.converted(
            self.data_job("leaf", folder, **{"data__shape": "1,4,4"}))
        self.assertEqual(attributes["held_out"], 1)
        seen = self.hanse("inspect", self.path("out.h5"), "--verify").stdout()
        for part in ("clients: 2\nclients with test samples alone: 1\n",
                     "client names: u1, u0, v\n", "samples: 12, 5 of them for tests\n",
                     "shape of a sample: [1, 4, 4], float\n", "ok: it is that of the content"):
            self.assertIn(part, seen)
        for name, parts in zip(["u1", "u0", "v"], clients):
            for part, source in zip(parts, (train, test)):
                x, y = source.get(name, ([], []))
                self.assert_part(part, np.array(x, np.float32).reshape(-1, 1, 4, 4), y)

    def test_leaf_users_that_are_numbers_or_have_no_samples(self):
        """And files that are not read."""
        users = {str(k): ([[k, 0]] * k, [0, 4][:k] * (k > 0)) for k in (2, 0, 1)}
        folder = self.leaf(users, {"2": users["1"]})
        data = json.loads(leaf_text(users))
        self.write("leaf/train/all_0.json", json.dumps({**data, "users": [2, 0, 1]}))
        for name in ("._all_0.json", ".DS_Store", "notes.txt", "more.txt", "README"):
            self.write(f"leaf/train/{name}", "no JSON")
        self.write("leaf/val/all_0.json", leaf_text(users))
        job = self.data_job("leaf", folder)
        process = self.convert(job, "own.h5")
        self.assertIn("4 samples of 2 clients, 5 classes; 3 classes have no sample: 1, 2, 3; "
                      "not read: folder val, 2 .txt files, 2 hidden files, 1 other file, "
                      "1 user without samples", process.stderr())
        (two, one), _ = self.converted(job)
        self.assert_part(two[0], np.array([[2, 0]] * 2, np.float32), [0, 4])
        self.assert_part(two[1], np.array([[1, 0]], np.float32), [0])
        self.assert_part(one[0], np.array([[1, 0]], np.float32), [0])
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(list(file["client_names"].asstr()), ["2", "1"])
        process = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2)
        self.assertEqual(process.stderr().count("1 user without samples"), 1)

    def test_leaf_without_num_samples(self):
        data = json.loads(leaf_text({"u": ([[1, 2]], [0]), "v": ([[3, 4]], [1])}))
        del data["num_samples"]
        self.write("leaf/train/a.json", json.dumps(data))
        self.assertEqual(len(self.converted(self.data_job("leaf", self.path("leaf")))[0]), 2)

    def test_leaf_numbers_that_float32_does_not_hold(self):
        users = {name: ([[i, 1700000000 + i] for i in range(20)], [0, 1] * 10) for name in "ab"}
        self.write("leaf/train/a.json", leaf_text(users))
        job = self.data_job("leaf", self.path("leaf"))
        process = self.convert(job)
        self.assertIn("hanse: warning: value 1 of a sample: 38 of 40 numbers are not exact in "
                      "float32, 20 different ones become 1 (", process.stderr())
        self.write("leaf/train/a.json", leaf_text({"a": ([[2**53 + 1], [2**24]], [0, 1])}))
        process = self.convert(job, "large.h5")
        self.assertIn("1 of 2 numbers is not exact", process.stderr())

    def test_leaf_texts(self):
        users = {"r": (["abcd", "bcde"], ["e", "f"]), "s": (["wxyz"], [" "])}
        folder = self.leaf(users, users)
        clients, attributes = self.converted(self.data_job("leaf", folder))
        self.assertEqual(attributes["classes"], 97)
        letters = np.array([[ord(c) - 30 for c in x] for x in users["r"][0]], np.uint8)
        for part in clients[0]:
            self.assert_part(part, letters, [ord("e") - 30, ord("f") - 30])

    def test_leaf_of_flute(self):
        x = {"u": [[1, 2.5], [3, 4]], "v": [[5, 6]]}
        y = {"u": [1, 0], "v": [1]}
        for data in ({name: {"x": values} for name, values in x.items()}, x):
            self.write("flute/train/a.json", json.dumps({
                "users": ["u", "v"], "num_samples": [2, 1], "user_data": data,
                "user_data_label": y}))
            clients, _ = self.converted(self.data_job("leaf", self.path("flute"),
                                                      data__test_fraction=0))
            for name, (train, _) in zip("uv", clients):
                self.assert_part(train, np.array(x[name], np.float32), y[name])


    def test_csv_of_long_codes_and_times(self):
        """A double would hold 3 of the 4 codes, and float32 one of the 40 times."""
        codes = ["900000000000207008", "900000000000207009", "73211009", "44054006"]
        times = 1700000000 + self.rng.permutation(40)
        path = self.write("codes.csv", "t,site,label\n" + "".join(
            f"{time},{'ab'[i // 20]},{codes[i % 4]}\n" for i, time in enumerate(times)))
        job = self.data_job("csv", path, data__client_column="site", data__standardize="all",
                            data__test_fraction=0, federation__partition="by-column")
        clients, attributes = self.converted(job)
        self.assertEqual(attributes["classes"], 4)
        with h5py.File(self.path("out.h5")) as file:
            names = [name.decode() for name in file["class_names"]]
        self.assertEqual(names, sorted(codes, key=int))
        exact = ((times - times.mean()) / times.std()).astype(np.float32)
        labels = [names.index(codes[i % 4]) for i in range(40)]
        for c, (train, _) in enumerate(clients):
            own = slice(20 * c, 20 * c + 20)
            np.testing.assert_allclose(np.ravel(train[0]), exact[own], rtol=1e-6)
            self.assertEqual(list(train[1]), labels[own])
        self.assertEqual(len(set(np.concatenate([np.ravel(train[0]) for train, _ in clients]))), 40)

    def test_hanse_file_of_h5py(self):
        path = self.path("own.h5")
        features = self.rng.random((9, 5), dtype=np.float32)
        with h5py.File(path, "w", alignment_threshold=1, alignment_interval=64) as file:
            file.attrs.update(version=1, classes=2, held_out=1, encoding=np.bytes_("float"))
            file["features"] = features
            file["labels"] = np.array([0, 1, 1, 0, 1, 0, 0, 1, 0], np.int32)
            file["offsets"] = [0, 3, 7, 9]
            file["train_end"] = [2, 7, 7]
        run = self.train(self.data_job("hanse", path), "run", 2)
        self.assertEqual(harness.column(run, "clients.csv", "samples"), ["1", "4", "2"])
        self.assertEqual(harness.text(run, "partition.csv").splitlines()[1:],
                         ["0,,0,,1,0", "0,,1,,1,1", "1,,0,,3,0", "1,,1,,1,0", "2,,0,,0,1",
                          "2,,1,,0,1"])
        with h5py.File(path, "r+") as file:
            file["client_names"] = ["Ann, a", "Bob", "Cid"]
            file["class_names"] = np.array([b"no", b"yes"])
        run = self.train(self.data_job("hanse", path), "named", 2)
        self.assertEqual(harness.column(run, "clients.csv", "name"), ["Ann, a", "Bob", "Cid"])
        self.assertEqual(harness.text(run, "partition.csv").splitlines()[1:3],
                         ['0,"Ann, a",0,no,1,0', '0,"Ann, a",1,yes,1,1'])


class SameRun(DataCase):
    def compare(self, job, seed_changes=None):
        """The source and its conversion train the same model, on any ranks and after a resume."""
        first = self.train(job, "source")
        self.convert(job)
        mapped = self.data_job("hanse", self.path("out.h5"))
        for ranks in (None, 3):
            run = self.train(mapped, f"mapped-{ranks}", ranks)
            self.assert_digest(run, first, f"on {ranks} ranks")
            self.assertEqual(harness.text(run, "clients.csv"), harness.text(first, "clients.csv"))
            self.assertEqual(harness.text(run, "partition.csv"), harness.text(first, "partition.csv"))
            self.assertEqual(harness.summary(run)["data_digest"],
                             harness.summary(first)["data_digest"])
        half = self.train(mapped, "half", 2, {"run.rounds": 2})
        self.hanse("resume", half, "--run.rounds=4", ranks=3)
        self.assert_digest(half, first, "after a resume")

    def test_tff(self):
        source = {f"c{i}": images(self.rng, 5 + i) for i in range(6)}
        self.compare(self.data_job("tff", tff_file(self.path("train.h5"), source)))

    def test_text(self):
        lines = [f"{role}:\n{speech}\n" for role in ("Ann", "Bob", "Cid")
                 for speech in ("It is the east,\nand Juliet is the sun.", "Arise, fair sun!")]
        play = self.write("play.txt", "\n".join(lines))
        self.compare(self.data_job("text", play, data__window=5))
        self.assertEqual(harness.column(self.path("mapped-3"), "clients.csv", "name"),
                         ["Ann", "Bob", "Cid"])

    def test_a_partition(self):
        self.compare(self.job({"federation.partition": "dirichlet", "run.rounds": 4,
                               "sampler.per-round": 2, "evaluate.every": 2}))


class HeldOut(harness.Case):
    def test_is_evaluated_and_never_trained(self):
        job = self.job({"federation.held-out": 0.2, "sampler.kind": "full", "data.classes": 2})
        run = self.train(job, "run")
        self.assertEqual(set(harness.column(run, "rounds.csv", "clients")), {"18"})
        self.assertEqual(len(harness.table(run, "clients.csv")), 23)
        metrics = harness.summary(run)["metrics"]
        accuracies = [float(value) for value in harness.column(run, "clients.csv", "accuracy")]
        self.assertAlmostEqual(metrics["accuracy_mean"], sum(accuracies[:18]) / 18)
        self.assertAlmostEqual(metrics["held_out_accuracy_mean"], sum(accuracies[18:]) / 5)
        self.assertIn("held_out_loss_worst10", metrics)
        self.assertNotIn("held_out_train_loss_mean", metrics)
        for ranks in (2, 3):
            self.assert_digest(self.train(job, f"on-{ranks}", ranks), run)
        half = self.train(job, "half", 2, {"run.rounds": 6})
        self.hanse("resume", half, "--run.rounds=12", ranks=3)
        self.assert_digest(half, run)
        self.assertEqual(harness.text(half, "evaluations.csv").splitlines()[-1],
                         harness.text(run, "evaluations.csv").splitlines()[-1])

    def test_before_and_after_training_of_their_own(self):
        """On the samples they are tested on, so that training helps."""
        changes = {"federation.held-out": 5, "data.test-fraction": 0, "run.rounds": 4,
                   "model.kind": "mlp", "model.hidden": "7", "client.epochs": 3}

        def metrics(run):
            return {name: value for name, value in harness.summary(run)["metrics"].items()
                    if name.startswith("held_out_")}
        shared = self.train(self.job(changes), "shared")
        own = {}
        for name, update in [("sgd", {"evaluate.view": "personalised"}),
                             ("ditto", {"client.update": "ditto", "client.lambda": 0}),
                             ("personal", {"client.personal": "fc2.*"}),
                             ("scaffold", {"client.update": "scaffold",
                                           "evaluate.view": "personalised"})]:
            job = self.job({**changes, **update}, f"{name}.cfg")
            run = self.train(job, name)
            own[name] = metrics(run)
            before, after = (own[name][f"held_out_{what}loss_mean"] for what in ("before_", ""))
            self.assertLess(after, before, name)
            other = self.train(job, f"{name}-on-3", 3)
            self.assertEqual(metrics(other), own[name], name)
            self.assert_digest(other, run)
        self.assert_digest(self.path("sgd"), shared, "by being looked at")
        for name, value in metrics(shared).items():
            self.assertEqual(own["sgd"][name.replace("held_out_", "held_out_before_")], value)
        # Ditto's own model without the pull is SGD's, but for the rounding: SGD's step is part of the
        # gradient's product, Ditto stores the gradient first. Whether both have the same bits depends
        # on the kernels; each of the 12 steps (3 epochs of 4 batches) rounds by 2^-24 at most.
        self.assertEqual(own["ditto"].keys(), own["sgd"].keys())
        rounding = 12 * 2**-24 * own["sgd"]["held_out_loss_mean"]
        for name, value in own["sgd"].items():
            delta = rounding if name.startswith("held_out_loss_") else 0
            self.assertAlmostEqual(own["ditto"][name], value, delta=delta, msg=name)

    def test_only_federated(self):
        process = self.hanse("run", self.job({"federation.held-out": 2, "run.protocol": "online"}),
                             expect=None)
        self.assert_one_error(process, 2, "federation.held-out")


class BadData(DataCase):
    def refuse_run(self, job, *parts):
        """The same of a run on two ranks."""
        run = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2, expect=None)
        self.assert_one_error(run, 2, "hint: ", *parts)

    def refuse_tff(self, clients, *parts, **more):
        self.refuse(self.data_job("tff", tff_file(self.path("bad.h5"), clients), **more), *parts)

    def test_tff_ragged(self):
        self.refuse_tff({"a": images(self.rng, 3), "b": images(self.rng, 3, shape=(4, 5))},
                        "another shape", "client 'b'/pixels")
        self.refuse_run(self.data_job("tff", self.path("bad.h5")), "another shape", "client 'b'")

    def test_tff_samples_without_values(self):
        self.refuse_tff({"a": images(self.rng, 3, shape=(4, 0))}, "a sample has no values",
                        "bad.h5")

    def test_tff_labels(self):
        good = images(self.rng, 3)
        self.refuse_tff({"a": good, "b": {"pixels": good["pixels"]}}, "no dataset 'label'",
                        "client 'b'", "pixels")
        self.refuse_tff({"a": {**good, "label": good["label"][:2]}}, "3 samples but 2 labels")
        self.refuse_tff({"a": {**good, "label": np.array([0.5, 1, 2])}}, "labels are integers")
        self.refuse_tff({"a": {**good, "label": np.array([0, 1, -2])}}, "label -2 is no class")
        self.refuse_tff({"a": {**good, "label": np.zeros((3, 2), int)}}, "[n] or [n, 1]")
        self.refuse_tff({"a": {**good, "label": np.zeros((3, 2, 2), int)}}, "[n] or [n, 1]")

    def test_tff_beyond_memory(self):
        with h5py.File(self.path("large.h5"), "w") as file:
            client = file.create_group("examples/a")
            client.create_dataset("pixels", (10, 1 << 20, 1 << 17), "f4", chunks=(1, 1024, 1024))
            client["label"] = np.zeros(10, int)  # 5.5 TB, of which nothing is written
        job = self.data_job("tff", self.path("large.h5"))
        run = self.hanse("run", job, f"--run.out={self.path('run')}", ranks=2, expect=None)
        self.assert_one_error(run, 2, "promises 1374389534720 elements", "large.h5", "holds 0 bytes")

    def test_tff_types(self):
        good = images(self.rng, 3)
        other = {**good, "pixels": (good["pixels"] * 255).astype(np.uint8)}
        self.refuse_tff({"a": other, "b": good}, "another type")
        bad = good["pixels"].copy()
        bad[1, 2, 3] = np.nan
        self.refuse_tff({"a": {**good, "pixels": bad}}, "sample 1", "nan, which is not finite",
                        "client 'a'/pixels")

    def test_tff_clients_without_samples(self):
        """As in LEAF: they are left out, and said; with test samples alone they are held out."""
        def empty(dtype="f8"):
            return {"pixels": np.zeros(0, dtype), "label": np.zeros(0, dtype)}
        train = {"a": empty(), "b": images(self.rng, 3), "c": images(self.rng, 2), "d": empty()}
        train["b"]["id"] = np.arange(3)
        test = {"b": images(self.rng, 2), "d": images(self.rng, 4), "e": empty()}
        for path, clients in [("train.h5", train), ("test.h5", test)]:
            with h5py.File(tff_file(self.path(path), clients), "r+") as file:
                file.create_group("examples/nothing")
        job = self.data_job("tff", self.path("train.h5"), data__test_path=self.path("test.h5"))
        process = self.convert(job, "own.h5")
        self.assertIn("not read: dataset id, 3 clients without samples", process.stderr())
        clients, attributes = self.converted(job)
        self.assertEqual(attributes["held_out"], 1)
        for name, (own_train, own_test) in zip("bcd", clients):
            for part, source in [(own_train, train), (own_test, test)]:
                if name in source and len(source[name]["label"]):
                    self.assert_part(part, source[name]["pixels"].reshape(-1, 1, 4, 4),
                                     source[name]["label"])
                else:
                    self.assertEqual(len(part[1]), 0)
        os.remove(self.path("out.h5"))
        train["a"] = {**empty(), "pixels": np.zeros((2, 4, 4))}
        self.refuse_tff(train, "2 samples but 0 labels", "client 'a'/pixels")
        self.refuse_tff({"a": empty()}, "no client has a training sample")
        texts = {"a": {"snippets": np.zeros(0)},
                 "b": {"snippets": np.array(["ab\tc\u00e9"], h5py.string_dtype())}}
        process = self.convert(self.data_job("tff", tff_file(self.path("t.h5"), texts)), "t2.h5")
        self.assertIn("not read: 2 characters that data.vocabulary = ascii does not have, "
                      "1 of 2 clients, which have too little text", process.stderr())

    def test_tff_numbers_that_float32_does_not_hold(self):
        for dtype in ("<i4", "<i8", ">i8", "<u8", "<f8"):
            x = np.zeros((20, 2, 2, 3), dtype)
            x[:, 1, 0, 2] = 1700000000 + np.arange(20)
            source = {c: {"t": x, "label": np.arange(20) % 2} for c in "ab"}
            job = self.data_job("tff", tff_file(self.path("t.h5"), source),
                                data__feature_column="t")
            process = self.hanse("convert", job, self.path("o.h5"), "--run.overwrite=true")
            self.assertIn("hanse: warning: t[:, 1, 0, 2]: 38 of 40 numbers are not exact in "
                          "float32, 20 different ones become 1 (", process.stderr())

    def test_tff_labels_of_large_types(self):
        good = images(self.rng, 3)
        self.refuse_tff({"a": {**good, "label": np.array([0, 2**53 + 1, 1])}},
                        "the label 9007199254740993 is no class")
        self.refuse_tff({"a": {**good, "label": np.eye(3, dtype=int)}}, "3 labels, not one",
                        "argmax(axis=1)")
        job = self.data_job("tff", tff_file(self.path("good.h5"), {
            "a": {**good, "label": np.array([0, 4, 0], np.uint64)}}), data__test_fraction=0)
        process = self.convert(job)
        self.assertIn("5 classes; 3 classes have no sample: 1, 2, 3", process.stderr())

    def test_names_that_are_not_utf8(self):
        with h5py.File(self.path("latin.h5"), "w") as file:
            own = file.create_group("one")
            for key, values in images(self.rng, 3).items():
                own[key] = values
            h5py.h5o.link(own.id, file.create_group("examples").id, b"Z\xfcrich")
        self.refuse(self.data_job("tff", self.path("latin.h5")), "not UTF-8", "Z\\xFCrich")
        path = self.path("own.h5")
        with h5py.File(path, "w", alignment_threshold=1, alignment_interval=64) as file:
            file.attrs.update(version=1, classes=2, held_out=0, encoding=np.bytes_("float"))
            file["features"] = np.zeros((2, 1), np.float32)
            file["labels"] = np.array([0, 1], np.int32)
            file["offsets"], file["train_end"] = [0, 2], [2]
            file["client_names"] = np.array([b"Z\xfcrich"])
        self.refuse_run(self.data_job("hanse", path), "not UTF-8", "client_names", "Z\\xFCrich")

    def test_tff_layouts(self):
        self.refuse_tff({"a": {"voice": np.zeros((3, 2)), "label": np.zeros(3, int)}},
                        "unknown layout", "data.feature-column", "voice")
        self.refuse_tff({"a": images(self.rng, 3)}, "no dataset 'sound'",
                        data__feature_column="sound")
        with h5py.File(self.path("other.h5"), "w") as file:
            file["x"] = [1]
        self.refuse(self.data_job("tff", self.path("other.h5")), "/examples")

    def test_damaged_files(self):
        whole = tff_file(self.path("train.h5"), {str(i): images(self.rng, 9) for i in range(9)})
        content = open(whole, "rb").read()
        for name, damaged in [("cut.h5", content[:len(content) // 2]), ("text.h5", b"text")]:
            self.refuse(self.data_job("tff", self.write(name, damaged)), name)
        self.convert(self.data_job("tff", whole), "good.h5")
        content = open(self.path("good.h5"), "rb").read()
        for name, damaged in [("cut.h5", content[:len(content) // 2]), ("text.h5", b"text")]:
            self.refuse_run(self.data_job("hanse", self.write(name, damaged)), name)

    def test_text_encoding(self):
        self.refuse(self.data_job("text", self.write("play.txt", b"A:\nb\xE9c\n")),
                    "not UTF-8", "play.txt:2")
        texts = {"a": {"snippets": np.array([b"ok", b"b\xE9c"], "S4")}}
        self.refuse_tff(texts, "not UTF-8", "client 'a'/snippets")

    def refuse_leaf(self, users, *parts, change=lambda data: data):
        data = change(json.loads(leaf_text(users)))
        self.write("leaf/train/a.json", data if isinstance(data, str) else json.dumps(data))
        self.refuse(self.data_job("leaf", self.path("leaf")), *parts)

    def test_leaf(self):
        good = {"u": ([[1, 2], [3, 4]], [0, 1])}
        self.refuse_leaf({"u": ([[1, 2], [3]], [0, 1])}, "sample 1 has 1 values", "user 'u'")
        self.refuse_leaf({"u": ([[1, 2], [3, 4]], [0])}, "2 samples but 1 labels", "user 'u'")
        self.refuse_leaf({"u": ([[1, 2]], [0.5])}, "label 0.5 is no class")
        self.refuse_leaf({"u": ([[1, None]], [0])}, "null stands where")
        self.refuse_leaf({"u": ([[1, 2], ["a"]], [0, 1])}, "numbers here and texts there")
        self.refuse_leaf({"u": (["ab", "bc"], ["cd", "d"])}, "a label has 2 values")

        def cut(data):
            return json.dumps(data)[:-9]

        def promise_more(data):
            return {**data, "num_samples": [5]}
        self.refuse_leaf(good, "not JSON, or cut off", "a.json, byte", change=cut)
        self.refuse_leaf(good, "num_samples promises 5", change=promise_more)
        self.refuse_leaf(good, "user_data", change=lambda data: {"users": data["users"]})
        os.remove(self.path("leaf/train/a.json"))
        self.refuse(self.data_job("leaf", self.path("leaf")), "no *.json")

    def test_leaf_values_that_json_has_not(self):
        """Python's json.dump writes them bare."""
        nan, inf = float("nan"), float("inf")
        for value, text in [(nan, "NaN"), (inf, "Infinity"), (-inf, "-Infinity")]:
            self.refuse_leaf({"u": ([[1, 2], [3, 4]], [0, 1]), "v": ([[1, 2], [3, value]], [0, 1])},
                             f"value 1 of sample 1 is {text}", "user 'v'", "fill the value in")
            self.refuse_leaf({"u": ([1, value], [0, 1])}, f"sample 1 is {text}", "user 'u'")
            self.refuse_leaf({"u": ([[1, 2], [3, 4]], [0, value])}, f"label 1 is {text}")
        for text in ("nan", "inf", "-inf", "1e999"):
            self.refuse_leaf({"u": ([[1, 2], [3, 7777]], [0, 1])}, f"value 1 of sample 1 is {text}",
                             change=lambda data: json.dumps(data).replace("7777", text))
        self.refuse_leaf({"u": ([[1, 2], [3, 1e300]], [0, 1])},
                         "value 1 of sample 1 is 1e+300, not finite in float32")
        self.refuse_leaf({"u": ([[1, 2], [3, None]], [0, 1])},
                         "null stands where", "in value 1 of sample 1")
        self.refuse_leaf({"u": ([[1, 2], [3, 4]], [None, 1])}, "in label 0")
        self.refuse_leaf({"u": ([[1, 2]], [0])}, "not JSON", "byte",
                         change=lambda data: json.dumps(data)[:-1] + ', "more": NaN}')

    def test_leaf_users(self):
        good = {"u": ([[1, 2], [3, 4]], [0, 1]), "v": ([[5, 6]], [1])}

        def change(**more):
            return lambda data: {**data, **more}
        self.refuse_leaf(good, "\"users\" and not in \"user_data\"", "user 'w'",
                         change=change(users=["u", "v", "w"], num_samples=[2, 1, 0]))
        self.refuse_leaf(good, "\"user_data\" and not in \"users\"", "user 'v'",
                         change=change(users=["u"], num_samples=[2]))
        self.refuse_leaf(good, "stands in \"users\" twice", "user 'u'",
                         change=change(users=["u", "v", "u"], num_samples=[2, 1, 2]))
        self.refuse_leaf(good, "3 users but 2 num_samples", change=change(users=["u", "v", "w"]))
        self.refuse_leaf(good, "1.5 is no number of samples", change=change(num_samples=[2, 1.5]))
        self.refuse_leaf(good, "null stands where", change=change(users=["u", None]))
        self.refuse_leaf(good, "1.5 is no name", change=change(users=["u", 1.5]))
        self.refuse_leaf(good, "stands in \"user_data\" twice", "user 'u'",
                         change=lambda data: json.dumps(data).replace('"v": {', '"u": {'))
        self.write("leaf/train/b.json", leaf_text({"v": good["v"]}))
        self.refuse_leaf(good, "samples in", "train/a.json, too", "b.json, user 'v'")

    def test_leaf_rows_and_labels(self):
        tweet = ["1467810672", "Mon Apr 06", "NO_QUERY", "scotthamilton", "is upset"]
        self.refuse_leaf({"u": ([tweet, tweet], [0, 4])}, "sample 0 is a list with 5 texts",
                         "user 'u'", "Sent140")
        self.refuse_leaf({"u": ([[7, "a"]], [0])}, "sample 0 is a list with 1 texts")
        self.refuse_leaf({"u": ([[1, 2], [3, 4]], ["0", "4"])}, "labels are texts", "4, not \"4\"")
        self.refuse_leaf({"u": ([[1, 2]], [[0, 1]])}, "2 values, not one: label 0", "argmax")
        self.refuse_leaf({"u": ([[1, 2]], [2**53 + 1])}, "is no class: label 0")
        self.refuse_leaf({"u": ([[1, 2]], [-1])}, "the label -1 is no class: label 0")

    def test_hanse(self):
        self.convert(self.data_job("tff", tff_file(self.path("t.h5"), {"a": images(self.rng, 9)})),
                     "good.h5")

        def spoil(name, what, sealed=False):
            content = open(self.path("good.h5"), "rb").read()
            path = self.write(name, content if sealed else bytes(512) + content[512:])
            with h5py.File(path, "r+") as file:
                what(file)
            return self.data_job("hanse", path)

        def swap(name, values):
            def work(file):
                del file[name]
                file[name] = values
            return work
        self.refuse_run(spoil("sealed.h5", lambda file: file.attrs.modify("classes", 4), True),
                        "damaged", "sealed.h5", "make it again")
        self.refuse_run(spoil("labels.h5", lambda file: file["labels"].write_direct(
            np.full(9, 3, np.int32))), "label 3 of sample 0 is outside [0, 3)")
        self.refuse_run(spoil("content.h5", lambda file: file["features"].write_direct(
            np.zeros((9, 1, 4, 4), np.float32))), "the content is damaged", "content.h5")
        self.assert_one_error(self.hanse("inspect", self.path("content.h5"), "--verify",
                                         expect=None), 2, "the content is damaged", "content.h5")

        def nan(file):
            del file["digest"]
            file["features"][7, 0, 1, 2] = np.nan
        self.refuse_run(spoil("nan.h5", nan), "a value of sample 7 is not finite", "nan.h5")
        self.refuse_run(spoil("names.h5", swap("client_names", ["a", "b"])),
                        "names are 1 texts", "names.h5")
        self.refuse_run(spoil("version-2.h5", lambda file: file.attrs.create("version", [1] * 99)),
                        "has not one element")
        self.refuse_run(spoil("float.h5", swap("features", np.zeros((9, 2)))), "another type")
        self.refuse_run(spoil("few.h5", swap("labels", np.zeros(8, np.int32))), "9 samples and 8")
        self.refuse_run(spoil("offsets.h5", swap("offsets", np.array([0, 8]))), "do not share 9")
        self.refuse_run(spoil("version.h5", lambda file: file.attrs.modify("version", 2)),
                    "version is 2")

    def test_tokens_of_a_held_out_client(self):
        path = self.path("tokens.h5")
        with h5py.File(path, "w", alignment_threshold=1, alignment_interval=64) as file:
            file.attrs.update(version=1, classes=3, held_out=1, encoding=np.bytes_("token"))
            file["features"] = np.array([[0, 1], [2, 1], [1, 2], [2, 9]], np.uint8)
            file["labels"] = np.array([0, 1, 2, 1], np.int32)
            file["offsets"], file["train_end"] = [0, 3, 4], [2, 3]
        self.refuse_run(self.data_job("hanse", path, model__kind="lstm", model__vocabulary=3,
                                      sampler__per_round=1),
                        "client 1 has the value 9", "model.vocabulary")

    def test_own_clients_stay(self):
        source = tff_file(self.path("t.h5"), {"a": images(self.rng, 9)})
        self.refuse(self.data_job("tff", source, federation__partition="iid"),
                    "clients of its own", "by-column")
        self.refuse(self.data_job("tff", source, data__labels="1"), "data.labels")
        self.convert(self.data_job("tff", source), "good.h5")
        self.refuse_run(self.data_job("hanse", self.path("good.h5"), federation__partition="iid"),
                        "clients of its own", "by-column")

    def test_convert_keeps_what_is_there(self):
        job = self.data_job("tff", tff_file(self.path("t.h5"), {"a": images(self.rng, 9)}))
        self.write("out.h5", "mine")
        self.assert_one_error(self.convert(job, expect=None), 2, "exists", "run.overwrite")
        self.assertEqual(harness.text(self.path("out.h5")), "mine")
        self.assert_one_error(self.hanse("convert", job, expect=None), 2, "output file")
        failed = self.hanse("convert", job, self.path("none/out.h5"), expect=None)
        self.assertNotEqual(failed.status, 0)
        full = self.hanse("convert", job, self.path("full.h5"), file_bytes=1024, expect=None)
        self.assertNotEqual(full.status, 0, full.describe())
        self.assertFalse(os.path.exists(self.path("full.h5")))


class AtOnce(DataCase):
    """Several processes with one command."""

    def npz_job(self, samples):
        np.savez(self.path("v.npz"), x=self.rng.random((samples, 300), dtype=np.float32),
                 y=self.rng.integers(0, 3, samples), client=np.arange(samples) % 4)
        return self.data_job("npz", self.path("v.npz"), federation__partition="by-column")

    def check_file(self, out="out.h5"):
        seen = self.hanse("inspect", self.path(out), "--verify").stdout()
        self.assertIn("ok: it is that of the content", seen)
        self.assertEqual([name for name in os.listdir(self.folder) if ".tmp" in name], [])

    def test_ranks_convert_once(self):
        process = self.hanse("convert", self.npz_job(600), self.path("out.h5"), ranks=3)
        self.assertEqual(process.stdout().count("600 samples"), 1, process.describe())
        self.assertEqual(process.stderr().count("the first alone"), 1, process.describe())
        self.check_file()
        process = self.hanse("convert", self.path("job.cfg"), self.path("out.h5"), ranks=3,
                             expect=2)
        self.assert_one_error(process, 2, "the output exists")

    def test_processes_that_convert_to_one_file(self):
        job = self.npz_job(20000)
        for out, options, expected in (("a.h5", [], [0, 2, 2]),
                                       ("b.h5", ["--run.overwrite=true"], [0, 0, 0])):
            started = [self.start("convert", job, self.path(out), *options) for _ in range(3)]
            statuses = sorted(process.wait().status for process in started)
            self.assertEqual(statuses, expected, started[0].describe())
            for process in started:
                if process.status == 2:
                    self.assert_one_error(process, 2, "the output exists")
            self.check_file(out)

    def test_what_a_killed_process_left_goes(self):
        job = self.npz_job(20000)
        process = self.start("convert", job, self.path("out.h5"))
        process.wait_until(lambda: any(".tmp" in name for name in os.listdir(self.folder)),
                           "it writes")
        process.signal(signal.SIGKILL)
        process.wait()
        self.assertFalse(os.path.exists(self.path("out.h5")))
        self.convert(job)
        self.check_file()

    def test_ranks_print_once(self):
        job = self.npz_job(40)
        self.train(job, "run")
        for words in (["list", "samplers"], ["--version"], ["check", job],
                      ["inspect", self.path("run", "model.h5")], ["status", self.path("run")]):
            alone, together = self.hanse(*words).stdout(), self.hanse(*words, ranks=2).stdout()
            if words == ["--version"]:  # another MPI may have been chosen, for another reason
                alone, together = (re.sub("(?m)^mpi from .*", "", text) for text in (alone, together))
            self.assertEqual(together, alone)

    def test_a_script_of_a_rank_has_its_own_commands(self):
        """Whom a launcher did not start itself works, whatever its rank."""
        alone = self.hanse("list", "samplers").stdout()
        script = f"'{harness.program()}' list samplers; true"
        done = subprocess.run([*harness.mpirun(2), "sh", "-c", script], text=True,
                              capture_output=True, check=True)
        self.assertEqual(len(done.stdout), 2 * len(alone))


@harness.measures_memory
class Memory(DataCase):
    def memory_of_run(self, job, out):
        """Bytes of a training process that no file stands behind."""
        run = self.path(out)
        process = self.start("run", job, f"--run.out={run}", "--run.rounds=10000000",
                             "--evaluate.every=0")
        self.wait_for_rounds(process, run, 3)
        status = dict(line.split(":", 1)
                      for line in harness.text(f"/proc/{process.popen.pid}/status").splitlines())
        process.signal(signal.SIGUSR1)
        process.wait()
        return 1024 * sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem"))

    def test_converting_and_reading_need_no_memory_for_the_samples(self):
        rng = np.random.default_rng(1)
        source = {f"{c:02}": {"pixels": rng.random((500, 1000), dtype=np.float32),
                              "label": np.arange(500) % 7} for c in range(100)}
        path = tff_file(self.path("train.h5"), source)
        self.assertGreater(os.path.getsize(path), 200 * MB)
        del source
        job = self.data_job("tff", path)
        limit = 150 * MB  # of private memory, in which the program and its libraries stand too
        self.hanse("convert", job, self.path("out.h5"), data_bytes=limit)
        self.assertGreater(self.memory_of_run(job, "shared"), 200 * MB)
        mapped = self.data_job("hanse", self.path("out.h5"))
        self.assertLess(self.memory_of_run(mapped, "mapped"), 100 * MB)
        random = self.job({**OWN_CLIENTS, "data.kind": "random", "data.shape": "1000",
                        "federation.clients": 100, "federation.samples": 2000})
        self.hanse("convert", random, self.path("random.h5"), data_bytes=limit)
        failed = self.hanse("run", random, f"--run.out={self.path('no')}", data_bytes=limit,
                            expect=None)
        self.assertNotEqual(failed.status, 0, "the limit limits nothing")

    def test_a_disk_without_room_for_the_samples(self):
        random = self.job({**OWN_CLIENTS, "data.kind": "random", "data.shape": "1000",
                           "federation.clients": 10, "federation.samples": 400})
        failed = self.hanse("convert", random, self.path("no.h5"), file_bytes=2 << 20, expect=None)
        self.assert_one_error(failed, 1, "scratch file", "hint: ")
        self.assertEqual([name for name in os.listdir(self.folder) if "output" not in name],
                         ["job.cfg"])


if __name__ == "__main__":
    harness.main()
