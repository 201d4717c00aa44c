#include "watch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/job/job.hpp"
#include "hanse/protocol/common_test.hpp"
#include "hanse/store/run_directory.hpp"

namespace hanse {

namespace {

void require_metric(const std::string& name, const std::string& chooser,
                    const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw InvalidArgument(fmt::format("no evaluation has the metric '{}'", name), chooser,
                        suggestion(name, known));
}

// Where there are validation samples beside others, they decide.
constexpr const char* kDeciding = "validation_";

// That evaluations have whatever the protocol.
std::vector<std::string> metric_names(const Job& job, const Federation& federation) {
  const AskedMetrics asked = asked_of(job);
  ClientEvaluation one{.samples = 1, .train_samples = 1};
  if (asked.on == EvaluateOn::kBoth) one.validation = one.test_scores();
  if (job.evaluate.tune_steps > 0) one.before = one.test_scores();
  std::vector<ClientEvaluation> all;
  for (one.client = 0; one.client < federation.clients() + federation.held_out(); ++one.client) {
    all.push_back(one);
  }
  std::vector<std::string> names = common_test_names(federation, asked);
  for (const auto& [name, value] : summarize_all(all, {}, federation, asked)) {
    names.push_back(name);
    if (name.starts_with(kDeciding)) names.push_back(name.substr(std::strlen(kDeciding)));
  }
  return names;
}

double value_of(const std::string& name, const Metrics& metrics) {
  double value = std::nan("");
  for (const auto& [known, found] : metrics) {
    if (known == kDeciding + name) return found;
    if (known == name) value = found;
  }
  return value;
}

// Losses and spreads are better small, accuracies large.
bool is_small_better(const std::string& name) {
  if (name == "train_loss_fell") return false;
  return name.find("loss") != std::string::npos || is_small_better_score(name) ||
         std::ranges::any_of(std::array{"_std", "_gini", "_gap", "_kl", "_angle", "_left_out"},
                             [&](const char* spread) { return name.ends_with(spread); });
}

}  // namespace

Watch::Watch(const Job& job, bool reads, const Federation& federation)
    : patience_(reads ? job.run.patience : 0) {
  if (!reads) return;
  const std::vector<std::string> known = metric_names(job, federation);
  if (const std::string& best = job.evaluate.best; !best.empty()) {
    const std::size_t colon = best.find(':');
    best_name_ = best.substr(0, colon);
    require_metric(best_name_, "evaluate.best", known);
    const std::string order = colon == std::string::npos ? "" : best.substr(colon + 1);
    if (!order.empty() && order != "min" && order != "max") {
      throw InvalidArgument(fmt::format("'{}' is no order", order), "evaluate.best",
                            "loss_mean:min or accuracy_worst10:max");
    }
    smaller_is_better_ = order.empty() ? is_small_better(best_name_) : order == "min";
  }
  if (patience_ > 0 && best_name_.empty()) {
    throw InvalidArgument("there is nothing to be patient about", "run.patience",
                          "evaluate.best = loss_mean names what should improve");
  }
  const std::string& target = job.run.target;
  if (target.empty()) return;
  const std::size_t at = target.find_first_of("<>");
  if (at == std::string::npos || target.substr(at + 1, 1) != "=") {
    throw InvalidArgument(fmt::format("'{}' is no target", target), "run.target",
                          "accuracy_mean>=0.8 or loss_mean<=0.5");
  }
  target_name_ = std::string(trim(target.substr(0, at)));
  target_below_ = target[at] == '<';
  try {
    target_ = parse_number(trim(std::string_view(target).substr(at + 2)));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error.what(), "run.target", "accuracy_mean>=0.8 or loss_mean<=0.5");
  }
  require_metric(target_name_, "run.target", known);
}

bool Watch::observe(int64_t round, const Metrics& metrics) {
  if (round <= seen_) return false;
  seen_ = round;
  if (!target_name_.empty() && target_round_ < 0) {
    const double value = value_of(target_name_, metrics);
    if (target_below_ ? value <= target_ : value >= target_) target_round_ = round;
  }
  if (best_name_.empty()) return false;
  const double value = value_of(best_name_, metrics);
  const bool better = best_round_ < 0      ? !std::isnan(value)
                      : smaller_is_better_ ? value < best_
                                           : value > best_;
  since_best_ = better ? 0 : since_best_ + 1;
  if (!better) return false;
  best_ = value;
  best_round_ = round;
  return true;
}

std::string Watch::end() const {
  if (target_round_ >= 0) {
    return fmt::format("{} {} {} is reached", target_name_, target_below_ ? "<=" : ">=", target_);
  }
  if (patience_ == 0 || since_best_ < patience_) return "";
  return fmt::format("{} has not improved in {} evaluations; best {:.6g} in round {}", best_name_,
                     since_best_, best_, best_round_);
}

Metrics Watch::results(const RunDirectory& directory) const {
  Metrics results;
  if (best_round_ >= 0) {
    results.emplace_back("best", best_);
    results.emplace_back("best_round", static_cast<double>(best_round_));
  }
  if (target_round_ >= 0) {
    const auto rounds = static_cast<double>(target_round_);
    results.emplace_back("target_round", rounds);
    results.emplace_back("target_seconds", directory.seconds());
    results.emplace_back("target_bytes", directory.bytes_per_round() * rounds);
  }
  return results;
}

void Watch::visit(StateFields& fields) {
  fields.one("best", best_);
  fields.one("best_round", best_round_);
  fields.one("seen", seen_);
  fields.one("since_best", since_best_);
  fields.one("target_round", target_round_);
}

}  // namespace hanse
