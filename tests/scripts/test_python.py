"""The Python package: runs of a program that pretends, runs of the real one, files and rules."""
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import h5py
import numpy

from support import SCRIPTS, ScriptTest

PACKAGE = SCRIPTS / "python"
PROGRAM = SCRIPTS.parent / "build" / "hanse"
sys.path.insert(0, str(PACKAGE))
import hanse  # noqa: E402

# Notes how it was called, says what it is told to say, and ends with the status it is told.
PRETENDER = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>calls
case $* in
  *bad*) echo "hanse: error: unknown option (--client.bad); hint: client.batch" >&2; exit 2 ;;
  *diverges*) echo "round 3/9" >&2; echo "hanse: error: it diverges" >&2; exit 1 ;;
  *killed*) kill -9 $$ ;;
  *stopped*) echo "hanse: stopped after round 4; go on with: hanse resume runs/x" >&2; exit 75 ;;
  *waits*) trap 'echo asked >asked; exit 75' USR1; touch started
           for i in {1..300}; do sleep 0.1; done ;;
esac
mkdir -p "runs/a run"; touch "runs/a run/job.cfg"
echo "round 9/9  loss 0.1" >&2
printf '\\naccuracy %-20s 81.00 %%\\nrun directory                runs/a run\\n' ""
"""


class InFolder(ScriptTest):
    """Tests whose working directory is their own scratch folder."""

    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)


class RunsTest(InFolder):
    def setUp(self):
        super().setUp()
        program = self.write("bin/hanse", PRETENDER)
        program.chmod(0o755)
        environment = mock.patch.dict(os.environ, {"HANSE_PROGRAM": str(program)})
        environment.start()
        self.addCleanup(environment.stop)

    def calls(self):
        return pathlib.Path("calls").read_text().splitlines()

    def test_runs_with_options_as_words(self):
        run = hanse.run("first.cfg", {"client.lr": 0.1, "model.hidden": (200, 100),
                                      "run.trace": True, "data.path": pathlib.Path("a b")},
                        progress=False)
        self.assertEqual(run.path, pathlib.Path("runs/a run"))
        hanse.resume(run, {"run.rounds": 20}, progress=False)
        hanse.run({"data.kind": "random"}, progress=False)
        self.assertEqual(self.calls(), [
            "run first.cfg --client.lr=0.1 --model.hidden=200,100 --run.trace=true --data.path=a b",
            "resume runs/a run --run.rounds=20",
            "run /dev/null --run.name=python --data.kind=random"])

    def test_starts_ranks_under_mpirun(self):
        self.write("bin/mpirun", '#!/bin/sh\necho "mpirun $*" >>calls\n'
                                 'while [ "$1" != -n ]; do shift; done\nshift 2; exec "$@"\n').chmod(0o755)
        with mock.patch.dict(os.environ, {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}):
            hanse.run("first.cfg", ranks=3, progress=False)
        self.assertRegex(self.calls()[0], r"^mpirun .*-n 3 \S+/bin/hanse run first\.cfg$")
        self.assertEqual(self.calls()[1], "run first.cfg")
        # The one that its build has put beside the program comes first.
        self.write("bin/lib/mpirun", '#!/bin/sh\necho "own $*" >>calls\nshift 2; exec "$@"\n').chmod(0o755)
        hanse.run("first.cfg", ranks=2, progress=False)
        self.assertRegex(self.calls()[2], r"^own -n 2 \S+/bin/hanse run first\.cfg$")
        with self.assertRaisesRegex(hanse.Refused, "0 ranks; hint"):
            hanse.run("first.cfg", ranks=0)

    def test_shows_what_the_program_says(self):
        script = "import hanse; hanse.run('first.cfg')"
        said = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)}, check=True)
        self.assertEqual((said.stderr, said.stdout), ("round 9/9  loss 0.1\n", ""))

    def test_raises_with_the_programs_message(self):
        for job, error, text in (
                ("bad", hanse.Refused, r"^unknown option \(--client.bad\); hint: client.batch$"),
                ("diverges", hanse.Failed, "^it diverges$"),
                ("killed", hanse.Failed, "^the program ended with status -9: it said nothing$"),
                ("stopped", hanse.Stopped,
                 "^stopped after round 4; go on with: hanse resume runs/x$")):
            with self.subTest(job=job), self.assertRaisesRegex(error, text):
                hanse.run(job, progress=False)
        with self.assertRaisesRegex(hanse.Refused, "unknown option"):
            hanse.plan("bad")

    def test_ctrl_c_asks_for_a_checkpoint(self):
        def interrupt():
            while not pathlib.Path("started").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        # A shell that starts the tests in the background ignores Ctrl-C for them.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            hanse.run("waits", progress=False)
        thread.join()
        self.assertTrue(pathlib.Path("asked").exists())

    def test_finds_the_program(self):
        self.assertEqual(hanse.find_program(), self.folder / "bin" / "hanse")
        with mock.patch.dict(os.environ, {"HANSE_PROGRAM": "none"}), \
                self.assertRaisesRegex(hanse.Refused, "none is no program"):
            hanse.find_program()
        del os.environ["HANSE_PROGRAM"]
        if PROGRAM.exists():
            self.assertEqual(hanse.find_program(), PROGRAM)
        with mock.patch("hanse.program.CHECKOUT", self.folder):
            with mock.patch.dict(os.environ, {"PATH": f"{self.folder}/bin"}):
                self.assertEqual(hanse.find_program(), self.folder / "bin" / "hanse")
            with mock.patch.dict(os.environ, {"PATH": ""}), \
                    self.assertRaisesRegex(hanse.Refused, "scripts/build makes"):
                hanse.find_program()


class Fair:
    needs = {"losses", "norms"}

    def mix(self, r):
        return numpy.exp(r.losses) * r.lam * r.draw_weights / (1 + r.norms)


class Mean:
    def mix(self, r):
        weights = r.lam * r.draw_weights
        return weights / weights.sum()


class Memory:
    """Keeps a mean of the losses; subclasses forget or add what they should not."""
    needs = {"losses"}

    def __init__(self, clients, args):
        self.mean, self.rate, self.calls = numpy.zeros(clients), float(args["rate"]), 0

    def mix(self, r):
        self.calls += 1
        self.mean[r.clients] += self.rate * (r.losses - self.mean[r.clients])
        return self.mean[r.clients]

    def state(self):
        return {"mean": self.mean}

    def load(self, state):
        self.mean = state["mean"]


class Counts(Memory):
    def mix(self, r):
        return super().mix(r) * self.calls


class LosesDigits(Memory):
    def state(self):
        return {"mean": self.mean.astype("float32")}


class Timed(Memory):
    def mix(self, r):
        return super().mix(r) + time.perf_counter_ns()


class Bandit:
    """Draws the clients of the largest feedback, and one at random."""

    def __init__(self, clients, args):
        self.seen = numpy.ones(clients)

    def draw(self, round, available, rng):
        best = available[numpy.argmax(self.seen[available])]
        others = available[available != best]
        chosen = numpy.append(best, others[rng.permutation(len(others))])[:self.per_round]
        return chosen, numpy.ones(len(chosen))

    def observe(self, clients, feedback, losses):
        self.seen[clients] = feedback

    def state(self):
        return {"seen": self.seen}

    def load(self, state):
        self.seen = state["seen"]


class Loud:
    """Draws the largest losses of three candidates, and hears of the clients' times."""
    needs = {"candidates"}

    def __init__(self, clients, args):
        self.heard = numpy.zeros(2)
        assert self.sizes.tolist() == [9, 8, 7, 6]

    def candidates(self, round, available, rng):
        return available[rng.choice(len(available), 3, self.sizes[available])]

    def draw(self, round, candidates, losses, rng):
        return candidates[numpy.argsort(-losses)][:self.per_round], numpy.ones(
            min(self.per_round, len(candidates)))

    def observe(self, clients, feedback, losses, durations):
        self.heard[0] += 0 if durations is None else durations.sum()

    def state(self):
        return {"heard": self.heard}

    def load(self, state):
        self.heard = state["heard"]


class Careless(Bandit):
    def draw(self, round, available, rng):
        return numpy.random.permutation(available)[:2], numpy.ones(2)


class Velocity:
    def step(self, theta, update):
        self.v = 0.5 * getattr(self, "v", 0) + update
        return theta + self.v


class SavedVelocity(Velocity):
    def state(self):
        return {"v": self.v} if hasattr(self, "v") else {}

    def load(self, state):
        if state:
            self.v = state["v"]


class Columns:
    def __init__(self, clients, args):
        self.factor = float(args["factor"])

    def columns(self, rows, weights):
        rows *= self.factor
        return weights @ rows


class CountsBlocks:
    blocks = 0

    def columns(self, rows, weights):
        self.blocks += 1
        return rows[0] + self.blocks


MIXED = {"clients": 4, "samples": 100, "rounds": [
    {"participants": [0, 3], "sizes": [10, 30], "draw_weights": [2, 0.5], "losses": [0.1, 0.3],
     "norms": [0, 1], "gram": [[1, 0], [0, 2]]},
    {"participants": [3, 1], "sizes": [30, 20], "losses": [0.7, 0.2], "norms": [3, 0]}]}
DRAWN = {"rule": {"sampler.per-round": 2}, "clients": 4, "rounds": [
    {"draws": [t % 4, (t + 1) % 4], "feedback": [0.5 + t, 0.1], "losses": [1, 2],
     "available": [0, 1, 3] if t == 3 else [0, 1, 2, 3]} for t in range(8)]}


@unittest.skipUnless(PROGRAM.exists(), "build/hanse is not built")
class RuleTest(ScriptTest):
    def setUp(self):
        super().setUp()
        python = mock.patch.dict(os.environ, {"HANSE_PYTHON": sys.executable})
        python.start()
        self.addCleanup(python.stop)

    def test_an_aggregator(self):
        decided = hanse.rule_test(Fair, MIXED)["rounds"]
        expected = [[numpy.exp(0.1) * 0.1 * 2, numpy.exp(0.3) * 0.3 * 0.5 / 2],
                    [numpy.exp(0.7) * 0.3 / 4, numpy.exp(0.2) * 0.2]]
        numpy.testing.assert_allclose([one["weights"] for one in decided], expected, rtol=1e-15)
        trace = self.write("trace.json", json.dumps(MIXED))
        means = hanse.rule_test(Memory, trace, {"rate": 0.5})["rounds"]
        numpy.testing.assert_allclose(means[1]["weights"], [0.425, 0.1], rtol=1e-15)

    def test_an_aggregator_by_columns(self):
        trace = {"rounds": [{"rows": [[0, 1], [2, 5], [4, 3]], "sizes": [1, 2, 1]},
                            {"rows": [[1, 1]], "sizes": [4]}]}
        decided = hanse.rule_test(Columns, trace, {"factor": 2})["rounds"]
        self.assertEqual([one["update"] for one in decided], [[4, 7], [2, 2]])
        with self.assertRaisesRegex(hanse.Impure, r"in round 2 columns\[0\] is 3, but 2 from"):
            hanse.rule_test(CountsBlocks, trace)

    def test_a_sampler_and_an_optimizer(self):
        decided = hanse.rule_test(Bandit, DRAWN)["rounds"]
        self.assertEqual([len(one["clients"]) for one in decided], [2] * 8)
        self.assertEqual(decided, hanse.rule_test(Bandit, {**DRAWN, "seed": 1})["rounds"])
        self.assertNotEqual(decided, hanse.rule_test(Bandit, DRAWN, seed=2)["rounds"])
        updates = [[1, 0], [1, 0], [0, 2]]
        steps = hanse.rule_test(SavedVelocity, {"theta": [0, 1], "updates": updates})
        self.assertEqual([one["theta"] for one in steps["rounds"]], [[1, 1], [2.5, 1], [3.25, 3]])

    def test_a_sampler_that_looks_at_losses(self):
        losses = [0.5, 0.1, 0.9, 0.3]
        trace = {**DRAWN, "rule": {"sampler.kind": "oort", "sampler.per-round": 2},
                 "initial": [9, 8, 7, 6], "rounds": [
                     {"candidate_losses": losses, "durations": [1, 2], **one}
                     for one in DRAWN["rounds"]]}
        decided = [one["clients"] for one in hanse.rule_test(Loud, trace)["rounds"]]
        for number, clients in enumerate(decided):
            self.assertGreater(losses[clients[0]], losses[clients[1]])
            self.assertTrue(number != 3 or 2 not in clients)
        self.assertGreater(len(set(map(tuple, decided))), 1)
        few = {**trace, "rounds": [{**one, "candidates": [0, 1, 3],
                                    "candidate_losses": losses[:2] + losses[3:]}
                                   for one in trace["rounds"]]}
        drawn = [one["clients"] for one in hanse.rule_test(Loud, few)["rounds"]]
        self.assertFalse(any(2 in clients for clients in drawn))
        with self.assertRaisesRegex(hanse.Refused, "'candidate_losses' is missing"):
            hanse.rule_test(Loud, {**DRAWN, "samples": [9, 8, 7, 6]})

    def test_impure_rules_are_caught(self):
        for rule, trace, text in (
                (Counts, MIXED, r"^Counts is not pure: in round 2 coefficients\[0\] is \S+, but \S+ "
                                "from its saved state .*; hint"),
                (LosesDigits, MIXED, r"in round \d coefficients\[0\] is 0.\d+, but 0.\d+"),
                (Timed, MIXED, r"in round 1 coefficients\[0\] is \S+, but \S+ from its saved state"),
                (Careless, DRAWN, r"in round \d clients\[\d\]"),
                (Velocity, {"theta": [0], "updates": [[1], [1]]},
                 r"in round 2 behind parameter 0, the model\[0\] is 2.5, but 2")):
            with self.subTest(rule=rule.__name__), self.assertRaisesRegex(hanse.Impure, text):
                hanse.rule_test(rule, trace, {"rate": 0.3})

    def test_what_the_program_would_refuse(self):
        def returns(value):
            return type("Made", (), {"mix": lambda self, r: value})

        for value, text in (([1], r"an array of shape \(1,\), not 2 coefficients"),
                            ([1, numpy.nan], "nan"), (["a", "b"], "not 2 coefficients")):
            with self.assertRaisesRegex(hanse.HanseError, text):
                hanse.rule_test(returns(value), MIXED)
        for drawn, text in (([0, 0], "client 0"), ([9], "client 9"), ([0, 1, 2], "more than"),
                            ([2, 0], "client 2")):  # 2 is away in round 4
            made = type("Made", (), {"draw": lambda self, t, there, rng: (drawn, [1] * len(drawn))})
            with self.assertRaisesRegex(hanse.HanseError, text):
                hanse.rule_test(made, DRAWN)
        with self.assertRaisesRegex(hanse.Refused, "Made: unknown need 'loss'; known"):
            hanse.rule_test(type("Made", (Fair,), {"needs": {"loss"}}), MIXED)
        with self.assertRaisesRegex(hanse.Refused, r"one of state\(\) and load\(\), not both"):
            hanse.rule_test(type("Made", (Fair,), {"state": dict}), MIXED)
        with self.assertRaisesRegex(hanse.Refused, "Made is no rule"):
            hanse.rule_test(type("Made", (), {}), MIXED)
        with self.assertRaisesRegex(hanse.Refused, r"'gram' is missing.*rounds\[1\]"):
            hanse.rule_test(type("Made", (), {"needs": {"gram"}, "mix": lambda self, r: [1, 1]}),
                            MIXED)

    def test_arrays_are_read_only(self):
        made = type("Made", (), {"mix": lambda self, r: r.lam.sort()})
        with self.assertRaisesRegex(ValueError, "read-only"):
            hanse.rule_test(made, MIXED)

    def test_the_stream_is_the_programs(self):
        """All that it can draw, in the process of the caller."""
        drawn = []

        class Draws:
            def draw(self, round, available, rng):
                drawn.append((rng.random(3).tolist(), rng.normal(2).tolist(),
                              rng.integers(-2, 3, 40).tolist(), rng.permutation(9).tolist(),
                              rng.choice(5, 2, p=[0, 1, 0, 1, 0]).tolist()))
                return available[:1], [1]

        hanse.rule_test(Draws, {**DRAWN, "rounds": DRAWN["rounds"][:1]}, seed=5)
        self.assertEqual(len(set(map(str, drawn))), 1)  # of the rule, its twin and the runs
        uniform, _, integers, order, chosen = drawn[0]
        self.assertEqual(sorted(chosen), [1, 3])
        self.assertTrue(all(0 <= value < 1 for value in uniform))
        self.assertEqual((min(integers), max(integers), sorted(order)), (-2, 2, list(range(9))))


@unittest.skipUnless(PROGRAM.exists(), "build/hanse is not built")
class ProgramTest(InFolder):
    def test_the_notebook(self):
        notebook = json.loads((PACKAGE / "first_steps.ipynb").read_text())
        code = "\n".join("".join(cell["source"]) for cell in notebook["cells"]
                         if cell["cell_type"] == "code")
        said = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE),
                                   "HANSE_PYTHON": sys.executable}, check=False)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("island", said.stdout)
        self.assertTrue(all(not cell.get("outputs") for cell in notebook["cells"]))
        # What the run has recorded, by rules that are built in.
        trace = self.folder / "runs/fair/trace-aggregator.json"
        replayed = hanse.replay(trace, check=True)["rounds"]
        self.assertEqual(len(replayed), 30)
        plain = {"rule": {"aggregator.kind": "fedavg"}, **{
            key: value for key, value in json.loads(trace.read_text()).items() if key != "rule"}}
        ours = [one["weights"] for one in hanse.rule_test(Mean, plain)["rounds"]]
        theirs = [one["weights"] for one in hanse.replay(plain)["rounds"]]
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-14)

    def test_a_federation(self):
        random = numpy.random.default_rng(0)
        clients = {"nørth": (random.normal(size=(7, 2, 3)), [0, 1, 2, 0, 1, 2, 0]),
                   "south": (random.normal(size=(2, 2, 3)), [1, 1],
                             random.normal(size=(3, 2, 3)), [0, 2, 2])}
        path = hanse.write_federation("data.h5", clients, classes=["a", "b", "c"],
                                      test_fraction=0.4)
        self.assertEqual(os.listdir(), ["data.h5"])
        with open(path, "rb") as file:
            self.assertTrue(file.read(20).startswith(b"HANSE-DATA 1\nbytes "))
        with h5py.File(path) as file:
            self.assertEqual(file["offsets"][:].tolist(), [0, 7, 12])
            self.assertEqual(file["train_end"][:].tolist(), [4, 9])
            self.assertEqual(file["client_names"].asstr()[:].tolist(), ["nørth", "south"])
            self.assertEqual(file["class_names"].asstr()[:].tolist(), ["a", "b", "c"])
            x, y = file["features"][:], file["labels"][:]
            self.assertIn("digest", file)
        numpy.testing.assert_array_equal(x[9:], numpy.float32(clients["south"][2]))
        self.assertEqual(y[7:].tolist(), [1, 1, 0, 2, 2])
        rows = {tuple(row.ravel()): label for row, label in zip(x[:7], y[:7])}
        self.assertEqual(rows, {tuple(numpy.float32(row).ravel()): label
                                for row, label in zip(*clients["nørth"])})
        run = hanse.run({"data.kind": "hanse", "data.path": path, "model.kind": "linear",
                         "run.rounds": 1}, progress=False)
        self.assertEqual(list(run.clients["name"]), ["nørth", "south"])
        self.assertEqual(run.summary["split"], "test")

    def test_predictions_of_a_frame(self):
        import pandas
        draw = numpy.random.default_rng(2)
        ages = draw.normal(50, 9, 120)
        frame = pandas.DataFrame({"age": ages, "sex": draw.choice(["f", "m"], 120),
                                  "ill": numpy.where(ages > 50, "yes", "no"),
                                  "clinic": draw.choice(["a", "b"], 120)},
                                 index=[f"patient {i}" for i in range(120)])
        frame.loc["patient 3", "age"] = None
        frame.to_csv("visits.csv", index=False)
        model = {"model.kind": "linear", "run.rounds": 20, "client.lr": 0.5,
                 "data.label-column": "ill", "data.client-column": "clinic"}
        rules = {"data.missing": "mean", "data.categories": "one-hot", "data.standardize": "all"}
        run = hanse.run({"data.kind": "csv", "data.path": "visits.csv", **model, **rules},
                        progress=False)
        found = run.predict(frame[["sex", "ill", "age"]])
        self.assertEqual(list(found), ["id", "ill", "p_no", "p_yes"])
        self.assertEqual(list(found.index), list(frame.index))
        numpy.testing.assert_allclose(found["p_no"] + found["p_yes"], 1, rtol=1e-15)
        right = (found["p_yes"] > 0.5) == (frame["ill"] == "yes")
        self.assertGreater(right.mean(), 0.9)
        pandas.testing.assert_frame_equal(
            run.predict("visits.csv").drop(columns="clinic"), found.reset_index(drop=True))
        with self.assertRaisesRegex(hanse.Refused, "there is no column 'age'"):
            run.predict(frame.drop(columns="age"))
        odd = frame.assign(sex="x")
        with self.assertRaisesRegex(hanse.Refused, "does not know the category 'x'"):
            run.predict(odd)
        self.assertEqual(len(run.predict(odd, unknown="missing", model="model")), 120)
        # The file of a converted table knows it, too.
        with mock.patch("sys.stderr", io.StringIO()):
            hanse.write_table("visits.h5", frame, client="clinic", label="ill", missing="mean",
                              categories="one-hot", options={"data.standardize": "all"})
        mapped = hanse.run({"data.kind": "hanse", "data.path": "visits.h5", "run.name": "mapped",
                            "model.kind": "linear", "run.rounds": 20, "client.lr": 0.5},
                           progress=False)
        numpy.testing.assert_allclose(mapped.predict(frame)["p_yes"], found["p_yes"], rtol=0.2)

    def test_bytes_and_regression(self):
        image = numpy.full((2, 1, 4, 4), 51, dtype="uint8")
        hanse.write_federation("bytes.h5", {"a": (image, [0, 1])}, classes=2)
        mixed = {"a": (image, [0, 1]), "b": (image / 51.0, [1, 1])}
        hanse.write_federation("both.h5", mixed, classes=2)
        hanse.write_federation("targets.h5", {"a": ([[1.0], [2.0]], [0.5, -1.25])})
        with h5py.File("bytes.h5") as file:
            self.assertEqual((file["features"].dtype, file["features"][0, 0, 0, 0]), ("uint8", 51))
        with h5py.File("both.h5") as file:
            self.assertEqual(file["features"][0, 0, 0, 0], numpy.float32(0.2))
        with h5py.File("targets.h5") as file:
            self.assertEqual((file.attrs["classes"], file["targets"][:].tolist()), (0, [0.5, -1.25]))

    def test_labels_of_every_form(self):
        x = numpy.arange(6.0).reshape(3, 2)
        marks, outputs, sequence = [[0, 1, 1], [0, 0, 0], [1, 0, 0]], [[0.5, 2]] * 3, [[0, -1]] * 3
        hanse.write_federation("marks.h5", {"a": (x, marks)}, classes=["u", "v", "w"],
                               several_labels=True)
        hanse.write_federation("outputs.h5", {"a": (x, outputs)})
        hanse.write_federation("sequence.h5", {"a": (x, sequence)}, classes=2)
        for name, key, values, classes in (("marks", "targets", marks, 0),
                                           ("outputs", "targets", outputs, 0),
                                           ("sequence", "labels", sequence, 2)):
            with h5py.File(f"{name}.h5") as file:
                self.assertEqual(file[key][:].tolist(), values)
                self.assertEqual(file.attrs["classes"], classes)
                self.assertEqual("multi_label" in file.attrs, name == "marks")
        for y, options, text in (([[0, 2, 1]] * 3, {"classes": 3}, "of 0 and 1"),
                                 ([[0, 1]] * 3, {"classes": 3}, r"\[samples, 3\]"),
                                 ([0, 1, 1], {"classes": 2}, "x of shape"),
                                 (marks, {}, "needs the classes")):
            with self.subTest(text=text), self.assertRaisesRegex(hanse.Refused, text):
                hanse.write_federation("bad.h5", {"a": (x, y)}, several_labels=True, **options)
        for y, text in ((numpy.eye(3), "one-hot; hint: y.argmax"), (["a", "b", "a"], "no numbers"),
                        ([0, 1, 2**40], "whole numbers in"), ([0, 1, numpy.nan], "whole numbers in"),
                        (numpy.array([0, 1, 2**64 - 1], "u8"), "whole numbers in")):
            with self.subTest(y=y), self.assertRaisesRegex(hanse.Refused, text):
                hanse.write_federation("bad.h5", {"a": (x, y)}, classes=3)
        for values in (x + 1j, x.astype("M8[s]"), x.astype(str)):
            with self.subTest(x=values), self.assertRaisesRegex(hanse.Refused, "x holds no numbers"):
                hanse.write_federation("bad.h5", {"a": (values, [0, 1, 1])}, classes=2)
        with self.assertRaisesRegex(hanse.Refused, "labels have one shape"):
            hanse.write_federation("bad.h5", {"a": (x, outputs), "b": (x, [[1.0]] * 3)})

    def test_what_is_no_federation(self):
        good = ([[1.0], [2.0]], [0, 1])
        for clients, options, text in (
                ({}, {}, "needs a client"),
                ({"a": good, "b": ([[1.0, 2.0]], [0])}, {},
                 r"one shape: \(1,\) of client a, \(2,\) of b"),
                ({"a": ([[1.0]], [0, 1])}, {},
                 r"client a: x of shape \(1, 1\) and y of shape \(2,\)"),
                ({"a": ([1.0], [0])}, {}, "client a: x of shape"),
                ({"a": ([[1.0]],)}, {}, "client a: expected"),
                ({"a": ([[1.0], [2.0]], [0, 2])}, {},
                 r"client a: labels are whole numbers in \[0, 2\)"),
                ({"a": ([[1.0], [2.0]], [0, 0.5])}, {}, "client a: labels"),
                ({"a": good}, {"test_fraction": 1}, "test_fraction 1"),
                ({"a": ([[numpy.nan], [2.0]], [0, 1])}, {}, "not finite"),
                ({"": good}, {}, "client_names")):
            with self.subTest(text=text), self.assertRaisesRegex(hanse.Refused, text):
                hanse.write_federation("data.h5", clients, classes=2, **options)
        with self.assertRaisesRegex(hanse.Refused, "cannot write none/"):
            hanse.write_federation("none/data.h5", {"a": good}, classes=2)
        self.assertEqual(os.listdir(), [])

    def test_a_run_and_its_plan(self):
        self.write("job.cfg", "[data]\nkind = random\nshape = 5\n[model]\nkind = linear\n"
                              "[federation]\nclients = 6\nsamples = 10\n[run]\nrounds = 4\n")
        run = hanse.run("job.cfg", {"checkpoint.every": 2}, ranks=2, progress=False)
        self.assertEqual((run.path, run.summary["ranks"]), (pathlib.Path("runs/job"), 2))
        longer = hanse.resume(run, {"run.rounds": 6, "run.out": "runs/longer"}, progress=False)
        self.assertEqual(list(longer.rounds["round"]), [1, 2, 3, 4, 5, 6])
        self.assertIn("bytes", " ".join(hanse.plan("job.cfg", ranks=2)))
        self.assertEqual([(one["run"], one["state"], one["rounds"]) for one in
                          hanse.status(run.path, "runs/longer")],
                         [("runs/job", "done", 4), ("runs/longer", "done", 6)])
        self.assertEqual(len(longer.participation), longer.rounds["clients"].sum())
        with self.assertRaisesRegex(hanse.Refused, "client.lr"):
            hanse.run("job.cfg", {"client.lr": -1}, progress=False)
        with self.assertRaisesRegex(hanse.Refused, "rounds"):
            hanse.replay({"rule": {"aggregator.kind": "afl"}, "clients": 2})


class InstalledTest(ScriptTest):
    def test_pip_installs_it(self):
        source = self.folder / "source"
        shutil.copytree(PACKAGE, source)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                               "--no-build-isolation", "--no-index", "--disable-pip-version-check",
                               "--target", self.folder / "site", source],
                              text=True, capture_output=True, check=False)
        if "No module named" in done.stderr:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        script = "import hanse, pathlib; print(hanse.__file__, hanse.read.__doc__)"
        site = {**os.environ, "PYTHONPATH": str(self.folder / "site")}
        said = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True,
                              cwd=self.folder, env=site, check=True)
        self.assertTrue(said.stdout.startswith(str(self.folder / "site" / "hanse")), said.stdout)
        for name in ("py.typed", "operators.txt"):
            self.assertTrue((self.folder / "site/hanse" / name).exists(), name)

    def test_everything_is_documented_and_typed(self):
        self.assertRegex(hanse.__doc__, re.escape("hanse.run("))
        for name in hanse.__all__:
            thing = getattr(hanse, name)
            self.assertTrue(thing.__doc__, name)
            if not isinstance(thing, type):
                self.assertIn("return", thing.__annotations__, name)


if __name__ == "__main__":
    unittest.main()
