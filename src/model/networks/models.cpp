// The kinds of models that LibTorch makes, or trains side by side: a row a kind.
#include <algorithm>
#include <vector>

#include "hanse/base/error.hpp"
#include "makers.hpp"
#include "network_spec.hpp"
#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

std::span<const TorchModel> torch_models() {
  static const std::vector<TorchModel> rows = {
      {"resnet18", nullptr, make_resnet_cohort},
      {"lstm", nullptr, make_lstm_cohort},
      {"transformer", nullptr, make_transformer_cohort},
      {"graph", make_graph, make_graph_cohort},
  };
  return rows;
}

std::unique_ptr<CohortForward> make_cohort_forward(const ModelCase& c, const std::string& device) {
  if (network_spec(c.options, c.sample_shape)) return make_layers_cohort(c, device);
  const auto rows = torch_models();
  const auto found = std::ranges::find(rows, c.options.kind, &TorchModel::kind);
  if (found == rows.end() || found->make_cohort == nullptr) {
    throw InvalidArgument(c.options.kind + " trains on CPUs alone", "model.kind",
                          "use run.device = cpu");
  }
  return found->make_cohort(c, device);
}

}  // namespace hanse
