"""What scripts/soak tries: the jobs and disturbances that seeds give, combinations of kinds, and cases
of a program that pretends."""
import pathlib
import shutil
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import combinations, soak_cases  # noqa: E402
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


# Has families of two kinds; what a run does on so many ranks is BEHAVIOUR.
COMBINED = '''#!/usr/bin/env python3
import os, pathlib, sys
if sys.argv[1] == "list":
    print(LISTING)
    sys.exit()
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))
word = [word for word in sys.argv if word.startswith("--run.out=")]
out = pathlib.Path(word[0].split("=")[1] if word else sys.argv[2])
def end(seed, error=None, status=0):
    if error:
        if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")) != "0":
            sys.exit()  # the first that fails ends the others
        print("hanse: error:", error, file=sys.stderr)
        sys.exit(status)
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    (out / "rounds.csv").write_text("round,loss\\n1,0.5\\n")
    (out / "summary.json").write_text('{"model_digest": "%s", "setup_seconds": 0}' % seed)
BEHAVIOUR
'''
LISTING = "\n".join(f"{family} ({family}.kind)\n  none   as it is\n  other  than that\n"
                    "    " + family + ".word = a  a | b | [1, 2]\n        what it is\n"
                    "  options of every kind\n    x.y = a  a | b"
                    for family in combinations.FAMILIES)


class CombinationsTest(ScriptTest):
    def test_the_listing(self):
        families = combinations.read_listing(LISTING)
        self.assertEqual(set(families), set(combinations.FAMILIES))
        self.assertEqual(families["attacks"], ("attacks.kind",
                                               {"none": {}, "other": {"attacks.word": ["a", "b"]}}))

    def families(self):
        """With the keys that the draws look at."""
        families = combinations.read_listing(LISTING)
        return {name: ({"attacks": "attack.kind", "clocks": "clock.kind",
                        "asynchrony": "async.kind"}.get(name, key), kinds)
                for name, (key, kinds) in families.items()}

    def test_a_seed_is_a_job_and_all_kinds_and_words_come(self):
        drawn = [combinations.draw_options(seed, self.families()) for seed in range(300)]
        self.assertEqual(drawn[7], combinations.draw_options(7, self.families()))
        for key, values in (("samplers.kind", {"none", "other"}), ("samplers.word", {"a", "b"}),
                            ("run.check-rules", {"true"})):
            self.assertEqual({one[key] for one in drawn if key in one}, values)
        self.assertTrue(all(one["async.kind"] == "none" for one in drawn
                            if one["clock.kind"] == "none"))

    def soak(self, behaviour):
        listing = LISTING.replace("attacks.kind", "attack.kind").replace("clocks.kind", "clock.kind")
        text = COMBINED.replace("LISTING", repr(listing.replace("asynchrony.kind", "async.kind")))
        program = self.write("hanse", text.replace("BEHAVIOUR", behaviour))
        program.chmod(0o755)
        self.give_mpirun(".")
        return self.script("soak", "--program", program, "--combination", "5",
                           env={"PATH": "/usr/bin:/bin", "TMPDIR": str(self.folder)})

    def test_the_same_or_refused_or_ended_by_a_client(self):
        for behaviour, what in (("end(3)", "1 same"),
                                ("end(0, 'no such thing (a.b)', 2)", "1 refused"),
                                ("end(0, 'not finite (client 3, round 2)', 1)", "1 ended by a client")):
            result = self.soak(behaviour)
            self.assertEqual((result.returncode, result.stdout), (0, f"{what} (seeds 5 to 5)\n"),
                             result.stderr)

    def test_what_differs_is_told_with_its_command(self):
        for behaviour, what in (
                ("end(3 if ranks < 3 else 4)", "another model on 3 ranks"),
                ("end(0, f'no, on {ranks}', 2)", "on 2 ranks status 2, not 2, or another line"),
                ("end(0, 'draw() gives too many', 1)", "status 1: hanse: error: draw() gives"),
                ("end(3); sys.exit(139 if ranks == 2 else 0)", "status 139 on 2 ranks")):
            result = self.soak(behaviour)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"seed 5: {what}", result.stdout)
            self.assertIn("scripts/soak --combination 5", result.stdout)
            self.assertIn(f"{self.folder / 'hanse'} run /dev/null --run.rounds=6", result.stdout)


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

    def test_limits(self):
        """Of twenty pairs, those with an attack end by a signal."""
        program = self.write("hanse", """#!/bin/sh
if [ "$1" = list ]; then cat "${0%/*}/keys.md"; exit; fi
case "$*" in *--attack.*) kill -SEGV $$ ;; esac
""")
        program.chmod(0o755)
        shutil.copy(SCRIPTS.parent / "jobs/keys.md", self.folder)
        result = self.script("soak", "--program", program, "--limits", "20", "--first-seed", "1")
        self.assertEqual(result.returncode, 1, result.stderr)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], r"^seed \d+: status -11, a signal; .*/hanse run /dev/null --")
        self.assertRegex(lines[-1], r"^\d+ at fault, \d+ with status 0$")
        self.assertTrue(all("--attack." in line for line in lines[:-1]))

    def test_bad_usage(self):
        self.assert_one_line_error(self.script("soak", "--program", self.folder / "none"),
                                   "no such program")


if __name__ == "__main__":
    unittest.main()
