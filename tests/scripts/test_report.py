"""scripts/report on made-up run directories: one run, several, interrupted and damaged ones."""
import html.parser
import json
import re
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import numpy as np  # noqa: E402

from shared import charting, charts, charts_of_rules, figures, run_files  # noqa: E402

VOID = {"meta"}


class Page(html.parser.HTMLParser):
    """Headings, titles of charts, table rows and addresses of a page; tags must balance."""

    def __init__(self, text):
        super().__init__()
        self.open, self.titles, self.rows, self.addresses, self.ids = [], [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "figure":
            self.titles.append(dict(attributes)["aria-label"])
        if tag == "tr":
            self.rows.append([])

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes
                           if name in ("src", "href", "xlink:href")]
        self.ids += [value for name, value in attributes if name == "id"]

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
        result = self.call("report", *map(str, runs), "-o", str(out))
        self.assertEqual((result.returncode, result.stderr, result.stdout), (0, "", f"{out}\n"))
        text = out.read_text()
        page = Page(text)
        inner = "data:image/png;base64,"
        used = {where[1:] for where in page.addresses if not where.startswith(inner)} | set(re.findall(r"url\(#(\w+)\)", text))
        self.assertEqual(len(set(page.ids)), len(page.ids))
        self.assertLessEqual(used, set(page.ids))
        self.assertNotRegex(text, r"url\((?!#)|@import|https?:|<script")
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
        self.assertIn("What samples are taken for", page.titles)
        self.assertIn(">38</text>", text)  # of 100 samples of class 0

    def test_one_run(self):
        run = self.make_run("alone")
        self.write("alone/job.cfg", "[run]\nprotocol = federated\nseed = 7\n[client]\nlr = <0.1>\n")
        page, text = self.report(run)
        for title in ("alone", "Learning", "Test accuracy over clients", "Fairness",
                      "Where the time went", "Metrics", "Job file"):
            self.assertIn(title, page.titles)
        self.assertIn(["test accuracy, mean of clients", "50.00 %"], page.rows)
        self.assertIn(["evaluated on", "test samples"], page.rows)
        self.assertIn("Each client on its own test samples", text)
        self.assertIn("lr = &lt;0.1&gt;", text)
        self.assertIn("seed 7", text)
        self.assertNotIn("Not finished", text)
        self.assertIn("prefers-color-scheme: dark", text)

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
        self.assertIn(">n = 3, band: 95 % interval</text>", text)
        self.assertIn(">n = 3</text>", text)  # of the clients, which have no band
        self.assertIn("Each run of a mean has data of its own", text)
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
        # The page has the last evaluation's.
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
        self.assertIn("Weights in round 8", page.titles)
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
        page, text = self.report(run)
        self.assertIn("site, 0: 0.62", text)
        self.assertIn("How often clients took part", page.titles)

    def test_what_a_rule_tells_of_its_rounds(self):
        run = self.make_run("rule")
        self.write("rule/rounds.csv", "round,clients,seconds,squared_norm,ridge\n" + "".join(
            f"{t},3,0.1,{t * t},0\n" for t in range(1, 9)))
        page, _ = self.report(run)
        self.assertIn("Each round: squared norm", page.titles)
        self.assertNotIn("Each round: ridge", page.titles)  # it never moves

    def test_what_a_clock_tells_of_its_rounds(self):
        run = self.make_run("clock")
        self.write("clock/rounds.csv", "round,clients,seconds,wasted_client_seconds,lost\n" + "".join(
            f"{t},3,0.1,{t * t},{t}\n" for t in range(1, 9)))
        page, _ = self.report(run)
        for words in ("work that did not count", "clients that never reported"):
            self.assertIn(f"Each round: {words}", page.titles)

    def test_default_place_and_bad_input(self):
        run = self.make_run("here")
        self.assertEqual(self.call("report", str(run)).stdout, f"{run}/report.html\n")
        self.assert_one_line_error(self.call("report", str(self.folder / "no")), "no", "hint")
        self.write("file", "")
        result = self.call("report", str(run), "-o", str(self.folder / "file" / "x.html"))
        self.assert_one_line_error(result, "hint")


class DrawingTest(ScriptTest):
    """The drawings of a page, and what they show."""

    def figure(self, charts, *runs):
        return charting.figure_of(charts, [run_files.Runs(run) for run in runs])

    def test_curves_are_those_of_the_files(self):
        axis = self.figure([charts.accuracy], self.make_run("one")).axes[0]
        self.assertEqual(axis.get_title("left"), "Test accuracy over clients")
        np.testing.assert_allclose(axis.lines[0].get_data(), [range(0, 41, 4)] * 2)
        runs = [self.make_run(name, rounds) for name, rounds in (("a", 40), ("b", 80))]
        axis = self.figure([charts.accuracy], *runs).axes[0]
        self.assertEqual([len(line.get_xdata()) for line in axis.lines], [11, 21])
        self.assertEqual([line.get_label() for line in axis.lines], ["a", "b"])

    def test_a_client_drawn_twice_took_part_once(self):
        run = self.make_run("drawn")
        self.write("drawn/trace-sampler.json", json.dumps(
            {"clients": 4, "rounds": [{"draws": [0, 0, 1]}, {"draws": [1, 3]}]}))
        axis = self.figure([charts_of_rules.times_drawn], run).axes[0]
        self.assertEqual(list(axis.lines[0].get_ydata()), [0, 1, 1, 2])

    def test_constant_and_missing_curves(self):
        for values in ("3,3", "0,0", ",", "nan,nan"):
            self.make_run("curve")
            first, last = values.split(",")
            self.write("curve/rounds.csv", f"round,seconds,x,y\n1,1,{first},1\n2,1,{last},2\n")
            names = charts_of_rules.columns_of_rules([run_files.Runs(self.folder / "curve")])
            figure = self.figure(names, self.folder / "curve")
            self.assertEqual([axis.get_ylabel() for axis in figure.axes], ["y"])
            self.assertNotIn("nan", figures.svg_of(figure, "curve").lower())
        self.write("curve/rounds.csv", "round,seconds\n1,1\n")
        self.assertIsNone(self.figure([charts_of_rules.decisions], self.folder / "curve"))

    def test_every_colour_has_one_for_dark_pages(self):
        run = self.make_run("colours")
        self.add_history(run)
        self.write("colours/decisions.csv", "round," + ",".join(f"p_{i}" for i in range(20)) + "\n"
                   + "".join(f"{t}," + ",".join(["0.05"] * 20) + "\n" for t in (1, 2)))
        known = {colour.lower() for colour in figures.DARK} | {"#fefefe"}  # on full colour
        for picture, drawn in charts.pictures_of([run_files.Runs(run)]):
            if figure := self.figure(drawn, run):
                svg = figures.svg_of(figure, picture.name)
                shown = set(re.findall(r"(?:fill|stroke): (#\w+)", svg))
                self.assertLessEqual(shown, known, picture.name)
                self.assertIn("#1f2328", shown, picture.name)

    def test_many_points_are_an_image(self):
        """So that a page of many clients stays small, and shows all of them."""
        self.make_run("large")
        self.write("large/clients.csv", "client,samples,accuracy\n" + "".join(
            f"{i},{i % 977},{i % 1009 / 1009}\n" for i in range(20000)))
        figure = self.figure([charts.sizes], self.folder / "large")
        svg = figures.svg_of(figure, "large")
        self.assertIn("data:image/png", svg)
        self.assertLess(len(svg), 300000)
        head = "round," + ",".join(f"p_{i}" for i in range(1000))
        self.write("large/decisions.csv", f"{head}\n" + "".join(
            f"{t}," + ",".join(["0.001"] * 1000) + "\n" for t in range(40)))
        figure = self.figure([charts_of_rules.decisions], self.folder / "large")
        self.assertLess(len(figures.svg_of(figure, "large")), 300000)


if __name__ == "__main__":
    unittest.main()
