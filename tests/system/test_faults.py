"""What a run leaves when something breaks: whole checkpoints, a line that says why, no process."""

import collections
import glob
import math
import os
import re
import resource
import signal
import time

import torch

import harness
from torch_files import write_graph

SECONDS_TO_END = 20  # on a busy machine; it takes about one
ENDLESS = {"run.rounds": 10000000, "evaluate.every": 10}


def flip_bit(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def leftovers(run):
    return glob.glob(os.path.join(run, "**", "*.tmp"), recursive=True) + glob.glob(
        os.path.join(run, "**", ".*"), recursive=True)


class KilledRank(harness.Case):
    def check(self, rank, ranks, ranks_after):
        job = self.job({**ENDLESS, "checkpoint.every": 20})
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=ranks)
        process.wait_until(lambda: len(self.checkpoints(run)) >= 2, "the second checkpoint")
        start_s = time.monotonic()
        process.signal(signal.SIGKILL, rank)
        process.wait(SECONDS_TO_END)
        while harness.marked(self.mark) and time.monotonic() < start_s + SECONDS_TO_END:
            time.sleep(0.05)
        self.assertEqual(harness.marked(self.mark), [], f"ranks outlive rank {rank}")
        self.assertNotIn(process.status, (0, 2, harness.STOPPED), process.describe())
        self.assertFalse(os.path.exists(os.path.join(run, "summary.json")))

        last = max(int(name) for name in re.findall(r"round-(\d+)\.h5\b(?!\.)",
                                                    " ".join(self.checkpoints(run))))
        self.hanse("resume", run, f"--run.rounds={last + 5}", ranks=ranks_after)
        self.assert_digest(run, self.train(job, "straight", changes={"run.rounds": last + 5}))
        self.assertEqual(self.rounds(run), list(range(1, last + 6)))
        self.assertEqual(leftovers(run), [])

    def test_terminated_mpirun(self):
        # Open MPI kills its ranks about a second later, whatever they are about to do.
        run = self.path("run")
        process = self.start("run", self.job({**ENDLESS, "checkpoint.every": 20}),
                             f"--run.out={run}", ranks=2)
        process.wait_until(lambda: len(self.checkpoints(run)) >= 2, "the second checkpoint")
        process.signal(signal.SIGTERM)
        process.wait(SECONDS_TO_END)
        self.assertNotEqual(process.status, 0, process.describe())
        last = len(self.rounds(run))
        self.hanse("resume", run, f"--run.rounds={last + 50}")
        self.assertEqual(self.rounds(run), list(range(1, last + 51)))

    def test_server(self):
        self.check(0, 2, 3)

    def test_worker(self):
        self.check(2, 4, None)


class DamagedCheckpoint(harness.Case):
    def setUp(self):
        super().setUp()
        job = self.job({"checkpoint.every": 5, "checkpoint.keep": 3, "run.rounds": 20})
        self.run_folder = self.train(job, "run")
        self.straight = self.train(job, "straight", changes={"run.rounds": 24})

    def file(self, round_number):
        return os.path.join(self.run_folder, "checkpoints", f"round-{round_number:06d}.h5")

    def check_resumes_after(self, round_number, *damaged, ranks=None):
        process = self.hanse("resume", self.run_folder, "--run.rounds=24", ranks=ranks)
        warnings = [line for line in process.lines() if "warning" in line]
        self.assertEqual(len(warnings), len(damaged), process.describe())
        for path, warning in zip(damaged, warnings):
            self.assertIn(path, warning)
            self.assertIn("damaged", warning)
        self.assertIn(f"after round {round_number}", process.stderr())
        self.assert_digest(self.run_folder, self.straight)
        self.assertEqual(self.rounds(self.run_folder), list(range(1, 25)))
        self.assertEqual(harness.text(self.run_folder, "evaluations.csv"),
                         harness.text(self.straight, "evaluations.csv"))

    def test_truncated(self):
        os.truncate(self.file(20), os.path.getsize(self.file(20)) - 1)
        self.check_resumes_after(15, self.file(20), ranks=2)

    def test_bit_flipped_in_the_data(self):
        flip_bit(self.file(20), os.path.getsize(self.file(20)) // 2)
        self.check_resumes_after(15, self.file(20))

    def test_bit_flipped_in_the_header_and_older_one_empty(self):
        flip_bit(self.file(20), 30)
        os.truncate(self.file(15), 0)
        self.check_resumes_after(10, self.file(20), self.file(15))

    def test_all_damaged(self):
        for round_number in (10, 15, 20):
            flip_bit(self.file(round_number), 2000)
        for ranks in (None, 2):
            process = self.hanse("resume", self.run_folder, ranks=ranks, expect=None)
            self.assert_one_error(process, 2, os.path.join(self.run_folder, "checkpoints"), "hint")
            for round_number in (10, 15, 20):
                self.assertIn(self.file(round_number), process.stderr())
        self.assertEqual(self.rounds(self.run_folder), list(range(1, 21)))


class FullDisk(harness.Case):
    """Limits on the size of a file stand for the disk: they come while the run is on its way, since
    Open MPI wants some megabytes at its start."""

    ROOM = 1 << 20  # holds the tables, and no checkpoint of the model
    JOB = {**ENDLESS, "checkpoint.every": 10, "checkpoint.keep": 0, "model.kind": "mlp",
           "model.hidden": "4000", "federation.clients": 8, "sampler.per-round": 3}

    def start_run(self, ranks, changes=None):
        run = self.path(f"run-{ranks}")
        job = self.job({**self.JOB, **(changes or {})})
        return run, self.start("run", job, f"--run.out={run}", ranks=ranks)

    def set_room(self, process, file_bytes, ranks):
        pids = [process.popen.pid] if ranks is None else process.ranks().values()
        for pid in pids:
            hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (file_bytes, hard))

    def last_round(self, run):
        return int(self.checkpoints(run)[-1][len("round-"):-len(".h5")])

    def check_failed(self, process, run, file, resumes=True):
        """One line on the file; no partial one; what was there before is enough to go on."""
        process.wait()
        self.assert_one_error(process, 1, os.path.join(run, file))
        self.assertNotIn("go on with", process.stderr())
        self.assertFalse(os.path.exists(os.path.join(run, "summary.json")))
        self.assertEqual(leftovers(run), [])
        if resumes:
            last = self.last_round(run)
            self.assertIn(f"`hanse resume {run}` goes on after round {last}", process.stderr())
            self.hanse("resume", run, f"--run.rounds={last + 3}")
            self.assertEqual(self.rounds(run), list(range(1, last + 4)))

    def check_goes_on(self, ranks):
        run, process = self.start_run(ranks)
        process.wait_until(lambda: "round-000010.h5" in self.checkpoints(run), "a checkpoint")
        self.set_room(process, self.ROOM, ranks)
        process.wait_until(lambda: "warning" in process.stderr(), "a warning")
        failed = int(re.search(r"no checkpoint of round (\d+)", process.stderr())[1])
        self.assertIn(os.path.join(run, "checkpoints"), process.stderr())
        self.assertIn("the run goes on", process.stderr())
        self.set_room(process, resource.RLIM_INFINITY, ranks)
        process.wait_until(lambda: self.last_round(run) > failed, "a later checkpoint")
        process.signal(signal.SIGUSR1)
        process.wait()
        self.assertEqual(process.status, harness.STOPPED, process.describe())
        self.assertEqual(process.errors(), [])
        names = self.checkpoints(run)
        for number in range(10, failed, 10):
            self.assertIn(f"round-{number:06d}.h5", names)
        self.assertNotIn(f"round-{failed:06d}.h5", names)
        self.assertEqual(leftovers(run), [])
        last = self.last_round(run)
        self.hanse("resume", run, f"--run.rounds={last + 2}")
        self.assertEqual(self.rounds(run), list(range(1, last + 3)))

    def test_run_goes_on(self):
        self.check_goes_on(None)

    def test_run_of_two_ranks_goes_on(self):
        self.check_goes_on(2)

    def test_run_stops_when_told_so(self):
        for ranks in (None, 3):
            run, process = self.start_run(ranks, {"checkpoint.on-error": "stop"})
            process.wait_until(lambda: "round-000010.h5" in self.checkpoints(run), "a checkpoint")
            self.set_room(process, self.ROOM, ranks)
            self.check_failed(process, run, "checkpoints")

    def test_stop_without_room_for_the_checkpoint(self):
        # Status 75 would promise one.
        for ranks in (None, 2):
            run, process = self.start_run(ranks, {"checkpoint.every": 0})
            self.wait_for_rounds(process, run, 3)
            self.set_room(process, self.ROOM, ranks)
            process.signal(signal.SIGUSR1)
            self.check_failed(process, run, "checkpoints", resumes=False)
            self.assertEqual(self.checkpoints(run), [])
            self.assertIn(f"`hanse run {run}/job.cfg --run.out={run} --run.overwrite=true` starts "
                          "again", process.stderr())

    def test_tables(self):
        for ranks in (None, 2):
            run, process = self.start_run(ranks, {"model.kind": "linear", "checkpoint.every": 500,
                                                  "evaluate.every": 0})
            process.wait_until(lambda: "round-000500.h5" in self.checkpoints(run), "a checkpoint")
            room = os.path.getsize(os.path.join(run, "rounds.csv")) + 1000
            self.set_room(process, room, ranks)
            process.wait()
            self.check_failed(process, run, "rounds.csv")

    def test_results(self):
        # 16 MiB hold the checkpoint's 14 MB, and not the model file's 28 MB.
        job = self.job({"run.rounds": 2, "model.kind": "mlp", "model.hidden": "50000",
                        "federation.clients": 2, "sampler.per-round": 1})
        for ranks in (None, 2):
            run = self.path(f"run-{ranks}")
            process = self.start("run", job, f"--run.out={run}", ranks=ranks,
                                 file_bytes=16 << 20)
            self.check_failed(process, run, "model.h5", resumes=False)
            self.assertFalse(os.path.exists(os.path.join(run, "model.h5")))
            self.assertEqual(self.checkpoints(run), ["round-000002.h5"])


class Divergence(harness.Case):
    def check(self, changes, tells):
        job = self.job({"checkpoint.every": 1, "run.rounds": 500, **changes})
        said = set()
        calls = [lambda ranks=ranks: self.hanse("run", job, f"--run.out={self.path(str(ranks))}",
                                                ranks=ranks, expect=None) for ranks in (None, 3)]
        for process in harness.together(calls):
            self.assert_one_error(process, 1, "client ", "round ", "client.lr")
            said.add(re.search(r"client \d+, (round \d+)", process.errors()[0])[1])
        self.assertEqual(len(said), 1, f"the ranks fail in different rounds: {said}")
        if tells:
            self.assertEqual(said, {tells})
        failed = int(said.pop().split()[1])
        for ranks in (None, 3):
            run = self.path(str(ranks))
            self.assertFalse(os.path.exists(os.path.join(run, "summary.json")))
            if failed > 1:
                self.assertEqual(self.checkpoints(run)[-1], f"round-{failed - 1:06d}.h5")

    def check_error(self, *parts, status=1, places=(None, 2), **changes):
        job = self.job({"run.rounds": 5, "sampler.per-round": 4, **changes})
        for ranks in places:
            process = self.hanse("run", job, f"--run.out={self.path(f'fails-{ranks}')}",
                                 "--run.overwrite=true", ranks=ranks, expect=None)
            self.assert_one_error(process, status, *parts)

    def module(self, norm_mean=0.0):
        """Two features, batch norm and a layer, and its file."""
        network = torch.nn.Sequential(collections.OrderedDict(
            bn1=torch.nn.BatchNorm1d(2), fc=torch.nn.Linear(2, 2)))
        network.bn1.running_mean[1] = norm_mean
        return self.graph(network)

    def graph(self, network):
        return {"model.kind": "graph",
                "model.path": write_graph(network, torch.rand(2), self.path("network.graph"))}

    def incomes(self):
        rows = "".join(f"{20000 + 700 * i},{20 + i % 50},s{i % 4},{i % 3 % 2}\n" for i in range(120))
        return {"data.kind": "csv", "data.client-column": "site", "federation.clients": None,
                "federation.samples": None,
                "data.path": self.write("incomes.csv", "income,age,site,label\n" + rows)}

    def test_buffers_of_features_that_are_not_scaled(self):
        self.check_error("bn1.running_var moves by ", "the sum takes ", "client 's", "round 1",
                  "its features reach 1.0", "data.standardize", "group norm",
                  **self.module(), **self.incomes())
        self.train(self.job({**self.module(), **self.incomes(), "data.standardize": "all",
                             "sampler.per-round": 4}), "scaled")

    def test_features_that_are_not_scaled(self):
        self.check_error("the update of a client is not finite or above", "client.lr", "data.standardize",
                  "its features reach", places=(None,), **self.incomes(), **{"client.lr": 1e4})

    def test_models_that_are_not_finite_at_the_start(self):
        self.check_error("not finite before the first round", "bn1.running_mean has 1 value of 2",
                  "the first nan", "network.graph", status=2, **self.module(math.nan),
                  **self.incomes(), **{"data.standardize": "all"})

    def test_models_without_a_loss(self):
        """Finite parameters, and outputs that are none: no step of a client is to blame."""
        network = torch.nn.Sequential(torch.nn.Linear(2, 2))
        with torch.no_grad():
            network[0].weight.fill_(3e38)
        process = self.hanse("run", self.job({
            "sampler.per-round": 4, **self.incomes(), **self.graph(network)}),
            f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(process, 1, "the model that a client has received has a loss of nan",
                              "before it trains", "round 1")
        self.assertNotIn("client.lr", process.errors()[0])

    def test_large_features_are_named_in_both_precisions(self):
        """Such features make the loss of the received model infinite, or that of the first step."""
        lines = [f"{i % 3},{'3e38' if i == 7 else i % 5},{i % 2}" for i in range(30)]
        path = self.write("large.csv", "\n".join(["who,a,y", *lines]) + "\n")
        for precision in ("float32", "bfloat16"):
            job = self.job({"data.kind": "csv", "data.path": path, "data.client-column": "who",
                            "data.label-column": "y", "data.classes": None,
                            "federation.clients": None, "federation.samples": None,
                            "data.test-fraction": 0, "sampler.kind": "full",
                            "sampler.per-round": None, "model.precision": precision})
            process = self.hanse("run", job, f"--run.out={self.path(precision)}", expect=None)
            self.assert_one_error(process, 1, "round 1", "its features reach 3e+38")

    def test_steps_of_the_server(self):
        self.check_error("the model that the clients have received is not finite", "round 2", "server.lr",
                  **{"server.lr": 1e38, "server.optimizer": "sgd", "client.lr": 100})

    def test_a_rule_whose_step_is_not_finite(self):
        """Its factor is 0 / 0: nobody's update, nor the server's rate, is to blame."""
        changes = {"aggregator.kind": "qfedavg", "aggregator.lipschitz": 5e-324}
        self.check_error("aggregator.kind's step has a factor of nan", "round 1", "aggregator's keys",
                         **changes)
        run = self.train(self.job(changes), "stop", changes={"run.on-divergence": "stop"})
        self.assertEqual(harness.summary(run)["diverged"]["round"], 1)

    def test_cross_entropy(self):
        self.check({"client.lr": 1e38}, "round 1")

    def test_squared_error(self):
        self.check({"data.classes": 0, "model.loss": "squared-error", "client.lr": 0.4}, None)

    def test_network(self):
        self.check({"model.kind": "lenet", "data.shape": "1,32,32", "client.lr": 1e30}, "round 1")


if __name__ == "__main__":
    harness.main()
