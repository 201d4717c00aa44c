"""hanse.compare_clients on made-up runs."""
import math
import sys
import unittest
import warnings

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402

HEAD = "client,name,split,held_out,samples,loss,accuracy\n"
TOOK_PART = "round,client,weight,samples,steps,seconds,received,staleness,counted\n"


class CompareClientsTest(ScriptTest):
    def make(self, name, accuracies, lines="", names="abcdef", digest="one"):
        self.write(f"{name}/job.cfg", "[run]\nseed = 1\n")
        clients = "".join(f"{i},{names[i] if names else ''},test,0,{10 + i},{1 - value},{value}\n"
                          for i, value in enumerate(accuracies))
        self.write(f"{name}/clients.csv", HEAD + clients + "9,held,test,1,5,0,1\n")
        self.write(f"{name}/summary.json", f'{{"data_digest": "{digest}"}}')
        if lines:
            self.write(f"{name}/participation.csv", TOOK_PART + lines)
        return self.folder / name

    def test_who_gains_and_who_loses(self):
        lines = "1,0,1,10,2,0.5,0,0,1\n1,2,0,12,,,,,0\n2,0,1,10,2,0.5,1,0,1\n2,1,1,11,2,0.5,1,0,1\n"
        a = self.make("a", [0.5, 0.25, 0.75, 0.5], lines)
        b = self.make("b", [0.75, 0.125, 0.75, 1.0])
        found = hanse.compare_clients(a, b)
        self.assertEqual(list(found.columns), ["client", "name", "samples", "a", "b", "difference",
                                               "gain", "took_part_a", "took_part_b"])
        self.assertEqual(list(found["name"]), list("abcd"))  # without the one held out
        self.assertEqual(list(found["difference"]), [0.25, -0.125, 0, 0.5])
        self.assertEqual(list(found["gain"]), [True, False, False, True])
        self.assertEqual(list(found["took_part_a"]), [2, 1, 0, 0])  # one was left out
        self.assertTrue(found["took_part_b"].isna().all())
        self.assertEqual(found.attrs, {"metric": "accuracy", "gain": 2, "lose": 1, "same": 1,
                                       "mean": 0.15625})

    def test_losses_are_better_small(self):
        found = hanse.compare_clients(self.make("a", [0.5, 0.25]), self.make("b", [0.75, 0.25]),
                                      "loss")
        self.assertEqual((found.attrs["gain"], found.attrs["lose"], found.attrs["same"]), (1, 0, 1))
        self.assertEqual(list(found["difference"]), [-0.25, 0])

    def test_clients_are_told_apart_by_name_else_by_number(self):
        a = self.make("a", [0.1, 0.2, 0.3])
        b = self.make("b", [0.5, 0.25, 0.125], names="bcx", digest="two")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = hanse.compare_clients(a, b)
        self.assertEqual([found["name"].tolist(), found["a"].tolist(), found["b"].tolist()],
                         [["b", "c"], [0.2, 0.3], [0.5, 0.25]])
        self.assertEqual([str(one.message) for one in caught],
                         ["the runs have unlike data: a client of one is not that of the other",
                          "the runs have 3 and 3 clients, 2 in common"])
        found = hanse.compare_clients(self.make("c", [0.5], names=""), self.make("d", [0.25]))
        self.assertEqual(found["difference"].tolist(), [-0.25])

    def test_repeats_are_means(self):
        for name, values in (("a", [[0.25], [0.75]]), ("b", [[0.5], [1.0]])):
            self.write(f"{name}/job.cfg", "[run]\nrepeats = 2\n")
            for i, own in enumerate(values, 1):
                self.make(f"{name}/repeats/{i}", own, "1,0,1,10,2,0.5,0,0,1\n" * i)
        found = hanse.compare_clients(self.folder / "a", self.folder / "b")
        self.assertEqual(found[["a", "b", "took_part_a"]].values.tolist(), [[0.5, 0.75, 1.5]])

    def test_what_cannot_be_compared(self):
        a, b = self.make("a", [0.5]), self.make("b", [0.5], names="x")
        with self.assertRaisesRegex(ValueError, "no client in common; hint: .* by their name"):
            hanse.compare_clients(a, b)
        with self.assertRaisesRegex(ValueError, "no f1 of its clients; hint: both have samples, "
                                                "loss, accuracy"):
            hanse.compare_clients(a, a, "f1")
        with self.assertRaises(FileNotFoundError):
            hanse.compare_clients(a, self.folder / "none")

    def test_tables_of_a_run(self):
        run = hanse.read(self.make("a", [0.5], "1,0,0.5,10,,,0,0,1\n"))
        self.assertEqual(run.participation["weight"].tolist(), [0.5])
        self.assertTrue(math.isnan(run.participation["steps"].item()))
        with self.assertRaisesRegex(FileNotFoundError, "has no partition.csv"):
            run.partition
        self.write("a/partition.csv", "client,name,label,class,train,test\n0,a,1,yes,8,2\n")
        self.assertEqual(run.partition["train"].tolist(), [8])


if __name__ == "__main__":
    unittest.main()
