"""Tables as hospitals send them: missing values, categories and clients by name, on any number of
ranks and after a resume."""

import os
import pathlib
import random

import harness

HEART = pathlib.Path(__file__).resolve().parents[2] / "data" / "heart"
RAW = {"data.kind": "csv", "data.path": HEART / "processed.*.data", "data.label-column": "target",
       "data.label-above": 0, "data.category-columns": "cp,restecg",
       "data.drop-columns": "slope,ca,thal", "data.missing": "mean", "data.classes": None,
       "sampler.per-round": 3, "run.rounds": 6, "evaluate.every": 3, "checkpoint.every": 3}


def visits(seed=1):
    """300 visits of five hospitals, with holes."""
    draw = random.Random(seed)
    lines = ["hospital,age,sex,smokes,ill"]
    for visit in range(300):
        ill = draw.random() < 0.5
        cells = [f"{draw.gauss(60 if ill else 50, 9):.1f}", draw.choice("fm"),
                 str(draw.random() < (0.6 if ill else 0.3))]
        if visit % 4 == 0:
            cells[draw.randrange(3)] = draw.choice(["", "?"])
        lines.append(",".join([f"hospital-{visit % 5}", *cells, "yes" if ill else "no"]))
    return "\n".join(lines) + "\n"


class Tables(harness.Case):
    def visits(self, changes=None):
        return {"data.kind": "csv", "data.path": self.write("visits.csv", visits()),
                "data.client-column": "hospital", "data.label-column": "ill",
                "data.missing": "category", "data.categories": "one-hot",
                "data.standardize": "all", "data.classes": None, "sampler.per-round": 3,
                "run.rounds": 6, "evaluate.every": 3, "checkpoint.every": 3, **(changes or {})}

    def test_the_same_bits_everywhere(self):
        run, resumed = self.compare_places(self.visits({"federation.held-out": "hospital-3"}))
        self.assertEqual(harness.summary(run)["data_digest"], harness.summary(resumed)["data_digest"])
        table = harness.table(run, "clients.csv")
        self.assertEqual([row["name"] for row in table if row["held_out"] == "1"], ["hospital-3"])

    def test_raw_files_of_heart_and_what_the_start_says(self):
        job = self.job({**RAW, "data.standardize": "client", "federation.held-out": "va"})
        process = self.hanse("run", job, "--run.out=run", ranks=2)
        said = process.stderr()
        for part in ("column 'trestbps': 59 values are missing: 131.51 to 132.889, the clients' "
                     "means of the samples that are trained on", "column 'cp': 4 categories: 1, 2, 3, 4",
                     "data: 920 samples of 4 clients, 2 classes"):
            self.assertEqual(said.count(part), 1, said)
        for label in ("test area under the ROC curve ", "test accuracy, held-out clients ",
                      "test area under the ROC curve, held-out clients "):
            self.assertIn("\n" + label, process.stdout())
        self.assertIn("held-out = va\n", harness.text(self.path("run"), "job.cfg"))

    def test_other_data_are_no_resume(self):
        run = self.train(self.job(self.visits()), "run", changes={"run.rounds": 3})
        self.write("visits.csv", visits(seed=2))
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=6", expect=2), 2,
                              "the data are not those of the checkpoint")

    def test_all_faults_of_a_file_are_told(self):
        job = self.job(self.visits({"data.missing": "refuse"}))
        process = self.hanse("run", job, "--run.out=run", ranks=2, expect=2)
        self.assert_one_error(process, 2, "faults, 20 of them told above; the first:")
        told = [line for line in process.lines() if "visits.csv:" in line]
        self.assertEqual(len(told), 21)  # the error names the first again
        self.assertFalse(os.path.exists(self.path("run", "rounds.csv")))

    def test_a_name_that_is_not_there(self):
        job = self.job(self.visits({"federation.held-out": "hospital-7"}))
        self.assert_one_error(self.hanse("run", job, expect=2), 2,
                              "no client is called 'hospital-7'", "did you mean 'hospital-")


if __name__ == "__main__":
    harness.main()
