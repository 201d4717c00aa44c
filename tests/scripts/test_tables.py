"""hanse.clients_of_table: files of Parquet and Arrow become clients, and a federation of theirs
trains. hanse.write_table: so do pandas frames. A sweep leaves out one client after the other."""
import os
import pathlib
import sys
import unittest

import numpy

try:
    import pyarrow
except ImportError:
    pyarrow = None

try:
    import pandas
except ImportError:
    pandas = None

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402


PROGRAM = SCRIPTS.parent / "build" / "hanse"
HEART = SCRIPTS.parent / "data" / "heart"
ALL_PATIENTS = {"data.label-above": 0, "data.standardize": "client", "data.test-fraction": 0,
                "data.category-columns": "cp,restecg"}


@unittest.skipUnless(pandas and PROGRAM.exists(), "pandas or build/hanse is missing")
class FramesTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def heart(self):
        parts = {path.name.split(".")[1]: pandas.read_csv(path, na_values="?")
                 for path in sorted(HEART.glob("processed.*.data"))}
        frame = pandas.concat(parts, names=["hospital"]).reset_index(level=0)
        return frame.drop(columns=["slope", "ca", "thal"])

    def test_a_frame_is_the_table_that_the_program_reads(self):
        hanse.write_table("frame.h5", self.heart(), client="hospital", label="target",
                          missing="mean", options=ALL_PATIENTS)
        hanse.program.ask("convert", os.devnull, "file.h5", "--data.kind=csv",
                          f"--data.path={HEART / 'heart-920.csv'}", "--data.client-column=hospital",
                          "--data.standardize=client", "--data.test-fraction=0")
        # The file knows what was done to its columns, and that differs: heart-920.csv is coded and filled.
        self.assertEqual(self.arrays("frame.h5"), self.arrays("file.h5"))

    def arrays(self, path):
        import h5py

        with h5py.File(path) as file:
            return {name: file[name][()].tolist() for name in file
                    if name != "preparation"}

    def test_types_of_pandas(self):
        import h5py

        frame = pandas.DataFrame({"ill": ["no", "yes", "no"], "smokes": [True, False, True],
                                  "stage": pandas.Categorical([3, 1, 3]),
                                  "sex": ["f", None, "NA"], "age": [1, None, 3]})
        hanse.write_table("t.h5", frame, label="ill", missing="mean", categories="one-hot",
                          options={"federation.clients": 1, "data.test-fraction": 0,
                                   "federation.partition": "sizes", "federation.sizes": 3,
                                   "federation.size-probabilities": 1})
        with h5py.File("t.h5") as file:
            rows = sorted(map(tuple, file["features"][:]))
        self.assertEqual(rows, [(0, 1, 0, 0.5, 0.5, 2), (1, 0, 1, 0, 1, 1), (1, 0, 1, 1, 0, 3)])

    def test_what_is_refused(self):
        frame = pandas.DataFrame({"ill": [0, 1], "age": [30, None],
                                  "day": pandas.to_datetime(["2024-01-31", "2024-02-01"])})
        for features, words in ((["age"], "column 'age'"), (["day"], "column 'day' holds dates"),
                                (["weight"], "no column 'weight'")):
            with self.assertRaisesRegex(hanse.Refused, words):
                hanse.write_table("t.h5", frame, label="ill", features=features)
        twice = frame[["ill", "age", "age"]]
        with self.assertRaisesRegex(hanse.Refused, "several columns 'age'"):
            hanse.write_table("t.h5", twice, label="ill")

    def test_texts_that_are_no_categories(self):
        frame = pandas.DataFrame({"ill": [i % 2 for i in range(30)],
                                  "dose": [f"{i},5" for i in range(30)],
                                  "patient": [f"p{i}" for i in range(30)],
                                  "weight": [f"{60 + i} kg" for i in range(30)]})
        for name, words in (
                ("dose", "'0,5' is a number in another spelling.*row 0, column 'dose'.*: 0.5"),
                ("weight", "'60 kg' is a number in another spelling.*write the number alone: 60"),
                ("patient", "30 different texts in 30 rows.*row 0, column 'patient'")):
            with self.assertRaisesRegex(hanse.Refused, words):
                hanse.write_table("t.h5", frame, label="ill", features=[name], categories="one-hot")
        frame["patient"] = frame["patient"].astype("category")  # who says so means it
        hanse.write_table("t.h5", frame, label="ill", features=["patient"],
                          options={"federation.clients": 3})

    def test_all_faults_of_a_frame_are_told_by_row(self):
        frame = pandas.DataFrame({"ill": [0, 1, 1], "age": [30, None, 31], "sex": ["f", "m", "f"],
                                  "weight": [None, 70, None]})
        with self.assertRaises(hanse.Refused) as caught:
            hanse.write_table("t.h5", frame, label="ill")
        first, *told = str(caught.exception).split("\n")
        self.assertIn("4 faults, all told above", first)
        self.assertEqual([line.split("(")[1].split(")")[0] for line in told],
                         ["row 0, column 'sex'", "row 0, column 'weight'", "row 1, column 'age'",
                          "row 2, column 'weight'"])

    def test_a_sweep_leaves_out_one_client_after_the_other(self):
        job = {"data.kind": "csv", "data.path": HEART / "heart.csv", "run.rounds": 2,
               "data.client-column": "hospital", "data.standardize": "client",
               "model.kind": "linear", "sampler.kind": "full"}
        study = hanse.sweep(job, {"federation.held-out": ["each"]}, out="each", progress=False)
        self.assertEqual([case.values["federation.held-out"] for case in study.cases],
                         ["cleveland", "hungarian", "switzerland", "va"])
        self.assertEqual({name: runs[0].held_out["name"].tolist()
                          for name, runs in hanse.read_several("each").items()},
                         {f"held-out={name}": [name]
                          for name in ("cleveland", "hungarian", "switzerland", "va")})
        self.assertIn("held_out_accuracy_mean", study.frame.columns)
        again = hanse.sweep("each", progress=False)  # of the study's file: the data need not be there
        self.assertEqual(len(again.cases), 4)
        self.assertEqual(hanse.sweeps.client_names(
            {"job": os.devnull, "set": {"data.kind": "random", "federation.clients": 3}}),
            ["name:0", "name:1", "name:2"])

    def test_a_sweep_over_clients_with_commas(self):
        table = self.write("t.csv", 'site,x,label\n' + "".join(
            f'{site},{i},{i % 2}\n' for i in range(6) for site in ('"St. Mary\'s, London"', "north")))
        job = {"data.kind": "csv", "data.path": table, "data.client-column": "site",
               "run.rounds": 2, "model.kind": "linear", "sampler.kind": "full"}
        hanse.sweep(job, {"federation.held-out": ["each"]}, out="each", progress=False)
        self.assertEqual(sorted(runs[0].held_out["name"].tolist()
                                for runs in hanse.read_several("each").values()),
                         [["St. Mary's, London"], ["north"]])


@unittest.skipUnless(pyarrow, "pyarrow is not installed")
class TablesTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.table = pyarrow.table({"clinic": ["south", "north", "south", "north"],
                                    "a": [1.5, 2, 3, 4], "ill": ["no", "yes", "yes", "no"],
                                    "b": [10, 20, 30, 40]})

    def check(self, clients, classes):
        self.assertEqual((list(clients), classes), (["north", "south"], ["no", "yes"]))
        x, y = clients["south"]
        numpy.testing.assert_array_equal(x, numpy.float32([[1.5, 10], [3, 30]]))
        numpy.testing.assert_array_equal(y, [0, 1])
        self.assertEqual(x.dtype, numpy.float32)

    def test_tables_and_files_are_alike(self):
        from pyarrow import feather, parquet

        parquet.write_table(self.table, "t.parquet")
        feather.write_feather(self.table, "t.arrow")
        for source in (self.table, "t.parquet", "t.arrow"):
            self.check(*hanse.clients_of_table(source, client="clinic", label="ill"))
        clients, classes = hanse.clients_of_table("t.parquet", client="clinic", label="b",
                                                  features=["a"], regression=True)
        self.assertIsNone(classes)
        numpy.testing.assert_array_equal(clients["north"][1], numpy.float32([20, 40]))
        self.assertEqual(clients["north"][0].shape, (2, 1))

    def test_images_in_bytes(self):
        pixels = [[i, 2, 3, 250] for i in range(4)]
        table = self.table.select(["clinic", "ill"]).append_column(
            "image", pyarrow.array(pixels, pyarrow.list_(pyarrow.uint8())))
        clients, classes = hanse.clients_of_table(table, client="clinic", label="ill",
                                                  shape=(1, 2, 2))
        self.assertEqual(clients["south"][0].dtype, numpy.uint8)
        numpy.testing.assert_array_equal(clients["south"][0][1], [[[2, 2], [3, 250]]])
        hanse.write_federation("t.h5", clients, classes=classes)
        self.assertTrue(os.path.exists("t.h5"))

    def test_bad_tables(self):
        for words, table, options in (
                ("no column 'clinics'", self.table, {"client": "clinics"}),
                ("column 'ill' holds no numbers", self.table, {"label": "a"}),
                ("2 numbers, and \\(2, 2\\) 4", self.table, {"shape": (2, 2)}),
                ("misses 1 values", self.table.append_column("c", pyarrow.array([1, 2, None, 3])),
                 {}),
                ("cannot read none.parquet", "none.parquet", {})):
            with self.subTest(words), self.assertRaisesRegex(hanse.Refused, words):
                hanse.clients_of_table(table, **{"client": "clinic", "label": "ill", **options})


if __name__ == "__main__":
    unittest.main()
