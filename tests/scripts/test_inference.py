"""What is inferred from a few seeds, computed anew: in closed form, by enumeration, by scipy."""
import itertools
import math
import random
import statistics
import sys
import unittest
from fractions import Fraction

from scipy import stats

from support import SCRIPTS

sys.path.insert(0, str(SCRIPTS / "python"))
from hanse import inference  # noqa: E402

FIRST = [0.81, 0.84, 0.79, 0.88, 0.83, 0.90, 0.86]
OTHER = [0.80, 0.80, 0.80, 0.81, 0.79, 0.82, 0.83]
T_975 = {1: 12.7062047, 2: 4.30265273, 4: 2.77644511, 6: 2.44691185}  # of printed tables


def t_of(values):
    return statistics.fmean(values) / (statistics.stdev(values) / math.sqrt(len(values)))


def two_sided_of_4(t):
    """2 P(T > |t|) of Student's t with 4 degrees of freedom, in closed form."""
    x = t * t / (4 + t * t)
    return 1 - math.sqrt(x) * (1 + (1 - x) / 2)


def signed_ranks(differences):
    """Wilcoxon's two-sided p-value: of all signs of the ranks, those that are as far from 0."""
    known = [value for value in differences if value]
    ranks = [sum(abs(v) < abs(w) for v in known) + (sum(abs(v) == abs(w) for v in known) + 1) / 2
             for w in known]
    own = abs(sum(math.copysign(r, v) for r, v in zip(ranks, known)))
    sums = [abs(sum(s * r for s, r in zip(signs, ranks)))
            for signs in itertools.product((1, -1), repeat=len(known))]
    return sum(one >= own for one in sums) / len(sums)


class InferenceTest(unittest.TestCase):
    def test_an_interval_is_student_s(self):
        for n in (2, 3, 5, 7):
            found = inference.interval([*FIRST[:n], None, math.nan])
            half = T_975[n - 1] * statistics.stdev(FIRST[:n]) / math.sqrt(n)
            self.assertEqual((found.n, found.mean), (n, statistics.fmean(FIRST[:n])))
            self.assertAlmostEqual(found.high - found.mean, half, places=7)
            low, high = stats.t.interval(0.95, n - 1, found.mean, stats.sem(FIRST[:n]))
            self.assertAlmostEqual(found.low, low, places=12)
            self.assertAlmostEqual(found.high, high, places=12)

    def test_one_number_has_no_interval(self):
        self.assertEqual(inference.interval([3]), inference.Interval(1, 3.0))
        self.assertEqual(inference.interval([None]), inference.Interval(0))
        self.assertIsNone(inference.interval([3]).low)

    def test_differences_are_paired_by_seed(self):
        first = dict(zip(range(1, 8), FIRST))
        base = dict(zip((9, 7, 6, 5, 4, 3), (0.1, *OTHER)))  # 8, 2 and 1 are of one alone
        found = inference.difference(first, base)
        apart = [first[seed] - base[seed] for seed in (3, 4, 5, 6, 7)]
        self.assertEqual(found.interval.n, 5)
        self.assertAlmostEqual(found.interval.mean, statistics.fmean(apart), places=12)
        self.assertAlmostEqual(found.p, two_sided_of_4(t_of(apart)), places=10)
        ours, theirs = ([values[seed] for seed in (3, 4, 5, 6, 7)] for values in (first, base))
        self.assertAlmostEqual(found.p, stats.ttest_rel(ours, theirs).pvalue, places=12)

    def test_how_many_pairs_a_p_value_needs(self):
        def of(n):
            found = inference.difference(dict(enumerate(FIRST[:n])), dict(enumerate(OTHER[:n])))
            return found.p is not None, found.p_wilcoxon is not None
        self.assertEqual([of(n) for n in (3, 4, 5, 6)],
                         [(False, False), (False, False), (True, False), (True, True)])

    def test_signed_ranks_with_ties_and_zeros(self):
        for differences in ([3, -1, 4, 1.5, -5, 9, 2.6], [1, 2, 2, -2, 3, 3, -1, 4],
                            [0, 0, 1, 2, 3, -4], [2, 2, 2, 2, 2, 2]):
            found = inference.difference(dict(enumerate(differences)),
                                         dict.fromkeys(range(len(differences)), 0))
            self.assertAlmostEqual(found.p_wilcoxon, signed_ranks(differences), places=12)
        for n in (6, 9, 13, 20):  # without ties, as scipy has it
            differences = [(-1) ** (i % 3) * (i + 0.5) for i in range(n)]
            found = inference.difference(dict(enumerate(differences)), dict.fromkeys(range(n), 0))
            self.assertAlmostEqual(found.p_wilcoxon, stats.wilcoxon(differences).pvalue, places=12)

    def test_what_binary_fractions_leave_is_no_difference(self):
        """Accuracies in tenths: ties and zeros as exact fractions have them."""
        draw = random.Random(0)
        for _ in range(60):
            tenths = [(draw.randint(5, 10), draw.randint(5, 9)) for _ in range(draw.randint(6, 9))]
            exact = [Fraction(a - b, 10) for a, b in tenths]
            if any(exact):
                found = inference.difference({i: a / 10 for i, (a, _) in enumerate(tenths)},
                                             {i: b / 10 for i, (_, b) in enumerate(tenths)})
                self.assertAlmostEqual(found.p_wilcoxon, signed_ranks(exact), places=12)
        found = inference.difference(dict.fromkeys(range(6), 0.1 + 0.2), dict.fromkeys(range(6), 0.3))
        self.assertEqual((found.interval.mean, found.p, found.p_wilcoxon), (0, None, None))
        for size in (1e-160, 1e9):  # the digits are those of the numbers, large or small
            found = inference.difference({i: size * (3 + i % 2) for i in range(6)},
                                         dict.fromkeys(range(6), size))
            self.assertAlmostEqual(found.interval.mean / size, 2.5, places=9)

    def test_differences_that_are_all_alike_have_no_t(self):
        found = inference.difference({i: i + 0.1 for i in range(6)}, {i: i for i in range(6)})
        self.assertEqual((found.p, found.p_wilcoxon), (None, 0.03125))

    def test_runs_that_are_alike_have_no_p_value(self):
        same = dict(enumerate(FIRST))
        found = inference.difference(same, same)
        self.assertEqual((found.interval.mean, found.p, found.p_wilcoxon), (0, None, None))

    def test_holm_by_hand(self):
        """Of four: 0.005 x 4, 0.01 x 3, 0.03 x 2, and 0.04 x 1 is raised to the one before."""
        found = inference.holm([0.01, 0.04, None, 0.03, 0.005])
        for value, expected in zip(found, [0.03, 0.06, None, 0.06, 0.02]):
            self.assertEqual(value if value is None else round(value, 12), expected)
        self.assertEqual(inference.holm([0.6, 0.7]), [1.0, 1.0])
        self.assertEqual(inference.holm([]), [])


if __name__ == "__main__":
    unittest.main()
