"""A metric over the keys that a study varies: scripts/plot --over and --heat, and what scripts/report
draws by itself, on made-up studies; the numbers are read back from the drawings."""
import itertools
import json
import re
import shutil
import sys
import types
import unittest
import xml.etree.ElementTree as ElementTree

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from shared import charting, charts, figures, over_keys, printed, run_files, summaries, varied  # noqa: E402
from hanse.errors import Refused  # noqa: E402

RATES, BATCHES = ["0.01", "0.1", "1"], ["5", "20"]


class StudyTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(plt.close, "all")

    def make_study(self, vary, seeds=3, title="", rows=""):
        """A study in which run `seed` of the case of number `place` has the accuracy that
        accuracy_of(place, seed) says."""
        self.study, self.seeds = self.folder / "study", seeds
        if self.study.exists():
            shutil.rmtree(self.study)
        keys = "".join(f'"{key}" = {json.dumps(values)}\n' for key, values in vary.items())
        self.write("study/study.toml", f'job = "first.cfg"\nseeds = {seeds}\n{rows}'
                   + (f'title = "{title}"\n' if title else "") + (f"[vary]\n{keys}" if vary else ""))
        self.cases = [",".join(f"{key}={value}" for key, value in zip(vary, values))
                      for values in itertools.product(*vary.values())]
        for place, case in enumerate(self.cases if vary else []):
            self.make_case(case, place)
        return self.study

    def make_case(self, case, place):
        for seed in range(1, self.seeds + 1):
            run, accuracy = f"study/{case}/seed-{seed}", accuracy_of(place, seed)
            self.write(f"{run}/job.cfg", f"[run]\nname = s\nseed = {seed}\n")
            self.write(f"{run}/rounds.csv", "round,clients,seconds,bytes_updates\n1,3,1,10\n2,3,1,10\n")
            self.write(f"{run}/evaluations.csv", "round,split,loss_mean,accuracy_mean\n"
                       f"1,test,2,{accuracy / 2}\n2,test,1,{accuracy}\n")
            self.write(f"{run}/summary.json", json.dumps({
                "rounds": 2, "split": "test", "seconds": 4.5 + place, "data_digest": "d",
                "metrics": {"accuracy_mean": accuracy, "loss_mean": 1 - accuracy}}))

    def runs(self):
        return run_files.runs_of(summaries.find_places([self.study]))

    def asked(self, metric=None, band="interval", log=None, **keys):
        """The charts of --over or --heat."""
        options = types.SimpleNamespace(over=keys.get("over"), heat=keys.get("heat"), log=log, band=band)
        return over_keys.asked_for(varied.study_in([self.study]), options, metric and [metric])

    def axis(self, chart, **choices):
        return charting.figure_of([chart], self.runs(), **choices).axes[0]

    def plot(self, *options):
        return self.call("plot", self.study, "--out", self.folder / "out", *options)


def accuracy_of(place, seed):
    return 0.3 + 0.05 * place + 0.01 * seed * seed


def numbers_of(place, seeds=3):
    return [100 * accuracy_of(place, seed) for seed in range(1, seeds + 1)]


class OverTest(StudyTest):
    def test_means_bands_and_points(self):
        """A line for each batch size, over the rates as they are."""
        self.make_study({"client.lr": ["1", "0.1", "0.01"], "client.batch": BATCHES})
        (chart,) = self.asked(over="client.lr")
        axis = self.axis(chart)
        self.assertEqual([line.get_label() for line in axis.lines if not
                          line.get_label().startswith("_")], ["batch=5", "batch=20"])
        bands = [part for part in axis.collections if hasattr(part, "get_paths") and
                 len(part.get_paths()) and len(part.get_paths()[0].vertices) > 6 and
                 not len(part.get_offsets()) > 1]
        points = [part for part in axis.collections if len(part.get_offsets()) > 1]
        for index, places in enumerate([[4, 2, 0], [5, 3, 1]]):  # of rates 0.01, 0.1, 1
            values = np.array([numbers_of(place) for place in places])
            line = [one for one in axis.lines if one.get_label() == f"batch={BATCHES[index]}"][0]
            np.testing.assert_allclose(line.get_data(), [[0.01, 0.1, 1], values.mean(axis=1)])
            low, high = stats.t.interval(0.95, 2, values.mean(axis=1), stats.sem(values, axis=1))
            drawn = bands[index].get_paths()[0].vertices
            for x, bottom, top in zip([0.01, 0.1, 1], low, high):
                ends = drawn[drawn[:, 0] == x, 1]
                np.testing.assert_allclose([ends.min(), ends.max()], [bottom, top])
            np.testing.assert_allclose(points[index].get_offsets(), [
                [x, value] for x, own in zip([0.01, 0.1, 1], values) for value in own])
        self.assertEqual(axis.get_xlabel(), "client learning rate")
        self.assertEqual(axis.get_ylabel(), "test accuracy, mean of clients (%)")
        self.assertEqual(" ".join(axis.get_title("left").split()),
                         "Test accuracy, mean of clients, by client learning rate")
        self.assertEqual(axis.figure.legends[0].get_title().get_text(),
                         "points: single runs; n = 3, band: 95 % interval")

    def test_other_numbers_and_bands(self):
        self.make_study({"client.lr": RATES})
        (chart,) = self.asked("seconds", over="client.lr", band="range")
        axis = self.axis(chart)
        np.testing.assert_allclose(axis.lines[0].get_ydata(), [4.5, 5.5, 6.5])
        self.assertEqual(axis.get_ylabel(), "time in rounds (s)")
        self.assertIn("band: min to max", axis.figure.legends[0].get_title().get_text())
        (chart,) = self.asked("loss_mean", over="client.lr", log="xy")
        axis = self.axis(chart)
        self.assertEqual((axis.get_xscale(), axis.get_yscale()), ("log", "log"))
        self.assertEqual([tick.get_text() for tick in axis.get_xticklabels()], RATES)

    def test_words_stand_beside_each_other_in_the_studys_order(self):
        """No line joins them, and each mean has a bar of its own."""
        self.make_study({"method": ["scaffold", "fedavg", "fedprox"]})
        (chart,) = self.asked(over="method")
        axis = self.axis(chart)
        self.assertEqual([tick.get_text() for tick in axis.get_xticklabels()],
                         ["scaffold", "fedavg", "fedprox"])
        self.assertEqual(axis.lines[0].get_linestyle(), "None")
        np.testing.assert_allclose(axis.lines[0].get_data(),
                                   [[0, 1, 2], [np.mean(numbers_of(i)) for i in range(3)]])
        (bars,) = axis.containers
        half = stats.sem(numbers_of(0)) * stats.t.ppf(0.975, 2)
        (segments,) = [part for part in axis.collections if hasattr(part, "get_segments")]
        np.testing.assert_allclose(np.array(segments.get_segments())[0, :, 1],
                                   np.mean(numbers_of(0)) + half * np.array([-1, 1]))
        self.assertTrue(bars.has_yerr)

    def test_what_the_rows_set_is_a_key_too(self):
        rows = "".join(f'  {{name = "n{rate}", set = {{"client.lr" = {rate}}}}},\n' for rate in RATES)
        self.make_study({}, rows=f"rows = [\n{rows}]\n")
        for place, rate in enumerate(RATES):
            self.make_case(f"n{rate}", place)
        (chart,) = self.asked(over="client.lr")
        np.testing.assert_allclose(self.axis(chart).lines[0].get_data(), [
            [0.01, 0.1, 1], [np.mean(numbers_of(i)) for i in range(3)]])
        (chart,) = self.asked(over="row")
        self.assertEqual(chart.places["row"], ["n0.01", "n0.1", "n1"])

    def test_a_place_without_a_number_breaks_the_line(self):
        self.make_study({"client.lr": RATES})
        for seed in (1, 2, 3):
            (self.study / f"client.lr=0.1/seed-{seed}/summary.json").unlink()
        (chart,) = self.asked(over="client.lr")
        line = self.axis(chart).lines[0]
        np.testing.assert_allclose(line.get_ydata(), [np.mean(numbers_of(0)), np.nan,
                                                      np.mean(numbers_of(2))])
        self.assertEqual(chart.said, ["client.lr=0.1: seeds 1, 2, 3: has not ended"])

    def test_lines_have_names_and_an_order(self):
        self.make_study({"client.lr": RATES, "client.batch": BATCHES})
        result = self.plot("--over", "client.lr", "--format", "svg", "--name", "batch=5=small batches",
                           "--name", "client.lr=step η", "--order", "batch=20")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        path = self.folder / "out/accuracy_mean-over-client.lr.svg"
        self.assertEqual(result.stdout, f"{path}\n")
        texts = [part.text for part in ElementTree.parse(path).getroot().iter() if part.text]
        self.assertIn("step η", texts)
        self.assertLess(texts.index("batch=20"), texts.index("small batches"))
        self.assertNotIn("client learning rate", texts)


class HeatTest(StudyTest):
    def test_numbers_in_the_cells(self):
        self.make_study({"client.lr": RATES, "client.batch": BATCHES})
        (chart,) = self.asked(heat=["client.lr", "client.batch"])
        axis = self.axis(chart)
        means = [[np.mean(numbers_of(2 * rate + batch)) for rate in range(3)] for batch in range(2)]
        (mesh,) = [part for part in axis.collections if hasattr(part, "get_coordinates")]
        np.testing.assert_allclose(mesh.get_array().reshape(2, 3), means)
        self.assertEqual([text.get_text() for text in axis.texts],
                         [f"{mean:.1f}" for row in means for mean in row])
        self.assertEqual([[tick.get_text() for tick in ticks] for ticks in
                          (axis.get_xticklabels(), axis.get_yticklabels())], [RATES, BATCHES])
        self.assertEqual((axis.get_xlabel(), axis.get_ylabel()), ("client learning rate", "batch size"))
        self.assertIn("test accuracy, mean of clients (%)",
                      [one.get_ylabel() for one in axis.figure.axes])

    def test_other_keys_are_maps_of_one_scale(self):
        self.make_study({"method": ["fedavg", "fedprox"], "client.lr": RATES, "client.batch": BATCHES})
        found = self.asked(heat=["client.lr", "client.batch"])
        self.assertEqual([chart.name for chart in found], [
            f"accuracy_mean-heat-client.lr-client.batch-method={name}" for name in ("fedavg", "fedprox")])
        limits = [mesh.get_clim() for chart in found for mesh in self.axis(chart).collections]
        np.testing.assert_allclose(limits, [[np.mean(numbers_of(0)), np.mean(numbers_of(11))]] * 2)
        self.assertIn("fedprox", self.axis(found[1]).get_title("left"))

    def test_every_number_can_be_read(self):
        """With a contrast of 4.5 at least on every shade; and the shades' lightness only rises."""
        shades = [plt.get_cmap(over_keys.SHADES)(part) for part in np.linspace(0, 1, 256)]
        light = np.array([over_keys.luminance(shade) for shade in shades])
        self.assertTrue(np.all(np.diff(light) > 0))
        inks = [over_keys.luminance(plt.matplotlib.colors.to_rgb(over_keys.ink_on(shade)))
                for shade in shades]
        contrast = (np.maximum(light, inks) + 0.05) / (np.minimum(light, inks) + 0.05)
        self.assertGreaterEqual(contrast.min(), 4.5)
        self.assertFalse({over_keys.DARK_INK, over_keys.LIGHT_INK} & set(figures.DARK))

    def test_numbers_keep_within_their_cells(self):
        self.make_study({"client.lr": [f"0.{i}" for i in range(1, 10)], "client.batch": BATCHES}, seeds=1)
        (chart,) = self.asked(heat=["client.lr", "client.batch"])
        axis = self.axis(chart, print_of=printed.Print())
        axis.figure.draw_without_rendering()
        room = axis.get_window_extent().width / 9
        widths = [text.get_window_extent().width for text in axis.texts]
        self.assertTrue(all(0 < width < room for width in widths), (room, widths))
        self.assertEqual(chart.said, [])
        self.make_study({"client.mu": [str(i) for i in range(40)], "client.batch": BATCHES}, seeds=1)
        (chart,) = self.asked(heat=["client.mu", "client.batch"])
        axis = self.axis(chart, print_of=printed.Print())
        self.assertFalse(any(text.get_visible() for text in axis.texts))
        self.assertIn("the numbers of 40 x 2 cells have no room in 3.3 inches", chart.said[0])

    def test_missing_cells_are_named(self):
        self.make_study({"client.lr": RATES, "client.batch": BATCHES})
        (self.study / "study.toml").unlink()  # the folders alone say what there is
        shutil.rmtree(self.study / "client.lr=0.1,client.batch=5")
        result = self.plot("--heat", "client.lr", "client.batch", "--format", "svg")
        self.assertEqual((result.returncode, result.stderr.splitlines()),
                         (0, ["plot: no case has client.lr=0.1, client.batch=5"]))
        svg = (self.folder / "out/accuracy_mean-heat-client.lr-client.batch.svg").read_text()
        self.assertEqual(svg.count(">none</text>"), 1)


class MissingTest(StudyTest):
    def test_every_run_without_a_number_is_named_with_the_reason(self):
        self.make_study({"client.lr": RATES})
        one = self.study / "client.lr=0.1"
        (one / "seed-2/summary.json").unlink()
        (one / "seed-2.log").write_text("words\nhanse: error: the loss is not finite\n")
        (one / "seed-3/summary.json").write_text('{"rounds": 2, "metrics": {"loss_mean": 1}}')
        shutil.rmtree(self.study / "client.lr=1")
        (chart,) = self.asked(over="client.lr")
        self.assertEqual(chart.said, [
            "client.lr=0.1: seed 2: failed: the loss is not finite",
            "client.lr=0.1: seed 3: no number of 'accuracy_mean'",
            "client.lr=1: seeds 1, 2, 3: has not begun"])
        axis = self.axis(chart)
        np.testing.assert_allclose(axis.lines[0].get_ydata(), [
            np.mean(numbers_of(0)), numbers_of(1)[0], np.nan])
        self.assertIn("n = 1 and 3", axis.figure.legends[0].get_title().get_text())

    def test_refusals_are_one_line(self):
        self.make_study({"client.lr": ["0", "0.1", "1"], "client.batch": ["5"], "method": ["fedavg", "fedprox"]})
        for keys, words in [
                ({"over": "client.batch"}, "--over client.batch: it has one value, 5; hint: client.lr, "
                                           "method varies"),
                ({"over": "client.mu"}, "--over client.mu: the study does not vary it"),
                ({"heat": ["client.lr", "client.lr"]}, "two keys are needed"),
                ({"over": "client.lr", "log": "x"}, "--log x: client.lr = 0 has no place"),
                ({"over": "method", "log": "x"}, "method has values that are no numbers: fedavg"),
                ({"over": "client.lr", "metric": "acuracy_mean"}, "hint: known: accuracy_mean")]:
            with self.subTest(keys=keys), self.assertRaises(Refused) as raised:
                self.asked(**keys)
            self.assertIn(words, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))
        self.assert_one_line_error(self.plot("--over", "client.batch"), "it has one value, 5")
        self.assert_one_line_error(self.plot("--over", "client.lr", "--heat", "client.lr", "method"),
                                   "--over and --heat do not go together")
        self.assert_one_line_error(self.call("plot", self.make_run("alone"), "--over", "client.lr"),
                                   "no folder of a study", "scripts/sweep")
        for summary in self.study.glob("*/*/summary.json"):
            summary.write_text(summary.read_text().replace('"accuracy_mean": 0.31', '"accuracy_mean": 0'))
        with self.assertRaisesRegex(Refused, "--log y: accuracy_mean = 0 of client.lr=0,"):
            self.asked(over="client.lr", log="y", metric="accuracy_mean")


class ByItselfTest(StudyTest):
    def names(self):
        return [chart.name for chart in over_keys.charts_of(self.runs())]

    def test_where_one_or_two_keys_vary(self):
        for vary, names in [
                ({"client.lr": RATES}, ["over-client.lr"]),
                ({"client.lr": ["0.1", "0.3"]}, []),
                ({"client.lr": RATES, "client.batch": BATCHES},
                 ["over-client.lr", "heat-client.lr-client.batch"]),
                ({"client.lr": ["0.1", "0.3"], "client.batch": BATCHES}, []),
                ({"client.lr": RATES, "client.batch": BATCHES, "client.mu": ["0", "1"]}, [])]:
            with self.subTest(vary=vary):
                self.make_study(vary, seeds=1)
                self.assertEqual(self.names(), [f"accuracy_mean-{name}" for name in names])
        self.assertEqual(over_keys.charts_of(self.runs()[:3]), [])  # not the whole study

    def test_two_charts_of_one_legend_share_no_colour(self):
        self.make_study({"client.lr": RATES, "client.batch": ["5", "20", "50"]}, seeds=1)
        figure = charting.figure_of(over_keys.charts_of(self.runs()), self.runs())
        lines = [line for axis in figure.axes for line in axis.lines
                 if line.get_label() and not line.get_label().startswith("_")]
        self.assertEqual(len({line.get_color() for line in lines}), 6)
        self.assertEqual(len(figure.legends[0].get_texts()), 6)

    def test_the_report_has_them_and_the_studys_title(self):
        self.make_study({"client.lr": RATES, "client.batch": BATCHES}, title="Rates & batches")
        (self.study / "client.lr=1,client.batch=20/seed-2/summary.json").unlink()
        out = self.folder / "page.html"
        result = self.call("report", self.study, "-o", out)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        page = out.read_text()
        for words in ("<h1>Rates &amp; batches</h1>", "What was varied", "6 jobs, 18 runs",
                      'aria-label="Test accuracy, mean of clients, by client learning rate"',
                      "by client learning rate and batch size",
                      "client.lr=1,client.batch=20: seed 2: has not ended"):
            self.assertIn(words, page)
        self.assertEqual(page.count("client.lr=1,client.batch=20: seed 2: has not ended"), 1)
        known = {colour.lower() for colour in figures.DARK}
        figure = charting.figure_of([over_keys.charts_of(self.runs())[0]], self.runs())
        self.assertLessEqual({colour.lower() for colour in
                              re.findall(r"(?:fill|stroke): (#\w+)",
                                                       figures.svg_of(figure, "x"))}, known)


class LegendTest(StudyTest):
    def test_legends_keep_within_the_picture(self):
        """In a narrow figure, with names that are short, many, and too long for one line."""
        for names in (["0.1", "0.3", "1", "100"], ["a" * 40, "b" * 90], [f"name {i}" for i in range(20)]):
            with self.subTest(names=names[0]):
                figure, axis = plt.subplots(figsize=(3.3, 2.2), layout="constrained")
                for index, name in enumerate(names):
                    axis.plot([1, 2], marker="o", label=f"alpha={name}", **figures.line_style(index))
                figures.legend_below(figure, [axis], title="points: single runs; n = 4 and 5, band: 95 % "
                                                           "interval, and words that need a second line")
                (legend,) = figure.legends
                figure.draw_without_rendering()
                box = legend.get_window_extent()
                self.assertGreaterEqual(box.x0, 0)
                self.assertLessEqual(box.x1, figure.bbox.x1)
                self.assertLessEqual(box.y1, axis.get_tightbbox().y0 + 1)
                self.assertEqual(len(legend.get_texts()), len(names))

    def test_every_picture_of_a_study_has_an_entry_for_its_colours(self):
        self.make_study({"client.lr": RATES, "client.batch": BATCHES}, seeds=2)
        for picture, drawn in charts.pictures_of(self.runs()):
            if picture.name in ("varied", "learning"):
                figure = charting.figure_of(drawn, self.runs())
                shown = {line.get_color() for axis in figure.axes for line in axis.lines
                         if len(line.get_xdata())}
                told = {handle.get_color() for handle in figure.legends[0].legendHandles}
                self.assertEqual(shown - told, set(), picture.name)


if __name__ == "__main__":
    unittest.main()
