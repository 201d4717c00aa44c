"""Kinds of adapters: what moves, what is sent, and what the server makes of them."""

import json
import os

import h5py
import numpy

import harness
from test_part import MLP, tensors

ADAPTERS = {**MLP, "client.lora": 2}


def factors(run, file="model.h5"):
    """{matrix: (A, B)} of a run's model."""
    found = tensors(run, file)
    return {name[:-7]: (found[name], found[name[:-1] + "B"]) for name in found
            if name.endswith(".lora_A")}


class Kinds(harness.Case):
    def test_alpha_of_the_rank_changes_nothing(self):
        job = self.job(ADAPTERS)
        plain = self.train(job, "plain")
        same = self.train(job, "same", 2, {"client.lora-alpha": 2, "client.lora-dropout": 0,
                                           "client.lora-kind": "plain"})
        self.assert_digest(plain, same)
        self.assertNotIn("adapter_scale", h5py.File(plain + "/model.h5").attrs)

    def test_ffa_and_fedsa_are_names_of_lines(self):
        job = self.job(ADAPTERS)
        for kind, line, names in (("ffa", "client.train", "*.lora_B"),
                                  ("rolora", "client.alternate", "*.lora_B,*.lora_A"),
                                  ("fedsa", "client.personal", "*.lora_B")):
            with self.subTest(kind):
                out = {"run.out": self.path(kind), "client.lora-kind": kind}
                said = self.start("run", self.job({**ADAPTERS, **out}, kind + ".cfg")).wait()
                self.assertEqual(said.status, 0, said.describe())
                self.assertIn(f"client.lora-kind = {kind}: {line} = {names}", said.stderr())
                lines = self.train(job, kind + "-lines", 3, {line: names})
                self.assert_digest(self.path(kind), lines)

    def test_rolora_moves_one_factor_a_round(self):
        changes = {**ADAPTERS, "client.lora-kind": "rolora", "evaluate.metrics": "lora-gap"}
        alone, run = self.compare_places(changes)
        gaps = [float(gap) for gap in harness.column(run, "rounds.csv", "lora_gap")]
        self.assertLess(max(gaps), 1e-6)
        one, two, start = [factors(self.train(self.job(changes), name, changes=more)) for name, more
                           in (("one", {"run.rounds": 1}), ("two", {"run.rounds": 2}),
                               ("start", {"run.rounds": 1, "client.lr": 1e-30}))]
        for matrix, (a, b) in one.items():
            numpy.testing.assert_array_equal(a, start[matrix][0])
            numpy.testing.assert_array_equal(b, two[matrix][1])
            self.assertGreater(abs(b).max(), 0)
            self.assertGreater(abs(two[matrix][0] - a).max(), 0)

    def test_ffa_sends_b_alone_and_keeps_a(self):
        job = self.job({**ADAPTERS, "client.lora-kind": "ffa"})
        alone, run = self.compare_places(
            {**ADAPTERS, "client.lora-kind": "ffa", "client.lora-alpha": 4})
        start = self.train(job, "start", changes={"client.lr": 1e-30})
        for matrix, (a, b) in factors(run).items():
            numpy.testing.assert_array_equal(a, factors(start)[matrix][0])
            self.assertGreater(abs(b).max(), 0)
        sent = harness.summary(run)["bytes_per_round"]
        plain = harness.summary(self.train(self.job(ADAPTERS, "both.cfg"), "both", 3))
        self.assertLess(sent, plain["bytes_per_round"])

    def test_fedsa_keeps_b_and_writes_the_same_adapters(self):
        alone, run = self.compare_places({**ADAPTERS, "client.lora-kind": "fedsa",
                                          "client.lora-alpha": 4, "client.lora-scale": "root",
                                          "run.adapters": "peft"})
        self.assertEqual(harness.text(run, "clients.csv"), harness.text(alone, "clients.csv"))
        for matrix, (a, b) in factors(run).items():
            self.assertEqual(abs(b).max(), 0)  # the server has that of the start
            self.assertGreater(abs(a).max(), 0)
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            with open(f"{run}/adapters/{name}", "rb") as one, \
                    open(f"{alone}/adapters/{name}", "rb") as other:
                self.assertEqual(one.read(), other.read(), name)
        start = {**MLP, "client.lora": "auto", "model.start": alone + "/adapters"}
        again = [self.train(self.job(start, "again.cfg"), f"again-{ranks}", ranks,
                            {"run.rounds": rounds}) for ranks, rounds in ((1, 6), (2, 3))]
        self.hanse("resume", again[1], "--run.rounds=6", ranks=3)
        self.assert_digest(*again)

    def test_a_bfloat16_base_on_any_ranks(self):
        """What reads its row in one piece trains on rounded tensors."""
        changes = {**MLP, "client.train": "fc3.*", "model.base-precision": "bfloat16"}
        alone, run = self.compare_places(changes)
        for name, values in tensors(run).items():
            if name.startswith(("fc1.", "fc2.")):
                self.assertFalse((values.view("u4") & 0xffff).any(), name)
                numpy.testing.assert_array_equal(values, tensors(alone)[name])

    def test_scale_and_dropout_on_any_ranks(self):
        alone, run = self.compare_places({**ADAPTERS, "client.lora-alpha": 3,
                                          "client.lora-scale": "root", "client.lora-dropout": 0.3})
        with h5py.File(run + "/model.h5") as file:
            self.assertAlmostEqual(float(file.attrs["adapter_scale"]), 3 / 2 ** 0.5, places=6)
        self.assertIn("NAME + 2.12132", self.hanse("inspect", run + "/model.h5").stdout())

    def test_a_model_goes_on_with_its_scale_alone(self):
        first = self.train(self.job({**ADAPTERS, "client.lora-alpha": 8}), "first")
        start = first + "/model.h5"
        job = self.job({**ADAPTERS, "model.start": start, "client.lora-alpha": 4}, "next.cfg")
        self.assert_one_error(self.hanse("run", job, expect=None), 2, "scale 4, and the job's 2",
                              "client.lora-alpha")
        again = self.train(job, "again", changes={"client.lora-alpha": 8, "client.lr": 1e-30,
                                                  "evaluate.start": "true"})
        self.assertEqual(harness.column(again, "evaluations.csv", "loss_mean")[0],
                         harness.column(first, "evaluations.csv", "loss_mean")[-1])


class Gap(harness.Case):
    """The mean of products against the product of means."""

    def test_the_gap_is_told_and_changes_nothing(self):
        job = self.job(ADAPTERS)
        plain = self.train(job, "plain")
        asked = {"evaluate.metrics": "lora-gap"}
        alone, run = self.compare_places({**ADAPTERS, **asked})
        self.assert_digest(plain, run)
        gaps = [float(gap) for gap in harness.column(run, "rounds.csv", "lora_gap")]
        self.assertEqual(gaps, [float(x) for x in harness.column(alone, "rounds.csv", "lora_gap")])
        self.assertTrue(all(0 < gap < 2 for gap in gaps), gaps)
        half = self.train(job, "ffa", 2, {**asked, "client.lora-kind": "ffa"})
        self.assertLess(max(map(float, harness.column(half, "rounds.csv", "lora_gap"))), 1e-7)


class Flora(harness.Case):
    CHANGES = {**ADAPTERS, "client.lora-kind": "flora", "client.lora-alpha": 4}

    def test_the_same_matrices_on_any_ranks_and_resumed(self):
        alone, run = self.compare_places(self.CHANGES)
        for name, values in tensors(alone).items():
            numpy.testing.assert_array_equal(tensors(run)[name], values, name)
        start = self.train(self.job(self.CHANGES), "start", changes={"client.lr": 1e-30})
        for matrix, (a, b) in factors(run).items():
            self.assertGreater(abs(tensors(run)[matrix] - tensors(start)[matrix]).max(), 1e-3)
            self.assertEqual(abs(b).max(), 0)

    def test_each_round_starts_from_adapters_of_its_own(self):
        runs = [self.train(self.job(self.CHANGES), f"rounds-{n}", changes={"run.rounds": n})
                for n in (1, 2)]
        for matrix, (a, b) in factors(runs[0]).items():
            self.assertGreater(abs(factors(runs[1])[matrix][0] - a).max(), 0.01)
            self.assertEqual(abs(b).max(), 0)

    def test_one_client_is_what_it_would_merge(self):
        one = {**ADAPTERS, "client.lora-alpha": 4, "federation.clients": 1, "run.rounds": 1,
               "sampler.kind": "full"}
        plain = self.train(self.job(one), "plain", changes={"run.merge-adapters": "true"})
        start = tensors(self.train(self.job(one), "start", changes={
            "client.lr": 1e-30, "run.merge-adapters": "true"}))
        for rate in (1, 0.5):
            flora = self.train(self.job(one), f"flora-{rate}", changes={
                "client.lora-kind": "flora", "server.lr": rate})
            for matrix in factors(flora):
                step = tensors(plain)[matrix] - start[matrix]
                self.assertGreater(abs(step).max(), 1e-3)
                numpy.testing.assert_allclose(tensors(flora)[matrix], start[matrix] + rate * step,
                                              atol=2e-7)

    def test_what_else_trains_is_averaged(self):
        job = self.job({**self.CHANGES, "client.train": "fc3.*"})
        run = self.train(job, "run", 3)
        self.assert_digest(self.train(job, "alone"), run)
        self.assertNotIn("fc3.weight", factors(run))


class Sent(harness.Case):
    """What clients send, by the column bytes_updates."""

    def sizes(self, run):
        return [sum(pair[i].size for pair in factors(run).values()) for i in (0, 1)]

    def sent(self, run):
        return [int(row["bytes_updates"]) // int(row["clients"])
                for row in harness.table(run, "rounds.csv")]

    def test_the_half_that_moves(self):
        run = self.train(self.job({**ADAPTERS, "client.lora-kind": "rolora"}), "rolora")
        a, b = self.sizes(run)
        self.assertNotEqual(a, b)
        rounds = ADAPTERS["run.rounds"]
        self.assertEqual(self.sent(run), [4 * (b, a)[i % 2] for i in range(rounds)])
        plan = json.loads(self.hanse("plan", self.job({**ADAPTERS, "client.lora-kind": "rolora"}),
                                     "--json").stdout())
        self.assertEqual(plan["client_bytes"], sum(self.sent(run)) / rounds)

    def test_without_what_stays(self):
        run = self.train(self.job({**ADAPTERS, "client.lora-kind": "fedsa"}), "fedsa")
        self.assertEqual(set(self.sent(run)), {4 * self.sizes(run)[0]})


class Ranks(harness.Case):
    CHANGES = {**ADAPTERS, "client.lora": 3, "client.lora-kind": "flora", "sampler.kind": "full"}

    def ranks(self, lines, name="ranks.csv"):
        return {"client.lora-ranks": self.write(name, "client,rank\n" + "\n".join(lines) + "\n")}

    def test_clients_send_their_own(self):
        clients = harness.SMALL_JOB["federation.clients"]
        ranks = [1 + i % 3 for i in range(clients)]
        file = self.ranks([f"{i},{rank}" for i, rank in enumerate(ranks)])
        alone, run = self.compare_places({**self.CHANGES, **file})
        plain = self.train(self.job(self.CHANGES, "plain.cfg"), "plain")
        values = sum(a.size + b.size for a, b in factors(plain).values()) // 3
        for row, full in zip(harness.table(alone, "rounds.csv"), harness.table(plain, "rounds.csv")):
            self.assertEqual(int(row["bytes_updates"]), 4 * values * sum(ranks))
            self.assertEqual(int(full["bytes_updates"]), 4 * values * 3 * clients)
        self.assertNotEqual(harness.digest(alone), harness.digest(plain))
        same = self.ranks([f"{i},3" for i in range(clients)], "same.csv")
        self.assert_digest(self.train(self.job({**self.CHANGES, **same}, "same.cfg"), "same"), plain)

    def test_files_that_do_not_fit_are_refused(self):
        lines = [f"{i},2" for i in range(harness.SMALL_JOB["federation.clients"])]
        for wrong, *parts in [(lines[1:], "client 0 has no line"),
                              ([*lines, "0,1"], "a second line of this client"),
                              (["0,4", *lines[1:]], "a rank of 4 is above client.lora = 3"),
                              (["0,0", *lines[1:]], "[1, 1024]"),
                              (["0,1.5", *lines[1:]], "[1, 1024]"),
                              (["0", *lines[1:]], "a line is: client,rank")]:
            with self.subTest(wrong[0]):
                job = self.job({**self.CHANGES, **self.ranks(wrong)})
                self.assert_one_error(self.hanse("run", job, expect=None), 2, *parts)
        job = self.job({**self.CHANGES, **self.ranks(lines), "client.lora-kind": "plain"})
        self.assert_one_error(self.hanse("check", job, expect=None), 2, "different ranks",
                              "client.lora-kind = flora")


class Peft(harness.Case):
    def test_adapters_are_written_and_read_again(self):
        job = self.job({**ADAPTERS, "run.adapters": "peft", "client.lora-alpha": 3,
                        "evaluate.best": "loss_mean"})
        run = self.train(job, "run", 2)
        for folder in ("adapters", "best-adapters"):
            with open(os.path.join(run, folder, "adapter_config.json"), encoding="utf-8") as file:
                config = json.load(file)
            self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]),
                             ("LORA", 2, 3))
            self.assertEqual(config["target_modules"], ["fc1", "fc2", "fc3"])
        start = self.train(self.job(MLP, "base.cfg"), "base", changes={"client.lr": 1e-30})
        again = self.train(self.job({**MLP, "client.lora": "auto", "client.lr": 1e-30,
                                     "model.start": run + "/adapters", "run.adapters": "peft",
                                     "evaluate.start": "true"}, "again.cfg"), "again", 2)
        self.assertEqual(harness.column(again, "evaluations.csv", "loss_mean")[0],
                         harness.column(run, "evaluations.csv", "loss_mean")[-1])
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            with open(f"{run}/adapters/{name}", "rb") as one, \
                    open(f"{again}/adapters/{name}", "rb") as other:
                self.assertEqual(one.read(), other.read(), name)
        self.assertTrue(start)

    def test_folders_that_do_not_fit_are_refused(self):
        run = self.train(self.job({**ADAPTERS, "run.adapters": "peft"}), "run")
        folder = run + "/adapters"
        for changes, *parts in [
                ({"client.lora": 0}, "the folder has adapters", "client.lora = auto"),
                ({"client.lora": 3}, "rank 2 and scale 1, the job's 3"),
                ({"client.lora": "auto", "client.lora-layers": "fc1.*"}, "fc2.weight (without"),
                ({"client.lora": "auto", "model.kind": "linear"}, "adapter of fc1 has 64 inputs"),
                ({"client.lora": "auto", "model.start": ""}, "folder of PEFT"),
                ({"client.lora": "auto", "model.start": run}, "adapter_config.json")]:
            with self.subTest(changes):
                job = self.job({**MLP, "model.start": folder, **changes}, "refused.cfg")
                self.assert_one_error(self.hanse("run", job, expect=None), 2, *parts)


class Refused(harness.Case):
    def test_what_does_not_go_together(self):
        for changes, *parts in [
                ({"client.lora": 0, "client.lora-kind": "ffa"}, "no adapters", "client.lora-kind"),
                ({"client.lora": 0, "run.adapters": "peft"}, "no adapters", "run.adapters"),
                ({"client.lora": 0, "evaluate.metrics": "lora-gap"}, "lora-gap", "client.lora"),
                ({"client.lora-kind": "flora", "aggregator.kind": "fedmgda+"}, "flora",
                 "aggregator.kind"),
                ({"client.lora-kind": "flora", "client.update": "scaffold"}, "flora",
                 "client.update"),
                ({"client.lora-kind": "flora", "client.personal": "*.lora_B"}, "flora",
                 "client.personal"),
                ({"client.lora-kind": "flora", "run.adapters": "peft"}, "flora", "run.adapters"),
                ({"client.lora-kind": "flora", "model.base-precision": "bfloat16"}, "flora",
                 "model.base-precision"),
                ({"client.lora": 0, "client.lora-path": "split"}, "no adapters",
                 "client.lora-path"),
                ({"client.lora-kind": "flora", "run.protocol": "local"}, "flora needs",
                 "run.protocol"),
                ({"client.lora-dropout": 1}, "client.lora-dropout"),
                ({"client.lora-kind": "lora"}, "plain")]:
            with self.subTest(changes):
                job = self.job({**ADAPTERS, **changes})
                self.assert_one_error(self.hanse("check", job, expect=None), 2, *parts)

    def test_what_the_model_has_not(self):
        for changes, *parts in [
                ({"client.lora-path": "split"}, "reads its matrices in one piece",
                 "client.lora-path"),
                ({"client.lora": 0, "model.base-precision": "bfloat16"}, "no tensor is frozen",
                 "model.base-precision")]:
            with self.subTest(changes):
                job = self.job({**ADAPTERS, **changes})
                self.assert_one_error(self.hanse("run", job, expect=None), 2, *parts)


if __name__ == "__main__":
    harness.main()
