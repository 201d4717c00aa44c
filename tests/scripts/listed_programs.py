#!/usr/bin/python3
"""Makes a folder of links to the programs that a bare Debian has after scripts/setup.

  tests/scripts/listed_programs.py FOLDER

They are those of the packages that scripts/setup lists, of what these packages depend on, and of the
packages that every Debian has; and the programs without which tests say that they are skipped. With
PATH=FOLDER a test that calls any other program fails here, as it would there. Prints the PATH that
tests should have: FOLDER, or today's where dpkg has not installed all that setup lists.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = [pathlib.Path(folder) for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin")]
OPTIONAL = ("chromium", "chromium-browser", "google-chrome", "man", "pdflatex", "pkg-config")
FIELDS = ("Package", "db:Status-Status", "Essential", "Priority", "Provides", "Depends", "Pre-Depends")


def listed():
    """The packages of scripts/setup without an option."""
    text = (ROOT / "scripts/setup").read_text()
    lists = re.findall(r"^(?:program|more)_packages=\((.*?)^\)", text, re.M | re.S)
    assert len(lists) == 2, "scripts/setup has other lists"
    return re.sub("#.*", "", "\n".join(lists)).split()


def names(relations):
    """The packages that a field such as Depends names, alternatives side by side."""
    return [relation.split("(")[0].split(":")[0].strip()
            for relation in re.split(r"[,|]", relations) if relation.strip()]


def installed():
    """Each installed package with its fields."""
    form = "\t".join("${%s}" % field for field in FIELDS) + "\n"
    text = subprocess.run(["dpkg-query", "-W", f"-f={form}"], check=True, text=True,
                          capture_output=True).stdout
    packages = [dict(zip(FIELDS, line.split("\t"))) for line in text.splitlines()]
    return {package["Package"]: package for package in packages
            if package["db:Status-Status"] == "installed"}


def brought(packages):
    """The names of packages that setup's list and every Debian bring, of those that are installed."""
    providers = {}
    for name, package in packages.items():
        for virtual in names(package["Provides"]):
            providers.setdefault(virtual, []).append(name)
    left = listed() + [name for name, package in packages.items()
                       if package["Essential"] == "yes" or package["Priority"] == "required"]
    found = set()
    while left:
        name = left.pop()
        if name not in packages:
            left += [one for one in providers.get(name, []) if one not in found]
        elif name not in found:
            found.add(name)
            left += names(packages[name]["Depends"]) + names(packages[name]["Pre-Depends"])
    return sorted(found)


def programs(packages):
    """The paths of the programs in these packages, and of the links by which Debian's alternatives
    name them."""
    text = subprocess.run(["dpkg-query", "-L", *packages], check=True, text=True,
                          capture_output=True).stdout
    files = {os.path.realpath(path) for path in text.splitlines()
             if os.path.dirname(path) in map(str, FOLDERS) or "/bin/" in path}
    for folder in FOLDERS:
        for path in folder.iterdir():
            if os.path.realpath(path) in files and not path.is_dir():
                yield path
    for name in OPTIONAL:
        found = shutil.which(name)
        if found:
            yield pathlib.Path(found)


def main(folder):
    packages = installed() if shutil.which("dpkg-query") else {}
    if not packages.keys() >= set(listed()):
        print(os.environ["PATH"])
        return
    folder.mkdir(parents=True)
    for path in programs(brought(packages)):
        link = folder / path.name
        if not link.is_symlink():
            link.symlink_to(path)
    print(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if len(sys.argv) == 2 else 2)
    main(pathlib.Path(sys.argv[1]))
