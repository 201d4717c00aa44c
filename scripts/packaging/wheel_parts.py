"""What a wheel's libraries need of others, and what a machine must have for them."""
import pathlib
import re
import shutil
import subprocess
import tempfile

# Every Linux with Python has them: the list of manylinux.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libz.so.1",
          "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
OF_TORCH = ("libtorch", "libc10", "libcuda", "libcud", "libcub", "libnv", "libgomp")
NEWEST_CPP = (3, 4, 30)  # libstdc++ of GCC 12, which manylinux_2_35 and later ones have


def lines_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path):
    return lines_of("patchelf", "--print-needed", path)


def known_libraries():
    """{name: path} of this machine's libraries."""
    found = {}
    for line in lines_of("/sbin/ldconfig", "-p"):
        if match := re.match(r"\s*(\S+) \(libc6,x86-64.*\) => (\S+)", line):
            found.setdefault(*match.groups())
    return found


def names(path, which):
    """The names that a library has, or needs: which = --defined-only, --undefined-only."""
    return {line.split()[-1].split("@")[0] for line in lines_of("nm", "-D", which, path)}


def link_called(archive, library, callers, out):
    """Links `out`, in the place of `library`, from its archive, with what the callers call of it alone:
    of OpenBLAS the kernels stay as they are, LAPACK and the libraries of Fortran stay away."""
    wanted = set().union(*[names(path, "--undefined-only") for path in callers])
    called = sorted(names(library, "--defined-only") & wanted)
    with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
        script.write(f"{{ global: {' '.join(f'{name};' for name in called)} local: *; }};")
        script.flush()
        subprocess.run(["gcc", "-shared", "-o", out, f"-Wl,-soname,{out.name}",
                        f"-Wl,--version-script,{script.name}", "-Wl,--gc-sections", "-Wl,--no-undefined",
                        "-s", *[word for name in called for word in ("-u", name)], archive, "-lm",
                        "-lpthread"], check=True)


def gather(folder):
    """Copies what the libraries in `folder` need of this machine's into it; returns their names."""
    known, added = known_libraries(), []
    left = [path for path in sorted(folder.iterdir()) if is_elf(path)]
    callers = list(left)
    own = {path.name for path in left}
    while left:
        for name in needed(left.pop()):
            if name in SYSTEM or name in own or name.startswith(OF_TORCH):
                continue
            path = folder / name
            library = pathlib.Path(known[name]).resolve()
            if name.startswith("libopenblas"):
                link_called(library.with_name("libopenblas.a"), library, callers, path)
            else:
                shutil.copyfile(library, path)
            path.chmod(0o755)
            own.add(name)
            added.append(name)
            left.append(path)
    return sorted(added)


def versions(path, name):
    """The versions that it needs of GLIBC, GLIBCXX ..., as tuples of numbers."""
    text = "\n".join(lines_of("readelf", "-VW", path))
    return [tuple(map(int, found.split("."))) for found in re.findall(rf"{name}_([0-9.]+)\b", text)]


def glibc_needed(paths):
    """The oldest glibc on which they work, as (2, 35). Raises SystemExit for a newer libstdc++ than
    systems with this glibc have."""
    for path in paths:
        newest = max(versions(path, "GLIBCXX"), default=(0,))
        if newest > NEWEST_CPP:
            raise SystemExit(f"wheel: {path.name} needs GLIBCXX_{'.'.join(map(str, newest))}; "
                             "hint: build with GCC 12")
    return max(max(versions(path, "GLIBC"), default=(2, 17)) for path in paths)
