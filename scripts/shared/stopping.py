"""Asks a run to stop after a checkpoint, once it can hear it."""
import pathlib
import re
import signal
import time

PAUSE_S = 0.05


def hears(pid):
    """The program blocks SIGUSR1 with its first step, and catches it once it can act on it; before,
    the signal would end it."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    masks = re.findall(r"^Sig(?:Blk|Cgt):\s*(\w+)", status, re.M)
    return any(int(mask, 16) >> (signal.SIGUSR1 - 1) & 1 for mask in masks)


def children(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += path.read_text().split()
        except OSError:
            pass
    return found


def ask_to_stop(process, under_mpirun):
    """`process` is the Popen of the program, or of the mpirun that passes the signal on to it."""
    while process.poll() is None:
        ranks = children(process.pid) if under_mpirun else [process.pid]
        if ranks and all(map(hears, ranks)):
            process.send_signal(signal.SIGUSR1)
            return
        time.sleep(PAUSE_S)
