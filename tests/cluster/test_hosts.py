"""Runs over several hosts (scripts/test-cluster): the same model, one copy of the data a host, one
line for what is wrong with one of them, and an end when one is lost."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))

import harness  # noqa: E402

CLUSTER = os.environ["HANSE_CLUSTER"]
HOSTS = int(os.environ["HANSE_CLUSTER_HOSTS"])
ENDLESS = {"run.rounds": 10000000, "evaluate.every": 0, "checkpoint.every": 20}


def on(host, *command):
    """Runs a command on a host; returns what it prints."""
    return subprocess.run([os.path.join(CLUSTER, "remote"), f"host{host}", *command], check=True,
                          capture_output=True, text=True).stdout


class SameBits(harness.Case):
    def check(self, job, changes, ranks):
        alone = self.train(job, "alone", changes=changes)
        for count in ranks:
            run = self.train(job, f"ranks-{count}", ranks=count, changes=changes)
            self.assert_digest(run, alone, f"on {count} ranks over {HOSTS} hosts")

    def test_main_job(self):
        self.check(os.path.join(ROOT, "jobs", "fashion-mnist.cfg"), {"run.rounds": 3},
                   (2, HOSTS, 2 * HOSTS))

    def test_client_states_and_resume_on_fewer_hosts(self):
        job = self.job({"client.update": "scaffold", "run.rounds": 12})
        straight = self.train(job, "straight")
        run = self.train(job, "run", ranks=HOSTS, changes={"run.rounds": 7})
        self.hanse("resume", run, "--run.rounds=12", ranks=2)
        self.assert_digest(run, straight)


class Wire(harness.Case):
    """What goes over the hosts' links."""

    def received(self):
        return sum(int(count) for count in
                   re.findall(r"^ *host\d+: *(\d+)", harness.text("/proc/net/dev"), re.MULTILINE))

    def test_ranks_of_a_host_add_up_first(self):
        """Short messages too: twice the ranks send no more over the links. Of a parameter the 4
        bytes of the model travel, and the 8 of the sum, which fit into 4 to 6."""
        job = self.job({"run.rounds": 100, "data.shape": "1,28,28", "data.classes": 10,
                        "evaluate.every": 0, "server.role": "shared"})
        sent = []
        for ranks in (HOSTS, 2 * HOSTS):
            before = self.received()
            self.train(job, f"ranks-{ranks}", ranks)
            sent.append(self.received() - before)
        parameters = 100 * 7850 * (HOSTS - 1)
        self.assertGreater(sent[0], 12 * parameters)  # by MPI, which packs nothing
        self.assertLess(sent[1], 11.5 * parameters, sent)


class SharedData(harness.Case):
    def memories(self, pid):
        """Numbers of the unnamed files with the data that a rank has mapped."""
        maps = harness.text(f"/proc/{pid}/maps")
        return set(re.findall(r" (\d+) +/memfd:hanse ", maps))

    def test_one_copy_a_host(self):
        run = self.path("run")
        process = self.start("run", self.job(ENDLESS), f"--run.out={run}", ranks=2 * HOSTS)
        self.wait_for_rounds(process, run, 2)
        of_host = {}
        for rank, pid in process.ranks().items():
            uts = os.stat(f"/proc/{pid}/ns/uts").st_ino
            of_host.setdefault(uts, []).append(self.memories(pid))
        process.signal(signal.SIGUSR1)
        process.wait()
        self.assertEqual(sorted(map(len, of_host.values())), [2] * HOSTS)
        for first, second in of_host.values():
            self.assertTrue(first)
            self.assertEqual(first, second, "neighbours have data of their own")
        union = set.union(*(first for first, _ in of_host.values()))
        self.assertEqual(len(union), sum(len(first) for first, _ in of_host.values()),
                         "hosts share memory")


class Unlike(harness.Case):
    """Ranks that cannot work together: one line that says where, and all end."""

    def refuse(self, *parts, last=None, job=None):
        """`last`: the command of the last host's rank, when it is not that of the others."""
        command = [harness.program(), "run", job or self.job(), f"--run.out={self.path('run')}"]
        launch = harness.mpirun(HOSTS - 1) + command + [":", "-n", "1"] + (last or command)
        process = subprocess.run(launch, capture_output=True, text=True,
                                 stdin=subprocess.DEVNULL, timeout=harness.SECONDS_TO_END,
                                 env={**os.environ, harness.MARK: self.mark})
        errors = [line for line in process.stderr.splitlines() if line.startswith("hanse: error: ")]
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertEqual(len(errors), 1, process.stderr)
        for part in (*parts, f"[rank {HOSTS - 1} on host{HOSTS}]", "hint"):
            self.assertIn(part, errors[0])
        self.assertEqual(glob.glob(self.path("run", "*")), [])

    def test_programs(self):
        build = os.path.dirname(harness.program())
        os.makedirs(self.path("other", "lib"))
        for name in ("hanse", "lib/hanse.so", "lib/hanse-openmpi.so"):
            shutil.copy(os.path.join(build, name), self.path("other", name))
        subprocess.run(["strip", self.path("other", "lib", "hanse.so")], check=True)
        self.refuse("different programs", last=[
            "env", f"LD_LIBRARY_PATH={self.path('other', 'lib')}", self.path("other", "hanse"),
            "run", self.job(), f"--run.out={self.path('run')}"])

    def test_job_files(self):
        other = self.job({"client.lr": 0.2}, "other.cfg")
        self.refuse("different job files", last=[harness.program(), "run", other,
                                                 f"--run.out={self.path('run')}"])

    def table_job(self, *rows_of_last_host):
        """A job on a table that the last host sees with other rows, or without."""
        rows = [f"{i % 2},{i}.5,{i % 7}" for i in range(40)]
        table = self.write("data/table.csv", "\n".join(["label,x,y", *rows]) + "\n")
        folder = os.path.dirname(table)
        on(HOSTS, "mount", "-t", "tmpfs", "none", folder)
        if rows_of_last_host:
            text = "\\n".join(["label,x,y", *rows_of_last_host, *rows[len(rows_of_last_host):]])
            on(HOSTS, "printf", f"'{text}\\n'", ">", table)
        return self.job({"data.kind": "csv", "data.path": table, "data.shape": None,
                         "data.classes": None, "federation.samples": None,
                         "federation.clients": 4, "sampler.per-round": 2})

    def test_data(self):
        self.refuse("different data", job=self.table_job("0,0.25,0"))

    def test_damaged_data(self):
        self.refuse("table.csv:3", job=self.table_job("0,0.5,0", "1,one,1"))

    def test_host_without_data(self):
        self.refuse("no such file", "data.path", "table.csv", job=self.table_job())


class Lost(harness.Case):
    def start_run(self, changes=None):
        job, run = self.job({**ENDLESS, **(changes or {})}), self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=HOSTS)
        process.wait_until(lambda: len(self.checkpoints(run)) >= 2, "the second checkpoint")
        return job, run, process

    def test_rank_that_dies(self):
        job, run, process = self.start_run()
        process.signal(signal.SIGKILL, HOSTS - 1)
        self.wait_until_gone(process, "a rank dies")
        self.assertNotIn(process.status, (0, 2, harness.STOPPED), process.describe())
        self.check_goes_on(run, job, 2)

    def test_rank_that_hangs(self):
        job, run, process = self.start_run({"comm.timeout-seconds": 1})
        process.signal(signal.SIGSTOP, 1)
        self.wait_until_gone(process, "a rank hangs, comm.timeout-seconds=1")
        self.assert_one_error(process, 1, "rank 1 on host2 did not come", "round ", "hint")
        self.check_goes_on(run, job, 2)


class CutOff(harness.Case):
    """Alone, since it takes a host from everyone."""

    def test_network_of_a_host(self):
        job, run = self.job({**ENDLESS, "comm.timeout-seconds": 1}), self.path("run")
        process = self.start("run", job, f"--run.out={run}", ranks=HOSTS)
        process.wait_until(lambda: len(self.checkpoints(run)) >= 2, "the second checkpoint")
        host = f"host{HOSTS}"
        subprocess.run(["ip", "link", "set", host, "down"], check=True)
        try:
            start_s = time.monotonic()
            # mpirun itself waits for the host as long as TCP tries: about 15 minutes.
            process.wait_until(lambda: not process.ranks(), "the end of all ranks")
            print(f"{host} loses its network, comm.timeout-seconds=1: all ranks gone after "
                  f"{time.monotonic() - start_s:.2f} s", flush=True)
            for pid, _ in harness.marked(self.mark):
                harness.kill(pid)
        finally:
            subprocess.run(["ip", "link", "set", host, "up"], check=True)
        self.assertIn(f"rank {HOSTS - 1} on {host} did not come", process.stderr())
        self.check_goes_on(run, job, 2)


class FullDisk(harness.Case):
    def test_small_file_system(self):
        run = os.path.join(CLUSTER, "small", "run")
        job = self.job({**ENDLESS, "checkpoint.every": 1, "checkpoint.keep": 0,
                        "checkpoint.on-error": "stop", "model.kind": "mlp", "model.hidden": "1000"})
        process = self.start("run", job, f"--run.out={run}", ranks=2)
        self.wait_until_gone(process, "a full disk")
        self.assert_one_error(process, 1, os.path.join(run, "checkpoints"))
        last = int(self.checkpoints(run)[-1][len("round-"):-len(".h5")])
        self.assertGreater(last, 1)
        there = self.path("run")
        self.hanse("resume", run, f"--run.out={there}", f"--run.rounds={last + 2}", ranks=2)
        self.assert_digest(there, self.train(job, "straight", changes={
            "run.rounds": last + 2, "checkpoint.every": 0}))
        shutil.rmtree(run)


if __name__ == "__main__":
    harness.main()
