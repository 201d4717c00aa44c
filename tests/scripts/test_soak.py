"""What scripts/soak tries: the jobs and disturbances that seeds give, and a case of a program that
pretends."""
import pathlib
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import soak_cases  # noqa: E402
from shared.digest_cases import Case  # noqa: E402

CASES = [Case(f"{family}/{kind}", {"run.rounds": 8, f"{section}.kind": kind, f"{section}.x": 1})
         for family, section in (("samplers", "sampler"), ("aggregators", "aggregator"),
                                 ("updates", "client"), ("optimizers", "server"),
                                 ("bandits", "bandit"))
         for kind in ("a", "b")] + [Case("jobs/own", {"run.rounds": 4}, pathlib.Path("own.cfg"))]
PLANS = [soak_cases.make_plan(seed, CASES) for seed in range(300)]

# Lists one kind of a family. The model is the job's seed; the tables are the number of its starts
# when the job says so. Each run counts as having one checkpoint, and takes no time.
PROGRAM = '''#!/usr/bin/env python3
import json, pathlib, sys
if sys.argv[1] == "list":
    print(f"{sys.argv[2]} (model.kind)\\n  only   what it is")
    sys.exit()
if sys.argv[1] == "convert":
    sys.exit()
out = pathlib.Path(sys.argv[2])
if sys.argv[1] == "run":
    options = dict(word[2:].split("=", 1) for word in sys.argv[3:])
    out = pathlib.Path(options["run.out"])
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    (out / "checkpoints" / "round-000001.h5").write_text(options["run.seed"])
seed = (out / "checkpoints" / "round-000001.h5").read_text()
starts = STARTS
(out / "rounds.csv").write_text(f"round,loss,seconds\\n1,{starts},{id(out)}\\n")
(out / "summary.json").write_text(json.dumps({"model_digest": seed, "setup_seconds": 0}))
'''


class PlanTest(unittest.TestCase):
    def test_a_seed_is_a_plan(self):
        self.assertEqual(PLANS[7], soak_cases.make_plan(7, CASES))
        self.assertGreater(len({plan.text() for plan in PLANS}), 290)

    def test_every_kind_and_every_disturbance_comes(self):
        names = {name for plan in PLANS for name in plan.name.split(" + ")}
        self.assertEqual(names, {case.name for case in CASES})
        disturbances = [one for plan in PLANS for one in plan.disturbances]
        self.assertEqual({(one.how, one.ranks) for one in disturbances},
                         {(how, ranks) for how in ("kill", "stop") for ranks in (1, 2, 3)})
        self.assertTrue(all(0 <= one.moment <= 2 for one in disturbances))
        self.assertEqual({plan.last_ranks for plan in PLANS}, {1, 2, 3})

    def test_sections_are_taken_whole(self):
        mixed = [plan for plan in PLANS if " + " in plan.name]
        self.assertGreater(len(mixed), 50)
        for plan in mixed:
            for name in plan.name.split(" + "):
                taken = next(case for case in CASES if case.name == name)
                for key in taken.options:
                    if key != "run.rounds":
                        self.assertEqual(plan.options[key], taken.options[key], plan.text())

    def test_other_families_stay_as_they_are(self):
        for plan in PLANS:
            if plan.name.startswith(("bandits", "jobs")):
                self.assertNotIn("+", plan.name)
                self.assertIn(plan.options["run.rounds"], (4, 8))
            self.assertEqual(plan.job is not None, plan.name == "jobs/own")


class RunTest(ScriptTest):
    def soak(self, starts):
        program = self.write("hanse", PROGRAM.replace("STARTS", starts))
        program.chmod(0o755)
        self.give_mpirun(".")
        return self.script("soak", "--program", program, "--seed", "1",
                           env={"PATH": "/usr/bin:/bin", "TMPDIR": str(self.folder)})

    def test_the_same(self):
        result = self.soak("1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "1 same (seeds 1 to 1)\n")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["hanse", "lib"])

    def test_another_table_is_told_with_its_seed(self):
        result = self.soak("out.name")
        self.assertEqual(result.returncode, 1)
        self.assertIn("seed 1: the same model, other tables", result.stdout)
        self.assertIn("scripts/soak --seed 1", result.stdout)
        self.assertIn("1 different (seeds 1 to 1)", result.stdout)

    def test_bad_usage(self):
        self.assert_one_line_error(self.script("soak", "--program", self.folder / "none"),
                                   "no such program")


if __name__ == "__main__":
    unittest.main()
