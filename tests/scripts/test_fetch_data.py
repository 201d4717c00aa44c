"""scripts/fetch-data on folders that are right, and on damaged ones."""
import gzip
import sys
import unittest

import numpy

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS))
from shared import public_data as data  # noqa: E402


class FetchDataTest(ScriptTest):
    def check(self, *checks):
        one = data.DataSet("title", "place", {}, list(checks))
        return list(data.check(one, self.folder))

    def refuse(self, check, *parts):
        with self.assertRaises(data.Refused) as caught:
            self.check(check)
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_lists_and_tells(self):
        listed = self.script("fetch-data").stdout
        for name in data.DATA_SETS:
            self.assertIn(f"{name} ", listed)
        told = self.script("fetch-data", "tiny-imagenet").stdout
        self.assertIn(data.DATA_SETS["tiny-imagenet"].place, told)
        self.assertIn("--data.kind=images\n  --data.path=FOLDER\n  --data.shape=3,64,64\n", told)
        self.assert_one_line_error(self.script("fetch-data", "mnits"), "known are mnist, ")
        self.assert_one_line_error(self.script("fetch-data", "magic", self.folder),
                                   "magic04.data is missing")

    def test_digests(self):
        check = data.Digest("a", "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0")
        self.refuse(check, "a is missing")
        with gzip.open(self.folder / "a.gz", "wb") as file:
            file.write(b"aaa")
        self.assertIn("SHA-256 is right", *self.check(check))
        self.write("a", "aab")
        self.refuse(check, "should be 9834876")
        self.assertIn("3 bytes", *self.check(data.Size("a", 3)))
        self.refuse(data.Size("a", 4), "has 3 bytes, should be 4")
        (self.folder / "b.gz").write_bytes(b"\x1f\x8b\x08 no gzip")
        self.refuse(data.Size("b", 4), "cannot be read")

    def test_shapes_and_counts(self):
        self.write("t", "a;b\n1;2\n3;4\n")
        self.check(data.Table("t", 3, 2, ";"))
        self.refuse(data.Table("t", 3, 3, ";"), "3 lines of [2] columns")
        self.write("r", "\0\t\1\t\0\t\1\t")
        self.check(data.Records("r", 0, 2, 2, 2))
        self.refuse(data.Records("r", 0, 2, 2, 3), "should be 6 records")
        self.write("r", "\0\t\1\t\1\t\1\t")
        self.refuse(data.Records("r", 0, 2, 2, 2), "1 to 3 images of a class")
        for name in ("p/x/1.png", "p/x/2.JPG", "p/y/3.jpeg", "p/y/notes.txt"):
            self.write(name, "")
        self.check(data.Pictures("p", 2, 3))
        self.refuse(data.Pictures("p", 2, 4), "3 pictures of 2 classes")

    def test_arrays(self):
        numpy.savez_compressed(self.folder / "a.npz", numpy.zeros((3, 2, 2), "uint8"))
        self.check(data.Array("a.npz", (3, 2, 2)))
        self.refuse(data.Array("a.npz", (4, 2, 2)), "shape (3, 2, 2), should be (4, 2, 2)")
        self.refuse(data.Array("b.npz", (4,)), "cannot be read")
        self.write("b.npz", "no zip")
        self.refuse(data.Array("b.npz", (4,)), "cannot be read")


if __name__ == "__main__":
    unittest.main()
