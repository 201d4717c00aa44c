"""What the Python package and the pictures show of statistics, on a made-up run directory."""
import json
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402
from hanse.survival_figures import at_risk, groups_of  # noqa: E402

HEAD = "group,time,at_risk,events,censored,survival,standard_error,low,high,cumulative_hazard"
CURVES = {"all": [(1, 6, 1, 0, 5 / 6), (3, 5, 1, 1, 4 / 6), (8, 3, 1, 2, 4 / 9)],
          "drug": [(3, 3, 0, 1, 1), (8, 2, 0, 2, 1)],
          "placebo": [(1, 3, 1, 0, 2 / 3), (3, 2, 1, 0, 1 / 3), (8, 1, 1, 0, 0)]}


class StatisticsTest(ScriptTest):
    def make(self, curves=None):
        lines = [f"{group},{time},{risk},{events},{censored},{survival},0.1,"
                 f"{max(0, survival - 0.2)},{min(1, survival + 0.2)},0.5"
                 for group, steps in (curves or CURVES).items()
                 for time, risk, events, censored, survival in steps]
        self.write("run/job.cfg", "[run]\nprotocol = statistics\n")
        self.write("run/rounds.csv", "round,seconds\n1,0.5\n2,0.5\n")
        self.write("run/kaplan-meier.csv", "\n".join([HEAD, *lines]) + "\n")
        self.write("run/kaplan-meier-medians.csv",
                   "group,n,events,median,median_low,median_high\nall,6,3,8,1,\n")
        found = {"n": 6, "total_events": 3, "group": ["all"], "time": [1], "medians": {"group": ["all"]}}
        self.write("run/statistics.json", json.dumps({"kaplan-meier": found}))
        return self.folder / "run"

    def test_reads_a_frame_for_each_table(self):
        found = hanse.read(self.make()).statistics
        self.assertEqual(list(found), ["kaplan-meier", "kaplan-meier-medians"])
        self.assertEqual(found["kaplan-meier"].attrs, {"n": 6, "total_events": 3})
        self.assertEqual(len(found["kaplan-meier"]), 8)
        self.assertEqual(found["kaplan-meier-medians"]["median"][0], 8)

    def test_a_run_without_statistics_says_so(self):
        self.write("run/job.cfg", "")
        with self.assertRaisesRegex(FileNotFoundError, "no statistics.json"):
            hanse.read(self.folder / "run").statistics
        with self.assertRaisesRegex(FileNotFoundError, "no kaplan-meier.csv"):
            hanse.read(self.folder / "run").figure("kaplan-meier")

    def test_draws_each_group_with_its_numbers_at_risk(self):
        axis = hanse.read(self.make()).figure("kaplan-meier").axes[0]
        steps = {line.get_label(): line for line in axis.lines if line.get_label()[0] != "_"}
        self.assertEqual(list(steps), ["drug", "placebo"])
        self.assertEqual(list(steps["placebo"].get_xdata()), [0, 1, 3, 8])
        self.assertEqual(list(steps["placebo"].get_ydata()), [1, 2 / 3, 1 / 3, 0])
        ticks = list(axis.get_xticks())
        words = [text.get_text().strip() for text in axis.texts]
        self.assertEqual(words[0], "at risk")
        row = words.index("placebo") + 1
        numbers = dict(zip(ticks, words[row:row + len(ticks)]))
        self.assertEqual((numbers[0], numbers[2], numbers[4], numbers[8]), ("3", "2", "1", "1"))

    def test_only_what_is_known_is_at_risk(self):
        self.assertEqual(at_risk([1, 3], [5, 4], 0, 2), "4")
        self.assertEqual(at_risk([1, 3], [5, 4], 0, 4), "0")
        self.assertEqual(at_risk([1, 3], [5, 4], 2, 4), "–")  # a small risk set is hidden
        self.assertEqual(groups_of(["all", "all"]), ["all"])
        self.assertEqual(groups_of(["all", 1, 2, 2]), [1, 2])

    def test_knows_its_figures(self):
        with self.assertRaisesRegex(ValueError, "'pie'.*kaplan-meier"):
            hanse.read(self.make()).figure("pie")

    def test_a_forest_has_each_group_and_all_samples(self):
        self.make()
        self.write("run/glm-groups.csv", "group,n,name,coefficient,standard_error,refusal\n"
                   "A,9,(constant),1,1,\nA,9,age,0.5,0.1,\nB,8,(constant),1,1,\nB,8,age,0.9,0.2,\n"
                   "C,1,,,,no more samples than coefficients\n")
        self.write("run/glm-meta.csv", "name,groups,pooled,pooled_error,fixed,fixed_error,random,"
                   "random_error\n(constant),2,1,1,1,1,1,1\nage,2,0.6,0.1,0.58,0.09,0.65,0.2\n")
        axis = hanse.read(self.folder / "run").figure("forest").axes[0]
        labels = [label.get_text() for label in axis.get_yticklabels()]
        self.assertEqual(labels, ["A", "B", "random effect", "all samples"])
        self.assertEqual([line.get_xdata()[0] for line in axis.lines if line.get_marker() in "sD"],
                         [0.5, 0.9, 0.65, 0.6])

    def test_a_histogram_has_the_shares_of_each_group(self):
        self.make()
        lines = ["client,column,low,high,count"]
        for group, counts in {"all": (4, 4), "A": (1, 3), "B": (3, 1)}.items():
            lines += [f"{group},age,{low},{low + 10},{count}" for low, count in zip((20, 30), counts)]
        self.write("run/histogram.csv", "\n".join(lines) + "\n")
        axis = hanse.read(self.folder / "run").figure("histogram").axes[0]
        drawn = {patch.get_label(): list(patch.get_data().values) for patch in axis.patches}
        self.assertEqual(drawn, {"A": [0.25, 0.75], "B": [0.75, 0.25]})

    def test_plot_draws_curves(self):
        result = self.call("plot", self.make())
        self.assertEqual(result.returncode, 0, result.stderr)
        drawn = [line.rpartition("/")[2] for line in result.stdout.split()]
        self.assertEqual(drawn, ["survival.png", "time.png"])


if __name__ == "__main__":
    unittest.main()
