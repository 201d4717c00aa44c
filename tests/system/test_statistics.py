"""run.protocol = statistics: the same files for every division into clients and ranks and after a
resume, what is refused, and what a table with names, categories and missing values becomes."""

import json
import os
import random

import harness

KINDS = "moments,quantiles,histogram,crosstab,glm,pca,kmeans,gmm,kaplan-meier,log-rank,cox"


def patients(count):
    """A table of hospitals: numbers, a category with missing values, times, events, a label."""
    draw = random.Random(4)
    lines = ["hospital,age,weight,smokes,time,event,label"]
    for i in range(count):
        age, weight = draw.randint(30, 80), round(draw.gauss(75, 12), 1)
        smokes = draw.choice(["no", "yes", "former"])
        label = int(draw.random() < 1 / (1 + 2.718 ** (-(age - 55) / 20)))
        lines.append(f"{'ABC'[(i * 7 + i // 5) % 3]},{age},{weight if i % 11 else ''},{smokes},"
                     f"{draw.randint(1, 60)},{int(draw.random() < 0.6)},{label}")
    return "\n".join(lines) + "\n"


class Statistics(harness.Case):
    def setUp(self):
        super().setUp()
        self.data = self.write("patients.csv", patients(300))

    def table(self, **changes):
        keys = {"data.kind": "csv", "data.path": self.data, "data.client-column": "hospital",
                "data.categories": "one-hot", "data.missing": "keep", "statistics.by": "label",
                "statistics.rows": "smokes", "statistics.clusters": 3, "statistics.starts": 2,
                "statistics.columns": "age,weight,smokes", "run.protocol": "statistics"}
        keys.update({key.replace("_", "."): value for key, value in changes.items()})
        lines = []
        for section in dict.fromkeys(key.split(".")[0] for key in keys):
            lines.append(f"[{section}]")
            lines += [f"{key.split('.')[1]} = {value}" for key, value in keys.items()
                      if key.startswith(section + ".")]
        return self.write("table.cfg", "\n".join(lines) + "\n")

    def results(self, run):
        """The files that hold results, and the digest of the integers behind them."""
        names = [name for name in os.listdir(run) if name.endswith(".csv") or
                 name == "statistics.json"]
        own = {name: harness.text(run, name) for name in names
               if name not in ("rounds.csv", "partition.csv", "evaluations.csv")}
        self.assertIn("statistics.json", own)
        return own, harness.summary(run)["results_digest"]

    def test_every_division_into_clients_and_ranks_has_the_same_files(self):
        job = self.table(statistics_kind=KINDS)
        alone = self.results(self.train(job, "alone"))
        self.assertGreaterEqual(len(alone[0]), 1 + len(KINDS.split(",")))
        divisions = [{"federation.partition": "iid", "federation.clients": 1},
                     {"federation.partition": "iid", "federation.clients": 7},
                     {"federation.partition": "dirichlet", "federation.clients": 100,
                      "federation.min-samples": 1}]
        calls = [lambda r=ranks, d=division, i=i:
                 self.train(job, f"run-{i}", r, {"data.client-column": "",
                                                 "data.drop-columns": "hospital", **d})
                 for i, (ranks, division) in enumerate(zip((2, 3, 4), divisions))]
        for run in harness.together([*calls, lambda: self.train(job, "two", 2)]):
            self.assertEqual(self.results(run), alone, run)

    def test_a_resumed_run_goes_on_with_the_answers_it_has(self):
        job = self.table(statistics_kind="moments,glm,cox,kmeans", checkpoint_every=3,
                         statistics_starts=1,
                         checkpoint_keep=0)
        alone = self.train(job, "alone")
        for last in (3, 12, 30):
            run = self.train(job, f"run-{last}", 2)
            for name in self.checkpoints(run):
                if int(name[len("round-"):-len(".h5")]) > last:
                    os.remove(os.path.join(run, "checkpoints", name))
            os.remove(os.path.join(run, "glm.csv"))
            self.hanse("resume", run, ranks=3)
            self.assertEqual(self.results(run), self.results(alone))
            self.assertEqual(self.rounds(run), self.rounds(alone))

    def test_a_table_keeps_its_names(self):
        run = self.train(self.table(statistics_by="client", statistics_kind="moments,glm"), "run")
        rows = harness.table(run, "moments.csv")
        self.assertEqual({row["client"] for row in rows}, {"all", "A", "B", "C"})
        names = {row["column"] for row in rows}
        self.assertEqual(names, {"age", "weight", "smokes=former", "smokes=no", "smokes=yes"})
        weight = next(row for row in rows if row["column"] == "weight")
        self.assertEqual((weight["n"], weight["missing"]), ("272", "28"))
        found = json.loads(harness.text(run, "statistics.json"))
        self.assertEqual(found["glm"]["name"],
                         ["(constant)", "age", "weight", "smokes=no", "smokes=yes"])
        self.assertEqual(found["glm"]["left_out"], 28)
        rounds = harness.table(run, "rounds.csv")
        self.assertEqual([row["statistic"] for row in rounds][:2], ["1", "1"])
        self.assertGreater(int(rounds[-1]["bytes_updates"]), 0)

    def test_what_is_wrong_is_one_line(self):
        cases = [({"statistics.kind": "moment"}, "statistics.kind", "moments"),
                 ({"statistics.kind": ""}, "statistics.kind", "moments"),
                 ({"statistics.columns": "ages"}, "statistics.columns", "age, weight"),
                 ({"statistics.by": "ward"}, "statistics.by", "no column is called"),
                 ({"data.missing": "mean"}, "data.missing", "keep"),
                 ({"data.missing": "refuse"}, "weight", "missing"),
                 ({"statistics.kind": "crosstab", "statistics.rows": ""}, "statistics.rows"),
                 ({"statistics.kind": "glm", "statistics.target": "age"}, "two",
                  "statistics.family"),
                 ({"statistics.kind": "log-rank", "statistics.by": ""}, "statistics.by"),
                 ({"statistics.kind": "cox", "statistics.event": "age"}, "statistics.event",
                  "a sample of A has the event"),
                 ({"statistics.kind": "kaplan-meier", "statistics.event": "smokes"},
                  "statistics.event", "the level 'former', no number"),
                 ({"statistics.kind": "histogram", "statistics.edges": "3,2"},
                  "statistics.edges"),
                 ({"statistics.probabilities": "0.5,2", "statistics.kind": "quantiles"},
                  "statistics.probabilities")]
        job = self.table()
        for changes, *parts in cases:
            process = self.hanse("run", job, *harness.options(changes), expect=None)
            self.assert_one_error(process, 2, *parts)
        process = self.hanse("run", self.job({"data.kind": "csv", "data.path": self.data,
                                              "data.missing": "keep"}), expect=None)
        self.assert_one_error(process, 2, "data.missing", "statistics")

    def test_a_number_that_float32_cannot_hold_is_refused(self):
        data = self.write("big.csv", "x,label\n16777217,0\n16777218,1\n3,0\n")
        process = self.hanse("run", self.table(data_path=data), "--data.client-column=",
                             "--statistics.columns=x", expect=None)
        self.assert_one_error(process, 2, "column 'x'", "subtract a constant")

    def test_private_answers_have_one_noise_on_any_ranks_and_after_a_resume(self):
        job = self.table(statistics_kind="moments,histogram,quantiles", statistics_by="",
                         statistics_columns="age,weight", statistics_low="20,30",
                         statistics_high="90,150", privacy_kind="central", privacy_noise="auto",
                         privacy_epsilon=2, privacy_seed=3, checkpoint_every=1, checkpoint_keep=0)
        alone = self.train(job, "alone")
        self.assertEqual(self.results(self.train(job, "three", 3)), self.results(alone))
        told = harness.summary(alone)["privacy"]
        self.assertLessEqual(told["epsilon"], 2)
        self.assertGreater(told["epsilon"], 1.99)
        self.assertIn("known", told["flaw"])
        mean = float(harness.table(alone, "moments.csv")[0]["mean"])
        plain = self.train(job, "plain", 2, {"privacy.kind": "none"})
        exact = float(harness.table(plain, "moments.csv")[0]["mean"])
        self.assertNotEqual(mean, exact)
        self.assertLess(abs(mean - exact), 5)
        other = self.train(job, "other", changes={"privacy.seed": 4})
        self.assertNotEqual(self.results(other), self.results(alone))
        os.remove(os.path.join(alone, "checkpoints", self.checkpoints(alone)[-1]))
        before = self.results(alone)
        self.hanse("resume", alone, ranks=2)
        self.assertEqual(self.results(alone), before)
        for changes, part in [({"statistics.kind": "glm"}, "no private form"),
                              ({"statistics.low": "20"}, "statistics.low"),
                              ({"statistics.by": "label"}, "statistics.by"),
                              ({"privacy.kind": "distributed"}, "privacy.kind")]:
            process = self.hanse("run", job, *harness.options(changes), expect=None)
            self.assert_one_error(process, 2, part)

    def test_a_plan_tells_samples(self):
        found = json.loads(self.hanse("plan", self.table(), "--ranks=4", "--json").stdout())
        self.assertEqual((found["samples"], found["samples_rank"]), (300, 75))


if __name__ == "__main__":
    harness.main()
