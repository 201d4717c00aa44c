"""scripts/gpu-trial with a program that pretends, on a machine without a GPU or with: results are
written stage by stage, and a stage that fails does not stop the others."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import time
import unittest
from unittest import mock

from support import SCRIPTS, ScriptTest

PROGRAM = """#!/bin/sh
[ "$1" = --version ] && echo "hanse 0.1.0" && exit
[ -z "$SEEN" ] || cp "$OUT/trial.json" "$SEEN"
[ -z "$SLEEP" ] || exec sleep "$SLEEP"
echo "$@" >>"$LOG"
for word; do case $word in --run.out=*) out=${word#--run.out=} ;; esac; done
mkdir -p "$out" && echo '{"model_digest": "'${DIGEST-00ff}'", "seconds_per_round_median": 0.5}' >"$out/summary.json"
exit ${STATUS-3}
"""
# One whose bits follow from the precision, and whose loss is near that of float32.
NARROW = """#!/bin/sh
echo "$@" >>"$LOG"
digest=00 loss=2.0
for word; do case $word in
  --run.out=*) out=${word#--run.out=} ;;
  --model.precision=float32) ;;
  --model.precision=*) digest=${DIGEST-ff} loss=${LOSS-2.01} ;;
esac; done
[ -z "$UNSTABLE" ] || digest=$$
mkdir -p "$out" && printf '{"model_digest": "%s", "seconds_per_round_median": 0.5,
  "product_kernels": "AMX", "metrics": {"train_loss_mean": %s}}' "$digest" "$loss" >"$out/summary.json"
"""
# One that has a kind of each family, whose loss depends on the device as LOSS says; of the kinds named
# in REFUSED a GPU has none.
KINDS = """#!/bin/sh
if [ "$1" = list ]; then
  for family in samplers aggregators attacks optimizers steps schedules partitions clocks asynchrony \
    updates privacy models online; do
    printf '%s (%s.kind)\n  one-%s   words\n' $family $family $family
  done
  exit
fi
loss=2.0
for word; do case $word in
  --run.out=*) out=${word#--run.out=} ;;
  --run.device=cuda) loss=${LOSS-2.001} device=cuda ;;
esac; done
case $device$* in cuda*$REFUSED*) echo "error: no; hint: run.device = cpu"; exit 2 ;; esac
mkdir -p "$out" && echo '{"metrics": {"loss_mean": '$loss'}}' >"$out/summary.json"
"""
# A program of GoogleTest's, of which one test fails and the next ends the program.
FAILING = """#!/bin/sh
echo '[ RUN      ] Sum.Adds'
echo 'sum.cpp:7: Failure'
echo 'Expected equality'
echo '[  FAILED  ] Sum.Adds (1 ms)'
echo '[ RUN      ] Sum.Ends'
kill -SEGV $$
"""
PASSING = """#!/bin/sh
touch left-behind
echo '[ RUN      ] Other.Passes'
echo '[       OK ] Other.Passes (1 ms)'
echo '[  PASSED  ] 1 test.'
"""
HAS_GPU = any(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev"))
has_namespaces = subprocess.run(["unshare", "--map-root-user", "--net", "true"],
                                capture_output=True).returncode == 0


def load():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_trial", str(SCRIPTS / "gpu-trial"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_trial", loader))
    with mock.patch("sys.dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class GpuTrialTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.program = self.write_program("build/hanse", PROGRAM)
        self.out = self.folder / "trial"
        self.here = self.folder / "here"
        self.here.mkdir()

    def write_program(self, name, text):
        path = self.write(name, text)
        path.chmod(0o755)
        return path

    def trial(self, *options, launcher=(), **environment):
        """PATH begins with the folder bin of the test."""
        found = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                 "LOG": str(self.folder / "log"), "OUT": str(self.out), **environment}
        return subprocess.run([*launcher, SCRIPTS / "gpu-trial", f"--program={self.program}",
                               f"--out={self.out}", *options], env=found, text=True, timeout=120,
                              cwd=self.here,
                              capture_output=True, stdin=subprocess.DEVNULL)

    def results(self):
        return json.loads((self.out / "trial.json").read_text())

    def states(self):
        return {name: one["state"] for name, one in self.results().items()}

    def with_a_gpu(self, name, gpus=1):
        """What a stage finds where the machine has so many GPUs, and the module."""
        module = load()
        self.out.mkdir(exist_ok=True)
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        options = argparse.Namespace(program=self.program, out=self.out, seconds=60,
                                     seconds_in_all=None, rehearse=False)
        trial = module.Trial(options, scratch)
        trial.gpus = gpus
        bin_folder = f"{self.folder / 'bin'}:/usr/bin:/bin"
        with mock.patch.dict(os.environ, PATH=bin_folder, LOG=str(self.folder / "log")):
            return module.carry_out(trial, name), module

    def test_kinds_on_a_gpu_and_on_cpus(self):
        self.program = self.write_program("build/hanse", KINDS)
        with mock.patch.dict(os.environ, REFUSED="one-steps"):
            result, module = self.with_a_gpu("kinds")
        self.assertEqual(result["state"], "done", result)
        self.assertEqual(list(result["found"]["refused"]), ["steps.kind = one-steps"])
        self.assertEqual(result["found"]["same"], 12 + len(module.gpu_cases.ROWS))
        with mock.patch.dict(os.environ, REFUSED="nobody", LOSS="2.1"):
            result, _ = self.with_a_gpu("kinds")
        self.assertEqual(result["state"], "failed")
        self.assertIn("one-samplers", result["found"])
        self.assertEqual(result["measured"]["same"], 0)

    def test_several_gpus_have_the_bits_of_one(self):
        self.write_program("build/lib/mpirun", '#!/bin/sh\nshift\nRANKS=$1; shift\n'
                           'export DIGEST=${DIGEST:-$RANKS}\nexec "$@"\n')
        self.assertIn("one GPU", self.with_a_gpu("several")[0]["found"])
        with mock.patch.dict(os.environ, STATUS="0", DIGEST="aa"):
            result, _ = self.with_a_gpu("several", gpus=4)
        self.assertEqual(result["found"]["4 GPUs"], {"digest": "aa", "ms": 500})
        with mock.patch.dict(os.environ, STATUS="0"):
            result, _ = self.with_a_gpu("several", gpus=4)
        self.assertIn("other bits", result["found"])

    def test_a_failed_stage_does_not_stop_the_others(self):
        result = self.trial("--rehearse", "--only", "environment", "speed", "tests")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(self.states(),
                         {"environment": "done", "speed": "failed", "tests": "skipped"})
        for bench in ("lr", "mlp"):  # each alone
            self.assertIn(f"{bench}, cpu", self.results()["speed"]["found"])
        self.assertIn("status 3", self.results()["speed"]["found"])
        page = (self.out / "trial.md").read_text()
        self.assertIn("| speed | failed |", page)
        self.assertIn("hanse 0.1.0", page)

    @unittest.skipIf(HAS_GPU, "a machine with a GPU")
    def test_without_a_gpu_stages_say_so(self):
        result = self.trial("--only", "smoke", "speed", "precision")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({one["found"] for one in self.results().values()}, {"no GPU"})

    @unittest.skipIf(HAS_GPU, "a machine with a GPU")
    def test_a_gpu_that_has_no_device_file_is_an_error(self):
        self.write_program("bin/nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-7)'\n")
        result = self.trial()
        self.assertEqual(result.returncode, 2)
        for words in ("nvidia-smi lists GPU 0: NVIDIA H100", "/dev has no nvidia0", "hint"):
            self.assertIn(words, result.stderr)
        self.assertFalse(self.out.exists())
        self.assertEqual(self.trial("--rehearse", "--only", "environment").returncode, 0)

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

    def test_results_are_there_after_each_stage_and_nothing_else(self):
        seen = self.folder / "seen.json"
        self.trial("--rehearse", "--only", "environment", "smoke", SEEN=str(seen))
        self.assertEqual(list(json.loads(seen.read_text())), ["environment"])
        self.assertEqual(sorted(os.listdir(self.out)), ["failures.log", "trial.json", "trial.md"])

    def test_stages_end_within_their_time_and_that_of_all(self):
        start = time.monotonic()
        result = self.trial("--rehearse", "--seconds=2", "--seconds-in-all=11", "--only", "precision",
                            "smoke", "speed", SLEEP="60")
        self.assertLess(time.monotonic() - start, 11)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.states(),
                         {"precision": "failed", "smoke": "skipped", "speed": "skipped"})
        self.assertIn("longer than the stage may take", self.results()["precision"]["found"])
        self.assertEqual(self.results()["smoke"]["found"], "no time is left")

    def test_all_tests_run_and_what_fails_is_named(self):
        self.write_program("build/tests/model/test_device_sum", FAILING)
        self.write_program("build/tests/client/test_cohort", PASSING)
        self.write_program("build/tests/protocol/test_cohort_rounds", PASSING)
        self.trial("--rehearse", "--only", "tests")
        one = self.results()["tests"]
        self.assertEqual(one["state"], "failed")
        self.assertIn("test_device_sum: Sum.Adds, Sum.Ends", one["found"])
        self.assertNotIn("test_cohort", one["found"])
        failing = one["measured"]["test_device_sum"]
        self.assertEqual(failing["ends"], "ended by SIGSEGV")
        self.assertIn("Expected equality", failing["first words"][0])
        for name in ("test_cohort", "test_cohort_rounds"):
            self.assertEqual(one["measured"][name]["tests"], "1")
        self.assertIn("sum.cpp:7", (self.out / "failures.log").read_text())
        self.assertEqual(os.listdir(self.here), [])  # whatever a test leaves behind

    def test_smoke_compares_the_bits(self):
        """Of both models, with graphs, without, and on two ranks; a rehearsal takes the CPU."""
        self.write_program("build/lib/mpirun", '#!/bin/sh\necho "$2 ranks" >>"$LOG"\nshift 2\nexec "$@"\n')
        self.trial("--rehearse", "--only", "smoke", STATUS="0")
        self.assertEqual(self.states(), {"smoke": "done"})
        log = (self.folder / "log").read_text()
        self.assertEqual([log.count(word) for word in ("--run.device-graphs=off", "2 ranks", "run ")],
                         [2, 2, 6])
        self.assertNotIn("cuda", log)
        self.write_program("build/lib/mpirun", '#!/bin/sh\nshift 2\nDIGEST=01 exec "$@"\n')
        self.trial("--rehearse", "--only", "smoke", STATUS="0")
        self.assertIn("change bits: {'mlp': {", self.results()["smoke"]["found"])

    def test_precisions_beside_float32(self):
        self.program = self.write_program("build/hanse", NARROW)
        self.trial("--rehearse", "--only", "precision")
        self.assertEqual(self.results()["precision"]["found"],
                         {"mlp, bfloat16": {"ms a round": 500.0, "in float32": 500.0, "loss": 2.01,
                                            "loss in float32": 2.0, "by": "AMX"}})
        self.assertNotIn("tf32", (self.folder / "log").read_text())
        for changes, words in (({"DIGEST": "00"}, "the bits of float32"),
                               ({"UNSTABLE": "1"}, "other bits in a second run"),
                               ({"LOSS": "2.2"}, "a loss of 2.2, in float32 2.0"),
                               ({"LOSS": "NaN"}, "a loss of nan")):
            self.trial("--rehearse", "--only", "precision", **changes)
            self.assertEqual(self.states()["precision"], "failed")
            self.assertIn(words, self.results()["precision"]["found"])

    def test_precisions_of_a_gpu(self):
        self.program = self.write_program("build/hanse", NARROW)
        self.write_program("build/hanse-bench-device", '#!/bin/sh\necho "{\\"$*\\": {\\"by hand\\": 1}}"\n')
        result, _ = self.with_a_gpu("precision")
        self.assertEqual(result["state"], "done", result)
        names = [f"{name}, {other}" for name in ("mlp", "cifar", "lstm") for other in ("bfloat16", "tf32")]
        self.assertEqual(sorted(result["found"]), sorted(names + ["a step, bfloat16", "a step, tf32"]))
        self.assertEqual(result["found"]["a step, tf32"], 3 * [{"by hand": 1}])

    def test_the_program_is_named_where_nvidia_smi_fails(self):
        self.write_program("bin/nvidia-smi", "#!/bin/sh\necho 'Field \"mig.mode\" is not valid'\nexit 2\n")
        self.trial("--only", "environment")
        found = self.results()["environment"]
        self.assertEqual(found["state"], "done")
        self.assertEqual(found["found"]["gpus"], ['Field "mig.mode" is not valid'])
        self.assertIn("hanse 0.1.0", found["found"]["hanse"][0])

    @unittest.skipUnless(has_namespaces, "no namespaces")
    def test_the_loopback_is_brought_up(self):
        result = self.trial("--only", "environment",
                            launcher=("unshare", "--map-root-user", "--net"))
        self.assertIn("lo: was down, brought up", result.stdout)
        self.assertEqual(self.results()["environment"]["found"]["lo"], "was down, brought up")

    def test_a_loopback_that_stays_down_is_told(self):
        module = load()
        with mock.patch("fcntl.ioctl", side_effect=PermissionError(1, "Operation not permitted")):
            said = module.raise_loopback()
        self.assertIn("Operation not permitted; no mpirun will start; hint: as root", said)


if __name__ == "__main__":
    unittest.main()
