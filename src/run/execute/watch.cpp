#include "watch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "assemble/possible_metrics.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/job/job.hpp"
#include "hanse/store/run_directory.hpp"

namespace hanse {

namespace {

// The metrics of samples that only some jobs keep apart.
struct {
  const char* prefix;
  const char* by;
} constexpr kKeptApart[] = {
    {"held_out_", "there are no clients held out: federation.held-out = 5, for example"},
    {"validation_", "evaluate.on = both evaluates validation samples beside test samples"},
    {"common_", "there is no common test set"}};

InvalidArgument unknown_metric(const std::string& name, const std::string& chooser,
                               const std::string& hint) {
  return InvalidArgument(fmt::format("no evaluation has the metric '{}'", name), chooser, hint);
}

std::vector<std::string> names_of(const Metrics& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names;
}

// Refuses a metric for which an evaluation of these data can find no number. The first evaluation
// tells how metrics of the user's own are called.
void require_metric(const std::string& name, const std::string& chooser, const Metrics& possible,
                    bool has_own) {
  const std::vector<std::string> known = names_of(possible);
  if (std::ranges::find(known, name) == known.end()) {
    if (has_own) return;
    const auto kept = std::ranges::find_if(
        kKeptApart, [&](const auto& one) { return name.starts_with(one.prefix); });
    throw unknown_metric(name, chooser,
                         kept != std::end(kKeptApart) ? kept->by : suggestion(name, known));
  }
  if (!std::isnan(deciding_value(name, possible))) return;
  throw InvalidArgument(
      fmt::format("'{}' has no value for these data: {}", name, why_impossible(name)), chooser,
      "choose another metric, loss_mean for example");
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
  if (job.evaluate.best.empty() && job.run.target.empty() && patience_ == 0) return;
  const Metrics possible = possible_metrics(job, federation);
  const bool has_own = !job.evaluate.metric.path.empty();
  if (const std::string& best = job.evaluate.best; !best.empty()) {
    const std::size_t colon = best.find(':');
    best_name_ = best.substr(0, colon);
    require_metric(best_name_, "evaluate.best", possible, has_own);
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
  target_text_ = target;
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
  require_metric(target_name_, "run.target", possible, has_own);
}

bool Watch::observe(int64_t round, const Metrics& metrics) {
  if (round <= seen_) return false;
  seen_ = round;
  if (!target_name_.empty() && target_round_ < 0) {
    const double value = number_of(target_name_, "run.target", round, metrics);
    if (target_below_ ? value <= target_ : value >= target_) target_round_ = round;
  }
  if (best_name_.empty()) return false;
  const double value = number_of(best_name_, "evaluate.best", round, metrics);
  if (std::isnan(value)) return false;
  const bool better = best_round_ < 0 || (smaller_is_better_ ? value < best_ : value > best_);
  since_best_ = better ? 0 : since_best_ + 1;
  if (!better) return false;
  best_ = value;
  best_round_ = round;
  return true;
}

// At the digits that tables have: the last bits of a mean over clients are no target that is
// missed, and no better model. NaN also where it is infinite; the first time this is told.
double Watch::number_of(const std::string& name, const std::string& chooser, int64_t round,
                        const Metrics& metrics) {
  const std::vector<std::string> known = names_of(metrics);
  const double value = deciding_value(name, metrics);
  if (std::isnan(value) && std::ranges::find(known, name) == known.end()) {
    throw unknown_metric(name, chooser, suggestion(name, known));
  }
  if (std::isfinite(value)) return parse_number(number_or_nothing(value));
  if (!compares_evaluations(name) && !std::exchange(has_warned_, true)) {
    warning(
        fmt::format("{} is {} after round {}: such evaluations count neither for evaluate.best "
                    "nor for run.patience and run.target",
                    name, number_text(value), round));
  }
  return std::nan("");
}

std::string Watch::end() const {
  if (target_round_ >= 0) {
    return fmt::format("{} {} {} is reached", target_name_, target_below_ ? "<=" : ">=", target_);
  }
  if (patience_ == 0 || best_round_ < 0 || since_best_ < patience_) return "";
  return fmt::format("{} has not improved in {} evaluations; best {:.6g} in round {}", best_name_,
                     since_best_, best_, best_round_);
}

Metrics Watch::results(const RunDirectory& directory, double virtual_s) const {
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
    if (virtual_s > 0) results.emplace_back("target_virtual_seconds", virtual_s);
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
