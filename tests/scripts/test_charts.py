"""The numbers that the charts of runs draw, against those of made-up files."""
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from shared import charting, charts, run_files  # noqa: E402
from shared import charts_of_rules as rules  # noqa: E402


class ChartTest(ScriptTest):
    def axis(self, chart, *runs):
        """The chart's axis; None where it shows nothing."""
        figure = charting.figure_of([chart], [run_files.Runs(run) for run in runs])
        self.addCleanup(plt.close, "all")
        return figure and figure.axes[0]

    def assert_line(self, axis, x, y, number=0, label=None):
        line = axis.lines[number]
        np.testing.assert_allclose(line.get_xdata(), x)
        np.testing.assert_allclose(line.get_ydata(), y)
        if label:
            self.assertEqual(line.get_label(), label)

    def assert_band(self, axis, at, low, high, number=0):
        """The band's ends at one x."""
        (path,) = axis.collections[number].get_paths()
        ends = path.vertices[path.vertices[:, 0] == at, 1]
        np.testing.assert_allclose([ends.min(), ends.max()], [low, high], rtol=1e-6)

    # make_run: evaluations at 0, 4, ... 40; at t loss 2 / (t + 1), training loss 1 / (t + 1),
    # accuracy t / 100, worst t / 200, best t / 90; client i has accuracy i / 10 and 5 2^i samples.
    def test_learning(self):
        run, rounds = self.make_run("one"), np.arange(0, 41, 4)
        axis = self.axis(charts.accuracy, run)
        self.assert_line(axis, rounds, rounds)
        self.assert_band(axis, 20, 10, 2000 / 90)
        self.assertEqual([text.get_text() for text in axis.texts], ["40.0 %"])
        axis = self.axis(charts.loss, run)
        self.assert_line(axis, rounds, 2 / (rounds + 1), label="test loss, mean")
        self.assert_line(axis, rounds, 1 / (rounds + 1), 1, "training loss, mean")
        self.assertIsNone(self.axis(charts.worst_accuracy, run))
        axis = self.axis(charts.worst_accuracy, run, self.make_run("two"))
        self.assert_line(axis, rounds, rounds / 2, 1)

    def test_torn_lines_are_left_out(self):
        run = self.make_run("torn")
        for name in ("rounds.csv", "evaluations.csv"):
            with open(run / name, "a") as file:
                file.write("44,3")
        axis = self.axis(charts.accuracy, run)
        self.assert_line(axis, np.arange(0, 41, 4), np.arange(0, 41, 4))

    def test_metrics_and_classes(self):
        run, rounds = self.make_run("asked"), np.arange(0, 41, 4)
        self.add_metrics(run)
        axis = self.axis(lambda axis, runs: charts.asked_metric(axis, runs, "f1"), run)
        self.assert_line(axis, rounds, np.full(11, 0.5))
        self.assert_band(axis, 8, 0.25, 0.75)
        self.assert_line(self.axis(charts.common_accuracy, run), rounds, np.full(11, 62.5))
        axis = self.axis(charts.classes, run)
        self.assert_line(axis, [4, 8], [50, 60], 0, "class 0")
        self.assert_line(axis, [4, 8], [70, 80], 1, "class 1")

    def test_attackers(self):
        run = self.make_run("attacked")
        self.write("attacked/evaluations.csv", "round,attack_success\n4,0.5\n8,0.25\n")
        self.write("attacked/rounds.csv", "round,seconds,kappa_hat\n1,1,2\n2,1,3\n")
        self.assert_line(self.axis(charts.attack_success, run), [4, 8], [50, 25])
        (chart,) = charts.rules.columns_of_rules([run_files.Runs(run)])
        self.assert_line(self.axis(chart, run), [1, 2], [2, 3])

    def test_clients(self):
        run = self.make_run("one")
        axis = self.axis(charts.clients, run)
        values = 10 * np.arange(8)
        self.assert_line(axis, np.r_[0, values], np.r_[0, 12.5 * np.arange(1, 9)], 0, "clients")
        np.testing.assert_allclose(axis.lines[1].get_xdata(), [35, 35])  # the mean
        self.assert_line(axis, [80, 80, 90], [0, 50, 100], 2, "held-out clients")
        (points,) = self.axis(charts.sizes, run).collections
        np.testing.assert_allclose(points.get_offsets(),
                                   np.transpose([5 * 2 ** np.arange(8), values]))

    def test_history(self):
        run = self.make_run("history")
        self.add_history(run)
        _, columns = run_files.Runs(run).history()
        accuracy = 100 * columns["accuracy"]
        axis = self.axis(charts.quantiles, run)
        self.assert_line(axis, [0, 4, 8], np.nanmedian(accuracy, axis=1))
        self.assert_band(axis, 4, np.nanmin(accuracy[1]), np.nanmax(accuracy[1]))
        self.assert_band(axis, 4, *np.nanquantile(accuracy[1], [0.1, 0.9]), number=1)
        axis = self.axis(charts.gains, run)  # four win 2 %, five lose 4 %
        self.assert_band(axis, 8, 0, 2)
        self.assert_band(axis, 0, 0, 0)
        self.assert_band(axis, 0, -4, 0, number=1)
        self.assert_band(axis, 8, 0, 0, number=1)

    def test_confusion_and_labels(self):
        run = self.make_run("data")
        self.write("data/confusion.csv", "label,predicted,samples\n0,0,5\n0,1,3\n1,1,8\n")
        (image,) = self.axis(charts.confusion, run).images
        np.testing.assert_allclose(image.get_array(), [[62.5, 37.5], [0, 100]])
        self.write("data/partition.csv", "client,name,label,class,train,test\n"
                   "0,a,0,cat,5,1\n1,b,2,dog,2,0\n1,b,0,cat,1,1\n")
        (image,) = self.axis(charts.labels, run).images
        np.testing.assert_allclose(image.get_array().filled(0), [[6, 2], [0, 0], [0, 2]])
        axis = self.axis(charts.samples, run)
        self.assertEqual(axis.dataLim.y1, 6)
        self.assert_band(axis, 1.5, 0, 4)

    def test_bytes(self):
        plain, small = self.make_run("plain"), self.make_run("small")
        self.add_bytes(plain, "none", 4000000)
        self.add_bytes(small, "top-k", 80000)
        self.assertIsNone(self.axis(charts.quality_of_bytes, plain))
        axis, rounds = self.axis(charts.quality_of_bytes, plain, small), np.arange(0, 41, 4)
        self.assert_line(axis, 4 * rounds, rounds)
        self.assert_line(axis, 0.08 * rounds, rounds, 1)
        axis = self.axis(charts.bytes_sent, plain)
        self.assert_line(axis, np.arange(1, 41), 1e-4 * np.arange(1, 41))

    def test_time(self):
        run = self.make_run("time", rounds=8)
        self.write("time/rounds.csv", "round,clients,seconds,seconds_train,seconds_comm,"
                   "seconds_wait,bytes_sent\n" + "".join(
                       f"{t},3,0.02,0.012,0.004,0.001,0\n" for t in range(1, 9)))
        axis = self.axis(charts.time, run)
        labels = [part.get_label() for part in axis.collections]
        self.assertEqual(labels, ["training: 12 ms", "communication: 4 ms", "waiting: 1 ms",
                                  "bookkeeping: 3 ms"])
        self.assert_band(axis, 4, 0, 12)
        self.assert_band(axis, 4, 17, 20, number=3)
        axis = self.axis(charts.time, run, run)
        self.assertEqual([text.get_text() for text in axis.texts], ["20 ms"] * 2)
        widths = [bar.get_width() for bars in axis.containers for bar in bars]
        np.testing.assert_allclose(widths, [12, 12, 4, 4, 1, 1, 3, 3])

    def test_online_and_bandits(self):
        run = self.make_run("online")
        lines = [f"{t},{i},0.5,{0.25 * i},{0.5 * t + i},{0.01 * t},1" for t in range(1, 9)
                 for i in range(3)]
        self.write("online/online.csv", "\n".join(
            ["round,node,loss,accuracy,cumulative_loss,regret,mixed", *lines]) + "\n")
        rounds = np.arange(1, 9)
        axis = self.axis(lambda axis, runs: charts.nodes(axis, runs, "accuracy"), run)
        self.assert_line(axis, rounds, np.full(8, 50), 2)
        axis = self.axis(lambda axis, runs: charts.nodes(axis, runs, "cumulative_loss"), run)
        self.assert_line(axis, rounds, 0.5 * rounds + 1, 1)
        axis = self.axis(lambda axis, runs: charts.nodes(axis, runs, "cumulative_loss"), run, run)
        self.assert_line(axis, rounds, 0.5 * rounds + 1, 1)  # the mean of the nodes
        self.write("online/bandit.csv", "round,repeat,regret,scalars_sent\n" + "".join(
            f"{t},{r},{t * (r + 1)},{100 * t}\n" for t in rounds for r in range(3)))
        axis = self.axis(lambda axis, runs: charts.bandit(axis, runs, "regret"), run)
        self.assert_line(axis, rounds, 2 * rounds)
        half = 4.302652729911275 / 3 ** 0.5  # of 1, 2 and 3: t of 0.975 with 2 degrees of freedom
        self.assert_band(axis, 4, 4 * (2 - half), 4 * (2 + half))

    def test_decisions(self):
        run = self.make_run("fair")
        self.write("fair/decisions.csv", "round,p_0,p_1,p_2,p_3\n1,0.25,0.25,0.25,0.25\n"
                                         "2,0.1,0.7,0.1,0.1\n")
        self.assert_line(self.axis(rules.concentration, run), [1, 2], [4, 1 / 0.52])
        axis = self.axis(rules.decisions, run)
        self.assert_line(axis, [1, 2], [0.25, 0.7], 0, "site, 1: 0.7")
        self.assert_line(axis, [1, 2], [0.25, 0.1], 1, "site, 0: 0.1")
        self.write("fair/weights.csv", "round,node,p_0,p_1\n8,0,0.75,0.25\n8,1,0.5,0.5\n")
        (image,) = self.axis(lambda axis, runs: rules.weight_matrix(axis, runs, 3), run).images
        np.testing.assert_allclose(image.get_array(), [[0.75, 0.25], [0.5, 0.5]])

    def test_sampling(self):
        run = self.make_run("sampled", rounds=20)
        self.write("sampled/sampling.csv",
                   "round,available,variance_estimate,variance,best_variance,regret\n" + "".join(
                       f"{t},{90 + t},{5 / t},{4 / t},{1 / t},{3 * t}\n" for t in range(1, 21)))
        table = (run / "evaluations.csv").read_text().splitlines()
        names = "entropy min p10 median p90 max".split()
        head = ",".join([table[0], *(f"sampling_{name}" for name in names)])
        lines = [f"{line},{np.log(50)},0.01,0.015,0.02,0.03,0.04" for line in table[1:]]
        self.write(run / "evaluations.csv", "\n".join([head, *lines]) + "\n")
        rounds, every = np.arange(1, 21), np.arange(0, 21, 4)
        axis = self.axis(rules.variance, run)
        for number, factor in enumerate((5, 4, 1)):
            self.assert_line(axis, rounds, factor / rounds, number)
        self.assert_line(self.axis(rules.regret, run), rounds, 3 * rounds)
        self.assert_line(self.axis(rules.entropy, run), every, np.full(6, 50))
        axis = self.axis(rules.probabilities, run)
        self.assert_line(axis, every, np.full(6, 0.02))
        self.assert_band(axis, 8, 0.01, 0.04)
        self.assert_band(axis, 8, 0.015, 0.03, number=1)
        self.assert_line(self.axis(rules.participants, run), rounds, 90 + rounds, 0, "available")

    def test_directions(self):
        run = self.make_run("turned")
        self.write("turned/directions.csv", "round,client,weight,rate,angle\n1,0,1,1,80\n"
                                            "1,1,1,1,95\n2,0,1,1,70\n2,1,1,1,85\n")
        self.write("turned/rounds.csv", "round,seconds,squared_norm,scale\n1,1,4,0.5\n2,1,9,0\n")
        axis = self.axis(rules.angles, run)
        self.assert_line(axis, [1, 2], [80, 70], 0, "site, 0")
        self.assert_line(axis, [1, 2], [95, 85], 1)
        axis = self.axis(rules.step, run)
        self.assert_line(axis, [1, 2], [2, 3], 0, "found")
        self.assert_line(axis, [1, 2], [1, np.nan], 1, "taken")


if __name__ == "__main__":
    unittest.main()
