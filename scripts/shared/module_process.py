"""tests/bench/module_steps.py in a Python of its own, for scripts/bench and scripts/gpu-trial."""
import json
import pathlib
import subprocess

STEPS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "bench" / "module_steps.py"


class ModuleProcess:
    """Answers lines. Raises OSError where it does not run, or no more."""

    def __init__(self, python, folder, *device, environment):
        self.process = subprocess.Popen([python, "-B", STEPS, folder, *device], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=environment)
        self.told = self._answer()  # at the start

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise OSError(f"{self.process.args[0]}: {STEPS.name} ended")
        return json.loads(line)

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self._answer()

    def end(self):
        self.process.kill()
        self.process.communicate()
