"""scripts/report --follow on made-up runs: their states, the server, and what a browser shows."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from browser import Browser, find_browser
from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import live_view, progress  # noqa: E402
from hanse.program import Refused, find_program  # noqa: E402

F_OFD_SETLK = 37
ROUNDS = "round,clients,seconds,seconds_evaluate\n"


def has_program():
    try:
        return find_program().exists()
    except Refused:
        return False


@unittest.skipUnless(has_program(), "build/hanse is not built")
class GrowingRuns(ScriptTest):
    """A study of two cases; lr = 0.1 has two seeds."""

    def make(self, case, seed=1, rounds=10, in_all=40):
        run = f"study/client.lr={case}/seed-{seed}"
        self.write(f"{run}/job.cfg", f"[run]\nname = s\nrounds = {in_all}\nseed = {seed}\n"
                                     f"[client]\nlr = {case}\nbatch = 5\n")
        return self.grow(run, rounds)

    def grow(self, run, rounds):
        """Rounds of 0.25 s; each second one has an evaluation, of 0.5 s."""
        self.write(f"{run}/rounds.csv", ROUNDS + "".join(
            f"{t},3,0.25,{0.5 * (t % 2 == 0)}\n" for t in range(1, rounds + 1)))
        self.write(f"{run}/evaluations.csv", "round,split,loss_mean,accuracy_mean\n" + "".join(
            f"{t},test,{1 / t},{t / 100}\n" for t in range(2, rounds + 1, 2)))
        return self.folder / run

    def hold(self, run):
        """The lock of a run that is running."""
        file = open(self.write(run / "lock", f"host {os.uname().nodename}, process 1"), "r+")
        self.addCleanup(file.close)
        fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
        return file

    def end(self, run, lock=None, summary=True):
        if summary:
            self.write(run / "summary.json", json.dumps({"rounds": 40}))
        if lock:
            lock.close()
            (run / "lock").unlink()


class ProgressTest(GrowingRuns):
    def told(self, run):
        return progress.progress_of([run])[run]

    def test_a_run_is_running_while_its_lock_is_held(self):
        run = self.make("0.1")
        lock = self.hold(run)
        found = self.told(run)
        self.assertEqual((found.state, found.rounds, found.of_rounds), ("running", 10, 40))
        self.assertEqual((found.metric, found.value), ("accuracy_mean", 0.1))
        self.assertAlmostEqual(found.rounds_per_second, 10 / (10 * 0.25 + 5 * 0.5))
        self.assertAlmostEqual(found.seconds_left, 30 / 2)
        lock.close()  # it was killed: the file stays
        found = self.told(run)
        self.assertEqual((found.state, found.seconds_left), ("stopped", None))
        self.assertIn("killed", found.why)

    def test_done_stopped_and_failed(self):
        run, other = self.make("0.1"), self.make("0.2")
        self.assertEqual((self.told(run).state, self.told(run).why), ("stopped", ""))
        self.write(run / "failed.txt", "no room; hint: less\n")
        self.assertEqual((self.told(run).state, self.told(run).why),
                         ("failed", "no room; hint: less"))
        self.end(run)
        found = progress.progress_of([other, self.folder / "none", run])
        self.assertEqual({folder: one.state for folder, one in found.items()},
                         {other: "stopped", self.folder / "none": "stopped", run: "done"})

    def test_why_it_failed(self):
        run = self.make("0.1", rounds=0)
        self.assertEqual(self.told(run).why, "")
        self.write("study/client.lr=0.1/seed-1.log", "hanse: it trains\nhanse: error: no room: "
                                                     "hint: more\n")
        found = self.told(run)
        self.assertEqual((found.state, found.why), ("failed", "no room: hint: more"))
        self.assertEqual((found.rounds, found.rounds_per_second, found.value), (0, None, None))

    def test_durations(self):
        for seconds, text in [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"),
                              (7500, "2 h 5 min"), (97200, "1 d 3 h")]:
            self.assertEqual(live_view.duration(seconds), text)


class Served(GrowingRuns):
    def follow(self, *paths):
        """The address of the page of these."""
        command = [SCRIPTS / "report", *(paths or [self.folder / "study"]), "--follow"]
        self.server = subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,  # Ctrl-C reaches it where the tests are in the background
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        for end in (self.server.stdout.close, self.server.stderr.close, self.server.wait,
                    self.server.kill):
            self.addCleanup(end)
        return self.server.stdout.readline().strip()

    def get(self, address):
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()


class ServerTest(Served):
    def test_what_is_new_is_sent_once(self):
        run = self.make("0.1")
        lock = self.hold(run)
        address = self.follow()
        self.assertRegex(address, r"^http://127\.0\.0\.1:\d+/[\w-]{12}/$")
        _, headers, page = self.get(address)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotRegex(page, r"https?:|@import")
        self.assertIn('<link rel="icon" href="data:,">', page)  # else browsers ask for one
        _, headers, text = self.get(address + "now?")
        for words in ("10 of 40 rounds", "2 rounds/s", "15 s left", "running",
                      "Test accuracy, mean of clients"):
            self.assertIn(words, text)
        time.sleep(1.1)
        self.assertEqual(self.get(f"{address}now?{headers['ETag']}")[::2], (204, ""))
        self.grow(run, 20)
        self.make("0.2", rounds=0)
        time.sleep(1.1)
        _, _, text = self.get(f"{address}now?{headers['ETag']}")
        self.assertIn("20 of 40 rounds", text)
        self.assertIn("client.lr", text)
        self.assertNotIn("client.batch", text)
        self.end(run, lock)
        time.sleep(1.1)
        self.assertIn(">done</i>", self.get(address + "now?")[2])

    def test_repeats_that_have_not_begun(self):
        run = self.make_repeats("several", [0.5])
        self.write(run / "job.cfg", "[run]\nname = made\nrepeats = 5\n")
        self.assertIn("<b>4</b><span>not begun", self.get(self.follow(run) + "now?")[2])

    def test_strangers_are_refused(self):
        self.make("0.1")
        address = self.follow()
        for other in ("/", "/now", "/now?", "/../../etc/passwd"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.get(re.sub(r"(:\d+)/.*", r"\1", address) + other)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()

    def test_ctrl_c_ends_it_with_one_line(self):
        self.make("0.1")
        self.get(self.follow())
        self.server.send_signal(signal.SIGINT)
        _, said = self.server.communicate(timeout=60)
        self.assertEqual(said.strip(), "report: the view has ended; the runs go on")
        self.assertEqual(self.server.returncode, 130)

    def test_a_folder_without_runs_waits_and_none_is_refused(self):
        (self.folder / "study").mkdir()
        address = self.follow()
        self.assertIn("No run has begun yet", self.get(address + "now?")[2])
        self.make("0.1")
        time.sleep(1.1)
        self.assertIn("10 of 40 rounds", self.get(address + "now?")[2])
        for options, words in [([self.folder / "none"], ["none is no folder", "hint"]),
                               ([self.folder, "-o", "x.html"], ["--follow writes no file"]),
                               ([self.folder, "--port", re.search(r":(\d+)/", address)[1]],
                                ["port", "hint"])]:
            self.assert_one_line_error(self.script("report", *options, "--follow"), *words)


@unittest.skipUnless(find_browser(), "no Chromium is installed")
class BrowserTest(Served):
    """What a reader sees, on a phone and in the dark."""

    def open_browser(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def assert_looks(self, address):
        """Pages fit a phone, have a dark mode, complain of nothing and need nothing else."""
        grounds = []
        for width, dark in [(390, False), (390, True), (1200, False)]:
            self.browser.look(width, dark)
            self.browser.open(address)
            self.browser.wait_for("document.querySelector('figure svg') !== null")
            self.assertEqual(self.browser.value("document.documentElement.scrollWidth > "
                                                f"{width}"), False, width)
            self.assertEqual(self.browser.errors, [])
            own = [where for where in self.browser.requests
                   if not where.startswith(f"{address}now?")]
            self.assertEqual(own, [])
            grounds.append([self.browser.value(f"getComputedStyle({where}).{what}") for where, what
                            in [("document.body", "backgroundColor"), ("document.body", "color"),
                                ("document.querySelector('figure svg path')", "fill"),
                                ("document.querySelector('figure svg text')", "fill")]])
        self.assertEqual(grounds[0], grounds[2])
        for light, dark in zip(*grounds[:2]):
            self.assertNotEqual(light, dark)

    def test_the_report(self):
        self.open_browser()
        long = self.make_run("client.lr=0.1,comm.compress=none,aggregator.kind=" + "afl" * 20)
        self.write(long / "job.cfg", "[run]\nname = s\n")
        for name, paths in [("one", [long]), ("several", [
                self.make_repeats(f"a-long-name-{i}-of-a-folder-of-repeats", [0.2, 0.4],
                                  job=f"[client]\nlr = {i}\n") for i in range(5)])]:
            out = self.folder / f"{name}.html"
            result = self.script("report", *paths, "-o", out)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assert_looks(f"file://{out}")
            self.assertEqual(self.browser.requests, [])

    def test_the_live_view_grows_and_tells_the_end(self):
        first, second, third = self.make("0.1"), self.make("0.1", 2), self.make("0.2")
        locks = [self.hold(run) for run in (first, second, third)]
        self.open_browser()
        address = self.follow()
        self.assert_looks(address)
        seen = "document.body.innerText"
        for words in ("lr=0.1, seed 1", "lr=0.1, seed 2", "lr=0.2", "client.lr"):
            self.assertIn(words, self.browser.value(seen))
        self.assertEqual(self.browser.value("document.title"), "3 running: study")
        self.browser.value("document.querySelector('#different').dataset.same = 'yes'")
        self.grow(first, 30)
        self.browser.wait_for(f"{seen}.includes('30 of 40 rounds')")
        self.assertEqual(self.browser.value("document.querySelector('progress').value"), 30)
        self.end(first, locks[0])
        self.end(second, locks[1], summary=False)
        self.write(third / "failed.txt", "no room")
        self.end(third, locks[2], summary=False)
        self.browser.wait_for("document.title === '1 failed, 1 stopped, 1 done: study'")
        states = "[...document.querySelectorAll('.runs i')].map(state => state.innerText)"
        self.assertEqual(self.browser.value(states), ["failed", "stopped", "done"])
        self.assertEqual(self.browser.errors, [])
        self.server.send_signal(signal.SIGINT)
        self.browser.wait_for(f"{seen}.includes('The view has ended')")
        self.assertIn("30 of 40 rounds", self.browser.value(seen))  # what it showed stays


if __name__ == "__main__":
    unittest.main()
