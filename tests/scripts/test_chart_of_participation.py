"""The chart of how often clients took part and what they have of it."""
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from matplotlib import pyplot  # noqa: E402

from shared.charts_of_rules import change_by_participation  # noqa: E402
from shared.run_files import Runs, runs_of  # noqa: E402
from hanse.several import places  # noqa: E402

HEAD = "round,client,weight,samples,steps,seconds,received,staleness,counted\n"


class ChartTest(ScriptTest):
    def make(self, name, accuracies, times):
        run = self.make_run(name)
        self.write(f"{name}/clients.csv", "client,name,split,held_out,samples,loss,accuracy\n" +
                   "".join(f"{i},,test,0,9,0.5,{value}\n" for i, value in enumerate(accuracies)))
        lines = [f"{t},{i},0.5,9,3,0.1,{t - 1},0,1\n" for i, n in enumerate(times)
                 for t in range(1, n + 1)]
        self.write(f"{name}/participation.csv", HEAD + "".join(lines) + "9,0,0,9,,,,,0\n")
        return run

    def draw(self, *runs):
        figure, axis = pyplot.subplots()
        self.addCleanup(pyplot.close, figure)
        change_by_participation(axis, list(runs))
        return axis, [[tuple(map(float, point)) for point in drawn.get_offsets()]
                      for drawn in axis.collections]

    def test_one_run(self):
        axis, (points,) = self.draw(Runs(self.make("one", [0.5, 0.25, 0.75], [2, 0, 3])))
        self.assertEqual(points, [(2, 50), (0, 25), (3, 75)])
        self.assertEqual(axis.get_title("left") or axis.get_title(),
                         "Participation of each client and its accuracy")

    def test_gains_where_clients_were_followed(self):
        run = self.make_run("followed")
        self.add_history(run)
        self.write("followed/participation.csv", HEAD + "1,1,1,9,3,0.1,0,0,1\n")
        axis, (points,) = self.draw(Runs(run))
        clients, gains, _ = Runs(run).gains()
        self.assertEqual(points, [(float(client == 1), gain) for client, gain in zip(clients, gains)])
        self.assertEqual(axis.get_ylabel(), "gain in accuracy (%)")

    def test_a_run_beside_another(self):
        runs = [Runs(self.make("first", [0.5, 0.25], [1, 1])), Runs(self.make("other", [0.75, 0.0], [3, 0]))]
        axis, (points,) = self.draw(*runs)
        self.assertEqual(points, [(3, 25), (0, -25)])
        self.assertEqual(axis.get_ylabel(), "change of accuracy (%)")

    def test_nothing_without_the_file_and_of_means(self):
        axis, drawn = self.draw(Runs(self.make_run("plain")))
        self.assertEqual(drawn, [])
        self.assertFalse(axis.has_data())
        several = runs_of(places(self.make_repeats("several", [0.25, 0.5])))
        self.assertEqual(self.draw(*several)[1], [])
        self.assertEqual(self.draw(*several, Runs(self.make("one", [0.5], [1])))[1], [])


if __name__ == "__main__":
    unittest.main()
