"""scores.csv: what a model says of each sample, the same bytes on any ranks and after a resume."""

import csv
import io
import os

import harness

# Tables of four hospitals, in which the label follows x.
TABLE = "site,x,y,label\n" + "".join(
    f"{'abcd'[i * i % 7 % 4]},{(i * 37 % 23) / 23 + (i % 2) * 0.3:.3f},{(i * 11 % 17) / 17:.3f},{i % 2}\n"
    for i in range(120))
JOB = {
    "run.rounds": 12,
    "data.kind": "csv",
    "data.path": "table.csv",
    "data.client-column": "site",
    "data.test-fraction": 0.3,
    "federation.partition": "by-column",
    "model.kind": "linear",
    "client.lr": 0.5,
    "sampler.per-round": 2,
    "evaluate.every": 3,
    "evaluate.scores": "true",
    "evaluate.best": "brier",
    "evaluate.metrics": "brier,ece,auprc",
    "checkpoint.every": 5,
}
FILES = ("scores.csv", "best-scores.csv", "clients.csv", "evaluations.csv")


def rows_of(run, name="scores.csv"):
    return list(csv.DictReader(io.StringIO(harness.text(run, name))))


class Scores(harness.Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.folder, "table.csv"), "w") as file:
            file.write(TABLE)

    def assert_alike(self, run, other):
        for name in FILES:
            self.assertEqual(harness.text(run, name), harness.text(other, name), name)

    def test_any_ranks_and_a_resume(self):
        job = self.job(JOB)
        alone = self.train(job, "alone")
        for ranks in (2, 3, 4):
            self.assert_alike(self.train(job, f"ranks-{ranks}", ranks), alone)
        # As if it had been killed after a checkpoint: what is behind is made anew, on other ranks.
        for completed, ranks in ((5, 2), (10, 3)):
            cut = self.train(job, f"cut-{completed}", 1, {"checkpoint.keep": 0})
            for name in os.listdir(os.path.join(cut, "checkpoints")):
                if int(name[len("round-"):-len(".h5")]) > completed:
                    os.remove(os.path.join(cut, "checkpoints", name))
            for name in ("scores.csv", "summary.json", "clients.csv"):
                os.remove(os.path.join(cut, name))
            self.hanse("resume", cut, f"--run.out={self.path('on')}", "--run.overwrite=true", ranks=ranks)
            self.assert_alike(self.path("on"), alone)
        # The best model is not the last one, and has scores of its own.
        best = self.train(job, "best", 1, {"client.lr": 30})
        self.assertNotEqual(harness.text(best, "scores.csv"), harness.text(best, "best-scores.csv"))

    def test_rows_are_the_tables(self):
        lines = [line.split(",") for line in TABLE.splitlines()[1:]]
        names = {}
        for protocol in ("federated", "centralized", "local"):
            run = self.train(self.job({**JOB, "run.protocol": protocol, "evaluate.best": ""}), protocol)
            found = rows_of(run)
            self.assertEqual(sorted(int(row["row"]) for row in found), list(range(120)))
            names = {row["client"]: row["name"] for row in rows_of(run, "clients.csv")}
            for row in found:
                self.assertEqual([names[row["client"]], row["label"]],
                                 [lines[int(row["row"])][0], lines[int(row["row"])][3]])
            folds = {row["row"]: row["fold"] for row in found}
            self.assertEqual(set(folds.values()), {"train", "test"})
            self.folds = getattr(self, "folds", folds)
            self.assertEqual(folds, self.folds)  # the same test samples in all of them
        out = self.train(self.job({**JOB, "federation.held-out": "b", "evaluate.best": ""}), "held-out")
        held = [row for row in rows_of(out) if row["fold"] == "held-out"]
        self.assertEqual({lines[int(row["row"])][0] for row in held}, {"b"})
        for row in rows_of(out):
            if row["fold"] != "held-out":
                self.assertEqual(row["fold"], self.folds[row["row"]])

    def test_of_a_run_that_has_ended(self):
        run = self.train(self.job({**JOB, "evaluate.scores": "false"}), "ended")
        self.assertFalse(os.path.exists(os.path.join(run, "scores.csv")))
        self.hanse("resume", run, "--evaluate.scores=true")
        whole = self.train(self.job(JOB), "whole")
        self.assertEqual(harness.text(run, "scores.csv"), harness.text(whole, "scores.csv"))
        self.assertEqual(harness.summary(run)["data_digest"], harness.summary(whole)["data_digest"])


if __name__ == "__main__":
    harness.main()
