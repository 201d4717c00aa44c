"""What no memory holds, and what this processor lacks, is refused before it is begun: one line that
names the key, status 2. What fits takes as much memory as hanse plan says."""

import json
import os
import signal

import harness

MB = 1e6
MANY = 9223372036854775807
PAIRS = {"data.shape": "1,4,4", "data.classes": 4, "data.test-fraction": 0, "model.kind": "linear",
         "federation.samples": 2, "sampler.kind": "full", "run.rounds": 1, "evaluate.every": 0}


class Refused(harness.Case):
    def refuse(self, *parts, changes=None, verb="run", ranks=None, **limits):
        arguments = [f"--run.out={self.path('run')}"] if verb == "run" else []
        process = self.hanse(verb, self.job(changes), *arguments, ranks=ranks, expect=None,
                             **limits)
        self.assert_one_error(process, 2, *parts)
        self.assertEqual(len(process.lines()), 1, process.describe())
        self.assertFalse(os.path.isdir(self.path("run")) and os.listdir(self.path("run")))

    def test_widths_beyond_any_memory(self):
        mlp = {"model.kind": "mlp", "data.shape": "1,20,20"}
        self.refuse("model.hidden", str(MANY), verb="plan", changes={**mlp, "model.hidden": MANY})
        self.refuse("model.hidden", str(2**31), changes={**mlp, "model.hidden": 2**31})
        self.refuse("parameters take at least 3.4 TB of memory, and there are", "(model.hidden)",
                    changes={**mlp, "model.hidden": f"{2**31 - 1},3"}, ranks=2)

    def test_other_sizes_of_networks(self):
        tokens = {"data.shape": "7", "data.tokens": 11, "data.classes": 11}
        for kind, key, data in (
                ("lstm", "model.units", tokens), ("lstm", "model.embedding", tokens),
                ("lstm", "model.layers", tokens), ("lstm", "model.vocabulary", tokens),
                ("transformer", "model.embedding", tokens), ("transformer", "model.units", tokens),
                ("resnet18", "model.channels", {"data.shape": "3,8,8"})):
            with self.subTest(kind=kind, key=key):
                self.refuse(key, changes={"model.kind": kind, **data, key: 2**31 - 64},
                            address_bytes=4e9)
        self.refuse("bandit.hidden", changes={"run.protocol": "bandit", "bandit.hidden": 2**31 - 1},
                    address_bytes=4e9)

    def test_numbers_of_each_pair_of_clients(self):
        silos = {**PAIRS, "aggregator.kind": "aaggff-s"}
        self.refuse("aaggff-s needs every client", "sampler.kind = full", address_bytes=1e9,
                    changes={**silos, "sampler.kind": "uniform", "federation.clients": 20000})
        for verb in ("run", "plan"):
            self.refuse("aaggff-s of 20000 participants takes 9.6 GB", "aggregator.kind",
                        "aaggff-d", verb=verb, address_bytes=1e9,
                        changes={**silos, "federation.clients": 20000})
        self.refuse("krum of 20000 participants takes", "aggregator.kind", address_bytes=1e9,
                    changes={**silos, "aggregator.kind": "krum", "federation.clients": 20000})

    def test_kernels_that_the_processor_lacks(self):
        unknown = {"environment": {"HANSE_KERNELS": "Zen9"}}
        self.refuse("'Zen9' is no family", "HANSE_KERNELS", "Nehalem", ranks=2, **unknown)
        self.refuse("'Zen9' is no family", changes={"model.precision": "bfloat16"}, **unknown)
        for arguments in (["list"], ["plan", self.job()], ["check", self.job()]):
            self.assert_one_error(self.hanse(*arguments, expect=None, **unknown), 2, "Zen9")
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
        for name, flag in (("", "none"), ("Haswell", "avx2"), ("SkylakeX", "avx512bw"),
                           ("Cooperlake", "avx512_bf16"), ("SapphireRapids", "amx_bf16")):
            asked = self.hanse("--version", expect=None, environment={"HANSE_KERNELS": name})
            if flag in flags:
                self.assertEqual(asked.status, 0, asked.describe())
            else:
                self.assert_one_error(asked, 2, f"'{name}' is no family", "it has", "Nehalem")


@harness.measures_memory
class AsPlanned(harness.Case):
    """The greatest memory of a run, against that which its plan says."""

    def plan(self, job):
        return json.loads(self.hanse("plan", job, "--json").stdout())

    def compare(self, name, changes):
        job = self.job({**PAIRS, **changes}, name=f"{name}.cfg")
        plan = self.plan(job)
        peak = harness.summary(self.train(job, name))["peak_memory_bytes"]
        self.assertAlmostEqual(plan["peak_bytes"] / peak, 1, delta=0.15,
                               msg=f"{name}: {peak}, {plan}")
        return plan, peak

    def test_numbers_of_each_pair(self):
        for kind in ("aaggff-s", "krum", "fedmgda+", "dqn-fed"):
            with self.subTest(kind=kind):
                plan, _ = self.compare(kind, {"aggregator.kind": kind, "federation.clients": 2200})
                self.assertGreater(plan["rule_bytes"], 2 * 8 * 2200 ** 2)

    def test_evaluation_of_all_clients(self):
        clients = 200000
        few = {"sampler.kind": "uniform", "sampler.per-round": 6, "federation.clients": clients}
        plan, peak = self.compare("all", few)
        self.assertEqual(plan["scores_bytes"], 64 * clients)
        some = harness.summary(self.train(self.job({**PAIRS, **few, "evaluate.clients": 1000}),
                                        "some"))["peak_memory_bytes"]
        self.assertLess(peak, some + 64 * clients + 2 * MB)

    def test_copies_for_a_training_that_diverges(self):
        """The model, the server's and all clients' states once more."""
        changes = {"model.kind": "mlp", "model.hidden": 1000, "data.shape": "1,50,50",
                   "federation.clients": 6, "client.update": "scaffold", "run.rounds": 3,
                   "server.optimizer": "adam", "server.lr": 0.01}
        row = 4 * 2.5e6
        without = self.plan(self.job({**PAIRS, **changes}))
        self.assertNotIn("undo_bytes", without)
        plan, _ = self.compare("stop", {**changes, "run.on-divergence": "stop"})
        self.assertGreater(plan["undo_bytes"], (6 + 3) * row)
        self.assertGreater(plan["rank_bytes"] - without["rank_bytes"], 8 * row)


class Removed(harness.Case):
    def test_a_run_directory_in_mid_run(self):
        """Nothing is promised that is gone, and nothing is left in a new folder."""
        job = self.job({"run.rounds": 10000000, "checkpoint.every": 20, "evaluate.every": 0,
                        "client.steps": 3000})  # no checkpoint is under way when it is removed
        run = self.path("run")
        process = self.start("run", job, f"--run.out={run}")
        kept = os.path.join(run, "checkpoints", "round-000020.h5")
        process.wait_until(lambda: os.path.exists(kept), "a checkpoint")
        os.rename(run, self.path("gone"))  # at once, with its checkpoints
        process.signal(signal.SIGTERM)
        ended = process.wait()
        self.assertEqual(ended.status, 1, ended.describe())
        self.assertNotIn("goes on after", "".join(ended.errors()), ended.describe())
        self.assertIn("something has removed", "".join(ended.errors()), ended.describe())
        self.assertFalse(os.path.exists(os.path.join(run, "failed.txt")))


class Stop(harness.Case):
    def test_a_long_round_says_what_it_waits_for(self):
        long = self.job({"client.steps": 10**12, "sampler.per-round": 1})
        for name, changes in (("asked", {}), ("in-time", {"run.max-seconds": 1})):
            run = self.path(name)
            process = self.start("run", long, f"--run.out={run}", *harness.options(changes))
            process.wait_until(lambda: os.path.exists(os.path.join(run, "rounds.csv")), "rounds")
            if not changes:
                process.signal(signal.SIGUSR1)
            process.wait_until(lambda: "stop requested; waiting for the end of round 1, which is "
                               "in the phase training\n" in process.stderr(), "what it waits for")
            process.signal(signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    harness.main()
