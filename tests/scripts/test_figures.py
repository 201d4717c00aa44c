"""Figures for papers: scripts/plot --metric and --panels on made-up run directories, and the
numbers that they draw."""
import json
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from shared import bands, charting, charts, curves, figures, run_files, summaries  # noqa: E402

ROUNDS = "round,clients,seconds,bytes_updates,loss\n"


class FigureTest(ScriptTest):
    def make_case(self, case, accuracies, seconds=None, rounds=(0, 4, 8), split="test"):
        """A case of a study: a run for each list of accuracies, evaluated at these rounds. The
        rounds last `seconds` each, and a round's clients send 1 MB."""
        for seed, numbers in enumerate(accuracies, 1):
            run = f"study/{case}/seed-{seed}"
            last_s = (seconds or [1] * len(accuracies))[seed - 1]
            self.write(f"{run}/job.cfg", f"[run]\nname = s\nrounds = 8\nseed = {seed}\n"
                                         f"[client]\nlr = {case[-3:]}\n")
            self.write(f"{run}/rounds.csv", ROUNDS + "".join(
                f"{t},3,{last_s},1000000,{1 / t}\n" for t in range(1, rounds[-1] + 1)))
            self.write(f"{run}/evaluations.csv", "round,split,loss_mean,accuracy_mean\n" + "".join(
                f"{t},{split},{1 - a},{a}\n" for t, a in zip(rounds, numbers)))
            self.write(f"{run}/clients.csv", "client,samples,accuracy\n0,3,0.5\n1,4,0.6\n")
            self.write(f"{run}/summary.json", json.dumps({"rounds": rounds[-1], "split": split,
                                                          "data_digest": "d"}))
        return self.folder / "study"

    def runs(self, band="interval"):
        return run_files.runs_of(summaries.find_places([self.folder / "study"]), band)

    def plot(self, *options, status=0):
        result = self.call("plot", self.folder / "study", "--out", self.folder / "out",
                             *map(str, options))
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def texts(self, name):
        svg = ElementTree.parse(self.folder / f"out/{name}.svg").getroot()
        return [part.text for part in svg.iter() if part.tag.endswith("text") and part.text]

    def make_two_cases(self):
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6], [0.1, 0.6, 0.9], [0.2, 0.6, 0.7]])
        self.make_case("client.lr=0.3", [[0.1, 0.4, 0.5], [0.1, 0.3, 0.4], [0.3, 0.4, 0.6]])


class BandTest(FigureTest):
    def test_the_interval_is_students(self):
        values = np.random.default_rng(3).normal(size=(7, 5))
        curve = bands.mean_curve(np.arange(5), values, "interval")
        low, high = stats.t.interval(0.95, 6, values.mean(axis=0), stats.sem(values, axis=0))
        np.testing.assert_allclose([curve.low, curve.high], [low, high], rtol=1e-10)
        self.assertEqual((curve.n, curve.band), (7, "interval"))

    def test_other_bands(self):
        values = np.array([[1.0, 4], [2, 2], [6, 3]])
        for band, low, high in [("range", [1, 2], [6, 4]),
                                ("deviation", [3 - 7 ** 0.5, 2], [3 + 7 ** 0.5, 4])]:
            curve = bands.mean_curve(np.arange(2), values, band)
            np.testing.assert_allclose([curve.y, curve.low, curve.high], [[3, 3], low, high])
        for curve in (bands.mean_curve(np.arange(2), values, "none"),
                      bands.mean_curve(np.arange(2), values[:1], "interval")):
            self.assertEqual((curve.low, curve.band), (None, "none"))

    def test_what_is_drawn_is_the_interval(self):
        """In pictures and in figures, in percent."""
        self.make_two_cases()
        values = 100 * np.array([[0.1, 0.5, 0.6], [0.1, 0.6, 0.9], [0.2, 0.6, 0.7]])
        low, high = stats.t.interval(0.95, 2, values.mean(axis=0), stats.sem(values, axis=0))
        for chart in (charts.accuracy,
                      lambda axis, runs: curves.metric_chart(axis, runs, "accuracy_mean")):
            axis = charting.figure_of([chart], self.runs()).axes[0]
            np.testing.assert_allclose(axis.lines[0].get_data(),
                                       [[0, 4, 8], values.mean(axis=0)])
            (path,) = axis.collections[0].get_paths()
            drawn = path.vertices
            for x, bottom, top in zip([0, 4, 8], low, high):
                ends = drawn[drawn[:, 0] == x, 1]
                np.testing.assert_allclose([ends.min(), ends.max()], [bottom, top])

    def test_words_say_n_and_the_band(self):
        self.assertEqual(bands.words_on([5, 5], ["interval"] * 2), "n = 5, band: 95 % interval")
        self.assertEqual(bands.words_on([5, 3], ["range"] * 2), "n = 3 and 5, band: min to max")
        self.assertEqual(bands.words_on([4], ["none"]), "n = 4")

    def test_without_scipy_the_interval_is_refused_and_the_range_is_not(self):
        self.make_two_cases()
        found = bands.importlib.util.find_spec
        self.addCleanup(setattr, bands.importlib.util, "find_spec", found)
        bands.importlib.util.find_spec = lambda name: None
        with self.assertRaisesRegex(run_files.Refused, "needs SciPy; hint: .*--band range"):
            self.runs()
        self.assertEqual(len(self.runs("range")), 2)
        self.assertEqual(len(run_files.runs_of(summaries.find_places([self.make_run("one")]))), 1)


class CurveTest(FigureTest):
    def curve(self, x, metric="accuracy_mean"):
        return curves.curve_of(self.runs()[0], metric, x)

    def test_rounds_are_those_that_all_runs_have(self):
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6], [0.3, 0.7, 0.8]])
        self.write("study/client.lr=0.1/seed-2/evaluations.csv",
                   "round,accuracy_mean\n0,0.3\n5,0.7\n8,0.8\n9,0.9\n")
        np.testing.assert_allclose(self.curve("round").x, [0, 8])
        np.testing.assert_allclose(self.curve("round").y, [0.2, 0.7])
        self.assertFalse(self.curve("round").steps)

    def test_times_have_the_last_known_values(self):
        """Runs whose rounds last 1 and 2 s are evaluated after 0, 4, 8 and 0, 8, 16 s."""
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6], [0.3, 0.7, 0.8]], seconds=[1, 2])
        curve = self.curve("seconds")
        np.testing.assert_allclose(curve.x, [0, 4, 8])
        np.testing.assert_allclose(curve.y, [0.2, (0.5 + 0.3) / 2, (0.6 + 0.7) / 2])
        self.assertTrue(curve.steps)
        axis = charting.figure_of([lambda axis, runs: curves.metric_chart(
            axis, runs, "accuracy_mean", "seconds")], self.runs()).axes[0]
        self.assertEqual(axis.lines[0].get_drawstyle(), "steps-post")

    def test_bytes_and_updates_are_summed_up(self):
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6], [0.3, 0.7, 0.8]])
        np.testing.assert_allclose(self.curve("bytes").x, [0, 4e6, 8e6])
        np.testing.assert_allclose(self.curve("client-updates").x, [0, 12, 24])
        np.testing.assert_allclose(self.curve("round", "loss").y, [1 / t for t in range(1, 9)])
        for seed in (1, 2):
            table = (self.folder / f"study/client.lr=0.1/seed-{seed}/rounds.csv")
            lines = table.read_text().splitlines()
            table.write_text("\n".join([f"{lines[0]},virtual_seconds,left_out", *(
                f"{line},{100 * t},1" for t, line in enumerate(lines[1:], 1))]) + "\n")
        np.testing.assert_allclose(self.curve("virtual-seconds").x, [0, 400, 800])
        np.testing.assert_allclose(self.curve("client-updates").x, [0, 8, 16])

    def test_a_run_whose_numbers_begin_later(self):
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6], [0.3, 0.7, 0.8]], seconds=[1, 3])
        self.write("study/client.lr=0.1/seed-2/evaluations.csv",
                   "round,accuracy_mean\n1,0.3\n2,\n4,0.7\n")
        np.testing.assert_allclose(self.curve("seconds").x, [3, 4, 8])
        np.testing.assert_allclose(self.curve("seconds").y, [0.2, 0.4, 0.45])

    def test_repeats_of_bandits_are_seeds(self):
        run = self.make_run("bandit")
        self.write("bandit/evaluations.csv", "round,regret\n1,2\n2,4\n")  # their means
        self.write("bandit/bandit.csv", "round,repeat,regret,scalars_sent\n" + "".join(
            f"{t},{r},{t * (r + 1)},9\n" for t in (1, 2) for r in range(3)))
        curve = curves.curve_of(run_files.Runs(run), "regret")
        np.testing.assert_allclose([curve.x, curve.y], [[1, 2], [2, 4]])
        self.assertEqual((curve.n, curve.band), (3, "interval"))


class AxisTest(FigureTest):
    def test_the_axis_where_nobody_says_it(self):
        self.make_two_cases()
        self.assertEqual(curves.axis_for(self.runs()), "round")
        tables = sorted((self.folder / "study").glob("*/*/rounds.csv"))
        for table in tables[:3]:  # of one case: larger rounds
            job = table.with_name("job.cfg")
            job.write_text(job.read_text() + "[sampler]\nper-round = 20\n")
        self.assertEqual(curves.axis_for(self.runs()), "bytes")
        for place, table in enumerate(tables):
            self.assertEqual(curves.axis_for(self.runs()), "bytes", place)  # not all have a clock
            head, *lines = table.read_text().splitlines()
            table.write_text("\n".join([f"{head},virtual_seconds", *(
                f"{line},{10 * t}" for t, line in enumerate(lines, 1))]) + "\n")
        self.assertEqual(curves.axis_for(self.runs()), "virtual-seconds")


class PaperTest(FigureTest):
    def test_the_drawing_says_n_and_band(self):
        self.make_two_cases()
        result = self.plot("--metric", "accuracy_mean,loss_mean", "--format", "svg")
        self.assertEqual(result.stdout.split(), [str(self.folder / f"out/{name}.svg")
                                                 for name in ("accuracy_mean", "loss_mean")])
        texts = self.texts("accuracy_mean")
        for text in ("n = 3, band: 95 % interval", "lr=0.1", "lr=0.3", "round"):
            self.assertIn(text, texts)
        self.assertIn("test accuracy, mean", " ".join(texts))
        self.assertNotIn("Test accuracy, mean of clients", texts)  # no title
        self.plot("--metric", "accuracy_mean", "--format", "svg", "--band", "range")
        self.assertIn("n = 3, band: min to max", self.texts("accuracy_mean"))
        self.plot("--metric", "accuracy_mean", "--format", "svg", "--band", "none")
        self.assertIn("n = 3", self.texts("accuracy_mean"))

    def test_unlike_numbers_of_runs_stand_behind_the_names(self):
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6], [0.1, 0.6, 0.9]])
        self.make_case("client.lr=0.3", [[0.1, 0.4, 0.5]] * 3)
        self.plot("--metric", "accuracy_mean", "--format", "svg")
        for text in ("n = 2 and 3, band: 95 % interval", "lr=0.1 (n = 2)", "lr=0.3 (n = 3)"):
            self.assertIn(text, self.texts("accuracy_mean"))

    def test_every_picture_of_several_runs_says_n_and_band(self):
        self.make_two_cases()
        self.plot("--format", "svg")
        for name in ("compare-learning", "compare-clients", "compare-time"):
            words = [text for text in self.texts(name) if text.startswith("n = ")]
            self.assertEqual(words, ["n = 3, band: 95 % interval" if "learning" in name
                                     else "n = 3"], name)

    def test_what_could_be_printed(self):
        """Vectors of the column's width, with fonts embedded as type 42."""
        self.make_two_cases()
        self.plot("--metric", "accuracy_mean")
        pdf = (self.folder / "out/accuracy_mean.pdf").read_bytes()
        self.assertIn(b"/FontFile2", pdf)
        self.assertNotIn(b"/Type3", pdf)
        box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
        self.assertAlmostEqual(float(box[1]), 3.3 * 72, places=1)
        self.plot("--metric", "accuracy_mean", "--format", "svg", "--width", "page",
                  "--height", "2.5", "--font", "STIXGeneral", "--font-size", "9")
        text = (self.folder / "out/accuracy_mean.svg").read_text()
        self.assertRegex(text, r'<svg [^>]*width="489.6pt" height="180pt"')
        self.assertIn("9px 'STIXGeneral'", text)
        self.assertNotIn("prefers-color-scheme", text)

    def test_axes_are_logarithmic(self):
        self.make_two_cases()
        runs = self.runs()
        for log, scales in (("", ["linear", "linear"]), ("x", ["log", "linear"]),
                            ("xy", ["log", "log"])):
            axis = charting.figure_of([lambda axis, runs, log=log: curves.metric_chart(
                axis, runs, "loss_mean", "bytes", log)], runs).axes[0]
            self.assertEqual([axis.get_xscale(), axis.get_yscale()], scales)
            self.assertEqual(axis.get_xlabel(), "updates sent by clients (MB)")
            np.testing.assert_allclose(axis.lines[0].get_xdata(), [4, 8] if log else [0, 4, 8])
        self.plot("--metric", "loss_mean", "--x", "bytes", "--log", "xy", "--format", "svg")
        self.assertIn("8.0", self.texts("loss_mean-by-bytes"))  # between the powers of ten

    def test_names_order_and_colours(self):
        """Names of cases may have commas and '='."""
        for case in ("sampler.kind=osmd,client.lr=0.1", "sampler.kind=osmd,client.lr=0.3",
                     "sampler.kind=uniform,client.lr=0.1"):
            self.make_case(case, [[0.1, 0.5, 0.6], [0.1, 0.6, 0.9]])
        self.plot("--metric", "accuracy_mean", "--format", "svg",
                  "--name", "osmd, lr=0.1=OSMD, η = 0.1",
                  "--name", "sampler.kind=uniform,client.lr=0.1=uniform",
                  "--order", "uniform, lr=0.1,osmd, lr=0.3", "--colours", "black,#DD0000,C2")
        texts = self.texts("accuracy_mean")
        names = [text for text in texts if text in ("OSMD, η = 0.1", "uniform", "osmd, lr=0.3")]
        self.assertEqual(names, ["uniform", "osmd, lr=0.3", "OSMD, η = 0.1"])
        svg = (self.folder / "out/accuracy_mean.svg").read_text()
        places = [svg.index(f"stroke: {colour}; stroke-width: 1.2")
                  if f"stroke: {colour}; stroke-width: 1.2" in svg else
                  re.search(rf"stroke-dasharray[^\"]*stroke: {colour}", svg).start()
                  for colour in ("#000000", "#dd0000", "#2ca02c")]
        self.assertEqual(places, sorted(places))

    def test_the_palettes_are_told_apart_by_colour_blind_readers(self):
        """Each pair differs for readers without green cones (Vienot et al. 1999)."""
        from shared.printed import PALETTES
        to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714],
                           [0.0299566, 0.184309, 1.46709]])
        blind = np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]])
        for name in ("okabe-ito", "tol"):
            seen = []
            for colour in PALETTES[name]:
                light = np.array([int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]) ** 2.2
                light = np.linalg.solve(to_lms, blind @ to_lms @ light).clip(0, 1)
                seen.append(light ** (1 / 2.2))
            least = min(np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i])
            self.assertGreater(least, 0.1, name)

    def test_panels_are_a_file_each(self):
        self.make_two_cases()
        result = self.plot("--panels", "--format", "svg,png")
        names = [pathlib.Path(line).name for line in result.stdout.split()]
        for name in ("learning-accuracy", "learning-loss", "clients-clients", "time-time"):
            self.assertIn(f"{name}.svg", names)
        self.assertEqual(len(names), 2 * len({name.split(".")[0] for name in names}))
        self.assertIn("n = 3, band: 95 % interval", self.texts("learning-accuracy"))
        self.assertIn("lr=0.1", self.texts("learning-accuracy"))
        self.assertNotIn("Test accuracy, mean of clients", self.texts("learning-accuracy"))
        png = (self.folder / "out/learning-accuracy.png").read_bytes()
        self.assertEqual(int.from_bytes(png[16:20], "big"), 990)  # 3.3 inches of 300 dots

    def test_one_line_of_error(self):
        self.make_two_cases()
        for options, words in [
                (["--x", "virtual-seconds"], ["no numbers of 'virtual_seconds'", "--x virtual"]),
                (["--metric", "acuracy_mean"], ["'acuracy_mean'", "accuracy_mean"]),
                (["--metric", "round"], ["no numbers of 'round'"]),
                (["--panels", "--font", "No Such"], ["--font No Such", "hint: DejaVu Sans"]),
                (["--colours", "blue,nocolour"], ["'nocolour' is no colour", "okabe-ito"]),
                (["--name", "lr=0.7=x"], ["--name lr=0.7=x", "'lr=0.1'"]),
                (["--order", "lr=0.1,z"], ["--order z", "'lr=0.3'"])]:
            with self.subTest(options=options):
                result = self.plot(*options, status=2)
                self.assert_one_line_error(result, *words)
                self.assertEqual(result.stdout, "")

    def test_the_metric_that_runs_are_about(self):
        self.make_two_cases()
        self.assertEqual(curves.main_metric(self.runs()), "accuracy_mean")
        for table in (self.folder / "study").glob("*/*/evaluations.csv"):
            table.write_text("round,loss_mean,accuracy_mean\n0,2,\n8,1,\n")
        self.assertEqual(curves.main_metric(self.runs()), "loss_mean")
        result = self.plot("--log", "y", "--format", "svg")
        self.assertEqual(result.stdout, f"{self.folder}/out/loss_mean.svg\n")

    def test_cautions_are_told_and_not_drawn(self):
        self.make_case("client.lr=0.1", [[0.1, 0.5, 0.6]] * 2)
        self.make_case("client.lr=0.3", [[0.1, 0.4]] * 2, rounds=(0, 4))
        result = self.plot("--metric", "accuracy_mean", "--format", "svg")
        self.assertIn("Caution: runs of unlike length: 4 and 8 rounds", result.stderr)
        self.assertNotIn("Caution", " ".join(self.texts("accuracy_mean")))

    def test_the_same_runs_make_the_same_bytes(self):
        self.make_two_cases()
        found = []
        for _ in range(2):
            self.plot("--metric", "accuracy_mean", "--format", "pdf,svg,png")
            found.append([path.read_bytes() for path in sorted((self.folder / "out").iterdir())])
        self.assertEqual(*found)


class LinesTest(unittest.TestCase):
    def setUp(self):
        colours = list(figures.COLOURS)
        self.addCleanup(figures.use_colours, colours)
        self.addCleanup(figures.LINES.update, dict(figures.LINES))

    def test_lines_are_told_apart_without_colours(self):
        figures.use_colours(["#000000", "#777777"])
        self.assertEqual([figures.line_style(i)["linestyle"] for i in range(4)],
                         ["-", "-", "--", "--"])
        figures.LINES["dashed"] = True
        self.assertEqual([figures.line_style(i)["linestyle"] for i in range(4)],
                         ["-", "--", "-.", ":"])
        self.assertGreaterEqual(len(figures.COLOURS), 7)  # charts with as many lines of their own


if __name__ == "__main__":
    unittest.main()
