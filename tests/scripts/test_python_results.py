"""The Python package on a made-up run directory, and what export-model refuses."""
import json
import math
import sys
import unittest
import warnings

import h5py
import numpy

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402


class ResultsModuleTest(ScriptTest):
    def make(self, name, **options):
        run = self.make_run(name, **options)
        self.write(f"{name}/job.cfg", "# resolved\n[client]\nlr = 0.1  # of a step\n[run]\nseed = 5\n")
        return run

    def test_reads_tables_job_and_summary(self):
        run = hanse.read(self.make("run"))
        self.assertEqual(list(run.rounds["round"]), list(range(1, 41)))
        self.assertEqual(run.evaluations["accuracy_mean"].iloc[-1], 0.4)
        self.assertEqual(run.clients["samples"].sum(), sum(5 * 2 ** i for i in range(8)))
        self.assertEqual(list(run.clients["name"][:2]), ["site, 0", "site, 1"])
        self.assertEqual(list(run.held_out["client"]), [8, 9])
        self.assertEqual(run.job, {"client.lr": "0.1", "run.seed": "5"})
        self.assertEqual(run.summary["metrics"]["loss_mean"], 1.5)

    def test_clients_over_time(self):
        run = self.make_run("history")
        self.write(run / "job.cfg", "[run]\nname = history\n")
        self.add_history(run)
        history = hanse.read(run).history
        self.assertEqual(list(history), ["accuracy", "loss"])
        self.assertEqual(list(history["accuracy"].index), [0, 4, 8])
        self.assertAlmostEqual(history["accuracy"].loc[8, 2], 0.2 + 0.02, places=6)

    def test_scores_of_samples(self):
        run = hanse.read(self.make("run"))
        with self.assertRaisesRegex(hanse.Refused, "evaluate.scores=true"):
            run.interval("auroc")
        self.write("run/scores.csv", "client,row,fold,label,score\n0,3,test,0,0.25\n0,1,test,1,0.5\n"
                   "1,0,test,0,0.75\n1,2,test,1,0.875\n1,4,train,0,1\n")
        self.assertEqual(list(run.scores["fold"]), ["test"] * 4 + ["train"])
        self.assertEqual(run.interval("auroc")[0], 0.75)  # of the test samples
        self.assertEqual(run.interval("accuracy", client=0), (
            0.5, *hanse.scoring.proportion_interval(1, 2)))  # 0.5 is no class 1
        alike = run.interval("brier", by=["p", "p", "p", "p", "p"])  # one patient: nothing varies
        self.assertEqual(len(set(alike)), 1)
        with self.assertRaisesRegex(hanse.Refused, "no metric 'f1'; hint: auroc"):
            run.interval("f1")

    def test_a_run_that_goes_on(self):
        path = self.make("run", summary=False)
        with open(path / "rounds.csv", "a") as file:
            file.write("41,3,0.0")  # in the middle of a line
        run = hanse.read(path)
        self.assertEqual(len(run.rounds), 40)
        self.assertEqual(run.summary, {})

    def test_compares_runs(self):
        with self.assertWarnsRegex(UserWarning, "runs of unlike length: 20 and 40 rounds"):
            frame = hanse.compare(self.make("one"), self.make("other", rounds=20))
        self.assertEqual(list(frame["rounds"]), [40, 20])
        self.assertEqual(list(frame["accuracy_worst10"]), [0.25, 0.25])
        self.assertEqual(frame.index[1], str(self.folder / "other"))

    def test_alike_runs_are_compared_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = hanse.compare(self.make("one"), self.make("other"))
        self.assertEqual(list(frame["runs"]), [1, 1])

    def test_repeats(self):
        run = hanse.read(self.make_repeats("several", [0.25, 0.5, 0.75]))
        self.assertEqual([one.summary["metrics"]["accuracy_mean"] for one in run.repeats],
                         [0.25, 0.5, 0.75])
        self.assertEqual(hanse.read(run.repeats[0].path).repeats, [])
        table = run.evaluations
        self.assertEqual(list(table.columns[:2]), ["repeat", "round"])
        self.assertEqual(len(table), 3 * 11)
        self.assertEqual(list(table.groupby("round")["accuracy_mean"].mean()),
                         [0.5 * i for i in range(11)])
        self.assertEqual(sorted(set(run.clients["repeat"])), [1, 2, 3])
        with self.assertRaisesRegex(FileNotFoundError, "3 repeats; hint: .repeats.0..state_dict"):
            run.state_dict()
        frame = hanse.compare(run)
        self.assertEqual(frame.loc[str(run.path), ["runs", "accuracy_mean", "accuracy_mean_std"]]
                         .tolist(), [3, 0.5, 0.25])
        self.assertEqual((frame["rounds"].item(), frame["seconds"].item()), (40, 12.5))
        self.assertIsNone(frame["model_digest"].item())

    def test_sweeps_and_rounds_to_a_target(self):
        """A mean of some runs says of how many; in the median the others are infinitely late."""
        for case, targets in (("lr=1", [30, 53, None, None, None]), ("lr=2", [None, 7, 9])):
            self.make_repeats(f"sweep/{case}", [0.5] * len(targets), "seed-",
                              "target = accuracy_mean>=0.4\n")
            for seed, target in enumerate(targets, 1):
                path = self.folder / f"sweep/{case}/seed-{seed}/summary.json"
                summary = json.loads(path.read_text())
                if target:
                    summary["metrics"]["target_round"] = target
                path.write_text(json.dumps(summary))
        runs = hanse.read_several(self.folder / "sweep")
        self.assertEqual([(name, len(found)) for name, found in runs.items()],
                         [("lr=1", 5), ("lr=2", 3)])
        with self.assertWarnsRegex(UserWarning, "unlike data"):
            frame = hanse.compare(self.folder / "sweep")
        columns = ["runs", "target_round", "target_round_n", "target_round_median"]
        self.assertEqual(frame[columns].values.tolist(), [[5, 41.5, 2, math.inf], [3, 8, 2, 9]])

    def test_says_what_is_missing(self):
        with self.assertRaisesRegex(FileNotFoundError, "no run directory"):
            hanse.read(self.folder)
        run = hanse.read(self.make("run", summary=False))
        with self.assertRaisesRegex(FileNotFoundError, "no bandit.csv; it has: clients.csv, ev"):
            run.table("bandit.csv")
        with self.assertRaisesRegex(FileNotFoundError, "has not finished"):
            hanse.compare(run.path)

    def test_state_dict(self):
        path = self.make("run")
        tensors = {"fc.weight": numpy.arange(6, dtype="float32").reshape(2, 3),
                   "norm.num_batches_tracked": numpy.array(7, dtype="int64"),
                   "scale": numpy.array(0.5, dtype="float32")}
        with h5py.File(path / "model.h5", "w") as file:
            for name, tensor in tensors.items():
                file[name] = tensor
            file["row"] = numpy.zeros(7, dtype="float32")
            file["node0/w"] = numpy.ones(2, dtype="float32")
        found = hanse.read(path).state_dict()
        self.assertEqual(sorted(found), sorted([*tensors, "node0/w"]))
        for name, tensor in tensors.items():
            self.assertEqual(found[name].dtype, tensor.dtype)
            numpy.testing.assert_array_equal(found[name], tensor)


class ExportModelTest(ScriptTest):
    def exported(self, file, name, *words):
        """The graph and the tensors."""
        from hanse import graph_files
        path = self.folder / file
        result = self.script("export-model", name, str(path), *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"--model.kind=graph --model.path={path}", result.stdout)
        return graph_files.read(path)

    def test_refuses_in_one_line(self):
        for name, said in (("cnn", "takes no samples of the shape [5]"),
                           ("leaky-cnn", "leaky-cnn takes no samples of shape [5]")):
            self.assert_one_line_error(
                self.script("export-model", name, str(self.folder / "m"), "--shape=5"), said)
        self.assert_one_line_error(
            self.script("export-model", "mlp", str(self.folder / "none" / "m")), "cannot write")

    def test_without_torch(self):
        self.write("torch.py", "raise ImportError\n")
        result = self.script("export-model", "mlp", "m", env={"PYTHONPATH": str(self.folder)})
        self.assert_one_line_error(result, "torch is missing", "python3-torch")

    def test_a_fresh_batch_norm(self):
        import torch
        _, tensors = self.exported("cnn", "cnn")
        self.assertEqual(tensors["1.num_batches_tracked"], 0)
        self.assertTrue(torch.equal(tensors["1.running_var"], torch.ones(16)))

    def test_one_convolution(self):
        import torch
        from hanse import graph_files
        x = torch.randn(3, 2, 7, 8)
        for words, relu in (((), False), (("--relu",), True)):
            graph, tensors = self.exported("leaky", "leaky-cnn", "--shape=2,7,8", "--channels=4",
                                           "--classes=5", *words)
            conv, conv_bias, *dense = (tensors[part["name"]] for part in graph["parameters"])
            y = torch.nn.functional.conv2d(x, conv, conv_bias)
            y = torch.nn.functional.max_pool2d(y.clamp(min=0) if relu else y, 2).flatten(1)
            self.assertEqual(dense[0].shape, (128, 4 * 2 * 3))
            for weight, bias in (dense[:2], dense[2:]):
                y = y @ weight.T + bias
                y = torch.where(y > 0, y, 0.1 * y)
            torch.testing.assert_close(graph_files.replay(graph, "evaluation", tensors, x), y)

    def test_the_seed_fixes_the_file(self):
        import torch
        weights = [self.exported(file, "mlp", "--shape=4", f"--seed={seed}")[1]["1.weight"]
                   for file, seed in (("a", 1), ("b", 1), ("c", 2))]
        self.assertTrue(torch.equal(weights[0], weights[1]))
        self.assertFalse(torch.equal(weights[0], weights[2]))


if __name__ == "__main__":
    unittest.main()
