"""Keys of clocks, buffers, attacks, rules and samplers at the limits of their ranges: a run of any pair
ends, without a signal and without blame for a client that does nothing wrong.

HANSE_LIMIT_PAIRS says how many pairs (12), HANSE_LIMIT_SEED the seed of the first (1);
scripts/soak --limits tries more of them.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
from shared import limit_cases  # noqa: E402

PAIRS = int(os.environ.get("HANSE_LIMIT_PAIRS", "12"))
FIRST = int(os.environ.get("HANSE_LIMIT_SEED", "1"))
ROWS = r"""
| `async.a` | `0.5` | `[0, inf)` | a; only for `fedbuff, fedasync` |
| `async.a` | `0.5` | `[0, inf)` | a; only for `clock.kind = virtual` |
| `sampler.kind` | `uniform` | `uniform \| osmd \| python` | who is drawn |
| `sampler.alpha` | `0.4` | `(0, 1]` | share; only for `osmd` |
| `attack.last-round` | `inf` | `inf \| [1, inf)` | last round |
| `model.kind` | `linear` | `linear \| mlp` | the model |
"""


class Cases(unittest.TestCase):
    def test_of_ranges(self):
        uses = {use.key: use for use in limit_cases.uses_of(ROWS)}
        self.assertEqual(set(uses), {"async.a", "sampler.alpha", "attack.last-round"})
        self.assertEqual(uses["async.a"].values, ("0", *limit_cases.GREATEST))
        self.assertEqual(uses["sampler.alpha"].values, (limit_cases.LEAST, "1"))
        self.assertEqual(uses["sampler.alpha"].kinds, ("osmd",))
        self.assertEqual(uses["attack.last-round"].values, ("inf", "1", *limit_cases.GREATEST))
        self.assertEqual(limit_cases.limits("[0, 1)"), ("0", "0.999999999999999"))
        self.assertEqual(limit_cases.kinds_of(ROWS, "sampler"), ["uniform", "osmd"])

    def test_of_ends(self):
        honest, attacked = {}, {"attack.kind": "nan"}
        blame = "hanse: error: the update is too large (client 5, round 2)\n"
        for status, errors, options, found in (
                (0, "", honest, ""), (75, "hanse: warning: x\n", honest, ""),
                (2, "hanse: error: no (async.a)\n", honest, ""), (1, blame, attacked, ""),
                (1, blame, honest, "blamed"), (-11, "", honest, "signal"),
                (139, "", honest, "signal"), (None, "", honest, "no end"),
                (1, "", honest, "0 errors"), (2, blame + blame, honest, "2 errors"),
                (0, blame, honest, "status 0")):
            fault = limit_cases.fault(status, errors, options)
            self.assertTrue(found in fault if found else not fault, (status, errors, fault))


class Pairs(harness.Case):
    def test_every_run_ends_well(self):
        markdown = subprocess.run([harness.program(), "list", "--markdown"], check=True,
                                  capture_output=True, text=True).stdout
        self.assertGreater(len(limit_cases.uses_of(markdown)), 100)
        folder = pathlib.Path(self.folder)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            tried = pool.map(lambda seed: limit_cases.try_seed(seed, harness.program(), markdown, folder),
                             range(FIRST, FIRST + PAIRS))
        for command, _, fault in tried:
            with self.subTest(command=" ".join(command)):
                self.assertEqual(fault, "")


if __name__ == "__main__":
    harness.main()
