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

// What a bandit's rule is made from.
struct BanditCase {
  const BanditOptions& options;
  double clients;
  double horizon;
  double inputs;
};

// The rule of the three that fit a network, with its trigger.
BanditRule go_ucb(const BanditCase& c, double gamma) {
  const double ridge = c.options.lambda_scale * std::sqrt(c.clients * c.horizon);
  return {.ucb = {.lambda = c.options.lambda.value_or(ridge), .gamma = gamma}};
}

// Its authors' threshold for a regret as of one learner, in rounds (Async-LinUCB's experiments).
BanditRule dis_lin_ucb(const BanditCase& c) {
  const double gamma = c.horizon / (c.inputs * std::max(1.0, std::log(c.clients * c.horizon)));
  return {
      .ucb = {.lambda = c.options.lambda.value_or(0.1), .gamma = c.options.gamma.value_or(gamma)},
      .network = false};
}

void ridge_key(KindKeys& keys, BanditOptions& o, const std::string& automatic) {
  keys.add("bandit.lambda", o.lambda, "auto",
           "ridge, above 0: small for wide confidence sets; auto: " + automatic);
}

void trigger_key(KindKeys& keys, BanditOptions& o, const std::string& automatic) {
  keys.add("bandit.gamma", o.gamma, "auto",
           "trigger, at least 0: small for frequent synchronization; auto: " + automatic);
}

// Of the three that fit a network.
void network_keys(KindKeys& keys, Job& job) {
  BanditOptions& o = job.bandit;
  OracleOptions& oracle = o.oracle;
  ridge_key(keys, o, "lambda-scale sqrt(clients horizon)");
  keys.add("bandit.lambda-scale", o.lambda_scale, above(0), "C_lambda of bandit.lambda = auto");
  keys.add_choice("bandit.ucb", o.ucb, {"linear", "network-mean", "ellipsoid"},
                  "upper bound of an arm: of the linearised network; the network at the centre "
                  "and the width; the network's largest value found in the set");
  keys.add("bandit.explore", o.explore, at_least(0),
           "T0, uniform pulls before round 1; 0: ceil(sqrt(clients horizon))");
  keys.add("bandit.hidden", oracle.hidden, at_least(1), "hidden units of the network");
  keys.add("bandit.spread", oracle.spread, above(0),
           "deviation of the network's start; large for rough functions, 0.5 for smooth ones");
  keys.add("bandit.steps", oracle.steps, at_least(0), "steps of the fit");
  keys.add("bandit.step", oracle.step, above(0), "tau_1, step size of the fit");
  keys.add("bandit.temperature", oracle.temperature, above(0),
           "tau_2, inverse: large for little noise in the fit");
}

void fed_go_ucb_keys(KindKeys& keys, Job& job) {
  trigger_key(keys, job.bandit, "1");
  network_keys(keys, job);
}

void dis_lin_ucb_keys(KindKeys& keys, Job& job) {
  trigger_key(keys, job.bandit, "horizon / (features log(clients horizon))");
  ridge_key(keys, job.bandit, "0.1");
}

struct BanditKind {
  KindRow row;
  BanditRule (*make)(const BanditCase&);
};

const std::vector<BanditKind> kBandits{
    {{"fed-go-ucb", "a network fitted once, synchronized by event (Li, Liu and Wang 2023)",
      fed_go_ucb_keys},
     [](const BanditCase& c) { return go_ucb(c, c.options.gamma.value_or(1)); }},
    {{"one-go-ucb", "fed-go-ucb that synchronizes after every pull", network_keys},
     [](const BanditCase& c) { return go_ucb(c, 0); }},
    {{"n-go-ucb", "fed-go-ucb that never synchronizes", network_keys},
     [](const BanditCase& c) { return go_ucb(c, std::numeric_limits<double>::infinity()); }},
    {{"dis-lin-ucb", "linear in the arms' points, synchronized by event (Wang et al. 2020)",
      dis_lin_ucb_keys},
     dis_lin_ucb},
};

}  // namespace

KindFamily bandit_family() {
  return {.name = "bandits",
          .key = "bandit.kind",
          .help = "how arms are chosen, and when clients synchronize",
          .choice = [](Job& job) -> std::string& { return job.bandit.kind; },
          .rows = rows_of(kBandits)};
}

BanditRule make_bandit_rule(const BanditOptions& options, int64_t clients, int64_t horizon,
                            int64_t inputs) {
  BanditRule rule = find_kind(kBandits, "bandit.kind", options.kind)
                        .make({.options = options,
                               .clients = static_cast<double>(clients),
                               .horizon = static_cast<double>(horizon),
                               .inputs = static_cast<double>(inputs)});
  rule.ucb.sqrt_beta = options.sqrt_beta.value_or(-1);
  rule.ucb.sigma = options.sigma;
  rule.ucb.delta = options.delta;
  rule.ucb.radius = options.radius;
  return rule;
}

bool reads_arms(const BanditOptions& options) {
  return options.arms == "file" || options.arms == "clusters";
}

int64_t exploration_of(const BanditOptions& options, int64_t clients) {
  const int64_t turns = clients * options.horizon;
  if (options.explore > turns) {
    throw InvalidArgument(
        fmt::format("{} uniform pulls, but clients make {} pulls in all", options.explore, turns),
        "bandit.explore", "0: the root of the latter");
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
