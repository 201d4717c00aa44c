"""Memory of a rank grows neither with its participants nor with the ranks that share the data."""

import json
import signal

import harness

MB = 1e6
DATA_BYTES = 204 * MB
BIG_DATA = {"data.shape": "1,28,28", "data.test-fraction": 0, "federation.clients": 100,
            "federation.samples": 2600, "client.steps": 1, "evaluate.every": 0}


def proportional_bytes(pid):
    """Resident memory of a process, a shared page divided among those that share it."""
    for line in harness.text(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    raise AssertionError(f"no Pss of process {pid}")


def common_bytes(pid):
    """What a process takes of memory that ranks make together, as proportional_bytes()."""
    found, counts = 0, False
    for line in harness.text(f"/proc/{pid}/smaps").splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            counts = "memfd:hanse" in line
        elif counts and first == "Pss:":
            found += 1024 * int(rest[0])
    return found


@harness.measures_memory
class Memory(harness.Case):
    def peak(self, job, out, ranks=None, **changes):
        return harness.summary(self.train(job, out, ranks, changes))["peak_memory_bytes"]

    def test_peak_of_more_ranks(self):
        job = self.job({**BIG_DATA, "run.rounds": 3})
        one = self.peak(job, "one", 1)
        four = self.peak(job, "four", 4)
        self.assertGreater(one, DATA_BYTES)
        self.assertLess(four, one + 0.25 * DATA_BYTES)

    def test_host_of_more_ranks(self):
        job = self.job({**BIG_DATA, "run.rounds": 10000000})
        used = {}
        for ranks in (1, 4):
            run = self.path(f"run-{ranks}")
            process = self.start("run", job, f"--run.out={run}", ranks=ranks)
            self.wait_for_rounds(process, run, 3)
            self.assertEqual(sorted(process.ranks()), list(range(ranks)))
            used[ranks] = sum(proportional_bytes(pid) for pid in process.ranks().values())
            process.signal(signal.SIGUSR1)
            self.assertEqual(process.wait().status, harness.STOPPED, process.describe())
        self.assertGreater(used[1], DATA_BYTES)
        # Three more copies of the data would be 612 MB, beside what three more processes take.
        self.assertLess(used[4], used[1] + 2.5 * DATA_BYTES, f"bytes on the host: {used}")

    def test_frozen_tensors_of_more_ranks(self):
        """One copy a host, and on each rank what steps form of them, as `hanse plan` says."""
        wide = {"model.kind": "mlp", "model.hidden": "2000,2000", "data.shape": "1,28,28",
                "federation.clients": 6, "sampler.kind": "full", "client.steps": 1,
                "run.rounds": 10000000, "evaluate.every": 0}
        for number, changes in enumerate(({"client.train": "fc3.*"},
                                          {"client.lora": 4, "client.lora-layers": "fc1.*"})):
            job = self.job({**wide, **changes})
            plan = json.loads(self.hanse("plan", job, "--json").stdout())
            for ranks in (1, 3):
                run = self.path(f"run-{number}-{ranks}")
                process = self.start("run", job, f"--run.out={run}", ranks=ranks)
                self.wait_for_rounds(process, run, 5)
                found = sum(common_bytes(pid) for pid in process.ranks().values())
                process.signal(signal.SIGUSR1)
                self.assertEqual(process.wait().status, harness.STOPPED, process.describe())
                self.assertAlmostEqual(found, plan["frozen_bytes"] + ranks * plan["formed_bytes"],
                                       delta=0.05 * plan["frozen_bytes"], msg=f"{changes} {ranks}")

    def test_clients(self):
        """64 bytes each beyond 2 samples of 8 bytes, at the peak, and hanse plan says so, too."""
        job = self.job({"data.shape": "1,2,2", "data.classes": 2, "data.test-fraction": 0,
                        "federation.samples": 2, "federation.partition": "iid", "client.batch": 2,
                        "sampler.per-round": 100, "run.rounds": 2, "evaluate.every": 0,
                        "evaluate.clients": 1})
        runs, plans = [], []
        for clients in (100_000, 500_000):
            changes = {"federation.clients": clients}
            runs.append(self.peak(job, f"run-{clients}", **changes))
            plan = self.hanse("plan", job, "--json", f"--federation.clients={clients}")
            plans.append(json.loads(plan.stdout())["peak_bytes"])
        used, planned = ((many - few) / 400_000 for few, many in (runs, plans))
        self.assertLess(used, 16 + 64)
        self.assertAlmostEqual(planned, used, delta=12)

    def test_started_by_a_large_process(self):
        """Its memory is not the run's."""
        large = bytearray(b"1") * int(400 * MB)
        self.assertLess(self.peak(self.job({"run.rounds": 1}), "run"), len(large) / 2)

    def test_participants(self):
        # One row has 9.5 MB; a rank that kept those of all participants would need 460 MB more.
        job = self.job({"model.kind": "mlp", "model.hidden": "3000", "data.shape": "1,28,28",
                        "federation.clients": 50, "client.steps": 1, "run.rounds": 2,
                        "evaluate.every": 0})
        for ranks in (None, 2):
            few = self.peak(job, f"few-{ranks}", ranks, **{"sampler.per-round": 2})
            many = self.peak(job, f"many-{ranks}", ranks, **{"sampler.per-round": 50})
            self.assertLess(many, few + 50 * MB)


@harness.measures_memory
class LittleRoom(harness.Case):
    """Limits of a process, as batch systems set them: it trains, or says what is missing."""

    def check(self, places, says, **changes):
        job = self.job({"run.rounds": 2, **changes})
        told = set()
        calls = [lambda i=i, ranks=ranks, limit=limit: self.hanse(
            "run", job, f"--run.out={self.path(str(i))}", ranks=ranks, expect=None, **limit)
            for i, (ranks, limit) in enumerate(places)]
        for process in harness.together(calls):
            self.assertIn(process.status, (0, 1, 2, 127), process.describe())
            if process.status == 0:
                told.add("trains")
            for line in process.errors():
                told.update(text for text in says if text in line)
        self.assertEqual(told, {"trains", *says})

    def test_address_space(self):
        self.check([(None, {"address_bytes": mb * MB}) for mb in (
            70, 85, 110, 140, 170, *range(200, 240, 4), 600)],
                   ["there is no room for 0.151 GB", "ulimit -v"])

    def test_address_space_of_ranks(self):
        self.check([(2, {"address_bytes": mb * MB}) for mb in (
            250, 300, 350, *range(460, 520, 10), 1500)],
                   ["which MPI takes", "there is no room for 0.151 GB", "ulimit -v"])

    def test_data(self):
        self.check([(None, {"data_bytes": mb * MB}) for mb in (
            40, 100, *range(134, 160, 4), 600)],
                   ["there is no room for 0.151 GB", "ulimit -d"])

    def test_address_space_of_libtorch(self):
        self.check([(None, {"address_bytes": mb * MB}) for mb in (*range(600, 820, 30), 3000)],
                   ["LibTorch cannot be loaded"], **{"run.state-dict": "true"})

    def test_threads(self):
        self.check([(None, {"address_bytes": mb * MB}) for mb in (
            400, *range(600, 700, 20), 3000)],
                   ["there is no room for 0.554 GB", "run.threads"], **{"run.threads": 4})


if __name__ == "__main__":
    harness.main()
