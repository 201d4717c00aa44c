"""Several labels a sample, several outputs, a class for each position: data, runs and metrics."""

import os

import harness
from test_data import DataCase, tff_file

try:
    import h5py
    import numpy as np
except ImportError:
    h5py = None

STILL = {"client.lr": 0.3, "evaluate.every": 0, "sampler.per-round": 2, "run.rounds": 4}


class LabelForms(DataCase):
    def file_of(self, job):
        self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
        with h5py.File(self.path("out.h5")) as file:
            return {name: file[name][:] for name in file}, dict(file.attrs)

    def arrays(self, **arrays):
        np.savez(self.path("data.npz"), **arrays)
        return self.path("data.npz")

    def same_on_ranks_and_after_resume(self, job, ranks=3):
        run = self.train(job, "one", changes={"checkpoint.every": 2})
        many = self.train(job, "many", ranks=ranks)
        self.assertEqual(harness.digest(many), harness.digest(run))
        self.assertEqual(harness.text(many, "evaluations.csv"), harness.text(run, "evaluations.csv"))
        half = self.train(job, "half", changes={"run.rounds": 2})
        self.hanse("resume", half, "--run.rounds=4")
        self.assertEqual(harness.digest(half), harness.digest(run))
        return run

    def weights(self, run):
        with h5py.File(os.path.join(run, "model.h5")) as file:
            return file["fc1.weight"][:], file["fc1.bias"][:]

    def labels_table(self, samples=60):
        x = self.rng.normal(size=(samples, 3)).round(3)
        y = (x @ self.rng.normal(size=(3, 4)) + self.rng.normal(size=(samples, 4)) > 0.3)
        lines = ["a,t1,b,t2,site,c,t3,t4"]
        for i, (row, own) in enumerate(zip(x, y.astype(int))):
            lines.append(f"{row[0]},{own[0]},{row[1]},{own[1]},s{i % 5},{row[2]},{own[2]},{own[3]}")
        return self.write("labels.csv", "\n".join(lines) + "\n")

    def test_several_labels(self):
        job = self.data_job("csv", self.labels_table(), data__label_column="t1,t2,t3,t4",
                            data__client_column="site", model__loss="binary-logistic",
                            evaluate__metrics="recall@2,average-precision,micro-f1",
                            evaluate__best="average_precision", **STILL)
        run = self.same_on_ranks_and_after_resume(job)
        content, attributes = self.file_of(job)
        self.assertEqual((attributes["classes"], attributes["multi_label"]), (0, 1))
        self.assertEqual([name.decode() for name in content["class_names"]],
                         ["t1", "t2", "t3", "t4"])
        weight, bias = self.weights(run)
        for client, row in enumerate(harness.table(run, "clients.csv")):
            begin, end = content["train_end"][client], content["offsets"][client + 1]
            z = content["features"][begin:end] @ weight.T + bias
            y = content["targets"][begin:end]
            loss = np.mean(np.log1p(np.exp(np.where(y == 1, -z, z))))
            recalls, precisions = [], []
            for scores, own in zip(z, y):
                ranked = own[np.argsort(-scores, kind="stable")]
                if own.sum() > 0:
                    recalls.append(ranked[:2].sum() / own.sum())
                    places = np.flatnonzero(ranked)
                    precisions.append(np.mean((np.arange(len(places)) + 1) / (places + 1)))
            taken = z > 0
            f1 = 2 * (taken * y).sum() / (taken.sum() + y.sum())
            for name, value in [("loss", loss), ("recall_at_2", np.mean(recalls)),
                                ("average_precision", np.mean(precisions)), ("micro_f1", f1)]:
                self.assertAlmostEqual(float(row[name]), value, places=5, msg=name)
            self.assertEqual(row["accuracy"], "")
        for changes, parts in [
                ({"model.loss": "cross-entropy"}, ["several labels", "binary-logistic"]),
                ({"federation.partition": "dirichlet", "federation.clients": 3},
                 ["one class a sample", "several labels"]),
                ({"evaluate.metrics": "top5"}, ["several labels", "evaluate.metrics"]),
                ({"evaluate.metrics": "recall@4"}, ["first 4 of 4 classes"]),
                ({"client.class-weights": "all"}, ["model.loss", "several labels"]),
                ({"client.label-smoothing": "0.1"}, ["model.loss"]),
                ({"run.protocol": "online", "online.drift": "labels"}, ["online.drift"])]:
            self.assert_one_error(self.hanse("run", job, f"--run.out={self.path('no')}",
                                             *harness.options(changes), expect=None), 2, *parts)

    def test_several_outputs(self):
        x = self.rng.normal(size=(40, 3)).astype(np.float32)
        y = (x @ self.rng.normal(size=(3, 2))).astype(np.float32)
        job = self.data_job("npz", self.arrays(x=x, y=y, client=np.arange(40) % 4),
                            data__task="regression", model__loss="squared-error",
                            evaluate__metrics="mse,mae", run__target="mse<=100", **STILL)
        run = self.train(job, "run", ranks=2)
        self.assertEqual(harness.digest(self.train(job, "one")), harness.digest(run))
        content, _ = self.file_of(job)
        weight, bias = self.weights(run)
        for client, row in enumerate(harness.table(run, "clients.csv")):
            begin, end = content["train_end"][client], content["offsets"][client + 1]
            error = content["features"][begin:end] @ weight.T + bias - content["targets"][begin:end]
            for name, value in [("loss", np.mean(error**2) / 2), ("mse", np.mean(error**2)),
                                ("mae", np.mean(abs(error)))]:
                self.assertAlmostEqual(float(row[name]), value, places=5, msg=name)

    def test_bad_label_rows(self):
        x = np.zeros((3, 4), np.float32)
        job = self.data_job("npz", self.path("data.npz"), federation__clients=1)
        for y, task, parts in [
                (np.array([[0, 1], [1, 2], [0, 0]]), "classification", ["sample 1 has 2"]),
                (np.array([[0, 1], [1, 0]]), "classification", ["(2, 2)", "x has 3 samples"]),
                (np.array([["a", "b"]] * 3), "classification", ["holds texts"]),
                (np.array([[0, 1, 2]] * 3), "sequence", ["3 labels and 4 positions"]),
                (np.array([[0, 1, 2, -2]] * 3), "sequence", ["-2 is no class"]),
                (np.array([[0, 1, 2, 0], [-1] * 4, [0] * 4]), "sequence",
                 ["no position of sample 1"]),
                (np.array([[0.5, 1, 2, 0]] * 3), "sequence", ["integers"]),
                (np.array([0, 1, 1]), "sequence", ["each of its positions"])]:
            self.arrays(x=x, y=y)
            process = self.hanse("run", job, f"--data.task={task}", f"--run.out={self.path('no')}",
                                 expect=None)
            self.assert_one_error(process, 2, "data.npz, array y", *parts)
        path = self.path("marks.h5")
        with h5py.File(path, "w", alignment_threshold=1, alignment_interval=64) as file:
            file.attrs.update(version=1, classes=0, held_out=0, multi_label=1,
                              encoding=np.bytes_("float"))
            file.update({"features": x, "targets": np.full((3, 2), 0.5, np.float32),
                         "offsets": np.array([0, 3]), "train_end": np.array([2])})
        process = self.hanse("run", self.data_job("hanse", path), expect=None)
        self.assert_one_error(process, 2, "marks.h5, targets", "0.5")

    def test_sequences(self):
        x = self.rng.integers(0, 6, (24, 5))
        y = (x + np.roll(x, 1, axis=1)) % 6  # of a token and the one before it
        y[:, 0] = -1
        job = self.data_job("npz", self.arrays(x=x.astype(np.float32), y=y,
                                               client=np.arange(24) % 3),
                            data__task="sequence", model__kind="transformer", model__embedding=8,
                            model__heads=2, evaluate__metrics="perplexity,hit-rate@2,classes",
                            evaluate__best="perplexity", **STILL)
        run = self.same_on_ranks_and_after_resume(job)
        for row in harness.table(run, "clients.csv"):
            self.assertAlmostEqual(float(row["perplexity"]), np.exp(float(row["loss"])), places=4)
            self.assertLessEqual(float(row["accuracy"]), float(row["hit_rate_at_2"]))
        self.assert_one_error(self.hanse("run", job, "--model.kind=mlp", expect=None), 2,
                              "model.kind", "transformer")

    def test_every_token_of_a_play(self):
        text = "\n\n".join(f"{role}:\n" + "to be or not to be " * 6 for role in ("A", "B"))
        job = self.data_job("text", self.write("play.txt", text), data__targets="every",
                            data__window=10, data__test_fraction=0.25, model__kind="lstm",
                            model__units=6, evaluate__metrics="perplexity", **STILL)
        run = self.train(job, "run", ranks=2)
        self.assertEqual(harness.digest(self.train(job, "one")), harness.digest(run))
        content, attributes = self.file_of(job)
        self.assertEqual((content["labels"].shape[1], attributes["classes"]), (10, 97))
        first = content["features"][0], content["labels"][0]
        self.assertEqual(list(first[0][1:]), list(first[1][:-1]))
        self.assert_one_error(self.hanse("run", job, "--data.window=1", expect=None), 2,
                              "data.window", "targets = last")

    def test_tags_of_stack_overflow(self):
        clients = {"u": {"tokens": ["sort a list", "a a b", ""], "title": ["list", "x", "b"],
                         "tags": ["py|sort", "c++", "py|rare"]},
                   "v": {"tokens": ["b list"], "title": ["a"], "tags": ["c++|py"]}}
        texts = {name: {key: np.array(values, h5py.string_dtype())
                        for key, values in own.items()} for name, own in clients.items()}
        job = self.data_job("tff", tff_file(self.path("so.h5"), texts), data__label_column="tags",
                            data__vocabulary_size=3, data__tags=2, data__test_fraction=0)
        content, attributes = self.file_of(job)
        self.assertEqual(attributes["multi_label"], 1)
        self.assertEqual([name.decode() for name in content["class_names"]], ["py", "c++"])
        # Words: a 4, b 3, list 3.
        self.assertTrue(np.allclose(content["features"],
                                    [[1 / 4, 0, 2 / 4], [2 / 4, 1 / 4, 0], [0, 1, 0],
                                     [1 / 3, 1 / 3, 1 / 3]]))
        self.assertEqual(content["targets"].tolist(), [[1, 0], [0, 1], [1, 0], [1, 1]])
        self.assertEqual(list(content["offsets"]), [0, 3, 4])
        content, _ = self.file_of(self.data_job(
            "tff", self.path("so.h5"), data__label_column="tags", data__feature_column="title",
            data__vocabulary_size=9, data__tags=9, data__test_fraction=0))
        self.assertEqual(content["features"].tolist()[0], [0, 0, 1, 0])  # a, b, list, x
        self.assertEqual(content["targets"].tolist()[2], [1, 0, 1, 0])  # py, c++, rare, sort
        texts["u"]["tags"] = texts["u"]["tags"][:2]
        tff_file(self.path("so.h5"), texts)
        self.refuse(job, "client 'u'", "3 texts, but 2 tags", out="bad.h5")


if __name__ == "__main__":
    harness.main()
