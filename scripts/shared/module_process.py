"""Programs of tests/bench in a Python of their own, which answer lines, for scripts/bench and
scripts/gpu-trial."""
import json
import pathlib
import selectors
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "bench"


class AnsweringProcess:
    """Raises OSError where it does not run, or no more, and TimeoutError, an OSError, where an answer
    takes longer than limit_s; it is ended then. `told` is what it says at its start."""

    def __init__(self, command, environment=None, limit_s=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        self.limit_s = limit_s
        self.told = self._answer()

    def _answer(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(self.limit_s):
                self.end()
                raise TimeoutError(f"no answer after {self.limit_s} s")
        line = self.process.stdout.readline()
        if not line:
            raise OSError(f"{' '.join(map(str, self.process.args))}: it has ended")
        return json.loads(line)

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self._answer()

    def end(self):
        self.process.kill()
        self.process.communicate()


class ModuleProcess(AnsweringProcess):
    """module_steps.py."""

    def __init__(self, python, folder, *device, environment):
        super().__init__([python, "-B", FOLDER / "module_steps.py", folder, *device], environment)
