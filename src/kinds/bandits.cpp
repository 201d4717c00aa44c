#include "hanse/kinds/bandits.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

struct BanditKind : KindRow<Job> {
  bool network;                        // as in BanditRule
  std::optional<double> trigger = {};  // none: bandit.gamma
};

using Options = BanditOptions;
const auto key = keys_of<Job>("bandit", &Job::bandit);
const auto oracle_key = keys_of<Job>(
    "bandit", [](Job& job) -> auto& { return job.bandit.oracle; });

Keys<Job> ridge_key(const std::string& automatic) {
  return key("lambda", &Options::lambda, "auto",
             "ridge, above 0: small for wide confidence sets; auto: " + automatic);
}

Keys<Job> trigger_key(const std::string& automatic) {
  return key("gamma", &Options::gamma, "auto",
             "trigger, at least 0: small for frequent synchronization; auto: " + automatic);
}

// Of the three that fit a network.
const Keys<Job> kNetwork{
    ridge_key("lambda-scale sqrt(clients horizon)"),
    key("lambda-scale", &Options::lambda_scale, above(0), "C_lambda of bandit.lambda = auto"),
    key.choice("ucb", &Options::ucb, {"linear", "network-mean", "ellipsoid"},
               "upper bound of an arm: of the linearised network; the network at the centre and "
               "the width; the network's largest value found in the set"),
    key("explore", &Options::explore, or_auto(at_least(1)),
        "T0, uniform pulls before round 1; auto: ceil(sqrt(clients horizon))"),
    oracle_key("hidden", &OracleOptions::hidden, at_least(1), "hidden units of the network"),
    oracle_key("spread", &OracleOptions::spread, above(0),
               "deviation of the network's start; large for rough functions, 0.5 for smooth ones"),
    oracle_key("steps", &OracleOptions::steps, at_least(0), "steps of the fit"),
    oracle_key("step", &OracleOptions::step, above(0), "tau_1, step size of the fit"),
    oracle_key("temperature", &OracleOptions::temperature, above(0),
               "tau_2, inverse: large for little noise in the fit")};

const Family<BanditKind> kBandits{
    "bandits",
    "bandit.kind",
    "how arms are chosen, and when clients synchronize",
    chosen_by<&Job::bandit, &BanditOptions::kind>,
    {{{"fed-go-ucb",
       "a network fitted once, synchronized by event (Li, Liu and Wang 2023)",
       {trigger_key("1"), kNetwork}},
      true},
     {{"one-go-ucb", "fed-go-ucb that synchronizes after every pull", kNetwork}, true, 0},
     {{"n-go-ucb", "fed-go-ucb that never synchronizes", kNetwork},
      true,
      std::numeric_limits<double>::infinity()},
     {{"dis-lin-ucb",
       "linear in the arms' points, synchronized by event (Wang et al. 2020)",
       {trigger_key("horizon / (features log(clients horizon))"), ridge_key("0.1")}},
      false}}};

}  // namespace

KindFamily bandit_family() { return listed(kBandits); }

BanditRule make_bandit_rule(const BanditOptions& options, int64_t clients, int64_t horizon,
                            int64_t inputs) {
  const BanditKind& kind = kBandits.find(options.kind);
  const auto turns = static_cast<double>(clients) * static_cast<double>(horizon);
  const double ridge = kind.network ? options.lambda_scale * std::sqrt(turns) : 0.1;
  // The threshold of dis-lin-ucb's authors for a regret as of one learner, in rounds
  // (Async-LinUCB's experiments).
  const double threshold =
      static_cast<double>(horizon) / (static_cast<double>(inputs) * std::max(1.0, std::log(turns)));
  const double trigger = options.gamma.value_or(kind.network ? 1 : threshold);
  return {.ucb = {.lambda = options.lambda.value_or(ridge),
                  .gamma = kind.trigger.value_or(trigger),
                  .sqrt_beta = options.sqrt_beta.value_or(-1),
                  .sigma = options.sigma,
                  .delta = options.delta,
                  .radius = options.radius},
          .network = kind.network};
}

bool reads_arms(const BanditOptions& options) {
  return options.arms == "file" || options.arms == "clusters";
}

int64_t exploration_of(const BanditOptions& options, int64_t clients) {
  const int64_t turns = clients * options.horizon;
  if (options.explore > turns) {
    throw InvalidArgument(
        fmt::format("{} uniform pulls, but clients make {} pulls in all", options.explore, turns),
        "bandit.explore", "auto: the root of the latter");
  }
  if (options.explore > 0) return options.explore;
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(turns))));
}

void check_bandit(const Job& job) {
  const BanditOptions& bandit = job.bandit;
  const auto rule = make_bandit_rule(bandit, job.federation.clients, bandit.horizon, 1);
  check_options(rule.ucb);
  if (rule.network) exploration_of(bandit, job.federation.clients);
  const std::string& path = bandit.arms == "file" ? bandit.path : job.data.path;
  if (reads_arms(bandit) && !std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(fmt::format("no such file: '{}'", path),
                          bandit.arms == "file" ? "bandit.path" : "data.path",
                          "data/README.md describes the format");
  }
}

}  // namespace hanse
