"""What cmake --install puts under a prefix works there, and where the prefix is moved to."""

import os
import shutil
import subprocess
import sys

import hanse

SCRIPT = """
import hanse
run = hanse.run({options!r}, ranks=2, progress=False)
print(hanse.find_program(), run.summary["model_digest"])
"""
PLUGIN = """
cmake_minimum_required(VERSION 3.18)
project(rule LANGUAGES C)
find_package(hanse 0.1 REQUIRED)
add_library(superquantile MODULE {source})
target_link_libraries(superquantile PRIVATE hanse::plugin)
"""


class Install(hanse.Case):
    def setUp(self):
        super().setUp()
        self.build = os.path.dirname(hanse.program())
        self.say("cmake", "--install", self.build, "--prefix", self.path("first"))
        os.rename(self.path("first"), self.path("moved"))

    def say(self, *command, **environment):
        """What it prints, without a word of the build in its environment."""
        done = subprocess.run(command, cwd=self.folder, text=True, capture_output=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": self.folder, **environment})
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def installed(self, *names):
        return self.path("moved", *names)

    def complete(self, line):
        """The words that bash offers behind the line."""
        words = line.replace("=", " = ").split() + ([""] if line[-1] in " =" else [])
        script = (f"source {self.installed('share/bash-completion/completions/hanse')}; "
                  f"compopt() {{ :; }}; COMP_WORDS=({' '.join(map(repr, words))}); "
                  f"COMP_CWORD={len(words) - 1}; _hanse hanse {words[-1]!r} {words[-2]!r}; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        return self.say("bash", "-c", script).split()

    def test_all_of_it(self):
        """One test: every part needs an installation."""
        parts = (self.check_runs, self.check_scripts, self.check_pages, self.check_plugin)
        for part in parts:
            with self.subTest(part=part.__name__):
                part()
        found = subprocess.run(["grep", "-rlF", self.build, self.installed()], capture_output=True,
                               text=True)
        self.assertEqual(found.stdout, "", "these files name the build's folder")

    def check_runs(self):
        """A network of LibTorch, which needs every library, alone and on ranks."""
        changes = {"model.kind": "transformer", "data.shape": "9", "data.tokens": 11,
                   "data.classes": 11, "run.rounds": 2}
        job = self.job(changes)
        here = self.train(job, "here")
        program = self.installed("bin", "hanse")
        self.say(program, "run", job, f"--run.out={self.path('there')}")
        self.assert_digest(self.path("there"), here)
        self.say(self.installed("lib", "hanse", "mpirun"), "-n", "3", program, "run", job,
                 f"--run.out={self.path('ranks')}")
        self.assert_digest(self.path("ranks"), here)
        options = {**hanse.SMALL_JOB, **changes, "run.out": self.path("python")}
        said = self.say(sys.executable, "-c", SCRIPT.format(options=options),
                        PYTHONPATH=self.installed("lib", "python3", "dist-packages"))
        self.assertEqual(said.split(), [os.path.realpath(program), hanse.digest(here)])

    def check_scripts(self):
        self.say(self.installed("bin", "hanse-sweep"), self.job(), "--set", "client.lr=0.1,0.2",
                 "--seeds", "1", "--out", self.path("sweep"))
        self.assertEqual(len(hanse.table(self.path("sweep"), "runs.csv")), 2)
        self.assertIn("heart", self.say(self.installed("bin", "hanse-reproduce")))

    def check_pages(self):
        page = self.installed("share/man/man1/hanse.1")
        text = self.say("man", "--warnings", "-l", page) if shutil.which("man") else hanse.text(page)
        for part in ("trains federated models", "hanse resume RUN_DIR", "client.lr=0.1"):
            self.assertIn(part, text)
        self.assertEqual(self.complete("hanse re"), ["resume", "replay"])
        self.assertEqual(self.complete("hanse run --client.lr"),
                         ["--client.lr=", "--client.lr-decay=", "--client.lr-decay-every="])
        self.assertEqual(self.complete("hanse run job.cfg --sampler.kind=adaptive-o"),
                         ["adaptive-osmd"])
        self.assertEqual(self.complete("hanse run job.cfg --run.overwrite="), ["true", "false"])
        self.assertEqual(self.complete("hanse resume run --client.ep"), [])  # it may not change
        self.assertEqual(self.complete("hanse inspect --"), ["--verify"])
        self.assertIn("samplers", self.complete("hanse list "))

    def check_plugin(self):
        """A rule in C, by find_package() and by pkg-config."""
        source = self.installed("share/hanse/jobs/own-rules/plugin/superquantile.c")
        self.write("rule/CMakeLists.txt", PLUGIN.format(source=source))
        self.say("cmake", "-S", "rule", "-B", "rule/build",
                 f"-DCMAKE_PREFIX_PATH={self.installed()}")
        self.say("cmake", "--build", "rule/build")
        if not shutil.which("pkg-config"):
            return
        flags = self.say("pkg-config", "--cflags", "hanse-plugin",
                         PKG_CONFIG_PATH=self.installed("lib", "pkgconfig")).split()
        self.say("cc", *flags, "-shared", "-fPIC", "-o", "rule.so", source)


if __name__ == "__main__":
    hanse.main()
