"""report.tensorboard: the event files hold what the CSV files hold, also after a resume."""

import os
import struct

import hanse


def crc32c(data):
    """Bit by bit, from the polynomial's definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Contents of the records of a file; each CRC is checked."""
    while data:
        (length,), (crc,) = struct.unpack("<Q", data[:8]), struct.unpack("<I", data[8:12])
        content, (content_crc,) = data[12:12 + length], struct.unpack("<I", data[12 + length:][:4])
        assert crc == masked(data[:8]) and content_crc == masked(content), "a record is damaged"
        yield content
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protocol buffer; numbers of fixed size stay bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def events(run):
    """(step, {tag: value}, is a session's start) in the order of the files and their records."""
    found = []
    folder = os.path.join(run, "tensorboard")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            contents = list(records(file.read()))
        assert dict(fields(contents[0]))[3] == b"brain.Event:2"
        for content in contents[1:]:
            event = dict(fields(content))
            assert struct.unpack("<d", event[1])[0] > 1.5e9  # seconds since 1970
            values = {}
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                values[value[1].decode()] = struct.unpack("<f", value[2])[0]
            found.append((event[2], values, 7 in event))
    return found


def scalars(run):
    """{tag: {step: value}} as TensorBoard keeps them: a session's start drops what is behind."""
    kept = {}
    for step, values, is_start in events(run):
        if is_start:
            kept = {tag: {s: v for s, v in series.items() if s < step}
                    for tag, series in kept.items()}
        for tag, value in values.items():
            kept.setdefault(tag, {})[step] = value
    return kept


class TensorBoard(hanse.Case):
    def assert_as_in_the_tables(self, run):
        expected = {}
        for prefix, name in (("round", "rounds.csv"), ("evaluation", "evaluations.csv")):
            for row in hanse.table(run, name):
                for key, value in row.items():
                    if key not in ("round", "split", "held_out_split") and value:
                        series = expected.setdefault(f"{prefix}/{key}", {})
                        series[int(row["round"])] = float(value)
        found = scalars(run)
        self.assertEqual(set(found), set(expected))
        for tag, series in expected.items():
            self.assertEqual(list(found[tag]), list(series), tag)
            for step, value in series.items():
                self.assertAlmostEqual(found[tag][step], value, delta=1e-5 * abs(value) + 1e-12)

    def test_check_value_of_the_reader(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_same_as_the_tables(self):
        run = self.train(self.job(), "run", 2, {"report.tensorboard": "true"})
        self.assert_as_in_the_tables(run)
        self.assertEqual(os.listdir(os.path.join(run, "tensorboard")),
                         ["events.out.tfevents.0001"])
        self.assertEqual(len(scalars(run)["round/loss"]), 12)

    def test_only_on_request(self):
        self.assertFalse(os.path.exists(os.path.join(self.train(self.job(), "run"),
                                                     "tensorboard")))

    def test_resume_takes_back_what_is_behind_its_checkpoint(self):
        """A run of 12 rounds whose last checkpoint, of round 5, is the one it goes on from."""
        run = self.train(self.job({"checkpoint.every": 5, "checkpoint.keep": 0}), "run",
                         changes={"report.tensorboard": "true"})
        for name in ("round-000010.h5", "round-000012.h5"):
            os.remove(os.path.join(run, "checkpoints", name))
        lost = len(events(run))
        self.hanse("resume", run, "--evaluate.every=3", ranks=2)
        self.assertEqual([step for step, _, is_start in events(run) if is_start], [6])
        self.assertGreater(len(events(run)), lost + 7)  # nothing was cut from the first file
        self.assert_as_in_the_tables(run)

    def test_resume_elsewhere_and_switching(self):
        """It may begin with a resume, and goes along to another folder."""
        run = self.train(self.job(), "run", changes={"run.rounds": 4})
        self.hanse("resume", run, "--run.rounds=8", "--report.tensorboard=true")
        self.assertEqual(list(scalars(run)["round/loss"]), [5, 6, 7, 8])
        self.hanse("resume", run, f"--run.out={self.path('other')}", "--run.rounds=9")
        self.assertEqual(list(scalars(self.path("other"))["round/loss"]), [5, 6, 7, 8, 9])
        self.assertEqual(list(scalars(run)["round/loss"]), [5, 6, 7, 8])

    def test_overwrite(self):
        job = self.job({"report.tensorboard": "true"})
        run = self.train(job, "run")
        self.train(job, "run", changes={"run.overwrite": "true", "run.rounds": 3})
        self.assertEqual(list(scalars(run)["round/loss"]), [1, 2, 3])

    def test_full_disk_is_one_error(self):
        process = self.hanse("run", self.job({"run.rounds": 400, "evaluate.every": 0}),
                             f"--run.out={self.path('run')}", "--report.tensorboard=true",
                             expect=None, file_bytes=16384)
        self.assertEqual(process.status, 1, process.describe())
        self.assertEqual(len(process.errors()), 1, process.describe())


if __name__ == "__main__":
    hanse.main()
