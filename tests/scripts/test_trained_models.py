"""Modules of PyTorch, trained by the program from their files, end where plain torch ends."""
import contextlib
import io
import sys
import unittest

from support import SCRIPTS, ScriptTest

sys.path.insert(0, str(SCRIPTS / "python"))
import hanse  # noqa: E402
from hanse.program import find_program  # noqa: E402

try:
    import fedavg
    import operators
    import torch
    import zoo
    from trained_models import Task, differences
    find_program()
except (ImportError, hanse.Refused) as error:
    raise unittest.SkipTest(f"no torch, or no program: {error}") from None

CLOSE = 1e-6


class TrainedTest(ScriptTest):
    def trained(self, name, **changes):
        """A task, and what the program makes of it."""
        torch.manual_seed(2)
        module, sample, more = {**zoo.ZOO, **operators.OPERATORS}[name]()
        folder = self.folder / name
        folder.mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            keys = hanse.export(module, sample, folder / "model", **more)
        task = Task(name, module, sample, **more)
        return task, task.run(keys, 0.05, folder, **changes)

    def test_graphs(self):
        """Batch norm, masks, recurrence, positions and pixels with labels, targets, two classes,
        frozen weights; names of the state dict are the module's."""
        for name in ("lenet", "cnn", "lstm", "encoder", "unet", "regression", "recommender",
                     "mlp-frozen"):
            with self.subTest(name):
                task, found = self.trained(name)
                self.assertLess(max(differences(found, task.reference(0.05))), CLOSE)
                self.assertEqual(sorted(found[0]), sorted(task.module.state_dict()))

    def test_graphs_of_less_common_operators(self):
        for name in operators.OPERATORS:
            with self.subTest(name):
                task, found = self.trained(name)
                self.assertLess(max(differences(found, task.reference(0.05))), CLOSE)

    def test_passes_have_orders_and_masks_of_their_own(self):
        """Masks of five numbers stand before others."""
        task, found = self.trained("mlp-stochastic-depth", **{"client.epochs": 2, "client.batch": 5})
        own = {"epochs": 2, "batch": 5}
        self.assertLess(max(differences(found, task.reference(0.05, **own))), CLOSE)
        for other in ({"seed": 2}, {"batch": 4}, {"epochs": 1}, {"masks": AllKept}):
            changed = task.reference(0.05, **{**own, **other})
            self.assertGreater(min(differences(found, changed)), 1e-5, other)


class AllKept(fedavg.HanseMasks):
    def kept(self, like, p=0.5):
        return torch.ones(like.shape)

    def uniform(self, sizes):
        return torch.ones(sizes)


if __name__ == "__main__":
    unittest.main()
