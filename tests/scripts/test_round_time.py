"""Pictures of a round's time: their parts sum to the round, whatever the ranks' maxima are."""
import re
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import numpy as np  # noqa: E402

from shared import charting, charts  # noqa: E402
from shared.run_files import PHASES, Runs, median_phases, phases  # noqa: E402

NAMES = [name for name, _ in PHASES]


def columns(**values):
    return {name: np.array(column, dtype=float) for name, column in values.items()}


class Phases(unittest.TestCase):
    def found(self, table):
        parts = phases(table)
        np.testing.assert_allclose(np.sum(parts, axis=0), table["seconds"], rtol=1e-12)
        return dict(zip(NAMES, parts))

    def test_maxima_of_different_ranks(self):
        """Rank 1 trains for 9 s, rank 0 for 4 s, and it draws for 1 s, for which rank 1 waits in the
        broadcast; the sum takes half a second."""
        table = columns(seconds=[11, 11], seconds_train=[9, 9], seconds_comm=[1.6, 1.6],
                        seconds_wait=[5, 5], seconds_draw=[1, 1], seconds_step=[0.25, 0])
        found = self.found(table)
        np.testing.assert_allclose(found["training"], [9, 9])
        np.testing.assert_allclose(found["drawing"], [1, 1])
        np.testing.assert_allclose(found["server step"], [0.25, 0])
        np.testing.assert_allclose(found["communication"], [0.75, 1])
        np.testing.assert_allclose(found["bookkeeping"], [0, 0], atol=1e-12)

    def test_one_rank(self):
        table = columns(seconds=[10], seconds_train=[8], seconds_comm=[0], seconds_wait=[0],
                        seconds_draw=[0.5], seconds_losses=[0.25], seconds_products=[0.125],
                        seconds_step=[0.5])
        found = self.found(table)
        self.assertEqual([float(found[name][0]) for name in NAMES],
                         [8, 0, 0, 0.5, 0.25, 0.125, 0.5, 0.625])

    def test_tables_with_less(self):
        """Of online runs and of bandits, and with missing values."""
        found = self.found(columns(seconds=[3, 3], seconds_train=[2, 2.5], seconds_comm=[2, 0.25]))
        np.testing.assert_allclose(found["communication"], [1, 0.25])
        np.testing.assert_allclose(found["bookkeeping"], [0, 0.25])
        # The rank that trains longest waits, too, for a core: as far as there is room.
        found = self.found(columns(seconds=[3, 3], seconds_train=[2, 2], seconds_comm=[0.5, 0.5],
                                   seconds_wait=[2, 0.25]))
        np.testing.assert_allclose(found["waiting"], [0.5, 0.25])
        self.found(columns(seconds=[3.0]))
        self.found(columns(seconds=[1.0], seconds_train=[1.0001], seconds_comm=[-1e-9]))
        self.assertEqual(float(np.sum(phases(columns(seconds=[np.nan], seconds_train=[1])))), 0)

    def test_the_median_round(self):
        """Medians of each phase would be of other rounds: here they would sum to 4 or to 8."""
        rng = np.random.default_rng(1)
        for n in (1, 2, 3, 4, 40, 41):
            values = rng.uniform(size=(len(NAMES), n)) ** 3
            seconds = values.sum(axis=0)
            self.assertAlmostEqual(median_phases(seconds, values).sum(), np.median(seconds))
        turns = [[4, 2, 0] * 7, [0, 2, 4] * 7]
        np.testing.assert_allclose(median_phases([4] * 21, turns), [2, 2], atol=0.5)
        np.testing.assert_allclose(median_phases([0, 0], [[0, 0], [0, 0]]), [0, 0])


class Pictures(ScriptTest):
    """make_run(): rounds of 20 ms, of which 12 train, and the most communication is 1 to 40 ms."""

    def test_of_one_run(self):
        axis = charting.figure_of([charts.time], [Runs(self.make_run("one"))]).axes[0]
        tops = [band.get_paths()[0].vertices[:, 1].max() for band in axis.collections]
        self.assertAlmostEqual(max(tops), 20)
        title = axis.figure.legends[0].get_title().get_text()
        self.assertIn("The median round: 20 ms", title)
        self.assertIn("who trains less waits up to 2 ms", title)
        self.assertAlmostEqual(self.labelled(text.get_text()
                                             for text in axis.figure.legends[0].get_texts()), 20)

    def labelled(self, labels):
        return sum(float(re.search(r": ([\d.]+) ms", label)[1]) for label in labels)

    def test_of_several_runs(self):
        runs = [Runs(self.make_run(name)) for name in "ab"]
        axis = charting.figure_of([charts.time], runs).axes[0]
        ends = [bar.get_x() + bar.get_width() for bar in axis.patches]
        self.assertAlmostEqual(max(ends), 20)
        self.assertEqual([text.get_text() for text in axis.texts], ["20 ms"] * 2)


if __name__ == "__main__":
    unittest.main()
