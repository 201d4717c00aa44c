"""scripts/bench-scaling with a program whose rounds take as long as its ranks say."""
import csv
import os
import shutil
import subprocess
import unittest

from support import SCRIPTS, ScriptTest

# A round takes 12 s of training over the ranks and a second of communication. LAUNCHED_RANKS comes
# from the launcher; MODEL and BREAK are numbers of ranks. A plan's longest client takes 2 s, where a
# sample takes 1 ms; SAMPLE is what it takes alone on the started ranks, and with DISTURB something
# else begins to run beside the first run.
PROGRAM = r"""#!/usr/bin/env bash
echo "${LAUNCHED_RANKS-} $*" >>calls
if [[ $1 == plan ]]; then
  sample=0.001; [[ $* == *--ranks=* ]] || sample=${SAMPLE:-0.001}
  [[ ! -e disturbed ]] || sample=0.0012
  echo '{"sample_seconds": '"$sample"', "memory_gbit": 20, "memory_latency_us": 1, "participants": 10,
   "train_seconds": 2, "exchange_seconds": 1.5, "server_seconds": 0.5, "small_seconds": 0.25,
   "round_seconds": 3.75, "sent_bytes": 3e6, "peak_bytes": 4e8}'
  exit
fi
for option; do
  case $option in
    --run.out=*) out=${option#--run.out=} ;;
    --sampler.per-round=*) clients=${option#--sampler.per-round=} ;;
  esac
done
[[ ${BREAK-} != "$LAUNCHED_RANKS" ]] || { echo "hanse: error: no such host" >&2; exit 1; }
mkdir -p "$out"
[[ -z ${DISTURB-} ]] || touch disturbed
awk -v ranks="$LAUNCHED_RANKS" -v clients="${clients:-10}" 'BEGIN {
  print "round,clients,seconds,seconds_train,seconds_comm,seconds_wait,bytes_sent,loss"
  train = 12 * clients / 10 / ranks
  for (t = 1; t <= 3; ++t) printf "%d,%d,%g,%g,%g,0,100,1\n", t, clients, train + 1, train, 1
}' >"$out/rounds.csv"
digest=00ff; [[ ${MODEL-} != "$LAUNCHED_RANKS" ]] || digest=0100
echo '{"name": "job", "rounds": 3, "ranks": '"$LAUNCHED_RANKS"', "model_digest": "'$digest'",
 "seconds": 40, "setup_seconds": 1, "seconds_per_round_median": 13, "bytes_per_round": 2e6,
 "peak_memory_bytes": 3e8, "metrics": {"loss_mean": 1}}' >"$out/summary.json"
"""
PHASES = ("training", "communication", "waiting", "drawing", "losses", "inner_products",
          "server_step", "bookkeeping")
LAUNCH = "env LAUNCHED_RANKS={ranks}"


class BenchScalingTest(ScriptTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(SCRIPTS, self.folder / "scripts")
        self.write("build/hanse", PROGRAM).chmod(0o755)
        self.write("jobs/job.cfg", "[client]\nlr = 0.5\n[sampler]\nper-round = 10  # of many\n")

    def scaling(self, *arguments, **environment):
        return self.script(self.folder / "scripts/bench-scaling", "jobs/job.cfg", "--out", "out",
                           "--launch", LAUNCH, *arguments, cwd=self.folder,
                           env={**os.environ, **environment})

    def table(self):
        with open(self.folder / "out/scaling.csv", newline="") as file:
            return list(csv.DictReader(file))

    def column(self, name):
        return [float(row[name]) for row in self.table()]

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def test_strong(self):
        result = self.scaling("--ranks", "4,1,2", "--run.rounds=3")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual([call.split()[0] for call in self.calls()], ["1", "2", "4"])
        self.assertTrue(all("--run.rounds=3" in call for call in self.calls()))
        self.assertEqual(self.column("ranks"), [1, 2, 4])
        self.assertEqual(self.column("participants"), [10, 10, 10])
        self.assertEqual(self.column("seconds"), [13, 7, 4])
        for found, speedup, ranks in zip(self.table(), [1, 13 / 7, 13 / 4], [1, 2, 4]):
            self.assertAlmostEqual(float(found["speedup"]), speedup)
            self.assertAlmostEqual(float(found["efficiency"]), speedup / ranks)
        self.assertEqual(self.column("training"), [12, 6, 3])
        self.assertEqual(self.column("communication"), [1, 1, 1])
        self.assertIn("81 %", result.stdout)
        self.assertTrue((self.folder / "out/scaling.png").read_bytes().startswith(b"\x89PNG"))

    def test_weak(self):
        """As many participants a rank: the round is as long, the ideal."""
        result = self.scaling("--ranks", "2,4,8", "--weak")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.column("participants"), [20, 40, 80])
        self.assertEqual(self.column("seconds"), [13, 13, 13])
        self.assertEqual(self.column("speedup"), [1, 2, 4])
        self.assertEqual(self.column("efficiency"), [1, 1, 1])

    def test_simulated_and_planned(self):
        """Twelve seconds of training on rows of four kinds; the plan's longest client takes two."""
        far = ["--ranks", "1,2", "--simulate", "4,8", "--plan", "64", "--cores", "4",
               "--link-gbit", "100"]
        result = self.scaling(*far)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = {(row["kind"], int(row["ranks"])): row for row in self.table()}
        self.assertEqual(list(rows), [("measured", 1), ("measured", 2), ("again", 1), ("again", 2),
                                      ("simulated", 4), ("simulated", 8), ("planned", 64)])
        calls = self.calls()
        # What a sample takes on as many ranks as were measured, or as there are cores.
        self.assertEqual(calls[0].split()[:2], [str(min(2, os.cpu_count())), "plan"])
        again, simulated, planned = [
            next(call for call in calls if words in call)
            for words in ("again-2/", "simulated-8/", "--ranks=64")]
        for call, hosts, cores in ((again, 1, os.cpu_count()), (simulated, 2, 4)):
            for word in ("sample-us=1000.0", f"hosts={hosts}", f"cores={cores}",
                         "link-gbit=100.0", "latency-us=20", "memory-gbit=20"):
                self.assertIn(f"--simulate.{word}", call)
        for word in ("--hosts=16", "--cores=4", "--link-gbit=100.0", "--latency-us=20"):
            self.assertIn(word, planned)
        self.assertEqual(float(rows["simulated", 8]["speedup"]), 13 / 2.5)
        self.assertEqual(float(rows["planned", 64]["seconds"]), 3.75)
        self.assertEqual(float(rows["planned", 64]["communication"]), 1.25)
        self.assertEqual([row["bottleneck"] for row in rows.values()],
                         ["training"] * 6 + ["the longest client"])
        self.assertIn("by ranks: 1: 1.00, 2: 1.00", result.stdout)
        self.assertEqual(self.scaling(*far).returncode, 0)
        plans = [call for call in self.calls() if "plan" in call.split()[:2]]
        self.assertEqual(len(plans), 4)  # the samples before and behind the runs, then no more

    def parts(self, row):
        return sum(float(row[name]) for name in PHASES)

    def test_parts_sum_to_the_round(self):
        """Also where the most communication of any rank is mostly that it waits for rank 0."""
        self.write("build/hanse", PROGRAM.replace("train + 1, train, 1", "train + 1, train, train"))
        self.assertEqual(self.scaling("--ranks", "1,2,4", "--simulate", "8", "--plan", "64",
                                      "--repeats", "2").returncode, 0)
        for row in self.table():
            self.assertAlmostEqual(self.parts(row), float(row["seconds"]), msg=row)
        measured = self.table()[1]
        self.assertEqual((float(measured["training"]), float(measured["communication"])), (6, 1))

    def test_one_rate(self):
        """What a sample takes beside busy cores holds for planned rows, which find another alone."""
        result = self.scaling("--ranks", "1", "--plan", "64", SAMPLE="0.003")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        planned = self.table()[-1]
        self.assertAlmostEqual(float(planned["training"]), 6)
        self.assertAlmostEqual(float(planned["seconds"]), 7.75)

    def test_disturbed(self):
        result = self.scaling("--ranks", "1", "--simulate", "8", DISTURB="1")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for words in ("warning", "1000 us before", "1200 us behind", "out", "hint"):
            self.assertIn(words, result.stderr)
        # Nothing was measured, so nothing was disturbed.
        self.assertEqual(self.scaling("--ranks", "1", "--simulate", "8").stderr, "")

    def test_simulated_rounds_that_are_not_the_measured(self):
        broken = PROGRAM.replace("train = 12", 'train = (ENVIRON["OUT"] ~ /again/ ? 24 : 12)')
        self.write("build/hanse", broken.replace("awk -v", 'OUT=$out awk -v'))
        result = self.scaling("--ranks", "1,2", "--simulate", "8")
        self.assertIn("1.92 times on 1, 1.86 times on 2 ranks", result.stderr)

    def test_the_same_command_runs_what_is_missing(self):
        broken = self.scaling("--ranks", "1,2,4", BREAK="2")
        self.assertEqual(broken.returncode, 1)
        self.assertIn("ranks-2, seed 1: status 1: hanse: error: no such host", broken.stderr)
        self.assertEqual(self.column("ranks"), [1, 4])
        self.assertEqual(self.scaling("--ranks", "1,2,4").returncode, 0)
        self.assertEqual([call.split()[0] for call in self.calls()], ["1", "2", "4", "2"])
        self.assertEqual(self.column("ranks"), [1, 2, 4])

    def test_models_that_depend_on_the_ranks(self):
        result = self.scaling("--ranks", "1,2", "--simulate", "4,8", MODEL="2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the model of 2 ranks is not that of 1", result.stderr)
        self.assertIn("the simulated model of 2 ranks is not that of 1", result.stderr)
        self.assertNotIn("model of 8", result.stderr)
        self.assertEqual(self.column("ranks"), [1, 2, 1, 2, 4, 8])

    def test_slurm(self):
        """The batch job asks for 1, 2, 4, ... and all of the allocation's ranks."""
        shutil.copy(SCRIPTS.parent / "jobs/bench-scaling.sbatch", self.folder / "jobs")
        self.write("bin/srun", "#!/usr/bin/env bash\n"
                   "export LAUNCHED_RANKS=$(sed 's/.*--ntasks=\\([0-9]*\\).*/\\1/' <<<\"$*\")\n"
                   "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"\n").chmod(0o755)
        result = subprocess.run(
            ["bash", "jobs/bench-scaling.sbatch", "jobs/job.cfg", "--out", "out", "--run.rounds=3"],
            cwd=self.folder, text=True, capture_output=True,
            env={**os.environ, "SLURM_NTASKS": "6", "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.column("ranks"), [1, 2, 4, 6])
        self.assertTrue(all("--run.rounds=3" in call for call in self.calls()))

    def test_bad_input(self):
        for arguments, words in [
                (["--ranks", "1,x"], ["--ranks 1,x", "hint"]), (["--ranks", "0"], ["--ranks 0"]),
                (["--simulate", "4,-1"], ["--simulate 4,-1"]), (["--cores", "0"], ["--cores"]),
                (["--repeats", "0"], ["--repeats"]), (["--rank", "2"], ["'--rank'", "--help"]),
                (["--run.out=x"], ["run.out", "--out"]),
                (["--launch", "srun -n 4"], ["{ranks}", "hint"]),
                (["--weak", "--sampler.per-round=many"], ["sampler.per-round many"])]:
            with self.subTest(arguments=arguments):
                self.assert_one_line_error(self.scaling(*arguments), *words)
        self.assertFalse((self.folder / "calls").exists())
        self.write("jobs/job.cfg", "[client]\nlr = 0.5\n")
        self.assert_one_line_error(self.scaling("--weak"), "sampler.per-round", "hint")
        (self.folder / "jobs/job.cfg").unlink()
        self.assert_one_line_error(self.scaling(), "jobs/job.cfg")


if __name__ == "__main__":
    unittest.main()
