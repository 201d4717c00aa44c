"""What cmake --install puts under a prefix works there, and where the prefix is moved to."""

import os
import re
import shutil
import subprocess
import sys

import harness

SCRIPT = """
import hanse
run = hanse.run({options!r}, ranks=2, progress=False)
print(hanse.find_program(), run.summary["model_digest"])
"""
PLUGIN = """
cmake_minimum_required(VERSION 3.18)
project(rule LANGUAGES C)
find_package(hanse 0.9 REQUIRED)
add_library(superquantile MODULE {source})
target_link_libraries(superquantile PRIVATE hanse::plugin)
"""

OTHER = 65534  # the user nobody
SRUN = """ranks=$SLURM_NTASKS
while [[ $1 == --* ]]; do
  [[ $1 != --ntasks=* ]] || ranks=${1#*=}
  shift
done
exec mpirun -n "$ranks" "$@"
"""


class Install(harness.Case):
    def setUp(self):
        super().setUp()
        self.build = os.path.dirname(harness.program())
        before = os.umask(0o077)  # who installs keeps what he makes for himself
        try:
            self.say("cmake", "--install", self.build, "--prefix", self.path("first"))
        finally:
            os.umask(before)
        os.rename(self.path("first"), self.path("moved"))

    def say(self, *command, cwd=None, **environment):
        """What it prints, without a word of the build in its environment."""
        done = subprocess.run(command, cwd=cwd or self.folder, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL,
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
        parts = (self.check_runs, self.check_scripts, self.check_pages, self.check_manual,
                 self.check_plugin, self.check_another_user)
        for part in parts:
            with self.subTest(part=part.__name__):
                part()
        found = subprocess.run(["grep", "-rlF", self.build, self.installed()], capture_output=True,
                               text=True)
        self.assertEqual(found.stdout, "", "these files name the build's folder")
        with self.subTest(part="uninstall"):
            self.check_uninstall()

    def check_runs(self):
        """A file for Python, which needs every library, alone and on ranks."""
        changes = {"model.kind": "transformer", "data.shape": "9", "data.tokens": 11,
                   "data.classes": 11, "run.rounds": 2, "run.state-dict": "true"}
        job = self.job(changes)
        here = self.train(job, "here")
        program = self.installed("bin", "hanse")
        self.say(program, "run", job, f"--run.out={self.path('there')}")
        self.assert_digest(self.path("there"), here)
        self.say(self.installed("lib", "hanse", "mpirun"), "-n", "3", program, "run", job,
                 f"--run.out={self.path('ranks')}")
        self.assert_digest(self.path("ranks"), here)
        options = {**harness.SMALL_JOB, **changes, "run.out": self.path("python")}
        said = self.say(sys.executable, "-c", SCRIPT.format(options=options),
                        PYTHONPATH=self.installed("lib", "python3", "dist-packages"))
        self.assertEqual(said.split(), [os.path.realpath(program), harness.digest(here)])

    def check_scripts(self):
        self.say(self.installed("bin", "hanse-sweep"), self.job(), "--set", "client.lr=0.1,0.2",
                 "--seeds", "1", "--out", self.path("sweep"))
        self.assertEqual(len(harness.table(self.path("sweep"), "runs.csv")), 2)
        self.assertIn("heart", self.say(self.installed("bin", "hanse-reproduce")))
        self.assertIn("berka", self.say(self.installed("bin", "hanse-fetch-data")))
        # Commands have the names that they have here.
        self.assertIn("takes 1 minute on 2 cores: hanse-reproduce heart",
                      self.say(self.installed("bin", "hanse-reproduce"), "heart", "--quick"))
        asked = subprocess.run([self.installed("bin", "hanse-reproduce"), "berka"], text=True,
                               capture_output=True, cwd=self.folder)
        self.assertIn("hint: hanse-fetch-data berka says where", asked.stderr)

    def check_another_user(self):
        """Who may write nothing of it, in a folder of his own: jobs find their data, the scripts of
        Slurm the program and each other, and what comes of it is in that folder."""
        home = self.path("home")
        os.mkdir(home)
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("no setpriv, by which root becomes another user")
            os.chmod(self.folder, 0o755)
            os.chown(home, OTHER, OTHER)
            return self.check_use(home, "setpriv", f"--reuid={OTHER}", f"--regid={OTHER}",
                                  "--clear-groups")
        self.say("chmod", "-R", "a-w", self.installed())
        try:
            self.check_use(home)
        finally:
            self.say("chmod", "-R", "u+w", self.installed())

    def check_use(self, home, *as_other):
        tools = os.path.join(home, "bin")
        path = f"{tools}:{self.installed('bin')}:{self.installed('lib/hanse')}:/usr/bin:/bin"

        def say(*command, **environment):
            return self.say(*as_other, *command, cwd=home, HOME=home, PATH=path, **environment)

        jobs = self.installed("share/hanse/jobs")
        before = self.files()
        for job in ("heart-aaggff-s", "heart-920", "heart-second-order", "plug-and-play", "cosine"):
            said = say("hanse", "run", f"{jobs}/{job}.cfg", "--run.rounds=2")
            self.assertIn(f"runs/{job}", said)
        self.assertIn(os.path.realpath(self.installed("share/hanse/data/heart/heart.csv")),
                      harness.text(f"{home}/runs/heart-aaggff-s/job.cfg"))
        # A job that is not here is one of the installation's.
        said = say("hanse", "check", "jobs/heart-920.cfg")
        self.assertIn("heart-920", said)
        self.assertIn("an installation, in " + os.path.realpath(self.installed()),
                      say("hanse", "--version"))
        say("hanse-plot", "runs/heart-920")
        said = say("hanse-reproduce", "heart", "--quick")
        self.assertTrue(os.path.exists(f"{home}/runs/reproduce-heart-quick/table.csv"), said)
        self.check_job_scripts(say, tools, jobs, home)
        self.assertEqual(self.files(), before)

    def files(self):
        """Of the installation, without what Python keeps of its sources where root runs it."""
        found = subprocess.run(["find", self.installed(), "-not", "-path", "*__pycache__*"],
                               capture_output=True, text=True, check=True)
        return sorted(found.stdout.splitlines())

    def check_job_scripts(self, say, tools, jobs, home):
        """With an srun that starts as many ranks as it is asked for."""
        os.mkdir(tools)
        for name, text in (("srun", SRUN), ("scontrol", "")):
            self.write(f"{tools}/{name}", f"#!/bin/bash\n{text}")
            os.chmod(f"{tools}/{name}", 0o755)
        slurm = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
        for script in ("one-node", "several-nodes"):
            say("bash", f"{jobs}/{script}.sbatch", f"{jobs}/heart-aaggff-s.cfg", "--run.rounds=2",
                **slurm)
            self.assert_digest(f"{home}/runs/heart-aaggff-s-7", f"{home}/runs/heart-aaggff-s")
            shutil.rmtree(f"{home}/runs/heart-aaggff-s-7")
        said = say("bash", f"{jobs}/bench-scaling.sbatch", f"{jobs}/heart-aaggff-s.cfg",
                   "--run.rounds=2", **slurm)
        self.assertIn("runs/scaling-heart-aaggff-s/scaling.csv", said)

    def check_pages(self):
        page = self.installed("share/man/man1/hanse.1")
        text = self.say("man", "--warnings", "-l", page) if shutil.which("man") else harness.text(page)
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

    def check_manual(self):
        """Every link of a page leads to a file there, and the environment module to the prefix."""
        share = self.installed("share", "hanse")
        pages = [os.path.join(folder, name) for folder, _, names in os.walk(share)
                 for name in names if name.endswith(".md")]
        self.assertGreater(len(pages), 25)
        for page in pages:
            text = re.sub(r"^```.*?^```", "", harness.text(page), flags=re.DOTALL | re.MULTILINE)
            for link in re.findall(r"\]\(([^()#:\s]+)", re.sub(r"`[^`\n]*`", "", text)):
                if link.startswith("http"):
                    continue
                where = os.path.join(os.path.dirname(page), link)
                self.assertTrue(os.path.exists(where), f"{page}: {link}")
        self.assertTrue(os.path.exists(os.path.join(share, "LICENSE")))
        self.assertIn(f'local folder = "{self.path("first")}"',
                      harness.text(os.path.join(share, "jobs/modules/hanse.lua")))

    def check_uninstall(self):
        """Every file goes, and every folder but those with files of others."""
        self.say("cmake", "--install", self.build, "--prefix", self.path("again"))
        mine = self.write("again/share/hanse/jobs/.mine", "")
        self.say("cmake", "--build", self.build, "--target", "uninstall")
        found = self.say("find", self.path("again"), "-not", "-type", "d")
        self.assertEqual(found.split(), [os.path.realpath(mine)])
        os.remove(mine)
        self.say("cmake", "--install", self.build, "--prefix", self.path("again"))
        self.say("cmake", "--build", self.build, "--target", "uninstall")
        self.assertFalse(os.path.exists(self.path("again")))

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


class BesideTheJob(harness.Case):
    """A job's data that are not in the current folder."""

    def test_data_in_the_jobs_folder_and_beside_it(self):
        table = "a,label\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(20))
        changes = {"data.kind": "csv", "data.path": "my/table.csv", "data.label-column": "label",
                   "model.kind": "linear", "federation.clients": 2, "sampler.kind": "full"}
        os.makedirs(self.path("p/jobs/my"))
        os.makedirs(self.path("p/my"))
        os.makedirs(self.path("my"))
        job = self.job(changes, "p/jobs/job.cfg")
        for place in ("p/my", "p/jobs/my", "my"):  # each goes before those that are there already
            path = self.write(f"{place}/table.csv", table)
            run = self.train(job, "run-" + place.replace("/", "-"))
            kept = harness.text(os.path.join(run, "job.cfg"))
            self.assertIn("path = " + ("my/table.csv" if place == "my" else
                                       os.path.realpath(self.path(path))), kept)
            self.hanse("resume", run, "--run.rounds=15")

    def test_data_that_are_nowhere(self):
        job = self.job({"data.kind": "csv", "data.path": "my/table.csv"})
        where = f"my/table.csv, looked for in {os.path.realpath(self.folder)} (data.path)"
        self.assertIn("no such file or folder: " + where,
                      self.hanse("run", job, expect=2).stderr())


if __name__ == "__main__":
    harness.main()
