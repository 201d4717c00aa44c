"""What the scores of samples are worth: numbers, intervals and curves against their definitions."""
import math
import statistics
import sys
import unittest

import numpy as np

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import matplotlib.pyplot as plt  # noqa: E402

from shared import charting, charts, charts_of_scores, run_files  # noqa: E402
from hanse import scoring  # noqa: E402
from hanse.errors import Refused  # noqa: E402

Z = statistics.NormalDist().inv_cdf(0.975)


def samples(label, score, client=None, fold="test"):
    n = len(label)
    return scoring.Scores(np.zeros(n, int) if client is None else np.asarray(client), np.arange(n),
                          np.full(n, fold), np.asarray(label, float), np.asarray(score, float))


def table_of(scores, first_row=0):
    lines = [f"{c},{r + first_row},{f},{int(y)},{p!r}" for c, r, f, y, p in zip(
        scores.client, scores.row, scores.fold, scores.label, scores.score.tolist())]
    return "client,row,fold,label,score\n" + "\n".join(lines) + "\n"


class Numbers(unittest.TestCase):
    def setUp(self):
        source = np.random.default_rng(3)
        self.label = (source.random(90) < 0.4).astype(float)
        self.score = np.round(np.clip(0.3 * self.label + 0.7 * source.random(90), 0, 1), 1)  # ties
        self.scores = samples(self.label, self.score, np.arange(90) % 3)

    def test_delong_by_its_definition(self):
        """Psi of every pair; S10 and S01 the sample variances of its means: O(n m)."""
        x, y = self.score[self.label == 1], self.score[self.label == 0]
        psi = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        area = psi.mean()
        s10 = ((psi.mean(axis=1) - area) ** 2).sum() / (len(x) - 1)
        s01 = ((psi.mean(axis=0) - area) ** 2).sum() / (len(y) - 1)
        half = Z * math.sqrt(s10 / len(x) + s01 / len(y))
        self.assertAlmostEqual(scoring.auroc(self.label, self.score), area, 14)
        np.testing.assert_allclose(scoring.auroc_interval(self.label, self.score),
                                   (area - half, area + half), rtol=1e-13)
        self.assertGreater(half, 0.05)

    def test_hostile_areas(self):
        for label, score in (([1, 1], [0.1, 0.2]), ([0, 0], [0.1, 0.2]), ([], []),
                             ([0, 1], [math.nan, 0.5])):
            one = samples(label, score)
            self.assertTrue(math.isnan(scoring.auroc(one.label, one.score)), label)
            self.assertTrue(all(map(math.isnan, scoring.auroc_interval(one.label, one.score))))
        label, score = np.array([0, 1, 1.0]), np.array([0.1, 0.5, 0.6])
        self.assertEqual(scoring.auroc(label, score), 1)  # of one negative there is no variance
        self.assertTrue(math.isnan(scoring.auroc_interval(label, score)[0]))
        self.assertTrue(math.isnan(scoring.average_precision(np.zeros(2), np.ones(2))))

    def test_wilson_solves_its_equation(self):
        for successes, n in ((0, 7), (3, 10), (10, 10), (81, 263)):
            low, high = scoring.proportion_interval(successes, n)
            for p in (low, high):
                if 0 < p < 1:
                    self.assertAlmostEqual(abs(successes / n - p), Z * math.sqrt(p * (1 - p) / n), 12)
        # Newcombe (1998), table I: 81 of 263.
        np.testing.assert_allclose(scoring.proportion_interval(81, 263), (0.2553, 0.3662), atol=5e-5)
        self.assertTrue(math.isnan(scoring.proportion_interval(0, 0)[0]))

    def test_average_precision_by_counting(self):
        area, before = 0.0, 0
        for t in sorted(set(self.score), reverse=True):
            right = ((self.score >= t) & (self.label == 1)).sum()
            area += (right - before) / self.label.sum() * right / (self.score >= t).sum()
            before = right
        self.assertAlmostEqual(scoring.average_precision(self.label, self.score), area, 14)

    def test_calibration_error_by_counting(self):
        error = 0.0
        for b in range(15):
            own = [i for i, p in enumerate(np.maximum(self.score, 1 - self.score))
                   if b / 15 < p <= (b + 1) / 15]
            right = sum((self.score[i] > 0.5) == self.label[i] for i in own)
            error += abs(right - sum(max(self.score[i], 1 - self.score[i]) for i in own)) / 90
        self.assertAlmostEqual(scoring.calibration_error(self.scores), error, 12)
        ends = samples([1, 0, 0], [0.6, 0.62, 0.58])  # 0.6 = 9/15 lies with 0.58
        self.assertAlmostEqual(scoring.calibration_error(ends), (abs(1 - 1.18) + 0.62) / 3)
        self.assertAlmostEqual(scoring.brier(self.scores), np.mean((self.score - self.label) ** 2), 14)

    def test_several_classes_and_numbers(self):
        p = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
        three = samples([0, 1], p)
        self.assertAlmostEqual(scoring.METRICS["brier"](three), (0.38 + 1.04) / 2)
        self.assertEqual(scoring.METRICS["accuracy"](three), 0.5)
        self.assertTrue(math.isnan(scoring.METRICS["auroc"](three)))
        numbers = samples([1.5, -2], [1, 2])
        self.assertEqual(scoring.METRICS["mae"](numbers), (0.5 + 4) / 2)
        self.assertEqual(scoring.METRICS["mse"](numbers), (0.25 + 16) / 2)
        self.assertTrue(math.isnan(scoring.METRICS["accuracy"](numbers)))

    def test_a_bootstrap_draws_what_belongs_together(self):
        number = scoring.METRICS["accuracy"]
        first = scoring.bootstrap_interval(self.scores, number, draws=200)
        self.assertEqual(first, scoring.bootstrap_interval(self.scores, number, draws=200))
        self.assertNotEqual(first, scoring.bootstrap_interval(self.scores, number, draws=200, seed=2))
        # Each sample ten times over, as of ten visits: the groups know, and the samples do not.
        copies = self.scores.part(np.repeat(np.arange(90), 10))
        by_sample = scoring.interval_of(copies, "brier")
        by_patient = scoring.interval_of(copies, "brier", by=copies.row)
        once = scoring.interval_of(self.scores, "brier")
        np.testing.assert_allclose(by_patient, once, atol=1e-12)
        self.assertLess(by_sample[1] - by_sample[0], 0.5 * (once[1] - once[0]))

    def test_net_benefit_by_counting(self):
        thresholds = np.array([0.1, 0.5, 0.8])
        expected = []
        for t in thresholds:
            true = sum(p >= t and y == 1 for p, y in zip(self.score, self.label))
            false = sum(p >= t and y == 0 for p, y in zip(self.score, self.label))
            expected.append(true / 90 - false / 90 * t / (1 - t))
        np.testing.assert_allclose(scoring.net_benefit(self.label, self.score, thresholds), expected)

    def test_roc_by_counting(self):
        x, y = scoring.roc(self.label, self.score)
        levels = sorted(set(self.score), reverse=True)
        for place, t in enumerate(levels, 1):
            self.assertAlmostEqual(y[place], np.mean(self.score[self.label == 1] >= t))
            self.assertAlmostEqual(x[place], np.mean(self.score[self.label == 0] >= t))
        self.assertEqual((x[0], y[0], x[-1], y[-1], len(x)), (0, 0, 1, 1, len(levels) + 1))
        self.assertAlmostEqual(np.trapz(y, x), scoring.auroc(self.label, self.score))


class Figures(ScriptTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(plt.close, "all")
        self.label = np.array([0, 0, 0, 1, 1, 0, 1, 1])
        self.score = np.array([0.12, 0.22, 0.31, 0.34, 0.67, 0.71, 0.92, 0.93])

    def run_of(self, name, score, fold="test"):
        client = np.arange(8) % 2
        train = samples(1 - self.label, score, client, "train")  # the other way round
        self.write(f"{name}/scores.csv", table_of(samples(self.label, score, client, fold)) +
                   table_of(train, 8).partition("\n")[2])
        self.write(f"{name}/clients.csv", "client,name,held_out,samples,loss\n0,north,0,4,0.5\n1,south,0,4,0.4\n")
        self.write(f"{name}/job.cfg", "[run]\nname = x\n")
        return self.folder / name

    def axis(self, chart, *folders):
        figure = charting.figure_of([chart], [run_files.Runs(folder) for folder in folders])
        return figure and figure.axes[0]

    def test_one_run_has_a_curve_a_client(self):
        axis = self.axis(charts_of_scores.roc, self.run_of("a", self.score))
        labels = [line.get_label() for line in axis.lines]
        self.assertEqual([label.partition(",")[0] for label in labels[:3]],
                         ["all clients", "north", "south"])
        self.assertIn("0.875 (", labels[0])
        np.testing.assert_allclose(axis.lines[0].get_ydata(), [0, .25, .5, .5, .75, 1, 1, 1, 1])
        self.assertIn("test samples", axis.get_title("left"))
        self.assertIn("scores", [picture.name for picture in charts.PICTURES])

    def test_calibration_and_decision(self):
        run = self.run_of("a", self.score)
        axis = self.axis(charts_of_scores.calibration, run)
        x, y = axis.lines[0].get_data()
        np.testing.assert_allclose(x, [0.12, 0.22, 0.325, 0.67, 0.71, 0.925])
        np.testing.assert_allclose(y, [0, 0, 0.5, 1, 0, 1])
        axis = self.axis(charts_of_scores.decision, run)
        model, everyone, _ = axis.lines
        at = np.flatnonzero(np.isclose(model.get_xdata(), 0.5))[0]
        self.assertAlmostEqual(model.get_ydata()[at], 3 / 8 - 1 / 8)
        self.assertAlmostEqual(everyone.get_ydata()[at], 0.5 - 0.5)

    def test_seeds_have_a_mean_and_a_band(self):
        for seed, score in ((1, self.score), (2, self.score[::-1])):
            self.run_of(f"case/seed-{seed}", score)
        (place,) = [one for one in run_files.runs_of(
            charts_of_scores_places(self.folder / "case"), "range")]
        axis = plt.figure().add_subplot()
        charts_of_scores.roc(axis, [place])
        (band,) = axis.collections
        grid = axis.lines[0].get_xdata()
        at = np.searchsorted(grid, 0.6)
        high = np.interp(grid[at], [0.25, 0.75, 1], [1, 1, 1])
        ends = band.get_paths()[0].vertices
        self.assertAlmostEqual(ends[np.isclose(ends[:, 0], grid[at]), 1].max(), high)
        self.assertLess(axis.lines[0].get_ydata()[at], high)

    def test_scripts_show_them(self):
        run = self.run_of("a", self.score)
        self.write("a/rounds.csv", "round,clients,seconds,seconds_train,seconds_comm,seconds_wait,"
                   "bytes_sent,loss\n1,2,1,1,0,0,0,0.5\n")
        self.write("a/evaluations.csv", "round,split,loss_mean\n1,test,0.5\n")
        drawn = self.call("plot", run)
        self.assertIn("scores.png", drawn.stdout, drawn.stderr)
        written = self.call("report", run)
        self.assertEqual(written.returncode, 0, written.stderr)
        page = (run / "report.html").read_text()
        for part in ("ROC curve", "Calibration", "Decision curve", "At each client", "north",
                     "0.875 ("):
            self.assertIn(part, page)

    def test_one_class_alone_and_no_file(self):
        self.label = np.ones(8, int)
        run = run_files.Runs(self.run_of("a", self.score))
        axis = plt.figure().add_subplot()
        charts_of_scores.roc(axis, [run])
        self.assertFalse(axis.has_data())
        self.assertIn("one class alone", "".join(run.complaints))
        with self.assertRaisesRegex(Refused, "evaluate.scores=true"):
            scoring.read_scores(self.folder / "none" / "scores.csv")
        with self.assertRaisesRegex(Refused, "no table of scores"):
            scoring.read_scores(self.write("other.csv", "round,loss\n1,2\n"))


def charts_of_scores_places(folder):
    from shared.summaries import find_places
    return find_places([str(folder)])


if __name__ == "__main__":
    unittest.main()
