"""The test programs of a build, HANSE_BUILD or build/, as the loader of libraries sees them."""
import os
import pathlib
import re
import subprocess
import unittest

from support import SCRIPTS

BUILD = SCRIPTS.parent / os.environ.get("HANSE_BUILD", "build")
PROGRAMS = [path for path in sorted(BUILD.glob("tests/*/test_*"))
            if path.is_file() and os.access(path, os.X_OK)]


def lines_of(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def needed(path):
    """The libraries that it asks for, in the order of their search."""
    return [found.group(1) for line in lines_of("readelf", "-d", path)
            if (found := re.search(r"\(NEEDED\).*\[(.*)\]", line))]


def exported(path):
    """The names that a library which it loads takes from it: no copies that all may have."""
    return {line.split()[2] for line in lines_of("nm", "-D", "--defined-only", path)
            if line.split()[1] in "TDBR"}


def dynamic(path):
    """Every name that it takes from other libraries or gives them."""
    return {line.split()[-1].split("@")[0] for line in lines_of("nm", "-D", path)}


@unittest.skipUnless((BUILD / "lib/hanse.so").exists(), f"nothing is built in {BUILD}")
class LibrariesTest(unittest.TestCase):
    PROGRAM = BUILD / "lib/hanse.so"

    def test_the_program_has_no_mpi_and_each_of_its_parts_one(self):
        self.assertEqual([name for name in dynamic(self.PROGRAM) if re.match("MPI_|ompi_", name)], [])
        parts = [path for path in BUILD.glob("lib/hanse-*.so")
                 if path.stem in ("hanse-openmpi", "hanse-mpich")]
        self.assertTrue(parts)
        for path in parts:
            names = dynamic(path)
            self.assertIn("MPI_Init_thread", names)
            self.assertEqual("ompi_mpi_comm_world" in names, path.stem == "hanse-openmpi")
        for path in [self.PROGRAM, *parts, *BUILD.glob("lib/hanse-torch*.so")]:
            self.assertEqual([name for name in needed(path) if name.startswith("libmpi")], [], path)

    def test_the_bindings_of_mpi_in_cpp_are_not_needed(self):
        """Open MPI 5 has no libmpi_cxx."""
        for path in [*BUILD.glob("lib/hanse*.so"), *PROGRAMS]:
            self.assertNotIn("libmpi_cxx.so.40", needed(path), path)
            self.assertEqual([name for name in dynamic(path) if re.match("_ZT?[A-Z]*N?K?3MPI", name)],
                             [], path)

    def test_nobody_sees_hdf5(self):
        """LibTorch may bring another one. A parallel one is not needed."""
        if any(name.startswith("libhdf5") for name in needed(self.PROGRAM)):
            self.skipTest("HDF5 is a shared library here")
        self.assertEqual([name for name in dynamic(self.PROGRAM) if re.match("_?H5|hanse_hdf5", name)],
                         [])
        known = {line.split()[-1] for line in lines_of("nm", self.PROGRAM)}
        self.assertIn("H5Fopen", known)
        self.assertNotIn("H5Pset_fapl_mpio", known)


@unittest.skipUnless(PROGRAMS and (BUILD / "lib/hanse-torch.so").exists(),
                     f"nothing is built in {BUILD}")
class ProgramsTest(unittest.TestCase):
    def test_libstdcpp_is_found_before_libtorch(self):
        """libtorch.so of torch 2.11 exports some of std::filesystem, and its remove_all jumps to 0."""
        with_torch = 0
        for path in PROGRAMS:
            names = needed(path)
            torch = [i for i, name in enumerate(names) if name.startswith(("libtorch", "libc10"))]
            if torch:
                with_torch += 1
                self.assertLess(names.index("libstdc++.so.6"), torch[0], path)
        self.assertGreater(with_torch, 0)

    def test_no_program_takes_the_place_of_the_device_library(self):
        """hanse-torch.so takes what a program exports before its own: that must be the same."""
        library, program = exported(BUILD / "lib/hanse-torch.so"), exported(BUILD / "lib/hanse.so")
        self.assertTrue(any("4gpus" in name for name in library))
        for path in PROGRAMS:
            own = {name for name in exported(path) & library - program if "5hanse" in name}
            self.assertEqual(own, set(), path)

    def test_the_gpu_that_pretends_takes_places_where_it_is_asked_for(self):
        """Its functions stand in the place of the device library's, and no others: with it alone, and
        where it is loaded."""
        pretends = BUILD / "tests/lib/hanse-pretended-gpu.so"
        if not pretends.exists():
            self.skipTest("it is not built")
        places = exported(pretends)
        self.assertEqual(places - exported(BUILD / "lib/hanse-torch.so"), {"hanse_pretended_gpu"})
        self.assertEqual(len(places), 9)
        self.assertLessEqual({path.name for path in PROGRAMS if pretends.name in needed(path)},
                             {"test_pretended_gpu"})


if __name__ == "__main__":
    unittest.main()
