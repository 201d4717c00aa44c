"""Virtual time: the same model, seconds and participants on any ranks, also of a run that was stopped."""

import os
import shutil
import signal

import harness

# Clients that differ a hundredfold in samples, speed and links: their tasks take 0.1 to 5 s.
UNEQUAL = {
    "federation.partition": "power-law",
    "client.epochs": 2,
    "clock.kind": "virtual",
    "clock.speed": "lognormal(0, 1)",
    "clock.down-mbit": "constant(1)",
    "clock.up-mbit": "lognormal(0, 1)",
    "clock.latency-ms": 30,
}
DEADLINE = {"clock.round": "deadline", "clock.deadline-seconds": "quantile(0.5)"}
FEDBUFF = {"async.kind": "fedbuff", "async.concurrency": 9, "async.buffer": 4}
FEDASYNC = {"async.kind": "fedasync", "async.concurrency": 6}
MLP = {"model.kind": "mlp", "model.hidden": 7}
PARTS = (None, None, 2, None, None, 3, None)  # ranks of a run that is stopped after each round

ROUNDS = {
    "all": {"clock.server-seconds": 0.05, "clock.size-correlation": 0.7},
    "first": {"clock.round": "first", "sampler.over-select": 1.6},
    "first_unbiased": {"clock.round": "first", "sampler.over-select": 1.6,
                       "aggregator.estimator": "unbiased"},
    "first_arrival": {"clock.round": "first", "sampler.over-select": 1.6,
                      "aggregator.estimator": "arrival", "aggregator.weights": "uniform"},
    "first_osmd": {"clock.round": "first", "sampler.over-select": 1.4,
                   "sampler.kind": "adaptive-osmd", "sampler.replacement": "false",
                   "sampler.horizon": 12},
    "first_oort": {"clock.round": "first", "sampler.over-select": 1.4, "sampler.kind": "oort"},
    "deadline_power_of_choice": {**DEADLINE, "clock.late": "partial",
                                 "sampler.kind": "power-of-choice"},
    "drop": {**DEADLINE, "clock.deadline-seconds": 0.2},
    "partial": {**DEADLINE, "clock.late": "partial"},
    "partial_fednova": {**DEADLINE, "clock.late": "partial", "client.update": "fednova"},
    "partial_prox": {**DEADLINE, "clock.late": "partial", "client.update": "prox",
                     "client.mu": 0.1},
    "carry": {**DEADLINE, "clock.late": "carry", "async.staleness": "hinge", "async.b": 0},
    "carry_scaffold": {**DEADLINE, "clock.late": "carry", "client.update": "scaffold",
                       "server.optimizer": "momentum"},
    "jitter": {**DEADLINE, "clock.jitter": 0.6, "clock.backward-factor": 3},
    "lost": {"clock.lost": 0.3},
}
AVAILABILITY = {
    "markov_lose": {"clock.availability": "markov(1, 0.5)"},
    "diurnal_pause": {"clock.availability": "diurnal(2, 0.6)", "clock.leave": "pause"},
    "markov_finish": {**DEADLINE, "clock.late": "carry", "clock.availability": "markov(1, 0.5)",
                      "clock.leave": "finish", "clock.lost": 0.1},
    "nobody_for_long": {"clock.availability": "diurnal(50, 0.02)", "clock.empty-seconds": 0.3},
    "buffered_diurnal": {**FEDBUFF, "clock.availability": "diurnal(2, 0.4)", "clock.lost": 0.1},
    "buffered_markov": {**FEDBUFF, "clock.availability": "markov(0.3, 0.5)", "clock.jitter": 0.3,
                        "clock.leave": "pause", "async.next": "same", "clock.empty-seconds": 0.1},
}
BUFFERED = {
    "scaffold": {"client.update": "scaffold"},
    "momentum": {"server.optimizer": "momentum", "async.normalize": "weights"},
    "adam": {"server.optimizer": "adam", "server.lr": 0.01, "async.staleness": "hinge",
             "async.b": 1},
    "term": {"aggregator.kind": "term"},
    "afl": {"aggregator.kind": "afl", "async.staleness": "threshold", "async.b": 1},
    "fedmgda": {"aggregator.kind": "fedmgda+"},
    "osmd": {"sampler.kind": "adaptive-osmd", "sampler.horizon": 12},
    "oort": {"sampler.kind": "oort", "run.check-rules": "true"},
    "unbiased_osmd": {"sampler.kind": "adaptive-osmd", "sampler.horizon": 12,
                      "aggregator.estimator": "unbiased"},
    "ditto": {"client.update": "ditto", "async.balance": "frequency", "async.next": "same"},
    "personal": {**MLP, "client.personal": "fc2.*", "client.optimizer": "adam",
                 "client.optimizer-state": "kept"},
    "stale": {"async.concurrency": 20, "async.buffer": 2, "async.max-staleness": 3},
    "slots": {"async.open-slots": 3, "async.buffer": 12, "async.ahead": 0},
    "one": {"async.buffer": 1, "async.ahead": 0},
}
ONE_BY_ONE = {
    "sgd": {"async.staleness": "hinge", "async.a": 10},
    "prox": {"client.update": "prox", "client.mu": 0.5, "async.mixing": 0.9, "async.next": "same"},
    "ditto": {"client.update": "ditto", "async.max-staleness": 4},
}
# Equal clients, of whom B = C = K. 20 samples at 5 ms, of which a fifth is for tests; a phase, of which
# a task has three, takes a microsecond at least.
WAVE_S = 0.080002
EQUAL = {"clock.kind": "virtual", "async.kind": "fedbuff", "async.concurrency": 5,
         "async.buffer": 5}


class VirtualCase(harness.Case):
    def virtual(self, run):
        """The lines of rounds.csv from virtual_seconds on, with their header."""
        lines = [line.split(",") for line in harness.text(run, "rounds.csv").splitlines()]
        begin = lines[0].index("virtual_seconds")
        return [line[begin:] for line in lines]

    def numbers(self, run, field):
        return [float(x) for x in harness.column(run, "rounds.csv", field)]

    def assert_same(self, run, other, what):
        self.assert_digest(run, other, what)
        self.assertEqual(self.virtual(run), self.virtual(other), what)
        for name in ("participation.csv", "sampling.csv", "evaluations.csv", "clients.csv"):
            self.assertEqual(harness.text(run, name), harness.text(other, name), f"{name} {what}")
        self.assertEqual(harness.summary(run)["metrics"], harness.summary(other)["metrics"], what)

    def compare(self, changes):
        """On one rank, on four, and on two and behind the evaluation of round 8 on three: all end
        alike."""
        job = self.job({**UNEQUAL, **changes})
        alone = self.train(job, "alone")
        run = self.train(job, "halves", 2, {"run.rounds": 8})
        self.hanse("resume", run, "--run.rounds=12", ranks=3)
        self.assert_same(run, alone, "on two and three ranks")
        ranks, more = harness.PLACES[-1]
        self.assert_same(self.train(job, "place", ranks, more), alone, f"at {(ranks, more)}")
        seconds = self.numbers(alone, "virtual_seconds")
        self.assertEqual(seconds, sorted(seconds))
        self.assertGreater(seconds[-1], 0)
        return job, alone

    def compare_every_stop(self, changes):
        """Also as a whole at every one of harness.PLACES, and stopped behind each of seven rounds."""
        job, alone = self.compare(changes)
        for i, (ranks, more) in enumerate(harness.PLACES[:-1]):
            run = self.train(job, f"place-{i}", ranks, more)
            self.assert_same(run, alone, f"at (ranks, options) {(ranks, more)}")
        stop = {"run.max-seconds": 1e-9}  # after one round
        run = self.train(job, "stopped", PARTS[0], stop, expect=harness.STOPPED)
        # A round that a busy machine does not end within 3 s is left, and comes again.
        for ranks in PARTS[1:] + (None, None, None):
            if len(self.rounds(run)) == len(PARTS):
                break
            self.hanse("resume", run, *harness.options(stop), ranks=ranks, expect=harness.STOPPED)
        self.assertEqual(len(self.rounds(run)), len(PARTS))
        self.hanse("resume", run, "--run.max-seconds=0")
        self.assert_same(run, alone, "after resumes")

    def assert_same_but_evaluations(self, run, other, what):
        """A run that was stopped has evaluated at the ends of its parts, too."""
        self.assert_digest(run, other, what)
        self.assertEqual(self.virtual(run), self.virtual(other), what)
        for name in ("participation.csv", "sampling.csv", "clients.csv"):
            self.assertEqual(harness.text(run, name), harness.text(other, name), f"{name} {what}")


class SameTime(VirtualCase):
    """A test a job of the tables above; see below."""

    def test_files_of_profiles_of_lost_work_and_of_who_is_on_line(self):
        rows = [(0.02, "1e6", "1e5", 0.02), (0.05, "inf", "1e6", 0), (0.001, "1e7", "2e7", 0.1)]
        header = "client,seconds_per_sample,down_bps,up_bps,latency_s\n"
        profiles = header + "".join(
            ",".join(map(str, (i, *row))) + "\n" for i, row in enumerate(rows))
        on_line = "period,3\nclient,on,off\n" + "".join(
            f"{i},{i / 10},{1 + i / 10}\n" for i in range(20))
        lost = "client,probability\n" + "".join(f"{i},0.{i % 5}\n" for i in range(15))
        self.compare({"clock.speed": None, "clock.down-mbit": None, "clock.up-mbit": None,
                      "clock.latency-ms": None, "clock.path": self.write("p.csv", profiles),
                      "clock.availability": "file", "clock.leave": "pause",
                      "clock.availability-path": self.write("on.csv", on_line),
                      "clock.lost": "file", "clock.lost-path": self.write("lost.csv", lost)})

    def test_files_with_the_names_of_clients(self):
        """In any order, they say what the numbers say; and all clients must be there."""
        table = "label,site,x,y\n" + "".join(
            f"{i % 2},{site},{i / 7},{i % 3}\n" for site in ("north", "south", "3rd") for i in range(9))
        job = self.job({"data.kind": "csv", "data.path": self.write("t.csv", table),
                        "data.client-column": "site", "federation.partition": "auto",
                        "data.shape": None, "data.classes": None, "federation.clients": None,
                        "federation.samples": None, "sampler.per-round": 2, "clock.kind": "virtual",
                        "clock.path": "p.csv", "clock.lost": "file", "clock.lost-path": "l.csv",
                        "clock.availability": "file", "clock.availability-path": "on.csv"})
        header = "client,seconds_per_sample,down_bps,up_bps,latency_s\n"
        rows = ["1,0.5,1e6,1e6,0", "0,0.25,1e6,1e6,0", "2,0.125,1e6,inf,0.1"]

        def named(text):
            return text.replace("\n0,", "\nnorth,").replace("\n1,", "\nsouth,").replace(
                "\n2,", "\n3rd,")
        on_line, lost = "period,30\n0,0,9\n2,5,21\n", "client,probability\n1,0.5\n"
        for name, turn, ordered in (("numbers", str, sorted(rows)), ("names", named, rows)):
            self.write("p.csv", turn(header + "\n".join(ordered) + "\n"))
            self.write("on.csv", turn(on_line))
            self.write("l.csv", turn(lost))
            self.train(job, name)
        self.assert_same(self.path("names"), self.path("numbers"), "by names")
        for lines, words in ((rows[:2], "client '3rd' has no line"),
                             ([*rows, rows[0]], "a second line of this client"),
                             ([*rows, "norht,1,1,1,0"], "no client is called 'norht'")):
            self.write("p.csv", named(header + "\n".join(lines) + "\n"))
            said = self.hanse("run", job, f"--run.out={self.path('refused')}", expect=2)
            self.assertIn(words, said.stderr())

    def test_a_killed_run_goes_on_as_if_nothing_had_been(self):
        changes = {**UNEQUAL, **FEDBUFF, "async.concurrency": 15, "async.buffer": 2,
                   "client.update": "scaffold", "clock.availability": "markov(2, 1)",
                   "run.rounds": 6000, "checkpoint.every": 50, "evaluate.every": 0,
                   "data.test-fraction": 0.1}
        job = self.job(changes)
        for number, ranks in ((signal.SIGKILL, None), (signal.SIGTERM, 2)):
            run = self.path(f"killed-{ranks}")
            process = self.start("run", job, f"--run.out={run}", ranks=ranks)
            self.wait_for_rounds(process, run, 120)
            process.signal(number)
            self.wait_until_gone(process, number.name)
            last = int(self.checkpoints(run)[-1][len("round-"):-len(".h5")])
            self.assertGreater(last, 0)
            rounds = last + 60
            self.hanse("resume", run, f"--run.rounds={rounds}")
            straight = self.train(job, f"straight-{ranks}", changes={"run.rounds": rounds})
            self.assert_same_but_evaluations(run, straight, number.name)


def add_tests(group, jobs, base, stops=()):
    """A test a job; those of `stops` are stopped everywhere."""
    for name, changes in jobs.items():
        def test(self, changes=changes, name=name):
            compare = self.compare_every_stop if name in stops else self.compare
            compare({**base, **changes})
        setattr(SameTime, f"test_{group}_{name}", test)


add_tests("round", ROUNDS, {}, stops=("first_oort", "carry_scaffold"))
add_tests("availability", AVAILABILITY, {}, stops=("markov_finish", "buffered_markov"))
add_tests("fedbuff", BUFFERED, FEDBUFF, stops=("personal",))
add_tests("fedasync", ONE_BY_ONE, FEDASYNC, stops=("ditto",))


class SameAsWithoutAClock(VirtualCase):
    """Where time makes no difference, a run with a clock has the bits of one without."""

    def test_rounds_that_end_with_the_last_client(self):
        for i, more in enumerate(({}, {"server.optimizer": "momentum", "sampler.kind": "osmd"})):
            plain = self.train(self.job(more), f"plain-{i}")
            timed = self.train(self.job({**more, "clock.kind": "virtual"}), f"timed-{i}", 2)
            self.assert_digest(timed, plain, str(more))
            self.assertEqual(harness.text(timed, "evaluations.csv"),
                             harness.text(plain, "evaluations.csv"))
            slow = self.train(self.job({**UNEQUAL, **more, "client.epochs": 1,
                                        "federation.partition": None}), f"slow-{i}")
            self.assert_digest(slow, plain, "who is slow does not matter where all are awaited")
        self.assertNotIn("virtual_seconds", harness.text(plain, "rounds.csv"))
        self.assertEqual(self.numbers(timed, "round_virtual_seconds"), [WAVE_S] * 12)
        self.assertEqual(self.numbers(timed, "virtual_seconds"),
                         [round(WAVE_S * t, 6) for t in range(1, 13)])

    def test_first_of_no_more_than_the_round_has_and_a_late_deadline(self):
        job = self.job(UNEQUAL)
        waits = self.train(job, "all")
        first = self.train(job, "first", changes={"clock.round": "first"})
        late = self.train(job, "deadline", changes={"clock.round": "deadline",
                                                    "clock.deadline-seconds": 1000})
        for run in (first, late):
            self.assert_digest(run, waits, run)
            self.assertEqual(self.virtual(run), self.virtual(waits))

    def test_a_deadline_that_nobody_meets(self):
        run = self.train(self.job({**UNEQUAL, "evaluate.start": "true"}), "run", changes={
            "clock.round": "deadline", "clock.deadline-seconds": 0.001})
        self.assertEqual(self.numbers(run, "counted"), [0] * 12)
        self.assertEqual(self.numbers(run, "virtual_seconds"),
                         [round(0.001 * t, 6) for t in range(1, 13)])
        self.assertEqual(len(set(harness.column(run, "evaluations.csv", "loss_mean"))), 1)

    def test_a_buffer_of_all_that_are_in_flight(self):
        jobs = [{"sampler.kind": "uniform"},
                {"sampler.kind": "weighted", "sampler.replacement": "false"},
                {"sampler.kind": "full", "federation.clients": 5},
                {"client.update": "scaffold"}, {"server.optimizer": "momentum"},
                {"server.optimizer": "adam", "server.lr": 0.01},
                {"aggregator.estimator": "unbiased"}, {"aggregator.kind": "term"},
                {"sampler.kind": "adaptive-osmd", "sampler.replacement": "false"}]
        for i, more in enumerate(jobs):
            plain = self.train(self.job(more), f"plain-{i}")
            for normalize in ("buffer", "weights"):
                if normalize == "weights" and "aggregator.estimator" in more:
                    continue  # is refused
                run = self.train(self.job({**EQUAL, **more, "async.normalize": normalize}),
                                 f"{normalize}-{i}")
                self.assert_digest(run, plain, f"{more} {normalize}")
            self.assertEqual(self.numbers(run, "staleness_max"), [0] * 12)

    def test_slots_that_open_when_all_have_ended(self):
        job = self.job({**UNEQUAL, "client.update": "scaffold"})
        run = self.train(job, "buffered", changes={**EQUAL, "async.open-slots": 5})
        waits = self.train(job, "all")
        self.assert_digest(run, waits)
        self.assertEqual(harness.column(run, "rounds.csv", "virtual_seconds"),
                         harness.column(waits, "rounds.csv", "virtual_seconds"))


class Staleness(VirtualCase):
    def test_of_waves_of_equal_clients(self):
        job = self.job({**EQUAL, "async.concurrency": 15})
        run = self.train(job, "run")
        self.assertEqual(self.numbers(run, "staleness_mean"), [0, 1, 2] * 4)
        self.assertEqual(self.numbers(run, "in_flight_mean"), [15] * 12)
        self.assertEqual(self.numbers(run, "virtual_seconds"),
                         [round(WAVE_S * (1 + t // 3), 6) for t in range(12)])
        counts = harness.summary(run)["metrics"]
        self.assertEqual([counts[f"staleness_{n}"] for n in (0, 1, 2, 4)], [20, 20, 20, 0])
        counted = [int(row["counted"]) for row in harness.table(run, "clients.csv")]
        self.assertEqual(sum(counted), 12 * 5)

    def test_updates_that_are_too_old_are_thrown_away(self):
        run = self.train(self.job({**EQUAL, "async.concurrency": 15, "async.max-staleness": 1}),
                         "run")
        self.assertEqual(self.numbers(run, "staleness_max"), [0, 1] * 6)
        self.assertEqual(self.numbers(run, "discarded"), [0, 0, *[5, 0] * 5])

    def test_shares_that_are_balanced_by_frequency(self):
        changes = {"clock.kind": "virtual", "clock.speed": "lognormal(0, 0.6)", **FEDBUFF,
                   "async.concurrency": 23, "async.next": "same", "async.staleness": "constant",
                   "aggregator.weights": "uniform", "aggregator.estimator": "unbiased",
                   "run.rounds": 2000, "evaluate.every": 0}
        for balance, spread in (("none", 4), ("frequency", 1.02)):
            run = self.train(self.job(changes), balance, changes={"async.balance": balance})
            sums = {}
            for line in harness.table(run, "participation.csv"):
                sums[line["client"]] = sums.get(line["client"], 0) + float(line["weight"])
            self.assertEqual(len(sums), 23)
            self.assertEqual(max(sums.values()) / min(sums.values()) > spread, balance == "none")

    def test_lines_of_participants(self):
        run = self.train(self.job({**UNEQUAL, **FEDBUFF, "aggregator.weights": "uniform"}), "run")
        lines = harness.table(run, "participation.csv")
        self.assertEqual(len(lines), 12 * 4)
        for line in lines:
            tau = int(line["staleness"])
            self.assertEqual(int(line["received"]) + tau + 1, int(line["round"]))
            self.assertAlmostEqual(float(line["weight"]), (1 + tau) ** -0.5 / 4, places=8)


class TheEndOfTime(VirtualCase):
    """A round that would end beyond run.virtual-seconds does not happen."""

    def compare_with_rounds(self, name, changes):
        """With a limit between two rounds, on three ranks, the run is that of so many rounds; with the
        limit gone it goes on to the whole one."""
        job = self.job({**UNEQUAL, **changes})
        whole = self.train(job, f"{name}-whole")
        times = self.numbers(whole, "virtual_seconds")
        count = max(i for i in range(1, 9) if times[i - 1] < times[i])
        limit = {"run.virtual-seconds": (times[count - 1] + times[count]) / 2}
        run = self.path(f"{name}-limited")
        said = self.hanse("run", job, f"--run.out={run}", *harness.options(limit), ranks=3)
        rounds = self.train(job, f"{name}-rounds", changes={"run.rounds": count})
        self.assert_same(run, rounds, f"{name}: {count} rounds fit")
        self.assertRegex(said.stderr(), rf"ended after round {count}: run.virtual-seconds = .*, of "
                         rf"which .* are used; round {count + 1} would end at ")
        self.assertRegex(said.stdout(), r"virtual time +\S+ s of \S+, \S+ %")
        self.hanse("resume", run)
        self.assert_digest(run, rounds, f"{name}: there is nothing left to do")
        self.assertEqual(self.virtual(run), self.virtual(rounds))
        self.hanse("resume", run, "--run.virtual-seconds=0", ranks=2)
        self.assert_same(run, whole, f"{name}: without the limit")

    def test_rounds(self):
        for name in ("all", "first_osmd", "first_oort", "deadline_power_of_choice", "carry_scaffold"):
            self.compare_with_rounds(name, ROUNDS[name])
        self.compare_with_rounds("markov", AVAILABILITY["markov_finish"])
        self.compare_with_rounds("regret", {"evaluate.regret": "true", **ROUNDS["first_osmd"]})

    def test_versions(self):
        self.compare_with_rounds("markov", AVAILABILITY["buffered_markov"])
        self.compare_with_rounds("unbiased", {**FEDBUFF, **BUFFERED["unbiased_osmd"]})
        self.compare_with_rounds("fedasync", {**FEDASYNC, **ONE_BY_ONE["ditto"]})

    def test_a_round_that_ends_with_the_limit_happens(self):
        run = self.train(self.job(EQUAL), "run", changes={"run.virtual-seconds": 5 * WAVE_S})
        self.assertEqual(self.rounds(run), [1, 2, 3, 4, 5])

    def test_a_limit_that_no_round_keeps_is_refused(self):
        for ranks in (None, 3):
            run = self.path(f"run-{ranks}")
            said = self.hanse("run", self.job(EQUAL), f"--run.out={run}", ranks=ranks, expect=2,
                              *harness.options({"run.virtual-seconds": 0.05}))
            self.assertIn("error: no round fits: the first one ends after 0.080002 virtual seconds "
                          "(run.virtual-seconds = 0.05); hint: allow more of them", said.stderr())


class EndTable(VirtualCase):
    """What a run is about beside its accuracy, in its last table and in summary.json."""

    def test_target_time_attackers_and_updates(self):
        job = self.job({**UNEQUAL, "attack.kind": "sign-flip", "attack.clients": 3,
                        "aggregator.kind": "median", "run.virtual-seconds": 100})
        for target, words in (("loss_mean<=0", "not reached"),
                              ("loss_mean<=100", r"reached in round 4, after \S+ virtual seconds")):
            run = self.path(words[:3])
            said = self.hanse("run", job, f"--run.out={run}", f"--run.target={target}", ranks=2)
            metrics = harness.summary(run)["metrics"]
            seconds = self.numbers(run, "virtual_seconds")[-1]
            self.assertAlmostEqual(metrics["virtual_seconds"], seconds, places=5)
            sent = sum(float(x) for x in harness.column(run, "rounds.csv", "bytes_updates"))
            self.assertEqual((metrics["attackers"], metrics["update_bytes"]), (3, sent))
            self.assertAlmostEqual(metrics["update_bytes_per_client"], sent / 23, places=3)
            for line in (rf"target {target} +{words}\n", r"virtual time +\S+ s of 100, \S+ %\n",
                         r"attackers +3\n", r"updates +\S+ MB, \S+ MB a client\n"):
                self.assertRegex(said.stdout(), line)

    def test_repeats_have_their_means(self):
        job = self.job({**UNEQUAL, "attack.kind": "sign-flip", "attack.clients": 3,
                        "aggregator.kind": "median", "run.repeats": 2})
        said = self.hanse("run", job, f"--run.out={self.path('repeats')}").stdout()
        for line in (r"virtual time +\S+ s\n", r"attackers +3\n",
                     r"updates +\S+ MB, \S+ MB a client\n"):
            self.assertRegex(said, line)

    def test_a_private_run(self):
        run = self.train(self.job({"privacy.kind": "central", "privacy.clip": 1, "privacy.noise": 1,
                                   "sampler.kind": "poisson"}), "run")
        summary = harness.summary(run)
        self.assertEqual(summary["metrics"]["privacy_epsilon"], summary["privacy"]["epsilon"])
        self.assertEqual(summary["metrics"]["privacy_delta"], summary["privacy"]["delta"])
        self.assertNotIn("virtual_seconds", summary["metrics"])


class Watch(VirtualCase):
    def test_a_run_of_some_virtual_seconds(self):
        changes = {**UNEQUAL, **FEDBUFF, "run.rounds": 1000, "checkpoint.every": 5}
        run = self.train(self.job(changes), "run", changes={"run.virtual-seconds": 3})
        seconds = self.numbers(run, "virtual_seconds")
        self.assertLessEqual(seconds[-1], 3)
        self.assertGreater(seconds[-1], 2)
        self.hanse("resume", run, "--run.virtual-seconds=5", ranks=2)
        straight = self.train(self.job(changes), "straight", changes={"run.virtual-seconds": 5})
        self.assert_same(run, straight, "after more seconds")
        self.assertGreater(len(self.rounds(run)), len(seconds))

    def test_the_evaluation_of_an_early_end_is_none_of_the_run_that_goes_on(self):
        """Also where the run that goes on is stopped, and where every table is written."""
        changes = {**UNEQUAL, **FEDBUFF, "run.rounds": 100, "evaluate.every": 7,
                   "evaluate.history": "true", "aggregator.kind": "afl"}
        run = self.train(self.job(changes), "run", changes={"run.virtual-seconds": 2.9})
        early = harness.column(run, "evaluations.csv", "round")
        self.assertNotEqual(int(early[-1]) % 7, 0)
        self.hanse("resume", run, "--run.virtual-seconds=5", "--run.max-seconds=1e-9",
                   expect=harness.STOPPED)
        self.hanse("resume", run, "--run.virtual-seconds=5", ranks=2)
        straight = self.train(self.job(changes), "straight", changes={"run.virtual-seconds": 5})
        self.assert_same(run, straight, "after more seconds")
        for name in ("decisions.csv", "metrics.jsonl"):
            self.assertEqual(harness.text(run, name), harness.text(straight, name), name)
        rounds = [int(t) for t in harness.column(run, "evaluations.csv", "round")]
        self.assertEqual(rounds[:-1], list(range(7, rounds[-1], 7)))

    def test_a_run_that_ends_early_has_its_last_checkpoint(self):
        """Also where checkpoint.every = 0, and where evaluations look for a target in vain."""
        changes = {**UNEQUAL, **FEDBUFF, "run.rounds": 1000, "checkpoint.every": 0,
                   "evaluate.every": 1}
        for name, end in (("time", {"run.virtual-seconds": 3, "run.target": "loss_mean<=0"}),
                          ("target", {"run.target": "loss_mean>=0"})):
            run = self.train(self.job(changes), name, 2, end)
            done = len(self.rounds(run))
            self.assertLess(done, 1000)
            self.assertEqual(self.checkpoints(run), [f"round-{done:06}.h5"])
            self.hanse("resume", run)
            self.assertEqual(len(self.rounds(run)), done, "there is nothing left to do")

    def test_evaluations_by_virtual_time(self):
        run = self.train(self.job({**UNEQUAL, "run.rounds": 40, "evaluate.every-seconds": 5}),
                         "run")
        seconds = self.numbers(run, "virtual_seconds")
        due = [t for t, (before, now) in enumerate(zip([0, *seconds], seconds), 1)
               if now // 5 > before // 5]
        self.assertGreater(len(due), 5)
        evaluated = [int(t) for t in harness.column(run, "evaluations.csv", "round")]
        self.assertEqual(evaluated, sorted({*due, 40}))

    def test_the_virtual_seconds_to_a_target(self):
        run = self.train(self.job({**UNEQUAL, "evaluate.every": 2}), "run",
                         changes={"run.target": "loss_mean<=100"})
        self.assertEqual(self.rounds(run), [1, 2])
        found = harness.summary(run)["metrics"]["target_virtual_seconds"]
        self.assertAlmostEqual(found, self.numbers(run, "virtual_seconds")[1], places=5)

    def test_who_is_too_slow_ever_to_count(self):
        changes = {"federation.clients": 6, "sampler.per-round": 3, "sampler.over-select": 1.3,
                   "clock.kind": "virtual", "clock.round": "first", "run.rounds": 400,
                   "clock.speed": "uniform(1, 3)", "aggregator.weights": "uniform"}
        process = self.start("run", self.job(changes), f"--run.out={self.path('run')}").wait()
        self.assertEqual(process.status, 0, process.describe())
        self.assertIn("1 of 6 clients", process.stderr())
        run = self.path("run")
        metrics = harness.summary(run)["metrics"]
        self.assertAlmostEqual(metrics["unreachable_share"], 1 / 6)
        self.assertEqual(metrics["participation_min"], 0)
        # Of 400 rounds: shares 2/3, 2/3, 2/3, 3/5, 2/5 and 0, from the fastest to the slowest.
        counted = sorted((int(row["counted"]) for row in harness.table(run, "clients.csv")),
                         reverse=True)
        self.assertEqual(sum(counted), 1200)
        self.assertEqual(counted[-1], 0)
        for count, share in zip(counted, (2 / 3, 2 / 3, 2 / 3, 3 / 5, 2 / 5)):
            self.assertAlmostEqual(count / 400, share, delta=0.1)
        arrival = self.train(self.job(changes), "arrival",
                             changes={"aggregator.estimator": "arrival"})
        weights = {float(line["weight"]) for line in harness.table(arrival, "participation.csv")
                   if line["counted"] == "1"}
        for weight, pi in zip(sorted(weights), (2 / 3, 3 / 5, 2 / 5)):
            self.assertAlmostEqual(weight, 1 / 6 / pi, places=8)


class NoUpdates(VirtualCase):
    """Runs in which no update counts say so, and go on."""

    def warnings(self, changes, rounds=10):
        process = self.hanse("run", self.job({"run.rounds": rounds, "evaluate.every": 0,
                                              "report.participation": "true", **changes}),
                             f"--run.out={self.path('run')}", "--run.overwrite=true")
        self.assertNotIn("nan", process.stderr())
        return [line for line in process.lines() if "no update has counted" in line]

    def test_for_every_reason(self):
        virtual = {"clock.kind": "virtual"}
        for changes, why in (
                ({**virtual, "clock.round": "deadline", "clock.deadline-seconds": 1e-6},
                 "50 clients that came late"),
                ({**virtual, "clock.availability": "diurnal(86400, 1e-7)"},
                 "10 rounds in which nobody was there or drawn"),
                ({**virtual, "clock.lost": 0.999999}, "50 clients that were lost"),
                ({"aggregator.kind": "bulyan", "aggregator.byzantine": 1, "sampler.per-round": 4,
                  "aggregator.shortfall": "skip"}, "10 rounds in which no update got a weight"),
                ({**virtual, **FEDBUFF, "async.staleness": "threshold", "async.a": 0,
                  "async.b": 0, "async.concurrency": 20, "async.buffer": 1, "async.open-slots": 20},
                 None)):
            lines = self.warnings(changes)
            if why is None:  # one version of twenty is of an update that is not old
                self.assertEqual(len(lines), 1, changes)
                self.assertIn("9 of 10 rounds: 9 rounds in which no update got a weight", lines[0])
                continue
            self.assertEqual(len(lines), 2, changes)
            self.assertIn("in the first 3 rounds", lines[0])
            self.assertIn(f"in 10 of 10 rounds: {why}", lines[1])
            table = harness.text(self.path("run"), "participation.csv").splitlines()
            self.assertTrue(table[0].startswith("round,client,weight"), table[0])
        self.assertEqual(self.warnings({**virtual, "clock.lost": 0.3}), [])

    def test_counts_go_on_after_a_resume(self):
        changes = {"clock.kind": "virtual", "clock.lost": 0.999999, "run.rounds": 8}
        run = self.train(self.job(changes), "run", changes={"run.max-seconds": 1e-9},
                         expect=harness.STOPPED)
        process = self.hanse("resume", run)
        self.assertIn("no update has counted in 8 of 8 rounds", process.stderr())


class WithoutWeight(VirtualCase):
    """Versions and rounds whose updates are all too old to count: no step, no blame, no signal."""

    OLD = {"async.staleness": "threshold", "async.a": 0, "async.b": 0}
    RULES = ("fedavg", "qfedavg", "krum", "geometric-median", "dqn-fed", "fedheal", "fedmgda+",
             "centered-clipping")

    def test_of_asynchronous_rounds(self):
        for kind in self.RULES:
            for normalize in ("weights", "buffer"):
                changes = {"clock.kind": "virtual", "clock.speed": "lognormal(1, 0.8)",
                           "async.kind": "fedbuff", "async.concurrency": 12, "async.buffer": 4,
                           "async.normalize": normalize, "aggregator.kind": kind, **self.OLD}
                run = self.train(self.job(changes), f"{kind}-{normalize}")
                weights = [float(line["weight"] or 0)
                           for line in harness.table(run, "participation.csv")]
                self.assertIn(0, weights)

    def test_of_late_work(self):
        """One participant a round, who is always late."""
        changes = {"clock.kind": "virtual", "clock.round": "deadline", "clock.late": "carry",
                   "clock.deadline-seconds": 0.05, "sampler.per-round": 1, "evaluate.start": "true",
                   "server.optimizer": "momentum", **self.OLD}
        for kind in ("fedavg", "dqn-fed"):
            run = self.train(self.job({**changes, "aggregator.kind": kind}), kind, 2)
            self.assertGreater(sum(self.numbers(run, "counted")), 3)
            self.assertEqual(len(set(harness.column(run, "evaluations.csv", "loss_mean"))), 1, kind)

    def test_weights_keep_their_sum(self):
        """A late update alone in its round counts as one in time, though its weight is not 1."""
        run = self.train(self.job({**UNEQUAL, **DEADLINE, "clock.late": "carry", "run.rounds": 40,
                                   "sampler.per-round": 1, "aggregator.estimator": "unbiased"}),
                         "run")
        rounds = {}
        for line in harness.table(run, "participation.csv"):
            if line["counted"] == "1":
                rounds.setdefault(line["round"], []).append(line)
        alone = [lines[0] for lines in rounds.values() if len(lines) == 1]
        late = [line for line in alone if line["staleness"] != "0"]
        self.assertGreater(min(len(late), len(alone) - len(late)), 3)
        samples = sum(int(row["train"]) for row in harness.table(run, "partition.csv"))
        for line in alone:  # lambda_i times the number of those who were there
            there = float(line["weight"]) * samples / int(line["samples"])
            self.assertAlmostEqual(there, round(there), places=5, msg=line)
            self.assertTrue(1 <= round(there) <= 23, line)


class Waiting(VirtualCase):
    def test_microseconds_of_long_times(self):
        job = self.job({"clock.kind": "virtual", "clock.sample-seconds": 1234.567891})
        run = self.train(job, "run")
        # 16 samples and two messages of a microsecond.
        step = 16 * 1234567891 + 2
        self.assertEqual(harness.column(run, "rounds.csv", "virtual_seconds"),
                         [f"{step * t / 1e6:.6f}".rstrip("0").rstrip(".") for t in range(1, 13)])

    def test_who_is_on_line_between_two_looks_is_seen(self):
        on_line = "period,20\n" + "".join(f"{i},3,7\n" for i in range(23))
        changes = {"clock.kind": "virtual", "clock.availability": "file",
                   "clock.availability-path": self.write("on.csv", on_line),
                   "clock.empty-seconds": 10, "clock.sample-seconds": 0.1}
        run = self.train(self.job(changes), "rounds")
        self.assertEqual(self.numbers(run, "virtual_seconds")[:4], [3, 4.600002, 6.200004, 7])
        self.assertGreater(sum(self.numbers(run, "counted")), 12)
        run = self.train(self.job({**changes, **FEDBUFF}), "buffered")
        self.assertEqual(self.numbers(run, "virtual_seconds")[:3], [4.600002, 4.600002, 6.200004])

    def test_a_buffer_that_nothing_holds(self):
        process = self.hanse("run", self.job({"clock.kind": "virtual", **FEDBUFF,
                                              "async.buffer": 2 ** 63 - 1}),
                             f"--run.out={self.path('run')}", expect=None)
        self.assert_one_error(process, 2, "async.buffer", "memory")

    def test_a_round_without_an_end_is_left(self):
        """A client of it pauses 10^11 times."""
        job = self.job({"clock.kind": "virtual", "clock.availability": "markov(1e-4, 1e-4)",
                        "clock.leave": "pause", "clock.sample-seconds": 1e6})
        process = self.hanse("run", job, f"--run.out={self.path('run')}", "--run.max-seconds=0.5",
                             ranks=2, expect=harness.STOPPED)
        self.assertIn("waiting for the end of round 1", process.stderr())
        self.assertIn("stopped within round 1, which is not kept", process.stderr())
        self.assertEqual(process.errors(), [])

    def test_a_request_in_a_long_round_says_what_it_waits_for(self):
        run = self.path("run")
        process = self.start("run", self.job({"client.epochs": 100000000}), f"--run.out={run}")
        process.wait_until(lambda: os.path.exists(os.path.join(run, "rounds.csv")), "it began")
        process.signal(signal.SIGUSR1)
        process.wait_until(lambda: "stop requested; waiting for the end of round 1" in
                           process.stderr(), "the request was heard")
        process.signal(signal.SIGKILL)
        self.wait_until_gone(process, "a request and SIGKILL")


class BadClock(harness.Case):
    """Whatever is wrong with the keys and files of a clock: one line and status 2, and no results."""

    def refuse(self, *parts, **changes):
        keys = {key.replace("__", ".", 1).replace("_", "-"): value
                for key, value in changes.items()}
        job = self.job({"clock.kind": "virtual", **keys})
        run = self.path("run")
        process = self.hanse("run", job, f"--run.out={run}", expect=None)
        self.assert_one_error(process, 2, *parts)
        self.assertEqual(os.listdir(run) if os.path.isdir(run) else [], [], process.describe())

    def test_keys(self):
        for speed in ("constant(0)", "uniform(2, 1)", "lognormal(1)", "gauss(1)", "exponential(-1)"):
            self.refuse("clock.speed", speed, clock__speed=speed)
        self.refuse("clock.deadline-seconds", clock__round="deadline",
                    clock__deadline_seconds="quantile(1.5)")
        self.refuse("clock.deadline-seconds", clock__round="deadline",
                    clock__deadline_seconds="quantile(0)")
        self.refuse("sampler.over-select", sampler__over_select=0.5)
        self.refuse("sampler.over-select", sampler__over_select=1.3, sampler__replacement="true",
                    clock__round="first")
        self.refuse("sampler.availability", sampler__availability=0.5,
                    clock__availability="markov(1, 1)")
        self.refuse("clock.late", "deadline", clock__late="carry")
        self.refuse("client.stragglers", client__stragglers=0.5)
        self.refuse("run.round-seconds", run__round_seconds=1)
        self.refuse("clock.lost", clock__lost=1)
        self.refuse("run.trace", run__trace="true", clock__lost=0.1)
        for changes in ({"clock__kind": "none"}, {"clock__jitter": 0.1}, {"clock__lost": 0.1},
                        {"clock__availability": "markov(1, 1)"}, {"sampler__kind": "weighted"},
                        {"clock__round": "all"}):
            self.refuse("aggregator.estimator", **{"clock__round": "first",
                                                   "aggregator__estimator": "arrival", **changes})
        self.refuse("clock.late", clock__round="deadline", clock__late="partial",
                    aggregator__kind="dqn-fed")
        for changes in ({"aggregator__kind": "aaggff-s"}, {"client__update": "fednew",
                                                           "client__weight_decay": 0.01}):
            for more in ({"clock__round": "deadline"}, {"clock__lost": 0.1}):
                self.refuse("clock.kind", sampler__kind="full", **changes, **more)

    def test_asynchronous_keys(self):
        for changes, key in (({"clock__round": "first"}, "clock.round"),
                             ({"clock__kind": "none"}, "clock.kind"),
                             ({"async__open_slots": 11}, "async.open-slots"),
                             ({"async__staleness": "threshold", "async__a": 1.5}, "async.a"),
                             ({"async__normalize": "weights",
                               "aggregator__estimator": "unbiased"}, "async.normalize"),
                             ({"async__concurrency": 24}, "async.concurrency"),
                             ({"evaluate__regret": "true"}, "evaluate.regret"),
                             ({"run__round_seconds": 1}, "run.round-seconds"),
                             ({"client__update": "fednew", "sampler__kind": "full",
                               "client__weight_decay": 0.01}, "async.kind"),
                             ({"sampler__kind": "avare"}, "sampler.kind"),
                             ({"sampler__kind": "full"}, "sampler.kind"),
                             ({"sampler__kind": "power-of-choice"}, "sampler.kind")):
            self.refuse(key, **{"async__kind": "fedbuff", **changes})
        for changes, key in (({"aggregator__kind": "afl"}, "aggregator.kind"),
                             ({"aggregator__estimator": "unbiased"}, "aggregator.estimator"),
                             ({"server__optimizer": "adam"}, "server.optimizer"),
                             ({"server__lr": 0.5}, "server.lr"),
                             ({"client__update": "scaffold"}, "client.update"),
                             ({"async__mixing": 0}, "async.mixing")):
            self.refuse(key, **{"async__kind": "fedasync", **changes})

    def test_files(self):
        path = self.path("file.csv")
        header = "client,seconds_per_sample,down_bps,up_bps,latency_s\n"
        for lines in ("", "0,1,1,1,0\n", header, header + "0,0,1,1,0\n", header + "1,1,1,1,0\n",
                      header + "0,1,-1,1,0\n", header + "0,1,1\n"):
            self.write("file.csv", lines)
            self.refuse("file.csv", clock__path=path)
        self.write("file.csv", header + "north,1,1,1,0\n")
        self.refuse("file.csv", "client 'north' is no number", "the data name no clients",
                    clock__path=path)
        for lines in ("", "0,1,2\n", "period,0\n", "period,10\n0,1,5\n0,4,6\n",
                      "period,10\n0,5,6\n0,1,2\n", "period,10\n0,5,4\n", "period,10\n0,8,12\n",
                      "period,10\n23,1,2\n", "period,10\n0,one,2\n"):
            self.write("file.csv", lines)
            self.refuse("file.csv", clock__availability="file", clock__availability_path=path)
        for lines in ("0,1.5\n", "23,0.5\n", "0\n"):
            self.write("file.csv", "client,probability\n" + lines)
            self.refuse("file.csv", clock__lost="file", clock__lost_path=path)
        self.write("file.csv", header + "0,1,1,1,0\n")
        for key in ("clock__speed", "clock__down_mbit"):
            self.refuse("clock.path", **{key: "uniform(1, 2)", "clock__path": path})
        self.refuse("clock.availability-path", clock__availability="file")
        self.refuse("clock.lost-path", clock__lost_path=path)

    def test_protocols_without_rounds_say_that_they_have_no_clock(self):
        process = self.hanse("run", self.job({"clock.kind": "virtual", "run.protocol": "local"}),
                             f"--run.out={self.path('run')}")
        self.assertEqual(process.stderr().count("not used by this job: clock.kind"), 1,
                         process.describe())
        for protocol in ("local", "centralized", "online", "bandit"):
            os.path.isdir(self.path("run")) and shutil.rmtree(self.path("run"))
            self.refuse("run.protocol", "async.kind = fedbuff", async__kind="fedbuff",
                        run__protocol=protocol)


if __name__ == "__main__":
    harness.main()
