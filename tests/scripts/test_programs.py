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
