"""scripts/convert-traces: files of the virtual clock from pickles of FedScale's form."""
import collections
import os
import pickle
import unittest

from support import ScriptTest


class Code:
    """Runs a command when it is unpickled by pickle's own rules."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class ConvertTraces(ScriptTest):
    def convert(self, traces, *more):
        (self.folder / "traces").write_bytes(pickle.dumps(traces))
        done = self.script("convert-traces", self.folder / "traces", self.folder / "out.csv", *more)
        if done.returncode == 0:
            return done, (self.folder / "out.csv").read_text()
        self.assertEqual(done.returncode, 2)
        self.assertFalse((self.folder / "out.csv").exists())
        self.assertEqual(done.stderr.count("\n"), 1)
        return done, None

    def refused(self, traces, part, *more):
        done, text = self.convert(traces, *more)
        self.assertIsNone(text)
        self.assertIn(part, done.stderr)

    def test_speeds_become_profiles_in_the_order_of_the_devices(self):
        done, text = self.convert({7: {"computation": 162.0, "communication": 5000},
                                   2: {"computation": 20, "communication": 0.5}})
        self.assertEqual(text, "client,seconds_per_sample,down_bps,up_bps,latency_s\n"
                               "0,0.02,512.0,512.0,0\n1,0.162,5120000,5120000,0\n")
        self.assertIn("--clock.path=", done.stdout)
        self.assertIn("--clock.backward-factor=3", done.stdout)

    def test_times_become_presences_of_one_period(self):
        def device(active, inactive, length):
            return {"active": active, "inactive": inactive, "finish_time": length, "duration": 1,
                    "model": "phone"}
        done, text = self.convert({"a": device([5, 0], [9, 2], 10),
                                   "never": device([4], [4], 10),
                                   "b": device([1, 3], [3, 3], 4),
                                   "c": device([-2, 8, 2], [1, 12, 4], 10)}, "--clients=4")
        self.assertEqual(text, "period,10\nclient,on,off\n0,0,2\n0,5,9\n"
                               "1,1,3\n1,5,7\n1,9,10\n2,0,1\n2,2,4\n2,8,10\n3,0,2\n3,5,9\n")
        self.assertIn("--clock.availability=file", done.stdout)

    def test_only_plain_data_is_read(self):
        made = self.folder / "made"
        self.refused({1: {"computation": Code(made), "communication": 1}}, "mkdir")
        self.assertFalse(made.exists())
        self.refused(collections.OrderedDict({1: {"computation": 1, "communication": 1}}),
                     "collections.OrderedDict")

    def test_what_is_wrong_is_named(self):
        self.refused([1], "dictionary of devices")
        self.refused({}, "dictionary of devices")
        self.refused({1: 2}, "dictionary of its numbers")
        self.refused({1: {"speed": 2}}, "speed")
        self.refused({1: {"computation": 0, "communication": 1}}, "device 1")
        self.refused({1: {"computation": "x", "communication": 1}}, "computation of device 1")
        self.refused({1: {"computation": 1, "communication": float("nan")}}, "communication")
        times = {"active": [0], "inactive": [1], "finish_time": 2}
        self.refused({1: times}, "--clients")
        self.refused({1: {**times, "active": 5}}, "lists of times", "--clients=1")
        self.refused({1: {**times, "inactive": [0]}}, "no device is ever on line",
                     "--clients=1")
        self.refused({1: {**times, "active": ["x"]}}, "device 1", "--clients=1")
        (self.folder / "traces").write_bytes(b"\x80\x04client,on,off")
        done = self.script("convert-traces", self.folder / "traces", self.folder / "out.csv")
        self.assertIn("no pickle", done.stderr)
        done = self.script("convert-traces", self.folder / "none", self.folder / "out.csv")
        self.assertIn("none", done.stderr)


if __name__ == "__main__":
    unittest.main()
