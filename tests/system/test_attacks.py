"""Attackers as a job asks for them: in training, without data, of one's own, and with lies."""

import json
import os
import sys

import harness

os.environ["HANSE_PYTHON"] = sys.executable
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUTWARD = os.path.join(ROOT, "jobs", "own-rules", "outward.py")
PATIENT = os.path.join(ROOT, "jobs", "own-rules", "patient.py")
SILOS = {"federation.clients": 8, "sampler.kind": "full", "data.shape": "1,6,6", "data.classes": 4,
         "data.test-fraction": 0.3, "client.lr": 0.1, "aggregator.weights": "uniform"}


class Attacks(harness.Case):
    def check(self, name, changes):
        """The same model on one rank, on four, and stopped and resumed on others."""
        job = self.job({**SILOS, **changes}, name=f"{name}.cfg")
        alone = self.train(job, name)
        self.assert_digest(self.train(job, name + "-four", ranks=4), alone, name)
        stopped = self.train(job, name + "-stopped", ranks=2, changes={"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
        self.assert_digest(stopped, alone, name)
        return alone

    def test_poisoned_data_fool_the_model(self):
        for kind, more in {"label-flip": {"attack.source": 1}, "backdoor": {"attack.target": 2}}.items():
            run = self.check(kind, {"attack.kind": kind, "attack.clients": 3, **more})
            found = [float(x) for x in harness.column(run, "evaluations.csv", "attack_success")]
            self.assertEqual(len(found), 3)
            self.assertTrue(all(0 <= x <= 1 for x in found))
            self.assertIn("attack_success", harness.summary(run)["metrics"])
        honest = self.train(self.job(SILOS), "honest")
        self.assertNotIn("attack_success", harness.table(honest, "evaluations.csv")[0])

    def test_the_attack_begins_and_ends(self):
        """Outside its rounds everybody is honest."""
        flips = {**SILOS, "run.rounds": 3, "attack.kind": "label-flip", "attack.clients": 2}
        plain = self.train(self.job({**SILOS, "run.rounds": 3}), "plain")
        for first, last, same in ((4, 9, True), (3, 9, False), (1, 1, False)):
            run = self.train(self.job({**flips, "attack.first-round": first,
                                       "attack.last-round": last}), f"from-{first}")
            self.assertEqual(harness.digest(run) == harness.digest(plain), same)

    def test_attackers_without_data(self):
        """They are further clients, who take part and are not evaluated."""
        changes = {"attack.kind": "ipm", "attack.clients": 2, "attack.idle": "true",
                   "aggregator.kind": "geometric-median"}
        run = self.check("idle", changes)
        self.assertEqual(harness.column(run, "rounds.csv", "clients"), ["10"] * 12)
        self.assertEqual(len(harness.table(run, "clients.csv")), 8)
        with open(os.path.join(run, "job.cfg")) as file:
            self.assertIn("clients = 8\n", file.read())
        # They may be left out of the rule: then it is that of the eight honest ones.
        krum = {"aggregator.kind": "mda", "attack.kind": "nan"}
        attacked = self.train(self.job({**SILOS, **changes, **krum}), "attacked", ranks=2)
        honest = self.train(self.job({**SILOS, "aggregator.kind": "mda"}), "honest")
        self.assert_digest(attacked, honest)

    def test_an_attack_of_ones_own(self):
        changes = {"attack.kind": "python", "attack.clients": "1,4", "attack.path": OUTWARD,
                   "attack.args": "strength=3", "aggregator.kind": "trimmed-mean"}
        run = self.check("outward", changes)
        self.assertIn("attack.path", json.loads(harness.text(run, "summary.json"))["rules"])
        bad = self.write("bad.py", "class Attack:\n    def attack(self, r): return r.gram[0][1:]\n")
        refused = self.hanse("run", self.job({**SILOS, **changes, "attack.path": bad}), ranks=2,
                             expect=1)
        self.assert_one_error(refused, 1, "bad.py:2: attack() returns an array of shape")
        none = self.write("none.py", "class Rule: pass\n")
        refused = self.hanse("run", self.job({**SILOS, **changes, "attack.path": none}),
                             f"--run.out={self.path('none')}", ranks=2, expect=2)
        self.assert_one_error(refused, 2, "none.py: it has no class Attack", "attack.path")

    def test_an_attack_with_a_memory(self):
        """It sees the last aggregate; what it remembers is in the checkpoints, and the check finds it
        pure."""
        changes = {"attack.kind": "python", "attack.clients": "1,4", "attack.path": PATIENT,
                   "aggregator.kind": "geometric-median", "run.check-rules": "true"}
        run = self.check("patient", changes)
        other = self.train(self.job({**SILOS, **changes, "attack.args": "growth=1"}), "other")
        self.assertNotEqual(harness.digest(run), harness.digest(other))
        # A memory that is not saved is found.
        with open(PATIENT) as file:
            text = file.read()
        forgetful = self.write("forgetful.py", text[:text.index("    def state")])
        refused = self.hanse("run", self.job({**SILOS, **changes, "attack.path": forgetful}),
                             f"--run.out={self.path('forgetful')}", ranks=2, expect=1)
        self.assert_one_error(refused, 1, "the rule is not pure: in round", "attack.kind = python")

    def test_lies_about_themselves(self):
        """An attacker that claims large losses gets weight from a rule by losses, and is drawn more
        often by a sampler by lengths."""
        liars = {"attack.kind": "feedback", "attack.clients": "0,1", "attack.feedback": 20}
        run = self.check("liars", {**liars, "aggregator.kind": "term"})
        weights = {int(line["client"]): float(line["weight"])
                   for line in harness.table(run, "participation.csv") if line["round"] == "12"}
        self.assertGreater(weights[0] + weights[1], 0.9)
        drawn = {"federation.clients": 16, "sampler.kind": "adaptive-osmd", "sampler.per-round": 4,
                 "run.rounds": 60, "evaluate.every": 0}
        counts = []
        for name, changes in (("true", {}), ("false", liars)):
            run = self.train(self.job({**SILOS, **drawn, **changes}), name)
            counts.append(sum(1 for line in harness.table(run, "participation.csv")
                              if line["client"] in ("0", "1")))
        self.assertGreater(counts[1], 1.3 * counts[0])

    def test_what_does_not_go_together(self):
        for changes, parts in (
                ({"attack.kind": "ipm"}, ["nobody attacks", "attack.clients"]),
                ({"attack.kind": "ipm", "attack.clients": "8"}, ["8 of 8 clients attack"]),
                ({"attack.kind": "ipm", "attack.clients": "8,"}, ["no client 8 among 8"]),
                ({"attack.kind": "label-flip", "attack.clients": 1, "attack.target": 9},
                 ["no class 9 of 4", "attack.target"]),
                ({"attack.kind": "backdoor", "attack.clients": 1, "attack.patch": 7},
                 ["a patch of 7", "attack.patch"]),
                ({"attack.kind": "optimal-alie", "attack.clients": 1},
                 ["without a bound", "attack.kind"]),
                ({"attack.kind": "ipm", "attack.clients": 1, "attack.idle": "true",
                  "federation.held-out": 1}, ["held-out", "attack.idle"])):
            with self.subTest(parts[0]):
                refused = self.hanse("run", self.job({**SILOS, **changes}), ranks=2, expect=2)
                self.assert_one_error(refused, 2, *parts)


if __name__ == "__main__":
    harness.main()
