"""scripts/plot and scripts/results on made-up run directories: whole, interrupted, broken."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest
import xml.etree.ElementTree as ElementTree

from support import EVALUATIONS, ROUNDS, SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
import numpy as np  # noqa: E402

import shared  # noqa: E402,F401
from hanse import several  # noqa: E402

PNG = b"\x89PNG\r\n\x1a\n"


def width_of(picture):
    """Pixels, from the PNG's header."""
    return int.from_bytes(picture.read_bytes()[16:20], "big")


def height_of(picture):
    return int.from_bytes(picture.read_bytes()[20:24], "big")


class PlotTest(ScriptTest):
    def assert_pictures(self, result, folder, names, beginning=""):
        """The script printed exactly these pictures, and each is a PNG file of some size."""
        paths = [folder / f"{beginning}{name}.png" for name in names.split()]
        self.assertEqual(result.stdout.splitlines(), list(map(str, paths)))
        for path in paths:
            data = path.read_bytes()
            self.assertTrue(data.startswith(PNG), path)
            self.assertGreater(len(data), 5000, path)

    def make_sampling_run(self, name, measured):
        run = self.make_run(name)
        rest = (lambda i: f"{4 / i},{1 / i},{3 * i}") if measured else (lambda i: ",,")
        lines = [f"{i},100,{5 / i},{rest(i)}\n" for i in range(1, 41)]
        self.write(f"{name}/sampling.csv",
                   "round,available,variance_estimate,variance,best_variance,regret\n"
                   + "".join(lines))
        if measured:
            table = (run / "evaluations.csv").read_text().splitlines()
            names = "entropy min p10 median p90 max".split()
            head = ",".join([table[0], *(f"sampling_{name}" for name in names)])
            lines = [f"{line},4.5,0.001,0.004,0.01,0.02,0.1" for line in table[1:]]
            self.write(f"{name}/evaluations.csv", "\n".join([head, *lines]) + "\n")
        return run

    def assert_drawn(self, run):
        result = self.call("plot", str(run))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, run / "plots", "learning clients time")

    def test_one_run(self):
        self.assert_drawn(self.make_run("alone"))

    def test_metrics_that_were_asked_for(self):
        run = self.make_run("asked")
        self.add_metrics(run)
        result = self.call("plot", str(run))
        self.assert_pictures(result, run / "plots", "learning metrics clients time")

    def test_accuracy_and_bytes(self):
        plain, small = self.make_run("plain"), self.make_run("small")
        self.add_bytes(plain, "none", 4000000)
        self.add_bytes(small, "top-k", 80000)
        result = self.call("plot", str(small))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, small / "plots", "learning bytes clients time")
        result = self.call("plot", str(plain), str(small))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(str(plain / "plots/with-small/compare-bytes.png"), result.stdout.splitlines())

    def test_clients_over_time(self):
        run = self.make_run("history")
        self.add_history(run)
        result = self.call("plot", str(run))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, run / "plots", "learning confusion clients history time")

    def test_formats(self):
        """PNG, SVG and PDF, of the same bytes each time; ids and text of SVGs are their own."""
        run = self.make_run("alone")
        found = []
        for place in ("first", "second"):
            result = self.script("plot", run, "--format=svg,pdf,png", "--out", self.folder / place)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            found.append({path.name: path.read_bytes() for path in (self.folder / place).iterdir()})
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(found[0]), 9)
        self.assertTrue(found[0]["learning.pdf"].startswith(b"%PDF"))
        svg = ElementTree.fromstring(found[0]["learning.svg"])
        self.assertIn("Loss over clients", [part.text for part in svg.iter() if part.text])
        self.assertIn(b"prefers-color-scheme:dark", found[0]["learning.svg"])
        result = self.call("plot", run, "--format=gif")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'gif'; known: png, svg, pdf", result.stderr)

    def test_interrupted_run_with_torn_lines(self):
        run = self.make_run("torn", summary=False)
        for name in ("rounds.csv", "evaluations.csv"):
            with open(run / name, "a") as file:
                file.write("41,3")
        self.assert_drawn(run)

    def test_one_round(self):
        self.assert_drawn(self.make_run("short", rounds=1))

    def test_regression_has_no_accuracy(self):
        run = self.make_run("regression")
        self.write("regression/evaluations.csv", "round,loss_mean,accuracy_mean\n0,2,\n4,1,\n")
        self.write("regression/clients.csv", "client,samples,loss,accuracy\n0,9,0.5,\n1,4,0.7,\n")
        self.assert_drawn(run)

    def make_online(self, name, nodes=3, rounds=40):
        """A run directory with online.csv and weights.csv; the last round is torn."""
        run = self.make_run(name)
        lines = [f"{t},{i},0.5,{'' if t % 3 else 0.25 * i},{0.5 * t},{0.01 * t},1"
                 for t in range(1, rounds + 1) for i in range(nodes)]
        self.write(f"{name}/online.csv",
                   "\n".join(["round,node,loss,accuracy,cumulative_loss,regret,mixed", *lines,
                              f"{rounds + 1},0,0.5"]))
        row = ",".join(["0.25"] * nodes)
        lines = [f"{t},{i},{row}" for t in range(0, rounds + 1, 10) for i in range(nodes)]
        header = "round,node," + ",".join(f"p_{j}" for j in range(nodes))
        self.write(f"{name}/weights.csv", "\n".join([header, *lines]) + "\n")
        return run

    def test_online_runs(self):
        for nodes in (1, 3, 20):
            with self.subTest(nodes=nodes):
                run = self.make_online(f"online-{nodes}", nodes)
                result = self.call("plot", str(run))
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assert_pictures(result, run / "plots", "online learning clients weights time")

    def test_several_online_runs(self):
        runs = [str(self.make_online(name)) for name in ("x", "y")]
        result = self.call("plot", *runs, "--out", str(self.folder / "out"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, self.folder / "out",
                             "online learning clients time", "compare-")

    def test_several_runs(self):
        runs = [str(self.make_run(name)) for name in ("a", "b", "deeper/b")]
        result = self.call("plot", *runs, "--out", str(self.folder / "out"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, self.folder / "out", "learning clients time", "compare-")

    def test_each_pair_has_a_place_of_its_own(self):
        runs = {name: self.make_run(name) for name in ("a", "b", "deeper/b", "c" * 50)}
        folders = []
        for others in (["b"], ["c" * 50], ["b", "c" * 50], ["deeper/b", "c" * 50],
                       ["b", "deeper/b"]):
            result = self.call("plot", str(runs["a"]), *(str(runs[name]) for name in others))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            folders.append(pathlib.Path(result.stdout.splitlines()[0]).parent)
        self.assertEqual(len(set(folders)), 5)
        self.assertEqual(folders[0], runs["a"] / "plots/with-b")
        self.assertEqual(folders[4].parent, runs["a"] / "plots")
        self.assertIn("deeper-b", folders[4].name)

    def test_repeats_and_sweeps(self):
        run = self.make_repeats("several", [0.25, 0.5, 0.75])
        result = self.call("plot", str(run))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, run / "plots", "learning clients time")
        for case in ("client.lr=0.1", "client.lr=0.2"):
            self.make_repeats(f"sweep/{case}", [0.2, 0.4], "seed-")
        result = self.call("plot", str(self.folder / "sweep"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, self.folder / "sweep/plots",
                             "learning clients time", "compare-")

    def make_bandit(self, name, repeats):
        run = self.make_run(name)
        lines = ["round,repeat,regret,scalars_sent"]
        lines += [f"{t},{r},{t ** 0.5 * (r + 1)},{100 * t}" for t in range(1, 9)
                  for r in range(repeats)]
        self.write(f"{name}/bandit.csv", "\n".join(lines) + "\n")
        return run

    def test_bandits_have_their_regret_drawn(self):
        runs = [self.make_bandit("one", 1), self.make_bandit("three", 3)]
        result = self.call("plot", str(runs[1]))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, runs[1] / "plots", "regret clients time")
        result = self.call("plot", *map(str, runs))
        self.assert_pictures(result, runs[0] / "plots/with-three",
                             "regret clients time", "compare-")

    def test_sampling(self):
        """As a sampler that learns writes it, with and without what evaluate.regret measures."""
        learned = self.make_sampling_run("learned", measured=True)
        plain = self.make_sampling_run("plain", measured=False)
        for run in (learned, plain):
            result = self.call("plot", str(run))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assert_pictures(result, run / "plots", "learning clients sampling time")
        # Regret and probabilities are panels of their own.
        widths = [width_of(run / "plots" / "sampling.png") for run in (learned, plain)]
        self.assertEqual(widths[0], 4 * widths[1])
        result = self.call("plot", str(plain), str(learned), "--out", str(self.folder / "out"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, self.folder / "out",
                             "learning clients sampling time", "compare-")

    def test_partition(self):
        run = self.make_run("parted")
        self.write("parted/partition.csv", "client,name,label,class,train,test\n"
                   "0,a,0,cat,5,1\n1,b,3,dog,2,0\n1,b,0,cat,1,1\n")
        result = self.call("plot", str(run))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_pictures(result, run / "plots", "learning clients partition time")

    def test_missing_file_is_told_and_the_rest_drawn(self):
        run = self.make_run("part")
        (run / "clients.csv").unlink()
        result = self.call("plot", str(run))
        self.assert_one_line_error(result, "clients.csv", "hint")
        self.assert_pictures(result, run / "plots", "learning time")

    def test_empty_files(self):
        for name, text in [("rounds.csv", ROUNDS), ("rounds.csv", ""),
                           ("evaluations.csv", EVALUATIONS), ("clients.csv", "client,loss\n")]:
            with self.subTest(name=name, text=text):
                run = self.make_run("empty")
                self.write(f"empty/{name}", text)
                self.assert_one_line_error(self.call("plot", str(run)), name, "empty")

    def test_missing_column(self):
        run = self.make_run("column")
        self.write("column/rounds.csv", "round,time\n1,2\n")
        self.assert_one_line_error(self.call("plot", str(run)), "rounds.csv", "'seconds'")

    def test_no_run_directory(self):
        result = self.call("plot", str(self.folder / "nowhere"))
        self.assert_one_line_error(result, "nowhere", "hint")


class SeveralTest(ScriptTest):
    """Runs that differ by their seeds, as one."""

    def runs_of(self, *paths):
        from shared import run_files, summaries
        return run_files.runs_of(summaries.find_places(paths))

    def test_tables_are_means(self):
        (run,) = self.runs_of(self.make_repeats("several", [0.25, 0.5, 0.75]))
        self.assertEqual(run.name, "several (3 runs)")
        table = run.evaluations()
        self.assertEqual(list(table["accuracy_mean"]), [0.5 * i for i in range(11)])
        curve = table.curves["accuracy_mean"]
        self.assertEqual((curve.n, curve.band), (3, "interval"))
        half = 4.302652729911275 * 0.25 / 3 ** 0.5  # t of 0.975 with 2 degrees of freedom
        np.testing.assert_allclose(curve.high, [(0.5 + half) * i for i in range(11)], rtol=1e-12)
        np.testing.assert_allclose(curve.low, [(0.5 - half) * i for i in range(11)], atol=1e-12)
        self.assertEqual(len(run.clients()["client"]), 3 * 8)
        self.assertEqual(len(run.held_out()["client"]), 3 * 2)

    def test_curves_end_with_the_shortest_run(self):
        """What is behind is a mean of the others alone."""
        folder = self.make_repeats("several", [0.25, 0.75])
        lines = (folder / "repeats/2/evaluations.csv").read_text().splitlines()
        self.write(folder / "repeats/2/evaluations.csv", "\n".join(lines[:4]) + "\n")
        (run,) = self.runs_of(folder)
        self.assertEqual(list(run.evaluations()["round"]), [0, 4, 8])
        (folder / "repeats/2/rounds.csv").unlink()
        (run,) = self.runs_of(folder)
        self.assertEqual(run.name, "several (1 of 2 runs)")
        self.assertEqual(len(run.evaluations()["round"]), 11)
        (run,) = self.runs_of(self.make_repeats("one/lr=1", [0.25], "seed-"))
        self.assertEqual((run.name, run.several, run.folder.name), ("lr=1", False, "seed-1"))

    def test_pictures_say_what_cannot_be_compared(self):
        from shared import run_files

        def notes(*paths):
            return run_files.notes([run_files.column_of(run)[0] for run in self.runs_of(*paths)])

        several = self.make_repeats("several", [0.25, 0.75])
        self.assertEqual(notes(several, self.make_run("long", rounds=80)),
                         [run_files.CURVES, "Caution: runs of unlike length: 40 and 80 rounds",
                          "Each run of a mean has data of its own; data.seed keeps them the same."])
        self.assertEqual(notes(self.make_run("alone")), [])
        self.assertEqual(notes(self.make_run("a"), self.make_run("b")), [])

    def test_notes_stand_in_the_pictures(self):
        """Above them: pictures of runs of unlike length are higher."""
        runs = [str(self.make_run(name, rounds=rounds)) for name, rounds in
                (("a", 40), ("b", 40), ("long", 80))]
        heights = []
        for other in runs[1:]:
            result = self.call("plot", runs[0], other)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            heights.append(height_of(pathlib.Path(result.stdout.splitlines()[0])))
        self.assertGreater(heights[1], heights[0])

    def test_no_legend_is_cut(self):
        from shared import figures
        for name in ("afl", "a name of several words", "/a/path/that/has/no/end" * 9):
            with self.subTest(name=name):
                figure, (axis,) = figures.new_figure(1)
                for index in range(4):
                    axis.plot([0, 1], label=f"{index} {name} {index}")
                figures.legend_below(figure, [axis])
                figure.canvas.draw()
                box = figure.legends[0].get_window_extent()
                self.assertGreaterEqual(box.x0, 0)
                self.assertLessEqual(box.x1, figure.bbox.x1)
                texts = [text.get_text() for text in figure.legends[0].get_texts()]
                self.assertEqual(len(set(texts)), 4)
                self.assertEqual(axis.get_legend_handles_labels()[1][0] in texts, len(name) < 30)


class SplitTest(ScriptTest):
    """What pictures and pages say of their numbers."""

    def run_of(self, *arguments, **options):
        from shared import run_files
        return run_files, [run_files.Runs(self.make_run(name, **options)) for name in arguments]

    def test_held_out_clients_stand_apart(self):
        _, (run,) = self.run_of("one")
        self.assertEqual(list(run.clients()["client"]), list(range(8)))
        self.assertEqual(list(run.held_out()["client"]), [8, 9])
        self.assertEqual(run.label(3), "site, 3")
        self.assertEqual(run.label(77), "client 77")

    def test_prefix_of_several_runs(self):
        files, (tested,) = self.run_of("tested")
        _, (trained,) = self.run_of("trained", split="train")
        self.assertEqual(files.common_prefix([tested, tested]), "test ")
        self.assertEqual(files.common_prefix([trained]), "training ")
        self.assertEqual(files.common_prefix([tested, trained]), "")
        self.assertEqual(files.common_prefix([tested, trained]), "")
        self.assertEqual([tested.name, trained.name],
                         ["tested (test samples)", "trained (training samples)"])


class ResultsTest(ScriptTest):
    def test_columns_are_runs_and_unknown_values_dashes(self):
        runs = [str(self.make_run(name)) for name in ("a", "b")]
        self.write("b/summary.json", '{"rounds": 7, "metrics": {"loss_mean": 0.125}}')
        cells, head, _ = self.cells(*runs)
        self.assertEqual(head, ["a", "b"])
        self.assertEqual(cells["accuracy, mean of clients"], ["50.00 %", "-"])
        self.assertEqual(cells["loss, mean of clients"], ["1.5000", "0.1250"])
        self.assertEqual(cells["evaluated on"], ["test samples", "-"])
        self.assertEqual(cells["rounds"], ["40", "7"])
        self.assertEqual(cells["sent a round, all ranks"], ["1.25 MB", "-"])

    def test_training_numbers_are_called_so(self):
        for split, words in [("test", "test "), ("train", "training "), ("mixed", "")]:
            runs = [str(self.make_run(f"{split}-{i}", split=split)) for i in (1, 2)]
            lines = self.call("results", *runs).stdout.splitlines()
            for label in (f"{words}accuracy, mean of clients ", f"{words}loss, mean of clients ",
                          "test accuracy, held-out clients "):
                self.assertTrue([line for line in lines if line.startswith(label)], lines)

    def cells(self, *runs):
        """{label: cells} of the table, and the lines below it."""
        result = self.call("results", *map(str, runs))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        head, _, *lines = result.stdout.splitlines()
        rows = [re.split(r"  +", line.strip()) for line in lines]
        return ({row[0]: row[1:] for row in rows if len(row) > 1}, re.split(r"  +", head.strip()),
                [row[0] for row in rows if len(row) == 1])

    def test_repeats_are_means(self):
        run = self.make_repeats("several", [0.25, 0.5, 0.75])
        cells, _, notes = self.cells(run)
        self.assertEqual(cells["runs; mean (deviation)"], ["3"])
        self.assertEqual(cells["test accuracy, mean of clients"], ["50.00 % (25.00)"])
        self.assertEqual((cells["rounds"], cells["model digest"]), (["40"], ["differ"]))
        self.assertEqual(notes, ["Each run of a mean has data of its own; data.seed keeps them the "
                                 "same."])
        (run / "repeats/2/summary.json").unlink()
        self.write(run / "job.cfg", "[run]\nrepeats = 5\n")
        cells, _, _ = self.cells(run)
        self.assertEqual(cells["runs; mean (deviation)"], ["2 of 5"])
        self.assertEqual(cells["test accuracy, mean of clients"], ["50.00 % (35.36)"])
        self.make_repeats("one/lr=1", [0.25], "seed-")
        cells, head, _ = self.cells(self.folder / "one")
        self.assertEqual((head, cells["test accuracy, mean of clients"]), (["lr=1"], ["25.00 %"]))
        self.assertNotIn("runs; mean (deviation)", cells)

    def test_the_summary_of_repeats_alone(self):
        """Without the repeats' own: it has means, deviations and, in n, of how many they are."""
        self.write("kept/summary.json", json.dumps({
            "name": "kept", "repeats": 5, "rounds": 50, "rounds_done": [30, 53, 50, 50, 50],
            "n": {"target_round": 2, "accuracy_mean": 5}, "split": "test",
            "metrics": {"accuracy_mean": 0.5, "accuracy_mean_std": 0.125, "target_round": 41.5,
                        "target_round_std": 16.25}}))
        cells, _, notes = self.cells(self.folder / "kept")
        self.assertEqual(cells["runs; mean (deviation)"], ["5"])
        self.assertEqual(cells["test accuracy, mean of clients"], ["50.00 % (12.50)"])
        self.assertEqual(cells["rounds to the target"], ["41.5 (16), 2 of 5"])
        self.assertNotIn("rounds to the target, median", cells)
        self.assertEqual(notes, ["Caution: runs of unlike length: 30, 50 and 53 rounds"])

    def test_a_sweep_has_a_column_for_each_case(self):
        for case, numbers in [("aggregator.kind=afl,client.lr=0.1", [0.2, 0.4]),
                              ("aggregator.kind=fedavg,client.lr=0.1", [0.3, 0.5])]:
            self.make_repeats(f"sweep/{case}", numbers, "seed-")
        cells, head, notes = self.cells(self.folder / "sweep")
        self.assertEqual(head, ["afl, lr=0.1", "fedavg, lr=0.1"])
        self.assertEqual(cells["test accuracy, mean of clients"], ["30.00 % (14.14)",
                                                                   "40.00 % (14.14)"])
        self.assertEqual(len(notes), 1)

    def test_what_cannot_be_compared(self):
        """Unlike lengths, data and evaluated samples; the same data of several runs are alike."""
        for name, options, digest, words in [
                ("long", {"rounds": 80}, "a", ["40 and 80 rounds"]),
                ("other", {}, "b", ["unlike data"]), ("same", {}, "a", []),
                ("trained", {"split": "train"}, "a", ["test and train"])]:
            with self.subTest(name=name):
                for run, text in ((self.make_run("first"), "a"),
                                  (self.make_run(name, **options), digest)):
                    summary = json.loads((run / "summary.json").read_text())
                    self.write(run / "summary.json", json.dumps({**summary, "data_digest": text}))
                notes = self.cells(self.folder / "first", self.folder / name)[2]
                self.assertEqual(len(notes), len(words), notes)
                for word, note in zip(words, notes):
                    self.assertIn(word, note)

    def test_private_runs_of_known_seeds_share_their_noise(self):
        runs = [self.make_run(name) for name in ("first", "second")]
        for flaw, count in ((None, 0), ("not private: the seed is known", 1)):
            for run in runs:
                summary = json.loads((run / "summary.json").read_text())
                privacy = {"epsilon": 4, "delta": 1e-5, **({"flaw": flaw} if flaw else {})}
                self.write(run / "summary.json", json.dumps({**summary, "privacy": privacy}))
            notes = self.cells(*runs)[2]
            self.assertEqual(sum("the same noise" in note for note in notes), count, notes)
            self.assertEqual(self.cells(runs[0])[2], [])

    def test_names_are_what_differs(self):
        runs = [self.make_run(name) for name in ("here/a", "there/a", "there/b")]
        job = "[run]\nname = {}\nout = {}\n[sampler]\nkind = {}\n[client]\nlr = 0.1\n"
        self.assertEqual(self.cells(*runs)[1], ["here/a", "there/a", "b"])
        for run, kind in zip(runs, ("uniform", "osmd", "osmd")):
            self.write(run / "job.cfg", job.format(run.name, run, kind))
        self.assertEqual(self.cells(*runs[:2])[1], ["uniform", "osmd"])
        self.assertEqual(self.cells(*runs)[1], ["uniform", "osmd (there/a)", "osmd (b)"])
        self.write(runs[2] / "job.cfg", job.format("b", "b", "osmd").replace("0.1", "0.3"))
        self.assertEqual(self.cells(*runs)[1], ["uniform, lr=0.1", "osmd, lr=0.1", "osmd, lr=0.3"])
        self.assertEqual(several.tails(["x/repeats/1", "y/3", "z/a=1/seed-2", "z/a=1/seed-3"]),
                         ["x/repeats/1", "y/3", "a=1/seed-2", "a=1/seed-3"])
        self.write(runs[2] / "job.cfg", job.format("b", "b", "o" * 50))
        self.assertEqual(self.cells(*runs)[1], ["here/a", "there/a", "b"])

    def test_many_columns_keep_within_the_terminal(self):
        for number in range(6):
            self.make_run(f"run-{number}")
        control, terminal = pty.openpty()
        self.addCleanup(os.close, control)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        subprocess.run([SCRIPTS / "results", *(self.folder / f"run-{i}" for i in range(6))],
                       stdin=terminal, stdout=terminal, check=True, env=environment, timeout=60)
        os.close(terminal)
        lines = os.read(control, 1 << 16).decode().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        heads = [line.split() for line in lines if line.split()[:1] == ["run-0"] or "run-5" in line]
        self.assertEqual(len(heads), 2)  # the first table has the first run, the last one the last
        self.assertEqual(sum(line.startswith("ranks ") for line in lines), sum(
            set(line) == {"-"} for line in lines))  # each table has all rows

    def test_a_reader_that_wants_no_more(self):
        self.make_run("one")
        for command in (["results", self.folder / "one"], ["fetch-data"], ["reproduce"]):
            ours, theirs = os.pipe()
            os.close(ours)
            ended = subprocess.run([SCRIPTS / command[0], *command[1:]], stdout=theirs, text=True,
                                   stderr=subprocess.PIPE, timeout=60)
            os.close(theirs)
            self.assertEqual((ended.returncode, ended.stderr), (141, ""), command)

    def test_no_run(self):
        self.assert_one_line_error(self.call("results", str(self.folder)), "no run directory")

    def test_unfinished_run(self):
        run = self.make_run("going", summary=False)
        self.assert_one_line_error(self.call("results", str(run)), "summary.json", "hint")

    def test_broken_summary(self):
        self.write("broken/summary.json", '{"rounds": ')
        self.assert_one_line_error(self.call("results", str(self.folder / "broken")),
                                   "summary.json")


if __name__ == "__main__":
    unittest.main()
