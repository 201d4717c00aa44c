"""The charts of runs with a virtual clock: durations, staleness, and lanes of the first arrivals."""
import json
import pathlib
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

from shared import charts_of_time  # noqa: E402
from shared.figures import COLOURS  # noqa: E402
from shared.run_files import Runs, runs_of  # noqa: E402
from hanse.several import places  # noqa: E402

HEAD = "round,client,weight,samples,steps,seconds,received,staleness,counted,"\
    "state,start,arrival\n"
# FedBuff by hand: durations 2, 3, 5 and 7 s, three clients at once, versions of two arrivals; a line a
# version: its second, and (client, received, start) of its members.
DURATIONS = [2, 3, 5, 7]
VERSIONS = [(3, [(0, 0, 0), (1, 0, 0)]), (5, [(2, 0, 0), (0, 1, 3)]), (9, [(3, 0, 2), (1, 2, 5)]),
            (10, [(2, 2, 5), (0, 2, 8)])]


class TimeTest(ScriptTest):
    def make(self, name, versions=VERSIONS, durations=DURATIONS, job="", stale="0,0", more=""):
        """A run directory with these versions, and a line of participation.csv more."""
        run = self.make_run(name, rounds=len(versions))
        table = (run / "rounds.csv").read_text().splitlines()
        self.write(f"{name}/rounds.csv", "\n".join(
            [f"{table[0]},virtual_seconds,staleness_mean,staleness_max",
             *(f"{line},{second},{stale}" for line, (second, _) in zip(table[1:], versions))]) + "\n")
        self.write(f"{name}/participation.csv", HEAD + "".join(
            f"{place},{client},0.5,9,3,{durations[client]},{received},{place - 1 - received},1,counted,"
            f"{start},{start + durations[client]}\n"
            for place, (_, members) in enumerate(versions, 1)
            for client, received, start in members) + more)
        self.write(f"{name}/job.cfg", job)
        return run

    def make_buffered(self, name, versions=VERSIONS, durations=DURATIONS, slots=3):
        return self.make(name, versions, durations,
                         f"[async]\nkind = fedbuff\nconcurrency = {slots}\nbuffer = 2\n", "0.5,1")

    def add_classes(self, run, *counts):
        summary = json.loads((run / "summary.json").read_text())
        summary["metrics"].update({f"staleness_{least}": count
                                   for least, count in zip((0, 1, 2, 4), counts)})
        self.write(run / "summary.json", json.dumps(summary))

    def draw(self, chart, *runs):
        figure, axis = pyplot.subplots()
        self.addCleanup(pyplot.close, figure)
        chart(axis, list(runs))
        return axis

    def tasks(self, run):
        tasks, _ = charts_of_time.first_arrivals(Runs(run))
        return [(task.client, task.received, task.start, task.end, task.counts) for task in tasks]

    def test_the_first_tasks_to_end(self):
        """A lost one ends when that is known, a late one with its round; of one that is carried to a
        later round the line there counts."""
        run = self.make("fates", VERSIONS[:2], more="1,3,0,9,,,0,,0,lost,0,1.5\n"
                        "1,2,0,9,,5,0,,0,late,0,5\n2,4,0,9,,8,1,,0,late,3,11\n")
        self.assertEqual(self.tasks(run), [(3, 0, 0, 1.5, False), (0, 0, 0, 2, True),
                                           (1, 0, 0, 3, True), (2, 0, 0, 5, True),
                                           (0, 1, 3, 5, True), (4, 1, 3, 5, False)])
        axis = self.draw(charts_of_time.lanes, Runs(run))
        crossed = {tuple(line.get_xydata()[0]) for line in axis.lines
                   if line.get_marker() == "X" and len(line.get_xdata())}
        self.assertEqual(crossed, {(1.5, 0), (5, 4)})

    def test_files_that_do_not_say_when_tasks_start(self):
        run = self.make_buffered("before")
        lines = (run / "participation.csv").read_text().splitlines()
        self.write("before/participation.csv",
                   "".join(line.rsplit(",", 3)[0] + "\n" for line in lines))
        self.assertFalse(self.draw(charts_of_time.lanes, Runs(run)).has_data())

    def test_lanes(self):
        axis = self.draw(charts_of_time.lanes, Runs(self.make_buffered("hand")))
        bars = {(bar.get_x(), bar.get_width()): to_hex(bar.get_facecolor()).upper()
                for bar in axis.patches}
        self.assertEqual([bars[key] for key in ((0, 2), (0, 5), (3, 2), (5, 5), (8, 2))],
                         [COLOURS[0], COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[2]])
        folded = {tuple(line.get_xydata()[0]) for line in axis.lines
                  if line.get_marker() == "D" and len(line.get_xdata())}
        self.assertEqual(folded, {(3, 0), (5, 0), (10, 0), (3, 1), (9, 1), (5, 2), (10, 2), (9, 3)})
        self.assertEqual([label.get_text() for label in axis.get_yticklabels()],
                         [f"site, {client}" for client in range(4)])
        self.assertEqual(axis.get_title("left") or axis.get_title(),
                         "The first 8 arrivals: who trained when")

    def test_participation_by_duration(self):
        """Who is drawn and too late has a duration, and did not count."""
        run = Runs(self.make("late", more="2,4,0,9,,11,1,,0,late,3,14\n"))
        axis = self.draw(charts_of_time.participations, run)
        points = [tuple(map(float, point)) for point in axis.collections[0].get_offsets()]
        self.assertEqual(points, [(2, 3), (3, 2), (5, 2), (7, 1), (11, 0)])

    def test_equal_points_of_two_runs_are_two(self):
        first, second = Runs(self.make("first")), Runs(self.make("second"))
        axis = self.draw(charts_of_time.participations, first, second)
        below, above = axis.collections
        self.assertEqual(below.get_offsets().tolist(), above.get_offsets().tolist())
        self.assertNotEqual(below.get_paths()[0].vertices.tolist(),
                            above.get_paths()[0].vertices.tolist())
        self.assertGreater(below.get_sizes()[0], above.get_sizes()[0])
        for drawn, color in ((below, COLOURS[0]), (above, COLOURS[1])):
            self.assertEqual(len(drawn.get_facecolors()), 0)  # nothing that could cover the other
            self.assertEqual({to_hex(edge, True) for edge in drawn.get_edgecolors()},
                             {to_hex(color, True)})

    def test_staleness(self):
        first, second = self.make_buffered("first"), self.make_buffered("second")
        self.add_classes(first, 3, 1, 0, 0)
        self.add_classes(second, 1, 0, 1, 0)
        axis = self.draw(charts_of_time.staleness_histogram, Runs(first))
        self.assertEqual([bar.get_height() for bar in axis.patches], [75, 25])
        axis = self.draw(charts_of_time.staleness_histogram, Runs(first), Runs(second))
        self.assertEqual([bar.get_height() for bar in axis.patches], [75, 25, 50, 0, 50])
        self.assertEqual([label.get_text() for label in axis.get_xticklabels()], ["0", "1", "2 to 3"])
        axis = self.draw(charts_of_time.staleness_over_rounds, Runs(first))
        self.assertEqual([list(line.get_ydata()) for line in axis.lines], [[0.5] * 4])

    def test_accuracy_over_virtual_time(self):
        run = self.make_run("long")
        table = (run / "rounds.csv").read_text().splitlines()
        self.write("long/rounds.csv", "\n".join(
            [f"{table[0]},virtual_seconds", *(f"{line},{2.5 * place}"
                                              for place, line in enumerate(table[1:], 1))]) + "\n")
        axis = self.draw(charts_of_time.reached_over_virtual_time, Runs(run))
        self.assertEqual(list(axis.lines[0].get_xdata()), [10 * place for place in range(11)])
        without = Runs(self.make_run("without"))
        self.assertFalse(self.draw(charts_of_time.reached_over_virtual_time, Runs(run),
                                   without).has_data())
        self.assertFalse(without.complaints)

    def test_pictures(self):
        """A run with a clock has two pictures more, a report their section; other runs have neither."""
        run = self.make_buffered("hand")
        self.add_classes(run, 3, 1)
        result = self.call("plot", run)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual([line.rpartition("/")[2] for line in result.stdout.splitlines()],
                         [f"{name}.png" for name in
                          "learning clients participation clock lanes time".split()])
        page = pathlib.Path(self.call("report", run).stdout.strip()).read_text()
        self.assertIn("Virtual time", page)
        self.assertIn("who trained when", page)
        plain = self.make_run("plain")
        self.assertNotIn("clock", self.call("plot", plain).stdout)

    def test_means_of_runs_and_damaged_files(self):
        several = runs_of(places(self.make_repeats("several", [0.25, 0.5])))
        for chart in (*charts_of_time.CHARTS, charts_of_time.lanes):
            self.assertFalse(self.draw(chart, *several).has_data())
        run = self.make_buffered("damaged")
        self.write("damaged/summary.json", "{")
        self.write("damaged/participation.csv", "round,client\n1,2\n")
        result = self.call("plot", run)
        self.assertEqual(result.returncode, 2)
        self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    unittest.main()
