"""The commands of the wheel: hanse, hanse-mpirun, and the scripts as an installation names them. In the
wheel this file is hanse_program/__init__.py; bin, lib and share beside it are an installation's."""
import os
import pathlib
import runpy
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXTRAS = {"matplotlib": "plots", "pandas": "tables", "scipy": "studies", "numpy": "python",
          "h5py": "python", "torch": "torch"}


def start(program, *words):
    os.environ.setdefault("HANSE_PYTHON", sys.executable)  # of rules in Python
    os.execv(program, [str(program), *words, *sys.argv[1:]])


def hanse():
    start(HERE / "bin" / "hanse")


def status():
    start(HERE / "bin" / "hanse", "status")


def mpirun():
    start(HERE / "lib" / "hanse" / "mpirun")


def script():
    """The script that this command is named after: hanse-plot is scripts/plot."""
    name = pathlib.Path(sys.argv[0]).name.removeprefix("hanse-")
    path = HERE / "share" / "hanse" / "scripts" / name
    sys.path.insert(0, str(path.parent))
    sys.argv[0] = str(path)
    try:
        runpy.run_path(str(path), run_name="__main__")
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        print(f"hanse-{name}: {error.name} is missing; "
              f"hint: pip install 'hanse[{EXTRAS[error.name]}]'", file=sys.stderr)
        return 2
