"""hanse plan against what a run then does: bytes and memory; times are for scripts/bench."""

import json

import harness

MB = 1e6
BIG = {"model.kind": "mlp", "model.hidden": "2000", "data.shape": "1,28,28", "client.steps": 1,
       "run.rounds": 3, "evaluate.every": 0}
LOSSES = {"aggregator.kind": "term"}
STATES = {"client.update": "scaffold"}
GRAM = {"aggregator.kind": "fedmgda+", "server.lr": 0.1}


class Plan(harness.Case):
    def plan(self, job, *options, ranks=None):
        return json.loads(self.hanse("plan", job, "--json", *options, ranks=ranks).stdout())


class Bytes(Plan):
    def last_round(self, run):
        return int(harness.column(run, "rounds.csv", "bytes_sent")[-1])

    def test_as_measured(self):
        """Of samplers whose rounds have as many participants each."""
        cases = [({}, 1), ({}, 4), (LOSSES, 3),
                 ({"comm.reduction": "fast", "server.role": "dedicated"}, 3)]
        for number, (changes, ranks) in enumerate(cases):
            with self.subTest(changes=changes, ranks=ranks):
                job = self.job(changes, name=f"job-{number}.cfg")
                plan = self.plan(job, f"--ranks={ranks}", "--hosts=1")
                run = self.train(job, f"run-{number}", ranks)
                self.assertEqual(plan["sent_bytes"], self.last_round(run))
        self.assertEqual(plan["sent_bytes"], self.plan(job, ranks=3)["sent_bytes"])

    def test_control_variates(self):
        """Beside the model, and a state that moves to another rank now and then."""
        job = self.job(STATES)
        plan = self.plan(job, ranks=2)
        run = self.train(job, "run", 2)
        self.assertEqual((self.last_round(run) - plan["sent_bytes"]) %
                         (4 * plan["parameters"]), 0)
        self.assertEqual(plan["sent_bytes"] - self.plan(self.job(), ranks=2)["sent_bytes"],
                         12 * plan["parameters"])

    def test_inner_products(self):
        """With R ranks, each sends (R - 1) / R of its updates' values. In the first round, which
        begins with the initial model, costs are in steps: as many clients a rank."""
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                job = self.job({**GRAM, "sampler.per-round": 6, "client.steps": 2,
                                "comm.dispatch": "planned"})
                plan = self.plan(job, f"--ranks={ranks}", "--hosts=1")
                run = self.train(job, f"run-{ranks}", ranks)
                sent = int(harness.column(run, "rounds.csv", "bytes_sent")[0])
                model = 4 * plan["parameters"] * (ranks - 1)
                self.assertEqual(sent - model, plan["sent_bytes"])
                self.assertGreater(plan["sent_bytes"],
                                   3 * model + 4 * 6 * plan["parameters"] * (ranks - 1) / ranks)
                self.assertGreater(plan["gram_seconds"], 0)


@harness.measures_memory
class Memory(Plan):
    def peak(self, run):
        return harness.summary(run)["peak_memory_bytes"]

    def check(self, changes, ranks, tolerance, out="run"):
        job = self.job({**BIG, **changes})
        plan = self.plan(job, ranks=ranks)
        self.assertAlmostEqual(plan["peak_bytes"], self.peak(self.train(job, out, ranks)),
                               delta=tolerance, msg=f"{changes}: {plan}")
        return plan

    def test_rows(self):
        self.check({}, None, 40 * MB)

    def test_two_ranks(self):
        self.check({}, 2, 40 * MB)

    def test_server_with_two_moments(self):
        self.check({"server.optimizer": "adam", "server.lr": 0.01}, None, 50 * MB)

    def test_states(self):
        plan = self.check({**STATES, "sampler.kind": "full"}, None, 60 * MB)
        self.assertEqual(plan["state_bytes"], 4 * 23 * plan["parameters"])

    def test_kept_updates(self):
        job = self.job({**BIG, **GRAM, "sampler.kind": "full"})
        for ranks, rows in ((1, 23), (4, 6)):
            plan = self.plan(job, f"--ranks={ranks}", "--hosts=1")
            least = 4 * plan["parameters"] * rows
            self.assertTrue(least <= plan["kept_bytes"] < least + 20 * MB, plan)
        self.check({**GRAM, "sampler.kind": "full"}, None, 60 * MB)

    def test_products_in_bfloat16(self):
        """A part of a weight is packed, which float32 does not have; never a whole layer."""
        wide, narrow = (self.check({"model.hidden": "4000,2000", "model.precision": precision}, None,
                                   60 * MB, precision) for precision in ("float32", "bfloat16"))
        more = narrow["work_bytes"] - wide["work_bytes"]
        self.assertTrue(256e3 < more < 4000 * 2000 / 4, (narrow, wide))


class Precision(Plan):
    """The products whose rates a plan has, as a run's summary has them."""

    def test_kernels_are_named(self):
        job = self.job({"model.precision": "bfloat16"})
        plain = {"environment": {"HANSE_KERNELS": "Nehalem"}}
        plan = json.loads(self.hanse("plan", job, "--json", **plain).stdout())
        self.assertEqual((plan["precision"], plan["product_kernels"]), ("bfloat16", "plain"))
        self.assertEqual(self.plan(job)["product_kernels"],
                         harness.summary(self.train(job, "run"))["product_kernels"])
        said = [line.split() for line in self.hanse("plan", job, **plain).stdout().splitlines()]
        for line in ("factors of products in bfloat16", "products measured by plain"):
            self.assertIn(line.split(), said)

    def test_float32_has_none(self):
        plan = self.plan(self.job())
        self.assertTrue({"precision", "product_kernels"}.isdisjoint(plan), plan)


class Machines(Plan):
    def test_more_ranks_have_less_to_do_and_more_to_send(self):
        job = self.job({**BIG, "federation.clients": 64, "sampler.kind": "full"})
        plans = [self.plan(job, f"--ranks={ranks}", f"--hosts={ranks}", "--cores=1",
                           "--link-gbit=1", "--latency-us=100") for ranks in (2, 8, 32)]
        self.assertEqual([plan["workers"] for plan in plans], [1, 7, 31])
        for few, many in zip(plans, plans[1:]):
            self.assertGreater(many["sent_bytes"], few["sent_bytes"])
            self.assertGreater(many["down_seconds"], few["down_seconds"])
            self.assertEqual(many["link_bytes"], few["link_bytes"])  # of a chain of hosts
        self.assertEqual(plans[0]["link_bytes"], 12 * plans[0]["parameters"])
        wire_s = 4 * plans[0]["parameters"] * 8 / 1e9
        for plan in plans:
            self.assertEqual(plan["link_gbit"], 1)
            self.assertGreater(plan["down_seconds"], wire_s)
            self.assertGreater(plan["up_seconds"], 2 * wire_s)
            parts = sum(plan[f"{name}_seconds"] for name in ("train", "exchange", "small"))
            self.assertAlmostEqual(plan["round_seconds"], parts)
            self.assertGreater(plan["exchange_seconds"], plan["up_seconds"])
            self.assertLess(plan["exchange_seconds"],
                            sum(plan[f"{name}_seconds"] for name in ("down", "up", "server")))

    def test_every_kind_of_job(self):
        self.assertIn("evaluation_seconds", self.plan(self.job({"client.update": "ditto"})))
        for changes in ({"run.protocol": "online", "online.loss-scale": 10},
                        {"run.protocol": "local"}, {"run.protocol": "centralized"}):
            self.assertIn("train_seconds", self.plan(self.job(changes), "--ranks=4"))
        bandit = self.write("bandit.cfg", "[run]\nprotocol = bandit\nrounds = 20\n"
                            "[federation]\nclients = 3\n")
        self.assertGreater(self.plan(bandit, "--ranks=2")["synchronization_bytes"], 0)

    def test_bad_machines(self):
        job = self.job()
        for option, words in (("--hosts=4", ["4 hosts", "--ranks=4"]),
                              ("--cores=0", ["cores", "out of range"]),
                              ("--link-gbit=fast", ["link-gbit", "'fast'"]),
                              ("--latency=3", ["latency"]),
                              ("--run.device=cuda", ["run.device", "--run.device=cpu"])):
            process = self.hanse("plan", job, option, ranks=2, expect=None)
            self.assert_one_error(process, 2, *words)


class Advice(Plan):
    def test_many_ranks_by_one_measurement(self):
        job = self.job({**BIG, "sampler.per-round": 6})
        advice = self.plan(job, "--advise", "--cores=2", "--link-gbit=1")
        tried = advice["tried"]
        self.assertEqual([(row["ranks"], row["hosts"]) for row in tried],
                         [(1, 1), (2, 1), (4, 2), (8, 4)])
        self.assertEqual(tried[0]["speedup"], 1)
        for row in tried:
            self.assertAlmostEqual(row["efficiency"], row["speedup"] / row["ranks"])
            self.assertGreater(row["host_bytes"], row["rank_bytes"])
        self.assertIn(advice["ranks"], [row["ranks"] for row in tried])
        self.assertLessEqual(advice["ranks"], advice["most_ranks"])
        alone = self.plan(job, "--ranks=4", "--cores=2")
        self.assertAlmostEqual(tried[2]["rank_bytes"], alone["rank_bytes"], delta=40 * MB)

    def test_in_words(self):
        said = self.hanse("plan", self.job(), "--advise", ranks=2).stdout()
        for words in ("ranks  nodes", "\nTake ", "\nWhere it ends: ", "- Participants: ",
                      "- The longest client trains for ", "\nInstead of more ranks:\n",
                      "scripts/sweep JOB --seeds "):
            self.assertEqual(said.count(words), 1, said)

    def test_what_it_is_not_for(self):
        job = self.job()
        online = self.job({"run.protocol": "online"}, name="online.cfg")
        for words, told in ((["plan", job, "--advise", "--ranks=4"], ["--advise", "--cores"]),
                            (["plan", online, "--advise"], ["rounds have participants", "--ranks"]),
                            (["run", job, "--advise"], ["advise", "hanse plan takes"])):
            self.assert_one_error(self.hanse(*words, expect=None), 2, *told)


if __name__ == "__main__":
    harness.main()
