"""Who takes part: every sampler on any ranks, clients that come and go, regret, traces, replays."""

import json
import math
import os

import harness
import test_bad_input

# A horizon of its own: a run that is stopped has fewer rounds. Rates that move the probabilities.
LEARNING = {"federation.partition": "power-law", "sampler.horizon": 12,
            "sampler.rate-scale": 1000, "sampler.formula": "0.1 * lambda / age + a", "client.epochs": 2}


def numbers(run, name, field):
    return [float(value) if value else math.nan for value in harness.column(run, name, field)]


class Case(harness.Case):
    def check(self, name, changes):
        """The straight run, which one stopped on two ranks and resumed on three must equal, whose
        rules are proved pure meanwhile."""
        job = self.job({**LEARNING, **changes}, name=f"{name}.cfg")
        straight = self.train(job, name)
        stopped = self.train(job, name + "-stopped", ranks=2,
                             changes={"run.rounds": 5, "run.check-rules": "true"})
        self.hanse("resume", stopped, "--run.rounds=12", ranks=3)
        self.assert_digest(stopped, straight, name)
        self.assertEqual(harness.text(stopped, "sampling.csv"), harness.text(straight, "sampling.csv"))
        return straight

    def replay(self, path):
        return json.loads(self.hanse("replay", path).stdout())

    def samplers(self):
        """{kind: does it draw with or without replacement?} of `hanse list samplers`."""
        kinds = {}
        for line in self.hanse("list", "samplers").stdout().splitlines():
            if line.startswith("  options"):
                break
            if line.startswith("  ") and line[2] != " ":
                kinds[line.split()[0]] = False
            elif line.strip().startswith("sampler.replacement"):
                kinds[list(kinds)[-1]] = True
        self.assertGreaterEqual(len(kinds), 12)
        return {kind: both for kind, both in kinds.items()
                if kind not in ("python", "plugin")}  # test_own_rules.py


class EverySampler(Case):
    """The same bits on one, two and three ranks, and stopped and resumed."""

    def check_traces(self, name, changes):
        """A replay of what the run wrote draws by the same probabilities as the run did."""
        straight = self.check(name, {**changes, "run.trace": "true"})
        run = straight + "-stopped"
        with open(os.path.join(run, "trace-sampler.json")) as file:
            told = json.load(file)["rounds"]
        with open(os.path.join(run, "trace-aggregator.json")) as file:
            mixed = json.load(file)["rounds"]
        found = self.replay(os.path.join(run, "trace-sampler.json"))["rounds"]
        self.assertEqual(len(found), 12)
        estimates = numbers(run, "sampling.csv", "variance_estimate")
        for t in range(12):
            weights = dict.fromkeys(told[t]["draws"], 0)
            for client, coefficient in zip(told[t]["draws"], found[t]["coefficients"]):
                weights[client] += coefficient
            self.assertEqual(list(weights), mixed[t]["participants"])
            for weight, expected in zip(weights.values(), mixed[t]["draw_weights"]):
                self.assertAlmostEqual(weight, expected, delta=1e-12 * expected, msg=name)
            if told[t]["draws"]:
                self.assertAlmostEqual(found[t]["loss_estimate"] / estimates[t], 1, places=8)
        return straight

    def test_everyone_there(self):
        jobs = [(kind, {"sampler.kind": kind}) for kind in self.samplers()]
        # With as many draws a round vrb would draw the same: its share of uniform draws is 1 here.
        jobs.append(("uniform-repeats", {"sampler.replacement": "true", "sampler.per-round": 6}))
        jobs.append(("vrb-by-losses", {"sampler.kind": "vrb", "sampler.variant": "reference"}))
        runs = harness.together([lambda job=job: self.check_traces(*job) for job in jobs])
        # No kind is another one under a wrong name.
        self.assertEqual(len(set(map(harness.digest, runs))), len(jobs))

    def test_without_replacement_and_some_away(self):
        jobs = [(kind, {"sampler.kind": kind, "sampler.availability": 0.4,
                        **({"sampler.replacement": "false"} if has_both else {})})
                for kind, has_both in self.samplers().items()]
        harness.together([lambda job=job: self.check_traces(*job) for job in jobs])

    def test_probabilities_are_reported(self):
        job = {**LEARNING, "sampler.kind": "adaptive-osmd", "run.trace": "true"}
        run = self.train(self.job(job), "osmd")
        for name, rule in (("sampler", "sampler.kind = adaptive-osmd"),
                           ("aggregator", "aggregator.kind = fedavg")):
            said = self.hanse("replay", "--check", os.path.join(run, f"trace-{name}.json")).stdout()
            self.assertEqual(said, f"{rule} is pure: run twice, and once from its saved state in "
                                   "every round, it has the same bits\n")
        metrics = harness.summary(run)["metrics"]
        self.assertLess(metrics["sampling_entropy"], math.log(23))
        least, p10, median, p90, most = (metrics["sampling_" + name]
                                         for name in ("min", "p10", "median", "p90", "max"))
        self.assertTrue(0.4 / 23 - 1e-9 <= least <= p10 <= median <= p90 <= most < 1)
        self.assertGreater(most, 1 / 23)
        self.assertEqual(len(harness.column(run, "evaluations.csv", "sampling_max")), 3)
        uniform = self.train(self.job(), "uniform")
        self.assertNotIn("sampling_max", harness.table(uniform, "evaluations.csv")[0])

    def test_the_horizon_is_that_of_the_first_start(self):
        job = self.job({**LEARNING, "sampler.kind": "adaptive-osmd", "sampler.horizon": None})
        straight = self.train(job, "straight")
        stopped = self.train(job, "stopped", changes={"run.rounds": 5})
        self.hanse("resume", stopped, "--run.rounds=12")
        self.assertIn("horizon = 5\n", harness.text(stopped, "job.cfg"))
        self.assertIn("horizon = 12\n", harness.text(straight, "job.cfg"))
        self.assertNotEqual(harness.digest(stopped), harness.digest(straight))
        same = self.train(job, "same", changes={"sampler.horizon": 5})
        self.assert_digest(stopped, same)


class Scaffold(Case):
    def test_states_go_with_the_checkpoint(self):
        changes = {"client.update": "scaffold"}
        jobs = {"uniform": changes, "osmd": {**changes, "sampler.kind": "adaptive-osmd"},
                "away": {**changes, "sampler.availability": "blocks(5,2)"}}
        runs = harness.together([lambda name=name: self.check(name, jobs[name]) for name in jobs])
        for run in runs:
            lines = self.hanse("inspect", os.path.join(run, "checkpoints", "round-000012.h5"))
            self.assertIn("with state, 325 float32 each", lines.stdout())
            self.assertIn("training/control", lines.stdout())

    def test_is_not_sgd(self):
        runs = [self.train(self.job({"client.update": kind}, kind), kind + "-run")
                for kind in ("sgd", "scaffold")]
        self.assertNotEqual(*map(harness.digest, runs))


class Availability(Case):
    """Clients 0 to 22; five are drawn."""

    def available(self, form, **more):
        name = "run-" + "".join(filter(str.isalnum, os.path.basename(str(form))))
        run = self.check(name, {"sampler.kind": "osmd", "sampler.availability": form, **more})
        return [int(value) for value in numbers(run, "sampling.csv", "available")], run

    def test_forms(self):
        always, _ = self.available("always")
        self.assertEqual(always, [23] * 12)
        half, run = self.available(0.5)
        self.assertGreater(len(set(half)), 3)
        self.assertLess(max(half), 23)
        clients = numbers(run, "rounds.csv", "clients")
        self.assertTrue(all(k <= min(5, n) for k, n in zip(clients, half)))
        self.assertEqual(self.available("blocks(3)")[0], [7, 8, 8] * 4)  # 23 b/3: 0, 7, 15, 23
        self.assertEqual(self.available("blocks(2, 4)")[0], [11] * 4 + [12] * 4 + [11] * 4)

    def test_schedule(self):
        """0 to 19 are there to round 4, all in 5, 20 to 22 from 6 to 8; nobody in rounds 9 to 11.

        Everybody again in round 12.
        """
        lines = ["client,first,last"]
        lines += [f"{client},1,5\n{client},12,12" for client in range(20)]
        lines += [f"{client},5,8\n{client},12,12" for client in range(20, 23)]
        schedule = self.write("who.csv", "\n".join(lines) + "\n")
        available, run = self.available(schedule)
        self.assertEqual(available, [20] * 4 + [23] + [3] * 3 + [0] * 3 + [23])
        clients = numbers(run, "rounds.csv", "clients")
        self.assertEqual(clients[5:11], [3, 3, 3, 0, 0, 0])
        self.assertEqual(harness.column(run, "rounds.csv", "loss")[8:11], ["", "", ""])
        self.assertEqual([line["variance_estimate"] == ""
                          for line in harness.table(run, "sampling.csv")],
                         [8 <= round < 11 for round in range(12)])

    def test_nobody_there_leaves_the_model(self):
        schedule = self.write("who.csv", "".join(f"{client},1,6\n" for client in range(23)))
        job = self.job({"sampler.availability": schedule, "server.optimizer": "momentum"})
        six = self.train(job, "six", changes={"run.rounds": 6})
        twelve = self.train(job, "twelve", ranks=3)
        self.assert_digest(six, twelve)


class Regret(Case):
    def test_measuring_changes_nothing_else(self):
        for kind in ("uniform", "adaptive-osmd", "optimal"):
            changes = {"sampler.kind": kind, "sampler.availability": 0.8}
            without = self.train(self.job({**LEARNING, **changes}, kind), kind + "-without")
            run = self.check(kind + "-regret", {**changes, "evaluate.regret": "true"})
            self.assert_digest(run, without, kind)
            regret = numbers(run, "sampling.csv", "regret")
            variance = numbers(run, "sampling.csv", "variance")
            best = numbers(run, "sampling.csv", "best_variance")
            self.assertTrue(all(v >= b * (1 - 1e-8) for v, b in zip(variance, best)))
            total = 0
            for t in range(12):
                total += variance[t] - best[t]
                self.assertAlmostEqual(regret[t], total, delta=1e-7 * sum(variance))
            self.assertEqual(regret[-1] > 1e-3 * sum(best), kind != "optimal", kind)
            self.assertEqual(harness.column(without, "sampling.csv", "regret"), [""] * 12)

    def test_may_begin_with_a_resume(self):
        job = self.job({**LEARNING, "sampler.kind": "osmd"})
        run = self.train(job, "run", changes={"run.rounds": 5})
        self.hanse("resume", run, "--run.rounds=12", "--evaluate.regret=true", ranks=2)
        regret = harness.column(run, "sampling.csv", "regret")
        self.assertEqual([value == "" for value in regret], [True] * 5 + [False] * 7)

    def test_a_client_that_diverges_is_named(self):
        job = self.job({"sampler.kind": "optimal", "client.lr": 1e300})
        for ranks in (None, 3):
            process = self.hanse("run", job, f"--run.out={self.path(f'run-{ranks}')}", ranks=ranks,
                                 expect=None)
            self.assert_one_error(process, 1, "client ", "round 1", "client.lr")


class Replay(Case):
    def test_by_hand(self):
        """p = 1/3, K = 2: a = 4 log(f)/27 multiplies a client's probability by f."""
        trace = {"rule": {"sampler.kind": "osmd", "sampler.eta": 1, "sampler.alpha": 0.3},
                 "clients": 3,
                 "rounds": [{"draws": [2, 0],
                             "feedback": [4 * math.log(3) / 27, 4 * math.log(2) / 27]}]}
        found = self.replay(self.write("trace.json", json.dumps(trace)))
        for value, expected in zip(found["next"], [1 / 3, 1 / 6, 1 / 2]):
            self.assertAlmostEqual(value, expected, places=14)
        self.assertEqual(found["rounds"][0]["coefficients"], [1.5, 1.5])
        self.assertAlmostEqual(found["rounds"][0]["loss_estimate"], math.log(6) / 3, places=14)

    def test_oort_by_its_formulas(self):
        """U = |B| rms(loss), clipped and normalized, + doubt, x penalty; new clients by samples."""
        samples = [5, 40, 12, 9, 30, 7]
        rounds = [{"draws": [1, 4], "squares": [8, 30], "sizes": [40, 30], "durations": [3, 1]},
                  {"draws": [4, 0], "squares": [6, 9], "sizes": [30, 5], "durations": [2, 5]},
                  {"draws": [2, 1], "squares": [4, 5], "sizes": [12, 40], "durations": [4, 9]}]
        trace = {"rule": {"sampler.kind": "oort", "sampler.variant": "reference",
                          "sampler.per-round": 2}, "clients": 6, "initial": samples,
                 "rounds": rounds}
        found = self.replay(self.write("oort.json", json.dumps(trace)))
        utility, last, seconds, share = {}, {}, {}, 0.9
        for number, given in enumerate(rounds + [None], 1):
            share = max(0.98 * share, 0.3)
            explore = min(2 - min(2 - int(2 * share), len(last)), 6 - len(last))
            times = sorted(seconds.values())
            wanted = times[min(int(0.3 * len(times)), len(times) - 1)] if times else math.inf

            def penalty(client, wanted=wanted):
                return min(1, wanted / seconds.get(client, wanted) if times else 1) ** 2

            weights = [{c: samples[c] * penalty(c) for c in range(6) if c not in last}, {}]
            weights[0] = dict(sorted(weights[0].items(), key=lambda one: -one[1])[:5 * explore])
            if last:
                u = sorted(utility[c] for c in last)
                top, low = u[min(int(0.9 * len(u)), len(u) - 1)], 0.999 * u[0]
                weights[1] = {
                    c: ((min(utility[c], top) - low) / max(u[-1] - low, 1e-4) +
                        math.sqrt(0.1 * math.log(number) / last[c])) * penalty(c) for c in last}
            expected = [0.0] * 6
            for kind, count in zip(weights, (explore, 2 - explore)):
                for client, weight in kind.items():
                    expected[client] = count / 2 * weight / sum(kind.values())
            shown = found["rounds"][number - 1]["probabilities"] if given else found["next"]
            for value, right in zip(shown, expected):
                self.assertAlmostEqual(value, right, places=12, msg=f"round {number}")
            for client, squares, size, time in zip(*(given or {"none": []}).values()):
                utility[client] = size * math.sqrt(squares / size)
                last[client], seconds[client] = number, time

    def test_bad_traces(self):
        def refused(changes, *parts):
            trace = {"rule": {"sampler.kind": "osmd", "sampler.eta": 1}, "clients": 3,
                     "rounds": [{"draws": [2, 0], "feedback": [1, 1]}], **changes}
            path = self.write("bad.json", json.dumps(trace))
            self.assert_one_error(self.hanse("replay", path, expect=None), 2, *parts)

        refused({"rounds": [{"draws": [2, 0], "feedback": [1, -1]}]}, "client 0", "rounds[0]")
        refused({"rounds": [{"draws": [2, 3], "feedback": [1, 1]}]}, "rounds[0].draws")
        refused({"rule": {"sampler.kind": "adaptive-osmd"}}, "sampler.horizon")
        refused({"rule": {"sampler.kind": "adaptive-osmd", "sampler.horizon": 9}}, "foreseen")
        refused({"rule": {"sampler.kind": "osmd", "sampler.alpha": 0}}, "sampler.alpha", "(0, 1]")
        refused({"rule": {"sampler.kind": "oort"}}, "'squares' is missing", "rounds[0]")
        refused({"rule": {"sampler.kind": "power-of-choice"}}, "'candidates' is missing")
        refused({"rule": {"sampler.kind": "power-of-choice"}, "rounds": [
            {"draws": [2, 0], "candidates": [0, 2], "candidate_losses": [2, 1]}]},
            "largest losses", "rounds[0]")


class BadInput(test_bad_input.BadInput):
    def test_alpha(self):
        self.refuse("job.cfg:", "sampler.alpha", "(0, 1]",
                    changes={"sampler.kind": "osmd", "sampler.alpha": 0})
        self.refuse("sampler.alpha", "(0, 1]", places=test_bad_input.ALONE,
                    changes={"sampler.kind": "osmd", "sampler.alpha": 1.5})

    def test_oort(self):
        oort = {"sampler.kind": "oort"}
        self.refuse("needs the loss of each sample", "client.label-smoothing",
                    changes={**oort, "client.label-smoothing": 0.1})
        self.refuse("sampler.clip-quantile", "(0, 1]", changes={**oort, "sampler.clip-quantile": 2},
                    places=test_bad_input.ALONE)
        self.refuse("oort has no variant 'corrected'", changes={**oort,
                                                               "sampler.variant": "corrected"})
        self.refuse("does not estimate gradients", "evaluate.regret",
                    changes={**oort, "evaluate.regret": "true"})
        self.refuse("3 candidates for 4 participants", "sampler.candidates",
                    changes={"sampler.kind": "power-of-choice", "sampler.per-round": 4,
                             "sampler.candidates": 3})

    def test_rates(self):
        self.refuse("sampler.eta", "'-1'",
                    changes={"sampler.kind": "osmd", "sampler.eta": -1})
        self.refuse("sampler.a-max", "'much'", "running", places=test_bad_input.ALONE,
                    changes={"sampler.kind": "adaptive-osmd", "sampler.a-max": "much"})

    def test_lipschitz_of_a_network(self):
        self.refuse("model.kind", "linear",
                    changes={"sampler.kind": "lipschitz", "model.kind": "mlp",
                             "model.hidden": 4})

    def test_scaffold_with_kept_momentum(self):
        self.refuse("client.optimizer-state", "scaffold",
                    changes={"client.update": "scaffold", "client.momentum": 0.5,
                             "client.optimizer-state": "kept"})

    def test_availability(self):
        self.refuse("sampler.availability", "'sometimes'", "blocks(n, rounds)",
                    changes={"sampler.availability": "sometimes"}, places=test_bad_input.ALONE)
        self.refuse("24 blocks of 23 clients", "sampler.availability",
                    changes={"sampler.availability": "blocks(24)"})

    def test_line_of_a_schedule(self):
        schedule = self.write("who.csv", "client,first,last\n3,1,4\n23,1,4\n")
        self.refuse("who.csv:3", "client 23 is outside [0, 23)",
                    changes={"sampler.availability": schedule})


if __name__ == "__main__":
    harness.main()
