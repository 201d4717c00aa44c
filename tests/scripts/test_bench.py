"""scripts/bench with programs that pretend: the table holds the ratios they imply."""
import json
import shutil
import sys
import unittest

import h5py
import numpy as np

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared.module_process import AnsweringProcess  # noqa: E402

HANSE = """#!/bin/sh
for option; do
  case $option in --run.out=*) out=${option#--run.out=} ;; esac
done
mkdir -p "$out"
echo '{"seconds_per_round_median": 0.011, "setup_seconds": 0.25}' > "$out/summary.json"
"""
# Rounds of 1 s; a plan of 0.9 s, and of half that on two ranks.
PLANNED = """#!/usr/bin/env bash
ranks=0
for option; do
  case $option in --run.out=*) out=${option#--run.out=} ;; --ranks=*) ranks=${option#--ranks=} ;; esac
done
if [[ $1 == run ]]; then
  printf 'round,seconds,bytes_sent\\n1,0.5,4e6\\n2,1.5,4e6\\n' >"$out/rounds.csv"
  echo '{"peak_memory_bytes": 2.5e8}' >"$out/summary.json"
elif [[ ${OMPI_COMM_WORLD_RANK-0} == 0 ]]; then
  round=0.9
  [[ -z ${OMPI_COMM_WORLD_SIZE-} ]] || round=0.45
  [[ $ranks == 0 ]] || round=0.85
  echo '{"round_seconds": '$round', "train_seconds": 0.8, "down_seconds": 0.01, "up_seconds": 0.03,
         "server_seconds": 0.005, "sent_bytes": 2e6, "peak_bytes": 3e8, "rank_bytes": 2e8,
         "host_bytes": 1.32e10, "hosts": '$(((ranks + 63) / 64))'}'
fi
"""
# Versions of 10 ms alone and of 5.2 ms on two ranks, behind slow first ones; a plan by async.ahead.
BUFFERED = """#!/usr/bin/env bash
seconds=0.01
[[ -z ${OMPI_COMM_WORLD_SIZE-} ]] || seconds=0.0052
for option; do
  case $option in
    --run.out=*) out=${option#--run.out=} ;;
    --async.ahead=*) ahead=${option#*=} ;;
    --ranks=*) ranks=${option#*=} ;;
  esac
done
if [[ $1 == plan ]]; then
  echo '{"busy_share": 0.'$ranks$ahead'}'
elif [[ ${OMPI_COMM_WORLD_RANK-0} == 0 ]]; then
  echo 'round,seconds' >"$out/rounds.csv"
  for round in {1..12}; do
    echo "$round,$([[ $round -lt 3 ]] && echo 9 || echo $seconds)" >>"$out/rounds.csv"
  done
fi
"""
# Rounds of 10 steps behind a slow first one: 2 ms a step of a graph. The LibTorch of 2.15
# takes a tenth.
TRAINED = """#!/usr/bin/env bash
round=0.02
for option; do
  case $option in
    --run.out=*) out=${option#--run.out=} ;;
  esac
done
[[ $HANSE_TORCH == system ]] || round=0.002
mkdir -p "$out"
printf 'round,seconds_train\\n1,9\\n2,%s\\n3,%s\\n4,%s\\n' $round $round $round >"$out/rounds.csv"
"""
# Rounds of 20 ms by 2 participants with 5 steps each, of 8 ms in bfloat16 and with twice the memory.
NARROW = """#!/usr/bin/env bash
[[ $1 != plan ]] || exec echo '{"participants": 2, "steps": 5, "parameters": 1e6}'
for option; do
  case $option in
    --run.out=*) out=${option#--run.out=} ;;
    --model.precision=bfloat16) narrow=1 ;;
  esac
done
if [[ -n ${narrow-} ]]; then
  summary='{"seconds_per_round_median": 0.008, "peak_memory_bytes": 2e8, "product_kernels": "KERNELS",'
else
  summary='{"seconds_per_round_median": 0.02, "peak_memory_bytes": 1e8,'
fi
echo "$summary"' "accounts": {"gflops": 100}}' >"$out/summary.json"
"""
# Steps of 1.5 ms by autocast and of 4 ms without.
TORCH = """import json, sys
ms = 1.5 if "--autocast" in sys.argv else 4
print(json.dumps({"torch": "2.15.0", **{name: ms for name in sys.argv[1:] if name[0] != "-"}}))
"""
STEPS = """import json, os, sys
version = os.environ.get("VERSION", "1.13.0a0")
print(json.dumps({"torch": version, "names": ["lenet", "bad", "timm/x"]}), flush=True)
for line in sys.stdin:
    answer = ({"steps": 10, "keys": {"model.kind": "graph"}}
              if line.strip() != "bad" else {"failed": "no such module"})
    print(json.dumps(0.0003 if line.strip() == "step" else answer), flush=True)
"""
# What scripts/shared/peers.py asks of the program: files that lie beside it.
ASKED = """#!/usr/bin/env bash
here=$(dirname "$0")
[[ $1 != convert ]] || exec cp "$here/data.h5" "$3"
for option; do
  case $option in --run.out=*) out=${option#--run.out=} ;; esac
done
mkdir -p "$out"
cp "$here/model.h5" "$here/job.cfg" "$out"
"""
# Has jax, and torch without pfl; rounds of half a second; what vmap computes is another thing.
PEER = """import json, sys
if sys.argv[1] == "-c":
    print("jax torch")
else:
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        apart = 1e-3 if sys.argv[3] == "vmap" else 1e-6
        print(json.dumps(apart if line.strip() == "apart" else 0.5), flush=True)
"""
BARE = """#!/bin/sh
echo '{"rounds": 1, "seconds_per_round_median": 0.010}'
"""


class BenchTest(ScriptTest):
    def setUp(self):
        super().setUp()
        (self.folder / "scripts").mkdir()
        shutil.copy(SCRIPTS / "bench", self.folder / "scripts")
        for package in ("shared", "python"):
            shutil.copytree(SCRIPTS / package, self.folder / "scripts" / package)
        self.make_program("hanse", HANSE)
        self.make_program("hanse-bare-loop", BARE)
        self.give_mpirun("build")

    def make_program(self, name, text):
        self.write(f"build/{name}", text).chmod(0o755)

    def bench(self, *arguments):
        return self.script(self.folder / "scripts" / "bench", *arguments)

    def rows(self, *arguments):
        result = self.bench(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line}

    def test_ratios_and_limits(self):
        rows = self.rows("--only", "lr", "cifar", "--pairs", "2")
        self.assertEqual(rows["lr"], ["11", "10", "1.100", "1.100-1.100", "1.40", "ok"])
        self.assertEqual(rows["cifar"], ["11", "10", "1.100", "1.100-1.100", "1.06", "over"])
        self.assertNotIn("mlp", rows)

    def test_versions_on_two_ranks_and_how_busy_ranks_are(self):
        self.make_program("hanse", BUFFERED)
        result = self.bench("--only", "ahead", "--pairs", "1", "--quick")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.split() for line in result.stdout.splitlines()]
        for case, limit in [("100 10 0", ""), ("100 10 1", "0.95 ok"), ("5 5 1", "")]:
            self.assertIn(f"{case} 192.3 200 0.962 0.962-0.962 {limit}".split(), lines)
        self.assertIn("100 10 0 0.20 0.40 0.80".split(), lines)
        self.assertIn("100 10 1 0.21 0.41 0.81".split(), lines)

    def test_online_is_faster_than_the_loops(self):
        self.make_program("hanse-bench-online", "#!/bin/sh\necho '{\"hanse\": 0.002, "
                          "\"cblas\": 0.0028, \"aten\": 0.016, \"difference\": 1e-8}'\n")
        rows = self.rows("--only", "online", "--pairs", "2")
        self.assertEqual(rows["aten"], ["2", "16", "8.000", "8.000-8.000", "3.00", "ok"])
        self.assertEqual(rows["cblas"], ["2", "2.8", "1.400", "1.400-1.400", "1.50", "over"])

    def test_start(self):
        """Of three jobs in turn, which each have a limit; one client of the images is evaluated."""
        self.make_program("hanse", HANSE + 'echo "$*" >>"$(dirname "$0")/calls"\n')
        rows = self.rows("--only", "start", "--pairs", "2")
        for name, limit in (("lr", "0.20"), ("fashion-mnist", "0.50"), ("heart", "0.10")):
            self.assertEqual(rows[name][:2], ["0.250", "0.250-0.250"])
            self.assertEqual(rows[name][3:], [limit, "ok" if name == "fashion-mnist" else "over"])
        calls = (self.folder / "build/calls").read_text().splitlines()
        jobs = ["jobs/bench-lr.cfg", "jobs/fashion-mnist.cfg", "jobs/heart-aaggff-s.cfg"]
        self.assertEqual([call.split()[1] for call in calls], 2 * jobs)
        self.assertTrue(all("--run.rounds=1" in call for call in calls))
        self.assertEqual(["--evaluate.clients=1" in call for call in calls],
                         2 * [False, True, True])

    def test_builds_what_is_missing(self):
        """And no more: all that is measured takes minutes to build."""
        self.write("scripts/build", "#!/bin/sh\necho \"$*\" >>built\nexit 1\n").chmod(0o755)
        (self.folder / "build/hanse-bare-loop").unlink()
        self.rows("--only", "start", "--pairs", "1")
        for names, built in ((["lr"], "hanse-bare-loop"), (["start", "rules"], "hanse-bench-rules")):
            result = self.script(self.folder / "scripts/bench", "--only", *names, "--pairs", "1",
                                 cwd=self.folder)
            self.assertEqual(result.returncode, 1)
            self.assertEqual((self.folder / "built").read_text(), f"{built}\n")
            (self.folder / "built").unlink()

    def test_bandit(self):
        self.make_program("hanse-bench-pulls", "#!/bin/sh\n" + "echo '" + json.dumps(
            {"statistics": "packed", "dimension": 201, "arms": 50,
             "seconds_per_pull_median": 12e-6}) + "'\n")
        rows = self.rows("--only", "bandit", "--pairs", "1")
        self.assertEqual(rows["packed"], ["201", "50", "12"])
        self.assertEqual(rows["hartmann"][1:], ["1.00", "ok"])
        self.assertEqual(rows["magic"][1:], ["10.00", "ok"])
        self.assertEqual(rows["fed-glb-ucb"][1:], ["10.00", "ok"])

    def test_lstm(self):
        self.make_program("hanse-bench-lstm",
                          "#!/bin/sh\necho '{\"hanse\": 0.03, \"libtorch\": 0.025}'\n")
        rows = self.rows("--only", "lstm", "--pairs", "1")
        self.assertEqual(rows["lstm"], ["30", "25", "1.200", "1.200-1.200", "1.10", "over"])

    def test_models(self):
        """Each PyTorch against the LibTorch of its version; below 1 ms it shall be twice as fast."""
        self.make_program("hanse", TRAINED)
        self.write("tests/bench/module_steps.py", STEPS)
        python = self.write("venv/bin/python",
                            "#!/bin/sh\nVERSION=2.15.0+cpu exec /usr/bin/python3 \"$@\"\n")
        python.chmod(0o755)
        result = self.bench("--only", "models", "--pairs", "2", "--venv", self.folder / "venv")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("bad with 2.15.0: no such module", result.stderr)
        lines = [line.split() for line in result.stdout.splitlines()]
        for line in ("lenet 1.13.0a0 2 0.3 0.150 0.150-0.150 1.00 over",
                     "lenet 2.15.0 0.2 0.3 1.500 1.500-1.500 2.00 over",
                     "timm/x 2.15.0 0.2 0.3 1.500 1.500-1.500 2.00 over"):
            self.assertIn(line.split(), lines)
        rows = self.rows("--only", "models", "--pairs", "1", "--modules", "timm")
        self.assertEqual(rows["timm/x"][0], "1.13.0a0")
        self.assertNotIn("lenet", rows)

    def give_peers(self):
        """A program and a folder of Python for --only xla: three clients of 20, 5 and 11 samples."""
        self.make_program("hanse", ASKED)
        self.write("build/job.cfg", "[model]\nkind = linear\n[client]\nlr = 0.1\nbatch = 10\n"
                                    "epochs = 1\n")
        with h5py.File(self.folder / "build" / "data.h5", "w") as file:
            file["features"] = np.zeros((36, 1, 28, 28), np.uint8)
            file["labels"] = np.zeros(36, np.int32)
            file["offsets"] = [0, 20, 25, 36]
        with h5py.File(self.folder / "build" / "model.h5", "w") as file:
            file["fc1.bias"] = np.zeros(10, np.float32)
        self.write("venv/peer.py", PEER)
        self.write("venv/bin/python", f"#!/bin/sh\nexec /usr/bin/python3 {self.folder}/venv/peer.py "
                                      "\"$@\"\n").chmod(0o755)
        return self.folder / "venv"

    def test_peers(self):
        """Those that compute the same, and a line for each of the others."""
        result = self.bench("--only", "xla", "--quick", "--modules", "lr-100", "mlp", "--venv",
                            self.give_peers())
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.split() for line in result.stdout.splitlines()]
        own = [line for line in lines if line[:1] == ["mlp"]]
        self.assertEqual([line[:5] for line in own], [["mlp", "3", "5", "JAX,", "scan"],
                                                      ["mlp", "3", "5", "PyTorch", own[1][4]]])
        self.assertEqual(own[0][6:8], ["500", "0.5"])
        self.assertEqual(own[0][-2], "1.30")
        speeds = next(line for line in lines if line[:2] == ["mlp:", "3"])
        self.assertEqual(len(speeds), 5 + 3)  # neither pfl nor FedJAX
        self.assertIn("bench: xla: no FedJAX: none of", result.stderr)
        self.assertIn("pip install pfl torch", result.stderr)
        self.assertIn("xla: mlp: vmap: another result than Hanse's by 0.001, not 0.0001",
                      result.stderr)
        self.assertIn("lr-100", [line[0] for line in lines if line])

    def test_peers_without_a_folder(self):
        result = self.bench("--only", "xla")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("bench: xla: no JAX, scan: no folder, --venv names none, has jax; hint: "
                      "FOLDER/bin/pip install jax", result.stderr)

    def test_a_peer_that_takes_too_long_is_ended(self):
        command = ["/usr/bin/python3", "-c", "print(1, flush=True); import time; time.sleep(60)"]
        process = AnsweringProcess(command, limit_s=10)
        process.limit_s = 0.01
        with self.assertRaises(TimeoutError):
            process.ask("1")
        self.assertIsNotNone(process.process.poll())

    def precision(self, kernels, *names):
        self.make_program("hanse", NARROW.replace("KERNELS", kernels))
        self.make_program("hanse-bench-limits", "#!/bin/sh\necho '{\"sgemm\": 200, \"copy\": 40}'\n")
        self.write("tests/bench/torch_steps.py", TORCH)
        result = self.bench("--only", *names, "--pairs", "1", "--torch", "/usr/bin/python3")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [line.split() for line in result.stdout.splitlines()]

    def test_precision(self):
        """2.5 times as fast as float32, and 1.875 times as autocast; the limits of speed are AMX's."""
        lines = self.precision("AMX", "precision")
        for name, wide, autocast in (("mlp", "", "2.00 over"), ("cifar", "2.00 ok", "2.00 over"),
                                     ("lstm", "2.50 ok", "2.00 over"),
                                     ("transformer-256", "2.00 ok", "2.00 over"),
                                     ("resnet18", "2.50 ok", "1.80 ok")):
            self.assertIn(f"{name} AMX 2 0.8 2.500 2.500-2.500 {wide} 1.5 1.875 1.875-1.875 {autocast} "
                          "2.000 2.000-2.000 1.50 over".split(), lines)
        self.assertNotIn("lr", [line[0] for line in lines if line])
        self.assertIn("mlp plain 2 0.8 2.500 2.500-2.500 0.91 ok 1.5 1.875 1.875-1.875 "
                      "2.000 2.000-2.000 1.50 over".split(), self.precision("plain", "precision"))

    def test_limits_and_precision(self):
        """Together both tables, else the one that is named."""
        limits = "lr 2 0.2 100.0 200 0.50 12 40.0 0.15 2.00 2.00".split()
        precision = "mlp AMX 2 0.8".split()
        for names, told in ((("limits", "precision"), (True, True)), (("limits",), (True, False)),
                            (("precision",), (False, True))):
            lines = self.precision("AMX", *names)
            self.assertEqual((limits in lines, precision in [line[:4] for line in lines]), told)

    def test_plan(self):
        """Foretold 0.9 s against a mean of 1 s; a cluster that cannot be is left out."""
        self.make_program("hanse", PLANNED)
        self.write("scripts/test-cluster", "#!/bin/sh\necho 'no cluster'; exit 77\n").chmod(0o755)
        result = self.bench("--only", "plan", "--pairs", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no cluster", result.stderr)
        self.assertNotIn("4 hosts", result.stdout)
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertIn("mlp 1 rank 900 1000 0.900 0.900-0.900 0.20 ok 2 4 300 250".split(), lines)
        self.assertIn("femnist 2 ranks 450 1000 0.450 0.450-0.450 0.20 over 2 4 300 250".split(),
                      lines)
        self.assertIn("16 1 800 10 30 5 850 1.00 200 13.2".split(), lines)
        self.assertIn("1024 16 800 10 30 5 850 0.02 200 13.2".split(), lines)

    def test_round(self):
        """The share beside is the median of the runs, and a client's bytes are those of the slope."""
        self.make_program("hanse-bench-round", """#!/bin/sh
echo x >>"$0.calls"
count=$(wc -l <"$0.calls")
echo '{"seconds_per_round": 0.002, "arithmetic_seconds": 0.0018, "share_beside": 0.'$count'}'
""")
        self.make_program("hanse", """#!/bin/sh
for option; do
  case $option in
    --run.out=*) out=${option#--run.out=} ;;
    --federation.clients=*) clients=${option#*=} ;;
  esac
done
if [ "$1" = plan ]; then echo '{"peak_bytes": '$((1000000 + 46 * clients))'}'; exit; fi
echo '{"peak_memory_bytes": '$((9000000 + 96 * clients))'}' >"$out/summary.json"
""")
        result = self.bench("--only", "round", "--pairs", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertIn("uniform 100 2 1.8 0.200 0.100-0.300 0.10 over".split(), lines)
        self.assertIn("all clients 1000 2 1.8 0.500 0.400-0.600 0.10 over".split(), lines)
        self.assertIn("fedavg, uniform 80.0 80.0-80.0 30.0 64 over".split(), lines)
        self.assertIn("oort 80.0 80.0-80.0 30.0".split(), lines)

    def test_markdown(self):
        result = self.bench("--only", "mlp", "--pairs", "1", "--markdown")
        self.assertIn("| mlp | 11 | 10 | 1.100 | 1.100-1.100 | 1.20 | ok |", result.stdout)

    def test_program_that_fails(self):
        self.make_program("hanse", "#!/bin/sh\necho 'hanse: error: no such job' >&2\nexit 2\n")
        result = self.bench("--only", "lr", "--pairs", "1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("hanse: error: no such job", result.stderr)
        self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    unittest.main()
