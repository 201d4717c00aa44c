"""How a script begins and ends: its options, its status and its last words."""
import argparse
import os
import pathlib
import re
import signal
import sys

from hanse.errors import HanseError, Refused
from hanse.study_files import refuse_own

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]


def parser_of(text, **choices):
    """A parser of options, whose help is this text as it stands."""
    return argparse.ArgumentParser(description=text, **choices,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def read_common(words, script, who="", how=""):
    """The --section.key=value words among those that the script's argparse does not know. Refuses
    those that `who` sets for each run, see refuse_own()."""
    common = {}
    for word in words:
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals or "." not in key:
            raise Refused(f"unknown option '{word}'; hint: scripts/{script} --help")
        if who:
            refuse_own(key, who, how)
        common[key] = value
    return common


def require_positive(options, *names):
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise Refused(f"--{name} {value}: at least 1 is needed")


def slurm_time(seconds):
    """As sbatch takes it, in whole minutes: 1-02:30:00."""
    days, minutes = divmod(-(-int(seconds) // 60), 24 * 60)
    return f"{days}-{minutes // 60:02}:{minutes % 60:02}:00"


def as_called(text):
    """The text with the names of scripts where they lie: in an installation, which has no
    scripts/build, scripts/plot is hanse-plot."""
    if (SCRIPTS / "build").exists():
        return text
    return re.sub(r"scripts/([a-z-]+)", lambda name: f"hanse-{name[1]}"
                  if (SCRIPTS / name[1]).is_file() else name[0], text)


def run_script(name, main, *arguments):
    """Ends the process with the status of main(*arguments); with 2 where it or the system refuses
    something, and a line on stderr says what; with 130 after Ctrl-C. There is no complaint where the
    reader of what it prints, such as head, wants no more of it."""
    try:
        status = main(*arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush
        status = 128 + signal.SIGPIPE
    except (HanseError, OSError) as refused:
        for line in as_called(str(refused)).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    sys.exit(status)
