"""Rounds of the bench's jobs by Hanse and by others, tests/bench/peer_rounds.py, in processor time of
one pinned core; and that both compute the same."""
import math
import os
import pathlib
import resource
import subprocess
import tempfile

import h5py
import numpy as np

from hanse.errors import Failed
from hanse.folders import read_job, read_rows

from shared.module_process import FOLDER, AnsweringProcess

# Peer of peer_rounds.py: what it is called, and the packages that its Python needs.
PEERS = {"fedjax": ("FedJAX", ("fedjax",)), "scan": ("JAX, scan", ("jax",)),
         "vmap": ("JAX, vmap", ("jax",)), "torch": ("PyTorch", ("torch",)),
         "pfl": ("pfl", ("pfl", "torch"))}
ROUND_LIMIT_S = 300  # of an answer, a round and its compilation
MEASURED_S = 2.0     # of a pass: rounds are added up to it
LEAST_SAME = 1e-4    # greatest difference of a parameter after a round, or of the loss
# What is compared: the model after a round of two steps on all samples of each of three clients of one
# size, whose order then does not matter; of networks with dropout the loss of the initial model.
FEW = ["--federation.clients=3", "--federation.samples=12", "--federation.partition=iid"]
CORE = min(os.sched_getaffinity(0))
PINNED = ["taskset", "-c", str(CORE)]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
               "JAX_PLATFORMS": "cpu",
               "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"}


def packages_of(venv):
    """Those of PEERS that the folder's Python has."""
    wanted = sorted({package for _, needs in PEERS.values() for package in needs})
    code = ("import importlib.util, sys; "
            "print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name)))")
    try:
        return subprocess.run([venv / "bin" / "python", "-c", code, *wanted], check=True, text=True,
                              capture_output=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []


def pythons_of(venvs):
    """({peer: the first Python that has its packages}, a line for each peer without one)."""
    found, lacking = {}, []
    known = {venv: packages_of(venv) for venv in venvs}
    places = f"none of {', '.join(map(str, venvs))}" if venvs else "no folder, --venv names none,"
    for peer, (name, needs) in PEERS.items():
        venv = next((venv for venv in venvs if set(needs) <= set(known[venv])), None)
        if venv:
            found[peer] = venv / "bin" / "python"
        else:
            lacking.append(f"no {name}: {places} has {' and '.join(needs)}; hint: "
                           f"{venvs[0] if venvs else 'FOLDER'}/bin/pip install {' '.join(needs)}")
    return found, lacking


class Hanse:
    """Runs a job, all of whose clients take part in each round, on the pinned core."""

    def __init__(self, program, job, options, folder):
        self.folder, self.options = pathlib.Path(folder), [*options, "--evaluate.clients=1"]
        self.run_job = [*PINNED, program, "run", job, "--run.overwrite=true"]
        self.convert = [program, "convert", job, self.folder / "data.h5", "--run.overwrite=true"]

    def run(self, rounds, *options):
        """The folder of a run, and its processor seconds."""
        out, before = self.folder / "run", resource.getrusage(resource.RUSAGE_CHILDREN)
        _call([*self.run_job, f"--run.out={out}", f"--run.rounds={rounds}", *self.options, *options])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return out, sum(getattr(after, key) - getattr(before, key)
                        for key in ("ru_utime", "ru_stime"))

    def round_s(self, rounds):
        """Of a round: what `rounds` more of them take."""
        return (self.run(1 + rounds)[1] - self.run(1)[1]) / rounds

    def arrays(self, *options):
        """The job and what a peer needs of it: samples and the initial model, which a run of clients
        alone leaves as it is."""
        _call([*self.convert, *self.options, *options])
        with h5py.File(self.folder / "data.h5") as file:
            data = {"x": file["features"][:], "y": file["labels"][:], "offsets": file["offsets"][:]}
        folder, _ = self.run(1, *options, "--run.protocol=local", "--client.steps=1")
        job = read_job(folder)
        return job, {**data, "model": job["model.kind"], "lr": float(job["client.lr"]),
                     **{f"start/{name}": value for name, value in tensors_of(folder).items()}}

    def start_loss(self, *options):
        """Of the initial model over all samples."""
        folder, _ = self.run(1, *options, "--evaluate.start=true", "--evaluate.clients=0")
        return float(read_rows(folder / "evaluations.csv")[0]["loss_weighted"])


def _call(command):
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Failed(f"{' '.join(map(str, command[:6]))} ...: {lines[-1]}")


def tensors_of(folder):
    with h5py.File(folder / "model.h5") as file:
        return {name: file[name][:] for name in file if name != "row"}


def write_jobs(hanse, folder):
    """Files for peer_rounds.py: the job as it is, and a small one by which peers are compared with
    Hanse. (The clients, the steps of a round)."""
    job, arrays = hanse.arrays()
    sizes = np.diff(arrays["offsets"])
    batch, epochs = int(job["client.batch"]), int(job["client.epochs"])
    np.savez(folder / "measured.npz", **arrays, loss=math.nan, batch=batch, epochs=epochs)
    _, arrays = hanse.arrays(*FEW)
    if job["model.kind"] == "cnn-cifar":
        expected = {"loss": hanse.start_loss(*FEW)}
    else:
        after, _ = hanse.run(1, *FEW, "--client.batch=0", "--client.epochs=2")
        expected = {"loss": math.nan, **{f"expected/{name}": value
                                         for name, value in tensors_of(after).items()}}
    np.savez(folder / "compared.npz", **arrays, **expected, epochs=2,
             batch=np.diff(arrays["offsets"]).max())
    return len(sizes), int(epochs * np.ceil(sizes / batch).sum())


class Peer:
    """A process that keeps its compiled round. Raises Failed where it computes something else, and
    OSError as AnsweringProcess does."""

    def __init__(self, peer, python, folder):
        command = [*PINNED, python, "-B", FOLDER / "peer_rounds.py", peer]
        compared = AnsweringProcess([*command, folder / "compared.npz"], ENVIRONMENT, ROUND_LIMIT_S)
        try:
            self.apart = compared.ask("apart")
        finally:
            compared.end()
        if not self.apart <= LEAST_SAME:
            raise Failed(f"another result than Hanse's by {self.apart:.2g}, not {LEAST_SAME:g}")
        self.process = AnsweringProcess([*command, folder / "measured.npz"], ENVIRONMENT,
                                        ROUND_LIMIT_S)
        self.first_s = self.process.ask(1)
        self.rounds = max(1, min(2000, int(MEASURED_S / max(self.process.ask(1), 1e-4))))

    def round_s(self):
        return self.process.ask(self.rounds)

    def end(self):
        self.process.end()


def measured(program, case, pythons, passes, progress):
    """(clients, steps of a round, Hanse's seconds of a round in each pass, {peer: its own, and of its
    first round}) of a case (job file, options, rounds of Hanse); peers that fail are told and left
    out, those that take too long have None."""
    job, options, rounds = case
    with tempfile.TemporaryDirectory(prefix="hanse-bench-") as folder:
        folder = pathlib.Path(folder)
        hanse = Hanse(program, job, options, folder)
        clients, steps = write_jobs(hanse, folder)
        peers, found, ours = {}, {}, []
        try:
            for name, python in pythons.items():
                try:
                    peers[name] = Peer(name, python, folder)
                    found[name] = ([], peers[name].first_s)
                    progress(f"{name}: first round {peers[name].first_s:.1f} s, at most "
                             f"{peers[name].apart:.1g} from Hanse's")
                except TimeoutError:
                    found[name] = None
                    progress(f"{name}: a round had not ended after {ROUND_LIMIT_S} s")
                except (Failed, OSError) as error:
                    progress(f"{name}: {error}")
            for _ in range(passes):
                ours.append(hanse.round_s(rounds))
                for name, peer in peers.items():
                    found[name][0].append(peer.round_s())
        finally:
            for peer in peers.values():
                peer.end()
    return clients, steps, ours, found
