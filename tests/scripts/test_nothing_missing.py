"""From any study's folder, no case of the sweep is missing from sweep's table, results, report, plot and
the live page without a line that names it, with the reason where one is known."""
import contextlib
import functools
import io
import os
import random
import re
import shutil
import sys
import types
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
os.environ.setdefault("MPLBACKEND", "agg")
from shared import live_view, progress  # noqa: E402
from hanse import several, studies  # noqa: E402
from hanse.errors import HanseError  # noqa: E402

STATES = ("done", "done", "going", "refused", "failed", "none", "apart")


@functools.cache
def load(name):
    """A script as a module: a process for each call would take most of the time."""
    path = SCRIPTS / name
    module = types.ModuleType(f"script_{name}")
    module.__file__ = str(path)
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return module


class NothingMissing(ScriptTest):
    def make(self, draw, seeds=2):
        """A study whose cases stand anywhere between not begun and done; {case: states of its
        seeds}."""
        self.write("study/sweep.json", "{}")
        rates = [f"0.{i}" for i in range(1, draw.randint(3, 6))]
        self.write("study/study.toml", f'job = "a.cfg"\nseeds = {seeds}\n[vary]\nclient.lr = '
                   f"[{', '.join(rates)}]\n")
        return {rate: [self.make_state(rate, seed, draw.choice(STATES)) for seed in (1, 2)]
                for rate in rates}

    def make_state(self, rate, seed, state):
        run = f"study/client.lr={rate}/seed-{seed}"
        if state == "refused":
            self.write(f"{run}.log", f"hanse: error: refused {rate}: hint: less\n")
        elif state != "none":
            self.make_run(run, rounds=20 if state == "going" else 40, summary=state in ("done", "apart"))
            self.write(f"{run}/job.cfg", f"[run]\nrounds = 40\n[client]\nlr = {rate}\n")
            if state == "failed":
                self.write(f"{run}/failed.txt", f"failed {rate}; hint: more\n")
            if state == "apart":  # its evaluations are in rounds of its own
                path = self.folder / run / "evaluations.csv"
                head, *lines = path.read_text().splitlines()
                path.write_text("\n".join([head, *(
                    f"{int(line.partition(',')[0]) * 5 + seed}," + line.partition(",")[2]
                    for line in lines)]) + "\n")
        return state

    def said(self, script, *arguments):
        """What a script prints."""
        out, before = io.StringIO(), sys.argv
        sys.argv = [script, *map(str, arguments)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                load(script).main(*([sys.argv[1:]] if script == "sweep" else []))
            except (HanseError, FileNotFoundError) as error:
                print(error)
            finally:
                sys.argv = before
        return out.getvalue()

    def assert_told(self, what, text, rate, states):
        self.assertRegex(text, rf"\b{re.escape(rate)}\b", what)
        for state in {"refused", "failed"} & set(states):
            self.assertIn(f"{state} {rate}", text, what)

    def test_of_any_study(self):
        study = self.folder / "study"
        for seed in range(int(os.environ.get("HANSE_STUDIES", "3"))):
            made = self.make(random.Random(seed))
            page = self.folder / "page.html"
            texts = {"results": self.said("results", study),
                     "sweep": self.said("sweep", study, "--table"),
                     "report": self.said("report", study, "--band", "range", "-o", page),
                     "plot": self.said("plot", study, "--band", "range", "--metric", "accuracy_mean",
                                       "--format", "svg")}
            if page.exists():
                texts["report"] += page.read_text()
            for drawing in study.glob("plots/*.svg"):
                texts["plot"] += drawing.read_text()
            for rate, states in made.items():
                for what, text in texts.items():
                    with self.subTest(seed=seed, rate=rate, states=states, what=what):
                        self.assert_told(what, text, rate, states)
            shutil.rmtree(study)
            page.unlink(missing_ok=True)

    def test_the_live_page_counts_and_names_refused_runs(self):
        """Also where no run of a case has a directory."""
        for rate, states in (("0.1", ("done", "refused")), ("0.2", ("refused", "refused")),
                             ("0.3", ("none", "none"))):
            self.write("study/study.toml", 'job = "a.cfg"\nseeds = 2\n[vary]\nclient.lr = [0.1, 0.2, '
                       "0.3]\n")
            for seed, state in enumerate(states, 1):
                self.make_state(rate, seed, state)
        watch = live_view.Watch([self.folder / "study"])
        refused, waiting = watch.not_begun(watch.places())
        self.assertEqual(([(name, one.state, one.why) for _, name, (one,) in refused], waiting),
                         ([("lr=0.1", "failed", "refused 0.1: hint: less")]
                          + 2 * [("lr=0.2", "failed", "refused 0.2: hint: less")], 2))
        told = [one for *_, several_ in refused for one in several_]
        self.assertIn("<b>3</b><span>failed</span>", live_view.head(["study"], told, waiting))
        self.assertIn("<b>lr=0.2, seed 2</b>", live_view.listed(refused))

    def test_lines_on_what_a_study_lacks(self):
        for rate, states in (("0.1", ("done", "refused")), ("0.2", ("failed", "going"))):
            for seed, state in enumerate(states, 1):
                self.make_state(rate, seed, state)
        self.write("study/study.toml", 'job = "a.cfg"\nseeds = 3\n[vary]\nclient.lr = [0.1, 0.2, 0.3]\n')
        self.assertEqual(several.absent(self.folder / "study"), [
            "client.lr=0.1: 1 of 3 runs failed (seed 2): refused 0.1: hint: less; 1 of 3 runs not begun",
            "client.lr=0.2: 1 of 3 runs failed (seed 1): failed 0.2; hint: more; 1 of 3 runs not "
            "ended; 1 of 3 runs not begun", "client.lr=0.3: 3 of 3 runs not begun"])
        self.assertEqual(len(studies.read_folder(self.folder / "study").shortfall(failed_alone=True)), 2)
        self.write("other/client.lr=0.7/seed-1.log", "hanse: error: refused 0.7\n")
        with self.assertRaisesRegex(FileNotFoundError, "no run has begun: client.lr=0.7: 1 of 1 runs "
                                    "failed .seed 1.: refused 0.7"):
            several.places(self.folder / "other")

    def test_a_page_says_what_it_draws_no_curve_of(self):
        """Of seeds that are evaluated in rounds of their own there is no mean curve."""
        self.write("study/study.toml", 'job = "a.cfg"\nseeds = 2\n[vary]\nclient.lr = [0.1, 0.2]\n')
        for rate, state in (("0.1", "done"), ("0.2", "apart")):
            for seed in (1, 2):
                self.make_state(rate, seed, state)
        page = self.folder / "page.html"
        self.said("report", self.folder / "study", "--band", "range", "-o", page)
        text = page.read_text()
        self.assertIn("<h2>Left out</h2>", text)
        self.assertRegex(text, "<th>lr=0.2[^<]*</th><td[^>]*>[^<]*client.lr=0.2/evaluations.csv: the runs "
                         "have no rounds in common")
        self.assertNotIn("<th>lr=0.1", text[text.index("Left out"):text.index("<h2>Metrics")])

    def test_a_folder_of_runs_is_the_runs_in_it(self):
        for name in ("runs/a", "runs/b", "runs/more/c", "runs/study/client.lr=1/seed-1"):
            self.make_run(name)
        (self.folder / "runs/latest").symlink_to("a")
        (self.folder / "runs/round").symlink_to(".")
        found = several.places(self.folder / "runs")
        self.assertEqual([place.path.name for place in found], ["a", "b", "c", "client.lr=1"])
        self.assertEqual(len(live_view.Watch([self.folder / "runs"]).places()), 4)
        self.assertEqual(progress.described(self.folder / "runs/a", {"state": "stopped"}).why, "")


if __name__ == "__main__":
    unittest.main()
