#include "hanse/run/job.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/config.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/run/availability.hpp"
#include "hanse/run/bounds.hpp"
#include "hanse/run/engine.hpp"
#include "options/bind.hpp"

namespace hanse {

Job::Job() {
  bind_run(table, run);
  bind_data(table, data);
  bind_federation(table, federation);
  bind_model(table, model);
  bind_client(table, client);
  bind_sampler(table, sampler);
  bind_aggregator(table, aggregator);
  bind_server(table, server);
  bind_comm(table, comm);
  bind_evaluate(table, evaluate);
  bind_checkpoint(table, checkpoint);
  bind_report(table, report);
  bind_bandit(table, bandit);
  bind_online(table, online);
}

std::string job_text(const Job& job) {
  std::string text = "# Every option of the run; `hanse run` accepts this file.\n";
  std::string section;
  for (const Option& option : job.table.options()) {
    if (option.section() != section) {
      section = option.section();
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", option.key.substr(section.size() + 1), option.format());
  }
  return text;
}

namespace {

void check_sizes(const FederationOptions& federation) {
  if (federation.partition != "sizes") return;
  if (federation.sizes.empty() || federation.sizes.size() != federation.size_probabilities.size()) {
    throw InvalidArgument(fmt::format("{} sizes but {} probabilities", federation.sizes.size(),
                                      federation.size_probabilities.size()),
                          "federation.sizes, federation.size-probabilities",
                          "name one probability a size");
  }
  double sum = 0;
  for (const double p : federation.size_probabilities) sum += p;
  if (std::abs(sum - 1) > 1e-9) {
    throw InvalidArgument(fmt::format("probabilities sum to {}, not 1", sum),
                          "federation.size-probabilities");
  }
}

// Combinations that have no meaning.
void check_bound(const Job& job) {
  const std::string& protocol = job.run.protocol;
  if (!is_bound(job)) return;
  const bool own = evaluates_own_models(job);
  if (own != (protocol == "local")) {
    throw InvalidArgument(fmt::format("a {} run has {}", protocol,
                                      own ? "one model for all" : "no shared model to evaluate"),
                          "evaluate.view", "leave it at auto");
  }
  if (job.evaluate.regret) {
    throw InvalidArgument(fmt::format("a {} run estimates nothing from a sample", protocol),
                          "evaluate.regret", "only run.protocol = federated has it");
  }
}

// fednew and fednl are one algorithm of clients and server together.
void check_second_order(const Job& job) {
  const std::string& kind = job.client.kind;
  if (job.run.protocol != "federated" || (kind != "fednew" && kind != "fednl")) return;
  const auto require = [&](bool met, const std::string& key, const std::string& needed) {
    if (met) return;
    throw InvalidArgument(fmt::format("{} needs {}", kind, needed), key,
                          "or another client.update");
  };
  require(job.sampler.kind == "full" && job.sampler.availability == "always", "sampler.kind",
          "everyone in every round: sampler.kind = full, sampler.availability = always");
  require(job.aggregator.kind == "fedavg", "aggregator.kind", "aggregator.kind = fedavg");
  require(job.client.momentum == 0, "client.momentum", "client.momentum = 0");
  require(job.client.clip == 0, "client.clip", "client.clip = 0");
  require(job.server.optimizer == "sgd", "server.optimizer",
          "server.optimizer = sgd: its step is a step of Newton's");
}

}  // namespace

void check_data(const Job& job) {
  const auto kinds = data_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const auto& entry) { return entry.name == job.data.kind; });
  if (kind->reads_a_file && !std::filesystem::exists(job.data.path)) {
    throw InvalidArgument(fmt::format("no such file or folder: {}", job.data.path), "data.path",
                          "scripts/setup installs Fashion-MNIST; data/README.md has the formats");
  }
  if (!job.data.test_path.empty() && !std::filesystem::exists(job.data.test_path)) {
    throw InvalidArgument(fmt::format("no such file: {}", job.data.test_path), "data.test-path");
  }
  if (job.data.kind == "random" && job.data.shape.empty()) {
    throw InvalidArgument("a sample needs a shape", "data.shape", "for example 1,28,28");
  }
  check_sizes(job.federation);
}

bool evaluates_own_models(const Job& job) {
  if (job.evaluate.view != "auto") return job.evaluate.view == "personalised";
  if (job.run.protocol == "centralized") return false;
  return job.run.protocol == "local" || job.client.kind == "ditto" || !job.client.personal.empty();
}

void check_job(const Job& job) {
  check_engine(job);
  if (job.run.protocol == "bandit") return check_bandit(job);
  if (job.run.repeats > 1) {
    throw InvalidArgument(fmt::format("{} repeats of a {} run", job.run.repeats, job.run.protocol),
                          "run.repeats", "only run.protocol = bandit has them");
  }
  check_data(job);
  if (job.federation.held_out > 0 && job.run.protocol != "federated") {
    throw InvalidArgument(fmt::format("a {} run trains every client", job.run.protocol),
                          "federation.held-out", "leave it 0");
  }
  if (job.model.kind == "mlp" && job.model.hidden.empty()) {
    throw InvalidArgument("an mlp needs a hidden layer", "model.hidden", "for example 200");
  }
  if (job.model.kind == "torchscript" && !std::filesystem::exists(job.model.path)) {
    throw InvalidArgument(fmt::format("no such file: '{}'", job.model.path), "model.path",
                          "scripts/export-model writes one");
  }
  if (job.comm.reduction == "fast" && job.comm.dispatch == "shared") {
    throw InvalidArgument("a float32 sum needs a planned schedule", "comm.dispatch",
                          "use comm.dispatch=planned or comm.reduction=exact");
  }
  if (job.aggregator.c2 > 0 && job.aggregator.c2 <= job.aggregator.c1) {
    throw InvalidArgument(
        fmt::format("c2 {} is not above c1 {}", job.aggregator.c2, job.aggregator.c1),
        "aggregator.c2", "responses lie in [c1, c2]");
  }
  if (job.aggregator.backtrack > 0 && job.aggregator.kind == "dqn-fed" &&
      job.server.optimizer != "sgd") {
    throw InvalidArgument(
        fmt::format("backtracking shortens plain steps, not those of {}", job.server.optimizer),
        "aggregator.backtrack", "use server.optimizer = sgd, or aggregator.radius");
  }
  loss_batches(job.aggregator.loss);
  number_or_auto(job.sampler.eta, "sampler.eta");
  number_or_auto(job.sampler.gamma, "sampler.gamma");
  number_or_auto(job.sampler.rate, "sampler.rate");
  given_bound(job.sampler.a_max);
  check_availability(job.sampler.availability);
  check_second_order(job);
  check_online(job);
  check_bound(job);
}

std::vector<std::string> unused_keys(const Job& job) {
  // Sections or keys that a protocol does not read, and keys of theirs that it does.
  struct Reading {
    std::vector<std::string> unread;
    std::vector<std::string> read = {};
  };
  const Reading bound{
      {"aggregator", "server", "sampler", "client.update", "client.personal", "online", "bandit"},
      {"server.role", "sampler.kind", "sampler.per-round", "sampler.availability"}};
  const std::map<std::string, Reading> by_protocol{
      {"federated", {{"online", "bandit"}}},
      {"centralized", bound},
      {"local", bound},
      {"online",
       {{"client", "sampler", "aggregator", "server", "comm", "bandit", "evaluate.view"}}},
      {"bandit",
       {{"model", "client", "sampler", "aggregator", "server", "comm", "online",
         "evaluate.view"}}}};
  const Reading& reading = by_protocol.at(job.run.protocol);
  const auto holds = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto is_unread = [&](const Option& option) {
    return (holds(reading.unread, option.section()) || holds(reading.unread, option.key)) &&
           !holds(reading.read, option.key);
  };
  std::vector<std::string> keys;
  for (const Option& option : job.table.options()) {
    if (option.given && is_unread(option)) keys.push_back(option.key);
  }
  for (const std::string& key : job.table.ignored()) {
    // "client.mu (client.update=sgd)"
    if (!is_unread(job.table.at(key.substr(0, key.find(' '))))) keys.push_back(key);
  }
  return keys;
}

double given_bound(const std::string& text) {
  if (text == "auto" || text == "first-round" || text == "running") return 0;
  double value = 0;
  try {
    value = parse_number(text);
  } catch (const InvalidArgument&) {
  }
  if (value > 0) return value;
  throw InvalidArgument(fmt::format("unknown value '{}'", text), "sampler.a-max",
                        "known: auto, first-round, running, or a number above 0");
}

double number_or_auto(const std::string& text, const std::string& where) {
  if (text == "auto") return -1;
  double value = -1;
  try {
    value = parse_number(text);
  } catch (const InvalidArgument&) {
  }
  if (value >= 0) return value;
  throw InvalidArgument(fmt::format("unknown value '{}'", text), where,
                        "known: auto, or a number of at least 0");
}

int64_t loss_batches(const std::string& text) {
  if (text == "full") return 0;
  const std::string open = "batches(";
  try {
    if (text.rfind(open, 0) == 0 && text.back() == ')') {
      const int64_t n = parse_integer(text.substr(open.size(), text.size() - open.size() - 1));
      if (n >= 1) return n;
    }
  } catch (const InvalidArgument&) {
  }
  throw InvalidArgument(fmt::format("unknown value '{}'", text), "aggregator.loss",
                        "known: full, batches(n) with n >= 1");
}

}  // namespace hanse
