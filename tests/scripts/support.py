"""Made-up run directories and calls of the scripts, shared by the tests of scripts/."""
import functools
import json
import os
import pathlib
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import unittest
import warnings

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
ROUNDS = "round,clients,seconds,seconds_train,seconds_comm,seconds_wait,bytes_sent,loss\n"
EVALUATIONS = ("round,split,loss_mean,loss_weighted,train_loss_mean,accuracy_mean,accuracy_worst10,"
               "accuracy_best10\n")


@functools.cache
def load(script):
    """Takes the packages of a Python script into this process."""
    sys.path.insert(0, str(SCRIPTS))
    runpy.run_path(script, run_name="loaded")


def become(command, out, err):
    """Goes on as a script, in a child: its status, once what it prints is in the files."""
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
        os.dup2(file, number)
    for kind in (DeprecationWarning, ImportWarning, PendingDeprecationWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)  # as in a start; unittest tells of them
    signal.alarm(120)
    sys.argv = command
    try:
        runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # as Python ends a script
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


class ScriptTest(unittest.TestCase):
    """A test with a scratch folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hanse-scripts-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, name, *arguments, **options):
        """Starts a script, as users do."""
        command = [SCRIPTS / name, *arguments]
        return subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=120, **options)

    def call(self, name, *arguments):
        """As script(), of a Python script in a copy of this process, which has its packages and
        starts fifty times as fast. Hashes are those of this process."""
        command = [str(word) for word in (SCRIPTS / name, *arguments)]
        load(command[0])
        sys.stdout.flush()
        sys.stderr.flush()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if child == 0:
                os._exit(become(command, out, err))
            _, status = os.waitpid(child, 0)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status),
                                               out.read(), err.read())

    def give_mpirun(self, folder):
        """The launcher of ranks that a build puts beside its program, here that of this checkout."""
        (self.folder / folder / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(SCRIPTS.parent / "build/lib/mpirun", self.folder / folder / "lib")

    def add_metrics(self, run):
        """Metrics that a job asks for, with their spread; and those of two classes."""
        table = (run / "evaluations.csv").read_text().splitlines()
        head = f"{table[0]},f1,f1_worst,f1_best,common_accuracy"
        lines = [f"{line},0.5,0.25,0.75,0.625" for line in table[1:]]
        self.write(run / "evaluations.csv", "\n".join([head, *lines]) + "\n")
        self.write(run / "classes.csv", "round,label,clients,samples,accuracy\n"
                   "4,0,2,8,0.5\n4,1,2,9,0.7\n8,0,2,8,0.6\n8,1,2,9,0.8\n")

    def add_bytes(self, run, compress, bytes_a_round):
        """What a run's clients send, and whether it is compressed."""
        self.write(run / "job.cfg", f"[comm]\ncompress = {compress}\n")
        table = (run / "rounds.csv").read_text().splitlines()
        lines = [f"{line},{bytes_a_round}" for line in table[1:]]
        self.write(run / "rounds.csv", "\n".join([f"{table[0]},bytes_updates", *lines]) + "\n")

    def add_history(self, run):
        """Ten clients at three evaluations, half of which win; one has one evaluation alone."""
        import h5py
        import numpy as np
        accuracy = np.linspace(0, 0.9, 10) + np.outer([0, 1, 2], np.tile([0.01, -0.02], 5))
        accuracy[1:, 0] = np.nan
        with h5py.File(run / "history.h5", "w") as file:
            file["round"] = np.array([0, 4, 8, -1])
            for name, values in (("accuracy", accuracy), ("loss", 1 - accuracy)):
                file[name] = np.vstack([values, np.zeros(10)]).astype("f4")
        self.write(run / "confusion.csv", "label,predicted,samples\n0,0,5\n0,1,3\n1,1,8\n")

    def assert_one_line_error(self, result, *words):
        """Status 2, and one line on stderr with these words; no traceback."""
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def make_run(self, name, rounds=40, summary=True, split="test"):
        """A run directory as the program writes it: eight clients, and two held out of training."""
        lines = [f"{i},3,0.02,0.012,{0.001 * i},0.002,100,{2 / i}\n" for i in range(1, rounds + 1)]
        self.write(f"{name}/rounds.csv", ROUNDS + "".join(lines))
        lines = [f"{i},{split},{2 / (i + 1)},{2 / (i + 1)},{1 / (i + 1)},{i / 100},{i / 200},{i / 90}\n"
                 for i in range(0, rounds + 1, 4)]
        self.write(f"{name}/evaluations.csv", EVALUATIONS + "".join(lines))
        lines = [f'{i},"site, {i}",{split},{i // 8},{5 * 2 ** i},{1 / (i + 1)},{i / 10}\n'
                 for i in range(10)]
        self.write(f"{name}/clients.csv",
                   "client,name,split,held_out,samples,loss,accuracy\n" + "".join(lines))
        if summary:
            self.write(f"{name}/summary.json", json.dumps(make_summary(name, rounds, split)))
        return self.folder / name


    def make_repeats(self, name, numbers, folder="repeats/", job=""):
        """A run of each number's accuracy_mean, with data of its own, in NAME/FOLDER1, ...:
        those of a folder of repeats, or with the folder "seed-" of a case of a sweep."""
        for place, number in enumerate(numbers, 1):
            run = self.make_run(f"{name}/{folder}{place}")
            self.write(run / "job.cfg", f"[run]\nname = made\nseed = {place}\n{job}")
            summary = json.loads((run / "summary.json").read_text())
            summary.update(name="made", data_digest=f"data-{place}", model_digest=f"model-{place}")
            summary["metrics"]["accuracy_mean"] = number
            self.write(run / "summary.json", json.dumps(summary))
            text = (run / "evaluations.csv").read_text().splitlines()
            lines = [",".join([*line.split(",")[:5], str(number * i), *line.split(",")[6:]])
                     for i, line in enumerate(text[1:])]
            self.write(run / "evaluations.csv", "\n".join([text[0], *lines]) + "\n")
        if folder == "repeats/":
            self.write(f"{name}/job.cfg", f"[run]\nname = made\nrepeats = {len(numbers)}\n{job}")
            self.write(f"{name}/summary.json", json.dumps({
                "name": "made", "repeats": len(numbers), "rounds": 40,
                "metrics": {"accuracy_mean": 0.75}}))
        return self.folder / name


def make_summary(name, rounds, split):
    return {"name": name, "split": split, "held_out_split": "test", "rounds": rounds, "ranks": 2, "model_digest": "00ff", "seconds": 12.5,
            "setup_seconds": 0.5, "seconds_per_round_median": 0.25, "bytes_per_round": 1250000,
            "metrics": {"held_out_accuracy_mean": 0.125, "accuracy_mean": 0.5, "accuracy_worst10": 0.25, "loss_mean": 1.5}}
