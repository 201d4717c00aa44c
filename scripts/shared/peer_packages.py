"""Packages that a script compares Hanse with, in a virtual environment."""
import subprocess
import sys


def python_with(folder, packages, *options, of_system=False):
    """The Python of an environment that has the packages, or None where they cannot be had. The folder
    is made and filled once for each list. `options` are those of pip; `of_system`: it sees the packages
    of this Python, too."""
    python, filled = folder / "bin" / "python", folder / "packages.txt"
    if filled.exists() and filled.read_text().split() == packages:
        return python
    seen = ["--system-site-packages"] if of_system else []
    for command in ([sys.executable, "-m", "venv", *seen, folder],
                    [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
                     *options, *packages]):
        if subprocess.run(command, check=False).returncode != 0:
            return None
    filled.write_text("\n".join(packages))
    return python
