#include "hanse/run/summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "hanse/config.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"
#include "json_text.hpp"

namespace hanse {

namespace {

EvaluatedOn evaluated_on(const Federation& federation, int64_t begin, int64_t end, EvaluateOn on) {
  EvaluatedOn found{.validation = on == EvaluateOn::kValidation};
  for (int64_t client = begin; client < end; ++client) {
    if (federation.train(client).size() + federation.test(client).size() == 0) continue;
    ++(evaluated_apart(federation, client, on) ? found.apart : found.training);
  }
  return found;
}

nlohmann::ordered_json accounts_json(const Accounts& accounts) {
  nlohmann::ordered_json json{{"wall_seconds", accounts.wall_s},
                              {"host_memory_bytes", accounts.host_memory_bytes}};
  if (accounts.rounds_s > 0) json["clients_per_second"] = accounts.clients_per_second();
  if (accounts.rounds_s > 0 && accounts.flops > 0) json["gflops"] = accounts.gflops();
  if (accounts.joules) json["joules"] = *accounts.joules;
  for (const PhaseAccount& phase : accounts.phases) {
    json["phases"][phase.name] = {{"calls", phase.calls},
                                  {"seconds", phase.mean_s},
                                  {"least", phase.least_s},
                                  {"most", phase.most_s}};
  }
  return json;
}

using Lines = std::vector<std::pair<std::string, std::string>>;  // label, value

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

Lines bandit_lines(const Summary& summary) {
  Lines lines;
  for (const auto& [name, value] : summary.metrics) {
    if (name == "regret") lines.emplace_back("regret", fmt::format("{:.1f}", value));
    if (name == "regret_std") {
      lines.emplace_back("deviation over repeats", fmt::format("{:.1f}", value));
    }
    if (name == "syncs") lines.emplace_back("synchronizations", fmt::format("{:.1f}", value));
    if (name == "loss_mean") {
      lines.emplace_back("regret of a pull, mean", fmt::format("{:.4f}", value));
    }
  }
  return lines;
}

// The lines say of every number on which samples it is measured, and how far repeats are from it.
Lines model_lines(const Metrics& metrics, const std::string& own, const std::string& other) {
  const std::map<std::string, double> values(metrics.begin(), metrics.end());
  Lines lines;
  const auto add = [&](const char* metric, const std::string& label, auto text) {
    const auto value = values.find(metric), deviation = values.find(metric + std::string("_std"));
    if (value == values.end() || std::isnan(value->second)) return;
    lines.emplace_back(label, text(value->second));
    if (deviation != values.end()) lines.back().second += " +- " + text(deviation->second);
  };
  const auto number = [](double value) { return fmt::format("{:.4f}", value); };
  add("common_loss", "loss, common test set", number);
  add("common_accuracy", "accuracy, common test set", percent);
  add("loss_mean", own + "loss, mean of clients", number);
  add("accuracy_mean", own + "accuracy, mean of clients", percent);
  add("accuracy_worst10", own + "accuracy, worst 10 %", percent);
  add("accuracy_best10", own + "accuracy, best 10 %", percent);
  add("auroc", own + "area under the ROC curve", number);
  add("validation_loss_mean", "validation loss, mean of clients", number);
  add("validation_accuracy_mean", "validation accuracy, mean of clients", percent);
  add("held_out_loss_mean", other + "loss, held-out clients", number);
  add("held_out_accuracy_mean", other + "accuracy, held-out clients", percent);
  add("held_out_auroc", other + "area under the ROC curve, held-out clients", number);
  return lines;
}

void add_privacy(const std::optional<PrivacyReport>& found, const std::string& whose,
                 Lines& lines) {
  if (!found) return;
  lines.emplace_back("privacy", fmt::format("epsilon {:.4f}{} by {}, delta {:g}", found->epsilon,
                                            whose, found->accountant, found->delta));
  if (!found->flaw.empty()) lines.back().second += "; " + found->flaw;
}

double value_in(const Metrics& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &Metrics::value_type::first);
  return found == metrics.end() ? std::nan("") : found->second;
}

// Was run.target reached, and when?
void add_target(const Summary& summary, Lines& lines) {
  if (summary.limits.target.empty()) return;
  const double round = value_in(summary.metrics, "target_round");
  const double virtual_s = value_in(summary.metrics, "target_virtual_seconds");
  std::string when = "not reached";
  if (!std::isnan(round)) when = fmt::format("reached in round {:.0f}", round);
  if (!std::isnan(round) && !std::isnan(virtual_s)) {
    when += fmt::format(", after {:.6g} virtual seconds", virtual_s);
  }
  lines.emplace_back("target " + summary.limits.target, when);
}

// What a run, or the mean of several, was about beside its model: virtual time, of `limit_s` or
// without a limit (0), attackers and updates.
void add_costs(const Metrics& metrics, double limit_s, Lines& lines) {
  const double virtual_s = value_in(metrics, "virtual_seconds");
  const double attackers = value_in(metrics, "attackers");
  const double bytes = value_in(metrics, "update_bytes");
  if (!std::isnan(virtual_s)) {
    lines.emplace_back("virtual time", fmt::format("{:.6g} s", virtual_s));
    if (limit_s > 0) {
      lines.back().second +=
          fmt::format(" of {:.6g}, {:.1f} %", limit_s, 100 * virtual_s / limit_s);
    }
  }
  if (!std::isnan(attackers)) lines.emplace_back("attackers", fmt::format("{:.0f}", attackers));
  if (!std::isnan(bytes)) {
    lines.emplace_back("updates", fmt::format("{:.4g} MB, {:.4g} MB a client", 1e-6 * bytes,
                                              1e-6 * value_in(metrics, "update_bytes_per_client")));
  }
}

// Puts labels to the left, values to the right, a line each.
std::string table_of(const Lines& lines) {
  std::size_t width = 28;
  for (const auto& [label, value] : lines) width = std::max(width, label.size());
  std::string table = "\n";
  for (const auto& [label, value] : lines) table += fmt::format("{:<{}} {}\n", label, width, value);
  return table;
}

// Where the time went, and what was done in it.
std::string accounts_table(const Summary& summary) {
  const Accounts& accounts = summary.accounts;
  const bool alone = summary.ranks == 1;
  std::string table =
      fmt::format("\n{:<12} {:>8} {:>9} {:>7}", "phase", "calls", "seconds", "share");
  if (!alone) table += fmt::format(" {:>9} {:>9} {:>10}", "least", "most", "imbalance");
  for (const PhaseAccount& phase : accounts.phases) {
    table += fmt::format("\n{:<12} {:>8} {:>9.3f} {:>5.1f} %", phase.name, phase.calls,
                         phase.mean_s, 100 * phase.mean_s / accounts.wall_s);
    if (alone) continue;
    table += fmt::format(" {:>9.3f} {:>9.3f} {:>10.2f}", phase.least_s, phase.most_s,
                         phase.mean_s > 0 ? phase.most_s / phase.mean_s : 1.0);
  }
  table += fmt::format("\n{:<21} {:>9.3f}\n", "all", accounts.wall_s);
  std::vector<std::string> rates;
  if (accounts.rounds_s > 0) {
    rates.push_back(fmt::format("{:.4g} clients a second", accounts.clients_per_second()));
    if (accounts.flops > 0) rates.push_back(fmt::format("{:.4g} GFLOP/s", accounts.gflops()));
  }
  rates.push_back(fmt::format("{:.4g} MB a round between ranks", 1e-6 * summary.bytes_per_round));
  rates.push_back(fmt::format("{:.0f} MB of memory a rank, {:.0f} a host at most",
                              1e-6 * summary.peak_memory_bytes, 1e-6 * accounts.host_memory_bytes));
  if (accounts.joules) rates.push_back(fmt::format("{:.4g} kJ", 1e-3 * *accounts.joules));
  return table + join(rates, ", ") + "\n";
}

}  // namespace

std::string EvaluatedOn::split() const {
  if (apart > 0 && training > 0) return "mixed";
  return apart > 0 ? validation ? "validation" : "test" : training > 0 ? "train" : "";
}

std::string EvaluatedOn::prefix() const { return split_prefix(split()); }

std::string split_prefix(const std::string& split) {
  if (split == "test" || split == "validation") return split + " ";
  return split == "train" ? "training " : "";
}

EvaluatedOn clients_evaluated_on(const Federation& federation, EvaluateOn on) {
  return evaluated_on(federation, 0, federation.clients(), on);
}

EvaluatedOn held_out_evaluated_on(const Federation& federation, EvaluateOn on) {
  const int64_t validation = federation.clients();
  const int64_t tests = validation + federation.validation_clients();
  return on == EvaluateOn::kValidation
             ? evaluated_on(federation, validation, tests, on)
             : evaluated_on(federation, tests, federation.clients() + federation.held_out(), on);
}

double peak_memory_bytes() {
  // getrusage() would tell the peak of the process that started this one, where that is greater.
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kilobytes = 0;
    status >> kilobytes;
    return 1024 * kilobytes;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

Accounts gather_accounts(Communicator& comm, Communicator& host, RankAccount& mine) {
  PhaseTotals totals = phase_totals();
  // All ranks are here at once, but did not start at once: mpirun set up the later ones meanwhile.
  double own_s = 0;
  for (const auto& phase : totals) own_s += phase.seconds;
  const double wall_s = comm.allreduce_one(own_s, ReduceOp::kMax);
  totals[static_cast<std::size_t>(Phase::kSetUp)].seconds += wall_s - own_s;
  std::array<double, kPhases> sums, least, most, calls;
  for (std::size_t p = 0; p < kPhases; ++p) {
    sums[p] = least[p] = most[p] = totals[p].seconds;
    calls[p] = static_cast<double>(totals[p].calls);
  }
  comm.reduce(std::span(sums), ReduceOp::kSum, 0);
  comm.reduce(std::span(least), ReduceOp::kMin, 0);
  comm.reduce(std::span(most), ReduceOp::kMax, 0);
  comm.reduce(std::span(calls), ReduceOp::kMax, 0);
  const double on_host = host.allreduce_one(peak_memory_bytes(), ReduceOp::kSum);
  const auto joules = host.rank() == 0 ? mine.energy.joules() : std::optional(0.0);
  std::array<double, 2> unknown_joules = {joules ? 0.0 : 1.0, joules.value_or(0)};
  comm.reduce(std::span(unknown_joules), ReduceOp::kSum, 0);
  Accounts found{.wall_s = wall_s,
                 .participants = mine.participants,
                 .rounds_s = mine.rounds_s,
                 .flops = comm.allreduce_one(mine.flops, ReduceOp::kSum),
                 .host_memory_bytes = comm.allreduce_one(on_host, ReduceOp::kMax)};
  if (unknown_joules[0] == 0) found.joules = unknown_joules[1];
  for (std::size_t p = 0; p < kPhases; ++p) {
    if (calls[p] == 0) continue;
    found.phases.push_back({.name = phase_name(static_cast<Phase>(p)),
                            .calls = static_cast<int64_t>(calls[p]),
                            .mean_s = sums[p] / static_cast<double>(comm.size()),
                            .least_s = least[p],
                            .most_s = most[p]});
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> versions() {
  const auto of_torch = [](std::string (*TorchLibrary::*version)()) {
    return uses_torch() ? (torch_library().*version)() : "not used";
  };
  const auto of_gpus = [] {
    if (!kHasCuda) return std::string("none: built without CUDA");
    if (!uses_torch()) return std::string("not used");
    return fmt::format("CUDA {}, NCCL {}", torch_library().gpu.cuda_version(),
                       torch_library().gpu.nccl_version());
  };
  return {{"hanse", kVersion},
          {"mpi", MpiEnvironment::library_version()},
          {"libtorch", of_torch(&TorchLibrary::version)},
          {"hdf5", kHdf5Version},
          {"gpu", of_gpus()},
          {"kernels", kernel_family()}};
}

std::string summary_json(const Summary& summary) {
  nlohmann::ordered_json json{{"name", summary.name},
                              {"seed", summary.seed},
                              {"rounds", summary.rounds},
                              {"ranks", summary.ranks},
                              {"device", summary.trained_on},
                              {summary.digest.of + "_digest", summary.digest.hex},
                              {"data_digest", summary.data_digest},
                              {"setup_seconds", summary.times.set_up_s},
                              {"seconds", summary.times.rounds_s},
                              {"seconds_per_round_median", summary.times.median_s},
                              {"bytes_per_round", summary.bytes_per_round},
                              {"peak_memory_bytes", summary.peak_memory_bytes}};
  if (summary.limits.diverged.round > 0) {
    json["diverged"] = {{"round", summary.limits.diverged.round},
                        {"reason", summary.limits.diverged.reason}};
  }
  if (summary.simulated) json["simulated"] = true;
  if (!summary.products.kernels.empty()) {
    json["precision"] = summary.products.precision;
    json["product_kernels"] = summary.products.kernels;
  }
  for (const auto& [key, on] :
       {std::pair{"split", summary.clients}, {"held_out_split", summary.held_out}}) {
    if (!on.split().empty()) json[key] = on.split();
  }
  for (const auto& [key, file] : summary.rules) {
    json["rules"][key] = {{"path", file->path}, {"digest", file->digest}};
  }
  for (const auto& [name, value] : summary.metrics) {
    if (std::isfinite(value)) json["metrics"][name] = value;
  }
  if (const auto& privacy = summary.privacy) {
    auto& object = json["privacy"];
    if (std::isfinite(privacy->epsilon)) object["epsilon"] = privacy->epsilon;
    object["delta"] = privacy->delta;
    object["accountant"] = privacy->accountant;
    object["accountants"] = privacy->applied;
    if (!privacy->flaw.empty()) object["flaw"] = privacy->flaw;
  }
  json["accounts"] = accounts_json(summary.accounts);
  for (const ReturnedArm& x : summary.returned) {
    json["x_hat"].push_back({{"arm", x.arm}, {"value", x.value}, {"point", x.point}});
  }
  for (const auto& [name, version] : versions()) json["versions"][name] = version;
  return json_dump(json, 2) + "\n";
}

std::string summary_table(const Summary& summary, const std::string& run_directory) {
  const bool is_bandit =
      std::ranges::count(summary.metrics, "regret", &Metrics::value_type::first) > 0;
  Lines lines =
      is_bandit ? bandit_lines(summary)
                : model_lines(summary.metrics, summary.clients.prefix(), summary.held_out.prefix());
  if (!is_bandit && summary.clients.apart > 0 && summary.clients.training > 0) {
    lines.emplace_back("evaluated on",
                       fmt::format("{} samples of {} clients, training samples "
                                   "of {} that have no others",
                                   summary.clients.validation ? "validation" : "test",
                                   summary.clients.apart, summary.clients.training));
  }
  if (summary.simulated) lines.emplace_back("simulated", "no client was trained; times of a model");
  if (summary.limits.diverged.round > 0) {
    lines.emplace_back("diverged", fmt::format("in round {}: {}", summary.limits.diverged.round,
                                               summary.limits.diverged.reason));
  }
  add_privacy(summary.privacy, "", lines);
  add_target(summary, lines);
  add_costs(summary.metrics, summary.limits.virtual_seconds, lines);
  lines.emplace_back("rounds", fmt::format("{} in {}, evaluations aside", summary.rounds,
                                           duration_text(summary.times.rounds_s)));
  lines.emplace_back("a round, median", fmt::format("{:.3f} ms", 1e3 * summary.times.median_s));
  lines.emplace_back(summary.digest.of + " digest", summary.digest.hex);
  lines.emplace_back("run directory", run_directory);
  return table_of(lines) + accounts_table(summary);
}

std::string repeats_table(const RepeatedMetrics& found, const std::string& split,
                          const std::string& held_out_split, const std::string& run_directory) {
  Lines lines = model_lines(found.metrics, split_prefix(split), split_prefix(held_out_split));
  const auto reached = found.n.find("target_round");
  if (reached != found.n.end()) {
    lines.emplace_back("target reached",
                       fmt::format("in {} of {} repeats", reached->second, found.repeats));
  }
  if (found.diverged > 0) {
    lines.emplace_back("diverged", fmt::format("{} of {} repeats", found.diverged, found.repeats));
  }
  add_costs(found.metrics, 0, lines);
  std::vector<std::string> fewer;
  for (const auto& [name, n] : found.n) {
    if (n < found.repeats && name != "target_round") fewer.push_back(fmt::format("{} {}", n, name));
  }
  add_privacy(found.privacy, " each", lines);
  lines.emplace_back("repeats", fmt::format("{}, means and deviations", found.repeats));
  if (!fewer.empty()) lines.emplace_back("of fewer repeats", join(fewer, ", "));
  lines.emplace_back("run directory", run_directory);
  return table_of(lines);
}

}  // namespace hanse
