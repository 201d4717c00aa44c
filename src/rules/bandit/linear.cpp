#include "hanse/rules/bandit/linear.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "bandit/own_set.hpp"

namespace hanse {

namespace {

void require(bool holds, const char* option, double value, const char* range) {
  if (holds) return;
  throw InvalidArgument(fmt::format("{} is out of range", value), option, range);
}

struct Knowledge {
  LinearModel model;
  ConfidenceSet set;  // of the model's features
};

class LinearClient final : public BanditClient {
 public:
  LinearClient(const UcbOptions& ucb, std::shared_ptr<const Knowledge> common)
      : ucb_(&ucb), common_(std::move(common)), set_(common_->set) {}

  Turn next() const override {
    const ConfidenceSet& known = set_.get();
    std::vector<double> bounds(to_index(known.features().arms()));
    common_->model.optimism(known, confidence_radius(*ucb_, known.log_growth()), bounds);
    const int64_t arm = best_arm(bounds);
    const auto pulls = static_cast<double>(own().arms.size() + 1);
    return {.arm = arm, .triggers = pulls * set_.growth_with(arm) > ucb_->gamma};
  }

 private:
  void learn(int64_t arm, double reward) override {
    set_.observe(arm, reward - set_.get().features().base(arm));
  }

  const UcbOptions* ucb_;
  std::shared_ptr<const Knowledge> common_;
  OwnSet set_;
};

class LinearPolicy final : public BanditPolicy {
 public:
  explicit LinearPolicy(LinearCase parts) : parts_(std::move(parts)) {
    auto first = parts_.model(0);
    width_ = first.features->row_width();
    if (!parts_.own) common_ = nothing_known(std::move(first));
  }

  std::unique_ptr<BanditClient> make_client(int64_t client) const override {
    return std::make_unique<LinearClient>(parts_.ucb, start_of(client));
  }

  int64_t row_width() const override { return width_; }

  void add(const Pulls& pulls, int64_t client, std::span<double> row) const override {
    if (pulls.arms.empty()) return;
    const auto start = start_of(client);
    const ArmFeatures& features = *start->model.features;
    for (std::size_t i = 0; i < pulls.arms.size(); ++i) {
      add_pull(features, pulls.arms[i], pulls.rewards[i] - features.base(pulls.arms[i]), row);
    }
  }

  double know(std::span<const double> total) override {
    if (parts_.own) return 0;
    Knowledge known = *common_;
    known.set.rebuild(total);
    if (parts_.follow) {
      known.model.features = parts_.follow(known.set.shift());
      known.set.look_at(*known.model.features);
    }
    common_ = std::make_shared<const Knowledge>(std::move(known));
    if (common_->model.features->form() == StatisticsForm::kPacked) return parts_.scalars(0);
    const auto counts = total.first(total.size() / 2);
    const double before = std::exchange(pulls_, std::reduce(counts.begin(), counts.end()));
    return parts_.scalars(pulls_ - before);
  }

  std::vector<double> estimate(std::span<const double> row, int64_t client) const override {
    const auto start = start_of(client);  // whose features the set looks at
    ConfidenceSet set = start->set;
    set.rebuild(row);
    return set.shift();
  }

 private:
  std::shared_ptr<const Knowledge> nothing_known(LinearModel model) const {
    ConfidenceSet set(*model.features, parts_.ucb.lambda);
    return std::make_shared<const Knowledge>(Knowledge{std::move(model), std::move(set)});
  }
  std::shared_ptr<const Knowledge> start_of(int64_t client) const {
    return parts_.own ? nothing_known(parts_.model(client)) : common_;
  }

  LinearCase parts_;
  int64_t width_ = 0;
  std::shared_ptr<const Knowledge> common_;  // null where each client has its own
  double pulls_ = 0;                         // known, in statistics per arm
};

}  // namespace

void check_options(const UcbOptions& options) {
  const double most = std::numeric_limits<double>::max();
  require(options.lambda > 0 && options.lambda <= most, "bandit.lambda", options.lambda,
          "it must be above 0");
  require(options.gamma >= 0, "bandit.gamma", options.gamma, "it must be at least 0");
  require(options.sqrt_beta <= most, "bandit.sqrt-beta", options.sqrt_beta, "it must be finite");
  require(options.sigma >= 0 && options.sigma <= most, "bandit.sigma", options.sigma,
          "it must be at least 0");
  require(options.delta > 0 && options.delta < 1, "bandit.delta", options.delta,
          "it must lie in (0, 1)");
  require(options.radius >= 0 && options.radius <= most, "bandit.radius", options.radius,
          "it must be at least 0");
  require(options.width >= 0 && options.width <= most, "bandit.width", options.width,
          "it must be at least 0");
}

double confidence_radius(const UcbOptions& options, double log_growth) {
  if (options.sqrt_beta >= 0) return options.sqrt_beta;
  return options.sigma * std::sqrt(log_growth + 2 * std::log(1 / options.delta)) +
         std::sqrt(options.lambda) * options.radius;
}

void linear_optimism(const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds) {
  for (std::size_t a = 0; a < bounds.size(); ++a) {
    bounds[a] = set.features().base(static_cast<int64_t>(a)) + set.means()[a] +
                sqrt_beta * std::sqrt(set.squared_widths()[a]);
  }
}

std::unique_ptr<BanditPolicy> make_linear_policy(LinearCase parts) {
  return std::make_unique<LinearPolicy>(std::move(parts));
}

}  // namespace hanse
