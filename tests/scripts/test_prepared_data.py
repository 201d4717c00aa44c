"""What scripts/reproduce makes of fetched data, on made-up files of their form."""
import bz2
import csv
import gzip
import math
import pathlib
import struct
import sys
import tarfile
import unittest.mock

import numpy

from support import SCRIPTS, ScriptTest

sys.path[:0] = [str(SCRIPTS / "python"), str(SCRIPTS)]
from hanse import Refused  # noqa: E402
from shared import prepared_data, r_data  # noqa: E402


def number(value):
    return struct.pack(">i", value)


def text(value):
    return number(9) + number(len(value)) + value.encode()


def texts(values):
    return number(16) + number(len(values)) + b"".join(map(text, values))


def pairs(items, ends=number(254)):
    """A list of pairs with tags; the names are symbols."""
    return b"".join(number(2 | 0x400) + number(1) + text(name) + value
                    for name, value in items) + ends


def matrix(columns):
    """Of numbers, with names of columns alone, as R's save() writes it."""
    rows = len(next(iter(columns.values())))
    values = [value for column in columns.values() for value in column]
    names = number(19) + number(2) + number(254) + texts(list(columns))
    return (number(14 | 0x200) + number(len(values)) + struct.pack(f">{len(values)}d", *values)
            + pairs([("dim", number(13) + number(2) + number(rows) + number(len(columns))),
                     ("dimnames", names)]))


def r_file(columns):
    inner = number(19 | 0x200) + number(1) + matrix(columns) + pairs([("names", texts(["x"]))])
    return (b"RDX3\nX\n" + struct.pack(">iii", 3, 0x40000, 0x30500) + number(5) + b"UTF-8"
            + pairs([("data.berka", inner)]))


LOAN = '''"loan_id";"account_id";"date";"amount";"duration";"payments";"status"
1;7;930705;96396;12;8033.00;"D"
2;8;930711;165960;36;4610.00;"C"
3;9;930711;1000;36;4610.00;"C"
'''
ACCOUNT = '''"account_id";"district_id";"frequency";"date"
7;1;"POPLATEK TYDNE";930605
8;1;"POPLATEK MESICNE";930711
9;2;"POPLATEK PO OBRATU";930711
'''
DISTRICT = ("A1;A2;A3;A4;A5;A6;A7;A8;A9;A10;A11;A12;A13;A14;A15;A16\n"
            "1;Town;Prague;44;5;6;7;8;9;10;11;?;13;14;?;16\n"
            "2;Town;north Bohemia;44;5;6;7;8;9;10;11;12;13;14;15;16\n")
FEATURES = {"Prague": [["96396", "12", "8033.00", "30", "44", "11", "14", "13", "16"],
                       ["165960", "36", "4610.00", "0", "44", "11", "14", "13", "16"]]}


class BerkaTest(ScriptTest):
    def setUp(self):
        super().setUp()
        for name, content in [("loan", LOAN), ("account", ACCOUNT), ("district", DISTRICT)]:
            self.write(f"berka/{name}.asc", content)

    def made(self):
        options = prepared_data.berka(self.folder / "berka", self.folder / "out", {})
        with open(options["data.path"], newline="") as file:
            return list(csv.reader(file))

    def check(self, movements):
        lines = self.made()
        self.assertEqual(len(lines[0]), 15 + 2)
        self.assertEqual(len(lines), 1 + 2)  # north Bohemia is left out
        for line, features, own, end in zip(lines[1:], FEATURES["Prague"], movements,
                                            [["1", "0", "1"], ["0", "0", "0"]]):
            self.assertEqual(line[:10], ["Prague", *features])
            for value, expected in zip(line[10:14], own):
                self.assertAlmostEqual(float(value), expected)
            self.assertEqual(line[14:], end)

    def test_from_the_tables(self):
        self.write("berka/order.asc", '"order_id";"account_id";"amount"\n1;7;2\n2;7;5\n3;8;1\n4;9;1\n')
        self.write("berka/trans.asc", '"account_id";"amount";"balance"\n7;1;10\n7;3;20\n7;8;60\n'
                   "8;6;1\n9;1;1\n")
        self.check([[3.5, 3, 4, 30], [1, 1, 6, 1]])

    def test_from_the_package(self):
        columns = {"order_num": [2, 1, 1], "ln(order_sum_amount)": [math.log(7), 0, 0],
                   "trans_num": [3, 1, 1], "ln(trans_amount_mean)": [math.log(4), math.log(6), 0],
                   "trans_amount_div_balance": [0.25, 0.5, 1]}
        (self.folder / "berka/data.berka.rda").write_bytes(bz2.compress(r_file(columns)))
        self.check([[3.5, 3, 4, 0.25], [1, 1, 6, 0.5]])
        columns = {name: values[:2] for name, values in columns.items()}
        (self.folder / "berka/data.berka.rda").write_bytes(bz2.compress(r_file(columns)))
        with self.assertRaisesRegex(Refused, "2 loans, not loan.asc's 3"):
            self.made()

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(Refused, "order.asc is missing"):
            self.made()
        path = pathlib.Path(self.write("berka/data.berka.rda", "RDX3\nX\n"))
        for content in (b"RDX3\nX\n", b"x" * 40, r_file({"x": [1.0]})[:-30]):
            path.write_bytes(content)
            with self.assertRaisesRegex(Refused, "data.berka.rda cannot be read"):
                r_data.read(path)


class ArchivesTest(ScriptTest):
    def test_kmnist_as_one_file(self):
        x, y = numpy.arange(24, dtype="uint8").reshape(2, 3, 4), numpy.array([1, 0], "uint8")
        numpy.savez_compressed(self.folder / "kmnist-test-imgs.npz", x)
        numpy.savez_compressed(self.folder / "kmnist-test-labels.npz", y)
        path = prepared_data.kmnist(self.folder, self.folder / "out", {})["data.path"]
        with numpy.load(path) as made:
            numpy.testing.assert_array_equal(made["x"], x)
            numpy.testing.assert_array_equal(made["y"], y)

    TEXT = "B:\nno.\n\nA:\nyes, I say.\n\nA note without a speaker.\n\nC:\nmaybe.\n\nB:\nno, no.\n"

    def test_every_second_role(self):
        """The longest first, with all that it says; roles of one length by their names."""
        first, second = prepared_data.halves_of_roles(self.TEXT)
        self.assertEqual(first, "B:\nno.\n\nB:\nno, no.\n\nC:\nmaybe.\n")
        self.assertEqual(second, "A:\nyes, I say.\n")

    def test_a_model_is_trained_on_one_half_and_tuned_on_the_other(self):
        self.write("plays.txt", self.TEXT)
        asked = []

        def ask(*words):
            asked.append([str(word) for word in words])
            self.write("out/pretrained/model.h5", "")

        data = {"pretrain": {"job": "jobs/one.cfg", "set": {"run.rounds": "3"}}}
        out = self.folder / "out"
        with unittest.mock.patch.object(prepared_data, "ask", ask):
            made = [prepared_data.pretrained(self.folder / "plays.txt", out, data) for _ in (1, 2)]
        self.assertEqual(made, 2 * [{"data.path": out / "tuning.txt",
                                     "model.start": out / "pretrained/model.h5"}])
        self.assertEqual((out / "tuning.txt").read_text(), "A:\nyes, I say.\n")
        [words] = asked  # once
        self.assertEqual(words, ["run", str(SCRIPTS.parent / "jobs/one.cfg"), "--run.rounds=3",
                                 f"--data.path={out}/pretraining.txt",
                                 f"--run.out={out}/pretrained"])

    def test_turned_digits(self):
        images = numpy.arange(7 * 784, dtype="uint32").astype("uint8").reshape(7, 28, 28)
        labels = numpy.array([3, 1, 4, 1, 5, 9, 2], "uint8")
        (self.folder / "train-images-idx3-ubyte").write_bytes(bytes(16) + images.tobytes())
        with gzip.open(self.folder / "train-labels-idx1-ubyte.gz", "wb") as file:
            file.write(bytes(8) + labels.tobytes())
        data = {"clients": 3, "samples": 2, "turns": [0, 1, 2]}
        path = prepared_data.turned_digits(self.folder, self.folder / "out", data)["data.path"]
        with numpy.load(path) as made:
            self.assertEqual(list(made["client"]), ["turn0-000"] * 2 + ["turn1-001"] * 2
                             + ["turn2-002"] * 2)
            self.assertEqual(list(made["y"]), list(labels[:6]))
            for i in range(6):
                expected = images[i]
                for _ in range(i // 2):  # the last column becomes the first row
                    expected = expected[:, ::-1].T
                numpy.testing.assert_array_equal(made["x"][i], expected)
        with self.assertRaisesRegex(Refused, "more than 7"):
            prepared_data.turned_digits(self.folder, self.folder / "other", {**data, "samples": 3})

    def test_pictures_of_an_archive(self):
        names = ["train/a/1.png", "test/a/2.png", "val/3.png", "train/../../out.png"]
        self.write("picture", "1")
        with tarfile.open(self.folder / "all.tar.xz", "w:xz") as archive:
            for name in names:
                archive.add(self.folder / "picture", name)
        data = {"archive": "all.tar.xz"}
        made = prepared_data.pictures(self.folder, self.folder / "made/data", data)["data.path"]
        self.assertEqual(sorted(str(path.relative_to(made)) for path in made.rglob("*.png")),
                         ["test/a/2.png", "train/a/1.png"])
        self.assertEqual(list(self.folder.rglob("out.png")), [])
        self.assertEqual(prepared_data.pictures(made, self.folder / "other", data),
                         {"data.path": made})
