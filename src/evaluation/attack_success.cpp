#include "hanse/evaluation/attack_success.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/patched_image.hpp"

namespace hanse {

namespace {

// The samples that attackers want something of.
std::vector<int32_t> targets_of(const PoisonOptions& options, const Federation& federation) {
  std::vector<int32_t> found;
  const auto add = [&](SampleRange range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t label = federation.labels()[to_index(i)];
      const bool asked = options.kind == Poison::kBackdoor || label == options.source;
      if (asked && wanted_class(options, label, federation.classes()) != label) {
        found.push_back(static_cast<int32_t>(i));
      }
    }
  };
  if (federation.common_test().size() > 0) {
    add(federation.common_test());
    return found;
  }
  for (int64_t client = 0; client < federation.clients(); ++client) add(federation.test(client));
  return found;
}

// How many samples of the batch are taken for the class that attackers want.
int64_t fooled(const PoisonOptions& options, int64_t classes, Model& model,
               std::span<const float> row, const Batch& batch) {
  std::vector<int32_t> taken_for(to_index(batch.rows));
  model.evaluate(row, batch, {.classes = taken_for.data()});
  int64_t count = 0;
  for (std::size_t i = 0; i < taken_for.size(); ++i) {
    if (taken_for[i] == wanted_class(options, batch.labels[i], classes)) ++count;
  }
  return count;
}

}  // namespace

std::optional<double> attack_success(const PoisonOptions& options, const Federation& federation,
                                     Model& model, std::span<const float> row, Communicator& comm) {
  if (options.kind == Poison::kNone) return std::nullopt;
  const FlushSubnormals flush;
  const PatchedImage image = patched_image(options, federation);
  const std::vector<int32_t> samples = targets_of(options, federation);
  const auto longest = to_index(model.evaluation_rows());
  GatheredBatch batch;
  int64_t count = 0, piece = 0;
  for (std::size_t first = 0; first < samples.size(); first += longest, ++piece) {
    if (piece % comm.size() != comm.rank()) continue;
    batch.gather(federation, 0,
                 std::span(samples).subspan(first, std::min(longest, samples.size() - first)));
    for (int64_t i = 0; i < batch.rows; ++i) {
      image.mark(batch.features.data() + i * federation.sample_values());
    }
    batch.forget_places();
    count += fooled(options, federation.classes(), model, row, batch.view());
  }
  comm.reduce(std::span(&count, 1), ReduceOp::kSum, 0);
  return static_cast<double>(count) / static_cast<double>(samples.size());
}

}  // namespace hanse
