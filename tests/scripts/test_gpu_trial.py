"""scripts/gpu-trial with a program that pretends, on a machine without a GPU or with: results are
written stage by stage, and a stage that fails does not stop the others."""
import json
import os
import unittest

from support import SCRIPTS, ScriptTest

PROGRAM = """#!/bin/sh
[ "$1" = --version ] && echo "hanse 0.1.0" && exit
exit 3
"""
HAS_GPU = any(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev"))


class GpuTrialTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.program = self.write("build/hanse", PROGRAM)
        self.program.chmod(0o755)

    def trial(self, *options):
        return self.script(SCRIPTS / "gpu-trial", f"--program={self.program}",
                           f"--out={self.folder / 'trial'}", *options)

    def results(self):
        return json.loads((self.folder / "trial" / "trial.json").read_text())

    def test_a_failed_stage_does_not_stop_the_others(self):
        result = self.trial("--only", "environment", "speed", "tests")
        self.assertEqual(result.returncode, 1, result.stderr)
        states = {name: one["state"] for name, one in self.results().items()}
        self.assertEqual(states, {"environment": "done", "speed": "failed", "tests": "skipped"})
        self.assertIn("status 3", self.results()["speed"]["found"])
        page = (self.folder / "trial" / "trial.md").read_text()
        self.assertIn("| speed | failed |", page)
        self.assertIn("hanse 0.1.0", page)

    @unittest.skipIf(HAS_GPU, "a machine with a GPU")
    def test_without_a_gpu_stages_say_so(self):
        result = self.trial("--only", "digests", "nccl", "faults", "threshold", "profile", "memory")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({one["found"] for one in self.results().values()}, {"no GPU"})

    def test_a_rehearsal_takes_the_cpu(self):
        self.trial("--rehearse", "--only", "digests", "profile")
        self.assertIn("device = cpu", (self.folder / "trial" / "linear.cfg").read_text())
        states = {name: one["state"] for name, one in self.results().items()}
        self.assertEqual(states["digests"], "failed")  # the program only pretends
        if not HAS_GPU:
            self.assertEqual(states["profile"], "skipped")

    def test_what_is_done_is_left_out(self):
        self.trial("--only", "environment")
        result = self.trial("--continue", "--only", "environment", "tests")
        self.assertNotIn("environment", result.stdout)
        self.assertEqual(list(self.results()), ["environment", "tests"])

    def test_no_program(self):
        self.program.unlink()
        result = self.trial()
        self.assertEqual(result.returncode, 2)
        self.assertIn("scripts/test-cuda builds it", result.stderr)


if __name__ == "__main__":
    unittest.main()
