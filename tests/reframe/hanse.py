"""Tests that a site can run with ReFrame, say after each upgrade: training on several ranks ends with
the model of one rank, and trains so many clients a second.

  reframe -c tests/reframe/hanse.py -r                        locally, on this machine
  reframe -C SITE.py -c tests/reframe/hanse.py -r -S program=hanse -S modules=hanse \\
      -S launcher= -S least_rate=5000

`program` is the program, by default this checkout's; `launcher` are words that start {ranks} ranks,
by default the mpirun that the build has put beside the program. With `launcher=` ReFrame's own
launcher of the partition starts them, srun for example. `least_rate` are clients a second: measure
them once on the machine when it does nothing else, and take some less.
"""

import json
import os
import pathlib

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = {
    "run.rounds": 100, "run.seed": 11, "data.kind": "random", "data.shape": "1,16,16",
    "data.classes": 10, "federation.clients": 100, "federation.samples": 60,
    "federation.partition": "dirichlet", "federation.alpha": 0.3, "model.kind": "mlp",
    "model.hidden": 64, "client.batch": 10, "client.lr": 0.05, "sampler.per-round": 20,
    "evaluate.every": 0, "checkpoint.every": 0,
}


@rfm.simple_test
class Training(rfm.RunOnlyRegressionTest):
    """The same job alone and on some ranks."""

    ranks = parameter([2, 4])
    program = variable(str, value=str(ROOT / "build" / "hanse"))
    launcher = variable(str, value=str(ROOT / "build" / "lib" / "mpirun") + " -n {ranks}")
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    least_rate = variable(float, value=20.0)

    @run_before("performance")
    def set_reference(self):
        self.reference = {"*": {"clients_per_second": (self.least_rate, 0, None, "1/s")}}

    @run_before("run")
    def choose_command(self):
        words = [f"--{key}={value}" for key, value in JOB.items()]
        self.prerun_cmds = [" ".join([self.program, "run", os.devnull, "--run.out=alone", *words])]
        self.num_tasks = self.ranks
        self.executable = self.program
        self.executable_opts = ["run", os.devnull, "--run.out=together", *words]
        if self.launcher:
            start = self.launcher.format(ranks=self.ranks)
            self.executable = f"{start} {self.program}"
            self.job.launcher = getlauncher("local")()

    def summary(self, run):
        return json.loads((pathlib.Path(self.stagedir) / run / "summary.json").read_text())

    @sanity_function
    def same_model(self):
        alone, together = self.summary("alone"), self.summary("together")
        return sn.all([
            sn.assert_eq(together["ranks"], self.ranks),
            sn.assert_eq(together["model_digest"], alone["model_digest"],
                         "the model depends on the number of ranks: {0} != {1}")])

    @performance_function("1/s")
    def clients_per_second(self):
        return self.summary("together")["accounts"]["clients_per_second"]
