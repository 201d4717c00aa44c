"""The trade-off curve of an audit: what a claim allows, and the figure of a file."""
import math
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from shared import audit_curve  # noqa: E402
from hanse.errors import Refused  # noqa: E402

HEADER = "threshold,without,with,epsilon,delta\n"


class AuditCurve(ScriptTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(plt.close, "all")

    def curve(self, text):
        return self.write("curve.csv", text)

    def test_a_claim_allows_what_its_definition_says(self):
        epsilon, delta = 1.5, 0.01
        shares = np.linspace(0, 1, 101)
        most = audit_curve.most_with(shares, epsilon, delta)
        self.assertAlmostEqual(most[0], delta)
        self.assertAlmostEqual(most[-1], 1)
        for x, y in zip(shares, most):
            # P(E) <= e^eps P'(E) + delta, of the event and of its complement; one of them is tight.
            rooms = (math.exp(epsilon) * x + delta - y,
                     math.exp(epsilon) * (1 - y) + delta - (1 - x))
            self.assertGreaterEqual(min(rooms), -1e-12)
            self.assertTrue(y == 1 or min(rooms) < 1e-12, x)

    def test_the_figure_has_the_points_and_the_claim(self):
        path = self.curve(HEADER + "1,0,0.25,2,0.01\n0,0.5,0.75,2,0.01\n")
        axis = plt.figure().add_subplot()
        audit_curve.chart_of(path)(axis, [])
        measured, claim, _ = axis.get_lines()
        self.assertEqual(list(measured.get_xdata()), [0, 0, 0.5, 1])
        self.assertEqual(list(measured.get_ydata()), [0, 0.25, 0.75, 1])
        self.assertIn("epsilon 2", claim.get_label())

    def test_plot_draws_it_beside_the_file(self):
        path = self.curve(HEADER + "1,0,0.25,2,0.01\n")
        self.assertEqual(self.call("plot", path).returncode, 0)
        self.assertTrue((self.folder / "curve.pdf").is_file())

    def test_another_file_is_refused(self):
        for text in ("round,loss\n1,2\n", HEADER, HEADER + "1,0,x,2,0.01\n"):
            with self.assertRaises(Refused):
                audit_curve.read(self.curve(text))


if __name__ == "__main__":
    unittest.main()
