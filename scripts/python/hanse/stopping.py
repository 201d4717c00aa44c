#!/usr/bin/env python3
"""Asks a run to stop after a checkpoint, once it can hear it.

  scripts/python/hanse/stopping.py MPIRUN      the number of mpirun's process
"""
import os
import pathlib
import re
import signal
import sys
import time

PAUSE_S = 0.05
TRIES = 5  # in a row: mpirun starts its ranks one after another


def status(pid):
    """What the system says of the process; nothing when it has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return "" if "\nState:\tZ" in text else text


def hears(pid):
    """The program blocks SIGUSR1 with its first step, and catches it once it can act on it; before,
    the signal would end it."""
    masks = re.findall(r"^Sig(?:Blk|Cgt):\s*(\w+)", status(pid), re.M)
    return any(int(mask, 16) >> (signal.SIGUSR1 - 1) & 1 for mask in masks)


def children(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += path.read_text().split()
        except OSError:
            pass
    return found


def name(pid):
    return status(pid).partition("\n")[0].removeprefix("Name:").strip()


def program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def ranks_of(mpirun):
    """The ranks that this mpirun has started, under MPICH through a proxy."""
    found = children(mpirun)
    for proxy in [pid for pid in found if name(pid) == "hydra_pmi_proxy"]:
        found.remove(proxy)
        found += children(proxy)
    return found


def ask_to_stop(pid, under_mpirun):
    """`pid` is the program's, or that of the mpirun that passes the signal on to it."""
    before, heard = [], 0
    while status(pid):
        ranks = ranks_of(pid) if under_mpirun else [pid]
        # A copy of mpirun has its handlers, and loses them when it becomes a rank.
        begun = not under_mpirun or all(program(rank) != program(pid) for rank in ranks)
        ready = ranks and ranks == before and begun and all(map(hears, ranks))
        heard = heard + 1 if ready else 0
        if heard == TRIES:
            os.kill(pid, signal.SIGUSR1)
            return
        before = ranks
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    ask_to_stop(int(sys.argv[1]), under_mpirun=True)
