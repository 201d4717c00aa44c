"""scripts/log-to, with a package of the test's in MLflow's place."""
import importlib.util
import json
import os
import pathlib
import subprocess
import unittest

from support import SCRIPTS, ScriptTest

# Writes its calls to the file CALLS, a JSON list each.
FAKE = '''
import json, os, types
def _call(*words):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(words) + "\\n")
def __getattr__(name):
    if name == os.environ.get("BROKEN"):
        raise RuntimeError("the server is away")
    def called(*words, **named):
        _call(name, *words, named)
        return os.environ.get("URI")
    return called
def active_run():
    return types.SimpleNamespace(info=types.SimpleNamespace(run_id="r-1"))
'''

# TensorBoard's three modules in one: an event is written as its step and its values.
EVENTS = '''
import json, os
def EventFileWriter(folder):
    return Events()
class Events:
    def add_event(self, event):
        with open(os.environ["CALLS"], "a") as file:
            file.write(json.dumps(event) + "\\n")
    def close(self):
        pass
def Event(wall_time, step, summary):
    return [step, summary]
class Summary(list):
    def __init__(self, value):
        super().__init__(value)
    Value = staticmethod(lambda tag, simple_value: [tag, simple_value])
'''


# W&B's package: init() returns a run.
WANDB = '''
import json, os
def _call(*words):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(words) + "\\n")
def init(**named):
    _call("init", named)
    return Run()
class Run:
    id, summary = "w-1", {}
    def log(self, numbers, step):
        _call("log", numbers, step)
    def finish(self, exit_code):
        _call("finish", self.summary)
'''


class LogTo(ScriptTest):
    def setUp(self):
        super().setUp()
        self.run_dir = self.folder / "run"
        self.write("run/job.cfg", "# a job\n[run]\nname = trial\nseed = 3\n"
                                  "[model]\nhidden = 20,10\n")
        self.write("mlflow.py", FAKE)

    def evaluated(self, *rounds, torn=""):
        lines = [json.dumps({"round": r, "split": "test", "loss_mean": 1 / r}) for r in rounds]
        self.write("run/metrics.jsonl", "".join(f"{line}\n" for line in lines) + torn)

    def start(self, *arguments, **environment):
        self.calls = self.write("calls", "")
        return self.script("log-to", *arguments,
                           env={**os.environ, "PYTHONPATH": str(self.folder),
                                "CALLS": str(self.calls), **environment})

    def log_to(self, *arguments):
        """The calls of the package."""
        result = self.start(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in self.calls.read_text().splitlines()]

    def test_a_growing_run_is_sent_once(self):
        self.evaluated(2, 4, torn='{"round": 6, "lo')
        calls = self.log_to("mlflow", self.run_dir, "--project", "study")
        self.assertEqual(calls, [
            ["get_tracking_uri", {}], ["set_experiment", "study", {}],
            ["start_run", {"run_id": None, "run_name": "trial"}],
            ["log_params", {"run.name": "trial", "run.seed": "3", "model.hidden": "20,10"}, {}],
            ["log_metrics", {"loss_mean": 0.5}, {"step": 2}],
            ["log_metrics", {"loss_mean": 0.25}, {"step": 4}], ["end_run", "RUNNING", {}]])
        self.assertEqual(len(self.log_to("mlflow", self.run_dir)), 2, "nothing is new")
        self.evaluated(2, 4, 6)
        self.write("run/summary.json", json.dumps(
            {"rounds": 6, "model_digest": "abc", "seconds": 2.5, "metrics": {"loss_mean": 0.125}}))
        calls = self.log_to("mlflow", self.run_dir, "--follow", "--uri", "file:///x")
        self.assertEqual(calls[0], ["set_tracking_uri", "file:///x", {}])
        self.assertEqual(calls[3:], [
            ["start_run", {"run_id": "r-1", "run_name": None}],
            ["log_metrics", {"loss_mean": 1 / 6}, {"step": 6}],
            ["log_metrics", {"final_loss_mean": 0.125, "seconds": 2.5}, {}],
            ["set_tags", {"hanse.model_digest": "abc"}, {}],
            ["log_artifact", str(self.run_dir / "job.cfg"), {}],
            ["log_artifact", str(self.run_dir / "summary.json"), {}], ["end_run", "FINISHED", {}]])
        self.assertEqual(len(self.log_to("mlflow", self.run_dir)), 2, "nothing is new")

    def test_several_runs_are_named_by_what_differs(self):
        for kind in ("uniform", "osmd"):
            self.write(f"{kind}-run/job.cfg", f"[run]\nname = trial\nout = {kind}-run\n"
                                              f"[sampler]\nkind = {kind}\n")
        calls = self.log_to("mlflow", self.folder / "uniform-run", self.folder / "osmd-run")
        self.assertEqual([call[1]["run_name"] for call in calls if call[0] == "start_run"],
                         ["trial: uniform", "trial: osmd"])

    def test_repeats_and_sweeps(self):
        """Each of their runs is a run of the tracker; a group has those that differ by seeds."""
        calls = self.log_to("mlflow", self.make_repeats("several", [0.25, 0.5]))
        self.assertEqual([call[1]["run_name"] for call in calls if call[0] == "start_run"],
                         ["made, seed 1", "made, seed 2"])
        self.assertEqual([call[1] for call in calls if call[:1] == ["set_tags"]][0],
                         {"hanse.group": "several"})
        self.assertFalse((self.folder / "several/log-to.log").exists())
        for case in ("sampler.kind=osmd", "sampler.kind=uniform"):
            self.make_repeats(f"sweep/{case}", [0.5, 0.6], "seed-")
        calls = self.log_to("mlflow", self.folder / "sweep", "--follow")
        self.assertEqual([call[1]["run_name"] for call in calls if call[0] == "start_run"],
                         ["made: osmd, seed 1", "made: osmd, seed 2", "made: uniform, seed 1",
                          "made: uniform, seed 2"])
        self.assertIn(["set_tags", {"hanse.group": "uniform"}, {}], calls)

    def test_wandb_has_groups_too(self):
        self.write("wandb.py", WANDB)
        for case in ("sampler.kind=osmd", "sampler.kind=uniform"):
            for run in self.make_repeats(f"sweep/{case}", [0.5, 0.6], "seed-").glob("seed-*"):
                self.write(run / "metrics.jsonl", '{"round": 4, "accuracy_mean": 0.5}\n')
        calls = self.log_to("wandb", self.folder / "sweep", "--project", "study")
        begun = [call[1] for call in calls if call[0] == "init"]
        self.assertEqual([(one["group"], one["name"]) for one in begun],
                         [(kind, f"made: {kind}, seed {seed}") for kind in ("osmd", "uniform")
                          for seed in (1, 2)])
        self.assertEqual({one["project"] for one in begun}, {"study"})
        self.assertIn(["log", {"accuracy_mean": 0.5}, 4], calls)
        self.assertEqual([call[1]["final_accuracy_mean"] for call in calls if call[0] == "finish"],
                         [0.5, 0.6] * 2)

    def test_event_files_have_the_rounds_too(self):
        """Those until the last evaluation, each once."""
        for name in ("summary.writer.event_file_writer", "compat.proto.event_pb2",
                     "compat.proto.summary_pb2"):
            path = pathlib.Path("tensorboard", *name.split("."))
            self.write(f"{path}.py", EVENTS)
        self.evaluated(2)
        self.write("run/rounds.csv", "round,seconds,loss\n1,0.5,\n2,0.25,3\n3,0.125,2\n")
        round_2 = [["round/seconds", 0.25], ["round/loss", 3.0]]
        self.assertEqual(self.log_to("tensorboard", self.run_dir),
                         [[1, [["round/seconds", 0.5]]], [2, round_2],
                          [2, [["evaluation/loss_mean", 0.5]]]])
        self.evaluated(2, 3)
        calls = self.log_to("tensorboard", self.run_dir)
        self.assertEqual([call[0] for call in calls], [3, 3])
        (self.run_dir / "log-to.log").unlink()
        self.write("run/tensorboard/events.out.tfevents.0001", "")
        self.assert_one_line_error(self.start("tensorboard", self.run_dir), "event files", "hint")

    def test_what_cannot_be_sent(self):
        self.assert_one_line_error(self.start("mlflow", self.folder / "none"), "no run directory")
        self.write("empty/rounds.csv", "round,seconds\n")
        self.assert_one_line_error(self.start("mlflow", self.folder / "empty"), "no job.cfg")
        self.evaluated(2)
        self.assert_one_line_error(self.start("mlflow", self.run_dir, BROKEN="start_run"),
                                   "log-to: mlflow: the server is away")
        self.assertEqual(self.log_to("mlflow", self.run_dir)[2][0], "start_run", "tried again")
        if not importlib.util.find_spec("sqlalchemy"):  # as in an environment of mlflow-skinny
            self.assert_one_line_error(self.start("mlflow", self.run_dir, URI="sqlite:///m.db"),
                                       "mlflow-skinny cannot open sqlite:///m.db", "hint")
        self.write("wandb.py", "raise ImportError('none')\n")
        self.assert_one_line_error(self.start("wandb", self.run_dir), "wandb is not installed",
                                   "pip install wandb")


@unittest.skipUnless(os.environ.get("HANSE_MLFLOW_PYTHON"),
                     "HANSE_MLFLOW_PYTHON names no Python with mlflow or mlflow-skinny")
class RealMlflow(ScriptTest):
    """With MLflow itself: HANSE_MLFLOW_PYTHON=env/bin/python. Runs are kept in a folder, which
    mlflow-skinny can write to, too."""

    FOUND = """import json, mlflow, sys
mlflow.set_tracking_uri(sys.argv[1])
client = mlflow.MlflowClient()
runs = client.search_runs([client.get_experiment_by_name("study").experiment_id])
print(json.dumps(sorted([run.info.run_name, run.info.status, run.data.tags.get("hanse.group"),
    run.data.metrics.get("final_accuracy_mean"), len(run.data.params),
    [[one.step, one.value] for one in client.get_metric_history(run.info.run_id, "accuracy_mean")],
    len(client.list_artifacts(run.info.run_id))] for run in runs)))"""

    def call(self, *words):
        result = subprocess.run([os.environ["HANSE_MLFLOW_PYTHON"], *map(str, words)], text=True,
                                capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
                                env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def send(self):
        """What MLflow has then."""
        uri = f"file://{self.folder}/mlruns"
        self.call(SCRIPTS / "log-to", "mlflow", self.folder / "sweep", "--uri", uri, "--project",
                  "study")
        return json.loads(self.call("-c", self.FOUND, uri).splitlines()[-1])

    def test_a_study_that_grows(self):
        options = "[model]\n" + "".join(f"key-{i} = {i}\n" for i in range(250))
        for case in ("sampler.kind=osmd", "sampler.kind=uniform"):
            for run in self.make_repeats(f"sweep/{case}", [0.5, 0.75], "seed-",
                                         job=options).glob("seed-*"):
                self.write(run / "metrics.jsonl", '{"round": 4, "accuracy_mean": 0.25}\n')
        growing = self.folder / "sweep/sampler.kind=osmd/seed-2"
        summary = (growing / "summary.json").read_text()
        (growing / "summary.json").unlink()
        found = self.send()
        self.assertEqual([one[0] for one in found],
                         [f"made: {kind}, seed {seed}" for kind in ("osmd", "uniform")
                          for seed in (1, 2)])
        self.assertEqual(found[0][1:], ["FINISHED", "osmd", 0.5, 252, [[4, 0.25]], 4])
        self.assertEqual(found[1][1:], ["RUNNING", "osmd", None, 252, [[4, 0.25]], 0])
        with open(growing / "metrics.jsonl", "a") as file:
            file.write('{"round": 8, "accuracy_mean": 0.75}\n')
        self.write(growing / "summary.json", summary)
        found = self.send()
        self.assertEqual(len(found), 4)
        self.assertEqual(found[1][1:], ["FINISHED", "osmd", 0.75, 252, [[4, 0.25], [8, 0.75]], 4])


if __name__ == "__main__":
    unittest.main()
