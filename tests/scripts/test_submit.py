"""scripts/submit: the advice of hanse plan as a command of sbatch, with a program and a Slurm that
pretend."""
import json
import os
import sys

from support import SCRIPTS
from test_sweep import MadeRepository

PLAN = {"ranks": 12, "hosts": 3, "tried": [
    {"ranks": 1, "hosts": 1, "run_seconds": 9000.0}, {"ranks": 12, "hosts": 3, "run_seconds": 1000.5},
    {"ranks": 24, "hosts": 6, "run_seconds": 900.0}]}


class SubmitTest(MadeRepository):
    def setUp(self):
        super().setUp()
        self.write("build/hanse", '#!/bin/sh\necho "$@" >>asked\ncat plan.json\n').chmod(0o755)
        self.write("bin/sbatch", '#!/bin/sh\necho "$@" >submitted\necho Submitted batch job 7\n')
        self.write("bin/sinfo", '#!/bin/sh\necho "2 64"\necho "9 4+"\n')
        for name in ("sbatch", "sinfo"):
            (self.folder / "bin" / name).chmod(0o755)
        for name in ("one-node", "several-nodes"):
            self.write(f"jobs/{name}.sbatch", "")
        self.write("plan.json", json.dumps(PLAN))

    def submit(self, *arguments, path=None):
        path = f"{self.folder}/bin:{os.environ['PATH']}" if path is None else path
        return self.script(self.folder / "scripts/submit", "jobs/job.cfg", *arguments, cwd=self.folder,
                           env={**os.environ, "PATH": path})

    def test_the_advice_becomes_a_batch_job(self):
        result = self.submit("--client.lr=0.1", "--", "--partition=long")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("hanse plan, nodes of 4 cores: ranks 12, nodes 3, the run in 1e+03 s",
                      result.stdout)
        self.assertIn("Submitted batch job 7", result.stdout)
        self.assertEqual((self.folder / "asked").read_text(),
                         "plan jobs/job.cfg --client.lr=0.1 --advise --cores=4 --json\n")
        self.assertEqual((self.folder / "submitted").read_text(),
                         "--job-name=job --nodes=3 --ntasks-per-node=4 --time=0-00:34:00 "
                         f"--partition=long {self.folder}/jobs/several-nodes.sbatch jobs/job.cfg "
                         "--client.lr=0.1\n")

    def test_a_dry_run_submits_nothing(self):
        self.write("plan.json", json.dumps({**PLAN, "ranks": 1, "hosts": 1}))
        result = self.submit("--dry-run", "--cores=16", path="/usr/bin:/bin")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("sbatch --job-name=job --nodes=1 --ntasks=1 --time=0-05:00:00 "
                      f"{self.folder}/jobs/one-node.sbatch jobs/job.cfg\n", result.stdout)
        self.assertFalse((self.folder / "submitted").exists())

    def test_nodes_that_are_named_need_no_plan(self):
        result = self.submit("--nodes=2", "--ranks=6", "--time=2:00:00", "--dry-run")
        self.assertIn("--nodes=2 --ntasks-per-node=3 --time=2:00:00", result.stdout)
        self.assertIn("--nodes=2 --ntasks-per-node=4 /", self.submit("--nodes=2", "--dry-run").stdout)
        self.assertFalse((self.folder / "asked").exists())

    def test_what_is_wrong_is_one_line(self):
        for arguments, words in ((["--nodes=many"], "a number of nodes, or auto"),
                                 (["--nodes=3", "--ranks=4"], "hint: --ranks=6"),
                                 (["--ranks=4"], "--nodes=auto chooses them"),
                                 (["--run.out=x"], "the batch script chooses it"),
                                 (["--cores=0"], "at least 1"), (["--what"], "unknown option")):
            result = self.submit(*arguments)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), arguments)
            self.assertIn(words, result.stderr)
        os.mkdir(self.folder / "alone")
        os.symlink(sys.executable, self.folder / "alone/python3")
        result = self.submit("--nodes=1", path=f"{self.folder}/alone")
        self.assertEqual((result.returncode, result.stderr), (
            2, "submit: sbatch: No such file or directory; hint: submit on a Slurm login node, or look "
            "with --dry-run\n"))
