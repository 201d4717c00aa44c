"""Plays what soak_cases and combinations plan: runs in peace, and disturbed and resumed."""
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import tempfile
import time

from hanse.stopping import ask_to_stop, ranks_of
from shared import sweeping
from shared.digest_cases import command_of, words
from shared.run_digests import model_digest, table_digest
from shared.summaries import read_summary
from shared.sweeping import ROOT, STOPPED

RUN_SECONDS = 300
# What training itself may end by: a client's numbers, or a Newton step where there is none.
BY_A_CLIENT = re.compile(r"\(client \d+, round \d+\)|is not positive definite")


class Differs(Exception):
    """What is wrong with a case."""


def errors_of(out):
    """The lines of error of a run's last start, without the rank that said them."""
    text = out.with_suffix(".log").read_text(errors="replace")
    return [re.sub(r" \[rank \d+ on \S+\]$", "", line) for line in text.splitlines()
            if line.startswith("hanse: error: ")]


def has_moved(out):
    """Has the run written a round within RUN_SECONDS? A busy machine is slow."""
    table = out / "rounds.csv"
    return table.exists() and time.time() - table.stat().st_mtime < RUN_SECONDS


class Soak:
    """Plays plans (soak_cases). `scratch`: a folder, where those that differ stay. `again`: the option
    of scripts/soak that repeats a seed."""

    def __init__(self, program, scratch, again="--seed", environment=None):
        self.program, self.scratch, self.again = program, scratch, again
        self.environment = environment
        self.launchers_that_hung = 0

    def start(self, plan, out, ranks):
        """Begins the run, or goes on with it where there is a checkpoint."""
        if any((out / "checkpoints").glob("round-*.h5")):
            command = ["resume", str(out)]
        else:
            options = {**plan.options, "run.name": "soak", "run.out": out, "run.overwrite": "true"}
            command = ["run", str(plan.job or os.devnull), *words(options)]
        log = out.with_suffix(".log").open("a")
        log.write(f"-- {ranks} ranks: {' '.join(command)}\n")
        log.flush()
        return subprocess.Popen([*sweeping.mpirun(self.program, ranks), str(self.program),
                                 *command], cwd=ROOT, env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                start_new_session=True)

    def wait(self, process, out, ranks):
        while True:
            try:
                return process.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                if not has_moved(out):
                    break
        # PMIx's mpirun may lock itself up when a rank dies in its first moments.
        alone = ranks > 1 and not ranks_of(process.pid)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if not alone:
            raise Differs(f"no round in {RUN_SECONDS} s")
        self.launchers_that_hung += 1
        return -9

    def disturb(self, process, out, disturbance, seconds, draw):
        """`seconds`: from the start to the first round, and from there to the end."""
        before, rounds = seconds
        moment = disturbance.moment
        time.sleep(before * min(moment, 1))
        # A start may be slower than that in peace: mpirun may lock itself up when a rank dies in it.
        end = time.monotonic() + RUN_SECONDS
        while (moment >= 1 and process.poll() is None and not (out / "rounds.csv").exists()
               and time.monotonic() < end):
            time.sleep(0.01)
        time.sleep(rounds * max(moment - 1, 0))
        if disturbance.how == "stop":
            ask_to_stop(process.pid, disturbance.ranks > 1)
            return
        ranks = ranks_of(process.pid) if disturbance.ranks > 1 else [process.pid]
        if ranks and process.poll() is None:
            try:
                os.kill(int(draw.choice(ranks)), 9)
            except ProcessLookupError:
                pass

    def disturbed(self, plan, out, seconds):
        draw = random.Random(plan.seed)
        for disturbance in plan.disturbances:
            process = self.start(plan, out, disturbance.ranks)
            self.disturb(process, out, disturbance, seconds, draw)
            status = self.wait(process, out, disturbance.ranks)
            if disturbance.how == "stop" and status not in (0, STOPPED):
                raise Differs(f"status {status} after a request to stop")
        status = self.wait(self.start(plan, out, plan.last_ranks), out, plan.last_ranks)
        if status:
            raise Differs(f"status {status} of the last start")

    def peace(self, plan, out, ranks):
        """Runs it undisturbed; returns its status."""
        return self.wait(self.start(plan, out, ranks), out, ranks)

    def require_same(self, plan, out, peace, where=""):
        alone = max(1, *plan.places, plan.most_ranks()) == 1
        if model_digest(out) != model_digest(peace):
            raise Differs(f"another model{where}")
        if table_digest(out, alone) != table_digest(peace, alone):
            raise Differs(f"the same model, other tables{where}")

    def refused(self, plan, peace, folder):
        """Where all ranks' numbers are tried: refused by the same one line, before the first round."""
        if not plan.places:
            return
        if (peace / "rounds.csv").exists():
            raise Differs("status 2 behind the first round")
        self.ended(plan, peace, folder, 2)

    def ended(self, plan, peace, folder, status):
        """The same one line and status on other numbers of ranks."""
        said = errors_of(peace)
        if len(said) != 1:
            raise Differs(f"{len(said)} lines of error for status {status}")
        for ranks in plan.places:
            out = folder / f"ranks-{ranks}"
            found = self.peace(plan, out, ranks)
            if (found, errors_of(out)) != (status, said):
                raise Differs(f"on {ranks} ranks status {found}, not {status}, or another line: "
                              f"{' '.join(errors_of(out))}; and alone: {said[0]}")

    def play(self, plan):
        """Plays the plan; returns same, refused or how it failed in peace. Raises Differs."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{plan.seed}-", dir=self.scratch))
        peace, out = folder / "peace", folder / "disturbed"
        start = time.monotonic()
        status = self.peace(plan, peace, 1)
        seconds = time.monotonic() - start
        try:
            if status == 2:
                self.refused(plan, peace, folder)
                found = "refused"
            elif status != 0:
                found = self.failed(plan, peace, folder, status)
            else:
                for ranks in plan.places:
                    there = folder / f"ranks-{ranks}"
                    if status := self.peace(plan, there, ranks):
                        raise Differs(f"status {status} on {ranks} ranks")
                    self.require_same(plan, there, peace, f" on {ranks} ranks")
                setup = read_summary(peace)["setup_seconds"]
                self.disturbed(plan, out, (setup, max(0, seconds - setup)))
                self.require_same(plan, out, peace)
                found = "same"
        except Differs as differs:
            raise Differs(f"seed {plan.seed}: {differs}; {plan.text()}; it lies in {folder}; repeat "
                          f"it with scripts/soak {self.again} {plan.seed}, or its job with "
                          f"{self.command(plan)}") from None
        shutil.rmtree(folder)
        return found

    def failed(self, plan, peace, folder, status):
        """A run in peace may end by what a client or an attacker of a round sends, by one line."""
        if not plan.places:
            return "failed in peace"
        self.ended(plan, peace, folder, status)
        if status != 1 or not BY_A_CLIENT.search(errors_of(peace)[0]):
            raise Differs(f"status {status}: {errors_of(peace)[0]}")
        return "ended by a client"

    def command(self, plan):
        return shlex.join(command_of(self.program, 1, plan.job, plan.options))
