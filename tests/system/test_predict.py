"""hanse predict: what a run's model says of new data, beside PyTorch and the run's own evaluation."""

import csv
import io
import os
import pathlib
import random

import numpy
import torch

import harness

torch.set_num_threads(1)
HEART = pathlib.Path(__file__).resolve().parents[2] / "data" / "heart"
JOB = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "heart-aaggff-s.cfg"
CLASSES = ["high", "low", "none"]


def auroc(scores, labels):
    """The share of pairs in which the sample of class 1 has the larger score; ties count a half."""
    one, other = scores[labels == 1], scores[labels == 0]
    above = (one[:, None] > other).sum() + 0.5 * (one[:, None] == other).sum()
    return above / (len(one) * len(other))


class LeNet(torch.nn.Module):
    def __init__(self, channels, inputs, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(inputs, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, classes)

    def forward(self, x):
        for layer in (self.conv1, self.conv2):
            x = torch.nn.functional.max_pool2d(torch.relu(layer(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class Lstm(torch.nn.Module):
    def __init__(self, tokens=97):
        super().__init__()
        self.embedding = torch.nn.Embedding(tokens, 6)
        self.lstm = torch.nn.LSTM(6, 10, 2, batch_first=True)
        self.fc = torch.nn.Linear(10, tokens)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0][:, -1])


class PredictCase(harness.Case):
    def predict(self, run, data, *arguments):
        """The table of predictions: a dictionary a line."""
        said = self.hanse("predict", run, data, *arguments).stdout()
        return list(csv.DictReader(io.StringIO(said)))

    def outputs(self, lines):
        return numpy.array([[float(text) for name, text in line.items()
                             if name.startswith(("p_", "predicted"))] for line in lines])

    def by_torch(self, run, module, x):
        """Softmax of the logits that PyTorch finds with the weights of state_dict.pt."""
        module.load_state_dict(torch.load(os.path.join(run, "state_dict.pt")))
        with torch.no_grad():
            return torch.softmax(module.eval()(torch.as_tensor(x)).double(), 1).numpy()

    def table(self, name, seed, rows, missing=0.0):
        """Three clinics; the label is one of three words. Returns its path and its cells."""
        draw = random.Random(seed)
        cells = [{"clinic": f"c{i % 3}", "age": f"{draw.gauss(50, 9):.1f}",
                  "kind": draw.choice("abc"), "dose": str(16777217 + 2 * draw.randrange(50)),
                  "risk": draw.choice(CLASSES)} for i in range(rows)]
        for line in cells:
            if draw.random() < missing:
                line[draw.choice(["age", "kind"])] = ""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(cells[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)
        return self.write(name, text.getvalue()), cells

    def clinics(self, changes=None):
        path, _ = self.table("clinics.csv", 1, 150, 0.1)
        return self.job({"data.kind": "csv", "data.path": path, "data.label-column": "risk",
                         "data.client-column": "clinic", "data.categories": "one-hot",
                         "data.missing": "mean", "data.standardize": "all", "data.classes": None,
                         "sampler.per-round": 2, "run.state-dict": "true", **(changes or {})})


class Hospitals(PredictCase):
    def check(self, name, changes, client=""):
        """The held-out hospital's rows, as they stand in the table, have the AUROC of clients.csv."""
        rows = (HEART / "heart.csv").read_text().splitlines()
        own = [line for line in rows[1:] if line.startswith(name + ",")]
        raw = self.write("raw.csv", "\n".join([rows[0], *own]) + "\n")
        run = self.train(JOB, "run", changes={"data.path": HEART / "heart.csv", "run.rounds": 10,
                                              "data.test-fraction": 0,
                                              "federation.held-out": name, **changes})
        lines = self.predict(run, raw, *([f"--client={client}"] if client else []))
        scores = numpy.array([float(line["p_1"]) for line in lines])
        labels = numpy.array([int(line["label"]) for line in lines])
        self.assertEqual(len(lines), len(own))
        (known,) = [line for line in harness.table(run, "clients.csv") if line["name"] == name]
        self.assertEqual(known["held_out"], "1")
        self.assertAlmostEqual(auroc(scores, labels), float(known["auroc"]), delta=1e-9)
        self.assertAlmostEqual(((scores > 0.5) == labels).mean(), float(known["accuracy"]),
                               delta=1e-9)

    def test_a_held_out_hospital(self):
        self.check("hungarian", {"data.standardize": "all"})

    def test_a_held_out_hospital_by_its_own_means(self):
        self.check("va", {}, "va")

    def test_raw_tables_with_holes_and_categories(self):
        raw = {"data.path": HEART / "processed.*.data", "data.client-column": "",
               "data.label-column": "target", "data.label-above": 0, "data.missing": "mean",
               "data.category-columns": "cp,restecg", "data.drop-columns": "slope,ca,thal",
               "data.standardize": "all", "data.test-fraction": 0, "run.rounds": 10,
               "federation.held-out": "switzerland"}
        run = self.train(JOB, "run", changes=raw)
        lines = self.predict(run, HEART / "processed.switzerland.data")
        self.assertEqual(list(lines[0]), ["id", "slope", "ca", "thal", "target", "p_0", "p_1"])
        scores = numpy.array([float(line["p_1"]) for line in lines])
        labels = numpy.array([int(float(line["target"]) > 0) for line in lines])
        known = harness.table(run, "clients.csv")[-1]
        self.assertEqual(known["name"], "switzerland")
        self.assertAlmostEqual(auroc(scores, labels), float(known["auroc"]), delta=1e-9)


class BesidePyTorch(PredictCase):
    def prepared(self, cells):
        """The features of such rows, by the training table's own means; no client is held out."""
        _, train = self.table("again.csv", 1, 150, 0.1)
        ages = numpy.array([float(c["age"]) for c in train if c["age"]])
        doses = numpy.array([float(c["dose"]) for c in train])
        kinds = [c["kind"] for c in train if c["kind"]]
        share = {kind: kinds.count(kind) / len(kinds) for kind in "abc"}

        def row(c):
            one_hot = [float(c["kind"] == k) if c["kind"] else share[k] for k in "abc"]
            return [float(c["age"]) if c["age"] else ages.mean(), *one_hot, float(c["dose"])]
        every = numpy.array([row(c) for c in train])
        every[:, 1:4] = every[:, 1:4].astype("float32")
        self.assertAlmostEqual(doses.mean(), every[:, 4].mean())
        new = numpy.array([row(c) for c in cells])
        return ((new - every.mean(0)) / every.std(0)).astype("float32")

    def check_table(self, changes, module):
        run = self.train(self.clinics({"data.test-fraction": 0, **changes}), "run")
        path, cells = self.table("new.csv", 7, 40, 0.3)
        lines = self.predict(run, path)
        self.assertEqual(list(lines[0]), ["id", "clinic", "risk", "p_high", "p_low", "p_none"])
        self.assertEqual([line["id"] for line in lines], [str(i) for i in range(40)])
        self.assertEqual([line["risk"] for line in lines], [c["risk"] for c in cells])
        expected = self.by_torch(run, module, self.prepared(cells))
        self.assertLess(numpy.abs(self.outputs(lines) - expected).max(), 1e-6)

    def test_linear(self):
        module = torch.nn.Sequential()
        module.add_module("fc1", torch.nn.Linear(5, 3))
        self.check_table({"model.kind": "linear"}, module)

    def test_mlp(self):
        module = torch.nn.Sequential()
        for name, layer in (("fc1", torch.nn.Linear(5, 7)), ("relu", torch.nn.ReLU()),
                            ("fc2", torch.nn.Linear(7, 3))):
            module.add_module(name, layer)
        self.check_table({"model.kind": "mlp", "model.hidden": 7}, module)

    def test_adapters(self):
        module = torch.nn.Sequential()
        for name, layer in (("fc1", torch.nn.Linear(5, 7)), ("relu", torch.nn.ReLU()),
                            ("fc2", torch.nn.Linear(7, 3))):
            module.add_module(name, layer)
        job = self.clinics({"model.kind": "mlp", "model.hidden": 7, "client.lora": 2,
                            "data.test-fraction": 0})
        run = self.train(job, "run")
        state = torch.load(os.path.join(run, "state_dict.pt"))
        for name in [name for name in state if name + ".lora_A" in state]:
            state[name] = state[name] + state[name + ".lora_B"] @ state[name + ".lora_A"]
        torch.save({k: v for k, v in state.items() if "lora" not in k},
                   os.path.join(run, "state_dict.pt"))
        path, cells = self.table("new.csv", 7, 10)
        found = self.outputs(self.predict(run, path))
        expected = self.by_torch(run, module, self.prepared(cells))
        self.assertLess(numpy.abs(found - expected).max(), 1e-6)

    def test_images_by_the_means_of_their_channels(self):
        draw = numpy.random.default_rng(3)
        x, new = (draw.integers(0, 256, (n, 14, 16, 3), dtype=numpy.uint8) for n in (80, 11))
        numpy.savez(self.path("train.npz"), x=x, y=draw.integers(0, 4, 80))
        numpy.savez(self.path("new.npz"), x=new, y=numpy.zeros(11, int))
        job = self.job({"data.kind": "npz", "data.path": self.path("train.npz"), "data.shape": None,
                        "data.classes": None, "data.normalize": "all", "data.test-fraction": 0,
                        "federation.clients": 4, "federation.samples": None, "run.state-dict": "true",
                        "sampler.per-round": 2, "model.kind": "lenet"})
        run = self.train(job, "run")
        pixels = x.transpose(0, 3, 1, 2) / 255
        axes = (0, 2, 3)
        scaled = (new.transpose(0, 3, 1, 2) / 255 - pixels.mean(axes).reshape(3, 1, 1)) / \
            pixels.std(axes).reshape(3, 1, 1)
        lines = self.predict(run, self.path("new.npz"))
        expected = self.by_torch(run, LeNet(3, 32, 4), scaled.astype("float32"))
        self.assertLess(numpy.abs(self.outputs(lines) - expected).max(), 1e-6)
        numpy.savez(self.path("wide.npz"), x=new[:, :, :15], y=numpy.zeros(11, int))
        self.assert_one_error(self.hanse("predict", run, self.path("wide.npz"), expect=2), 2,
                              "shape [3, 14, 15], those of the run [3, 14, 16]")

    def test_a_play(self):
        speech = {"ANNA": "What day is it?\nI ask you.", "BEN": "It is a fine day, Anna."}
        play = "\n\n".join(f"{who}:\n{words}" for who, words in speech.items())
        job = {"data.kind": "text", "data.shape": None, "data.classes": None, "data.window": 8,
               "data.test-fraction": 0, "federation.clients": None, "federation.samples": None,
               "federation.min-samples": 1, "sampler.per-round": 2, "model.kind": "lstm",
               "model.embedding": 6, "model.units": 10, "run.state-dict": "true"}
        run = self.train(self.job({**job, "data.path": self.write("play.txt", play)}), "run")
        windows = []
        for words in speech.values():
            tokens = [1 if c == "\n" else ord(c) - 30 for c in words]
            windows += [([0] * 8 + tokens[:end])[-8:] for end in range(1, len(tokens))]
        lines = self.predict(run, self.path("play.txt"))
        self.assertEqual([lines[0]["client"], lines[-1]["client"]], ["ANNA", "BEN"])
        expected = self.by_torch(run, Lstm(), windows)
        self.assertLess(numpy.abs(self.outputs(lines) - expected).max(), 1e-6)
        job["data.vocabulary"] = "data"
        run = self.train(self.job({**job, "data.path": self.path("play.txt")}), "own")
        letters = sorted(set("".join(speech.values())) | {"\n"})
        # Another play has fewer letters, and one that the run has not: they keep their numbers.
        self.write("other.txt", "ANNA:\nWhat? Zzz.")
        said = "What? Zzz."
        tokens = [letters.index(c) + 1 if c in letters else 0 for c in said]
        windows = [([0] * 8 + tokens[:end])[-8:] for end in range(1, len(tokens))]
        expected = self.by_torch(run, Lstm(len(letters) + 1), windows)
        found = self.outputs(self.predict(run, self.path("other.txt")))
        self.assertLess(numpy.abs(found - expected).max(), 1e-6)

    def test_numbers_to_predict(self):
        lines = "\n".join(f"{i % 4},{i % 7},{2 * (i % 4) - i % 7},{i % 3}" for i in range(60))
        path = self.write("r.csv", "a,b,y,z\n" + lines + "\n")
        job = self.job({"data.kind": "csv", "data.path": path, "data.label-column": "y,z",
                        "data.task": "regression", "data.classes": None, "model.loss": "squared-error",
                        "federation.clients": 4, "sampler.per-round": 2, "run.state-dict": "true"})
        run = self.train(job, "run")
        state = torch.load(os.path.join(run, "state_dict.pt"))
        weight, bias = state["fc1.weight"].numpy(), state["fc1.bias"].numpy()
        new = self.write("n.csv", "b,id,a\n3,first,1\n5,second,2\n")
        found = self.predict(run, new)
        self.assertEqual(list(found[0]), ["id", "predicted_y", "predicted_z"])
        self.assertEqual([line["id"] for line in found], ["first", "second"])
        expected = numpy.array([[1, 3], [2, 5]]) @ weight.T + bias
        self.assertLess(numpy.abs(self.outputs(found) - expected).max(), 1e-6)


class OwnModels(PredictCase):
    def test_those_of_clients(self):
        ways = {"ditto": {"client.update": "ditto"}, "heads": {"client.personal": "fc2*"},
                "scaffold": {"client.personal": "fc2*", "client.update": "scaffold"},
                "local": {"run.protocol": "local"}}
        changes = {"data.path": HEART / "heart.csv", "run.rounds": 5, "data.test-fraction": 0,
                   "aggregator.kind": "fedavg", "model.kind": "mlp", "model.hidden": 6}
        rows = (HEART / "heart.csv").read_text().splitlines()
        own = [line for line in rows[1:] if line.startswith("va,")]
        raw = self.write("va.csv", "\n".join([rows[0], *own]) + "\n")
        labels = numpy.array([int(line.rpartition(",")[2]) for line in own])
        for name, way in ways.items():
            run = self.train(JOB, name, changes={**changes, **way, "data.standardize": "all"})
            found = self.predict(run, raw, "--client=va")
            scores = numpy.array([float(line["p_1"]) for line in found])
            (known,) = [c for c in harness.table(run, "clients.csv") if c["name"] == "va"]
            self.assertAlmostEqual(auroc(scores, labels), float(known["auroc"]), delta=1e-9)
            shared = self.hanse("predict", run, raw)
            self.assertIn("clients have tensors of their own in this run", shared.stderr())
            self.assertNotEqual(shared.stdout(), self.hanse("predict", run, raw,
                                                            "--client=va").stdout())

    def test_a_client_that_never_took_part(self):
        job = self.clinics({"client.update": "ditto", "federation.held-out": "c1"})
        run = self.train(job, "run")
        self.assert_one_error(self.hanse("predict", run, self.path("clinics.csv"), "--client=c1",
                                         expect=2), 2, "it never took part", "c1")


class Files(PredictCase):
    def test_models_and_outputs(self):
        run = self.train(self.clinics({"evaluate.best": "accuracy_mean", "run.rounds": 8}), "run")
        path, _ = self.table("new.csv", 5, 300)
        best = self.hanse("predict", run, path).stdout()
        said = self.hanse("predict", run, path, "--out=p.csv")
        self.assertEqual(said.stdout(), f"p.csv: 300 samples, by {run}/best.h5\n")
        self.assertEqual(harness.text(self.folder, "p.csv"), best)
        self.assertEqual(self.hanse("predict", run, path, "--model=best").stdout(), best)
        own = self.hanse("predict", run, path, "--model=model").stdout()
        self.assertEqual(self.hanse("predict", run, path, f"--model={run}/model.h5").stdout(), own)
        os.remove(os.path.join(run, "best.h5"))
        self.assertEqual(self.hanse("predict", run, path).stdout(), own)
        self.assertEqual([name for name in os.listdir(self.folder) if "tmp" in name], [])

    def test_what_does_not_fit_is_refused_in_one_line(self):
        run = self.train(self.clinics(), "run")
        fits = "age,kind,dose\n50,a,3\n"
        cases = [("age,kind\n50,a\n", [], "no column 'dose', which the model reads"),
                 ("age,kind,dose\n50,z,3\n", [], "does not know the category 'z'"),
                 ("age,kind,dose\n50,a\n", [], "the row has 2 fields, the header 3"),
                 ("age,kind,dose\nold,a,3\n", [], "'old' is not a number"),
                 ("age,kind,dose,p_low\n50,a,3,1\n", [], "'p_low' would stand twice"),
                 (fits, ["--client=c9"], "no client is called 'c9'"),
                 (fits, ["--model=other"], "there is no"),
                 (fits, ["--unknown=guess"], "known: refuse, missing")]
        for number, (table, arguments, part) in enumerate(cases):
            path = self.write(f"{number}.csv", table)
            process = self.hanse("predict", run, path, *arguments, expect=2)
            self.assert_one_error(process, 2, part)
            self.assertEqual(process.stdout(), "")
        self.assert_one_error(self.hanse("predict", run, "nowhere.csv", expect=2), 2, "no such file")
        path = self.write("z.csv", "age,kind,dose\n50,z,3\n50,,3\n")
        lines = self.predict(run, path, "--unknown=missing")
        self.assertEqual(lines[0]["p_low"], lines[1]["p_low"])
        os.remove(os.path.join(run, "features.csv"))
        self.assert_one_error(self.hanse("predict", run, "z.csv", expect=2), 2, "no features.csv")
        os.remove(os.path.join(run, "job.cfg"))
        self.assert_one_error(self.hanse("predict", run, "z.csv", expect=2), 2, "has no job.cfg")

    def test_the_record_outlives_resumes_and_ranks(self):
        job = self.clinics({"run.rounds": 6, "checkpoint.every": 3})
        alone = self.train(job, "alone")
        run = self.train(job, "half", 2, {"run.rounds": 3})
        self.hanse("resume", run, "--run.rounds=6", f"--run.out={self.path('moved')}", ranks=3)
        features = harness.text(alone, "features.csv")
        self.assertEqual(harness.text(self.path("moved"), "features.csv"), features)
        path, _ = self.table("new.csv", 5, 20)
        self.assertEqual(self.hanse("predict", self.path("moved"), path).stdout(),
                         self.hanse("predict", alone, path).stdout())

    def test_a_private_runs_model_does_not_tell(self):
        job = self.clinics({"privacy.kind": "central", "privacy.clip": 1, "privacy.noise": 1,
                            "data.standardize": "none", "run.state-dict": None,
                            "sampler.kind": "poisson"})
        run = self.train(job, "run")
        self.assertNotIn("age", self.hanse("inspect", f"{run}/model.h5").stdout())
        self.assertTrue(os.path.exists(os.path.join(run, "features.csv")))

    def test_inspect_names_coefficients(self):
        run = self.train(self.clinics(), "run")
        said = self.hanse("inspect", f"{run}/model.h5").stdout()
        for part in ("low against high", "none against high", "kind=b", "per deviation"):
            self.assertIn(part, said)
        state = torch.load(os.path.join(run, "state_dict.pt"))
        slope = (state["fc1.weight"][1, 0] - state["fc1.weight"][0, 0]).item()
        (line,) = [line for line in said.partition("none against")[0].splitlines()
                   if line.split()[:1] == ["age"]]
        deviation = [float(f["deviation"]) for f in harness.table(run, "features.csv")
                     if f["column"] == "age" and f["role"] == "number"][0]
        expected = [slope, numpy.exp(slope / deviation), numpy.exp(slope)]
        numpy.testing.assert_allclose([float(x) for x in line.split()[1:]], expected, rtol=1e-5)


if __name__ == "__main__":
    harness.main()
