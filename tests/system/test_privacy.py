"""Client-level privacy: what `hanse privacy` prints, and what private jobs refuse and say."""

import json
import math

import harness

# 1000 clients of whom 10 are expected: q is 0.01 but for 2^-53.
POISSON = {"privacy.kind": "central", "sampler.kind": "poisson", "federation.clients": 1000,
           "federation.samples": 2, "sampler.per-round": 10}
KEYS = ["epsilon", "accountant", "accountants", "delta", "noise_multiplier", "best_order", "epsilon_zcdp", "epsilon_pld",
        "sigma", "step_exponent", "sensitivity"]


class Privacy(harness.Case):
    def cost(self, changes, *arguments):
        job = self.job(changes)
        return json.loads(self.hanse("privacy", job, "--json", *arguments).stdout())


class Cost(Privacy):
    def test_epsilon_is_the_published_one(self):
        """dp-accounting 0.6.0, Renyi orders by tenths, delta 1e-5; the losses' distributions are
        rounded up, and dp-accounting's on a grid of 2e-5 are the lower bound."""
        for changes, rounds, rdp, pld in (
                ({}, 1000, 2.101365, 1.828236),
                ({"sampler.per-round": 100, "privacy.noise": 2}, 200, 3.679746, 3.359659),
                ({"sampler.kind": "full"}, 1, 4.728507, 4.377177)):
            found = self.cost({**POISSON, **changes}, f"--rounds={rounds}")
            self.assertEqual(list(found), KEYS)
            self.assertEqual((found["accountant"], found["epsilon"]), ("pld", found["epsilon_pld"]))
            by_rdp = self.cost({**POISSON, **changes, "privacy.accountant": "rdp"},
                               f"--rounds={rounds}")
            self.assertAlmostEqual(by_rdp["epsilon"], rdp, delta=2e-6)
            self.assertGreater(found["epsilon_pld"], pld)
            self.assertLess(found["epsilon_pld"], pld * 1.005)
            self.assertEqual(found["delta"], 1e-5)
            self.assertEqual(found["noise_multiplier"], changes.get("privacy.noise", 1))

    def test_fixed_numbers_of_clients_cost_what_a_replaced_one_moves(self):
        """Not the 7.951 of an accountant that forgets to double the sensitivity."""
        changes = {**POISSON, "federation.clients": 100, "sampler.kind": "uniform",
                   "privacy.adjacency": "replace", "privacy.noise": 2}
        found = self.cost(changes, "--rounds=200")
        self.assertAlmostEqual(found["epsilon"], 20.714, delta=0.01)
        self.assertEqual((found["accountant"], found["accountants"]), ("rdp", ["rdp"]))
        self.assertIsNone(found["epsilon_zcdp"])
        self.assertIsNone(found["epsilon_pld"])
        zero_out = self.cost({**changes, "privacy.adjacency": "zero-out"}, "--rounds=200")
        self.assertEqual(found["sensitivity"], 2 * zero_out["sensitivity"])

    def test_noise_beside_a_count_is_larger(self):
        """Andrew et al. 2021: a count of deviation 5 and z = 1 leave 1.005037815259212."""
        job = {**POISSON, "sampler.per-round": 100, "privacy.clip-kind": "adaptive",
               "privacy.accountant": "rdp"}
        found = self.cost(job)
        self.assertAlmostEqual(found["sigma"], 1.005037815259212, places=9)
        fixed = self.cost({**job, "privacy.clip-kind": "fixed"})
        self.assertAlmostEqual(fixed["sigma"], 1, places=9)
        self.assertAlmostEqual(found["epsilon"] / fixed["epsilon"], 1, places=4)

    def test_steps_and_sensitivity_are_those_of_the_lattice(self):
        found = self.cost({**POISSON, "privacy.clip": 0.75, "privacy.noise": 2})
        self.assertEqual(found["step_exponent"], -20)  # 2^-20 of 1.5, rounded down
        self.assertEqual(found["sensitivity"], 0.75 * 2 ** 20)
        self.assertAlmostEqual(found["sigma"], 1.5, places=9)
        coarse = self.cost({**POISSON, "privacy.clip": 0.75, "privacy.step": "2^-3"})
        self.assertEqual((coarse["step_exponent"], coarse["sensitivity"]), (-3, 6))

    def test_noise_that_meets_an_epsilon(self):
        # Composed losses lie on a grid, which leaves a little more.
        for accountant, less_by in (("rdp", 2 ** -20), ("auto", 2 ** -14)):
            changes = {**POISSON, "privacy.accountant": accountant}
            job = self.job(changes)
            found = json.loads(self.hanse("privacy", job, "--epsilon=4", "--rounds=500",
                                          "--json").stdout())
            self.assertLessEqual(found["epsilon"], 4)
            z = found["noise_multiplier"]
            less = self.cost({**changes, "privacy.noise": z - less_by}, "--rounds=500")
            self.assertGreater(less["epsilon"], 4)
            asked = {"privacy.noise": "auto", "privacy.epsilon": 4, "run.rounds": 500}
            self.assertEqual(self.cost({**changes, **asked}), found)

    def test_a_fine_step_bears_the_noise_that_an_epsilon_needs(self):
        for changes in ({}, {"privacy.unit": "sample", "federation.samples": 20,
                             "client.batch": 10}):
            found = self.cost({**POISSON, "privacy.step": "2^-20", "privacy.noise": "auto",
                               "privacy.epsilon": 4, **changes}, "--rounds=10")
            self.assertEqual(found["step_exponent"], -20)
            self.assertLessEqual(found["epsilon"], 4)

    def test_several_epsilons_are_a_line_each(self):
        job = self.job(POISSON)
        found = json.loads(self.hanse("privacy", job, "--epsilon=1,2,4", "--rounds=50,100",
                                      "--json").stdout())
        self.assertEqual([one["rounds"] for one in found], [50, 100] * 3)
        alone = [json.loads(self.hanse("privacy", job, f"--epsilon={epsilon}", "--rounds=100",
                                       "--json").stdout()) for epsilon in (1, 2, 4)]
        self.assertEqual([one["noise_multiplier"] for one in found[1::2]],
                         [one["noise_multiplier"] for one in alone])

    def test_accountants_and_correlations(self):
        for accountant in ("zcdp", "pld"):
            found = self.cost({**POISSON, "sampler.kind": "full", "privacy.accountant": accountant})
            self.assertEqual(found["epsilon"], found["epsilon_" + accountant])
        tree = {**POISSON, "sampler.kind": "cyclic", "federation.clients": 16,
                "sampler.per-round": 1, "privacy.noise": 2}
        one = self.cost(tree, "--rounds=16", "--privacy.correlation=none")
        # z is that of all rounds together: the release costs what one round would.
        whole = self.cost(tree, "--rounds=16", "--privacy.correlation=tree")
        self.assertAlmostEqual(whole["epsilon"], one["epsilon"], places=4)
        steps = 2 ** -whole["step_exponent"]
        self.assertAlmostEqual(whole["sensitivity"] / steps, math.sqrt(5), places=4)

    def test_a_table_has_a_line_a_case(self):
        job = self.job(POISSON)
        table = self.hanse("privacy", job, "--rounds=100,200,400", "--per-round=10,20",
                           "--bits").stdout()
        lines = [line.split() for line in table.splitlines()]
        head = [k for k, words in enumerate(lines) if words[0] == "rounds"][0]
        self.assertEqual([words[:2] for words in lines[head + 1:]],
                         [[t, k] for k in ("10", "20") for t in ("100", "200", "400")])
        cases = json.loads(self.hanse("privacy", job, "--rounds=100,200,400", "--per-round=10,20",
                                      "--bits", "--json").stdout())
        self.assertEqual([(one["rounds"], one["per_round"]) for one in cases],
                         [(int(words[0]), int(words[1])) for words in lines[head + 1:]])
        for words, one in zip(lines[head + 1:], cases):
            self.assertEqual(words[5], f"{one['epsilon']:.4f}")  # pld's
            self.assertEqual(int(words[-1]), one["bits"])
        # 2^b holds 8 deviations of signal and noise, in steps.
        one = cases[0]
        spread = math.sqrt(10 ** 2 / 325 + one["sigma"] ** 2) * 2 ** -one["step_exponent"]
        self.assertEqual(one["bits"], math.ceil(math.log2(8 * spread)))

    def test_a_statement_says_what_the_table_has(self):
        job = self.job(POISSON)
        for changes, parts in (
                ((), ["sets of clients are neighbours where", "with probability", "counts on these draws",
                      "discrete Gaussian", "privacy loss distributions", "no guarantee (not private: the seed is known)"]),
                (("--privacy.seed=system", "--privacy.accountant=rdp"),
                 ["Renyi", "The noise and the draws come from ChaCha20"]),
                (("--privacy.kind=distributed",), ["shares of the expected participants",
                                                   "Against the server"]),
                (("--sampler.kind=cyclic", "--privacy.correlation=banded", "--privacy.bands=2",
                  "--privacy.seed=system"),
                 ["take part in turn", "correlated over the rounds (banded)", "The noise comes from"])):
            found = json.loads(self.hanse("privacy", job, "--json", *changes).stdout())
            said = self.hanse("privacy", job, "--statement", *changes).stdout()
            self.assertEqual(len(said.splitlines()), 1)
            for part in [f"({found['epsilon']:.4f}, {found['delta']:g})",
                         f"(z = {found['noise_multiplier']:.5g})",
                         f"multiples of 2^{found['step_exponent']} ", *parts]:
                self.assertIn(part, said)
            self.assertEqual("no guarantee" in said, "--privacy.seed=system" not in changes)

    def test_what_is_assumed_is_said(self):
        job = self.job({**POISSON, "data.kind": "idx", "data.shape": None, "data.classes": None,
                        "data.path": self.path("nowhere")})
        shown = self.hanse("privacy", job, "--rounds=1000").stdout()
        self.assertIn("assumed: 1000 clients, by federation.clients, and 1000000 parameters", shown)
        self.assertIn("2.1014", shown)
        known = self.hanse("privacy", self.job(POISSON)).stdout()
        self.assertIn("1000 clients, 325 parameters", known)
        self.assertNotIn("assumed", known)

    def test_what_has_no_answer_is_an_error(self):
        job = self.job(POISSON)
        for arguments, parts in (
                (["--privacy.kind=none"], ["privacy.kind"]),
                (["--sampler.kind=full", "--per-round=3"], ["--per-round"]),
                (["--rounds=0"], ["--rounds"]),
                (["--rounds=x"], ["--rounds"]),
                (["--epsilon=0"], ["--epsilon"]),
                (["--privacy.delta=0"], ["privacy.delta"]),
                (["--privacy.noise=auto"], ["privacy.epsilon"]),
                (["--privacy.adjacency=replace"], ["poisson", "replace"]),
                (["--privacy.accountant=zcdp"], ["zcdp", "privacy.accountant"]),
                (["--privacy.mechanism=skellam"], ["variance"])):
            process = self.hanse("privacy", job, *arguments, expect=None)
            self.assert_one_error(process, 2, *parts)
        for verb in ("run", "plan", "check"):
            process = self.hanse(verb, job, "--rounds=3", expect=None)
            self.assert_one_error(process, 2, "rounds", "did you mean run.rounds?")


class Audit(Privacy):
    """What runs with and without a canary show, at confidences that chance does not fail: four
    clients, or a hundred of whom one is expected. With noise of 0.5 the two are two deviations
    apart."""

    JOB = {**POISSON, "federation.clients": 4, "sampler.kind": "full", "run.rounds": 1,
           "privacy.noise": 0.5, "privacy.delta": 1e-3, "privacy.seed": "system"}
    RARE = {**POISSON, "federation.clients": 100, "sampler.per-round": 1, "run.rounds": 1,
            "privacy.noise": 0.5, "privacy.delta": 1e-3}

    def audit(self, changes, runs, *arguments):
        return json.loads(self.hanse("audit", self.job(changes), f"--runs={runs}", "--json",
                                     "--confidence=0.999", *arguments).stdout())

    def test_a_claim_that_holds_is_not_refuted(self):
        found = self.audit(self.JOB, 400)
        self.assertEqual((found["runs"], found["accountant"]), (200, "pld"))
        self.assertEqual(found["claimed"], self.cost(self.JOB)["epsilon"])
        self.assertTrue(found["holds"])
        self.assertGreater(found["measured"], 0.3)  # and something is seen
        rare = self.audit({**self.RARE, "privacy.seed": "system"}, 100)
        self.assertTrue(rare["holds"])

    def test_a_known_draw_is_found_out(self):
        """The amplified claim is 0.37; who knows the draw sees a client with noise of 0.5."""
        job = {**self.RARE, "run.seed": self.drawing_seed()}
        found = self.audit(job, 400)
        self.assertFalse(found["holds"])
        self.assertLess(found["claimed"], 0.5)
        self.assertGreater(found["measured"], 0.8)
        said = self.hanse("audit", self.job(job), "--runs=200").stdout()
        self.assertIn("the draws are known", said)
        self.assertIn("in 1 of 1 rounds", said)
        self.assertIn("not private: the seed is known", said)
        self.assertIn("the claim does not hold", said)

    def drawing_seed(self):
        """A seed whose draw has one client alone."""
        for seed in range(1, 50):
            run = self.path(f"draw-{seed}")
            self.hanse("run", self.job({**self.RARE, "run.seed": seed}), f"--run.out={run}")
            if harness.column(run, "rounds.csv", "clients") == ["1"]:
                return seed
        self.fail("no seed draws one client")

    def test_the_trade_off_is_written(self):
        curve = self.path("curve.csv")
        self.audit(self.JOB, 40, f"--curve={curve}")
        with open(curve) as file:
            lines = [line.strip().split(",") for line in file]
        self.assertEqual(lines[0], ["threshold", "without", "with", "epsilon", "delta"])
        rates = [float(line[1]) for line in lines[1:]]
        self.assertEqual(len(rates), 40)
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertEqual(rates[-1], 0)

    def test_what_cannot_be_audited_is_refused(self):
        job = self.job(POISSON)
        for arguments, parts in ((["--privacy.kind=none"], ["privacy.kind"]),
                                 (["--runs=3"], ["--runs"]), (["--confidence=1"], ["--confidence"])):
            process = self.hanse("audit", job, *arguments, expect=None)
            self.assert_one_error(process, 2, *parts)


class Refusals(Privacy):
    """Through the whole program: the rest is in tests/kinds."""

    def refused(self, changes, *parts):
        job = self.job({**POISSON, **changes})
        for verb in ("check", "run"):
            self.assert_one_error(self.hanse(verb, job, expect=None), 2, *parts)

    def test_numbers_without_noise(self):
        self.refused({"aggregator.kind": "term"}, "term", "aggregator.kind")
        self.refused({"client.update": "scaffold"}, "scaffold")
        self.refused({"aggregator.weights": "samples"}, "aggregator.weights")
        self.refused({"aggregator.estimator": "normalized"}, "aggregator.estimator")
        self.refused({"run.protocol": "local"}, "privacy.kind = central", "federated")
        self.refused({"run.protocol": "online"}, "privacy.kind = central", "federated")

    def test_defaults_are_those_of_private_rounds(self):
        said = self.hanse("check", self.job(POISSON)).stdout()
        self.assertNotIn("ignored", said)

    def test_keys_of_privacy_are_not_ignored_silently(self):
        job = self.job({"privacy.clip": 2})
        self.assertIn("privacy.clip (privacy.kind=none)",
                      self.hanse("run", job, f"--run.out={self.path('run')}").stderr())


if __name__ == "__main__":
    harness.main()
