"""Clients of clusters: copies of tensors, who takes which, and what stands still."""

import json
import math
import os
import random
import struct

import harness
import test_bad_input

MLP = {"model.kind": "mlp", "model.hidden": 7, "federation.partition": "dirichlet",
       "federation.alpha": 0.3, "client.clustered": "*", "federation.models": 3}
SITES = {"data.kind": "csv", "data.client-column": "site", "data.test-fraction": 0.25,
         "federation.partition": "by-column", "federation.clients": None, "sampler.kind": "full",
         "aggregator.weights": "uniform", "client.batch": 0, "client.lr": 0.5,
         "run.state-dict": "safetensors"}
JOBS = {
    "whole": {**MLP, "evaluate.every": 2, "aggregator.loss": "batches(1)", "server.optimizer": "momentum"},
    "head": {**MLP, "client.clustered": "fc2.*", "client.momentum": 0.5, "aggregator.kind": "term",
             "federation.held-out": 3, "evaluate.tune-steps": 2},
    "labels": {**MLP, "client.cluster-by": "labels", "server.optimizer": "adam", "server.lr": 0.02},
    "file": {**MLP, "client.cluster-by": "file", "server.optimizer": "adam", "server.lr": 0.02},
    "personal": {**MLP, "client.clustered": "fc1.*", "client.personal": "fc2.bias",
                 "client.phases": "personal 1, clustered 1, shared 1",
                 "client.update": "prox", "client.mu": 0.3},
}


def tensors(run):
    with open(os.path.join(run, "model.safetensors"), "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header, values = json.loads(file.read(size)), file.read()
    return {name: values[slice(*entry["data_offsets"])] for name, entry in header.items()
            if name != "__metadata__"}


def numbers(values):
    return struct.unpack(f"{len(values) // 4}f", values)


def copy_of(row, copy):
    """The tensors of one model."""
    prefix = f"cluster{copy}."
    return {name: row.get(prefix + name, values) for name, values in row.items()
            if not name.startswith("cluster")}


def turned(groups, clients, samples, seed, names=None):
    """Lines of a table: two classes, apart by a line that is turned by group / groups of a circle."""
    draws, lines = random.Random(seed), ["label,site,a,b"]
    for client in range(clients):
        angle = 2 * math.pi * (client % groups) / groups
        for _ in range(samples):
            a, b = draws.uniform(-1, 1), draws.uniform(-1, 1)
            label = int(a * math.cos(angle) + b * math.sin(angle) > 0)
            lines.append(f"{label},{names[client] if names else f'c{client:02}'},{a:.4f},{b:.4f}")
    return "\n".join(lines) + "\n"


def purity(clusters, groups):
    """Share of clients that are in the most frequent group of their cluster."""
    most = 0
    for cluster in set(clusters):
        members = [client % groups for client, own in enumerate(clusters) if own == cluster]
        most += max(members.count(group) for group in set(members))
    return most / len(clusters)


class SameBits(harness.Case):
    """On one to four ranks, and from the half of the run on."""

    def check(self, name, **more):
        job = {"run.rounds": 6, **JOBS[name], **more}
        alone, run = self.compare_places(job)
        self.assertEqual(harness.text(run, "clients.csv"), harness.text(alone, "clients.csv"))
        last = [harness.text(one, "evaluations.csv").splitlines()[-1] for one in (run, alone)]
        self.assertEqual(*last)
        for copy in range(job["federation.models"]):
            self.assertEqual(harness.column(run, "rounds.csv", f"cluster_{copy}"),
                             harness.column(alone, "rounds.csv", f"cluster_{copy}"))
        self.assertGreater(harness.summary(alone)["metrics"]["clusters_used"], 1)

    def test_whole_models(self):
        self.check("whole")

    def test_heads(self):
        self.check("head")

    def test_clusters_by_labels(self):
        self.check("labels")

    def test_clusters_of_a_file(self):
        path = self.write("clusters.csv", "client,cluster\n" + "".join(
            f"{client},{client * 7 % 5 % 3}\n" for client in range(23)))
        self.check("file", **{"federation.clusters-path": path})

    def test_personal_tensors_beside_them(self):
        self.check("personal")


class Sums(harness.Case):
    """What the copies of a run are, against runs of one model."""

    def sites(self, name, count=8, **more):
        path = self.write(name, turned(2, count, 12, 3))
        return {**SITES, "data.path": path, "model.kind": "mlp", "model.hidden": 4,
                "run.rounds": 5, **more}

    def clusters(self, name, copies):
        return self.write(name, "client,cluster\n" + "".join(
            f"c{client:02},{copy}\n" for client, copy in enumerate(copies)))

    def test_one_copy_is_plain(self):
        job = self.job({**MLP, "federation.models": 1, "client.clustered": None})
        plain = self.train(job, "plain")
        one = self.hanse("run", job, f"--run.out={self.path('one')}", "--client.clustered=*")
        self.assertIn("federation.models = 1", one.stderr())
        self.assert_digest(self.path("one"), plain)
        self.assertEqual(harness.text(self.path("one"), "clients.csv"),
                         harness.text(plain, "clients.csv"))

    def test_a_copy_that_all_take_is_plain(self):
        changes = self.sites("sites.csv")
        job = self.job(changes)
        plain = self.train(job, "plain")
        path = self.clusters("all.csv", [0] * 8)
        for patterns in ("*", "fc2.*"):
            run = self.train(job, f"all-{patterns[0]}", 2, {
                "client.clustered": patterns, "federation.models": 2, "client.cluster-by": "file",
                "federation.clusters-path": path})
            self.assertEqual(copy_of(tensors(run), 0), tensors(plain), patterns)

    def test_copies_are_runs_of_their_clients(self):
        changes = self.sites("sites.csv", **{"server.optimizer": "adam", "server.lr": 0.05})
        job = self.job(changes)
        start = os.path.join(self.train(job, "start", changes={"client.lr": 1e-30,
                                                               "server.lr": 1e-30}), "model.h5")
        members = [0, 1, 1, 0, 1, 0, 0, 1]
        both = self.train(job, "both", 3, {
            "client.clustered": "*", "federation.models": 2, "client.cluster-by": "file",
            "federation.clusters-path": self.clusters("two.csv", members), "model.start": start})
        self.assertNotEqual(copy_of(tensors(both), 0), copy_of(tensors(both), 1))
        for copy in (0, 1):
            there = self.write(f"there-{copy}", "".join(
                f"{client},{1 if own == copy else 98},99\n" for client, own in enumerate(members)))
            own = self.train(job, f"own-{copy}", changes={"sampler.availability": there,
                                                          "model.start": start})
            self.assertEqual(copy_of(tensors(both), copy), tensors(own), copy)
        self.assertEqual(harness.column(both, "clients.csv", "cluster"), [str(m) for m in members])
        self.assertEqual(harness.column(both, "rounds.csv", "cluster_1"), ["4"] * 5)

    def test_a_copy_that_nobody_takes_stands_still(self):
        members = [client % 3 for client in range(8)]
        changes = self.sites("sites.csv", **{
            "sampler.kind": "uniform", "sampler.per-round": 1, "client.clustered": "fc2.*",
            "federation.models": 3, "client.cluster-by": "file",
            "federation.clusters-path": self.clusters("three.csv", members)})
        for optimizer in ("momentum", "adam"):
            job = self.job({**changes, "server.optimizer": optimizer})
            runs = harness.together([
                lambda n=n: self.train(job, f"{optimizer}-{n}", changes={"run.rounds": n})
                for n in range(1, 8)])
            moved = []
            for number, (before, after) in enumerate(zip(runs, runs[1:]), 2):
                (drawn,) = [int(row["client"]) for row in harness.table(after, "participation.csv")
                            if row["round"] == str(number)]
                earlier, later = tensors(before), tensors(after)
                for copy in range(3):
                    name = "fc2.weight" if copy == 0 else f"cluster{copy}.fc2.weight"
                    self.assertEqual(earlier[name] != later[name], copy == members[drawn],
                                     (optimizer, number, copy))
                self.assertNotEqual(earlier["fc1.weight"], later["fc1.weight"])
                moved.append(members[drawn])
            self.assertGreater(len(set(moved)), 1)


class Choice(harness.Case):
    """Who takes which copy."""

    def table(self, **more):
        path = self.write("turned.csv", turned(4, 12, 20, 11))
        return {**SITES, "data.path": path, "data.test-fraction": 0, "model.kind": "linear",
                "client.clustered": "*", "federation.models": 4, "client.batch": 5, **more}

    def losses(self, run, rows):
        """Mean cross-entropy of each copy on these samples."""
        found = []
        for copy in range(4):
            own = {name: numbers(values) for name, values in copy_of(tensors(run), copy).items()}
            weight, bias = own["fc1.weight"], own["fc1.bias"]
            total = 0
            for label, a, b in rows:
                z = [weight[2 * k] * a + weight[2 * k + 1] * b + bias[k] for k in (0, 1)]
                total += math.log(sum(math.exp(x - z[label]) for x in z))
            found.append(total / len(rows))
        return found

    def test_is_the_one_of_the_least_loss(self):
        job = self.job(self.table(**{"run.seed": 2}))
        samples = {}
        for line in harness.text(self.folder, "turned.csv").splitlines()[1:]:
            label, site, a, b = line.split(",")
            samples.setdefault(site, []).append((int(label), float(a), float(b)))
        different = set()
        for rounds in (1, 3):
            before = self.train(job, f"before-{rounds}", changes={"run.rounds": rounds})
            after = self.train(job, f"after-{rounds}", 2, {"run.rounds": rounds + 1})
            for row in harness.table(after, "clients.csv"):
                losses = self.losses(before, samples[row["name"]])
                self.assertEqual(int(row["cluster"]), losses.index(min(losses)), losses)
                different.add(row["cluster"])
        self.assertGreater(len(different), 2)

    def test_equal_copies_are_drawn(self):
        job = self.job(self.table(**{"run.rounds": 1, "model.init": "zeros"}))
        run = self.train(job, "run", 2)
        drawn = harness.column(run, "clients.csv", "cluster")
        self.assertGreater(len(set(drawn)), 2)
        other = self.train(job, "other", changes={"client.seed": 77})
        self.assertNotEqual(harness.column(other, "clients.csv", "cluster"), drawn)
        # In every round anew, while nothing tells them apart.
        still = self.train(job, "still", changes={"run.rounds": 2, "client.lr": 1e-30})
        self.assertNotEqual(harness.column(still, "clients.csv", "cluster"), drawn)

    def test_ifca_finds_the_groups(self):
        job = self.job(self.table(**{"run.rounds": 15, "run.seed": 4, "data.test-fraction": 0.3}))
        run, plain = self.train(job, "run"), self.train(job, "plain", changes={
            "client.clustered": "", "federation.models": 1})
        clusters = [int(c) for c in harness.column(run, "clients.csv", "cluster")]
        self.assertEqual(purity(clusters, 4), 1)
        self.assertEqual(harness.summary(run)["metrics"]["clusters_used"], 4)
        found, shared = (harness.summary(r)["metrics"]["accuracy_mean"] for r in (run, plain))
        self.assertGreater(found, 0.9)
        self.assertLess(shared, 0.7)
        rows = harness.table(run, "clients.csv")
        means = []
        for cluster in set(clusters):
            own = [float(row["accuracy"]) for row in rows if row["cluster"] == str(cluster)]
            means.append(sum(own) / len(own))
        last = harness.column(run, "evaluations.csv", "cluster_accuracy_worst")[-1]
        self.assertAlmostEqual(float(last), min(means), places=9)

    def test_clusters_of_labels(self):
        # However many samples a client has.
        shares = [(9, 1), (1, 9), (8, 2), (5, 5), (2, 8), (45, 5), (5, 5)]
        lines = ["label,site,a"] + [
            f"{label},c{client},{label + 0.1 * i}" for client, both in enumerate(shares)
            for label, count in enumerate(both) for i in range(count)]
        path = self.write("labels.csv", "\n".join(lines) + "\n")
        job = self.job({**SITES, "data.path": path, "data.test-fraction": 0, "run.rounds": 1,
                        "client.clustered": "*", "federation.models": 3,
                        "client.cluster-by": "labels"})
        for ranks in (1, 3):
            run = self.train(job, f"run-{ranks}", ranks)
            self.assertEqual(harness.column(run, "clients.csv", "cluster"), list("0102102"))

    def test_own_models_have_the_copy_of_the_client(self):
        """Its evaluation is that of `hanse predict` with the copy."""
        job = self.job(self.table(**{"run.rounds": 6, "run.seed": 4}))
        run = self.train(job, "run")
        rows = harness.table(run, "clients.csv")
        lines = harness.text(self.folder, "turned.csv").splitlines()
        for client in (0, 1, 2):
            name = rows[client]["name"]
            own = [line for line in lines[1:] if line.split(",")[1] == name]
            new = self.write("new.csv", "\n".join([lines[0], *own]) + "\n")
            by_name = self.hanse("predict", run, new, f"--client={name}").stdout()
            by_copy = self.hanse("predict", run, new,
                                 f"--cluster={rows[client]['cluster']}").stdout()
            self.assertEqual(by_name, by_copy)
            labels = [int(line[0]) for line in own]
            header = by_name.splitlines()[0].split(",")
            scores = [float(line.split(",")[header.index("p_1")])
                      for line in by_name.splitlines()[1:]]
            right = sum((p > 0.5) == bool(label) for p, label in zip(scores, labels))
            self.assertAlmostEqual(right / len(labels), float(rows[client]["accuracy"]), places=9)
        self.assertNotEqual(self.hanse("predict", run, new, "--cluster=1").stdout(),
                            self.hanse("predict", run, new, "--cluster=2").stdout())
        self.assert_one_error(self.hanse("predict", run, new, "--cluster=4", expect=None), 2,
                              "--cluster", "0 to 3")


class Files(harness.Case):
    def test_starts(self):
        """A file of one model starts all copies, one of the run each its own."""
        still = {"run.rounds": 1, "client.lr": 1e-30, "run.state-dict": "safetensors"}
        narrow = self.train(self.job({**MLP, "federation.models": 1}), "narrow",
                            changes={"run.state-dict": "safetensors"})
        job = self.job({**MLP, **still}, name="still.cfg")
        run = self.train(job, "equal", changes={"model.start": os.path.join(narrow, "model.h5")})
        for copy in range(3):
            self.assertEqual(copy_of(tensors(run), copy), tensors(narrow))
        wide = self.train(self.job(MLP), "wide", changes={"run.state-dict": "safetensors"})
        again = self.train(job, "again", 2, {"model.start": os.path.join(wide, "model.safetensors")})
        self.assertEqual(tensors(again), tensors(wide))
        self.assertIn("cluster2.fc1.weight",
                      self.hanse("inspect", os.path.join(wide, "model.h5")).stdout())

    def test_first_lines(self):
        def lines(**changes):
            process = self.hanse("run", self.job({**MLP, "run.rounds": 1, **changes}),
                                 f"--run.out={self.path(str(len(os.listdir(self.folder))))}")
            return process.stderr()
        said = lines()
        self.assertIn("3 copies of 495 of the 495 parameters", said)
        self.assertIn("that of its least loss (client.cluster-by = loss)", said)
        self.assertIn("with the copy that it took last", said)
        self.assertIn("copy 0", lines(**{"evaluate.view": "global"}))
        self.assertIn("by shares of labels", lines(**{"client.cluster-by": "labels"}))

    def test_bytes(self):
        """Down 4 (S + k Q) by loss, else 4 (S + Q); up 4 (S + Q)."""
        shared, copied = 64 * 7 + 7, 7 * 5 + 5
        job = self.job({**MLP, "client.clustered": "fc2.*", "run.rounds": 2})
        run = self.train(job, "run")
        self.assertEqual(set(harness.column(run, "rounds.csv", "bytes_updates")),
                         {str(5 * 4 * (shared + copied))})
        for by, copies in (("loss", 3), ("labels", 1)):
            plan = json.loads(self.hanse("plan", job, "--json",
                                         f"--client.cluster-by={by}").stdout())
            self.assertEqual(plan["received_bytes"], 4 * (shared + copies * copied), by)
            self.assertEqual(plan["update_bytes"], 4 * (shared + copied), by)


class BadInput(test_bad_input.BadInput):
    def test_copies(self):
        self.refuse("client.clustered", "no tensors are named",
                    changes={**MLP, "client.clustered": None})
        self.refuse("client.clustered", "'head.*'", "fc1.weight",
                    changes={**MLP, "client.clustered": "fc1.*,head.*"})
        self.refuse("federation.models", "23 clients", changes={**MLP, "federation.models": 24})
        self.refuse("client.clustered", "stay with the client",
                    changes={**MLP, "client.personal": "fc2.*"})

    def test_files(self):
        self.refuse("client.cluster-by", "no copies", changes={"client.cluster-by": "labels"})
        by_file = {**MLP, "client.cluster-by": "file"}
        self.refuse("federation.clusters-path", changes=by_file)
        self.refuse("federation.clusters-path", "alone",
                    changes={**MLP, "federation.clusters-path": "x"})
        rows = [f"{client},0" for client in range(23)]
        for name, lines, words in (
                ("headless", rows, "header"), ("few", ["client,cluster", *rows[1:]], "client 0"),
                ("twice", ["client,cluster", *rows, "4,1"], "second line"),
                ("beyond", ["client,cluster", *rows[1:], "0,3"], "cluster 3"),
                ("half", ["client,cluster", *rows[1:], "0,0.5"], "0.5"),
                ("stranger", ["client,cluster", *rows, "23,1"], "23")):
            path = self.write(name, "\n".join(lines) + "\n")
            self.refuse(name, words, changes={**by_file, "federation.clusters-path": path})

    def test_labels(self):
        self.refuse("federation.models", "shares of labels", changes={
            **MLP, "client.cluster-by": "labels", "federation.partition": "iid",
            "data.classes": 2, "federation.samples": 1})

    def test_what_looks_at_whole_rows(self):
        for key, changes in {
                "aggregator.kind": {"aggregator.kind": "krum"},
                "client.update": {"client.update": "scaffold"},
                "client.train": {"client.train": "fc1.*"},
                "client.lora": {"client.lora": 2},
                "server.extrapolate": {"server.extrapolate": "true"},
                "privacy.kind": {"privacy.kind": "central", "privacy.noise": 1},
                "comm.compress": {"comm.compress": "top-k"},
                "sampler.kind": {"sampler.kind": "power-of-choice"},
                "async.kind": {"clock.kind": "virtual", "async.kind": "fedbuff"},
                "client.worker-momentum": {"client.worker-momentum": 0.5},
                "run.round-seconds": {"run.round-seconds": 5},
        }.items():
            self.refuse(key, changes={**MLP, **changes})


if __name__ == "__main__":
    harness.main()
