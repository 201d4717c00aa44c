"""Models of the clients' own, the views of an evaluation, and the two bounds."""

import json
import os

import harness
import test_bad_input

MLP = {"model.kind": "mlp", "model.hidden": "9", "federation.partition": "dirichlet",
       "federation.alpha": 0.3, "client.momentum": 0.5}
PLAIN = {**MLP, "client.momentum": 0}
JOBS = {
    "ditto": {**MLP, "client.update": "ditto", "client.lambda": 0.5},
    "apfl": {**PLAIN, "client.update": "apfl", "client.variant": "reference"},
    "pfedme": {**PLAIN, "client.update": "pfedme", "client.mu": 2, "client.inner": 3},
    "per-fedavg": {**PLAIN, "client.update": "per-fedavg", "client.inner-lr": 0.05,
                   "federation.held-out": 2},
    "prototypes": {**MLP, "client.update": "fedproto", "client.personal": "*"},
    "head": {**MLP, "client.personal": "fc2.*"},
    "head-prox": {**MLP, "client.personal": "fc2.*", "client.update": "prox", "client.mu": 0.3,
                  "aggregator.kind": "term"},
    "head-scaffold": {**MLP, "client.personal": "fc2.*,fc1.bias", "client.update": "scaffold"},
    "fine-tuned": {**MLP, "evaluate.view": "personalised"},
    "fine-tuned-scaffold": {"client.update": "scaffold", "evaluate.view": "personalised"},
    "local": {**MLP, "run.protocol": "local"},
    "tuned": {**MLP, "evaluate.tune-steps": 2, "evaluate.clients": 9, "federation.held-out": 3,
              "data.validation-fraction": 0.2, "evaluate.on": "both"},
    "tuned-ditto": {**MLP, "client.update": "ditto", "evaluate.tune-steps": 2},
    "centralized": {**MLP, "run.protocol": "centralized"},
    "fedrep": {**MLP, "client.personal": "fc2.*", "client.phases": "personal 2, shared 1",
               "client.update": "prox", "client.mu": 0.3},
    "turns": {**MLP, "client.alternate": "fc1.*,fc2.*", "server.optimizer": "adam",
              "server.lr": 0.01},
    "fedbabu": {**MLP, "client.train": "fc1.*", "evaluate.tune-steps": 3, "evaluate.tune": "*"},
}


class SameBits(harness.Case):
    """A run on one rank, and one stopped on two ranks and resumed on more."""

    def check(self, name):
        job = self.job({**JOBS[name], "evaluate.every": 2}, name=f"{name}.cfg")
        straight = self.train(job, name)
        for ranks, role in ((2, "auto"), (4, "dedicated")):
            run = self.train(job, f"{name}-{ranks}", ranks=ranks,
                             changes={"run.rounds": 5, "server.role": role})
            self.hanse("resume", run, "--run.rounds=12", ranks=3)
            self.assert_digest(run, straight, name)
            self.assertEqual(harness.text(run, "clients.csv"), harness.text(straight, "clients.csv"))
            # The first run's last evaluation is one more.
            rows = [row for row in harness.table(run, "evaluations.csv") if row["round"] != "5"]
            expected = harness.table(straight, "evaluations.csv")
            self.assertEqual([row["accuracy_mean"] for row in rows],
                             [row["accuracy_mean"] for row in expected], name)
            self.assertEqual([row["train_loss_mean"] for row in rows],
                             [row["train_loss_mean"] for row in expected], name)
            self.assertEqual(harness.column(run, "rounds.csv", "loss"),
                             harness.column(straight, "rounds.csv", "loss"), name)

    def test_prototypes(self):
        self.check("prototypes")

    def test_ditto(self):
        self.check("ditto")

    def test_apfl(self):
        self.check("apfl")

    def test_pfedme(self):
        self.check("pfedme")

    def test_per_fedavg(self):
        self.check("per-fedavg")

    def test_head(self):
        self.check("head")

    def test_head_prox(self):
        self.check("head-prox")

    def test_head_scaffold(self):
        self.check("head-scaffold")

    def test_fine_tuned(self):
        self.check("fine-tuned")

    def test_fine_tuned_scaffold(self):
        self.check("fine-tuned-scaffold")

    def test_tuned(self):
        self.check("tuned")

    def test_tuned_ditto(self):
        self.check("tuned-ditto")

    def test_local(self):
        self.check("local")

    def test_centralized(self):
        self.check("centralized")

    def test_phases(self):
        self.check("fedrep")

    def test_tensors_in_turn(self):
        self.check("turns")

    def test_tensors_that_only_evaluations_move(self):
        self.check("fedbabu")


class WhoseTensors(harness.Case):
    """What moves some tensors: client.phases, client.alternate, evaluate.tune."""

    def tensors(self, run):
        with open(os.path.join(run, "model.safetensors"), "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header, values = json.loads(file.read(size)), file.read()
        return {name: values[slice(*entry["data_offsets"])] for name, entry in header.items()
                if name != "__metadata__"}

    def moved(self, one, other):
        one, other = self.tensors(one), self.tensors(other)
        return {name for name in one if one[name] != other[name]}

    def test_what_moves_all_is_the_plain_run(self):
        job = self.job({**MLP, "client.steps": 4})
        plain = self.train(job, "plain")
        for number, changes in enumerate([
                {"client.phases": "all 4", "client.steps": 1}, {"client.alternate": "*"},
                {"client.phases": "all 1, * 3", "client.steps": 1}]):
            run = self.train(job, f"all-{number}", ranks=1 + number, changes=changes)
            self.assert_digest(run, plain)
            self.assertEqual(harness.column(run, "rounds.csv", "loss"),
                             harness.column(plain, "rounds.csv", "loss"))
        epochs = self.train(job, "epochs", changes={"client.steps": 0, "client.epochs": 3})
        phases = self.train(job, "phases", changes={"client.steps": 0,
                                                    "client.phases": "all 1, all 2"})
        self.assert_digest(phases, epochs)

    def test_a_round_moves_one_half(self):
        job = self.job({**JOBS["turns"], "run.state-dict": "safetensors", "server.optimizer": "sgd",
                        "server.lr": 1})
        runs = [self.train(job, f"rounds-{n}", changes={"run.rounds": n}) for n in (1, 2, 3)]
        self.assertEqual(self.moved(runs[0], runs[1]), {"fc2.weight", "fc2.bias"})
        self.assertEqual(self.moved(runs[1], runs[2]), {"fc1.weight", "fc1.bias"})

    def test_the_head_is_only_tuned(self):
        """FedBABU: body trains as if the head were frozen; evaluations tune both."""
        job = self.job({**JOBS["fedbabu"], "run.state-dict": "safetensors"})
        whole = self.train(job, "whole")
        frozen = self.train(job, "frozen", changes={"evaluate.tune": "fc1.*"})
        self.assertEqual(self.moved(whole, frozen), set())
        before, after = (harness.summary(run)["metrics"] for run in (frozen, whole))
        for name in before:
            if name.startswith("before_"):
                self.assertAlmostEqual(before[name], after[name], places=6, msg=name)
        self.assertLess(after["train_loss_mean"], before["train_loss_mean"])
        head = self.train(job, "head", changes={"evaluate.tune": "fc2.*"})
        self.assertNotEqual(harness.summary(head)["metrics"]["train_loss_mean"],
                            after["train_loss_mean"])

    def test_it_is_said(self):
        def lines(name, **changes):
            process = self.hanse("run", self.job({**JOBS[name], **changes}),
                                 f"--run.out={self.path(name)}")
            return "\n".join(process.lines())
        said = lines("fedrep")
        self.assertRegex(said, r"move personal \(\d+ values\) for 2 epochs, then shared \(\d+ ")
        self.assertIn("evaluations are of each client's own model", said)
        self.assertRegex(lines("turns"), r"rounds move in turn fc1\.\* \(\d+ values\), then fc2")
        said = lines("fedbabu")
        self.assertRegex(said, r"leaves \d+ values of the row as they start.*evaluate\.tune")
        self.assertIn("evaluations are of the shared model behind 3 steps of *", said)

    def test_plan_counts_the_steps_of_all_phases(self):
        job = self.job({**MLP, "client.steps": 7})
        plain, phases = (self.hanse("plan", job, *more).stdout() for more in
                         ([], ["--client.phases=fc2.* 2, fc1.* 5", "--client.steps=1"]))
        of = lambda plan: [line for line in plan.splitlines() if "local steps a client" in line]
        self.assertEqual(len(of(plain)), 1)
        self.assertEqual(of(plain), of(phases))


class Views(harness.Case):
    def test_job_tells_the_view(self):
        for name, view in (("ditto", "personalised"), ("head", "personalised"),
                           ("local", "personalised"), ("centralized", "global")):
            run = self.train(self.job(JOBS[name], name=f"{name}.cfg"), name)
            self.assertIn(f"\nview = {view}\n", harness.text(run, "job.cfg"))
        run = self.train(self.job(), "plain")
        self.assertIn("\nview = global\n", harness.text(run, "job.cfg"))

    def test_ditto_trains_the_model_of_fedavg(self):
        fedavg = self.train(self.job(MLP), "fedavg")
        job = self.job(JOBS["ditto"], name="ditto.cfg")
        shared = self.train(job, "shared", changes={"evaluate.view": "global"})
        own = self.train(job, "own")
        for run in (shared, own):
            self.assert_digest(run, fedavg)
            self.assertEqual(harness.column(run, "rounds.csv", "loss"),
                             harness.column(fedavg, "rounds.csv", "loss"))
        self.assertEqual(harness.text(shared, "evaluations.csv"),
                         harness.text(fedavg, "evaluations.csv"))
        self.assertNotEqual(harness.text(own, "clients.csv"), harness.text(fedavg, "clients.csv"))

    def test_a_view_changes_no_training(self):
        job = self.job({**MLP, "evaluate.every": 1})
        plain = self.train(job, "plain")
        tuned = self.train(job, "tuned", ranks=2, changes={"evaluate.view": "personalised"})
        self.assert_digest(tuned, plain)
        # A round of training on a client's own samples fits them better.
        for row, other in zip(harness.table(tuned, "evaluations.csv"),
                              harness.table(plain, "evaluations.csv")):
            self.assertLess(float(row["train_loss_mean"]), float(other["train_loss_mean"]))

    def test_tuning_knows_no_stragglers(self):
        """Before the first round all have one model, and tune it alike."""
        job = self.job({**MLP, "run.rounds": 1, "client.steps": 4, "evaluate.tune-steps": 4,
                        "evaluate.start": "true"})
        whole = self.train(job, "whole")
        early = self.train(job, "early", changes={"client.stragglers": 1})
        self.assertNotEqual(harness.digest(early), harness.digest(whole))
        first = [harness.table(run, "evaluations.csv")[0] for run in (whole, early)]
        self.assertEqual(first[0], first[1])

    def test_steps_of_tuning_in_every_view(self):
        """As many as a round makes are the round of the personalised view."""
        job = self.job({**MLP, "client.steps": 3, "federation.held-out": 4,
                        "data.validation-fraction": 0.2, "evaluate.on": "both"})
        plain, view, tuned, both, own, ditto = harness.together([
            lambda name=name, changes=changes: self.train(job, name, changes=changes)
            for name, changes in [
                ("plain", {}), ("view", {"evaluate.view": "personalised"}),
                ("tuned", {"evaluate.tune-steps": 3}),
                ("both", {"evaluate.tune-steps": 3, "evaluate.view": "personalised"}),
                ("own", {"client.update": "ditto"}),
                ("ditto", {"client.update": "ditto", "evaluate.tune-steps": 3})]])
        metrics = [harness.summary(run)["metrics"] for run in (plain, view, tuned, both, own, ditto)]
        of_plain, of_view, of_tuned, of_both, of_own, of_ditto = metrics
        self.assert_digest(tuned, plain)
        for name, value in of_view.items():
            self.assertEqual(of_tuned[name], value, name)
        self.assertEqual(of_both, of_tuned)
        compared = 0
        for after, without in ((of_tuned, of_plain), (of_ditto, of_own)):
            for name, value in after.items():
                if name.startswith("before_"):
                    self.assertEqual(value, without[name.removeprefix("before_")], name)
                    compared += 1
            self.assertLess(after["train_loss_mean"], without["train_loss_mean"])
            self.assertNotEqual(after["validation_loss_mean"], without["validation_loss_mean"])
            self.assertNotEqual(after["held_out_loss_mean"], without["held_out_loss_mean"])
        self.assertGreater(compared, 20)
        for name, value in of_plain.items():
            if name.startswith("held_out_"):
                self.assertEqual(of_tuned[name.replace("held_out_", "held_out_before_")], value)

    def test_a_resumed_run_may_change_the_view(self):
        job = self.job(MLP)
        run = self.train(job, "run", changes={"run.rounds": 4})
        self.hanse("resume", run, "--run.rounds=8", "--evaluate.view=personalised")
        tuned = self.train(job, "tuned", changes={"run.rounds": 8,
                                                  "evaluate.view": "personalised"})
        self.assertEqual(harness.text(run, "clients.csv"), harness.text(tuned, "clients.csv"))

    def test_rules_weigh_the_losses_of_what_clients_start_from(self):
        # One client: its loss at the start of a round is that of its own model before.
        run = self.train(self.job({**JOBS["head-prox"], "federation.clients": 1,
                                   "federation.partition": "iid", "sampler.kind": "full",
                                   "evaluate.every": 1}), "run")
        before = harness.column(run, "evaluations.csv", "train_loss_mean")
        at_start = harness.column(run, "rounds.csv", "mixed_loss")
        for earlier, later in zip(before, at_start[1:]):
            self.assertAlmostEqual(float(earlier), float(later), places=6)


class Bounds(harness.Case):
    """Against federated runs of one client, in full batches: the order of samples is no matter."""

    SITES = {"data.kind": "csv", "data.client-column": "site", "data.test-fraction": 0,
             "federation.partition": "by-column", "sampler.kind": "full", "client.batch": 0,
             "client.epochs": 3, "client.lr": 0.05, "model.init": "zeros"}

    def table(self, name, sites):
        lines = ["label,site,a,b"]
        for i in range(60):
            site = i * i % 3
            if site in sites:
                lines.append(f"{i // 3 % 3},{sites[site]},{i % 7 / 7},{(i * 13) % 17 / 17 - site}")
        return self.write(name, "\n".join(lines) + "\n")

    def close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for x, y in zip(found, expected):
            self.assertAlmostEqual(float(x), float(y), places=5)

    def test_local_is_every_client_by_itself(self):
        both = self.table("both.csv", {0: "a", 1: "b"})
        job = self.job({**self.SITES, "data.path": both})
        local = self.train(job, "local", changes={"run.protocol": "local"})
        losses = harness.column(local, "clients.csv", "loss")
        accuracies = harness.column(local, "clients.csv", "accuracy")
        self.assertNotEqual(losses[0], losses[1])
        for site, client in ((0, 0), (1, 1)):
            table = self.table(f"site-{site}.csv", {site: "a"})
            alone = self.train(job, f"alone-{site}", changes={"data.path": table})
            self.close([losses[client]], harness.column(alone, "clients.csv", "loss"))
            self.close([accuracies[client]], harness.column(alone, "clients.csv", "accuracy"))
        # The shared model stays the initial one.
        short = self.train(job, "short", changes={"run.protocol": "local", "run.rounds": 1})
        self.assert_digest(local, short)

    def test_centralized_is_one_client_with_all_samples(self):
        apart = self.table("apart.csv", {0: "a", 1: "b"})
        pooled = self.table("pooled.csv", {0: "a", 1: "a"})
        job = self.job({**self.SITES, "data.path": apart, "evaluate.every": 1})
        centralized = self.train(job, "centralized",
                                 changes={"run.protocol": "centralized",
                                          "server.optimizer": "adam", "aggregator.kind": "afl"})
        one = self.train(job, "one", changes={"data.path": pooled})
        self.close(harness.column(centralized, "evaluations.csv", "train_loss_weighted"),
                   harness.column(one, "evaluations.csv", "train_loss_mean"))
        self.close(harness.column(centralized, "rounds.csv", "loss"),
                   harness.column(one, "rounds.csv", "loss"))
        self.assertEqual(len(harness.table(centralized, "clients.csv")), 2)
        self.assertEqual(set(harness.column(centralized, "rounds.csv", "clients")), {"1"})

    def test_what_they_do_not_read(self):
        for protocol in ("centralized", "local"):
            process = self.hanse("run", self.job(), f"--run.out={self.path(protocol)}",
                                 f"--run.protocol={protocol}", "--client.update=ditto",
                                 "--aggregator.kind=afl", "--server.lr=0.5",
                                 "--sampler.kind=osmd", "--sampler.per-round=3")
            told = [line for line in process.lines() if "not used by this job" in line]
            self.assertEqual(len(told), 1, process.describe())
            for key in ("client.update", "aggregator.kind", "server.lr"):
                self.assertIn(key, told[0])
            for key in ("per-round", "data.", "client.lr"):
                self.assertNotIn(key, told[0])

    def test_plan_and_list(self):
        for protocol in ("centralized", "local"):
            plan = self.hanse("plan", self.job(), f"--run.protocol={protocol}").stdout()
            self.assertIn("local steps a client", plan)
            self.assertIn(protocol, self.hanse("list", "protocols").stdout())


class BadInput(test_bad_input.BadInput):
    def test_tensors_that_are_not_there(self):
        self.refuse("client.personal", "'head.*'", "fc1.weight",
                    changes={**MLP, "client.personal": "fc2.*,head.*"})

    def test_all_tensors(self):
        self.refuse("client.personal", "all tensors",
                    changes={**MLP, "client.personal": "*"})

    def test_phases_and_turns(self):
        for value, words in (("personal", "no part and a number"), ("all 0", "at least"),
                             ("personal 1", "client.personal"), ("head.* 1", "fc1.weight")):
            self.refuse("client.phases", words, changes={**MLP, "client.phases": value})
        self.refuse("client.alternate", "'head'", changes={**MLP, "client.alternate": "fc1.*,head"})
        for changes in ({"client.update": "scaffold", "client.momentum": 0},
                        {"client.update": "ditto"}, {"client.accumulate": 2},
                        {"client.optimizer-state": "kept"}, {"client.alternate": "fc1.*"}):
            key = next((key for key in ("client.accumulate", "client.optimizer-state")
                        if key in changes), "client.phases")
            self.refuse(key, changes={**MLP, "client.phases": "fc1.* 1", **changes})

    def test_what_evaluations_tune(self):
        self.refuse("evaluate.tune", "'head'", "fc1.weight",
                    changes={**MLP, "evaluate.tune-steps": 1, "evaluate.tune": "head"})
        self.refuse("evaluate.tune", "'head'",
                    changes={**MLP, "evaluate.tune-steps": 1, "evaluate.tune": "head",
                             "client.train": "fc1.*"})

    def test_two_kinds_of_own_models(self):
        self.refuse("client.personal", "ditto",
                    changes={**MLP, "client.personal": "fc2.*", "client.update": "ditto"})

    def test_clients_that_send_directions(self):
        changes = {**MLP, "client.momentum": 0, "aggregator.kind": "dqn-fed"}
        self.refuse("client.personal", "directions",
                    changes={**changes, "client.personal": "fc2.*"})
        self.refuse("evaluate.view", "directions",
                    changes={**changes, "evaluate.view": "personalised"})

    def test_views_of_bounds(self):
        self.refuse("evaluate.view", "local",
                    changes={"run.protocol": "local", "evaluate.view": "global"})
        self.refuse("evaluate.view", "centralized",
                    changes={"run.protocol": "centralized", "evaluate.view": "personalised"})

    def test_regret_of_bounds(self):
        for protocol in ("local", "centralized"):
            self.refuse("evaluate.regret",
                        changes={"run.protocol": protocol, "evaluate.regret": "true"})


if __name__ == "__main__":
    harness.main()
