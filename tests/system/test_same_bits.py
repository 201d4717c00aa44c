"""The trained model has the same bits wherever its clients were trained."""

import os

import h5py
import numpy as np

import harness

MODELS = {
    "linear": {
        "federation.partition": "dirichlet",
        "federation.alpha": 0.3,
        "server.optimizer": "momentum",
        "server.lr": 0.7,
    },
    "mlp": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "federation.partition": "power-law",
        "sampler.kind": "weighted",
        "aggregator.estimator": "unbiased",
        "client.momentum": 0.5,
        "client.clip": 1,
        "client.lr-decay": 0.9,
    },
    "wide": {  # more than a million parameters: updates are added two at a time
        "run.rounds": 4,
        "evaluate.every": 2,
        "data.shape": "3,16,16",
        "model.kind": "mlp",
        "model.hidden": "1400",
        "federation.clients": 9,
        "sampler.kind": "adaptive-osmd",  # which learns from the updates' norms
        "sampler.per-round": 5,
    },
    "adamw": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "client.optimizer": "adamw",
        "client.optimizer-state": "kept",
        "client.schedule": "cosine",
        "client.warmup": 2,
        "client.accumulate": 2,
        "client.label-smoothing": 0.1,
        "client.class-weights": "client",
        "client.lr": 0.01,
    },
    "augmented": {
        "run.rounds": 6,
        "data.shape": "3,6,7",
        "data.normalize": "all",
        "data.test-fraction": 0.3,
        "model.kind": "mlp",
        "model.hidden": "9",
        "client.crop": 2,
        "client.flip": 0.5,
        "client.cutout": 3,
        "client.mixup": 0.4,
        "client.epochs": 2,
        "client.label-smoothing": 0.1,
    },
    "mofedsam": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "federation.partition": "power-law",
        "client.update": "fedsam",
        "client.global-momentum": 0.8,
        "client.momentum": 0.5,
    },
    "fedntd": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "federation.partition": "power-law",
        "client.update": "fedntd",
        "client.temperature": 2,
        "client.stragglers": 0.5,
        "client.epochs": 3,
    },
    "moon": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "federation.partition": "power-law",
        "client.update": "moon",
        "client.mu": 5,
        "client.momentum": 0.5,
    },
    "fedproto": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "federation.partition": "shards",
        "client.update": "fedproto",
        "client.stragglers": 0.5,
        "client.epochs": 3,
    },
    "fedexp": {
        "model.kind": "mlp",
        "model.hidden": "17,9",
        "federation.partition": "power-law",
        "server.extrapolate": "true",
        "server.extrapolate-epsilon": 1e-5,
        "client.stragglers": 0.5,
        "client.epochs": 3,
    },
    "oort": {
        "model.kind": "mlp",
        "model.hidden": "9",
        "federation.partition": "power-law",
        "sampler.kind": "oort",
        "sampler.exploration": 0.6,
        "sampler.pacer-every": 2,
    },
    "power-of-choice": {
        "model.kind": "mlp",
        "model.hidden": "9",
        "federation.partition": "power-law",
        "sampler.kind": "power-of-choice",
        "aggregator.kind": "afl",  # which needs losses, too
    },
    "cnn-cifar": {  # with dropout
        "run.rounds": 4,
        "evaluate.every": 2,
        "data.shape": "3,8,8",
        "model.kind": "cnn-cifar",
        "federation.clients": 7,
        "federation.partition": "shards",
        "sampler.kind": "full",
    },
}

# ranks, changes of the job
PLACES = [
    (1, {}),
    (2, {}),
    (3, {"server.role": "dedicated"}),
    (4, {"comm.dispatch": "planned"}),
]
MORE_PLACES = [
    (2, {"server.role": "dedicated", "comm.dispatch": "shared"}),
    (3, {"server.role": "shared", "comm.dispatch": "shared"}),
    (3, {"server.role": "dedicated", "comm.dispatch": "planned"}),
]


class SameBits(harness.Case):
    def compare(self, changes, places):
        job = self.job(changes)
        alone = self.train(job, "alone")
        runs = harness.together([
            lambda i=i, ranks=ranks, more=more: self.train(job, f"place-{i}", ranks, more)
            for i, (ranks, more) in enumerate(places)])
        for run, place in zip(runs, places):
            what = f"at (ranks, options) {place}"
            self.assert_digest(run, alone, what)
            self.assertEqual(harness.text(run, "evaluations.csv"),
                             harness.text(alone, "evaluations.csv"), what)
            self.assertEqual(harness.text(run, "clients.csv"), harness.text(alone, "clients.csv"), what)
            for field in ("round", "clients", "loss"):
                self.assertEqual(harness.column(run, "rounds.csv", field),
                                 harness.column(alone, "rounds.csv", field), what)
            self.assertEqual(harness.summary(run)["ranks"], place[0])

    def test_linear(self):
        self.compare(MODELS["linear"], PLACES + MORE_PLACES)

    def test_mlp(self):
        self.compare(MODELS["mlp"], PLACES)

    def test_wide_rows(self):
        self.compare(MODELS["wide"], PLACES)

    def check_sampler(self, name):
        self.compare(MODELS[name], PLACES)
        stopped = self.train(self.job(MODELS[name]), "stopped", 3, {"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=2)
        self.assert_digest(stopped, self.path("alone"), name)

    def test_oort_and_a_resume(self):
        self.check_sampler("oort")

    def test_power_of_choice_and_a_resume(self):
        self.check_sampler("power-of-choice")

    def test_mofedsam_and_a_resume(self):
        self.check_sampler("mofedsam")

    def test_fedntd_and_a_resume(self):
        self.check_sampler("fedntd")

    def test_moon_and_a_resume(self):
        self.check_sampler("moon")

    def test_fedexp_and_a_resume(self):
        self.check_sampler("fedexp")
        factors = [float(x) for x in harness.column(self.path("alone"), "rounds.csv", "extrapolation")]
        self.assertGreater(max(factors), 1)
        for run in ("place-1", "stopped"):
            self.assertEqual(harness.column(self.path(run), "rounds.csv", "extrapolation"),
                             harness.column(self.path("alone"), "rounds.csv", "extrapolation"))

    def test_fedproto_and_a_resume(self):
        self.check_sampler("fedproto")

    def test_adamw_with_moments_that_are_kept(self):
        self.compare(MODELS["adamw"], PLACES)

    def test_augmented_images_and_a_resume(self):
        changes = MODELS["augmented"]
        self.compare(changes, PLACES)
        run = self.train(self.job(changes), "half", 2, {"run.rounds": 3})
        self.hanse("resume", run, "--run.rounds=6", ranks=3)
        self.assert_digest(run, self.path("alone"), "after a resume")
        # Each of them changes the training, and none the evaluation of a model that stays.
        for key in ("client.crop", "client.flip", "client.cutout", "client.mixup"):
            other = self.train(self.job(changes), key, changes={key: 0})
            self.assertNotEqual(harness.digest(other), harness.digest(run), key)
        still = {"run.rounds": 1, "client.lr": 1e-30}
        losses = [harness.column(self.train(self.job(changes), f"still-{crop}", changes={
            **still, "client.crop": crop}), "evaluations.csv", "loss_mean") for crop in (0, 5)]
        self.assertEqual(*losses)

    def test_cnn_with_dropout(self):
        self.compare(MODELS["cnn-cifar"], PLACES)

    def test_more_ranks_than_participants(self):
        self.compare({"sampler.per-round": 1, "run.rounds": 20},
                     [(2, {}), (4, {"server.role": "dedicated"}),
                      (3, {"comm.dispatch": "planned"})])

    def test_more_ranks_than_clients(self):
        self.compare({"federation.clients": 2, "sampler.kind": "full"},
                     [(4, {}), (4, {"comm.dispatch": "planned"})])

    def test_seed_matters(self):
        job = self.job()
        self.assertNotEqual(harness.digest(self.train(job, "one")),
                            harness.digest(self.train(job, "other", changes={"run.seed": 6})))


class RoundZero(harness.Case):
    """evaluate.start: a line for the initial model, and nothing else changes."""

    def test_initial_model_is_evaluated(self):
        job = self.job({"run.rounds": 6, "evaluate.every": 3})
        plain, still, alone, three, stopped = harness.together([
            lambda: self.train(job, "plain"),
            lambda: self.train(job, "still", changes={"run.rounds": 1, "client.lr": 1e-30}),
            lambda: self.train(job, "alone", changes={"evaluate.start": "true"}),
            lambda: self.train(job, "three", 3, {"evaluate.start": "true"}),
            lambda: self.train(job, "stopped", changes={"evaluate.start": "true",
                                                        "run.max-seconds": 1e-3},
                               expect=harness.STOPPED)])
        self.assertEqual(harness.column(alone, "evaluations.csv", "round"), ["0", "3", "6"])
        for name in ("loss_mean", "accuracy_mean", "loss_std"):
            first, *others = harness.column(alone, "evaluations.csv", name)
            self.assertEqual([first], harness.column(still, "evaluations.csv", name))
            self.assertEqual(others, harness.column(plain, "evaluations.csv", name))
        self.hanse("resume", stopped, "--run.max-seconds=0")
        for run in (three, stopped):
            self.assertEqual(harness.text(run, "evaluations.csv"), harness.text(alone, "evaluations.csv"))
            self.assert_digest(run, plain)


class Best(harness.Case):
    """evaluate.best, run.patience and run.target."""

    JOB = {"run.rounds": 60, "evaluate.every": 1, "checkpoint.every": 2, "client.lr": 2}

    def test_the_run_ends_and_the_best_model_is_kept(self):
        job = self.job(self.JOB)
        watch = {"evaluate.best": "loss_mean", "run.patience": 3}
        alone, three, plain = harness.together([
            lambda: self.train(job, "alone", changes=watch),
            lambda: self.train(job, "three", 3, watch),
            lambda: self.train(job, "plain")])
        losses = [float(x) for x in harness.column(plain, "evaluations.csv", "loss_mean")]
        best, since, end = 0, 0, None
        for i, loss in enumerate(losses):
            best, since = (i, 0) if loss < losses[best] or i == 0 else (best, since + 1)
            if since == 3:
                end = i
                break
        self.assertIsNotNone(end, "the job must not improve for ever")
        self.assertEqual(len(harness.column(alone, "rounds.csv", "loss")), end + 1)
        self.assertEqual(harness.summary(alone)["metrics"]["best_round"], best + 1)
        short = self.train(job, "short", changes={"run.rounds": best + 1})
        with open(os.path.join(alone, "best.h5"), "rb") as mine, \
                open(os.path.join(short, "model.h5"), "rb") as straight:
            self.assertEqual(mine.read(), straight.read())
        stopped = self.train(job, "stopped", changes={**watch, "run.max-seconds": 1e-3},
                             expect=harness.STOPPED)
        self.hanse("resume", stopped, "--run.max-seconds=0", ranks=2)
        for run in (three, stopped):
            self.assert_digest(run, alone)
            self.assertEqual(harness.text(run, "evaluations.csv"), harness.text(alone, "evaluations.csv"))
        aim = min(losses[:3]) + 1e-6
        target = self.train(job, "target", changes={"run.target": f"loss_mean<={aim}"})
        reached = next(i for i, loss in enumerate(losses, 1) if loss <= aim)
        found = harness.summary(target)["metrics"]
        self.assertEqual(found["target_round"], reached)
        seconds = sum(float(x) for x in harness.column(target, "rounds.csv", "seconds"))
        self.assertAlmostEqual(found["target_seconds"], seconds, delta=1e-3 * reached)
        self.assertEqual(found["target_bytes"], 0)  # of one rank
        self.assertEqual(len(harness.column(target, "rounds.csv", "loss")), reached)

    def test_spreads_are_better_small_and_metrics_that_are_asked_for_are_known(self):
        job = self.job({**self.JOB, "run.rounds": 8, "evaluate.metrics": "balanced-accuracy"})
        for name, best in (("accuracy_gap", min), ("balanced_accuracy", max)):
            run = self.train(job, name, changes={"evaluate.best": name})
            seen = [float(x) for x in harness.column(run, "evaluations.csv", name)]
            self.assertAlmostEqual(harness.summary(run)["metrics"]["best"], best(seen), places=6)

    def test_bad_rules_are_refused(self):
        job = self.job(self.JOB)
        for changes, *parts in [
                ({"evaluate.best": "loss_men"}, "loss_men", "evaluate.best", "did you mean 'loss_mean'"),
                ({"evaluate.best": "loss_mean:least"}, "'least' is no order", "evaluate.best"),
                ({"run.patience": 2}, "run.patience", "evaluate.best"),
                ({"run.target": "loss_mean<0.5"}, "run.target", "loss_mean<=0.5"),
                ({"run.target": "auroc>=0.5"}, "auroc", "run.target")]:
            process = self.hanse("run", job, f"--run.out={self.path('no')}",
                                 *[f"--{key}={value}" for key, value in changes.items()], expect=None)
            self.assert_one_error(process, 2, *parts)


class Validation(harness.Case):
    """data.validation-fraction, federation.validation-clients and evaluate.on."""

    JOB = {"data.validation-fraction": 0.25, "federation.validation-clients": 3,
           "federation.held-out": 2, "evaluate.on": "both", "evaluate.best": "loss_mean",
           "evaluate.every": 1, "checkpoint.every": 2, "client.lr": 0.02, "run.patience": 20}

    def test_validation_decides_and_tests_stand_beside_it(self):
        job = self.job(self.JOB)
        alone, three, one, stopped = harness.together([
            lambda: self.train(job, "alone"),
            lambda: self.train(job, "three", 3),
            lambda: self.train(job, "one", changes={"evaluate.on": "validation"}),
            lambda: self.train(job, "stopped", changes={"run.max-seconds": 1e-3},
                               expect=harness.STOPPED)])
        refused = self.hanse("resume", stopped, "--evaluate.on=test", expect=None)
        self.assert_one_error(refused, 2, "evaluate.on")
        self.hanse("resume", stopped, "--run.max-seconds=0", ranks=2)
        for run in (three, stopped):
            self.assert_digest(run, alone)
            for name in ("evaluations.csv", "clients.csv", "partition.csv"):
                self.assertEqual(harness.text(run, name), harness.text(alone, name))
        self.assert_digest(one, alone, "by where they are evaluated")
        losses = {name: [float(x) for x in harness.column(alone, "evaluations.csv", name)]
                  for name in ("loss_mean", "validation_loss_mean")}
        best = harness.summary(alone)["metrics"]["best_round"]
        by_validation = losses["validation_loss_mean"]
        self.assertEqual(best, 1 + by_validation.index(min(by_validation)))
        self.assertNotEqual(best, 1 + losses["loss_mean"].index(min(losses["loss_mean"])),
                            "the job must tell the two apart")
        for name in ("loss_mean", "accuracy_worst10", "held_out_loss_mean"):
            self.assertEqual(harness.column(one, "evaluations.csv", name),
                             harness.column(alone, "evaluations.csv", f"validation_{name}"))
        self.assertEqual(harness.column(one, "evaluations.csv", "split")[0], "validation")
        splits = harness.column(alone, "clients.csv", "split")
        self.assertEqual(splits, ["test"] * 18 + ["validation"] * 3 + ["test"] * 2)
        for shown, other in zip(harness.table(one, "clients.csv"), harness.table(alone, "clients.csv")):
            if other["validation_loss"]:
                self.assertEqual(shown["loss"], other["validation_loss"])

    def test_a_converted_file_keeps_the_parts(self):
        job = self.job({**self.JOB, "run.rounds": 3})
        self.hanse("convert", job, "data.h5")
        self.assertIn(" for tests, ", self.hanse("inspect", "data.h5").stdout())
        read = {"data.kind": "hanse", "data.path": "data.h5", "data.validation-fraction": 0}
        first = self.train(job, "first")
        again = self.train(job, "again", 2, read)
        self.assert_digest(again, first)
        for name in ("evaluations.csv", "partition.csv"):
            self.assertEqual(harness.text(again, name), harness.text(first, name))
        refused = self.hanse("run", job, "--data.kind=hanse", "--data.path=data.h5", expect=None)
        self.assert_one_error(refused, 2, "data.validation-fraction", "hanse convert")

    def test_what_cannot_be_is_refused(self):
        for changes, *parts in [
                ({"data.validation-fraction": 16}, "client 0 would have nothing to train on"),
                ({"data.validation-fraction": 1.5}, "1.5 is neither a share nor a number"),
                ({"data.validation-fraction": 0, "federation.validation-clients": 0},
                 "there are no validation samples", "evaluate.on"),
                ({"federation.validation-clients": 21}, "federation.validation-clients",
                 "leaves nobody to train"),
                ({"run.target": "common_loss<=1"}, "common_loss", "run.target")]:
            process = self.hanse("run", self.job({**self.JOB, **changes}),
                                 f"--run.out={self.path('no')}", expect=None)
            self.assert_one_error(process, 2, *parts)


class OverTime(harness.Case):
    """evaluate.clients, evaluate.history and confusion.csv."""

    TABLES = ("evaluations.csv", "classes.csv", "clients.csv", "confusion.csv")

    @staticmethod
    def history(run):
        """{name: values} of the evaluations that there are."""
        with h5py.File(os.path.join(run, "history.h5")) as file:
            there = file["round"][:] >= 0
            return {name: file[name][:][there] for name in file}

    def test_drawn_clients_over_time(self):
        job = self.job({"evaluate.every": 2, "checkpoint.every": 3, "checkpoint.keep": 0,
                        "evaluate.start": "true", "evaluate.history": "true",
                        "federation.held-out": 2, "evaluate.metrics": "classes, confusion",
                        "run.rounds": 9})
        drawn = {"evaluate.clients": 4}
        alone, three, every = harness.together([
            lambda: self.train(job, "alone", changes=drawn),
            lambda: self.train(job, "three", 3, drawn),
            lambda: self.train(job, "every", 2)])
        self.assert_digest(alone, every, "by who is evaluated")
        found, full = self.history(alone), self.history(every)
        self.assertEqual(list(found["round"]), [0, 2, 4, 6, 8, 9])
        self.assertEqual(set(found), {"round", "loss", "accuracy"})
        for name in ("loss", "accuracy"):
            seen = np.isfinite(found[name])
            self.assertEqual([list(line) for line in seen[:, 21:]], [[True, True]] * 6)
            self.assertEqual(list(seen.sum(axis=1)), [6] * 6)
            self.assertTrue(np.array_equal(found[name][seen], full[name][seen]))
        self.assertGreater(len({tuple(line) for line in seen}), 3, "drawn anew")
        self.assertEqual(harness.column(alone, "evaluations.csv", "clients_evaluated"), ["4"] * 6)
        clients = harness.table(alone, "clients.csv")
        self.assertEqual([int(row["client"]) for row in clients], list(np.flatnonzero(seen[-1])))
        for row in clients:
            self.assertAlmostEqual(float(row["loss"]), found["loss"][-1][int(row["client"])],
                                   delta=1e-6)
        confusion = harness.table(alone, "confusion.csv")
        trained = [row for row in clients if row["held_out"] == "0"]
        right = sum(int(row["samples"]) for row in confusion if row["label"] == row["predicted"])
        self.assertEqual(sum(int(row["samples"]) for row in confusion),
                         sum(int(row["samples"]) for row in trained))
        self.assertAlmostEqual(right, sum(int(row["samples"]) * float(row["accuracy"])
                                          for row in trained), places=5)
        # From a checkpoint between evaluations, into another folder and over what is there.
        before = {name: harness.text(alone, name) for name in self.TABLES}
        for checkpoint in self.checkpoints(alone)[1:]:
            os.remove(os.path.join(alone, "checkpoints", checkpoint))
        self.hanse("resume", alone, f"--run.out={self.path('other')}", ranks=2)
        self.hanse("resume", alone)
        for run in (three, alone, self.path("other")):
            self.assert_digest(run, every)
            for name in self.TABLES:
                self.assertEqual(harness.text(run, name), before[name], f"{run} {name}")
            for name, values in self.history(run).items():
                self.assertTrue(np.array_equal(values, found[name], equal_nan=True), name)


class Compression(harness.Case):
    """comm.compress: what clients send is summed, and what they keep goes with them."""

    KINDS = {"top-k": ({"comm.keep": 0.05}, 16 * 41 / 8),  # 16 of 325 values with 9 bits of place
             "random-k": ({"comm.keep": 10, "aggregator.kind": "fedmgda+"}, 40),
             "sign": ({"comm.error-feedback": "false", "sampler.kind": "weighted"}, 41 + 4),
             "quantize": ({"comm.bits": 3}, 122 + 4)}

    def test_same_bits_anywhere_and_after_a_resume(self):
        plain = self.train(self.job(), "plain")
        self.assertEqual(set(harness.column(plain, "rounds.csv", "bytes_updates")), {str(5 * 4 * 325)})
        for kind, (options, size) in self.KINDS.items():
            job = self.job({**options, "comm.compress": kind, "checkpoint.every": 5}, f"{kind}.cfg")
            alone, three, half = harness.together([
                lambda: self.train(job, f"{kind}-alone"),
                lambda: self.train(job, f"{kind}-three", 3),
                lambda: self.train(job, f"{kind}-half", 2, {"run.rounds": 5})])
            self.hanse("resume", half, "--run.rounds=12", ranks=4)
            self.assertNotEqual(harness.digest(alone), harness.digest(plain))
            for run in (three, half):
                self.assert_digest(run, alone, kind)
            for row in harness.table(three, "rounds.csv"):
                self.assertEqual(int(row["bytes_updates"]), int(row["clients"]) * size, kind)

    def test_all_entries_are_the_update(self):
        """But for the rounding of each to float32."""
        job = self.job(MODELS["mlp"])
        plain = self.train(job, "plain")
        expected = [float(x) for x in harness.column(plain, "evaluations.csv", "loss_mean")]
        for kind in ("top-k", "random-k"):
            run = self.train(job, kind, 2, {"comm.compress": kind, "comm.keep": 1000000})
            for found, loss in zip(harness.column(run, "evaluations.csv", "loss_mean"), expected):
                self.assertAlmostEqual(float(found), loss, delta=1e-5)

    def test_what_rules_see_and_what_cannot_be(self):
        job = self.job({"comm.compress": "sign"})
        for changes, *parts in [({"aggregator.kind": "fedmgda+"}, "fedmgda+ sees what clients send"),
                                ({"sampler.kind": "vrb"}, "vrb sees what clients send")]:
            process = self.hanse("run", job, f"--run.out={self.path('seen')}",
                                 "--run.overwrite=true", *harness.options(changes))
            self.assertIn("updates are compressed: ", process.stderr())
            self.assertIn(parts[0], process.stderr())
        for changes, *parts in [
                ({"comm.compress": "top-k", "comm.keep": 1.5}, "1.5 is neither a share", "comm.keep"),
                ({"comm.compress": "quantize", "comm.bits": 1}, "comm.bits"),
                ({"run.protocol": "centralized"}, "sends no updates", "comm.compress")]:
            process = self.hanse("run", job, f"--run.out={self.path('no')}",
                                 *harness.options(changes), expect=None)
            self.assert_one_error(process, 2, *parts)


class Seeds(harness.Case):
    """data.seed, model.seed, sampler.seed and client.seed are run.seed unless they are given."""

    NAMES = ["data.seed", "model.seed", "sampler.seed", "client.seed"]

    def test_each_is_of_its_own_streams(self):
        job = self.job({"federation.partition": "dirichlet", "run.rounds": 3})
        given = {"same": dict.fromkeys(self.NAMES, 9)}
        given.update({name: {name: 8} for name in self.NAMES})
        runs = dict(zip(["of run.seed", *given], harness.together([
            lambda: self.train(job, "nine", changes={"run.seed": 9}),
            lambda: self.train(job, "same", 2, {"run.seed": 7, **given["same"]}),
            *[lambda name=name: self.train(job, name, changes={"run.seed": 9, **given[name]})
              for name in self.NAMES]])))
        nine = runs.pop("of run.seed")
        self.assert_digest(runs.pop("same"), nine, "nothing else follows from run.seed")
        for name, run in runs.items():
            self.assertNotEqual(harness.digest(run), harness.digest(nine), name)
            same = harness.text(run, "partition.csv") == harness.text(nine, "partition.csv")
            self.assertEqual(same, name != "data.seed")


class SameBitsOfPartitions(harness.Case):
    def compare(self, changes):
        job = self.job(changes)
        alone, three = harness.together([lambda: self.train(job, "alone"),
                                       lambda: self.train(job, "three", 3)])
        self.assert_digest(three, alone)
        self.assertEqual(harness.text(three, "clients.csv"), harness.text(alone, "clients.csv"))

    def test_iid(self):
        self.compare({"federation.partition": "iid", "data.test-fraction": 0})

    def test_sizes(self):
        self.compare({"federation.partition": "sizes", "federation.sizes": "1,7,40",
                      "federation.size-probabilities": "0.5,0.3,0.2"})

    def test_by_label(self):
        self.compare({"federation.partition": "by-label", "federation.labels-per-client": 2,
                      "federation.clients": 6})

    def test_by_column(self):
        lines = ["label,site,a,b,c"]
        for i in range(200):
            site = f"site {i * i % 11}"
            lines.append(f"{i % 3},{site},{i % 7},{(i * 13) % 17 / 4},{-i / 50}")
        table = self.write("sites.csv", "\n".join(lines) + "\n")
        self.compare({"federation.partition": "by-column", "data.kind": "csv", "data.path": table,
                      "data.client-column": "site", "sampler.per-round": 3,
                      "client.lr": 0.01})


class FastReduction(harness.Case):
    def test_is_close_to_exact(self):
        job = self.job({"run.rounds": 30})
        exact = self.train(job, "exact")
        fast = self.train(job, "fast", 3, {"comm.reduction": "fast"})
        for name, value in harness.summary(exact)["metrics"].items():
            if "loss" in name:
                self.assertAlmostEqual(harness.summary(fast)["metrics"][name], value, places=4,
                                       msg=name)


if __name__ == "__main__":
    harness.main()
