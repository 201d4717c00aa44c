"""The job scripts of other schedulers, with a scheduler and a program of the test's."""
import os
import subprocess
import unittest

from support import SCRIPTS, ScriptTest

FOLDER = SCRIPTS.parent / "jobs" / "other-schedulers"


class JobScripts(ScriptTest):
    def setUp(self):
        super().setUp()
        for name, text in {"mpirun": 'echo "mpirun $*" >>said; exit "$STATUS"',
                           "qstat": 'echo "    Resource_List.walltime = 01:02:03"',
                           "qsub": 'echo "qsub $*" >>said'}.items():
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)

    def said(self, script, *arguments, status, **environment):
        """What was started and queued by a job whose run ends with the status."""
        self.write("said", "")
        result = subprocess.run(
            ["bash", FOLDER / script, *arguments], cwd=self.folder, text=True, timeout=60,
            capture_output=True, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                 "STATUS": str(status), **environment})
        self.assertEqual(result.returncode, status, result.stderr)
        return (self.folder / "said").read_text().splitlines()

    def test_pbs(self):
        job = {"PBS_O_WORKDIR": str(self.folder), "PBS_JOBID": "17.head", "PBS_NODEFILE": "nodes",
               "JOB": "jobs/a.cfg", "OPTIONS": "--run.seed=2 --client.lr=0.1"}
        begun, queued = self.said("pbs.sh", status=75, **job)
        self.assertEqual(begun, "mpirun --hostfile nodes build/hanse run jobs/a.cfg "
                         "--run.out=runs/a-17 --run.overwrite=true --run.seed=2 --client.lr=0.1 "
                         "--run.max-seconds=3603")
        self.assertEqual(queued, "qsub -v JOB=jobs/a.cfg,RUN=runs/a-17 -l walltime=3723 "
                         "jobs/other-schedulers/pbs.sh")
        self.write("runs/a-17/checkpoints/round-000002.h5", "")
        self.assertEqual(self.said("pbs.sh", status=0, RUN="runs/a-17", **{**job, "PBS_JOBID": "18"}),
                         ["mpirun --hostfile nodes build/hanse resume runs/a-17 "
                          "--run.max-seconds=3603"])

    def test_lsf(self):
        self.assertEqual(self.said("lsf.sh", "jobs/a.cfg", "--run.seed=2", status=75, LSB_JOBID="5",
                                   LSB_DJOB_NUMPROC="3"),
                         ["mpirun -n 3 build/hanse run jobs/a.cfg --run.out=runs/a-5 "
                          "--run.overwrite=true --run.seed=2"])
        self.write("runs/a-5/checkpoints/round-000002.h5", "")
        self.assertEqual(self.said("lsf.sh", "jobs/a.cfg", status=0, LSB_JOBID="5"),
                         ["mpirun -n 8 build/hanse resume runs/a-5"])


if __name__ == "__main__":
    unittest.main()
