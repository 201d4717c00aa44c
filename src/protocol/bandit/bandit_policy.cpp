#include <stdexcept>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "hanse/protocol/bandit_setup.hpp"
#include "hanse/rules/bandit/logistic.hpp"
#include "hanse/rules/bandit/network.hpp"

namespace hanse {

namespace {

// Where sums go by arm, an arm's numbers of pulls and rewards travel.
StatisticsForm form_of(const BanditSetup& setup) {
  const bool features = setup.model == RewardModel::kNetwork || setup.model == RewardModel::kPoints;
  if (!features) return StatisticsForm::kPerArm;
  if (setup.running) return StatisticsForm::kPacked;  // features differ from pull to pull
  return statistics_form(setup.statistics, setup.arms.size(), dimension_of(setup));
}

// The network's gradients at w = w0 + shift, and the values of the linear model of f_x(w) there.
std::shared_ptr<const ArmFeatures> linearised(const BanditSetup& setup, std::span<const double> w0,
                                              std::span<const double> shift) {
  const RewardNetwork network(setup.arms.inputs, setup.oracle.hidden);
  const auto inputs = to_index(setup.arms.inputs);
  const auto d = w0.size();
  std::vector<double> w(w0.begin(), w0.end());
  for (std::size_t i = 0; i < shift.size(); ++i) w[i] += shift[i];
  std::vector<double> base(setup.arms.values.size());
  std::vector<double> features(base.size() * d);
  for (std::size_t a = 0; a < base.size(); ++a) {
    const auto gradient = std::span(features).subspan(a * d, d);
    const auto x = std::span(setup.arms.points).subspan(a * inputs, inputs);
    base[a] = network.gradient(x, w, gradient);
    if (!shift.empty()) base[a] -= inner_product(gradient, shift);
  }
  return std::make_shared<const ArmFeatures>(std::move(features), std::move(base), form_of(setup));
}

LinearModel model_of_network(const BanditSetup& setup, std::span<const double> w0) {
  LinearModel model{.features = linearised(setup, w0, {})};
  if (setup.optimism == UpperBound::kLinear) return model;
  const RewardNetwork network(setup.arms.inputs, setup.oracle.hidden);
  const auto arms = std::make_shared<const NetworkArms>(
      NetworkArms{network, setup.arms.points, {w0.begin(), w0.end()}});
  constexpr int64_t kAscentSteps = 5;
  model.optimism = setup.optimism == UpperBound::kEllipsoid ? ellipsoid_optimism(arms, kAscentSteps)
                                                            : network_mean_optimism(arms);
  return model;
}

// The scalars that a synchronization of matrices sends, as papers count.
std::function<double(double)> scalars_of_matrices(const BanditSetup& setup) {
  const auto d = static_cast<double>(dimension_of(setup));
  return [all = 2 * static_cast<double>(setup.clients) * (d * d + d)](double) { return all; };
}

std::unique_ptr<BanditPolicy> make_network_policy(const BanditSetup& setup,
                                                  std::span<const double> w0) {
  const auto d = to_index(dimension_of(setup));
  LinearCase parts{.ucb = setup.ucb,
                   .model =
                       [&setup, w0, d](int64_t client) {
                         const auto at = setup.own_models ? to_index(client) * d : 0;
                         return model_of_network(setup, w0.subspan(at, d));
                       },
                   .own = setup.own_models,
                   .scalars = scalars_of_matrices(setup)};
  if (setup.running) {
    parts.follow = [&setup, w0](std::span<const double> shift) {
      return linearised(setup, w0, shift);
    };
  }
  return make_linear_policy(std::move(parts));
}

}  // namespace

int64_t dimension_of(const BanditSetup& setup) {
  if (setup.model != RewardModel::kNetwork) return setup.arms.inputs;
  return RewardNetwork(setup.arms.inputs, setup.oracle.hidden).n_params();
}

int64_t row_width_of(const BanditSetup& setup) {
  return statistics_width(setup.arms.size(), dimension_of(setup), form_of(setup));
}

int64_t networks_of(const BanditSetup& setup) {
  if (setup.model != RewardModel::kNetwork) return 0;
  return setup.own_models ? setup.clients : 1;
}

std::unique_ptr<BanditPolicy> make_policy(const BanditSetup& setup, std::span<const double> w0) {
  const auto features = [&] {
    return std::make_shared<const ArmFeatures>(
        setup.arms.points, std::vector<double>(setup.arms.values.size()), form_of(setup));
  };
  switch (setup.model) {
    case RewardModel::kNetwork: return make_network_policy(setup, w0);
    case RewardModel::kPoints:
      return make_linear_policy(
          {.ucb = setup.ucb,
           .model = [points = features()](int64_t) { return LinearModel{points}; },
           .scalars = scalars_of_matrices(setup)});
    case RewardModel::kLogistic: return make_logistic_policy(features(), setup.ucb, setup.clients);
    case RewardModel::kKernel:
      return make_kernel_policy(setup.arms, setup.ucb, setup.kernel, setup.clients);
    case RewardModel::kKernelOfPoints:
      return make_dictionary_policy(setup.arms, setup.ucb, setup.kernel, setup.clients);
  }
  throw std::logic_error("unknown reward model");
}

}  // namespace hanse
