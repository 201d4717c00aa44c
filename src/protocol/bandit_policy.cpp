#include "bandit_policy.hpp"

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

StatisticsForm form_of(const BanditSetup& setup) {
  return statistics_form(setup.statistics, setup.arms.size(), dimension_of(setup));
}

// The arms' points as features.
LinearModel model_of_points(const BanditSetup& setup) {
  return {.features = std::make_shared<ArmFeatures>(
              setup.arms.points, std::vector<double>(setup.arms.values.size()), form_of(setup))};
}

// The network's gradients at w0.
LinearModel model_of_network(const BanditSetup& setup, std::span<const double> w0) {
  const RewardNetwork network(setup.arms.inputs, setup.oracle.hidden);
  const auto inputs = to_index(setup.arms.inputs);
  const auto d = w0.size();
  std::vector<double> base(setup.arms.values.size());
  std::vector<double> features(base.size() * d);
  for (std::size_t a = 0; a < base.size(); ++a) {
    base[a] = network.gradient(std::span(setup.arms.points).subspan(a * inputs, inputs), w0,
                               std::span(features).subspan(a * d, d));
  }
  LinearModel model{.features = std::make_shared<ArmFeatures>(std::move(features), std::move(base),
                                                              form_of(setup))};
  if (setup.optimism == "linear") return model;
  const auto arms = std::make_shared<const NetworkArms>(
      NetworkArms{network, setup.arms.points, {w0.begin(), w0.end()}});
  constexpr int64_t kAscentSteps = 5;
  model.optimism = setup.optimism == "ellipsoid" ? ellipsoid_optimism(arms, kAscentSteps)
                                                 : network_mean_optimism(arms);
  return model;
}

}  // namespace

int64_t dimension_of(const BanditSetup& setup) {
  if (!setup.network) return setup.arms.inputs;
  return RewardNetwork(setup.arms.inputs, setup.oracle.hidden).n_params();
}

std::unique_ptr<BanditPolicy> make_policy(const BanditSetup& setup, std::span<const double> w0) {
  const auto d = static_cast<double>(dimension_of(setup));
  const auto clients = static_cast<double>(setup.clients);
  return make_linear_policy(
      {.ucb = setup.ucb,
       .model = setup.network ? model_of_network(setup, w0) : model_of_points(setup),
       .scalars = [=](double) { return 2 * clients * (d * d + d); }});
}

}  // namespace hanse
