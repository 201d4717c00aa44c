"""Rules of one's own: the same bits as those in C++, on any ranks and after a kill, and errors."""

import json
import os
import subprocess
import sys

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OWN = os.path.join(ROOT, "jobs", "own-rules")
# Sixteen clients of which four take part: no weight is rounded.
QUARTERS = {"federation.clients": 16, "sampler.per-round": 4}
PYTHON = {"HANSE_PYTHON": sys.executable}


def own(section, path, args=""):
    """The keys of a rule in Python or in a library."""
    name = "server.optimizer" if section == "server" else f"{section}.kind"
    return {name: "python" if path.endswith(".py") else "plugin", f"{section}.path": path,
            f"{section}.args": args}


class OwnRules(harness.Case):
    def hanse(self, *arguments, environment=None, **more):
        return super().hanse(*arguments, environment=environment or PYTHON, **more)

    def start(self, *arguments, environment=None, **more):
        return super().start(*arguments, environment=environment or PYTHON, **more)

    def plugin(self):
        """The example's library, built as its CMakeLists.txt says."""
        source, build = os.path.join(OWN, "plugin"), self.path("library")
        for command in [["cmake", "-S", source, "-B", build, f"-DHANSE={ROOT}"],
                        ["cmake", "--build", build]]:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return os.path.join(build, "superquantile.so")

    def check_forms(self, builtin, forms):
        """All forms of a rule leave the model of the one in C++, also stopped on two ranks and
        resumed on three."""
        expected = self.train(self.job({**QUARTERS, **builtin}), "builtin")
        for name, rule in forms.items():
            job = self.job({**QUARTERS, **rule})
            self.assert_digest(self.train(job, name), expected, name)
            stopped = self.train(job, name + "-stopped", ranks=2, changes={"run.rounds": 5})
            self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
            self.assert_digest(stopped, expected, name)


class SameBits(OwnRules):
    def test_the_largest_losses_of_all_candidates(self):
        everyone = {"sampler.kind": "power-of-choice", "sampler.candidates": 16}
        self.check_forms(everyone, {"python": own("sampler", os.path.join(OWN, "loudest.py"),
                                                  "candidates = 16")})

    def test_equal_weights(self):
        equal = self.write("equal.py", "import numpy as np\n\nclass Aggregator:\n"
                           "    def mix(self, r):\n"
                           "        return np.full(len(r.clients), 1 / len(r.clients))\n")
        # With a tail of everybody the library's weights are the shares, which are equal here.
        self.check_forms({"aggregator.weights": "uniform"},
                         {"formula": {"aggregator.kind": "formula", "aggregator.formula": "1"},
                          "python": own("aggregator", equal),
                          "plugin": own("aggregator", self.plugin(), "tail = 1")})

    def test_superquantile(self):
        rule = "max(0, min(2 / K, 1 - (K - rank(F)) * 2 / K))"  # half of the participants
        self.check_forms({"aggregator.kind": "superquantile"},
                         {"formula": {"aggregator.kind": "formula", "aggregator.formula": rule},
                          "python": own("aggregator", os.path.join(OWN, "superquantile.py")),
                          "plugin": own("aggregator", self.plugin(), "tail = 0.5")})

    def test_norms_and_inner_products(self):
        """Coefficients that follow after the training: the formula's and Python's are the same."""
        by_norm = self.write("norm.py", "class Aggregator:\n    needs = {'norms'}\n"
                             "    def mix(self, r):\n        values = 1 / (1 + r.norms)\n"
                             "        return values / values.cumsum()[-1]\n")
        by_gram = self.write("gram.py", "class Aggregator:\n    needs = {'gram'}\n"
                             "    def mix(self, r):\n        values = 1 / (1 + r.gram.diagonal())\n"
                             "        return values / values.cumsum()[-1]\n")
        self.check_forms({"aggregator.kind": "formula", "aggregator.formula": "1 / (1 + norm)"},
                         {"norm": own("aggregator", by_norm)})
        gram = self.train(self.job({**QUARTERS, **own("aggregator", by_gram)}), "gram", ranks=2)
        self.assertEqual(len(harness.table(gram, "directions.csv")), 4 * 12)

    def test_server_momentum(self):
        self.check_forms({"server.optimizer": "momentum"},
                         {"python": own("server", os.path.join(OWN, "momentum.py"))})

    def test_a_bandit_after_a_kill(self):
        """A sampler with a state of its own, and a metric: a killed run goes on to the same bits,
        draws and columns."""
        changes = {**own("sampler", os.path.join(OWN, "bandit.py"), "epsilon=0.3"),
                   "evaluate.metric": os.path.join(OWN, "spread.py"), "run.rounds": 60,
                   "checkpoint.every": 2, "run.trace": "true"}
        job = self.job(changes)
        straight = self.train(job, "straight")
        killed = self.path("killed")
        process = self.start("run", job, f"--run.out={killed}", ranks=2)
        process.wait_until(lambda: len(self.checkpoints(killed)) >= 2, "a checkpoint")
        process.signal(harness.signal.SIGKILL)
        for pid, _ in harness.marked(self.mark):
            harness.kill(pid)
        self.wait_until_gone(process, "a kill of all ranks")
        self.hanse("resume", killed, "--checkpoint.every=0", ranks=3)
        self.assert_digest(killed, straight)
        for name in ["trace-sampler.json", "evaluations.csv"]:
            with open(os.path.join(straight, name)) as one, open(os.path.join(killed, name)) as two:
                self.assertEqual(one.read(), two.read(), name)
        line = harness.table(straight, "evaluations.csv")[-1]
        self.assertGreater(float(line["loss_median"]), 0)
        self.assertTrue(0 <= float(line["clients_above_half"]) <= 1)

    def test_names_that_are_no_text(self):
        """A file's name may be any bytes, and a metric's any text; the file may lie elsewhere when
        the run goes on."""
        text = ("class Metric:\n    def __call__(self, clients):\n"
                "        return {'back\\\\slash\\t': clients.loss.max()}\n")
        self.write("metric.py", text)
        odd, moved = self.path(os.fsdecode(b"m\xe9tric.py")), self.path("moved.py")
        os.rename(self.path("metric.py"), odd)
        job = self.job({"evaluate.every": 4})
        run = self.path("run")
        self.hanse("run", job, f"--run.out={run}", f"--evaluate.metric={odd}", "--run.rounds=8")
        with open(os.path.join(run, "metrics.jsonl")) as file:
            names = {name for line in file for name in json.loads(line)}
        self.assertIn("back\\slash ", names)
        self.assertIn("back\\slash ", harness.summary(run)["metrics"])
        self.assertIn("\ufffd", harness.summary(run)["rules"]["evaluate.metric"]["path"])
        os.rename(odd, moved)
        refused = self.hanse("resume", run, "--run.rounds=12", expect=2)
        self.assert_one_error(refused, 2, "no such file", "m\\xE9tric.py", "--evaluate.metric=PATH")
        other = self.write("other.py", text + "\n")
        refused = self.hanse("resume", run, "--run.rounds=12", f"--evaluate.metric={other}",
                             expect=2)
        self.assert_one_error(refused, 2, "is not the file that the run has started with", other)
        self.hanse("resume", run, "--run.rounds=12", f"--evaluate.metric={moved}")
        self.assertEqual(harness.column(run, "evaluations.csv", "round"), ["4", "8", "12"])

    def test_formula_sampler(self):
        job = self.job({"sampler.kind": "formula", "run.trace": "true",
                        "sampler.formula": "sqrt(a) + 0.1 * lambda * age / round + 0.01 * F",
                        "aggregator.kind": "formula", "aggregator.formula": "n * w * F"})
        run = self.train(job, "run")
        stopped = self.train(job, "stopped", ranks=2, changes={"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
        self.assert_digest(stopped, run)
        for rule in ["sampler", "aggregator"]:
            path = os.path.join(run, f"trace-{rule}.json")
            with open(path) as file:
                trace = json.load(file)
            found = json.loads(self.hanse("replay", path).stdout())
            self.assertEqual(len(found["rounds"]), 12)
            for given, round in zip(trace["rounds"], found["rounds"]):
                if rule == "aggregator":
                    values = [n * w * f for n, w, f in zip(given["sizes"], given["draw_weights"],
                                                           given["losses"])]
                    for value, weight in zip(values, round["weights"]):
                        self.assertAlmostEqual(weight, value / sum(values), places=12)
                else:
                    self.assertAlmostEqual(sum(round["probabilities"]), 1, places=9)


# Sixteen clients, of whom four are at work; the server steps at every second arrival.
ASYNCHRONOUS = {"federation.clients": 16, "clock.kind": "virtual", "clock.speed": "lognormal(0, 1)",
                "async.kind": "fedbuff", "async.concurrency": 4, "async.buffer": 2}


class Asynchronous(OwnRules):
    def test_a_bandit_is_told_how_many_a_draw_asks_for(self):
        """The first draw is of four, the others of as many as are done: one model on any ranks and
        after a resume, and the check finds it pure."""
        changes = {**ASYNCHRONOUS, **own("sampler", os.path.join(OWN, "bandit.py")),
                   "run.check-rules": "true", "run.rounds": 12}
        alone, _ = self.compare_places(changes)
        self.assertEqual(len(harness.table(alone, "participation.csv")), 24)

    def test_what_draws_more_is_an_error_of_the_file(self):
        fixed = self.write("fixed.py", "class Sampler:\n    def __init__(self, clients, args):\n"
                           "        self.k = self.per_round\n"
                           "    def draw(self, round, available, rng):\n"
                           "        return available[:self.k], [1] * self.k\n")
        process = self.hanse("run", self.job({**ASYNCHRONOUS, **own("sampler", fixed)}), expect=1)
        self.assert_one_error(process, 1, "fixed.py:4: draw() returns 4 clients, more than the 1 that",
                              "self.per_round")


class Libraries(OwnRules):
    """Those of tests/plugin, compiled here."""

    def library(self, name, *options):
        path = self.path(name)
        subprocess.run(["cc", "-shared", "-fPIC", *options, f"-I{ROOT}/include", "-o", path,
                        os.path.join(ROOT, "tests", "plugin", "rules.c")], check=True)
        return path

    def test_samplers_in_asynchronous_rounds(self):
        """One of today is told how many a draw asks for; one from before cannot be."""
        today = own("sampler", self.library("today.so"), "what=asked")
        self.compare_places({**ASYNCHRONOUS, **today, "run.rounds": 8})
        before = own("sampler", self.library("before.so", "-DFIRST_FORM"))
        refused = self.hanse("run", self.job({**ASYNCHRONOUS, **before}), ranks=2, expect=2)
        self.assert_one_error(refused, 2, "the library is older", "sampler.path", "random->asked")
        self.train(self.job({**QUARTERS, **before}), "in-rounds")

    def test_columns(self):
        """Their weights are mix()'s, and the calls of mix() a state that all ranks get."""
        columns = own("aggregator", self.library("columns.so"), "what=columns")
        alone, _ = self.compare_places({**COLUMNS, **columns, "run.rounds": 4, "server.lr": 0.01,
                                        "run.check-rules": "true"})
        self.assertEqual(harness.column(alone, "rounds.csv", "rejected"), ["0"] * 4)


# Seven participants of equal weight, and more parameters than a block of columns has.
COLUMNS = {"federation.clients": 16, "sampler.per-round": 7, "data.shape": "1,8,80",
           "model.kind": "mlp", "model.hidden": 8, "client.lr": 0.05}
MEDIAN = os.path.join(OWN, "weighted_median.py")


class ByColumns(OwnRules):
    def test_the_weighted_median_of_equals_is_the_median(self):
        """Also among attackers, whose row no rank has, and of compressed updates; the check computes
        every block again."""
        attack = {"attack.clients": 3, "attack.kind": "alie"}
        for name, more in {"plain": {"run.check-rules": "true"}, "attacked": attack,
                           "broken": {"attack.clients": 2, "attack.kind": "nan"},
                           "sent": {"comm.compress": "top-k", "comm.keep": 0.3}}.items():
            changes = {**COLUMNS, "run.rounds": 4, **more}
            expected = self.train(self.job({**changes, "aggregator.kind": "median"}), name)
            job = self.job({**changes, **own("aggregator", MEDIAN)})
            run = self.train(job, name + "-own", ranks=2)
            if name != "broken":  # of even numbers the median is the mean of two
                self.assert_digest(run, expected, name)
            self.assertEqual(harness.column(run, "rounds.csv", "rejected"),
                             harness.column(expected, "rounds.csv", "rejected"))
            for mine, others in zip(harness.column(run, "rounds.csv", "kappa_hat"),
                                    harness.column(expected, "rounds.csv", "kappa_hat")):
                if name != "broken":
                    self.assertAlmostEqual(float(mine), float(others), places=6)

    def test_places_and_a_state_that_mix_leaves(self):
        """A state that grows in mix() reaches the columns on every rank, and a resume."""
        text = ("import numpy as np\n\nclass Aggregator:\n    needs = {'losses', 'gram'}\n"
                "    rounds = 0\n    def mix(self, r):\n        self.rounds += 1\n"
                "        return r.losses / r.losses.sum()\n"
                "    def columns(self, rows, weights):\n"
                "        return weights @ np.sort(rows, axis=0) / self.rounds\n"
                "    def state(self): return {'rounds': self.rounds}\n"
                "    def load(self, state): self.rounds = int(state['rounds'])\n")
        # The trial before the first round finds rounds = 0: it must not divide by it.
        bad = self.write("bad.py", text)
        refused = self.hanse("run", self.job({**COLUMNS, **own("aggregator", bad)}), ranks=2,
                             expect=2)
        self.assert_one_error(refused, 2, "bad.py:9: columns() returns")
        rule = self.write("rule.py", text.replace("/ self.rounds", "/ (1 + self.rounds)"))
        self.compare_places({**COLUMNS, **own("aggregator", rule), "run.rounds": 6,
                             "run.check-rules": "true"})

    def test_errors(self):
        """Of the file: before the first round where the trial finds them, and later by one line."""
        def rule(name, body):
            return own("aggregator", self.write(name, "import numpy as np\nclass Aggregator:\n"
                                                "    calls = 0\n"
                                                "    def columns(self, rows, weights):\n"
                                                "        self.calls += 1\n"
                                                f"        {body}\n"))
        early = {"short.py:4: columns() returns an array of shape": "return rows[0, 1:]",
                 "none.py:4: columns() returns a NoneType, not a step of": "pass",
                 "zero.py:6: ZeroDivisionError": "1 / 0",
                 "nan.py:4: columns() returns nan for column 3 of 4096":
                     "return np.where(np.arange(rows.shape[1]) == 3, np.nan, rows[0])"}
        for text, body in early.items():
            process = self.hanse("run", self.job({**COLUMNS, **rule(text.split(":")[0], body)}),
                                 ranks=2, expect=2)
            self.assert_one_error(process, 2, text, "aggregator.path")
        late = rule("late.py", "return rows[0] / (self.calls < 3)")
        process = self.hanse("run", self.job({**COLUMNS, **late}), ranks=2, expect=1)
        self.assert_one_error(process, 1, "late.py:4: columns() returns", "aggregator.path")
        impure = rule("impure.py", "return rows[0] + self.calls * 1e-3")
        process = self.hanse("run", self.job({**COLUMNS, **impure, "run.check-rules": "true",
                                              "run.overwrite": "true"}),
                             expect=1)
        self.assert_one_error(process, 1, "the rule is not pure", "columns[0] is")

    def test_what_does_not_go_together(self):
        columns = own("aggregator", MEDIAN)
        for changes, parts in (
                (ASYNCHRONOUS, ["a step by columns cannot count old updates less"]),
                ({"run.round-seconds": 5}, ["needs every participant's update"]),
                ({"attack.kind": "optimal-alie", "attack.clients": 2}, ["without a bound"]),
                ({"client.update": "fednova"}, ["fednova weighs anew", "client.update"]),
                ({"privacy.kind": "central"}, ["private rounds are of fedavg"])):
            with self.subTest(parts[0]):
                refused = self.hanse("run", self.job({**COLUMNS, **changes, **columns}), ranks=2,
                                     expect=2)
                self.assert_one_error(refused, 2, *parts)

    def test_the_plan_tells_memory_and_time(self):
        job = self.job({**COLUMNS, **own("aggregator", MEDIAN)})
        plan = json.loads(self.hanse("plan", job, "--json").stdout())
        plain = json.loads(self.hanse("plan", self.job(COLUMNS), "--json").stdout())
        # Seven updates, and blocks of them as float32 twice, float64, and the rule's own copy.
        least = 7 * 4096 * (2 * 4 + 2 * 8)
        self.assertGreater(plan["kept_bytes"], least)
        self.assertNotIn("kept_bytes", plain)


class TheFile(OwnRules):
    def test_its_digest(self):
        """In job.cfg, summary and checkpoint: a run does not go on with another file."""
        rule = self.write("rule.py", "class Aggregator:\n    def mix(self, r): return r.lam\n")
        run = self.train(self.job({**own("aggregator", rule), "run.rounds": 2}), "run")
        with open(os.path.join(run, "summary.json")) as file:
            found = json.load(file)["rules"]["aggregator.path"]
        self.assertEqual(found["path"], rule)
        with open(os.path.join(run, "job.cfg")) as file:
            text = file.read()
        self.assertIn("digest = " + found["digest"], text)
        self.write("rule.py", "class Aggregator:\n    def mix(self, r): return r.lam * 1\n")
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=3", expect=2), 2,
                              "is not the file that the run has started with", "aggregator.path",
                              "a new run without aggregator.digest")
        with open(os.path.join(run, "job.cfg"), "w") as file:
            file.write(text.replace(found["digest"], ""))
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=3", expect=2), 2,
                              "the file has changed since the checkpoint")

    def test_errors(self):
        """Status 2 before the first round; 1 behind it, and the checkpoint stays."""
        text = ("class Aggregator:\n    def __init__(self, clients, args): self.limit = int(args['limit'])\n"
                "    def mix(self, r):\n        return r.lam / (r.round < self.limit)\n"
                "    def state(self): return {'limit': self.limit}\n"
                "    def load(self, state): self.limit = state['none']\n")
        rule = self.write("rule.py", text)
        job = self.job({**own("aggregator", rule), "checkpoint.every": 1})
        self.assert_one_error(self.hanse("run", job, expect=2, ranks=2), 2, "rule.py:2: KeyError: 'limit'",
                              "aggregator.path")
        self.assertFalse(os.path.exists(self.path("runs/job/checkpoints")))
        out = f"--run.out={self.path('run')}"
        process = self.hanse("run", job, out, "--aggregator.args=limit=5", ranks=2, expect=1)
        self.assert_one_error(process, 1, "rule.py: mix() gives client", "in round 5")
        self.assertEqual(self.checkpoints(self.path("run"))[-1], "round-000004.h5")
        self.assert_one_error(self.hanse("resume", self.path("run"), ranks=2, expect=2), 2,
                              "rule.py:6: KeyError: 'none'")
        self.assert_one_error(self.hanse("run", job, "--aggregator.path=none.py", expect=2), 2,
                              "no such file: none.py", "aggregator.path")

    def test_failures_of_every_kind_of_rule(self):
        """Where the server draws, observes, steps, evaluates and saves: one line, status 1."""
        def rule(name, kind, method, works="pass"):
            return self.write(name, f"class {kind}:\n    def {method}: 1 / 0\n" + works)
        draws = "    def draw(self, round, available, rng): return available[:2], [1, 1]\n"
        mixes = "    def mix(self, r): return r.lam\n    def load(self, state): pass\n"
        cases = {
            "draw.py:2": own("sampler", rule("draw.py", "Sampler", "draw(self, r, a, rng)", "")),
            "observe.py:2": own("sampler", rule("observe.py", "Sampler", "observe(self, c, f, l)",
                                                draws)),
            "step.py:2": own("server", rule("step.py", "Optimizer", "step(self, t, u)", "")),
            "metric.py:2": {"evaluate.metric": rule("metric.py", "Metric", "__call__(self, c)", "")},
            "state.py:2": {**own("aggregator", rule("state.py", "Aggregator", "state(self)", mixes)),
                           "checkpoint.every": 1}}
        for place, changes in cases.items():
            process = self.hanse("run", self.job({**changes, "run.overwrite": "true"}), ranks=2,
                                 expect=1)
            self.assert_one_error(process, 1, place + ": ZeroDivisionError: division by zero")


class Interpreters(OwnRules):
    def check_refused(self, environment, *parts):
        rule = os.path.join(OWN, "superquantile.py")
        process = self.hanse("run", self.job(own("aggregator", rule)), environment=environment,
                             expect=2)
        self.assert_one_error(process, 2, *parts)

    def test_refused(self):
        self.check_refused({"HANSE_PYTHON": "/nowhere/python3"}, "no Python 3 that runs",
                           "/nowhere/python3", "HANSE_PYTHON")
        # What the program asks the interpreter, answered for others.
        def fake(name, *lines):
            path = self.write(name, "#!/bin/sh\nprintf '" + "\\n".join(lines) + "\\n'\n")
            os.chmod(path, 0o755)
            return {"HANSE_PYTHON": path}
        library = os.path.realpath("/proc/self/exe")
        for name in ["libm.so.6", "libc.so.6"]:
            found = subprocess.run(["sh", "-c", f"ldconfig -p | grep -o '/.*{name}' | head -n 1"],
                                   capture_output=True, text=True).stdout.strip()
            library = found or library
        self.check_refused(fake("other", "3.99", "/opt/python3.99", library),
                           "no bridge to Python 3.99 (/opt/python3.99)",
                           "scripts/build-python-bridge /opt/python3.99")
        self.check_refused(fake("static", "3.11", "/opt/python3.11", ""),
                           "Python 3.11 has no shared library", "--enable-shared",
                           "scripts/build-python-bridge /opt/python3.11")

    def test_a_virtual_environment(self):
        """Its packages are there; without numpy it is refused."""
        folder = self.path("venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        python = os.path.join(folder, "bin", "python3")
        self.check_refused({"HANSE_PYTHON": python}, "has no numpy", python)
        packages = subprocess.run([python, "-c", "import sysconfig; "
                                   "print(sysconfig.get_paths()['purelib'])"],
                                  capture_output=True, text=True, check=True).stdout.strip()
        import numpy
        with open(os.path.join(packages, "all.pth"), "w") as file:
            file.write(os.path.dirname(os.path.dirname(numpy.__file__)) + "\n")
        with open(os.path.join(packages, "of_the_venv.py"), "w") as file:
            file.write("half = 0.5\n")
        rule = self.write("rule.py", "from of_the_venv import half\n\nclass Aggregator:\n"
                          "    def mix(self, r): return r.lam * half\n")
        job = self.job({**own("aggregator", rule), "run.rounds": 1})
        self.train(job, "named", environment={"HANSE_PYTHON": python})
        first = f"{os.path.dirname(python)}:{os.environ['PATH']}"  # the first in PATH
        self.train(job, "first", environment={"PATH": first, "HANSE_PYTHON": ""})


if __name__ == "__main__":
    harness.main()
