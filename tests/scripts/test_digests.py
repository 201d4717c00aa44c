"""scripts/digests with a program that pretends, and its comparison of tables."""
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import digest_cases, digest_inputs  # noqa: E402

# Lists two kinds of each family. A run has the seed of its kind as digest, and bad jobs an error.
PROGRAM = '''#!/usr/bin/env python3
import json, pathlib, sys
if sys.argv[1] == "list":
    keys = {"samplers": "sampler.kind", "aggregators": "aggregator.kind"}
    print(f"{sys.argv[2]} ({keys.get(sys.argv[2], 'model.kind')})")
    print("  first   what it is\\n    model.key = 1\\n        help\\n  second  what it is")
    print("  options of every kind")
    sys.exit()
options = dict(word[2:].split("=", 1) for word in sys.argv[3:])
if options.get("aggregator.kind") == "second":
    sys.exit("warning\\nhanse: error: no such rule")
out = pathlib.Path(options["run.out"])
out.mkdir(parents=True)
(out / "summary.json").write_text(json.dumps({"model_digest": "d-" + options["run.rounds"]}))
(out / "rounds.csv").write_text(f"round,seconds,loss\\n1,{id(out)},0.5\\n")
'''


class RunTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.program = self.write("hanse", PROGRAM)
        self.program.chmod(0o755)

    def digests(self, *arguments):
        return self.script("digests", "--program", self.program, *arguments)

    def test_a_line_a_kind_without_measured_times(self):
        out = self.folder / "table.tsv"
        runs = [self.digests("samplers/", "-o", out) for _ in range(2)]
        self.assertEqual([run.returncode for run in runs], [0, 0], runs[0].stderr)
        self.assertEqual(runs[0].stdout, runs[1].stdout)
        self.assertEqual(out.read_text(), runs[1].stdout)
        lines = [line.split("\t") for line in runs[0].stdout.splitlines()]
        self.assertEqual([line[0] for line in lines], ["samplers/first", "samplers/second"])
        self.assertEqual({line[1] for line in lines}, {"d-8"})
        self.assertEqual({len(line[2]) for line in lines}, {16})

    def test_every_job_file(self):
        result = self.digests("jobs/")
        self.assertEqual(result.returncode, 0, result.stderr)
        names = [line.split("\t")[0].removeprefix("jobs/").removesuffix(" (made data)")
                 for line in result.stdout.splitlines()]
        self.assertEqual(names, sorted(path.stem for path in SCRIPTS.parent.glob("jobs/*.cfg")))

    def test_a_failure_is_a_line_of_the_table(self):
        result = self.digests("aggregators/")
        self.assertEqual(result.returncode, 1)
        self.assertIn("aggregators/second\tfailed: hanse: error: no such rule\t-", result.stdout)
        self.assertIn("1 of 2 runs failed", result.stderr)

    def test_bad_usage(self):
        self.assert_one_line_error(self.digests("nothing/"), "nothing/", "hint: jobs/")
        self.assert_one_line_error(self.digests("--ranks", "0"), "--ranks 0")
        self.assert_one_line_error(self.script("digests", "--program", self.folder / "none"),
                                   "no such program")


class CasesTest(unittest.TestCase):
    def test_variants_keep_the_kind_and_the_base(self):
        cases = {case.name: case.options for case in
                 digest_cases.kind_cases("updates", "client.update", ["prox", "unheard-of"])}
        self.assertEqual(list(cases), ["updates/prox", "updates/prox+mu", "updates/prox+stragglers",
                          "updates/unheard-of"])
        self.assertEqual(cases["updates/prox+mu"]["client.update"], "prox")
        self.assertEqual(cases["updates/prox+mu"]["client.mu"], 1)
        self.assertEqual(cases["updates/unheard-of"]["data.path"], "data/heart/heart.csv")

    def test_variants_are_of_families_that_run(self):
        for name in [*digest_cases.VARIANTS, *digest_cases.NEEDS_FILE]:
            self.assertIn(name.split("/")[0], digest_cases.FAMILIES)


class InputsTest(ScriptTest):
    def test_cases_name_files_that_can_be_made(self):
        sources = digest_inputs.Sources(None, self.folder, "true")
        cases = [case for family in digest_cases.FAMILIES for case in digest_cases.kind_cases(
            family, "key", ["sgd", "graph", "text", "hanse"])]
        made = [case for case in cases if digest_cases.reads_file(case)]
        self.assertIn("updates/sgd+clusters-file", [case.name for case in made])
        for case in made:
            options = sources.filled(case.options)
            paths = [options[key] for key, value in case.options.items()
                     if isinstance(value, digest_inputs.Made)]
            for path in paths:
                self.assertTrue(path.exists() or path.suffix == ".h5", path)  # the program writes it
        self.assertEqual((self.folder / "ranks.csv").read_text().splitlines()[:4],
                         ["client,rank", "0,1", "1,2", "2,3"])


class CompareTest(ScriptTest):
    OLD = "a\t11\taa\nb\t22\tbb\nc\t33\tcc\n"

    def compare(self, new, *options):
        return self.script("digests", "--compare", self.write("old.tsv", self.OLD),
                           self.write("new.tsv", new), *options)

    def test_the_same(self):
        result = self.compare("".join(reversed(self.OLD.splitlines(True))))
        self.assertEqual((result.returncode, result.stdout), (0, "3 and 3 runs, 0 differ\n"))

    def test_differences(self):
        result = self.compare("a\t12\taa\nb\t22\tbx\nd\t44\tdd\n")
        self.assertEqual(result.returncode, 1)
        old, new = self.folder / "old.tsv", self.folder / "new.tsv"
        self.assertEqual(result.stdout.splitlines(),
                         ["a: model 11 -> 12", "b: same model, other tables", f"c: only in {old}",
                          f"d: only in {new}", "3 and 3 runs, 4 differ"])

    def test_models_alone(self):
        new = "a\t11\tax\nb\t22\tbx\nc\t33\tcx\n"
        self.assertEqual(self.compare(new).returncode, 1)
        self.assertEqual(self.compare(new, "--models").returncode, 0)

    def test_what_is_no_table(self):
        self.assert_one_line_error(self.compare("a 11\n"), "new.tsv:1", "no tab")
        missing = self.script("digests", "--compare", self.folder / "none.tsv", self.folder / "x")
        self.assert_one_line_error(missing, "none.tsv")


if __name__ == "__main__":
    unittest.main()
