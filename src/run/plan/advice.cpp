#include "advice.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/progress.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostRanks = 4096;
constexpr double kDoubling = 1.2;         // that a doubling of useful ranks makes the run faster
constexpr double kLeastEfficiency = 0.5;  // of ranks that are worth their cores
constexpr double kToBeTold = 0.05;        // of a run, that a part of it takes

struct Part {
  const char* name;
  double seconds;  // of a run
};

std::vector<Part> parts_of(const RanksTried& tried) {
  const PlannedTimes& times = tried.times;
  const double even_s = std::min(tried.even_s, times.training_s);
  std::vector<Part> parts = {
      {"training", even_s},
      {tried.most > 1 ? "unequal shares" : "the longest client", times.training_s - even_s},
      {"inner products", times.products_s},
      {"the link", std::max(0.0, times.exchange_s - tried.server_s) + times.small_s},
      {"rank 0", tried.server_s + times.rest_s}};
  for (Part& part : parts) part.seconds *= tried.rounds;
  parts.push_back({"evaluations", tried.evaluations * times.evaluation_s});
  return parts;
}

double part_s(const RanksTried& tried, const std::string& name) {
  const auto parts = parts_of(tried);
  const auto found = std::ranges::find(parts, name, &Part::name);
  return found == parts.end() ? 0 : found->seconds;
}

// Estimates take messages to be as fast as they can be, and no rank to be late for them: what more
// ranks bring is judged with twice their time.
double cautious_s(const RanksTried& tried) { return tried.run_s() + part_s(tried, "the link"); }

double speedup(const RanksTried& one, const RanksTried& tried) {
  return one.run_s() / tried.run_s();
}

double efficiency(const RanksTried& one, const RanksTried& tried) {
  return speedup(one, tried) / number(tried.cluster.ranks);
}

std::string count_text(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string ranks_text(const Cluster& cluster) {
  return count_text(cluster.ranks, "rank") + " on " + count_text(cluster.hosts, "node");
}

// "16 ranks on 1 node: 15.1 times as fast as one rank, 94 % of what 16 could do; ...".
std::string gain_text(const RanksTried& one, const RanksTried& tried) {
  return fmt::format(
      "{}: {:.3g} times as fast as one rank ({:.0f} % efficient), the run in {}; {} a rank, {} a "
      "node",
      ranks_text(tried.cluster), speedup(one, tried), 100 * efficiency(one, tried),
      duration_text(tried.run_s()), bytes_text(tried.rank_bytes), bytes_text(tried.host_bytes));
}

void describe_table(std::span<const RanksTried> tried, PlanSheet& sheet) {
  sheet.text(fmt::format("\n{:>6} {:>6} {:>10} {:>12} {:>7} {:>10} {:>9} {:>9}  {}\n", "ranks",
                         "nodes", "a round", "the run", "faster", "efficient", "a rank", "a node",
                         "mostly"));
  nlohmann::ordered_json rows;
  for (const RanksTried& row : tried) {
    const double times = speedup(tried.front(), row);
    const double share = efficiency(tried.front(), row);
    sheet.text(fmt::format(
        "{:>6} {:>6} {:>10} {:>12} {:>7.3g} {:>8.0f} % {:>9} {:>9}  {}\n", row.cluster.ranks,
        row.cluster.hosts, seconds_text(row.times.round_s()), duration_text(row.run_s()), times,
        100 * share, bytes_text(row.rank_bytes), bytes_text(row.host_bytes), longest_part(row)));
    rows.push_back({{"ranks", row.cluster.ranks},
                    {"hosts", row.cluster.hosts},
                    {"round_seconds", row.times.round_s()},
                    {"run_seconds", row.run_s()},
                    {"speedup", times},
                    {"efficiency", share},
                    {"rank_bytes", row.rank_bytes},
                    {"host_bytes", row.host_bytes},
                    {"mostly", longest_part(row)}});
  }
  sheet.field("tried", rows);
}

// Which ranks to take, and what their nodes need.
void describe_choice(std::span<const RanksTried> tried, const Advice& advice, const AdvisedJob& job,
                     PlanSheet& sheet) {
  const RanksTried& one = tried.front();
  const RanksTried& thrifty = tried[advice.thrifty];
  const RanksTried& most = tried[advice.most];
  sheet.text("\n");
  if (advice.most == 0) {
    sheet.text("Take one rank: twice as many make the run less than a fifth faster.\n");
  } else {
    sheet.text("Take " + gain_text(one, thrifty) + ".\n");
    if (advice.most != advice.thrifty) sheet.text("At most " + gain_text(one, most) + ".\n");
    sheet.text("Beyond these, twice as many ranks make the run less than a fifth faster.\n");
  }
  sheet.field("ranks", thrifty.cluster.ranks);
  sheet.field("hosts", thrifty.cluster.hosts);
  sheet.field("most_ranks", most.cluster.ranks);
  sheet.field("most_hosts", most.cluster.hosts);
  sheet.field("room_bytes", job.room_bytes);
}

// What the most ranks need; and from which on a node needs more than this machine has.
void describe_memory(std::span<const RanksTried> tried, const RanksTried& most,
                     const AdvisedJob& job, PlanSheet& sheet) {
  sheet.text(fmt::format("- Memory: {} a rank and {} a node of {}; this machine has {}.\n",
                         bytes_text(most.rank_bytes), bytes_text(most.host_bytes),
                         ranks_text(most.cluster), bytes_text(job.room_bytes)));
  const auto too_much = std::ranges::find_if(
      tried, [&](const RanksTried& row) { return row.host_bytes > job.room_bytes; });
  if (too_much == tried.end()) return;
  sheet.text(
      fmt::format("- A node of {} needs {}: ask for more memory than here, or for fewer ranks "
                  "a node.\n",
                  ranks_text(too_much->cluster), bytes_text(too_much->host_bytes)));
}

// What ends the gain: the row behind the most ranks, or the last one, tells.
void describe_end(std::span<const RanksTried> tried, const Advice& advice, const AdvisedJob& job,
                  PlanSheet& sheet) {
  const RanksTried& most = tried[advice.most];
  const RanksTried& last = tried[std::min(advice.most + 1, tried.size() - 1)];
  sheet.text(fmt::format("\nWhere it ends: on {} the time is mostly {}.\n",
                         ranks_text(last.cluster), longest_part(last)));
  sheet.field("ends_with", longest_part(last));
  sheet.text(fmt::format(
      "- Participants: {:.4g} a round; more ranks have nobody to train{}.\n", job.participants,
      last.cluster.dedicated ? ", and on several nodes rank 0 trains nobody" : ""));
  sheet.text(fmt::format("- The longest client trains for {}: no round is shorter.\n",
                         seconds_text(job.longest_s)));
  const auto tell = [&](const char* part, const std::string& what) {
    const double share = part_s(last, part) / last.run_s();
    if (share < kToBeTold) return;
    sheet.text(fmt::format("- {} {:.0f} % of the time of {}.\n", what, 100 * share,
                           ranks_text(last.cluster)));
  };
  const std::string link = last.cluster.hosts > 1
                               ? fmt::format("{:.3g} Gbit/s between nodes, {}",
                                             last.cluster.network.rate * 8 / 1e9, job.link)
                               : "the memory of one node";
  tell("the link", fmt::format("The link ({}): model, sum and short messages take", link));
  tell("rank 0", "Rank 0: draw, weights and the server's step take");
  tell("inner products", "The inner products of updates take");
  tell("evaluations", "Evaluations (evaluate.every) take");
  describe_memory(tried, most, job, sheet);
}

// Runs side by side use the cores that more ranks of one run would leave idle.
void describe_instead(std::span<const RanksTried> tried, const Advice& advice,
                      const AdvisedJob& job, PlanSheet& sheet) {
  const RanksTried& one = tried.front();
  const double data = one.host_bytes - one.rank_bytes;
  const double slots = std::max(1.0, std::floor(one.cluster.slots()));
  const double fit = std::max(1.0, std::floor(job.room_bytes / (one.rank_bytes + data)));
  const auto runs = static_cast<int64_t>(std::min(slots, fit));
  sheet.text("\nInstead of more ranks:\n");
  sheet.field("runs_a_node", runs);
  if (runs > 1) {
    std::size_t own = 0;  // the best that one node does for one run
    for (std::size_t k = 0; k <= advice.most; ++k) {
      if (tried[k].cluster.hosts == 1) own = k;
    }
    const RanksTried& with = tried[own];
    const double at_once = std::max(1.0, std::floor(slots / number(with.cluster.ranks)));
    sheet.text(fmt::format(
        "- Runs side by side (seeds, values): {} on a node of {:g} cores, a rank each, take {}; {} "
        "each, {:g} at a time, {}.\n",
        runs, one.cluster.cores, duration_text(one.run_s()), count_text(with.cluster.ranks, "rank"),
        at_once, duration_text(std::ceil(number(runs) / at_once) * with.run_s())));
  }
  sheet.text(fmt::format(
      "- scripts/sweep JOB --seeds {0} --jobs {0} runs them on this machine; with --slurm they are "
      "an array, a task a run.\n- run.repeats = {0} gives means over as many seeds, one after "
      "another.\n- More participants a round (sampler.per-round) use more ranks, and are another "
      "job.\n",
      std::max<int64_t>(runs, 2)));
}

// A simulated run of the most ranks, with the rates of the plan.
void describe_simulation(const RanksTried& most, const AdvisedJob& job, PlanSheet& sheet) {
  const Cluster& cluster = most.cluster;
  sheet.field("sample_seconds", job.sample_s);
  sheet.field("memory_gbit", cluster.memory.rate * 8 / 1e9);
  sheet.field("memory_latency_us", 1e6 * cluster.memory.latency_s);
  sheet.field("link_gbit", cluster.network.rate * 8 / 1e9);
  sheet.field("latency_us", 1e6 * cluster.network.latency_s);
  sheet.text(fmt::format(
      "\nTo see these ranks on fewer cores, no client is trained:\n  mpirun -n {} hanse run JOB "
      "--simulate.sample-us={:.4g} --simulate.hosts={} --simulate.cores={:g} "
      "--simulate.link-gbit={:.4g} --simulate.latency-us={:.4g} --simulate.memory-gbit={:.4g}\n",
      cluster.ranks, 1e6 * job.sample_s, cluster.hosts, cluster.cores,
      cluster.network.rate * 8 / 1e9, 1e6 * cluster.network.latency_s,
      cluster.memory.rate * 8 / 1e9));
}

}  // namespace

std::vector<int64_t> ranks_to_try(double most_participants, double slots) {
  const auto full = static_cast<int64_t>(std::clamp(std::floor(slots), 1.0, number(kMostRanks)));
  std::vector<int64_t> ranks = {1};
  while (number(ranks.back()) < most_participants + 1 && ranks.back() < kMostRanks) {
    const int64_t last = ranks.back();
    ranks.push_back(last < full ? std::min(2 * last, full) : 2 * last);
  }
  return ranks;
}

std::string longest_part(const RanksTried& tried) {
  return std::ranges::max(parts_of(tried), {}, &Part::seconds).name;
}

Advice choose_ranks(std::span<const RanksTried> tried) {
  const auto pays = [&](std::size_t few, std::size_t many) {
    const double doublings =
        std::log2(number(tried[many].cluster.ranks) / number(tried[few].cluster.ranks));
    return cautious_s(tried[few]) / cautious_s(tried[many]) >= std::pow(kDoubling, doublings);
  };
  Advice advice;
  for (std::size_t k = 1; k < tried.size(); ++k) {
    if (pays(advice.most, k)) advice.most = k;
  }
  for (std::size_t k = 0; k <= advice.most; ++k) {
    if (efficiency(tried.front(), tried[k]) >= kLeastEfficiency) advice.thrifty = k;
  }
  return advice;
}

void describe(std::span<const RanksTried> tried, const AdvisedJob& job, PlanSheet& sheet) {
  const Advice advice = choose_ranks(tried);
  describe_table(tried, sheet);
  describe_choice(tried, advice, job, sheet);
  describe_end(tried, advice, job, sheet);
  describe_instead(tried, advice, job, sheet);
  describe_simulation(tried[advice.most], job, sheet);
}

}  // namespace hanse
