"""Whatever is wrong with the input: status 2 before the first round, and one line that names it."""

import glob
import gzip
import math
import os
import shutil
import struct

import torch

import harness

IMAGES = "train-images-idx3-ubyte"
LABELS = "train-labels-idx1-ubyte"


def idx_images(count=40, rows=4, columns=4, magic=0x803):
    pixels = bytes(i * 37 % 256 for i in range(count * rows * columns))
    return struct.pack(">4I", magic, count, rows, columns) + pixels


def idx_labels(count=40, magic=0x801):
    return struct.pack(">2I", magic, count) + bytes(i % 4 for i in range(count))


ALONE = (None,)


class BadInput(harness.Case):
    def refuse(self, *parts, changes=None, arguments=(), job=None, verb="run", places=(None, 2)):
        """Without mpirun and on two ranks: status 2, one line with all of `parts`, no results.

        Of those tests whose input fails at the same place in the program, one goes to two ranks.
        """
        job = job or self.job(changes)

        def call(ranks):
            run = self.path(f"run-{ranks}")
            return run, self.hanse(verb, job, f"--run.out={run}", *arguments, ranks=ranks,
                                   expect=None)

        for run, process in harness.together([lambda ranks=ranks: call(ranks) for ranks in places]):
            self.assertEqual(process.status, 2, process.describe())
            self.assertEqual(len(process.lines()), 1, f"not one line\n{process.describe()}")
            self.assert_one_error(process, 2, *parts)
            self.assertEqual(process.stdout().strip(), "", process.describe())
            left = os.listdir(run) if os.path.isdir(run) else []
            self.assertEqual(left, [], f"the run directory has results\n{process.describe()}")


class NoLibTorch(BadInput):
    """hanse-torch.so is not there, as if LibTorch were not: some networks alone miss it."""

    def setUp(self):
        super().setUp()
        home = os.path.dirname(harness.program())
        os.mkdir(self.path("lib"))
        for path in [os.path.join(home, "hanse"), *glob.glob(os.path.join(home, "lib/*"))]:
            if not os.path.basename(path).startswith("hanse-torch"):
                shutil.copy(path, self.path(os.path.relpath(path, home)))
        self.own_program = self.path("hanse")

    def test_what_needs_it_is_refused_and_all_else_runs(self):
        missing = ("LibTorch cannot be loaded", "hanse-torch.so", "scripts/build", "linear, mlp")
        images = {"data.shape": "1,28,28"}
        self.refuse(*missing, arguments=["--run.state-dict=true"], places=ALONE)
        tokens = {"data.shape": "7", "data.tokens": 11, "data.classes": 11}
        for name, changes in (("linear", {}), ("lenet", {"model.kind": "lenet", **images}),
                              ("lstm", {"model.kind": "lstm", "model.units": 5, **tokens}),
                              ("transformer", {"model.kind": "transformer", **tokens})):
            summary = harness.summary(self.train(self.job(changes), name))
            self.assertEqual(summary["versions"]["libtorch"], "not used")
        self.assertIn("libtorch  none; scripts/build adds it\n", self.hanse("--version").stdout())


class OtherMpi(BadInput):
    """Two ranks that the mpirun of another MPI has started: each is alone."""

    def refuse_ranks(self, own, other, *parts):
        """The first rank says it, the second ends with the same status."""
        job = self.job()
        for rank, errors in ((0, 1), (1, 0)):
            process = self.hanse("run", job, f"--run.out={self.path('run')}", expect=2,
                                 environment={f"{other}_RANK": rank, f"{other}_SIZE": 2, **own})
            self.assertEqual(len(process.lines()), errors, process.describe())
            for part in parts if errors else ():
                self.assertIn(part, process.errors()[0])
            self.assertFalse(os.path.exists(self.path("run")))

    def test_is_refused_by_the_first_rank_alone(self):
        built = "openmpi" if "Open MPI" in self.hanse("--version").stdout() else "mpich"
        other = "PMI" if built == "openmpi" else "OMPI_COMM_WORLD"
        self.refuse_ranks({"HANSE_MPI": built}, other,
                          "2 ranks were started, and none knows", "hint: start them by", "HANSE_MPI")

    def test_an_mpi_that_the_program_was_not_built_for(self):
        """Only the part for the other MPI is there."""
        home = os.path.dirname(harness.program())
        os.mkdir(self.path("lib"))
        for path in ("hanse", "lib/hanse.so"):
            shutil.copy(os.path.join(home, path), self.path(path))
        self.own_program = self.path("hanse")
        for own, variable in (("openmpi", "OMPI_COMM_WORLD"), ("mpich", "PMI")):
            self.refuse_ranks({}, variable, "started as a rank of", f"lib/hanse-{own}.so; hint: ")
            self.refuse_ranks({"HANSE_MPI": own}, variable, f"HANSE_MPI={own}; there is no ")

    def test_an_mpi_that_does_not_exist(self):
        self.refuse_ranks({"HANSE_MPI": "lam"}, "PMI",
                          "HANSE_MPI=lam is unknown; hint: openmpi or mpich")


class TasksWithoutPmi(BadInput):
    """A task of a step of Slurm that knows of no other, and what only looks like one."""

    STEP = {"SLURM_PROCID": 0, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": 8, "SLURM_NTASKS": 8}

    def run_with(self, environment, verb="run", ranks=None, expect=0):
        return self.hanse(verb, self.job(), f"--run.out={self.path('run')}", ranks=ranks,
                          expect=expect, environment=environment)

    def test_is_refused_by_the_first_task_alone(self):
        for verb in ("run", "plan"):
            for task, errors in ((0, 1), (5, 0)):
                process = self.run_with({**self.STEP, "SLURM_PROCID": task}, verb, expect=2)
                self.assertEqual(len(process.lines()), errors, process.describe())
                if errors:
                    self.assert_one_error(process, 2, "8 tasks were started, and none knows",
                                          "srun --mpi=pmix", "SLURM_STEP_NUM_TASKS=1")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_ranks_without_a_number(self):
        """PMIx tells a rank alone: the first cannot know that there are others."""
        for rank, errors in ((1, 1), (2, 0)):
            process = self.run_with({"PMIX_RANK": rank}, expect=2)
            self.assertEqual(len(process.errors()), errors, process.describe())

    def test_batch_scripts_shells_and_ranks_train(self):
        alone = {**self.STEP, "SLURM_PROCID": 3, "SLURM_STEP_NUM_TASKS": 1}  # of several, says so
        batch = {"SLURM_PROCID": 0, "SLURM_NTASKS": 8, "SLURM_TASKS_PER_NODE": 8}
        shell = {**self.STEP, "SLURM_PTY_PORT": 40000}
        for environment, ranks in ((alone, None), (batch, None), (shell, None), (self.STEP, 2)):
            self.run_with(environment, ranks=ranks)
            shutil.rmtree(self.path("run"))


class BadWatch(BadInput):
    """Metrics that choose the best model or end the run, and that no client has."""

    def setUp(self):
        super().setUp()
        rows = "".join(f"{i % 7 - 3},s{i % 4},{i % 2}\n" for i in range(60))
        self.table = {"data.kind": "csv", "data.path": self.write("one.csv", "a,site,label\n" + rows),
                      "data.client-column": "site", "federation.clients": None,
                      "federation.samples": None, "sampler.per-round": 2, "evaluate.every": 1}

    def refuse_metric(self, *parts, verb="run", ranks=None, **changes):
        job = self.job({**self.table, **changes})
        process = self.hanse(verb, job, f"--run.out={self.path('run')}", ranks=ranks, expect=None)
        self.assert_one_error(process, 2, "hint", *parts)
        self.assertFalse(os.path.exists(self.path("run", "rounds.csv")))

    def test_auroc_of_clients_with_one_class(self):
        says = ("'auroc' has no value for these data", "both classes")
        for verb, ranks, changes in (("run", None, {"run.patience": 2}), ("run", 2, {}),
                                     ("plan", None, {})):
            self.refuse_metric(*says, "evaluate.best", verb=verb, ranks=ranks,
                               **{"evaluate.best": "auroc", **changes})
        self.refuse_metric(*says, "run.target", **{"run.target": "auroc>=0.8"})

    def test_metrics_of_samples_that_are_not_there(self):
        for name, hint in (("held_out_loss_mean", "federation.held-out"),
                           ("common_loss", "common test set"),
                           ("validation_loss_mean", "evaluate.on = both")):
            self.refuse_metric("no evaluation has", name, hint, **{"evaluate.best": name})

    def test_others_are_watched(self):
        run = self.train(self.job({**self.table, "evaluate.best": "accuracy_mean"}), "run")
        self.assertTrue(os.path.exists(os.path.join(run, "best.h5")))
        self.assertGreaterEqual(harness.summary(run)["metrics"]["best_round"], 1)


class BadStart(BadInput):
    def test_tensors_that_are_not_finite(self):
        job = {"model.kind": "mlp", "model.hidden": 7}
        first = self.train(self.job({**job, "run.state-dict": "true"}), "first")
        tensors = dict(torch.load(os.path.join(first, "state_dict.pt")))
        tensors["fc2.bias"][2:4] = torch.tensor([math.nan, math.inf])
        start = self.path("start.pt")
        torch.save(tensors, start)
        self.refuse("fc2.bias has 2 values of 5 that are not finite, the first nan", start,
                    "model.start", changes={**job, "model.start": start})


class BadJob(BadInput):
    def test_unknown_section(self):
        self.refuse("job.cfg:", "modell", "did you mean 'model'", "federation",
                    changes={"modell.kind": "mlp"}, places=ALONE)

    def test_unknown_key(self):
        self.refuse("job.cfg:", "client.learning", "did you mean", "batch",
                    changes={"client.learning": 1})

    def test_unknown_key_on_the_command_line(self):
        self.refuse("--client.lrr", "did you mean 'client.lr'", arguments=["--client.lrr=0.1"])

    def test_emptied_on_the_command_line(self):
        self.refuse("client.lr: '' is not a number (--client.lr)", arguments=["--client.lr="],
                    places=ALONE)

    def test_check_says_so_without_a_look_at_data(self):
        job = self.job({"data.kind": "csv", "data.path": self.write("bad.csv", "no table"),
                        "data.shape": None, "data.classes": None, "federation.samples": None})
        self.assertEqual(self.hanse("check", job, "--data.label-column=", "--client.mu=1").stdout(),
                         f"{job}: no error in its options; not used by this job: "
                         "client.mu (client.update=sgd); how many clients there are is not known "
                         "before the data are read\n")
        self.refuse("aggregator.kind", "did you mean 'fedavg'", verb="check", places=ALONE,
                    arguments=["--aggregator.kind=fedavgg"])
        self.refuse("plain gradient", "client.momentum", verb="check", places=ALONE,
                    arguments=["--aggregator.kind=dqn-fed", "--client.momentum=0.9"])
        self.refuse("scaffold corrects gradient steps", "client.clip", verb="check", places=ALONE,
                    arguments=["--client.update=scaffold", "--client.clip=0.9"])

    def test_abbreviated_key_on_the_command_line(self):
        self.refuse("--client.lr-deca", "did you mean 'client.lr-decay'",
                    arguments=["--client.lr-deca=0.1"], places=ALONE)

    def test_unknown_value(self):
        self.refuse("job.cfg:", "sampler.kind", "unifrom", "did you mean 'uniform'", "weighted",
                    changes={"sampler.kind": "unifrom"}, places=ALONE)

    def test_key_twice(self):
        self.refuse("job.cfg:3", "run.rounds", "line 2",
                    job=self.write("job.cfg", "[run]\nrounds = 3\nrounds = 4\n"), places=ALONE)

    def test_line_that_is_no_assignment(self):
        self.refuse("job.cfg:2", "key = value", job=self.write("job.cfg", "[run]\nrounds 3\n"),
                    places=ALONE)

    def test_number_sign_in_a_value(self):
        self.refuse("job.cfg:2", "'#'", job=self.write("job.cfg", "[run]\nname = run#3\n"),
                    places=ALONE)

    def test_job_that_is_a_directory(self):
        os.mkdir(self.path("jobs"))
        self.refuse(self.path("jobs"), "directory", "hint", job=self.path("jobs"))

    def test_job_that_is_missing(self):
        self.refuse(self.path("none.cfg"), "hint", job=self.path("none.cfg"))

    def test_device_of_another_build(self):
        if "built without CUDA" not in self.hanse("--version").stdout():
            self.skipTest("a build with CUDA")
        self.refuse("CUDA", "hint", "run.device=cpu", changes={"run.device": "cuda"})

    def test_plan(self):
        self.refuse("job.cfg:", "client.lr", "out of range", verb="plan",
                    changes={"client.lr": -1})


class BadNumber(BadInput):
    def test_out_of_range(self):
        self.refuse("job.cfg:", "client.lr", "-0.1", "(0, inf)", changes={"client.lr": -0.1})

    def test_not_a_number(self):
        self.refuse("job.cfg:", "client.lr", "nan", changes={"client.lr": "nan"}, places=ALONE)

    def test_infinite(self):
        self.refuse("job.cfg:", "client.lr", "inf", changes={"client.lr": "inf"}, places=ALONE)

    def test_integer_out_of_range(self):
        self.refuse("job.cfg:", "run.rounds", "0", "[1, inf)", changes={"run.rounds": 0},
                    places=ALONE)

    def test_integer_too_large_to_store(self):
        self.refuse("job.cfg:", "run.seed", "99999999999999999999",
                    changes={"run.seed": "99999999999999999999"}, places=ALONE)

    def test_no_integer(self):
        self.refuse("job.cfg:", "client.batch", "2.5", changes={"client.batch": 2.5}, places=ALONE)

    def test_on_the_command_line(self):
        self.refuse("--data.test-fraction", "[0, inf)", arguments=["--data.test-fraction=-1"],
                    places=ALONE)


class BadFederation(BadInput):
    def test_more_clients_than_samples(self):
        table = self.write("table.csv", "label,x\n0,1\n1,2\n0,3\n")
        self.refuse("federation.clients", "3", "4", "hint",
                    changes={"federation.clients": 4, "data.kind": "csv", "data.path": table})

    def test_sizes_without_probabilities(self):
        self.refuse("federation.size", "hint",
                    changes={"federation.partition": "sizes", "federation.sizes": "1,2,3",
                             "federation.size-probabilities": "0.5,0.5"}, places=ALONE)

    def test_column_that_is_not_given(self):
        self.refuse("data.client-column", "hint", changes={"federation.partition": "by-column"},
                    places=ALONE)

    def test_model_that_does_not_fit(self):
        self.refuse("model.kind", "lenet",
                    changes={"model.kind": "lenet", "data.shape": "3"})

    def test_images_that_do_not_fit(self):
        for parts, changes in [
                (("{12} are no images", "client.flip"),
                 {"client.flip": 0.5, "data.shape": "12"}),
                (("client.flip", "[0, 1]"), {"client.flip": 1.5}),
                (("a border of 8", "8 x 8", "client.crop"), {"client.crop": 8}),
                (("{12} are no images", "data.normalize", "data.standardize"),
                 {"data.normalize": "all", "data.shape": "12"}),
                (("3 numbers for images of 1 channel", "data.normalize"),
                 {"data.normalize": "1,2,3"}),
                (("fednew needs samples as they are", "client.mixup"),
                 {"client.update": "fednew", "sampler.kind": "full", "client.mixup": 1})]:
            self.refuse(*parts, changes=changes, places=ALONE)

    def test_loss_that_does_not_fit(self):
        self.refuse("model.loss", "squared-error", "hint",
                    changes={"model.loss": "squared-error"}, places=ALONE)


class BadFiles(BadInput):
    def refuse_idx(self, *parts, images=None, labels=None, **more):
        folder = self.path("idx")
        os.makedirs(folder, exist_ok=True)
        for name, data in ((IMAGES, images), (LABELS, labels)):
            if data is not None:
                self.write(os.path.join("idx", name), data)
        self.refuse(folder, *parts, "hint",
                    changes={"data.kind": "idx", "data.path": folder, "federation.clients": 4,
                             "sampler.per-round": 2}, **more)

    def test_missing_folder(self):
        self.refuse("data.path", self.path("none"), "hint",
                    changes={"data.kind": "idx", "data.path": self.path("none")})

    def test_missing_images(self):
        self.refuse_idx(IMAGES, labels=idx_labels(), places=ALONE)

    def test_missing_labels(self):
        self.refuse_idx(LABELS, images=idx_images(), places=ALONE)

    def test_truncated_images(self):
        self.refuse_idx(IMAGES, "pixels", "truncated", images=idx_images()[:-1],
                        labels=idx_labels())

    def test_truncated_header(self):
        self.refuse_idx(LABELS, "truncated", images=idx_images(), labels=idx_labels()[:6],
                        places=ALONE)

    def test_truncated_gzip(self):
        self.write(os.path.join("idx", IMAGES + ".gz"), gzip.compress(idx_images())[:-20])
        self.refuse_idx(IMAGES + ".gz", labels=idx_labels(), places=ALONE)

    def test_not_idx(self):
        self.refuse_idx(IMAGES, "magic", "IDX", images=b"\x89PNG\r\n\x1a\n" + bytes(100),
                        labels=idx_labels(), places=ALONE)

    def test_images_and_labels_changed_places(self):
        self.refuse_idx("magic", images=idx_labels(), labels=idx_images(), places=ALONE)

    def test_counts_that_differ(self):
        self.refuse_idx(LABELS, "39", "40", images=idx_images(), labels=idx_labels(39),
                        places=ALONE)

    def test_label_outside_the_classes(self):
        self.write(os.path.join("idx", IMAGES), idx_images())
        self.write(os.path.join("idx", LABELS), idx_labels())
        self.refuse("data.labels", "4", "0 to 3", "hint",
                    changes={"data.kind": "idx", "data.path": self.path("idx"),
                             "data.labels": "1,4", "federation.clients": 4,
                             "sampler.per-round": 2})

    def refuse_csv(self, content, *parts, **more):
        table = self.write("table.csv", content)
        self.refuse("table.csv:", *parts, "hint",
                    changes={"data.kind": "csv", "data.path": table, "federation.clients": 1,
                             "sampler.per-round": 1}, **more)

    def test_nan_in_a_table(self):
        self.refuse_csv("label,x,y\n0,1,2\n1,nan,4\n", "table.csv:3", "column 'x'", "nan")

    def test_text_in_a_table(self):
        self.refuse_csv("label,x,y\n0,1,2\n1,2,four\n", "table.csv:3", "column 'y'", "four",
                        places=ALONE)

    def test_short_row_of_a_table(self):
        self.refuse_csv("label,x,y\n0,1,2\n1,2\n", "table.csv:3", "2 fields", "3", places=ALONE)

    def test_missing_column(self):
        self.refuse_csv("lable,x\n0,1\n", "'label'", "data.label-column", "'lable'", places=ALONE)

    def test_names_that_are_no_text(self):
        rows = b"".join(b"%d,%s,%d\n" % (i, (b"K\xf6ln", b"Z\xfcrich")[i % 2], i // 4 % 2)
                        for i in range(16))
        table = self.write("table.csv", b"x,site,label\n" + rows)
        clients = {"data.kind": "csv", "data.path": table, "data.client-column": "site",
                   "federation.partition": "by-column", "federation.clients": None,
                   "run.timeline": "true", "sampler.per-round": 1}
        self.refuse("'K\\xF6ln' is not UTF-8", table, "column 'site'", "hint: ", "iconv",
                    changes=clients)
        refused = self.hanse("convert", self.job(clients), self.path("out.h5"), expect=2)
        self.assert_one_error(refused, 2, "'K\\xF6ln' is not UTF-8", table)
        self.assertFalse(os.path.exists(self.path("out.h5")))
        classes = b"x,y,label\n" + b"".join(b"%d,%d,%s\n" % (i, i % 3, (b"ja", b"n\xe9")[i % 2])
                                            for i in range(16))
        table = self.write("classes.csv", classes)
        self.refuse("'n\\xE9' is not UTF-8", table, "column 'label'", "hint: ", "iconv",
                    changes={"data.kind": "csv", "data.path": table, "federation.clients": 2,
                             "sampler.per-round": 1}, places=ALONE)

    def test_empty_table(self):
        self.refuse_csv("", "empty", places=ALONE)

    def test_table_without_a_header(self):
        flowers = "5.0,3.4,Iris-setosa\n5.0,3.5,Iris-virginica\n5.1,3.5,Iris-setosa\n"
        for label in ("label", "", "Iris-setosa"):
            self.refuse_csv(flowers, "table.csv:1", "looks like a sample", "x1,x2,label",
                            arguments=[f"--data.label-column={label}"], places=ALONE)

    def test_missing_label_and_missing_client(self):
        self.refuse_csv("x,label\n1,0\n2,10\n3,NA\n", "table.csv:4", "column 'label'",
                        "the label is missing: 'NA'", places=ALONE)
        self.refuse_csv("x,site,label\n1,a,0\n2,null,1\n", "table.csv:3", "column 'site'",
                        "the client is missing: 'null'", places=ALONE,
                        arguments=["--data.client-column=site"])

    def test_files_that_are_no_tables(self):
        table = "a,b,label\n1,2,0\n"
        for content, *parts in ((table.encode("utf-16"), "a text in UTF-16", "iconv"),
                                (b"PK\x03\x04[Content_Types].xml xl/workbook.xml \x00",
                                 "an Excel workbook", "save it as CSV"),
                                (b"<!doctype html><p>Sign in", "a web page")):
            table = self.write("table.csv", content)
            self.refuse("table.csv", *parts, "hint", places=ALONE,
                        changes={"data.kind": "csv", "data.path": table})


class BadOutput(BadInput):
    def refuse_output(self, out, *parts, job=None):
        """The other way round: `out` may exist and must stay as it is."""
        job = job or self.job()
        calls = [lambda ranks=ranks: self.hanse("run", job, f"--run.out={out}", ranks=ranks,
                                                expect=None) for ranks in (None, 2)]
        for process in harness.together(calls):
            self.assertEqual(len(process.lines()), 1, f"not one line\n{process.describe()}")
            self.assert_one_error(process, 2, out, "hint", *parts)

    def test_directory_with_results(self):
        job = self.job()
        run = self.train(job, "run")
        before = {name: harness.text(run, name) for name in os.listdir(run)
                  if os.path.isfile(os.path.join(run, name))}
        self.refuse_output(run, "hanse resume", "run.overwrite=true", job=job)
        for name, content in before.items():
            self.assertEqual(harness.text(run, name), content, f"{name} changed")

    def test_directory_with_one_result(self):
        self.write(os.path.join("run", "rounds.csv"), "round\n")
        self.refuse_output(self.path("run"))
        self.assertEqual(os.listdir(self.path("run")), ["rounds.csv"])

    def test_folder_below_a_file(self):
        self.refuse_output("/dev/null/x")

    def test_file(self):
        self.refuse_output(self.write("results", "mine"))
        self.assertEqual(harness.text(self.path("results")), "mine")

    def test_folder_without_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        os.mkdir(self.path("locked"), 0o500)
        self.refuse_output(self.path("locked"))


class BadUsage(harness.Case):
    def refuse(self, *arguments, parts=()):
        process = self.hanse(*arguments, expect=None)
        self.assertEqual(len(process.lines()), 1, f"not one line\n{process.describe()}")
        self.assert_one_error(process, 2, "hint", *parts)

    def test_unknown_command(self):
        self.refuse("rum", "job.cfg", parts=["'rum'", "did you mean 'run'"])

    def test_missing_job(self):
        self.refuse("run", parts=["job file"])
        for process in [self.hanse("run", ranks=2, expect=None)]:
            self.assertEqual(len(process.lines()), 1, f"not one line\n{process.describe()}")
            self.assert_one_error(process, 2, "job file")

    def test_too_many_words(self):
        self.refuse("run", "one.cfg", "two.cfg", parts=["two.cfg"])

    def test_option_without_a_value(self):
        self.refuse("run", "job.cfg", "--client.lr", parts=["client.lr"])

    def test_resume_of_what_is_no_run(self):
        self.refuse("resume", "none", parts=["no such run directory (none)", "run.out"])
        self.refuse("resume", self.folder, parts=["it has no job.cfg"])
        self.refuse("resume", "a" * 300, parts=["no such run directory"])

    def test_output_with_a_long_name(self):
        long = self.path("above", "a" * 300)
        for out in ("a" * 300, long):
            self.refuse("run", self.job(), f"--run.out={out}", parts=["too long", "run.out"])
        self.assertFalse(os.path.exists(os.path.dirname(long)))

    def test_unknown_kind(self):
        self.refuse("list", "modells", parts=["modells", "did you mean 'models'"])

    def test_no_hdf5_file(self):
        self.refuse("inspect", self.write("model.h5", "text" * 300), parts=["model.h5"])

    def test_missing_hdf5_file(self):
        process = self.hanse("inspect", self.path("none.h5"), expect=None)
        self.assert_one_error(process, 2, "none.h5")

    def test_trace_that_is_no_json(self):
        process = self.hanse("replay", self.write("trace.json", "{"), expect=None)
        self.assert_one_error(process, 2, "JSON")


if __name__ == "__main__":
    harness.main()
