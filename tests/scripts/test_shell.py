"""The shell scripts in a made-up repository: their build is left out, their program pretends."""
import os
import shutil
import signal
import subprocess
import time
import unittest

from support import SCRIPTS, ScriptTest

# Two ranks under the real mpirun. Rank 0 writes the results, or stops when SIGUSR1 reaches it.
PROGRAM = """#!/usr/bin/env bash
trap 'exit 75' USR1
for option; do
  case $option in --run.out=*) out=${option#--run.out=} ;; --test.sleep=*) sleep=1 ;; esac
done
touch "started-$OMPI_COMM_WORLD_RANK"
if [[ -n ${sleep-} ]]; then
  for ((i = 0; i < 300; ++i)); do sleep 0.1; done
fi
if [[ $OMPI_COMM_WORLD_RANK -eq 0 ]]; then mkdir -p "$out" && cp -r made/. "$out"; fi
"""


def heed_interrupts():
    """A shell cannot trap what was ignored when it began, as SIGINT is in background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def has_venv():
    """Debian has what `setup --user` asks for in a package of its own."""
    return not subprocess.run(["python3", "-c", "import venv, ensurepip"],
                              capture_output=True).returncode


class RepositoryTest(ScriptTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(SCRIPTS, self.folder / "scripts")
        self.write("scripts/build", '#!/bin/sh\necho "built $*"\n')
        self.write("build/hanse", PROGRAM).chmod(0o755)
        self.give_mpirun("build")

    def command(self, name, *arguments):
        return [self.folder / "scripts" / name, *arguments]

    def write_checks(self):
        """What scripts/test runs beside ctest and check-headers."""
        self.write("scripts/check-includes", "#!/bin/sh\n")
        self.write("tests/scripts/listed_programs.py", "import os; print(os.environ['PATH'])\n")


class QuickstartTest(RepositoryTest):
    def test_trains_and_shows(self):
        self.make_run("made")
        result = self.script(*self.command("quickstart"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("accuracy, mean of clients", result.stdout)
        self.assertIn("built --program\n", result.stdout)
        lines = result.stdout.splitlines()
        self.assertIn("scripts/build adds them", lines[-1])
        last = lines[-5:-2]
        self.assertEqual(last, [f"runs/fashion-mnist/plots/{name}.png"
                                for name in ("learning", "clients", "time")])

    def test_says_nothing_of_libtorch_where_it_is_built(self):
        self.make_run("made")
        self.write("build/lib/hanse-torch.so", "")
        result = self.script(*self.command("quickstart"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("scripts/build", result.stdout)

    def start_sleeping(self):
        process = subprocess.Popen(self.command("quickstart", "--test.sleep=1"), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=heed_interrupts)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for _ in range(300):
            if (self.folder / "started-0").exists():
                return process
            time.sleep(0.1)
        self.fail("the program was not started")

    def test_interrupt_becomes_a_checkpoint(self):
        for number, send in [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)]:
            with self.subTest(signal=number):
                process = self.start_sleeping()
                send(process.pid, number)
                out, err = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 75, out + err)
                self.assertRegex(out, r"mpirun.* build/hanse resume runs/fashion-mnist")
                (self.folder / "started-0").unlink()

    def test_failure_of_the_run(self):
        self.write("build/hanse", "#!/bin/sh\nexit 2\n")
        result = self.script(*self.command("quickstart"))
        self.assertEqual(result.returncode, 2)
        self.assertNotIn("plots:", result.stdout)

    def test_options_it_does_not_take(self):
        for option in ("--run.out=here", "--help-me", "word"):
            result = self.script(*self.command("quickstart", option))
            self.assert_one_line_error(result, option.split("=")[0], "hint")


class TestTest(RepositoryTest):
    def run_with(self, ctest, check, *options):
        """scripts/test where ctest and one of the checks end with these statuses."""
        self.write_checks()
        self.write("scripts/check-headers", f"#!/bin/sh\nexit {check}\n")
        self.write("bin/ctest", f"#!/bin/sh\necho 'ran ctest' \"$@\"\nexit {ctest}\n").chmod(0o755)
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return self.script(*self.command("test", *options, "-R", "comm"),
                           env={**os.environ, "PATH": path})

    def test_runs_everything_whatever_fails(self):
        for ctest, check, status in [(0, 0, 0), (8, 0, 1), (0, 1, 1)]:
            with self.subTest(ctest=ctest, check=check):
                result = self.run_with(ctest, check)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertRegex(result.stdout, "ran ctest .*-R comm")
                self.assertEqual("failed: C++" in result.stderr, ctest != 0)
                self.assertEqual("failed: headers" in result.stderr, check != 0)

    def test_quick(self):
        result = self.run_with(0, 1, "--quick")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "ran ctest .*-L quick -R comm")
        self.assertIn("failed: headers", result.stderr)


class EndedTest(RepositoryTest):
    """A script that is told to end ends what it has started, and what this has started."""

    def leaves_nothing(self, name, *arguments, signals=(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        for number in signals:
            with self.subTest(script=name, signal=number):
                process = subprocess.Popen(self.command(name, *arguments), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                           env={**os.environ, "PATH": path}, text=True,
                                           preexec_fn=heed_interrupts)
                self.addCleanup(process.kill)
                started = self.folder / "started"
                for _ in range(300):
                    if started.exists():
                        break
                    time.sleep(0.1)
                process.send_signal(number)
                out, _ = process.communicate(timeout=30)  # as long as anybody could still write
                self.assertEqual(process.returncode, -number, out)
                started.unlink()  # else it was not started

    def write_sleeper(self, path):
        """A program with a child, which both last longer than the test."""
        self.write(path, f"#!/bin/sh\nsleep 100 &\ntouch '{self.folder}/started'\nsleep 100\n"
                   "echo never\n").chmod(0o755)

    def test_quickstart_in_its_build(self):
        self.write_sleeper("bin/cmake")
        shutil.copy(SCRIPTS / "build", self.folder / "scripts/build")
        self.leaves_nothing("quickstart")

    def test_build(self):
        self.write("bin/cmake", "#!/bin/sh\n"
                   f"[ \"$1\" != --build ] || exec '{self.folder}/bin/sleeper'\n").chmod(0o755)
        self.write_sleeper("bin/sleeper")
        shutil.copy(SCRIPTS / "build", self.folder / "scripts/build")
        self.leaves_nothing("build")

    def test_test(self):
        self.write_checks()
        self.write_sleeper("scripts/check-headers")
        self.leaves_nothing("test")


class SetupTest(RepositoryTest):
    """setup with an apt that only remembers what it was asked for."""

    def setup_with(self, *installed, option=()):
        known = "".join(f"echo installed {package}\n" for package in installed)
        self.write("bin/dpkg-query", f"#!/bin/sh\n{known}exit 1\n").chmod(0o755)
        if not (self.folder / "bin/apt-cache").exists():  # it knows nothing yet
            self.write("bin/apt-cache", "#!/bin/sh\nexit 100\n").chmod(0o755)
        for name, last in [("apt-get", ""), ("sudo", 'exec "$@"\n')]:
            record = f'#!/bin/sh\necho {name} "$@" >> "{self.folder}/asked"\n{last}'
            self.write(f"bin/{name}", record).chmod(0o755)
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        result = self.script(*self.command("setup", *option), env={**os.environ, "PATH": path})
        asked = self.folder / "asked"
        return result, asked.read_text() if asked.exists() else ""

    def packages(self, *option):
        """Everything that setup wants, learnt from a machine that has nothing."""
        result, _ = self.setup_with(option=option)
        (self.folder / "asked").unlink()
        return result.stdout.splitlines()[0].removeprefix("setup: installing ").split()

    def test_installs_what_is_missing_only(self):
        packages = self.packages()
        self.assertIn("libtorch-dev", packages)
        result, asked = self.setup_with(*[p for p in packages if p not in ("cmake", "g++")])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("setup: installing g++ cmake\n", result.stdout)
        install = [line for line in asked.splitlines() if "apt-get install" in line]
        self.assertTrue(install[0].endswith(" g++ cmake"), asked)

    def test_the_program_alone_needs_a_part_of_it(self):
        program = self.packages("--program")
        self.assertLess(set(program), set(self.packages()))
        for package in ("libtorch-dev", "python3-torch", "python3-dev", "libgtest-dev"):
            self.assertNotIn(package, program)
        result, asked = self.setup_with(*program, option=("--program",))
        self.assertEqual((result.returncode, result.stdout, asked), (0, "", ""))

    def test_asks_for_nothing_when_all_is_there(self):
        result, asked = self.setup_with(*self.packages())
        self.assertEqual((result.returncode, result.stdout, asked), (0, "", ""))

    def test_what_a_relative_of_debian_lacks(self):
        """Its apt has no LibTorch: setup says what is missing then, and installs the rest."""
        self.write("bin/apt-cache", '#!/bin/sh\nshift 2\nfor name; do\n'
                   'case $name in *torch*) ;; *) echo "Package: $name" ;; esac\ndone\n').chmod(0o755)
        result, asked = self.setup_with()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no package libtorch-dev: no models that need LibTorch", result.stderr)
        (install,) = [line for line in asked.splitlines() if "apt-get install" in line]
        self.assertIn(" libgtest-dev ", install)
        self.assertNotIn("torch", install)

    def test_list_installs_nothing(self):
        for option in ((), ("--program",), ("--mpich",)):
            wanted = self.packages(*option)
            result, asked = self.setup_with(option=("--list", *option))
            self.assertEqual((result.returncode, asked), (0, ""), result.stderr)
            self.assertEqual(result.stdout.split()[:len(wanted)], wanted)
            self.assertEqual("libmpich-dev" in result.stdout, option == ("--mpich",))
        result, _ = self.setup_with(option=("--list", "--cuda"))
        self.assert_one_line_error(result, "--cuda", "--program")

    def test_a_second_libtorch_is_installed_once(self):
        packages = self.packages()
        self.write(".venv-torch/complete", "newest\n")
        result, asked = self.setup_with(*packages, option=("--torch",))
        self.assertEqual((result.returncode, result.stdout, asked), (0, "", ""))

    def test_user_without_the_sites_modules(self):
        result = self.script(*self.command("setup", "--user"), env={**os.environ, "CXX": "false"})
        self.assert_one_line_error(result, "C++20", "OpenBLAS", "modules", "conda")

    @unittest.skipUnless(has_venv(), "needs python3-venv, which scripts/setup does not install")
    def test_user_without_a_mirror(self):
        """A compiler that finds the site's libraries and no header of others."""
        compiler = self.write("cxx", """#!/bin/sh
case $(cat) in *Eigen*|*fmt*|*spdlog*|*json*|*xxhash*|*Random123*) exit 1 ;; esac
""")
        compiler.chmod(0o755)
        environment = {**os.environ, "CXX": str(compiler)}
        environment.pop("HANSE_DEBIAN_MIRROR", None)
        result = self.script(*self.command("setup", "--user"), env=environment)
        self.assert_one_line_error(result, "Eigen/Core", "HANSE_DEBIAN_MIRROR")
        self.assertFalse((self.folder / ".venv-user").exists())


class ClusterTest(ScriptTest):
    def test_interrupt_leaves_nothing(self):
        for number, send in [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)]:
            with self.subTest(signal=number):
                mark = str(self.folder / f"mark-{number}")
                process = subprocess.Popen(
                    [SCRIPTS / "test-cluster", "--hosts", "2", "sh", "-c",
                     f"echo started; exec tail -f '{mark}' /dev/null"],
                    text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=heed_interrupts,
                    env={**os.environ, "TMPDIR": str(self.folder)})
                self.write(f"mark-{number}", "")
                line = process.stdout.readline()
                if "skipped" in line:
                    self.skipTest(line)
                self.assertEqual(line, "started\n")
                send(process.pid, number)
                process.communicate(timeout=30)
                self.assertEqual(process.returncode, 130)
                self.assertEqual(list(self.folder.glob("hanse-*")), [])
                living = subprocess.run(["ps", "-eo", "args"], text=True, capture_output=True)
                self.assertNotIn(f"tail -f {mark}", living.stdout)
                self.assertNotIn(f"--inside {self.folder}", living.stdout)


    def test_builds_what_it_tests(self):
        """Nothing for a command; for its own tests the program and they, before the cluster starts."""
        shutil.copytree(SCRIPTS, self.folder / "scripts")
        self.write("scripts/build", "#!/bin/sh\necho \"build: $*\"; exit 3\n").chmod(0o755)
        cluster = [str(self.folder / "scripts/test-cluster"), "--hosts", "2"]
        result = self.script(*cluster, "echo", "command")
        if result.returncode == 77:
            self.skipTest(result.stdout)
        self.assertEqual((result.returncode, result.stdout), (0, "command\n"), result.stderr)
        result = self.script(*cluster, "--quick")
        self.assertEqual((result.returncode, result.stdout), (3, "build: hanse mpi_tests\n"))


class HelpTest(ScriptTest):
    def test_every_script_explains_itself(self):
        for path in sorted(SCRIPTS.iterdir()):
            if path.suffix in (".sh", ".py", ".md") or not path.is_file():  # read by others
                continue
            with self.subTest(script=path.name):
                self.assertTrue(os.access(path, os.X_OK))
                result = self.script(path.name, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(f"scripts/{path.name}", result.stdout)

    def test_unknown_option(self):
        for name in ("setup", "build", "test-cluster", "test-slurm", "test-container"):
            self.assert_one_line_error(self.script(name, "--nothing"), "--nothing", "hint")

    def test_clusters_that_cannot_be(self):
        for option, value in (("--hosts", "1"), ("--hosts", "many"), ("--rate", "fast")):
            self.assert_one_line_error(self.script("test-cluster", option, value), value, "hint")

    def test_cluster_without_its_tools(self):
        self.write("bin/bash", "").unlink()
        for tool in ("bash", "dirname", "sed", "id"):
            (self.folder / "bin" / tool).symlink_to(shutil.which(tool))
        for name, tool in (("test-cluster", "unshare"), ("test-slurm", "munged"),
                           ("test-container", "debootstrap")):
            result = self.script(name, env={"PATH": str(self.folder / "bin")})
            self.assertEqual((result.returncode, result.stderr), (77, ""))
            self.assertRegex(result.stdout, f"^{name}: skipped: no program '{tool}'")


if __name__ == "__main__":
    unittest.main()
