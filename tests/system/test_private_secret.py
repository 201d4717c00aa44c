"""Whose secret the noise and the draws of private runs are, what files tell of it, and what may be
published."""

import json
import os
import stat
import struct

import h5py

import harness

BASE = {"federation.clients": 40, "federation.samples": 2, "sampler.kind": "poisson",
        "sampler.per-round": 5, "model.kind": "linear", "aggregator.kind": "fedavg",
        "privacy.kind": "central", "run.rounds": 8, "evaluate.every": 0, "checkpoint.every": 3}
SYSTEM = {**BASE, "privacy.seed": "system"}


def checkpoint(run, number):
    return os.path.join(run, "checkpoints", f"round-{number:06}.h5")


def secret(run, number):
    """The key of the round behind a checkpoint."""
    with h5py.File(checkpoint(run, number)) as file:
        return file["state/training/privacy/secret/present"][:]


def participants(run):
    return [(row["round"], row["client"]) for row in harness.table(run, "participation.csv")]


class Secrets(harness.Case):
    def run_of(self, name, changes, **others):
        return self.train(self.job({**BASE, **changes}, name=f"{name}.cfg"), name, **others)

    def test_two_runs_of_the_system_have_neither_noise_nor_draws_in_common(self):
        for name, changes in (("poisson", {}),
                              ("replace", {"sampler.kind": "uniform",
                                           "privacy.adjacency": "replace"})):
            runs = [self.run_of(f"{name}-{i}", {**SYSTEM, **changes}) for i in (1, 2)]
            self.assertNotEqual(participants(runs[0]), participants(runs[1]), name)
            self.assertNotEqual(harness.digest(runs[0]), harness.digest(runs[1]))

    def test_draws_that_do_not_amplify_keep_their_seed(self):
        changes = {**SYSTEM, "sampler.kind": "uniform", "sampler.seed": 3}
        runs = [self.run_of(f"fixed-{i}", changes) for i in (1, 2)]
        self.assertEqual(participants(runs[0]), participants(runs[1]))
        self.assertNotEqual(harness.digest(runs[0]), harness.digest(runs[1]))

    def test_what_would_tell_the_secret_is_refused(self):
        job = self.job(SYSTEM)
        for options, parts in ((["--sampler.seed=3"], ["sampler.seed", "secret"]),
                               (["--checkpoint.keep=2"], ["checkpoint.keep", "older"])):
            self.assert_one_error(self.hanse("run", job, *options, expect=None), 2, *parts)

    def test_a_known_seed_is_told(self):
        flaw = "not private: the seed is known"
        for seed in ("auto", "7"):
            run = self.path(f"known-{seed}")
            job = self.job({**BASE, "privacy.seed": seed})
            said = self.hanse("run", job, f"--run.out={run}")
            self.assertIn(f"privacy.seed = {seed}: {flaw}", said.stderr())
            self.assertRegex(said.stdout(), f"privacy +epsilon .* by pld, delta 1e-05; {flaw}")
            self.assertEqual(harness.summary(run)["privacy"]["flaw"], flaw)
            self.assertIn(flaw, self.hanse("privacy", job).stdout())
        run = self.path("unknown")
        job = self.job(SYSTEM)
        said = self.hanse("run", job, f"--run.out={run}")
        self.assertNotIn(flaw, said.stderr() + said.stdout())
        found = harness.summary(run)
        self.assertEqual(found["privacy"], {"epsilon": found["metrics"]["privacy_epsilon_pld"],
                                            "delta": 1e-5, "accountant": "pld",
                                            "accountants": ["rdp", "pld"]})
        self.assertNotIn(flaw, self.hanse("privacy", job).stdout())

    def test_no_file_of_a_run_tells_its_past(self):
        """The key of round 4 makes all noise and draws from there on. Behind round 8 no file has
        it, nor that of the last round."""
        run = self.run_of("past", {**SYSTEM, "run.rounds": 3})
        past = [secret(run, 3)]
        self.hanse("resume", run, "--run.rounds=7")
        past.append(secret(run, 7))
        self.hanse("resume", run, "--run.rounds=8")
        self.assertEqual(os.listdir(os.path.join(run, "checkpoints")), ["round-000008.h5"])
        self.assertTrue(secret(run, 8).any())
        files = [os.path.join(folder, name) for folder, _, names in os.walk(run) for name in names]
        self.assertGreater(len(files), 5)
        for file in files:
            with open(file, "rb") as opened:
                content = opened.read()
            for key in past:
                self.assertNotIn(struct.pack("<4q", *key), content, file)

    def test_correlated_noise_ends_without_a_key(self):
        for kind in ("tree", "banded", "toeplitz"):
            run = self.run_of(kind, {**SYSTEM, "sampler.kind": "cyclic", "privacy.bands": 3,
                                     "privacy.correlation": kind})
            with h5py.File(checkpoint(run, 8)) as file:
                privacy = file["state/training/privacy"]
                self.assertFalse(privacy["secret/present"][:].any())
                self.assertEqual(privacy["nodes"].shape, (0,))
                for name in ("masks", "sums") if kind != "tree" else ():
                    self.assertEqual(privacy["correlated"][name].shape, (0,))

    def test_checkpoints_of_private_runs_are_their_owners(self):
        for name, changes, mode in (("private", {}, 0o600), ("plain", {"privacy.kind": "none"}, 0o644)):
            run = self.run_of(name, changes)
            found = stat.S_IMODE(os.stat(checkpoint(run, 8)).st_mode)
            self.assertEqual(found & ~0o022, mode & ~0o022, name)

    def test_a_round_that_is_repeated_repeats_its_noise_and_its_draw(self):
        run = self.run_of("again", {**SYSTEM, "run.rounds": 3})
        copy = self.path("copy")
        self.hanse("resume", run, "--run.rounds=8", f"--run.out={copy}")
        self.hanse("resume", run, "--run.rounds=8", ranks=2)
        self.assertEqual(harness.digest(copy), harness.digest(run))
        self.assertEqual(participants(copy), participants(run))

    def test_repeats_have_noise_of_their_own(self):
        """All else is the same in them: everybody takes part, and nobody trains."""
        changes = {"sampler.kind": "full", "client.lr": 1e-30, "model.seed": 1, "data.seed": 1,
                   "client.seed": 1, "privacy.seed": 7, "run.repeats": 3}
        run = self.path("repeats")
        said = self.hanse("run", self.job({**BASE, **changes}), f"--run.out={run}").stderr()
        self.assertIn("privacy.seed = 7: the repeats have noise of their own", said)
        self.assertEqual(len(set(harness.summary(run)["model_digests"])), 3)
        self.assertIn("the seed is known", harness.summary(run)["privacy"]["flaw"])


class Publishing(harness.Case):
    def publish(self, changes, name="run", expect=0):
        run = self.train(self.job({**SYSTEM, **changes}), name)
        out = self.path(name + "-published")
        return run, out, self.hanse("publish", run, out, expect=expect)

    def test_what_may_be_published_is_copied_and_nothing_else(self):
        run, out, process = self.publish({"privacy.clip-kind": "adaptive", "privacy.count-noise": 2,
                                          "server.average": "true"})
        self.assertEqual(sorted(os.listdir(out)), ["averaged.h5", "model.h5", "rounds.csv"])
        for name in ("averaged.h5", "model.h5"):
            with open(os.path.join(run, name), "rb") as mine, \
                    open(os.path.join(out, name), "rb") as published:
                self.assertEqual(mine.read(), published.read())
        with open(os.path.join(out, "rounds.csv")) as file:
            self.assertEqual(file.readline(),
                             "round,privacy_epsilon,clip,noise_sd,clipped_share\n")
        for field in ("privacy_epsilon", "clip", "noise_sd", "clipped_share"):
            self.assertEqual(harness.column(out, "rounds.csv", field),
                             harness.column(run, "rounds.csv", field))
        self.assertIn("averaged.h5", process.stdout())
        self.assert_one_error(self.hanse("publish", run, out, expect=None), 2, "the folder is there")

    def test_of_other_runs_nothing_may_be_published(self):
        for name, changes, parts in (
                ("plain", {"privacy.kind": "none", "privacy.seed": None}, ["not private"]),
                ("known", {"privacy.seed": "auto"}, ["the seed is known"]),
                ("silent", {"privacy.noise": 0}, ["no noise"]),
                ("floats", {"privacy.mechanism": "gaussian"}, ["floating-point"]),
                ("chosen", {"run.target": "loss_mean>=0", "evaluate.every": 1}, ["run.target"]),
                ("several", {"run.repeats": 2}, ["repeats/1"])):
            _, out, process = self.publish(changes, name, expect=None)
            self.assert_one_error(process, 2, *parts)
            self.assertFalse(os.path.exists(out))
        self.assert_one_error(self.hanse("publish", "nowhere", "out", expect=None), 2,
                              "no such run directory")


class Limits(harness.Case):
    def test_a_resume_does_not_go_beyond_epsilon(self):
        job = self.job({**BASE, "privacy.noise": "auto", "privacy.epsilon": 4, "run.rounds": 4})
        run = self.train(job, "limited")
        self.assertLessEqual(harness.summary(run)["privacy"]["epsilon"], 4)
        self.assert_one_error(self.hanse("resume", run, "--run.rounds=9", expect=None), 2,
                              "privacy.epsilon = 4", "9 rounds", "privacy.max-epsilon")
        said = self.hanse("resume", run, "--run.rounds=40", "--privacy.max-epsilon=5").stderr()
        self.assertIn("a further round would exceed privacy.max-epsilon = 5", said)
        self.assertLessEqual(harness.summary(run)["privacy"]["epsilon"], 5)
        self.assertGreater(harness.summary(run)["rounds"], 4)

    def test_shares_end_at_the_epsilon_that_was_asked_for(self):
        """Whoever comes, and though nobody does."""
        job = self.job({**BASE, "privacy.kind": "distributed", "privacy.noise": "auto",
                        "privacy.epsilon": 8, "sampler.per-round": 2, "run.rounds": 20})
        for seed in (1, 2):
            run = self.train(job, f"shares-{seed}", changes={"run.seed": seed})
            clients = harness.column(run, "rounds.csv", "clients")
            self.assertIn("0", clients)
            self.assertEqual(len(clients), 20)
            epsilon = [float(value) for value in harness.column(run, "rounds.csv", "privacy_epsilon")]
            self.assertLessEqual(epsilon[-1], 8)
            self.assertGreater(epsilon[-1], 7.99)

    def test_shares_cost_what_central_noise_costs_and_the_statement_says_against_whom(self):
        job = self.job({**BASE, "privacy.noise": 2})
        def cost(*options):
            process = self.hanse("privacy", job, "--rounds=100", "--json", *options)
            return json.loads(process.stdout()), process.stderr()
        central, said = cost()
        shares, statement = cost("--privacy.kind=distributed")
        self.assertIn("the server draws the noise and knows it", said)
        self.assertIn("only the shares of those who came count", statement)
        for name in ("epsilon", "epsilon_pld", "sensitivity", "noise_multiplier"):
            self.assertEqual(shares[name], central[name])
        # A client is in 13 of 100 rounds, of which it pays each in full.
        self.assertEqual(shares["client_rounds"], 13)
        known, _ = cost("--sampler.kind=full", "--rounds=13")
        self.assertAlmostEqual(shares["epsilon_server"], known["epsilon"], places=4)
        half, statement = cost("--privacy.kind=distributed", "--privacy.honest=0.4")
        self.assertIn("honest", statement)
        self.assertEqual(half["epsilon"], central["epsilon"])
        self.assertAlmostEqual(half["sigma"], central["sigma"] * (5 / 2) ** 0.5, places=4)
        self.assertIn("honest (privacy.kind=central)",
                      self.hanse("check", job, "--privacy.honest=0.5").stdout())

    def test_a_million_rounds_are_counted_at_once(self):
        """dp-accounting: 4.692."""
        job = self.job({**BASE, "federation.clients": 100000, "federation.samples": 1,
                        "data.kind": "random", "sampler.per-round": 105, "privacy.delta": 1e-3})
        found = json.loads(self.hanse("privacy", job, "--rounds=1000000", "--json").stdout())
        self.assertAlmostEqual(found["epsilon_pld"], 4.692, delta=0.02)
        full = json.loads(self.hanse("privacy", job, "--rounds=1000000", "--sampler.kind=full",
                                     "--privacy.noise=1000", "--json").stdout())
        once = json.loads(self.hanse("privacy", job, "--rounds=1", "--sampler.kind=full",
                                     "--json").stdout())
        self.assertAlmostEqual(full["epsilon_pld"], once["epsilon_pld"], places=6)


class Audits(harness.Case):
    def test_a_resume_may_begin_to_write_what_is_not_private(self):
        run = self.train(self.job({**BASE, "run.rounds": 3}), "audited")
        self.assertEqual(set(harness.column(run, "rounds.csv", "clipped_share_exact")), {""})
        self.hanse("resume", run, "--run.rounds=6", "--privacy.audit=true")
        self.assertEqual([text != "" for text in
                          harness.column(run, "rounds.csv", "clipped_share_exact")],
                         [False] * 3 + [True] * 3)


class Silence(harness.Case):
    def table(self, canary):
        return self.write("in.csv", "label,client,x\n" + "".join(
            f"{canary if client == 0 else 0:g},c{client:02},0\n" * 2 for client in range(20)))

    def linear(self, canary, changes):
        return self.job({**BASE, "data.kind": "csv", "data.path": self.table(canary),
                         "data.task": "regression", "data.client-column": "client",
                         "data.shape": None, "data.classes": None, "federation.clients": None,
                         "federation.samples": None, "federation.partition": "by-column",
                         "data.test-fraction": 0, "model.loss": "squared-error",
                         "model.init": "zeros", **changes})

    def test_personal_tensors_of_the_shared_model_stay_where_they_began(self):
        run = self.train(self.linear(0, {"client.personal": "*bias"}), "personal")
        with h5py.File(os.path.join(run, "model.h5")) as file:
            self.assertEqual(file["fc1.bias"][0], 0)
            self.assertNotEqual(file["fc1.weight"][0], 0)

    def test_an_update_that_is_not_finite_counts_as_zero_and_nobody_is_named(self):
        run = self.path("broken")
        job = self.linear(1e38, {"sampler.kind": "full", "client.lr": 100, "client.epochs": 3})
        said = self.hanse("run", job, f"--run.out={run}").stderr()
        self.assertIn("round 1: 1 of the updates are not finite", said)
        self.assertEqual(said.count("not finite"), 1)
        self.assertNotIn("c00", said)


if __name__ == "__main__":
    harness.main()
