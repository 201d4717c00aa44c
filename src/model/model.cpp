#include "hanse/model/model.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "sample_gradients.hpp"

namespace hanse {

void Model::initialize(std::span<float> row, RandomStream& stream) const {
  draw(row, stream);
  for (const StartPart& part : start_) {
    std::copy(part.values.begin(), part.values.end(), row.begin() + part.offset);
  }
}

std::vector<WholeNumbers> Model::whole_numbers() const {
  if (vocabulary() == 0) return {};
  return {{.first = 0,
           .last = INT64_MAX,
           .least = 0,
           .most = static_cast<double>(vocabulary() - 1),
           .what = fmt::format("no token: the model knows the whole numbers from 0 to {}",
                               vocabulary() - 1),
           .key = "model.vocabulary",
           .hint = "it must be above the largest token of the data"}};
}

void Model::draw(std::span<float> row, RandomStream& stream) const {
  if (from_zeros_) {
    std::fill(row.begin(), row.end(), 0.0f);
    return;
  }
  for (const ParameterSlot& slot : layout_.slots()) {
    const std::span<float> tensor =
        row.subspan(static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(slot.size));
    if (slot.fan_in == 0) {
      std::fill(tensor.begin(), tensor.end(), slot.start);
      continue;
    }
    const double bound = 1.0 / std::sqrt(static_cast<double>(slot.fan_in));
    for (float& w : tensor) w = static_cast<float>((2.0 * stream.uniform() - 1.0) * bound);
  }
}

void Model::cross_losses(std::span<const float> rows, std::span<const Batch> batches,
                         std::span<double> losses) {
  const auto width = static_cast<std::size_t>(n_params());
  auto out = losses.begin();
  for (const Batch& batch : batches) {
    for (std::size_t first = 0; first < rows.size(); first += width) {
      *out++ = evaluate(rows.subspan(first, width), batch).loss / static_cast<double>(batch.rows);
    }
  }
}

double Model::clipped_gradient(std::span<const float> row, const Batch& batch,
                               const SampleSizes& sizes, RandomStream& noise, double clip,
                               std::span<double> sum) {
  std::fill(sum.begin(), sum.end(), 0.0);
  std::vector<float> gradient(row.size());
  const std::span<const float> trained = std::span(gradient).first(sum.size());
  double loss = 0;
  for (int64_t i = 0; i < batch.rows; ++i) {
    Batch one = batch;
    one.rows = 1;
    one.features += i * sizes.features;
    one.places = batch.places.from(i);
    if (one.labels != nullptr) one.labels += i * sizes.labels;
    if (one.targets != nullptr) one.targets += i * sizes.labels;
    if (one.sample_losses != nullptr) one.sample_losses += i;
    loss += loss_and_gradient(row, one, noise, gradient);
    const double scale = clip_scale(inner_product(trained, trained), clip);
    if (scale == 0) continue;
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += scale * static_cast<double>(trained[j]);
  }
  return loss / static_cast<double>(std::max<int64_t>(1, batch.rows));
}

double Model::step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                      RowStep& step) {
  const std::span<float> gradient(step.part(n_params()), row.size());
  const double loss = loss_and_gradient(row, batch, noise, gradient);
  step.apply(0, gradient.data(), layout_.n_trainable());
  move_buffers(row);
  return loss;
}

double Model::record_gradient(std::span<const float>, const Batch&, RandomStream&,
                              GradientRecord&) {
  throw InvalidArgument("this model has no gradients in factors", "model.kind");
}

void Model::hessian_vector(std::span<const float>, const Batch&, std::span<const float>,
                           std::span<float>) {
  throw InvalidArgument("this model has no Hessian-vector products", "model.kind");
}

}  // namespace hanse
