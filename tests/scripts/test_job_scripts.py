"""The job scripts of Slurm and of other schedulers, with a scheduler and a program of the test's."""
import os
import subprocess
import unittest

from support import SCRIPTS, ScriptTest

JOBS = SCRIPTS.parent / "jobs"


class JobScripts(ScriptTest):
    def setUp(self):
        super().setUp()
        self.write("build/hanse", "#!/bin/sh\n").chmod(0o755)
        for name, text in {"srun": 'echo "srun $*" >>said; exit "$STATUS"',
                           "scontrol": 'echo "scontrol $*" >>said',
                           "mpirun": 'echo "mpirun $*" >>said; exit "$STATUS"',
                           "qstat": 'echo "    Resource_List.walltime = 01:02:03"',
                           "qsub": 'echo "qsub $*" >>said'}.items():
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)

    def said(self, script, *arguments, status, **environment):
        """What was started and queued by a job whose run ends with the status."""
        self.write("said", "")
        result = subprocess.run(
            ["bash", JOBS / script, *arguments], cwd=self.folder, text=True, timeout=60,
            capture_output=True, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                 "STATUS": str(status), **environment})
        self.assertEqual(result.returncode, status, result.stderr)
        return (self.folder / "said").read_text().splitlines()

    def test_pbs(self):
        job = {"PBS_O_WORKDIR": str(self.folder), "PBS_JOBID": "17.head", "PBS_NODEFILE": "nodes",
               "JOB": "jobs/a.cfg", "OPTIONS": "--run.seed=2 --client.lr=0.1"}
        begun, queued = self.said("other-schedulers/pbs.sh", status=75, **job)
        self.assertEqual(begun, "mpirun --hostfile nodes build/hanse run jobs/a.cfg "
                         "--run.out=runs/a-17 --run.overwrite=true --run.seed=2 --client.lr=0.1 "
                         "--run.max-seconds=3603")
        own = "jobs/other-schedulers/pbs.sh"
        self.assertEqual(queued, f"qsub -v JOB=jobs/a.cfg,RUN=runs/a-17,SCRIPT={own},PATH "
                         f"-l walltime=3723 {own}")
        self.assertTrue(self.said("other-schedulers/pbs.sh", status=75, SCRIPT="/opt/pbs.sh",
                                  **job)[-1].endswith(" /opt/pbs.sh"))
        self.write("runs/a-17/checkpoints/round-000002.h5", "")
        self.assertEqual(self.said("other-schedulers/pbs.sh", status=0, RUN="runs/a-17", **{**job, "PBS_JOBID": "18"}),
                         ["mpirun --hostfile nodes build/hanse resume runs/a-17 "
                          "--run.max-seconds=3603"])

    def test_lsf(self):
        self.assertEqual(self.said("other-schedulers/lsf.sh", "jobs/a.cfg", "--run.seed=2", status=75, LSB_JOBID="5",
                                   LSB_DJOB_NUMPROC="3"),
                         ["mpirun -n 3 build/hanse run jobs/a.cfg --run.out=runs/a-5 "
                          "--run.overwrite=true --run.seed=2"])
        self.write("runs/a-5/checkpoints/round-000002.h5", "")
        self.assertEqual(self.said("other-schedulers/lsf.sh", "jobs/a.cfg", status=0, LSB_JOBID="5"),
                         ["mpirun -n 8 build/hanse resume runs/a-5"])

    def test_slurm(self):
        slurm = {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "3"}
        run = "build/hanse run jobs/a.cfg --run.out=runs/a-9 --run.overwrite=true"
        srun = "srun --mpi=pmix --kill-on-bad-exit=1"
        for script, begun in (("one-node", f"mpirun -n 3 {run}"), ("several-nodes", f"{srun} {run}"),
                              ("gpu-nodes", f"{srun} --gpu-bind=none {run} --run.device=cuda")):
            with self.subTest(script=script):
                said = self.said(f"{script}.sbatch", "jobs/a.cfg", "--run.seed=2", status=0, **slurm)
                self.assertEqual(said, [f"{begun} --run.seed=2"])
        self.assertEqual(self.said("several-nodes.sbatch", "jobs/a.cfg", status=75, **slurm)[-1],
                         "scontrol requeue 9")

    def test_an_installation(self):
        """Without a build here the program of PATH; without either one line, and nothing runs."""
        (self.folder / "build/hanse").unlink()
        known = {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "3", "LSB_JOBID": "5", "PBS_JOBID": "17.head",
                 "PBS_O_WORKDIR": str(self.folder), "PBS_NODEFILE": "nodes", "JOB": "a.cfg"}
        scripts = ("one-node.sbatch", "several-nodes.sbatch", "gpu-nodes.sbatch",
                   "other-schedulers/lsf.sh", "other-schedulers/pbs.sh")
        for script in scripts:
            with self.subTest(script=script, program="none"):
                self.assertEqual(self.said(script, "a.cfg", status=2, **known), [])
        program = self.write("bin/hanse", "#!/bin/sh\n")
        program.chmod(0o755)
        for script in scripts:
            with self.subTest(script=script):
                self.assertIn(f" {program} run a.cfg ", self.said(script, "a.cfg", status=0, **known)[0])
                self.assertIn(" own/hanse run ", self.said(script, "a.cfg", status=0,
                                                           HANSE="own/hanse", **known)[0])


if __name__ == "__main__":
    unittest.main()
