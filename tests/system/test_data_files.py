"""Pictures, CIFAR's files and NumPy's arrays, written by Pillow and NumPy; the common test set."""

import os
import re
import shutil
import struct
import unittest
import warnings
import zipfile
import zlib

import harness
from test_data import DataCase

try:
    import h5py
    import numpy as np
    from PIL import Image, ImageCms
except ImportError:
    Image = None

@unittest.skipIf(Image is None, "Pillow is not installed")
class FilesCase(DataCase):
    def pixels(self, height, width, channels=3):
        """Smooth, so that JPEG keeps most of it."""
        y, x = np.mgrid[0:height, 0:width]
        phase = self.rng.random(channels) * 6
        planes = [127 + 120 * np.sin(x / 7 + p) * np.cos(y / 5 + p) for p in phase]
        return np.stack(planes, axis=-1).astype(np.uint8).squeeze()

    def save(self, name, image, **options):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        image.save(path, **options)
        return path

    def everything(self, kind, path, **more):
        """(features, labels, attributes) in the order of the file, by one client."""
        job = self.data_job(kind, path, **{**more, "federation__clients": 1,
                                           "data__test_fraction": 0})
        self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
        with h5py.File(self.path("out.h5")) as file:
            return self.sorted_by_label(file["features"][:], file["labels"][:]), dict(file.attrs)

    @staticmethod
    def sorted_by_label(features, labels):
        """Samples of one client stand in random order: a set of them for each label."""
        return {int(k): sorted(f.tobytes() for f in features[labels == k]) for k in set(labels)}

    def refuse(self, job, *parts):
        super().refuse(job, *parts, out="bad.h5")


class Pictures(FilesCase):
    def write_folder(self):
        """Every way in which colours are stored; {label: pictures as Pillow sees them}."""
        found = {0: [], 1: []}
        turned = Image.Exif()
        turned[0x112] = 6  # an orientation, which convert does not apply
        for name, label, image, options, *change in [
                ("a/1.png", 0, Image.fromarray(self.pixels(9, 13)), {}),
                ("a/2.jpg", 0, Image.fromarray(self.pixels(9, 13)), {"quality": 90}),
                ("a/deep/3.PNG", 0, Image.fromarray(self.pixels(9, 13, 4), "RGBA"), {}),
                ("b/4.jpeg", 1, Image.fromarray(self.pixels(9, 13)), {"progressive": True}),
                ("b/5.png", 1, Image.fromarray(self.pixels(9, 13)).quantize(16), {}),
                ("b/6.png", 1, Image.fromarray(self.pixels(9, 13)), {"optimize": True}),
                ("b/7.jpg", 1, Image.fromarray(self.pixels(9, 13, 4), "CMYK"), {}),
                ("b/7a.jpg", 1, Image.fromarray(self.pixels(9, 13, 4), "CMYK"), {}, self.as_ycck),
                ("b/7b.jpg", 1, Image.fromarray(self.pixels(9, 13)), {}, self.with_junk),
                ("b/7c.jpg", 1, Image.fromarray(self.pixels(9, 13)), {"progressive": True},
                 self.with_junk),
                ("b/7d.jpg", 1, Image.fromarray(self.pixels(9, 13)), {}, self.of_odd_revision),
                ("b/8.jpg", 1, Image.fromarray(self.pixels(9, 13)), {"exif": turned}),
                ("b/9.png", 1, Image.fromarray(self.pixels(9, 13)), {"format": "JPEG"})]:
            path = self.save(f"pictures/{name}", image, **options)
            if change:
                with open(path, "rb") as file:
                    content = file.read()
                self.write(f"pictures/{name}", change[0](content))
            found[label].append(np.array(Image.open(path).convert("RGB")))
        self.write("pictures/a/notes.txt", "no picture")
        return self.path("pictures"), found

    @staticmethod
    def as_ycck(jpeg):
        """Inks of which the first three are stored as a brightness and two colours."""
        place = jpeg.index(b"Adobe") + 11
        return jpeg[:place] + b"\2" + jpeg[place + 1:]

    @staticmethod
    def with_junk(jpeg):
        """Bytes in front of the end, of which libjpeg warns."""
        return jpeg[:-2] + bytes(5) + jpeg[-2:]

    @staticmethod
    def of_odd_revision(jpeg):
        place = jpeg.index(b"JFIF\0") + 5
        return jpeg[:place] + b"\0" + jpeg[place + 1:]

    @staticmethod
    def planes(pictures):
        return {label: sorted(p.transpose(2, 0, 1).tobytes() for p in own)
                for label, own in pictures.items()}

    def test_as_torchvision_reads_them(self):
        folder, found = self.write_folder()
        samples, attributes = self.everything("images", folder)
        self.assertEqual(samples, self.planes(found))
        self.assertEqual((attributes["classes"], attributes["encoding"]), (2, b"byte/255"))
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["features"].shape, (13, 3, 9, 13))
            self.assertEqual([name.decode() for name in file["class_names"]], ["a", "b"])

    def test_scaled_as_torchvision_does(self):
        folder, _ = self.write_folder()
        self.save("pictures/b/10.png", Image.fromarray(self.pixels(31, 5)))
        self.save("pictures/b/11.png", Image.fromarray(self.pixels(4, 40, 1), "L"))
        for mode, shape in [("RGB", (3, 7, 8)), ("L", (1, 20, 3)), ("RGB", (3, 9, 13))]:
            expected = {0: [], 1: []}
            for base, _, names in os.walk(folder):
                for name in names:
                    if name.endswith("txt"):
                        continue
                    picture = Image.open(os.path.join(base, name))
                    if mode == "RGB" or picture.mode != "L":
                        picture = picture.convert("RGB")
                    if mode == "L":
                        picture = picture.convert("L")
                    picture = picture.resize((shape[2], shape[1]), Image.BILINEAR)
                    label = int("/b" in base)
                    expected[label].append(np.array(picture).reshape(*shape[1:], shape[0]))
            samples, _ = self.everything("images", folder, data__shape=",".join(map(str, shape)))
            self.assertEqual(samples, self.planes(expected), shape)

    def test_bad_pictures(self):
        folder, _ = self.write_folder()
        job = self.data_job("images", folder, federation__clients=2)

        def refuse(name, *parts):
            self.refuse(job, name, *parts)
            os.remove(os.path.join(folder, name))
        self.save("pictures/b/bad.png", Image.fromarray(self.pixels(9, 13, 1), "L"))
        refuse("b/bad.png", "9 x 13 pixels in grey", "9 x 13 pixels in colour",
               "data.shape = 3,9,13")
        self.save("pictures/b/bad.png", Image.fromarray(self.pixels(9, 12)))
        refuse("b/bad.png", "9 x 12 pixels", "data.shape = 3,9,13")
        good = self.save("pictures/b/bad.jpg", Image.fromarray(self.pixels(9, 13)))
        with open(good, "rb") as file:
            whole = file.read()
        for size in (0, 3, len(whole) // 2, len(whole) - 40):
            self.write("pictures/b/bad.jpg", whole[:size])
            refuse("b/bad.jpg")
        with open(os.path.join(folder, "a/1.png"), "rb") as file:
            png = file.read()
        for size in (20, len(png) // 2):
            self.write("pictures/b/bad.png", png[:size])
            refuse("b/bad.png", "damaged picture")
        huge = bytearray(png)
        huge[16:20] = (2_000_000_000).to_bytes(4, "big")
        self.write("pictures/b/bad.png", bytes(huge))
        refuse("b/bad.png", "damaged picture")
        sixteen = Image.fromarray(np.zeros((9, 13), np.uint16))
        self.save("pictures/b/bad.png", sixteen)
        refuse("b/bad.png", "grey with 16 bits")
        self.write("pictures/b/bad.png", b"BM" + bytes(80))
        refuse("b/bad.png", "neither PNG nor JPEG")
        os.symlink("nowhere.png", self.path("pictures/b/bad.png"))
        refuse("b/bad.png", "cannot open file")
        self.write("pictures/c/readme.txt", "")
        self.refuse(job, "pictures/c", "no picture")
        self.refuse(self.data_job("images", self.path("pictures/a/deep")), "no folder of a class")
        self.refuse(self.data_job("images", folder, data__shape="2,9,13"), "data.shape")


class PngColours(FilesCase):
    """Every way in which PNG stores colours, with every chunk that may change them, is read as
    Pillow's convert does."""
    PASSES = {0: [(0, 0, 1, 1)],  # first row, first column, steps; 1: Adam7
              1: [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2),
                  (0, 1, 2, 2), (1, 0, 2, 1)]}
    CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a colour type

    @staticmethod
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + \
            struct.pack(">I", zlib.crc32(name + content))

    def colour_chunks(self):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        gammas = {f"gamma-{g}": self.chunk(b"gAMA", struct.pack(">I", g))
                  for g in (45455, 55556, 100000, 220000)}
        white = self.chunk(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000,
                                                15000, 6000))
        return {"plain": b"", **gammas, "srgb": self.chunk(b"sRGB", b"\0"),
                "chrm": white + gammas["gamma-55556"],
                "iccp": self.chunk(b"iCCP", b"icc\0\0" + zlib.compress(profile))}

    def png(self, kind, bits, interlace, chunks):
        height, width, channels = 11, 13, self.CHANNELS[kind]
        values = self.rng.integers(0, 2**bits, (height, width, channels))
        data = b""
        for top, left, down, right in self.PASSES[interlace]:
            for row in values[top::down, left::right]:
                octets = row.astype(">u2").view(np.uint8).reshape(-1, 2)
                wanted = np.unpackbits(octets, axis=1)[:, 16 - bits:]
                data += b"\0" + np.packbits(wanted.ravel()).tobytes()
        palette = self.rng.integers(0, 256, 3 * 2**min(bits, 8), dtype=np.uint8).tobytes()
        return (b"\x89PNG\r\n\x1a\n"
                + self.chunk(b"IHDR", struct.pack(">2I5B", width, height, bits, kind, 0, 0,
                                                  interlace))
                + chunks[0] + (self.chunk(b"PLTE", palette) if kind == 3 else b"") + chunks[1]
                + self.chunk(b"IDAT", zlib.compress(data)) + self.chunk(b"IEND", b""))

    def check(self, mode, kinds):
        """A class for each way, with one picture."""
        clear = {0: b"\0\1", 2: b"\0\1\0\2\0\3", 3: b"\0\x80"}
        expected = []
        for kind, bits in kinds:
            for interlace in (0, 1):
                ways = {name: (own, b"") for name, own in self.colour_chunks().items()}
                if kind in clear:
                    ways["clear"] = (b"", self.chunk(b"tRNS", clear[kind]))
                for name, chunks in ways.items():
                    folder = f"png/{kind}-{bits:02}-{interlace}-{name}"
                    os.makedirs(self.path(folder))
                    path = self.write(f"{folder}/1.png", self.png(kind, bits, interlace, chunks))
                    pixels = np.array(Image.open(path).convert(mode)).reshape(11, 13, -1)
                    expected.append((folder, pixels.transpose(2, 0, 1).tobytes()))
        samples, _ = self.everything("images", self.path("png"))
        self.assertEqual(len(samples), len(expected))
        for label, (folder, pixels) in enumerate(sorted(expected)):
            self.assertEqual(samples[label], [pixels], folder)

    def test_grey(self):
        self.check("L", [(0, 1), (0, 2), (0, 4), (0, 8), (4, 8), (4, 16)])

    def test_colour(self):
        self.check("RGB", [(2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (6, 8), (6, 16)])


class NotRead(FilesCase):
    """What a folder has beside its pictures is said at the start, and is no data."""

    def test_the_line_at_the_start(self):
        for name in ("Train/cat/1.png", "Train/cat/2.png", "Train/dog/3.png", "TEST/dog/4.png",
                     "val/dog/5.png", "Train/.ipynb_checkpoints/1.png", "Train/dog/._3.png"):
            self.save(f"pets/{name}", Image.fromarray(self.pixels(4, 4, 1), "L"))
        self.save("pets/Train/cat/5.bmp", Image.fromarray(self.pixels(4, 4, 1), "L"))
        job = self.data_job("images", self.path("pets"), federation__clients=2)
        process = self.hanse("run", job, f"--run.out={self.path('run')}",
                             "--evaluate.test=common", "--data.test-fraction=0")
        self.assertIn("data: 4 samples of 2 clients, 2 classes: cat, dog; not read: 1 .bmp file, "
                      "1 hidden file, 1 hidden folder, 1 picture in val", process.stderr())
        self.assertIn("1 test sample", process.stderr())
        shutil.rmtree(self.path("pets/TEST"))
        self.refuse(self.data_job("images", self.path("pets"), evaluate__test="common"),
                    "no test samples of their own", "val")


class CommonTest(FilesCase):
    def images_with_parts(self):
        for part, count in [("train", 12), ("test", 5)]:
            for name in ("one", "two"):
                for i in range(count):
                    self.save(f"parts/{part}/{name}/{i}.png",
                              Image.fromarray(self.pixels(4, 4, 1), "L"))
        return self.path("parts")

    def test_it_belongs_to_no_client(self):
        """The shared model is evaluated on it, with the same bits on any number of ranks, and of
        the converted file."""
        folder = self.images_with_parts()
        pooled = self.data_job("images", folder, federation__clients=3, evaluate__every=2)
        changes = ["--evaluate.test=common", "--data.test-fraction=2", "--server.average=true"]
        runs = [self.path(f"run{ranks}") for ranks in (1, 3)]
        for run, ranks in zip(runs, (1, 3)):
            process = self.hanse("run", pooled, f"--run.out={run}", *changes, ranks=ranks)
        self.assertIn("10 test samples of no client", process.stderr())
        self.assertIn("accuracy, common test set", process.stdout())
        self.assertRegex(process.stderr(), r"(?m)^round \d+/.*  common accuracy \S+%")
        self.assertEqual(harness.text(runs[0], "evaluations.csv"),
                         harness.text(runs[1], "evaluations.csv"))
        clients = harness.table(runs[0], "clients.csv")
        self.assertEqual([int(row["samples"]) for row in clients], [2, 2, 2])
        metrics = harness.summary(runs[0])["metrics"]
        self.assertIn("averaged_common_loss", metrics)
        self.hanse("convert", pooled, self.path("all.h5"), *changes)
        text = self.hanse("inspect", self.path("all.h5"), "--verify").stdout()
        self.assertIn("test samples of no client: 10", text)
        self.hanse("run", pooled, f"--run.out={self.path('again')}", "--data.kind=hanse",
                   f"--data.path={self.path('all.h5')}", "--server.average=true")
        self.assertEqual(harness.summary(self.path("again"))["metrics"], metrics)
        self.check_accuracy(runs[0], metrics)

    def check_accuracy(self, run, metrics):
        with h5py.File(os.path.join(run, "model.h5")) as model, \
                h5py.File(self.path("all.h5")) as data:
            count = data.attrs["common_test"]
            x = data["features"][-count:].reshape(count, -1) / np.float32(255)
            y = data["labels"][-count:]
            self.assertEqual(list(y), [0] * 5 + [1] * 5)
            weights = [v[:] for v in model.values() if isinstance(v, h5py.Dataset)]
            matrix = next(w for w in weights if w.shape == (2, 16))
            bias = next(w for w in weights if w.shape == (2,))
        z = x @ matrix.T + bias
        self.assertAlmostEqual(metrics["common_accuracy"], np.mean(z.argmax(1) == y), places=12)
        loss = np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(count), y])
        self.assertAlmostEqual(metrics["common_loss"], loss, places=5)

    def test_data_without_one(self):
        folder = self.images_with_parts()
        common = {"evaluate__test": "common"}
        self.refuse(self.data_job("images", os.path.join(folder, "train"), **common),
                    "evaluate.test", "no test samples of their own")
        job = self.data_job("images", folder, federation__clients=3, **common)
        process = self.hanse("run", job, "--run.protocol=local", f"--run.out={self.path('run')}",
                             expect=None)
        self.assert_one_error(process, 2, "evaluate.test", "no shared model")
        self.save("parts/test/three/1.png", Image.fromarray(self.pixels(4, 4, 1), "L"))
        self.refuse(job, "class three has test pictures alone")


class Cifar(FilesCase):
    def write_cifar(self, names, label_bytes, classes, per_file=4):
        records = []
        for name in names:
            rows = np.concatenate([self.rng.integers(0, classes, (per_file, label_bytes)),
                                   self.rng.integers(0, 256, (per_file, 3072))],
                                  axis=1).astype(np.uint8)
            rows.tofile(self.path(name))
            records.append(rows)
        return np.concatenate(records)

    def test_both_layouts(self):
        ten = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        rows = self.write_cifar(ten, 1, 10)
        self.write("batches.meta.txt", "\n".join(f"class-{k}" for k in range(10)) + "\n\n")
        samples, attributes = self.everything("cifar", self.path("."))
        self.assertEqual(attributes["classes"], 10)
        self.assertEqual(samples, self.sorted_by_label(rows[:, 1:], rows[:, 0]))
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["features"].shape, (24, 3, 32, 32))
            self.assertEqual(file["class_names"][3].decode(), "class-3")
        self.refuse(self.data_job("cifar", self.path("."), data__label_column="coarse_label"),
                    "no coarse labels")
        job = self.data_job("cifar", self.path("."), federation__clients=2)
        os.truncate(self.path("data_batch_3.bin"), 3073 * 4 - 1)
        self.refuse(job, "data_batch_3.bin", "no multiple of a record's 3073")
        rows[8:12, 0] = 10
        rows[8:12].tofile(self.path("data_batch_3.bin"))
        self.refuse(job, "data_batch_3.bin", "record 0", "label 10 of 10 classes")
        os.remove(self.path("data_batch_3.bin"))
        self.refuse(job, "data_batch_3.bin is not in the folder")
        rows = self.write_cifar(["train.bin", "test.bin"], 2, 20)
        self.refuse(job, "CIFAR-10 and of CIFAR-100", "a folder of its own")
        for name in ten:
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        for column, place, classes in [("label", 1, 100), ("coarse_label", 0, 20)]:
            samples, attributes = self.everything("cifar", self.path("."),
                                                  data__label_column=column)
            self.assertEqual(attributes["classes"], classes)
            self.assertEqual(samples, self.sorted_by_label(rows[:, 2:], rows[:, place]))
        process = self.hanse("convert", job, self.path("common.h5"), "--evaluate.test=common",
                             "--data.label-column=coarse_label")
        self.assertIn("8 samples", process.stdout())
        with h5py.File(self.path("common.h5")) as file:
            self.assertEqual(file.attrs["common_test"], 4)
            self.assertEqual(file["features"][-4:].tobytes(), rows[4:, 2:].tobytes())


    def test_other_versions_are_named(self):
        job = self.data_job("cifar", self.path("."))
        for name, *parts in [("cifar-10-batches-py", "for Python", "cifar-10-binary.tar.gz"),
                             ("cifar-100-binary", "data.path = ", "cifar-100-binary"),
                             ("train", "data.kind = images")]:
            os.mkdir(self.path(name))
            self.refuse(job, "data_batch_1.bin is not in the folder", *parts)
            os.rmdir(self.path(name))
        for name in ("data_batch_1", "train"):
            self.write(name, b"\x80\x02}q\x01")
            self.refuse(job, f"but {name}: that is the version for Python")
            process = self.hanse("convert", job, self.path("bad.h5"),
                                 "--data.label-column=coarse_label", expect=None)
            self.assert_one_error(process, 2, "train.bin is not in the folder", "for Python")
            os.remove(self.path(name))


class Npz(FilesCase):
    def arrays(self, **arrays):
        path = self.path("data.npz")
        (np.savez if self.stored else np.savez_compressed)(path, **arrays)
        return path

    def check(self, x, y, expected, encoding, labels, shape):
        samples, attributes = self.everything("npz", self.arrays(x=x, y=y))
        self.assertEqual(attributes["encoding"], encoding)
        self.assertEqual(samples, self.sorted_by_label(expected, np.array(labels)))
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["features"].shape[1:], shape)

    def test_types_and_shapes(self):
        n = 6
        labels = [1, 0, 2, 1, 1, 0]
        images = self.rng.integers(0, 256, (n, 5, 7, 3)).astype(np.uint8)
        numbers = self.rng.normal(size=(n, 4))
        self.stored = True
        self.check(images, np.array(labels), images.transpose(0, 3, 1, 2), b"byte/255", labels,
                   (3, 5, 7))
        self.check(images[:, :, :, 0], np.array(labels, np.uint8)[:, None], images[:, None, :, :, 0],
                   b"byte/255", labels, (1, 5, 7))
        self.stored = False
        self.check(numbers, np.array(["b", "a", "é", "b", "b", "a"]), numbers.astype(np.float32),
                   b"float", labels, (4,))
        whole = (numbers * 100).astype(np.int16)
        self.check(whole, np.array([5, -3, 7, 5, 5, -3]), whole.astype(np.float32), b"float",
                   labels, (4,))
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual([k.decode() for k in file["class_names"]], ["-3", "5", "7"])

    def test_clients_and_targets(self):
        self.stored = False
        x = np.arange(12, dtype=np.float64).reshape(6, 2)
        y = np.linspace(-1, 1, 6)
        for client, names, owners in [
                (np.array(["s", "n", "s", "x", "n", "n"]), ["n", "s", "x"], [1, 4, 5, 0, 2, 3]),
                (np.array([2, 0, 2, 1, 0, 0]), ["0", "1", "2"], [1, 4, 5, 3, 0, 2])]:
            job = self.data_job("npz", self.arrays(x=x, y=y, client=client, other=x),
                                data__task="regression", data__test_fraction=0,
                                federation__partition="by-column")
            self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
            with h5py.File(self.path("out.h5")) as file:
                self.assertEqual(list(file["targets"][:]), list(y[owners].astype(np.float32)))
                self.assertTrue(np.array_equal(file["features"][:], x[owners].astype(np.float32)))
                self.assertEqual([k.decode() for k in file["client_names"]], names)

    def names_of(self, y, client):
        """(names of the classes, their label of each sample in the order of the file, the same of
        clients) as the converted file has them."""
        self.stored = True
        n = len(y)
        job = self.data_job("npz", self.arrays(x=np.arange(n, dtype=np.float32)[:, None], y=y,
                                               client=client),
                            data__test_fraction=0, federation__partition="by-column")
        process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
        with h5py.File(self.path("out.h5")) as file:
            order = file["features"][:, 0].astype(int)
            labels, owners = np.empty(n, int), np.empty(n, int)
            labels[order] = file["labels"][:]
            owners[order] = np.repeat(np.arange(len(file["train_end"])),
                                      np.diff(file["offsets"][:]))
            texts = [[name.decode() for name in file[key][:]] if key in file
                     else [str(c) for c in range(count)]
                     for key, count in [("class_names", file.attrs["classes"]),
                                        ("client_names", owners.max() + 1)]]
        return texts[0], list(labels), texts[1], list(owners), process.stderr()

    def test_integers_of_every_type_keep_value_and_order(self):
        for dtype in ("u1", "<u2", ">u2", "<u4", ">u4", "<u8", ">u8", "i1", "<i2", ">i2", "<i4",
                      ">i4", "<i8", ">i8", "?", "<U9", ">U9", "S9"):
            if dtype == "?":
                values = [0, 1]
            elif dtype[-1] == "9":
                values = ["7", "10", "-3", "Zürich" if "U" in dtype else "Zurich"]
            else:
                kind = np.iinfo(dtype)
                values = [kind.max, kind.max - 1, kind.min, 7, 10]
            y = np.array([values[i % len(values)] for i in range(12)], dtype)
            distinct, numbers = np.unique(y, return_inverse=True)
            names = [v.decode() if isinstance(v, bytes) else str(v + 0 if dtype == "?" else v)
                     for v in distinct.tolist()]
            found = self.names_of(y, y)
            self.assertEqual(found[:4], (names, list(numbers), names, list(numbers)), dtype)

    def test_numbers_of_every_type(self):
        self.stored = False
        whole = self.rng.integers(0, 200, (6, 4))
        labels = [1, 0, 2, 1, 1, 0]
        for dtype in ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "?", ">i2", ">i4", ">i8", ">u8",
                      "i1", "<u2"):
            x = (whole / 7 if "f" in dtype else whole - 100 * ("i" in dtype)).astype(dtype)
            self.check(x, np.array(labels, ">i4"), x.astype(np.float32), b"float", labels, (4,))
        half = np.array([[0.0, -0.0, 6e-8, 65504.0, -1.5, 6.1e-5]], "<f2").repeat(6, axis=0)
        self.check(half, np.array(labels), half.astype(np.float32), b"float", labels, (6,))

    def hint_works(self, arrays, task, *parts):
        """The array is refused, and the line of Python in the hint makes one that is read."""
        self.stored = True
        job = self.data_job("npz", self.arrays(**arrays), data__task=task, federation__clients=1,
                            **{"data__test_fraction": 0})
        process = self.convert(job, "bad.h5", expect=None)
        self.assert_one_error(process, 2, *parts)
        name, line = re.search(r"array (\w+)\); hint: .*?save (.*)",
                               process.errors()[0]).groups()
        line = re.split(r", or |, the |, of rows", line)[0]
        arrays[name] = eval(line, {"numpy": np, **arrays})
        self.arrays(**arrays)
        self.hanse("convert", job, self.path("mended.h5"), "--run.overwrite=true")
        with h5py.File(self.path("mended.h5")) as file:
            return {key: file[key][:] for key in file}

    def test_hints_that_lead_to_a_file_that_is_read(self):
        x, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 1, 1, 0])
        days = np.array(["2024-03-01", "2024-02-01", "2024-02-01", "2024-03-01"], "M8[ns]")
        objects = np.array(["b", "a", "a", "b"], object)
        records = np.array([(1, 2.5), (0, 3), (0, 4), (1, 5)], [("a", "<i8"), ("b", "<f4")])
        for labels, part in [
                (days, "dates"), (days - days.min(), "spans of time"), (objects, "unpickled"),
                (records, "records"), (y + 1j, "complex"), (1.0 - y, "floating-point"),
                (np.eye(2)[1 - y], "one-hot"), (np.eye(2, dtype=bool)[1 - y], "one-hot"),
                (np.eye(2, dtype=int)[1 - y], "one-hot"), (y.astype(np.longdouble), "<f16")]:
            for name in ("y", "client"):
                if part == "one-hot" and name == "client":
                    continue
                arrays = {"x": x, "y": y, "client": y, name: labels}
                content = self.hint_works(arrays, "classification", f"array {name}", part)
                self.assertEqual(len(content["labels"]), 4)
        for values, part in [(days, "dates"), (days - days.min(), "spans of time"),
                             (y.astype(object), "unpickled"), (records, "records"),
                             (y + 1j, "complex"), (np.array(["1", "2", "3", "4"]), "texts"),
                             (np.array([1, np.nan, np.inf, 2]), "x[1] is nan"),
                             (np.asfortranarray(np.ones((4, 2))), "Fortran")]:
            if "nan" in part:
                continue
            content = self.hint_works({"x": values, "y": y}, "classification", "array x", part)
            self.assertEqual(len(content["features"]), 4)
        content = self.hint_works({"x": x, "y": days}, "regression", "array y", "dates")
        self.assertEqual(sorted(content["targets"]), [0, 0, 29 * 86400, 29 * 86400])

    def test_labels_that_are_missing_or_merged(self):
        self.stored = True
        x = np.zeros((4, 2), np.float32)
        job = self.data_job("npz", self.path("data.npz"))

        def refuse(*parts, **arrays):
            self.arrays(**{"x": x, "y": np.array([0, 1, 1, 0]), **arrays})
            self.refuse(job, "data.npz", *parts)
        for name in ("y", "client"):
            refuse(f"{name}[2] is nan: it is missing", f"keep = numpy.isfinite({name})",
                   **{name: np.array([0, 1, np.nan, 0])})
            refuse(f"{name}[1] is 9.0072e+15", "float64 does not hold every whole number",
                   **{name: np.array([0, 2.0**53, 1, 0])})
            refuse(f"{name}[1] is 1.67772e+07", "float32 does not hold",
                   **{name: np.array([0, 2**24, 1, 0], np.float32)})
            refuse(f"the text {name}[1] is not UTF-8", "numpy.char.decode",
                   **{name: np.array([b"a", b"Z\xfcrich", b"a", b"b"])})
            for missing in ("nan", "NaT", "<NA>"):
                refuse(f"{name}[1] is the text {missing}: it is missing",
                       f"keep = {name} != '{missing}'",
                       **{name: np.array(["a", missing, "b", "a"])})
            refuse("its shape is ()", **{name: np.array(1)})
            refuse("its shape is (0,)", **{name: np.zeros(0, int)})
        self.arrays(x=x, y=np.array(["a", "None", "None", "b"]))
        process = self.hanse("convert", job, self.path("out.h5"), "--federation.clients=1")
        self.assertIn("warning: None is the text of 2 values", process.stderr())
        os.remove(self.path("out.h5"))
        refuse("y[3] is 0.5", "data.task = regression", y=np.array([0, 1, np.nan, 0.5]))
        refuse("x is one number", x=np.array(1.0))
        refuse("x[2, 0] is inf", x=np.array([[0], [1], [np.inf], [np.nan]]))
        refuse("x[3, 0, 1] is 1e+300", "divide", x=np.array([[[0, 0]]] * 3 + [[[0, 1e300]]]))

    def test_arrays_that_stand_twice_or_are_not_read(self):
        self.stored = True
        x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 1, 0])
        job = self.data_job("npz", self.arrays(x=x, y=y, weights=x, client_ids=y),
                            federation__clients=2)
        process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
        self.assertIn("not read: array weights, array client_ids", process.stderr())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile tells of the name
            with zipfile.ZipFile(self.path("data.npz"), "a") as archive:
                archive.writestr("y.npy", archive.read("y.npy"))
        self.refuse(job, "the array y stands in the file more than once")

    def test_numbers_that_float32_does_not_hold(self):
        self.stored = True
        y = np.arange(40) % 2
        times = 1700000000 + np.arange(40)
        text = "x[:, 1]: 39 of 40 numbers are not exact in float32, 40 different ones become 1 ("
        for dtype in ("<i4", "<i8", ">i8", "<u4", "<u8", "<f8"):
            x = np.stack([np.arange(40), times], axis=1).astype(dtype)
            job = self.data_job("npz", self.arrays(x=x, y=y), federation__clients=2)
            process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
            self.assertEqual(process.stderr().count("warning"), 1, process.describe())
            self.assertIn("hanse: warning: " + text, process.stderr())
            self.arrays(x=x - x.min(axis=0), y=y)  # the hint
            process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
            self.assertNotIn("warning", process.stderr())
        self.arrays(x=np.arange(40.0) / 10, y=times.astype(float))
        process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true",
                             "--data.task=regression")
        self.assertIn("y: 39 of 40 numbers", process.stderr())
        large = np.array([2**53 + 1, 2**53, 2**62 + 1, 2**24 + 1])
        self.arrays(x=np.stack([large] * 10).reshape(40).astype("<u8"), y=y)
        process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
        self.assertIn("x: 30 of 40 numbers", process.stderr())
        for powers in (np.array([-2**63, 2**62] * 20), np.array([2**63, 2**53] * 20, "u8")):
            self.arrays(x=powers, y=y)
            process = self.hanse("convert", job, self.path("out.h5"), "--run.overwrite=true")
            self.assertNotIn("warning", process.stderr())

    def test_bad_arrays(self):
        self.stored = True
        x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 1, 0])
        job = self.data_job("npz", self.path("data.npz"))

        def refuse(*parts, **arrays):
            self.arrays(**{"x": x, "y": y, **arrays})
            self.refuse(job, "data.npz", *parts)
        objects = np.empty(4, object)
        for i in range(4):
            objects[i] = {"never": i}
        refuse("array y", "never unpickled", y=objects)
        refuse("array x", "records", "numpy.array(x.tolist())",
               x=np.zeros(4, [("a", "f4")]))
        refuse("array x", "Fortran", "numpy.ascontiguousarray(x)",
               x=np.asfortranarray(np.ones((4, 2), np.float32)))
        refuse("array x", "<f16", "x.astype('float32')", x=x.astype(np.longdouble))
        refuse("array x", "holds texts", x=np.array(["a"] * 4))
        refuse("array x", "x[0, 1] is nan, not finite", x=np.array([[1, np.nan]] * 4))
        refuse("array y", "(3)", "x has 4 samples", y=y[:3])
        refuse("array y", "floating-point", y=y.astype(float))
        refuse("array client", "client[0] is an empty text", client=np.array(["", "a", "b", "c"]))
        refuse("array x", "shape", x=np.zeros((4, 0)))
        np.savez(self.path("data.npz"), a=x, y=y)
        self.refuse(job, "no array x; it has: a, y")
        self.write("data.npz", "no archive")
        self.refuse(job, "no zip file")
        for stored in (True, False):
            self.stored = stored
            self.arrays(x=np.arange(4000.0).reshape(4, 1000), y=y)
            with open(self.path("data.npz"), "rb") as file:
                good = file.read()
            for at in (700, len(good) // 2):
                damaged = bytearray(good)
                damaged[at] ^= 8
                self.write("data.npz", bytes(damaged))
                self.refuse(job, "data.npz")


if __name__ == "__main__":
    harness.main()
