"""hanse.clients_of_table: files of Parquet and Arrow become clients, and a federation of theirs
trains."""
import os
import sys
import unittest

import numpy

try:
    import pyarrow
except ImportError:
    pyarrow = None

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402


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
