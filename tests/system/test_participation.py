"""participation.csv: who took part in each round, with which weight, on any ranks and resumed."""

import os

import harness

NAME = "participation.csv"
CLOCK = {"federation.partition": "power-law", "clock.kind": "virtual", "clock.speed": "lognormal(0, 1)"}


class Participation(harness.Case):
    def lines(self, run):
        """Its lines without the seconds, which are measured."""
        lines = harness.table(run, NAME)
        return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]

    def test_the_same_on_any_ranks_and_resumed(self):
        changes = {"federation.partition": "power-law", "client.stragglers": 0.5,
                   "client.epochs": 3, "run.rounds": 12, "checkpoint.every": 3}
        alone, half = self.compare_places(changes)
        expected = self.lines(alone)
        self.assertEqual([line["round"] for line in expected],
                         [str(t) for t in range(1, 13) for _ in range(5)])
        for run in [half, *(self.path(f"place-{i}") for i in range(len(harness.PLACES)))]:
            self.assertEqual(self.lines(run), expected, run)

    def test_what_the_lines_say(self):
        run = self.train(self.job({"federation.partition": "power-law", "client.stragglers": 0.5,
                                   "client.epochs": 3}), "run", 2)
        samples = {}
        for row in harness.table(run, "partition.csv"):
            samples[row["client"]] = samples.get(row["client"], 0) + int(row["train"])
        lines = harness.table(run, NAME)
        full = 0
        for t in range(1, 13):
            round_lines = [line for line in lines if line["round"] == str(t)]
            total = sum(samples[line["client"]] for line in round_lines)
            for line in round_lines:
                count = samples[line["client"]]
                self.assertEqual(int(line["samples"]), count)
                self.assertAlmostEqual(float(line["weight"]), count / total, places=8)
                self.assertIn(int(line["steps"]), [-(-count // 6) * e for e in (1, 2, 3)])
                full += int(line["steps"]) == -(-count // 6) * 3
                self.assertGreater(float(line["seconds"]), 0)
                self.assertEqual((line["received"], line["staleness"], line["counted"]),
                                 (str(t - 1), "0", "1"))
        self.assertLess(full, len(lines))

    def test_what_means_nothing_is_empty(self):
        one_a_layer = self.train(self.job({"aggregator.kind": "fedlf", "model.kind": "mlp",
                                           "model.hidden": 7}), "layers")
        self.assertEqual({line["weight"] for line in harness.table(one_a_layer, NAME)}, {""})
        newton = self.train(self.job({"client.update": "fednew", "client.weight-decay": 0.01,
                                      "sampler.kind": "full"}),
                            "newton")
        self.assertEqual({line["steps"] for line in harness.table(newton, NAME)}, {""})
        run = self.train(self.job({"aggregator.kind": "dqn-fed"}), "direction")
        scales = {row["round"]: float(row["scale"]) for row in harness.table(run, "rounds.csv")}
        for line, direction in zip(harness.table(run, NAME), harness.table(run, "directions.csv")):
            self.assertEqual(line["client"], direction["client"])
            scale = scales[line["round"]]  # of the whole direction
            self.assertAlmostEqual(float(line["weight"]), float(direction["weight"]) * scale, 7)

    def test_clients_that_a_time_limit_leaves_out(self):
        run = self.train(self.job({"run.round-seconds": 1e-9}), "run")
        lines = harness.table(run, NAME)
        self.assertEqual({line["counted"] for line in lines}, {"0", "1"})
        for line in lines:
            if line["counted"] == "0":
                self.assertEqual((line["weight"], line["steps"], line["seconds"],
                                  line["received"]), ("0", "", "", ""))
        left = [sum(1 for line in lines if (line["round"], line["counted"]) == (str(t), "0"))
                for t in range(1, 13)]
        self.assertEqual(left, [int(n) for n in harness.column(run, "rounds.csv", "left_out")])

    def test_tasks_of_rounds_on_the_virtual_clock(self):
        """Of the drawn clients those that count, are late or are lost; none of the others."""
        run = self.train(self.job({**CLOCK, "clock.lost": 0.3, "clock.round": "first",
                                   "sampler.over-select": 1.6}), "run")
        lines = harness.table(run, NAME)
        states = set()
        for t, row in enumerate(harness.table(run, "rounds.csv"), 1):
            end = float(row["virtual_seconds"])
            start = end - float(row["round_virtual_seconds"])
            tasks = [line for line in lines if line["round"] == str(t)]
            self.assertEqual(len(tasks), int(row["drawn"]))
            for state in ("counted", "late", "lost"):
                self.assertEqual(sum(line["state"] == state for line in tasks), int(row[state]))
            for line in tasks:
                self.assertAlmostEqual(float(line["start"]), start, 5)
                self.assertEqual(line["counted"], str(int(line["state"] == "counted")))
                self.assertEqual(line["seconds"] == "", line["state"] == "lost")
                if line["state"] == "counted":
                    self.assertLessEqual(float(line["arrival"]), end + 1e-5)
                if line["state"] == "late":
                    self.assertGreaterEqual(float(line["arrival"]), end)
            states |= {line["state"] for line in tasks}
        self.assertEqual(states, {"counted", "late", "lost"})

    def test_tasks_of_asynchronous_rounds(self):
        """Each task has a line in the version behind its end, whatever became of it; no client has
        two at once, and no more are in flight than the job says."""
        run = self.train(self.job({**CLOCK, "clock.lost": 0.1, "async.kind": "fedbuff",
                                   "async.concurrency": 12, "async.buffer": 2,
                                   "async.max-staleness": 4, "run.rounds": 40}), "run", 2)
        lines, rounds = harness.table(run, NAME), harness.table(run, "rounds.csv")
        times = [0.0, *(float(row["virtual_seconds"]) for row in rounds)]
        spans = []
        for t, row in enumerate(rounds, 1):
            tasks = [line for line in lines if line["round"] == str(t)]
            for state in ("lost", "discarded"):
                self.assertEqual(sum(line["state"] == state for line in tasks), int(row[state]))
            for line in tasks:
                span = float(line["start"]), float(line["arrival"])
                self.assertLessEqual(times[t - 1], span[1] + 1e-5)
                self.assertLessEqual(span[1], times[t] + 1e-5)
                received = int(line["received"])
                self.assertLessEqual(times[received], span[0] + 1e-5)
                self.assertLessEqual(span[0], times[received + 1] + 1e-5)
                if line["state"] == "discarded":
                    self.assertEqual(int(line["staleness"]), t - 1 - received)
                    self.assertGreater(int(line["staleness"]), 4)
                if line["state"] != "lost":
                    self.assertAlmostEqual(span[1] - span[0], float(line["seconds"]), 4)
                spans.append((*span, line["client"]))
        self.assertEqual({line["state"] for line in lines}, {"counted", "lost", "discarded"})
        for start, _, client in spans:
            going = [other for begin, end, other in spans if begin <= start < end]
            self.assertLessEqual(len(going), 12)
            self.assertEqual(going.count(client), 1)

    def test_written_or_not(self):
        def there(run):
            return os.path.exists(os.path.join(run, NAME))

        def asked(run):
            return harness.text(run, "job.cfg").split("participation = ")[1].split("\n")[0]
        job = self.job()
        self.assertFalse(there(self.train(job, "none", changes={"report.participation": "false"})))
        # A million lines in all, and one round more.
        for name, rounds, written in (("few", 200000, True), ("many", 200001, False)):
            run = self.train(job, name, changes={"run.rounds": rounds, "run.max-seconds": 0.01},
                             expect=harness.STOPPED)
            self.assertEqual((there(run), asked(run)), (written, str(written).lower()), name)
        # A run of more rounds goes on as it began.
        stopped = harness.column(self.path("few"), NAME, "round")[-1]
        self.hanse("resume", self.path("few"), "--run.rounds=200001", "--run.max-seconds=0.01",
                   expect=harness.STOPPED)
        rounds = [int(t) for t in harness.column(self.path("few"), NAME, "round")]
        self.assertEqual(rounds, [t for t in range(1, max(rounds) + 1) for _ in range(5)])
        self.assertGreater(max(rounds), int(stopped))

    def test_bounds(self):
        for protocol in ("centralized", "local"):
            run = self.train(self.job({"run.protocol": protocol}), protocol)
            clients = [int(n) for n in harness.column(run, "rounds.csv", "clients")]
            self.assertEqual(len(harness.table(run, NAME)), sum(clients), protocol)


if __name__ == "__main__":
    harness.main()
