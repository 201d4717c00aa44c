"""Clients trained on GPUs, where there is one: CPU results within float tolerance, the same bits
from run to run and for any number of ranks, and one clear line for what GPUs do not do."""

import os
import re

import harness

GPUS = [name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)]

JOB = {"run.rounds": 5, "run.device": "cuda", "run.ranks-per-gpu": 4, "run.device-cohort": 3,
       "model.kind": "mlp", "model.hidden": "16", "sampler.per-round": 7}


class Gpu(harness.Case):
    def setUp(self):
        super().setUp()
        if "built without CUDA" in self.hanse("--version").stdout():
            self.skipTest("a build without CUDA")

    def require_gpu(self):
        if not GPUS:
            self.assertNotIn("HANSE_REQUIRE_GPU", os.environ, "no GPU is found")
            self.skipTest("no GPU")

    def trained(self, name, ranks=None, **changes):
        job = self.job({**JOB, **{key.replace("__", "."): value for key, value in changes.items()}})
        return harness.summary(self.train(job, name, ranks))

    def test_a_host_without_gpu(self):
        if GPUS:
            self.skipTest("a host with a GPU")
        job = self.job(JOB)
        for ranks in (None, 2):
            process = self.hanse("run", job, f"--run.out={self.path('none')}", ranks=ranks,
                                 expect=None)
            self.assert_one_error(process, 2, "no GPU", "run.device", "hint")
        run = self.trained("auto", run__device="auto")
        self.assertGreater(run["metrics"]["accuracy_mean"], 0)

    def test_one_client_after_the_other(self):
        job = self.job({**JOB, "client.update": "fednew", "sampler.kind": "full"})
        said = "clients are trained one after the other on the GPU: "
        self.assertIn(said + "fednew", self.hanse("check", job).stdout())
        self.assertNotIn(said, self.hanse("check", job, "--client.update=sgd").stdout())
        self.require_gpu()
        for changes in ({"client__update": "fednew", "sampler__kind": "full"},
                        {"privacy__kind": "central", "privacy__unit": "sample"},
                        {"comm__compress": "top-k"}):
            name = "-".join(changes)
            on_gpu = self.trained(f"gpu-{name}", **changes)
            two = self.trained(f"two-{name}", 2, **changes)
            on_cpu = self.trained(f"cpu-{name}", run__device="cpu", **changes)
            self.assertEqual(on_gpu["model_digest"], two["model_digest"])
            self.assertAlmostEqual(on_gpu["metrics"]["train_loss_mean"],
                                   on_cpu["metrics"]["train_loss_mean"], places=3)

    def test_what_gpus_do_not_train(self):
        job = self.job({"run.protocol": "bandit", "run.device": "cuda"})
        process = self.hanse("run", job, f"--run.out={self.path('none')}", expect=None)
        self.assert_one_error(process, 2, "bandit", "run.protocol", "run.device = cpu")

    def test_same_bits_on_any_number_of_ranks(self):
        self.require_gpu()
        for model in ("linear", "mlp", "lenet"):
            changes = {"model__kind": model, "data__shape": "1,12,12"}
            alone = self.trained(f"{model}-alone", **changes)
            again = self.trained(f"{model}-again", **changes)
            self.assertEqual(alone["model_digest"], again["model_digest"])
            for ranks in (1, 2, 3, 4):
                run = self.trained(f"{model}-{ranks}", ranks, **changes)
                self.assertEqual(alone["model_digest"], run["model_digest"])
                self.assertEqual(alone["metrics"], run["metrics"])

    def test_same_bits_of_rules_that_need_inner_products(self):
        self.require_gpu()
        for rule in ("fedmgda+", "fedlf"):
            alone = self.trained(f"{rule}-alone", aggregator__kind=rule)
            for ranks in (1, 2, 3, 4):
                run = self.trained(f"{rule}-{ranks}", ranks, aggregator__kind=rule)
                self.assertEqual(alone["model_digest"], run["model_digest"])

    def test_other_precisions(self):
        self.require_gpu()
        changes = {"model__kind": "lenet", "data__shape": "1,12,12"}
        wide = self.trained("float32", **changes)
        for precision in ("bfloat16", "tf32"):
            run = self.trained(precision, model__precision=precision, **changes)
            again = self.trained(f"{precision}-2", 2, model__precision=precision, **changes)
            self.assertEqual(run["model_digest"], again["model_digest"])
            self.assertEqual(run["precision"], precision)
            self.assertIn("tensor cores", run["product_kernels"])
            self.assertAlmostEqual(run["metrics"]["train_loss_mean"],
                                   wide["metrics"]["train_loss_mean"], delta=0.05)
            refused = self.hanse("resume", self.path(precision), "--model.precision=float32",
                                 expect=None)
            self.assert_one_error(refused, 2, "model.precision")

    def test_tf32_is_of_gpus_alone(self):
        job = self.job({**JOB, "model.precision": "tf32"})
        for device, parts in (("cpu", ("tf32 is a format of GPUs", "model.precision")),
                              *([] if GPUS else [("auto", ("no GPU", "run.device"))])):
            process = self.hanse("run", job, f"--run.out={self.path('none')}",
                                 f"--run.device={device}", expect=None)
            self.assert_one_error(process, 2, "hint", *parts)

    def test_near_the_cpu(self):
        self.require_gpu()
        for rule in ("fedavg", "fedmgda+"):
            on_gpu = self.trained(f"gpu-{rule}", aggregator__kind=rule)
            on_cpu = self.trained(f"cpu-{rule}", aggregator__kind=rule, run__device="cpu")
            self.assertAlmostEqual(on_gpu["metrics"]["train_loss_mean"],
                                   on_cpu["metrics"]["train_loss_mean"], places=4)

    def test_more_ranks_than_allowed(self):
        self.require_gpu()
        job = self.job({**JOB, "run.ranks-per-gpu": 1})
        process = self.hanse("run", job, f"--run.out={self.path('many')}", ranks=len(GPUS) + 1,
                             expect=None)
        self.assert_one_error(process, 2, "ranks have the same GPU", "run.ranks-per-gpu", "hint")


if __name__ == "__main__":
    harness.main()
