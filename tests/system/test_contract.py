"""What scripts outside the repository rely on: files, columns, keys, exit statuses, output."""

import glob
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import unittest

import harness

try:
    import h5py
except ImportError:
    h5py = None

ROUND_COLUMNS = ["round", "clients", "seconds", "seconds_train", "seconds_comm", "seconds_wait",
                 "bytes_sent", "loss", "mixed_loss", "seconds_evaluate", "seconds_broadcast",
                 "seconds_reduce", "seconds_step", "seconds_draw", "seconds_losses",
                 "seconds_products", "bytes_broadcast", "bytes_reduce", "bytes_updates"]
SPREAD = ["mean", "weighted", "std", "worst10", "best10"]
METRICS = ([f"loss_{name}" for name in SPREAD] + ["train_loss_mean", "train_loss_weighted"] +
           [f"accuracy_{name}" for name in SPREAD + ["worst5", "best5", "gini", "gap", "entropy",
                                                     "kl", "angle"]] + ["improved", "train_loss_fell"])


def header(run, name):
    return harness.text(run, name).splitlines()[0].split(",")


class RunDirectory(harness.Case):
    def test_files(self):
        run = self.train(self.job({"checkpoint.every": 5}), "run", 2)
        self.assertEqual(sorted(os.listdir(run)),
                         ["checkpoints", "clients.csv", "evaluations.csv", "features.csv", "job.cfg",
                          "metrics.jsonl", "model.h5", "participation.csv",
                          "partition.csv", "rounds.csv", "sampling.csv", "summary.json"])
        self.assertEqual(self.checkpoints(run), ["round-000010.h5", "round-000012.h5"])

        self.assertEqual(header(run, "rounds.csv"), ROUND_COLUMNS)
        self.assertEqual(self.rounds(run), list(range(1, 13)))
        for row in harness.table(run, "rounds.csv"):
            self.assertEqual(row["clients"], "5")
            self.assertGreater(int(row["bytes_sent"]), 0)
            self.assertGreater(float(row["loss"]), 0)
            parts = [float(value) for name, value in row.items() if name.startswith("seconds_")]
            self.assertGreaterEqual(min(parts), 0)
            self.assertGreater(float(row["seconds"]), 0)
            # Every fourth round is evaluated; 8 bytes a parameter come, 4 go back.
            self.assertEqual(float(row["seconds_evaluate"]) > 0, int(row["round"]) % 4 == 0)
            sent, first = int(row["bytes_broadcast"]), row["round"] == "1"
            self.assertEqual(sent, int(row["bytes_reduce"]) // (1 if first else 2))

        self.assertEqual(header(run, "evaluations.csv")[0], "round")
        self.assertEqual(set(METRICS) - set(header(run, "evaluations.csv")), set())
        self.assertEqual(harness.column(run, "evaluations.csv", "round"), ["4", "8", "12"])

        self.assertEqual(header(run, "evaluations.csv")[1], "split")
        self.assertEqual(header(run, "clients.csv"),
                         ["client", "name", "split", "held_out", "samples", "loss", "accuracy"])
        self.assertEqual(harness.column(run, "clients.csv", "client"),
                         [str(client) for client in range(23)])

    def check_accounts(self, accounts, summary):
        """Where the time of a run of 12 rounds on two ranks went."""
        phases = accounts["phases"]
        calls = {"set-up": 1, "reading": 1, "draw": 12, "training": 12, "step": 24, "checkpoint": 1}
        self.assertEqual({name: phases[name]["calls"] for name in calls}, calls)
        seconds = sum(phase["seconds"] for phase in phases.values())
        self.assertAlmostEqual(seconds, accounts["wall_seconds"], delta=1e-6)
        self.assertGreater(seconds, summary["setup_seconds"] + summary["seconds"])
        for name, phase in phases.items():
            self.assertLessEqual(phase["least"], phase["seconds"], name)
            self.assertLessEqual(phase["seconds"], phase["most"], name)
        self.assertGreaterEqual(accounts["host_memory_bytes"], summary["peak_memory_bytes"])
        self.assertGreater(accounts["clients_per_second"], 0)
        # A linear model of 64 x 5: two products of two operations a sample; 5 clients of 16 samples.
        a_client = 4 * 64 * 5 * 16 * 1e-9
        self.assertAlmostEqual(accounts["gflops"] / accounts["clients_per_second"], a_client,
                               delta=1e-3 * a_client)

    def test_summary(self):
        run = self.train(self.job(), "run", 2, {"run.name": "a-name"})
        summary = harness.summary(run)
        self.assertEqual((summary["name"], summary["seed"], summary["rounds"], summary["ranks"],
                          summary["split"]), ("a-name", 5, 12, 2, "test"))
        self.assertRegex(summary["model_digest"], "^[0-9a-f]{32}$")
        for key in ("setup_seconds", "seconds", "seconds_per_round_median", "bytes_per_round",
                    "peak_memory_bytes"):
            self.assertGreater(summary[key], 0, key)
        self.check_accounts(summary["accounts"], summary)
        self.assertEqual(set(METRICS) - set(summary["metrics"]), set())
        self.assertEqual(set(("hanse", "mpi", "libtorch", "hdf5")) - set(summary["versions"]),
                         set())
        clients = harness.table(run, "clients.csv")
        accuracies = [float(row["accuracy"]) for row in clients]
        losses = [float(row["loss"]) for row in clients]
        self.assertAlmostEqual(summary["metrics"]["accuracy_mean"],
                               sum(accuracies) / len(accuracies), places=7)
        self.assertAlmostEqual(summary["metrics"]["loss_mean"], sum(losses) / len(losses), places=7)
        self.assertAlmostEqual(summary["metrics"]["accuracy_worst10"],
                               sum(sorted(accuracies)[:2]) / 2, places=7)
        last = harness.table(run, "evaluations.csv")[-1]
        self.assertAlmostEqual(float(last["loss_mean"]), summary["metrics"]["loss_mean"], places=7)

    def test_regression_has_no_accuracy(self):
        run = self.train(self.job({"data.classes": 0, "model.loss": "squared-error",
                                   "client.lr": 0.001}), "run")
        self.assertEqual(set(harness.column(run, "clients.csv", "accuracy")), {""})
        self.assertFalse([key for key in harness.summary(run)["metrics"] if "accuracy" in key])

    def test_written_job_reproduces_the_run(self):
        run = self.train(self.job({"client.lr-decay": 0.97, "server.optimizer": "momentum",
                                   "federation.partition": "dirichlet"}), "run")
        again = self.train(os.path.join(run, "job.cfg"), "again", 2)
        self.assert_digest(again, run)
        different = [line for line in zip(harness.text(run, "job.cfg").splitlines(),
                                          harness.text(again, "job.cfg").splitlines())
                     if line[0] != line[1]]
        self.assertEqual(different, [(f"out = {run}", f"out = {again}")])

    def test_overwrite(self):
        job = self.job({"checkpoint.every": 6, "checkpoint.keep": 0})
        run = self.train(job, "run")
        self.write(os.path.join("run", "notes.txt"), "mine")
        self.train(job, "run", 2, {"run.overwrite": "true", "run.seed": 6, "run.rounds": 4})
        self.assertEqual(self.rounds(run), [1, 2, 3, 4])
        self.assertEqual(self.checkpoints(run), ["round-000004.h5"])
        self.assertEqual(harness.text(run, "notes.txt"), "mine")
        self.assert_digest(run, self.train(job, "other",
                                           changes={"run.seed": 6, "run.rounds": 4}))
        # The permission was for that start only.
        self.assert_one_error(self.hanse("run", os.path.join(run, "job.cfg"), expect=None), 2, run)

    def test_defaults(self):
        self.hanse("run", self.job(name="small.cfg"))
        self.assertEqual(harness.summary(self.path("runs", "small"))["name"], "small")

    def test_checkpoints_kept(self):
        job = self.job({"checkpoint.every": 3})
        for keep, rounds in ((0, (3, 6, 9, 12)), (1, (12,))):
            run = self.train(job, f"keep-{keep}", changes={"checkpoint.keep": keep})
            self.assertEqual(self.checkpoints(run), [f"round-{n:06d}.h5" for n in rounds])

    def test_what_stands_at_its_default_is_not_told(self):
        """A run's own job.cfg gives every key."""
        run = self.train(self.job({"sampler.kind": "osmd", "client.schedule": "cosine"}), "run")
        again = self.hanse("run", os.path.join(run, "job.cfg"), f"--run.out={self.path('again')}")
        self.assertNotIn("not used", again.stderr())
        self.assertEqual(harness.digest(run), harness.digest(self.path("again")))

    def test_that_all_clients_take_part_is_told(self):
        told = "sampler.per-round = 50 is above the number of clients: "
        job = self.job({"sampler.per-round": 50})
        for change, ranks, text in (
                ("sampler.seed=1", 2, told + "all 23 take part in every round"),
                ("sampler.replacement=true", None, ""),  # clients are drawn several times
                ("sampler.per-round=23", None, ""), ("sampler.kind=full", None, "")):
            process = self.hanse("run", job, f"--run.out={self.path(change)}", f"--{change}",
                                 ranks=ranks)
            lines = [line for line in process.lines() if "above the number" in line]
            self.assertEqual(lines, ["hanse: " + text] if text else [])

    def test_names_that_are_no_text(self):
        """Names of jobs and folders on Linux are any bytes; JSON has text alone."""
        job = self.job({"run.timeline": "true", "run.trace": "true", "run.repeats": 2,
                        "run.rounds": 4, "checkpoint.every": 2})
        name = os.fsdecode(b"Z\xfcrich")
        os.rename(job, self.path(name + ".cfg"))
        self.hanse("run", name + ".cfg", ranks=2)
        run = self.path("runs", name)
        self.assertEqual(harness.summary(run)["name"], "Z\ufffdrich")
        one = os.path.join(run, "repeats", "1")
        self.assertEqual(harness.summary(one)["name"], "Z\ufffdrich")
        self.assertTrue(os.path.exists(os.path.join(one, "model.h5")))
        for file in ("timeline.json", "trace-sampler.json", "trace-aggregator.json"):
            json.loads(harness.text(one, file))
        self.hanse("resume", one, "--run.rounds=6")
        self.assertEqual(self.rounds(one), list(range(1, 7)))
        plan = self.hanse("plan", name + ".cfg", "--json")
        self.assertIn("clients", json.loads(plan.stdout()))
        inspected = self.hanse("inspect", os.path.join("runs", name, "repeats", "1", "model.h5"))
        self.assertIn(b"parameters: ", pathlib.Path(inspected.output + ".out").read_bytes())

    def test_ignored_keys_are_told_once(self):
        process = self.hanse("run", self.job({"federation.alpha": 0.1}),
                             f"--run.out={self.path('run')}", ranks=2)
        told = [line for line in process.lines() if "federation.alpha" in line]
        self.assertEqual(len(told), 1, process.describe())
        self.assertIn("not used", told[0])

    @unittest.skipIf(h5py is None, "h5py is not installed")
    def test_model_file(self):
        run = self.train(self.job({"model.kind": "mlp", "model.hidden": "7"}), "run")
        with h5py.File(os.path.join(run, "model.h5")) as file:
            row = file["row"][:]
            shapes = {name: file[name].shape for name in file if name != "row"}
            values = sorted(value for name in shapes for value in file[name][:].ravel())
        self.assertEqual(sorted(shapes.values()), [(5,), (5, 7), (7,), (7, 64)])
        self.assertEqual(row.shape, (64 * 7 + 7 + 7 * 5 + 5,))
        self.assertEqual(row.dtype.str, "<f4")
        self.assertEqual(values, sorted(row))
        with h5py.File(glob.glob(os.path.join(run, "checkpoints", "*.h5"))[0]) as file:
            self.assertEqual(file.attrs["round"], 12)
            self.assertEqual(list(file["state/training/model"][:]), list(row))


@unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one processor")
class Binding(harness.Case):
    def test_ranks_that_share_a_processor_are_told(self):
        """Bound by what started them; not where they share all that there is."""
        one = str(min(os.sched_getaffinity(0)))
        words = [harness.program(), "run", self.job({"run.rounds": 1}), "--run.overwrite=true"]
        for before, between, warnings in (([], ["taskset", "-c", one], 1),
                                          (["taskset", "-c", one], [], 0)):
            said = subprocess.run([*before, *harness.mpirun(2), *between, *words], cwd=self.folder,
                                  capture_output=True, text=True, check=True).stderr
            self.assertEqual(said.count("warning: the 2 ranks of a host are bound"), warnings, said)


class Commands(harness.Case):
    def test_reference_of_keys(self):
        """jobs/keys.md is what the program prints: `hanse list --markdown > jobs/keys.md`."""
        path = os.path.join(os.path.dirname(__file__), "..", "..", "jobs", "keys.md")
        self.assertEqual(self.hanse("list", "--markdown").stdout(), harness.text(path))
        self.assert_one_error(self.hanse("plan", self.job(), "--markdown", expect=None), 2,
                              "--markdown", "hanse list")

    def test_page_of_conflicts(self):
        """jobs/conflicts.md is what `hanse list --conflicts` prints."""
        path = os.path.join(os.path.dirname(__file__), "..", "..", "jobs", "conflicts.md")
        self.assertEqual(self.hanse("list", "--conflicts").stdout(), harness.text(path))

    def test_conflicts_are_refused_without_the_data(self):
        """`check` refuses in the words of `run`, and reads nothing but the job."""
        def lines(verb, *options):
            process = self.hanse(verb, self.job(), "--sampler.per-round=2", *options, expect=None)
            self.assert_one_error(process, 2)
            return process.errors()[0]

        for options, words in (
                (("--aggregator.kind=median", "--clock.kind=virtual", "--async.kind=fedbuff"),
                 "a step by columns cannot count old updates less"),
                (("--aggregator.kind=krum", "--client.update=fednova"),
                 "krum looks at updates, which fednova weighs anew"),
                (("--client.stragglers=0.5",), "stragglers need more than one epoch or step"),
                (("--aggregator.kind=aaggff-s",), "aaggff-s needs every client in every round"),
                (("--aggregator.kind=dqn-fed", "--evaluate.view=personalised"),
                 "send directions and have no models of their own"),
                (("--sampler.kind=oort", "--client.label-smoothing=0.1"),
                 "which client.label-smoothing does not tell"),
                (("--sampler.kind=cyclic", "--clock.kind=virtual", "--async.kind=fedbuff"),
                 "draws whole rounds, and these have none"),
                (("--run.round-seconds=1", "--client.update=scaffold"),
                 "scaffold needs every participant's update"),
                (("--client.update=ditto", "--client.personal=*.bias"),
                 "clients of ditto train all tensors together"),
                (("--evaluate.regret=true", "--sampler.kind=power-of-choice"),
                 "does not estimate gradients")):
            told = lines("check", *options)
            self.assertIn(words, told)
            self.assertEqual(told, lines("run", *options))
            self.assertEqual(told, lines("plan", *options))

    def test_plan_trains_and_writes_nothing(self):
        job = self.job()
        for ranks in (None, 2):
            process = self.hanse("plan", job, f"--run.out={self.path('run')}", ranks=ranks)
            for part in ("memory", "data", "sent a round", "messages a round"):
                self.assertIn(part, process.stdout().replace("model rows a rank", "memory"))
            self.assertEqual(process.stdout().count("messages a round"), 1, process.describe())
        self.assertIn("8, 8", self.hanse("plan", job, "--ranks=8", "--hosts=1").stdout())
        left = [name for name in os.listdir(self.folder) if not name.startswith(".output")]
        self.assertEqual(left, ["job.cfg"])

    def test_list(self):
        everything = self.hanse("list").stdout()
        families = re.findall(r"^(\w+) \(([\w.-]+)\)$", everything, re.MULTILINE)
        self.assertEqual({"samplers", "aggregators", "optimizers", "models", "data", "protocols"} -
                         {name for name, _ in families}, set())
        texts = harness.together([lambda name=name: self.hanse("list", name).stdout()
                                for name, _ in families])
        for (name, key), text in zip(families, texts):
            self.assertTrue(text.startswith(f"{name} ({key})"), text)
            self.assertIn(text.strip(), everything)
        for part in ("uniform", "weighted", "full", "fedavg", "momentum", "cnn-leaf", "idx",
                     "client.lr = 0.1", "checkpoint.keep = 2"):
            self.assertIn(part, everything)

    def test_inspect(self):
        run = self.train(self.job(), "run")
        checkpoint = glob.glob(os.path.join(run, "checkpoints", "*.h5"))[0]
        seen = self.hanse("inspect", checkpoint).stdout()
        for part in ("checkpoint", "round: 12", "digest: ok", "training/model", "[325]"):
            self.assertIn(part, seen)
        seen = self.hanse("inspect", os.path.join(run, "model.h5")).stdout()
        for part in ("model", "parameters: 325", "tensors: 2", "[5, 64]", "[5]"):
            self.assertIn(part, seen)
        os.truncate(checkpoint, 1000)
        self.assertIn("DAMAGED", self.hanse("inspect", checkpoint).stdout())

    def test_replay(self):
        trace = {"rule": {"aggregator.kind": "fedavg"}, "clients": 4,
                 "rounds": [{"participants": [0, 2, 3], "sizes": [10, 30, 60]},
                            {"participants": [1, 3], "sizes": [3, 1]}]}
        file = self.write("trace.json", json.dumps(trace))
        rounds = json.loads(self.hanse("replay", file).stdout())["rounds"]
        for got, expected in zip(rounds, ([0.1, 0.3, 0.6], [0.75, 0.25])):
            self.assertEqual(len(got["weights"]), len(expected))
            for weight, value in zip(got["weights"], expected):
                self.assertAlmostEqual(weight, value, places=15)
            self.assertEqual(got["step"], 1)

    def test_replay_names_the_field(self):
        file = self.write("trace.json", json.dumps(
            {"rule": {"aggregator.kind": "fedavg"}, "clients": 2,
             "rounds": [{"participants": [0, 2], "sizes": [1, 1]}]}))
        self.assert_one_error(self.hanse("replay", file, expect=None), 2,
                              "rounds[0].participants", "2")

    def test_help_and_version(self):
        for arguments in (["--help"], ["run", "--help"], []):
            process = self.hanse(*arguments)
            for verb in ("run", "resume", "plan", "check", "publish", "replay", "list", "inspect"):
                self.assertIn(f"hanse {verb}", process.stdout())
            self.assertEqual(process.stderr(), "")
        version = self.hanse("--version").stdout()
        for library in ("hanse", "mpi", "libtorch", "hdf5", "gpu"):
            self.assertRegex(version, rf"(?m)^{library} +\S")


class WhichMpi(harness.Case):
    """The library of MPI that a process takes, and what --version says of it."""

    def found(self, **options):
        """Its file, and the reason."""
        said = self.hanse("--version", **options).stdout()
        return re.search(r"(?m)^mpi from +(\S+) \((.*)\)$", said).groups()

    def test_it_is_found_and_named(self):
        library, reason = self.found()
        self.assertEqual(reason, "which the build has found")
        name = "mpich" if "mpich" in library or library.endswith(".12") else "openmpi"
        self.assertEqual(self.found(environment={"HANSE_MPI": name}),
                         (library, f"HANSE_MPI={name}; {reason}"))

        place = self.path("lib", os.path.basename(library))
        os.mkdir(self.path("lib"))
        os.symlink(library, place)
        self.assertEqual(self.found(environment={"LD_LIBRARY_PATH": f"/none:{self.path('lib')}"}),
                         (place, "by LD_LIBRARY_PATH"))

        variable, title = {"openmpi": ("OMPI_COMM_WORLD_RANK", "Open MPI"),
                           "mpich": ("PMI_RANK", "MPICH")}[name]
        self.assertEqual(self.found(environment={variable: 0}),
                         (library, f"started as a rank of {title}; {reason}"))

    def test_ranks_take_that_of_their_launcher(self):
        """Before one that LD_LIBRARY_PATH names."""
        library, _ = self.found()
        built = os.path.join(os.path.dirname(harness.program()), "lib")
        os.mkdir(self.path("lib"))
        os.symlink(library, self.path("lib", os.path.basename(library)))
        self.own_program = self.script("own", f"unset HANSE_MPI; exec {harness.program()} --version")
        for name, title in (("openmpi", "Open MPI"), ("mpich", "MPICH")):
            if not os.path.exists(os.path.join(built, f"hanse-{name}.so")):
                continue
            self.script("lib/mpirun", f'HANSE_MPI={name} exec {built}/mpirun "$@"')
            said = self.hanse(ranks=1, environment={"LD_LIBRARY_PATH": self.path("lib")}).stdout()
            self.assertRegex(said, rf"(?m)^mpi +{title}.*\n(.*\n)*mpi from +\S+ "
                                   rf"\(started as a rank of {title}; that of /.*\)$")

    def script(self, name, text):
        path = self.write(name, f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return path


class ProgressLines(harness.Case):
    def watch(self, reader, writer, enough):
        """What a run writes to stderr until there is enough of it, and then until it stops."""
        job = self.job({"run.rounds": 10000000})
        process = subprocess.Popen([harness.program(), "run", job, f"--run.out={self.path('run')}"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=writer, cwd=self.folder,
                                   env={**os.environ, harness.MARK: self.mark})
        os.close(writer)
        seen = ""
        asked = False
        while True:
            ready, _, _ = select.select([reader], [], [], harness.PATIENCE_S)
            self.assertTrue(ready, f"silent for {harness.PATIENCE_S} s: {seen}")
            try:
                piece = os.read(reader, 65536)
            except OSError:  # a terminal whose other side is closed
                break
            if not piece:
                break
            seen += piece.decode()
            if not asked and enough(seen):
                process.send_signal(signal.SIGUSR1)
                asked = True
        os.close(reader)
        self.assertEqual(process.wait(harness.PATIENCE_S), harness.STOPPED, seen)
        return seen

    def test_pipe_gets_whole_lines(self):
        seen = self.watch(*os.pipe(), lambda text: "rounds/s" in text)
        self.assertNotRegex(seen, "[\r\033]")
        self.assertTrue(seen.endswith("\n"))
        lines = [line for line in seen.splitlines() if not line.startswith("hanse: ")]
        self.assertGreater(len(lines), 1, seen)
        for line in lines:
            self.assertRegex(line, r"^round \d+/10000000  loss \S+  "
                                   r"(accuracy \S+%( of round \d+)?  )?"
                                   r"\S+ rounds/s(  .+ left)?$")
        self.assertTrue(lines[-1].endswith(" rounds/s"), seen)

    def test_terminal_gets_one_line_that_updates(self):
        seen = self.watch(*pty.openpty(), lambda text: text.count("rounds/s") >= 3)
        progress = [line for line in seen.split("\n") if "rounds/s" in line]
        self.assertEqual(len(progress), 1, seen)
        states = [state for state in progress[0].split("\r") if state]
        self.assertGreater(len(states), 2, seen)
        rounds = [int(re.match(r"\033\[Kround (\d+)/", state)[1]) for state in states]
        self.assertEqual(rounds, sorted(rounds))


if __name__ == "__main__":
    harness.main()
