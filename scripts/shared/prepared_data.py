"""Makes what a job reads of data as they are fetched: `prepare` of a table in scripts/reproductions.

Each function takes what --data names (a file or folder; None where the table needs none), a folder
to write in and the table's [data]; it returns the options that name the result. It writes anew only
where a source is newer.
"""
import collections
import csv
import datetime
import gzip
import math
import os
import pathlib
import re
import subprocess
import tarfile
import zipfile

from hanse.files import replacing
from hanse.program import Failed, Refused, ask

from shared import r_data


def made(result, sources, write):
    """Calls write(path), whose result takes the place of `result`, unless that is newer than all
    sources."""
    missing = [source for source in sources if not source.is_file()]
    if missing:
        raise Refused(f"{missing[0]} is missing; hint: scripts/fetch-data says where it is found")
    newest = max(source.stat().st_mtime_ns for source in sources)
    if result.exists() and result.stat().st_mtime_ns > newest:
        return result
    result.parent.mkdir(parents=True, exist_ok=True)
    with replacing(result) as temporary:
        write(temporary)
    return result


def write_csv(path, head, lines):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *lines])


def columns(raw, out, data):
    """Makes a CSV with a header from lines with `features` numbers and a label, which `labels` may
    rename."""
    features, labels = data["features"], data.get("labels", {})

    def write(path):
        lines = []
        for number, line in enumerate(raw.read_text(errors="replace").split("\n"), 1):
            fields = re.split(r"[,\s]+", line.strip())
            if fields == [""]:
                continue
            if len(fields) != features + 1:
                raise Refused(f"{raw}:{number}: {len(fields)} fields, not {features + 1}; hint: is "
                              "it the right file?")
            lines.append([*fields[:-1], labels.get(fields[-1], fields[-1])])
        write_csv(path, [*(f"f{i}" for i in range(features)), "label"], lines)

    return {"data.path": made(out / "data.csv", [raw], write)}


def asc_lines(path):
    """A dictionary for each line of a table of the Berka data."""
    with open(path, newline="", encoding="latin-1") as file:
        return list(csv.DictReader(file, delimiter=";"))


def sums_by_account(path, columns):
    """account_id: [lines, the sum of each column] of a table with many lines an account."""
    sums = collections.defaultdict(lambda: [0.0] * (1 + len(columns)))
    for line in asc_lines(path):
        own = sums[line["account_id"]]
        own[0] += 1
        for i, column in enumerate(columns, 1):
            own[i] += float(line[column] or 0)
    return sums


def movements_of_tables(folder):
    """Each account's mean order, number of transactions, their mean amount and balance."""
    orders = sums_by_account(folder / "order.asc", ["amount"])
    moves = sums_by_account(folder / "trans.asc", ["amount", "balance"])
    return {account: [orders[account][1] / orders[account][0], count, amount / count,
                      balance / count]
            for account, (count, amount, balance) in moves.items() if account in orders}


def movements_of_package(path, loans):
    """As movements_of_tables, from data.berka of R's package ldt, whose rows are loan.asc's. It
    has no balance: in its place is the mean of amount / balance."""
    x = r_data.read(path)["data.berka"]["x"]
    if len(x["trans_num"]) != len(loans):
        raise Refused(f"{path}: {len(x['trans_num'])} loans, not loan.asc's {len(loans)}; hint: "
                      "fetch both again")
    return {loan["account_id"]: [math.exp(order) / orders, count, math.exp(amount), ratio]
            for loan, order, orders, count, amount, ratio in zip(
                loans, x["ln(order_sum_amount)"], x["order_num"], x["trans_num"],
                x["ln(trans_amount_mean)"], x["trans_amount_div_balance"])}


def berka(folder, out, _):
    """The 15 features of AAggFF's authors and `region`, the client; label 1: B or D, not paid. Their
    means of unemployment and crime over two years are 1996's, since 1995's have a '?'. North Bohemia,
    with one loan that is not paid, is left out. Orders and transactions come from order.asc and
    trans.asc, else from data.berka.rda, where `balance` is the mean of amount / balance."""
    tables = [folder / f"{name}.asc" for name in ("loan", "account", "district")]
    package = folder / "data.berka.rda"
    from_package = not (folder / "trans.asc").is_file() and package.is_file()
    sources = [package] if from_package else [folder / "order.asc", folder / "trans.asc"]

    def days(text):
        return datetime.datetime.strptime(text, "%y%m%d").toordinal()

    def write(path):
        loans, accounts, districts = map(asc_lines, tables)
        accounts = {line["account_id"]: line for line in accounts}
        districts = {line["A1"]: line for line in districts}
        movements = movements_of_package(package, loans) if from_package else movements_of_tables(
            folder)
        lines = []
        for loan in loans:
            account = accounts[loan["account_id"]]
            district = districts[account["district_id"]]
            if district["A3"] == "north Bohemia":
                continue
            lines.append([
                district["A3"], loan["amount"], loan["duration"], loan["payments"],
                days(loan["date"]) - days(account["date"]),
                *(district[f"A{i}"] for i in (4, 11, 14, 13, 16)), *movements[loan["account_id"]],
                int(account["frequency"] == "POPLATEK TYDNE"),
                int(account["frequency"] == "POPLATEK PO OBRATU"), int(loan["status"] in "BD")])
        write_csv(path, BERKA_HEAD, lines)

    return {"data.path": made(out / "berka.csv", [*tables, *sources], write)}


BERKA_HEAD = ["region", "amount", "duration", "payments", "days_of_account", "inhabitants", "salary",
              "entrepreneurs", "unemployment", "crimes", "order_amount", "transactions",
              "transaction_amount", "balance", "weekly", "after_transaction", "label"]


def kmnist(folder, out, _):
    """Makes one file with x and y of the 10,000 test images, whose NPZ files kmnist-test-imgs and
    -labels have one array each."""
    parts = {"x": folder / "kmnist-test-imgs.npz", "y": folder / "kmnist-test-labels.npz"}

    def write(path):
        with zipfile.ZipFile(path, "w") as whole:
            for name, part in parts.items():
                with zipfile.ZipFile(part) as source:
                    whole.writestr(f"{name}.npy", source.read("arr_0.npy"))

    return {"data.path": made(out / "kmnist-test.npz", list(parts.values()), write)}


def turned_digits(folder, out, data):
    """An NPZ file of MNIST's training images among `clients`, in as many groups as there are `turns`:
    those of group g are turned by `turns`[g] quarters of a circle. Each client has `samples` images of
    its own; it is called by its group, turn1-017."""
    import numpy

    def array(name, offset):
        for path, opened in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
            if path.is_file():
                with opened(path, "rb") as file:
                    return numpy.frombuffer(file.read(), numpy.uint8, offset=offset)
        raise Refused(f"{folder / name} is missing; hint: scripts/fetch-data says where it is found")

    clients, samples, turns = data["clients"], data["samples"], data["turns"]

    def write(path):
        images = array("train-images-idx3-ubyte", 16).reshape(-1, 28, 28)
        labels = array("train-labels-idx1-ubyte", 8)
        if clients * samples > len(labels):
            raise Refused(f"{clients} clients of {samples} images are more than {len(labels)}")
        names, x = [], images[:clients * samples].copy()
        for client in range(clients):
            group = client * len(turns) // clients
            own = slice(client * samples, (client + 1) * samples)
            x[own] = numpy.rot90(x[own], turns[group], axes=(1, 2))
            names += [f"turn{group}-{client:03}"] * samples
        with open(path, "wb") as file:
            numpy.savez_compressed(file, x=x, y=labels[:len(x)], client=numpy.array(names))

    source = folder / "train-images-idx3-ubyte"
    source = source if source.is_file() else source.with_name(source.name + ".gz")
    return {"data.path": made(out / "turned-digits.npz", [source], write)}


def pictures(folder, out, data):
    """The folder if it has train/; else unpacks train/ and test/ of its `archive`."""
    if (folder / "train").is_dir():
        return {"data.path": folder}
    archive = folder / data["archive"]

    def write(path):
        with tarfile.open(archive) as source:
            source.extractall(path, (one for one in source if one.isreg() and ".." not in one.name
                                     and one.name.startswith(("train/", "test/"))))

    return {"data.path": made(out / "pictures", [archive], write)}


def visible(folder, paths):
    """Those of a folder's `paths` that are neither hidden nor in a hidden folder, by bytes."""
    return sorted((path for path in paths
                   if not any(part.startswith(".") for part in path.relative_to(folder).parts)),
                  key=os.fsencode)


def cifar_records(folder, part, classes):
    """A label and 3072 bytes, the channels one after another, for each picture."""
    import numpy
    from PIL import Image

    for label, name in enumerate(classes):
        files = (path for path in (folder / part / name).rglob("*")
                 if path.suffix in (".png", ".jpg", ".jpeg"))
        for path in visible(folder, files):
            with Image.open(path) as image:
                pixels = numpy.asarray(image.convert("RGB"))
            if pixels.shape != (32, 32, 3):
                raise Refused(f"{path} is not of 32 x 32 pixels; hint: is it CIFAR-10?")
            yield bytes([label]) + pixels.transpose(2, 0, 1).tobytes()


def cifar(folder, out, _):
    """CIFAR-10's binary files: the folder's own, or made of pictures in train/CLASS and test/CLASS, in
    the order in which data.kind = images reads these."""
    if (folder / "data_batch_1.bin").is_file():
        return {"data.path": folder}
    result = out / "cifar"
    if (result / "batches.meta.txt").is_file():
        return {"data.path": result}
    if not (folder / "train").is_dir():
        raise Refused(f"{folder} has neither data_batch_1.bin nor train; hint: scripts/fetch-data "
                      "says where CIFAR-10 is found")
    folders = (path for path in (folder / "train").iterdir() if path.is_dir())
    classes = [path.name for path in visible(folder, folders)]
    result.mkdir(parents=True, exist_ok=True)
    train = list(cifar_records(folder, "train", classes))
    for i in range(5):  # as many files as the original has
        (result / f"data_batch_{i + 1}.bin").write_bytes(
            b"".join(train[len(train) * i // 5:len(train) * (i + 1) // 5]))
    (result / "test_batch.bin").write_bytes(b"".join(cifar_records(folder, "test", classes)))
    (result / "batches.meta.txt").write_text("".join(f"{name}\n" for name in classes))
    return {"data.path": result}


def network(folder, out, data):
    """The network that scripts/export-model writes with the words `export`, beside the data."""
    file = out / "network.graph"
    if not file.is_file():
        out.mkdir(parents=True, exist_ok=True)
        script = pathlib.Path(__file__).resolve().parents[1] / "export-model"
        said = subprocess.run([script, *data["export"][:1], file, *data["export"][1:]],
                              capture_output=True, text=True, check=False)
        if said.returncode:
            raise Refused(said.stderr.strip())
    return {"model.path": file, **({"data.path": folder} if folder else {})}


def halves_of_roles(text):
    """Two texts: the paragraphs of every second role, and those of the others. Roles go by the length
    of what they say, the longest first, and then by name."""
    said = collections.defaultdict(list)
    for paragraph in text.strip().split("\n\n"):
        role, colon, _ = paragraph.partition(":\n")
        if colon:
            said[role].append(paragraph)
    roles = sorted(said, key=lambda role: (-sum(map(len, said[role])), role))
    return ["\n\n".join(paragraph for role in roles[first::2] for paragraph in said[role]) + "\n"
            for first in (0, 1)]


def pretrained(file, out, data):
    """The second half of a text's roles, and a model that the job of `pretrain` has made of the first
    half."""
    halves = [made(out / name, [file],
                   lambda path, i=i: path.write_text(halves_of_roles(file.read_text())[i]))
              for i, name in enumerate(["pretraining.txt", "tuning.txt"])]
    run = out / "pretrained"
    if not (run / "model.h5").is_file():
        job = pathlib.Path(__file__).resolve().parents[2] / data["pretrain"]["job"]
        options = [f"--{key}={value}" for key, value in data["pretrain"]["set"].items()]
        try:
            ask("run", job, *options, f"--data.path={halves[0]}", f"--run.out={run}")
        except Failed as failed:
            raise Refused(str(failed)) from failed
    return {"data.path": halves[1], "model.start": run / "model.h5"}


PREPARED = {"berka": berka, "cifar": cifar, "columns": columns, "kmnist": kmnist, "network": network,
            "pictures": pictures, "pretrained": pretrained, "turned-digits": turned_digits}
