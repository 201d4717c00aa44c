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

// The numbers behind the automatic trigger.
struct Horizon {
  double clients;
  double rounds;
  double inputs;  // of an arm

  // 0 for a single pull, which therefore triggers nothing.
  double log_pulls() const { return std::log(clients * rounds); }
};

constexpr double kNever = std::numeric_limits<double>::infinity();

// Keys that only some kinds read.
struct BanditKeys {
  bool gamma = true;
  bool models = false;
  bool gradients = false;
};

struct BanditKind : KindRow<Job> {
  RewardModel model;
  double (*trigger)(const Horizon& horizon);  // bandit.gamma = auto, or kinds without the key
  BanditKeys reads = {};
};

using Options = BanditOptions;
const auto key = keys_of<Job>("bandit", &Job::bandit);
const auto oracle_key = keys_of<Job>(
    "bandit", [](Job& job) -> auto& { return job.bandit.oracle; });
const auto kernel_key = keys_of<Job>(
    "bandit", [](Job& job) -> auto& { return job.bandit.kernel; });

template <auto kField>
auto& option(Job& job) {
  return job.bandit.*kField;
}

Keys<Job> ridge_key(const std::string& automatic) {
  return key("lambda", &Options::lambda, "auto",
             "ridge, above 0: small for wide confidence sets; auto: " + automatic);
}

// The key with a number as its default.
Keys<Job> ridge_of(double value) {
  return with_default(
      key("lambda", &Options::lambda, "auto", "ridge, above 0: small for wide confidence sets"),
      option<&Options::lambda>, std::optional<double>(value));
}

Keys<Job> trigger_key(const std::string& automatic) {
  return key("gamma", &Options::gamma, "auto",
             "trigger, at least 0: small for frequent synchronization; auto: " + automatic);
}

Keys<Job> sigma_key(const std::string& help) {
  return key("sigma", &Options::sigma, at_least(0), help);
}
const Keys<Job> kDelta = key("delta", &Options::delta, Range{0, 1, true, true},
                             "chance that a confidence set misses the truth");

// Keys of confidence sets of features.
const Keys<Job> kSets{
    key("sqrt-beta", &Options::sqrt_beta, "auto",
        "radius of the confidence sets; auto: sigma sqrt(log det ratio + 2 log(1/delta)) + "
        "sqrt(lambda) radius"),
    sigma_key("sub-Gaussian constant in sqrt-beta"), kDelta,
    key("radius", &Options::radius, at_least(0), "bound of |w* - w0| in sqrt-beta"),
    key("statistics", &Options::statistics,
        "what a synchronization sends: a matrix of the features, or two numbers an arm; "
        "the arms pulled are the same; auto: the smaller")};

// Keys of the three kinds that fit a network.
const Keys<Job> kNetwork{
    ridge_key("lambda-scale sqrt(clients horizon)"),
    key("lambda-scale", &Options::lambda_scale, above(0), "C_lambda of bandit.lambda = auto"),
    kSets,
    key("ucb", &Options::ucb,
        "upper bound of an arm: of the linearised network; the network at the centre and "
        "the width; the network's largest value found in the set"),
    key("explore", &Options::explore, or_auto(at_least(1)),
        "T0, uniform pulls before round 1; auto: ceil(sqrt(clients horizon))"),
    oracle_key("hidden", &OracleOptions::hidden, between(1, 2147483647),
               "hidden units of the network"),
    oracle_key("spread", &OracleOptions::spread, above(0),
               "deviation of the network's start; large for rough functions, 0.5 for smooth ones"),
    oracle_key("steps", &OracleOptions::steps, at_least(0), "steps of the fit"),
    oracle_key("step", &OracleOptions::step, above(0), "tau_1, step size of the fit"),
    oracle_key("temperature", &OracleOptions::temperature, above(0),
               "tau_2, inverse: large for little noise in the fit")};

constexpr double kLargestRadius = 25;  // beyond, the logistic function has no slope left

const Keys<Job> kLogistic{
    trigger_key("horizon / (clients features log(clients horizon))"),
    ridge_of(2),
    with_default(kDelta, option<&Options::delta>, 0.01),
    key("radius", &Options::radius, between(0, kLargestRadius), "S, bound of |theta*|"),
    with_default(sigma_key("R, sub-Gaussian constant of the rewards"), option<&Options::sigma>,
                 0.5),
    with_default(key("width", &Options::width, at_least(0), "s, factor of the widths"),
                 option<&Options::width>, 0.1)};

Keys<Job> kernel_keys(const std::string& threshold) {
  return {trigger_key(threshold), ridge_of(0.2),
          key("width", &Options::width, at_least(0), "alpha, factor of the widths"),
          kernel_key("kernel-length", &KernelOptions::length, above(0),
                     "length of the kernel exp(-|a - b|^2 / (2 length^2)), in units of the arms' "
                     "points")};
}

const Family<BanditKind> kBandits{
    "bandits",
    "bandit.kind",
    "how arms are chosen, and when clients synchronize",
    chosen_by<&Job::bandit, &BanditOptions::kind>,
    {{{"fed-go-ucb",
       "a network fitted once, synchronized by event (Li, Liu and Wang 2023)",
       {trigger_key("1"), kNetwork}},
      RewardModel::kNetwork,
      [](const Horizon&) { return 1.0; }},
     {{"one-go-ucb",
       "fed-go-ucb that synchronizes after every pull (Liu and Wang 2023)",
       {kNetwork, key("gradients", &Options::gradients,
                      "running: at the estimate behind each synchronization, which sends "
                      "matrices; first: at the first phase's network, as fed-go-ucb")}},
      RewardModel::kNetwork,
      [](const Horizon&) { return 0.0; },
      {.gamma = false, .gradients = true}},
     {{"n-go-ucb",
       "fed-go-ucb that never synchronizes",
       {kNetwork, key("models", &Options::models,
                      "own: a network a client, fitted on its own first phase; shared: one, "
                      "fitted on everybody's")}},
      RewardModel::kNetwork,
      [](const Horizon&) { return kNever; },
      {.gamma = false, .models = true}},
     {{"dis-lin-ucb",
       "linear in the arms' points, synchronized by event (Wang et al. 2020)",
       {trigger_key("horizon / (features log(clients horizon))"), ridge_key("0.1"), kSets}},
      RewardModel::kPoints,
      [](const Horizon& h) {
        // Aims at the regret of a single learner, in rounds (Async-LinUCB's experiments).
        return h.rounds / (h.inputs * std::max(1.0, h.log_pulls()));
      }},
     {{"fed-glb-ucb", "logistic in the arms' points, fitted together by event (Li and Wang 2022)",
       kLogistic},
      RewardModel::kLogistic,
      [](const Horizon& h) { return h.rounds / (h.clients * h.inputs * h.log_pulls()); }},
     {{"dis-kernel-ucb",
       "a kernel's regression on all data, synchronized by event (Li et al. 2022)",
       kernel_keys("horizon / (clients log(clients horizon))")},
      RewardModel::kKernel,
      [](const Horizon& h) { return h.rounds / (h.clients * h.log_pulls()); }},
     {{"approx-dis-kernel-ucb",
       "dis-kernel-ucb in a dictionary of points (Li et al. 2022)",
       {kernel_keys("1 / clients"),
        kernel_key("inclusion", &KernelOptions::inclusion, at_least(0),
                   "q: a pull enters the dictionary with probability min(1, q sigma^2)")}},
      RewardModel::kKernelOfPoints,
      [](const Horizon& h) { return 1 / h.clients; }}}};

}  // namespace

KindFamily bandit_family() { return listed(kBandits); }

BanditRule make_bandit_rule(const BanditOptions& options, int64_t clients, int64_t horizon,
                            int64_t inputs) {
  const BanditKind& kind = kBandits.find(options.kind);
  const bool network = kind.model == RewardModel::kNetwork;
  const Horizon h{static_cast<double>(clients), static_cast<double>(horizon),
                  static_cast<double>(inputs)};
  const double ridge = network ? options.lambda_scale * std::sqrt(h.clients * h.rounds) : 0.1;
  const double trigger = kind.reads.gamma && options.gamma ? *options.gamma : kind.trigger(h);
  return {.ucb = {.lambda = options.lambda.value_or(ridge),
                  .gamma = trigger,
                  .sqrt_beta = options.sqrt_beta.value_or(-1),
                  .sigma = options.sigma,
                  .delta = options.delta,
                  .radius = options.radius,
                  .width = options.width},
          .model = kind.model,
          .own_models = kind.reads.models && options.models == BanditModels::kOwn,
          .running = kind.reads.gradients && options.gradients == GradientsAt::kRunning,
          .kernel = options.kernel};
}

void check_values(const BanditRule& rule, const Arms& arms, const std::string& where) {
  if (rule.model != RewardModel::kLogistic) return;
  const auto outside = std::find_if(arms.values.begin(), arms.values.end(),
                                    [](double value) { return !(value >= 0 && value <= 1); });
  if (outside == arms.values.end()) return;
  throw InvalidArgument(fmt::format("the value {} of arm {} lies outside [0, 1]", *outside,
                                    outside - arms.values.begin()),
                        where,
                        "fed-glb-ucb takes them for means of a logistic function: scale them");
}

bool reads_arms(const BanditOptions& options) {
  return options.arms == ArmSource::kFile || options.arms == ArmSource::kClusters;
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
  check_options(rule.kernel);
  if (rule.model == RewardModel::kNetwork) exploration_of(bandit, job.federation.clients);
  if (rule.running && bandit.statistics == AskedStatistics::kPerArm) {
    throw InvalidArgument("gradients at the running estimate differ from pull to pull",
                          "bandit.statistics", "packed, or bandit.gradients = first");
  }
  const bool file = bandit.arms == ArmSource::kFile;
  const std::string& path = file ? bandit.path : job.data.path;
  if (reads_arms(bandit) && !std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(missing_text(path), file ? "bandit.path" : "data.path",
                          "data/README.md describes the format");
  }
}

}  // namespace hanse
