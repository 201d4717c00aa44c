"""Bandits through the program: any number of ranks, resumes, repeats, arms from files, bad input."""

import csv
import os

import harness

BANDIT = {"run.protocol": "bandit", "run.rounds": 12, "run.seed": 4, "federation.clients": 7,
          "bandit.arms": "hartmann-6", "bandit.count": 15, "bandit.hidden": 5,
          "bandit.steps": 80, "evaluate.every": 4, "checkpoint.every": 0}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Every kind, so that all but one synchronize before and behind round 5.
KINDS = {"fed-go-ucb": {"bandit.gamma": 0.3}, "one-go-ucb": {}, "n-go-ucb": {},
         "dis-lin-ucb": {"bandit.gamma": 0.3}, "fed-glb-ucb": {},
         "dis-kernel-ucb": {"bandit.gamma": 3},
         "approx-dis-kernel-ucb": {"bandit.gamma": 6, "bandit.inclusion": 0.3}}
# These columns of bandit.csv do not depend on the ranks.
COLUMNS = ["round", "repeat", "regret", "regret_explore", "syncs", "scalars_sent",
           "scalars_explore"]


class BanditCase(harness.Case):
    def bandit(self, changes=None, name="job.cfg"):
        path = self.path(name)
        with open(path, "w") as file:
            for key, value in {**BANDIT, **(changes or {})}.items():
                file.write(f"{key} = {value}\n")
        return path

    def lines(self, run):
        return [{name: line[name] for name in COLUMNS} for line in harness.table(run, "bandit.csv")]


class Runs(BanditCase):
    def test_the_same_on_any_ranks_and_after_a_resume(self):
        for kind, more in KINDS.items():
            job = self.bandit({"bandit.kind": kind, **more}, f"{kind}.cfg")
            alone = self.train(job, kind)
            stopped = self.train(job, kind + "-stopped", ranks=3,
                                 changes={"run.rounds": 5, "bandit.horizon": 12})
            self.hanse("resume", stopped, "--run.rounds=12", ranks=2)
            self.assert_digest(stopped, alone, kind)
            self.assertEqual(self.lines(stopped), self.lines(alone))
            syncs = int(self.lines(alone)[-1]["syncs"])
            self.assertEqual(syncs, {"one-go-ucb": 84, "n-go-ucb": 0}.get(kind, syncs))
            self.assertEqual(syncs > 0, kind != "n-go-ucb", kind)
            self.assertEqual(harness.summary(stopped)["x_hat"], harness.summary(alone)["x_hat"])

    def test_a_horizon_given_later_changes_no_earlier_round(self):
        job = self.bandit()
        short = self.train(job, "short", changes={"run.rounds": 6})
        before = self.lines(short)
        self.hanse("resume", short, "--run.rounds=9")
        self.assertEqual(self.lines(short)[:6], before)
        self.assertEqual(len(self.lines(short)), 9)

    def test_repeats_are_the_runs_of_the_seeds(self):
        job = self.bandit()
        together = self.train(job, "together", changes={"run.repeats": 3})
        regrets = []
        for repeat in range(3):
            one = self.train(job, f"one-{repeat}", changes={"run.seed": 4 + repeat})
            mine = [line for line in self.lines(together) if line["repeat"] == str(repeat)]
            self.assertEqual([{**line, "repeat": "0"} for line in mine], self.lines(one))
            regrets.append(float(mine[-1]["regret"]))
        metrics = harness.summary(together)["metrics"]
        mean = sum(regrets) / 3
        self.assertAlmostEqual(metrics["regret"], mean, places=5)
        deviation = (sum((r - mean) ** 2 for r in regrets) / 2) ** 0.5
        self.assertAlmostEqual(metrics["regret_std"], deviation, places=5)

    def test_clients_regret_is_the_regret(self):
        run = self.train(self.bandit(), "run")
        clients = harness.table(run, "clients.csv")
        total = sum(float(line["loss"]) * float(line["samples"]) for line in clients)
        self.assertAlmostEqual(total, float(self.lines(run)[-1]["regret"]), places=5)

    def test_arms_from_a_file(self):
        with open(self.path("arms.csv"), "w") as file:
            file.write("x,y,value\n0,0,0\n0,1,0.5\n1,0,1\n")
        job = self.bandit({"bandit.arms": "file", "bandit.path": self.path("arms.csv"),
                           "bandit.noise": 0, "run.rounds": 40})
        run = self.train(job, "run", ranks=2)
        regret = float(self.lines(run)[-1]["regret"])
        self.assertEqual(2 * regret, round(2 * regret))  # pulls cost 1, 0.5 or nothing
        self.assertLess(regret, 0.2 * 0.5 * 7 * 40)      # a fifth of uniform play's

    def test_a_resume_goes_on_with_the_same_arms(self):
        arms = "x,y,value\n0,0,0\n0,1,0.5\n1,0,1\n"
        job = self.bandit({"bandit.arms": "file", "bandit.path": self.write("arms.csv", arms),
                           "bandit.noise": 0, "run.rounds": 40})
        straight = self.train(job, "straight")
        run = self.train(job, "run", changes={"run.max-seconds": 1e-3}, expect=harness.STOPPED)
        os.rename(self.path("arms.csv"), self.path("moved.csv"))
        self.assert_one_error(self.hanse("resume", run, expect=2), 2, "no such file", "bandit.path")
        other = self.write("other.csv", arms.replace("0.5", "0.25"))
        self.assert_one_error(self.hanse("resume", run, f"--bandit.path={other}", expect=2), 2,
                              "the file has changed since the checkpoint", "bandit.path")
        self.hanse("resume", run, f"--bandit.path={self.path('moved.csv')}", ranks=2)
        self.assertEqual([line["regret"] for line in self.lines(run)],
                         [line["regret"] for line in self.lines(straight)])

    def test_arms_from_clusters(self):
        with open(self.path("samples.csv"), "w") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "label"])
            for i in range(60):
                heap = i % 3
                writer.writerow([100 * heap + i % 5, (90, 3, 40)[heap] + i % 4, "yes" if heap == 2 else "no"])
        job = self.bandit({"bandit.arms": "clusters", "data.path": self.path("samples.csv"),
                           "bandit.count": 3, "bandit.positive": 1, "bandit.noise": 0})
        run = self.train(job, "run", ranks=2)
        # "yes" is a heap of its own: a pull costs 1 or nothing
        regret = float(self.lines(run)[-1]["regret"])
        self.assertEqual(regret, round(regret))

    def test_a_logistic_bandit_learns_scaled_rewards(self):
        kind = {"bandit.kind": "fed-glb-ucb", "bandit.noise": 0}
        with open(self.path("arms.csv"), "w") as file:
            file.write("x,y,value\n0,0,0\n0,1,0.5\n1,0,1\n")
        shares = {**kind, "bandit.arms": "file", "bandit.path": self.path("arms.csv")}
        run = self.hanse("run", self.bandit(kind), f"--run.out={self.path('function')}")
        self.assertIn("scaled linearly, so that the arms' values span [0, 1]", run.stderr())
        run = self.hanse("run", self.bandit(shares), f"--run.out={self.path('shares')}")
        self.assertNotIn("scaled", run.stderr())
        regret = float(self.lines(self.path("shares"))[-1]["regret"])
        self.assertEqual(2 * regret, round(2 * regret))  # pulls cost 1, 0.5 or nothing
        x_hat = harness.summary(self.path("shares"))["x_hat"][0]
        self.assertEqual(x_hat["point"], [[0, 0], [0, 1], [1, 0]][x_hat["arm"]])
        self.assertEqual(x_hat["value"], x_hat["arm"] / 2)

    def test_variants_of_the_networks_baselines(self):
        for kind, key, names in [("one-go-ucb", "bandit.gradients", ["running", "first"]),
                                 ("n-go-ucb", "bandit.models", ["own", "shared"])]:
            job = self.bandit({"bandit.kind": kind})
            default = self.train(job, kind)
            new, old = [self.train(job, kind + "-" + name, changes={key: name}) for name in names]
            self.assert_digest(new, default, kind)
            self.assertNotEqual(harness.digest(old), harness.digest(new))

    def test_jobs_of_the_paper(self):
        for name in ["hartmann", "cosine"]:
            run = self.train(os.path.join(ROOT, "jobs", name + ".cfg"), name,
                             changes={"run.repeats": 2, "run.rounds": 3, "bandit.steps": 20})
            self.assertEqual(len(self.lines(run)), 6)

    def test_regret_is_sublinear_and_between_one_and_n(self):
        job = os.path.join(ROOT, "jobs", "hartmann.cfg")
        regret = {}
        for kind in ["one-go-ucb", "fed-go-ucb", "n-go-ucb"]:
            run = self.train(job, kind, changes={"bandit.kind": kind, "run.repeats": 4})
            at = {line["round"]: float(line["regret"])
                  for line in harness.table(run, "evaluations.csv")}
            regret[kind] = at["100"]
            self.assertLess(at["100"] - at["50"], at["50"] / 3, kind)
        self.assertLess(regret["one-go-ucb"], regret["fed-go-ucb"])
        self.assertLess(1.5 * regret["fed-go-ucb"], regret["n-go-ucb"])

    def test_plan_and_list(self):
        plan = self.hanse("plan", self.bandit()).stdout()
        self.assertIn("arms", plan)
        self.assertIn(str(2 * 7 * (41 * 41 + 41)), plan)
        self.assertIn("n-go-ucb", self.hanse("list", "bandits").stdout())


class BadBandits(BanditCase):
    def refuse(self, changes, *parts, ranks=None):
        process = self.hanse("run", self.bandit(changes), f"--run.out={self.path('bad')}",
                             ranks=ranks, expect=None)
        self.assertEqual(process.status, 2, process.describe())
        self.assert_one_error(process, 2, *parts)

    def test_options(self):
        self.refuse({"bandit.count": 1}, "bandit.count")
        self.refuse({"bandit.lambda": 0}, "bandit.lambda")
        self.refuse({"bandit.lambda": "nan"}, "bandit.lambda")
        self.refuse({"bandit.gamma": -1}, "bandit.gamma", ranks=2)
        self.refuse({"bandit.explore": 85}, "bandit.explore", "84 pulls in all")
        self.refuse({"bandit.kind": "go-ucb"}, "did you mean")
        self.refuse({"bandit.arms": "file"}, "bandit.path")
        self.refuse({"bandit.step": 1e7}, "diverges", "bandit.step", ranks=2)
        self.refuse({"bandit.kind": "n-go-ucb", "bandit.step": 1e7}, "diverges", ranks=2)
        self.refuse({"bandit.kind": "one-go-ucb", "bandit.statistics": "per-arm"},
                    "bandit.statistics", "bandit.gradients = first")
        for kind in ["dis-kernel-ucb", "approx-dis-kernel-ucb"]:
            self.refuse({"bandit.kind": kind, "bandit.kernel-length": 0}, "bandit.kernel-length")

    def test_values_of_a_logistic_bandit(self):
        with open(self.path("arms.csv"), "w") as file:
            file.write("x,value\n1,0.5\n2,1.5\n")
        self.refuse({"bandit.kind": "fed-glb-ucb", "bandit.arms": "file",
                     "bandit.path": self.path("arms.csv")},
                    "1.5 of arm 1", "[0, 1]", "arms.csv", ranks=2)

    def test_arms(self):
        for text, parts in [("x,value\n1,2\n", ["1 arms"]), ("x,value\n1,2\n2,inf\n", [":3"]),
                            ("x,value\n1,nan\n2,1\n", [":2"]), ("value\n1\n2\n", ["column"])]:
            with open(self.path("arms.csv"), "w") as file:
                file.write(text)
            self.refuse({"bandit.arms": "file", "bandit.path": self.path("arms.csv")}, "arms.csv",
                        *parts, ranks=2)


if __name__ == "__main__":
    harness.main()
