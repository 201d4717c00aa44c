"""scripts/pack-gpu-test in a made-up repository, whose programs only pretend: what another machine
unpacks and runs, and how large it may be."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from support import SCRIPTS, ScriptTest

ROOT = SCRIPTS.parent
TESTS = ("client/test_cohort", "client/test_cohort_losses", "protocol/test_cohort_rounds",
         "protocol/test_cohort_sinks", "protocol/test_cohort_versions", "protocol/test_device_server",
         "model/test_device_sum", "model/test_device_updates", "model/test_device_model",
         "model/test_network_gradient")
TOOLS = ("bash", "sh", "tar", "python3", "dirname", "find", "cat", "hostname", "mkdir", "rmdir", "env")
LIBRARY = "/lib/x86_64-linux-gnu/libz.so.1"
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


@unittest.skipUnless(shutil.which("ompi_info") and pathlib.Path(LIBRARY).exists(), "no Open MPI")
class GpuPackTest(ScriptTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(SCRIPTS, self.folder / "scripts")
        for name in ("tests/system", "tests/bench", "tests/scripts", "jobs"):
            shutil.copytree(ROOT / name, self.folder / name)
        self.site = self.folder / ".venv-cuda/lib/python3/site-packages"
        self.write(".venv-cuda/lib/python3/site-packages/torch/version.py",
                   "__version__ = '2.11.0+cu130'\n")
        self.write(".venv-cuda/lib/python3/site-packages/torch/__init__.py", "raise SystemExit(9)\n")
        self.write("build-cuda/hanse", '#!/bin/sh\necho "$LD_LIBRARY_PATH"\n').chmod(0o755)
        shutil.copy("/bin/true", self.folder / "build-cuda/hanse-bench-device")
        self.write("build-cuda/lib/mpirun", '#!/bin/sh\nopenmpi=none\nexec "$openmpi" "$@"\n')
        for test in TESTS:
            path = self.folder / "build-cuda/tests" / test
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/true", path)
        for name in ("hanse.so", "hanse-openmpi.so", "hanse-bench-device.so", "hanse-torch.so"):
            shutil.copy(LIBRARY, self.folder / "build-cuda/lib" / name)

    def pack(self):
        return subprocess.run([self.folder / "scripts/pack-gpu-test"], text=True, timeout=120,
                              capture_output=True, stdin=subprocess.DEVNULL)

    def test_is_unpacked_without_xz_and_runs(self):
        packed = self.pack()
        self.assertEqual(packed.returncode, 0, packed.stderr)
        there, tools = self.folder / "there", self.folder / "tools"
        there.mkdir()
        tools.mkdir()
        for tool in TOOLS:
            (tools / tool).symlink_to(shutil.which(tool, path="/usr/bin:/bin"))
        shutil.move(self.folder / "build-cuda/gpu-test.tar.xz", there)
        (self.folder / "build-cuda").rename(self.folder / "away")
        words = [line.strip() for line in packed_help().splitlines()
                 if "tarfile" in line or "gpu-test/run" in line]
        command = " ".join(words).replace("FOLDER", "out --rehearse --only environment")
        result = subprocess.run(["/bin/bash", "-c", command], cwd=there, text=True, timeout=120,
                                capture_output=True, env={"PATH": str(tools), "TMPDIR": str(there),
                                                          "PYTHONPATH": str(self.site)})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("xz", result.stderr)  # tar looked for it
        found = json.loads((there / "out/trial.json").read_text())["environment"]["found"]
        libraries = found["hanse"][0].split(":")
        self.assertEqual(libraries[:3], [str(there / "gpu-test/program/lib"),
                                         str(there / "gpu-test/lib"), str(self.site / "torch/lib")])
        self.assertEqual(sorted(os.listdir(there / "out")), ["trial.json", "trial.md"])
        self.check_another_torch(there, tools)

    def check_another_torch(self, there, tools):
        self.write(".venv-cuda/lib/python3/site-packages/torch/version.py", "__version__ = '2.9.1'\n")
        for found in ("2.9.1", "none"):
            result = subprocess.run([there / "gpu-test/run"], text=True, capture_output=True,
                                    env={"PATH": str(tools), "PYTHONPATH": str(self.site)})
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"built with PyTorch 2.11.0, and python3 finds {found}; hint", result.stderr)
            (tools / "python3").unlink(missing_ok=True)  # the next time there is none

    def test_what_git_tracks_counts(self):
        with open(self.folder / "large", "wb") as file:
            file.truncate(62 << 20)
        for words in (["init", "--quiet"],
                      ["update-index", "--add", "--cacheinfo", f"100644,{EMPTY_BLOB},large"]):
            subprocess.run(["git", *words], cwd=self.folder, check=True)
        result = self.pack()
        self.assert_one_line_error(result, "the pack has ", f"what git tracks {62 << 20}, more than",
                                   "hint")
        self.assertFalse((self.folder / "build-cuda/gpu-test.tar.xz").exists())


def packed_help():
    result = subprocess.run([SCRIPTS / "pack-gpu-test", "--help"], text=True, capture_output=True)
    return result.stdout


if __name__ == "__main__":
    unittest.main()
