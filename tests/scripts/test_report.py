"""scripts/report on made-up run directories: one run, several, interrupted and damaged ones."""
import html.parser
import json
import re
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import numpy as np  # noqa: E402

from shared import svg_chart  # noqa: E402

VOID = {"meta"}


class Page(html.parser.HTMLParser):
    """Headings, titles of charts, table rows and outer addresses of a page; tags must balance."""

    def __init__(self, text):
        super().__init__()
        self.open, self.titles, self.rows, self.addresses = [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.titles.append(data)
        if "tr" in self.open and self.open[-1] in ("th", "td"):
            self.rows[-1].append(data)


class ReportTest(ScriptTest):
    def report(self, *runs):
        """The page of these runs, which must need nothing from outside."""
        out = self.folder / "page.html"
        result = self.script("report", *map(str, runs), "-o", str(out))
        self.assertEqual((result.returncode, result.stderr, result.stdout), (0, "", f"{out}\n"))
        text = out.read_text()
        page = Page(text)
        self.assertEqual(page.addresses, [])
        self.assertNotRegex(text, r"url\(|@import|https?:")
        return page, text

    def test_metrics_that_were_asked_for(self):
        run = self.make_run("asked")
        self.add_metrics(run)
        _, text = self.report(run)
        for title in ("F1 of class 1", "worst to best client", "Accuracy of each class", "class 1",
                      "Accuracy, common test set"):
            self.assertIn(title, text)
        self.assertNotIn("Area under", text)

    def test_accuracy_and_bytes(self):
        plain, small = self.make_run("plain"), self.make_run("small")
        self.add_bytes(plain, "none", 4000000)
        self.assertNotIn("what they have sent", self.report(plain)[1])
        self.add_bytes(small, "top-k", 80000)
        page, _ = self.report(plain, small)
        self.assertIn("Test accuracy, mean of clients, by what they have sent", page.titles)

    def test_clients_over_time(self):
        run = self.make_run("history")
        self.add_history(run)
        page, text = self.report(run)
        self.assertIn("Gain of each client: 4 gained, 5 lost", page.titles)
        self.assertIn("Label (row) and the class that samples are taken for (column)", page.titles)
        self.assertIn("0 taken for 1: 3 samples, 37.5 %", text)

    def test_one_run(self):
        run = self.make_run("alone")
        self.write("alone/job.cfg", "[run]\nprotocol = federated\nseed = 7\n[client]\nlr = <0.1>\n")
        page, text = self.report(run)
        for title in ("alone", "Learning", "Test accuracy over clients", "Fairness", "Participation",
                      "Where the time went", "Metrics", "Job file"):
            self.assertIn(title, page.titles)
        self.assertIn(["test accuracy, mean of clients", "50.00 %"], page.rows)
        self.assertIn(["evaluated on", "test samples"], page.rows)
        self.assertIn("Each client on its own test samples", text)
        self.assertIn("lr = &lt;0.1&gt;", text)
        self.assertIn("seed 7", text)
        self.assertNotIn("Not finished", text)
        self.assertIn("prefers-color-scheme: dark", text)

    def test_curves_are_those_of_the_files(self):
        _, text = self.report(self.make_run("alone"))
        data = [json.loads(html.unescape(found)) for found in
                re.findall(r'aria-label="Test accuracy over clients" data-curves="([^"]*)"', text)]
        curve = data[0]["curves"][0]
        self.assertEqual(curve["at"], [str(i) for i in range(0, 41, 4)])
        self.assertEqual([float(y) for y in curve["y"]], [float(i) for i in range(0, 41, 4)])

    def test_comparison(self):
        runs = [self.make_run(name) for name in ("a", "b")]
        self.write("a/job.cfg", "[run]\nout = a\n[client]\nlr = 0.1  # step\nbatch = 5\n")
        self.write("b/job.cfg", "[run]\nout = b\n[client]\nlr = 0.2\nbatch = 5\n")
        self.write("b/summary.json", json.dumps({"metrics": {"accuracy_mean": 0.75}}))
        page, text = self.report(*runs)
        self.assertIn(["client.lr", "0.1", "0.2"], page.rows)
        self.assertFalse([row for row in page.rows if row[:1] in (["client.batch"], ["run.out"])])
        self.assertIn(["accuracy, mean of clients", "50.00 %", "75.00 %"], page.rows)
        self.assertIn('<td class="number best">75.00 %', text)

    def test_the_best_stands_out_where_runs_can_be_compared(self):
        """Not among runs of unlike length, data or evaluated samples."""
        for change, words in [({}, None),
                              ({"rounds": 80}, "runs of unlike length: 40 and 80 rounds"),
                              ({"split": "train"}, "evaluated on unlike samples: test and train"),
                              ({"data_digest": "b"}, "unlike data")]:
            with self.subTest(change=change):
                runs = [self.make_run(name) for name in ("a", "b")]
                for run, accuracy, own in zip(runs, (0.5, 0.75), ({}, change)):
                    summary = json.loads((run / "summary.json").read_text())
                    summary["metrics"]["accuracy_mean"] = accuracy
                    self.write(run / "summary.json",
                               json.dumps({**summary, "data_digest": "a", **own}))
                _, text = self.report(*runs)
                self.assertIn("75.00 %", text)
                self.assertEqual('<td class="number best">75.00 %' in text, words is None)
                self.assertEqual("Caution: " in text, words is not None)
                self.assertIn(words or "", text)

    def test_repeats_are_means(self):
        run = self.make_repeats("several", [0.25, 0.5, 0.75], job="[sampler]\nkind = osmd\n")
        page, text = self.report(run)
        self.assertIn("made: 3 runs", page.titles)
        self.assertIn(["runs; mean (deviation)", "3"], page.rows)
        self.assertIn(["test accuracy, mean of clients", "50.00 % (25.00)"], page.rows)
        self.assertIn("a band is one standard deviation", text)
        self.assertIn("Each run of a mean has data of its own", text)
        pattern = r'aria-label="Test accuracy over clients" data-curves="([^"]*)"'
        (data,) = [json.loads(html.unescape(found)) for found in re.findall(pattern, text)]
        self.assertEqual([float(y) for y in data["curves"][0]["y"]], [50.0 * i for i in range(11)])
        other = self.make_repeats("other", [0.1, 0.3, 0.5], job="[sampler]\nkind = uniform\n")
        page, text = self.report(run, other)
        self.assertIn(["test accuracy, mean of clients", "50.00 % (25.00)", "30.00 % (20.00)"],
                      page.rows)
        self.assertIn("2 jobs, 6 runs", page.titles)
        self.assertIn(["sampler.kind", "osmd", "uniform"], page.rows)
        self.assertIn("osmd (3 runs)", text)
        self.assertIn('<td class="number best">50.00 % (25.00)', text)  # of the same data

    def test_training_numbers_are_called_so(self):
        page, text = self.report(self.make_run("alone", split="train"))
        self.assertIn("Training accuracy over clients", page.titles)
        self.assertIn(["training loss, mean of clients", "1.5000"], page.rows)
        self.assertIn("Each client on its own training samples", text)
        self.assertNotIn("est loss", text)

    def test_interrupted_run(self):
        """At every stage of a run there is a page, of what is there."""
        run = self.make_run("torn", summary=False)
        for name in ("rounds.csv", "evaluations.csv"):
            with open(run / name, "a") as file:
                file.write("41,3")
        page, text = self.report(run)
        self.assertIn("Not finished: torn", text)
        # Of the last evaluation.
        self.assertIn(["test accuracy, mean of clients", "40.00 %"], page.rows)
        for name in ("clients.csv", "evaluations.csv"):
            (run / name).unlink()
            page, _ = self.report(run)
            self.assertIn("Where the time went", page.titles)
        self.assertNotIn("Fairness", page.titles)
        self.write("torn/rounds.csv", "round,clients,seconds\n")
        self.report(run)

    def test_online_and_bandit_runs(self):
        run = self.make_run("online")
        lines = [f"{t},{i},0.5,{0.25 * i},{0.5 * t},{0.01 * t},1" for t in range(1, 9)
                 for i in range(3)]
        self.write("online/online.csv", "\n".join(
            ["round,node,loss,accuracy,cumulative_loss,regret,mixed", *lines]) + "\n")
        self.write("online/weights.csv", "round,node,p_0,p_1,p_2\n" + "".join(
            f"8,{i},0.5,0.25,0.25\n" for i in range(3)))
        page, text = self.report(run)
        self.assertIn("Online", page.titles)
        self.assertEqual(text.count('title="site, '), 9)
        run = self.make_run("bandit")
        lines = [f"{t},{r},{t * (r + 1)},{100 * t}" for t in range(1, 9) for r in range(3)]
        self.write("bandit/bandit.csv", "\n".join(["round,repeat,regret,scalars_sent", *lines]))
        page, text = self.report(run)
        self.assertIn("Regret since the first phase", page.titles)
        self.assertNotIn("Learning", page.titles)

    def test_decisions_and_participation(self):
        run = self.make_run("fair")
        head = "round," + ",".join(f"p_{i}" for i in range(20))
        weights = [0.62] + 19 * [0.02]
        self.write("fair/decisions.csv", head + "\n" + "".join(
            f"{t}," + ",".join(map(str, weights)) + "\n" for t in (1, 2)))
        self.write("fair/trace-sampler.json", json.dumps(
            {"clients": 4, "rounds": [{"draws": [0, 0, 1]}, {"draws": [1, 3]}]}))
        _, text = self.report(run)
        self.assertIn("site, 0", text)
        data = re.findall(r'aria-label="How often clients took part" data-curves="([^"]*)"', text)
        self.assertEqual(json.loads(html.unescape(data[0]))["curves"][0]["y"],
                         ["0", "1", "1", "2"])  # a client drawn twice took part once

    def test_what_a_rule_tells_of_its_rounds(self):
        run = self.make_run("rule")
        self.write("rule/rounds.csv", "round,clients,seconds,squared_norm,ridge\n" + "".join(
            f"{t},3,0.1,{t * t},0\n" for t in range(1, 9)))
        page, _ = self.report(run)
        self.assertIn("Of each round: squared norm", page.titles)
        self.assertNotIn("Of each round: ridge", page.titles)  # it never moves

    def test_default_place_and_bad_input(self):
        run = self.make_run("here")
        self.assertEqual(self.script("report", str(run)).stdout, f"{run}/report.html\n")
        self.assert_one_line_error(self.script("report", str(self.folder / "no")), "no", "hint")
        self.write("file", "")
        result = self.script("report", str(run), "-o", str(self.folder / "file" / "x.html"))
        self.assert_one_line_error(result, "hint")


class ChartTest(unittest.TestCase):
    def test_ticks(self):
        self.assertEqual(svg_chart.linear_ticks(0, 10), [0, 2, 4, 6, 8, 10])
        np.testing.assert_allclose(svg_chart.linear_ticks(0.13, 0.31), [0.15, 0.2, 0.25, 0.3])
        self.assertEqual(svg_chart.log_ticks(0.4, 20), [0.5, 1, 2, 5, 10, 20])
        for low, high in ((0, 1e-9), (-5, 5), (1e8, 3e8), (99, 100)):
            self.assertIn(len(svg_chart.linear_ticks(low, high)), range(2, 7))

    def test_numbers(self):
        for value, text in [(0, "0"), (0.25, "0.25"), (9999, "9999"), (12345, "12.35k"),
                            (-2.5e6, "-2.5M"), (3e9, "3G"), (1e-5, "1e-05")]:
            self.assertEqual(svg_chart.number(value), text)

    def test_path_breaks_at_missing_values(self):
        self.assertEqual(svg_chart.path([0, 1, 2, 3], [5, np.nan, 6, 7]),
                         "M0.0 5.0M2.0 6.0L3.0 7.0")

    def test_constant_and_missing_curves(self):
        for values in ([3.0, 3.0], [0.0, 0.0], [np.nan, np.nan]):
            for log in (False, True):
                chart = svg_chart.Chart("t", "x", "y", log_y=log)
                chart.line(np.array([1.0, 2.0]), np.array(values), "v")
                self.assertNotIn("nan", chart.svg().lower())

    def test_long_curves_are_thinned_and_keep_their_end(self):
        x, y = svg_chart.thin(np.arange(5000), np.arange(5000) ** 2)
        self.assertLessEqual(len(x), svg_chart.MOST_POINTS)
        self.assertEqual((x[0], x[-1], y[-1]), (0, 4999, 4999 ** 2))


if __name__ == "__main__":
    unittest.main()
