#include "device/cohort_noise.hpp"

#include <algorithm>

#include "device/kernels.hpp"
#include "device/upload.hpp"
#include "dropout.hpp"

namespace hanse {

CohortNoise::CohortNoise(const std::vector<CohortForward::Dropout>& dropouts, int64_t clients,
                         int64_t batch, const at::TensorOptions& on_device)
    : dropouts_(dropouts), clients_(clients), batch_(batch), on_device_(on_device) {}

void CohortNoise::start(std::span<const Cohort::NoiseKey> keys) {
  const at::Tensor table = staged({clients_, 3}, at::kLong, on_device_.device());
  auto* next = reinterpret_cast<uint64_t*>(table.data_ptr<int64_t>());
  const auto clients = static_cast<std::size_t>(clients_);
  drawn_.assign(clients, 0);
  streams_.assign(clients, RandomStream(0, Purpose::kDropout));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (const uint64_t part : {keys[i].seed, keys[i].round, keys[i].client}) *next++ = part;
    streams_[i] = RandomStream(keys[i].seed, Purpose::kDropout, keys[i].round, keys[i].client);
  }
  keys_ = sent(table, on_device_.device());
}

void CohortNoise::put_steps(std::span<const int64_t> counts, const at::Tensor& there) {
  counts_.assign(counts.begin(), counts.end());
  counts_there_ = there;
  put_drawn();
  put_seeds();
}

void CohortNoise::put_drawn() {
  const auto masks = static_cast<int64_t>(counts_.size() * dropouts_.size());
  const at::Tensor table = staged({masks}, at::kLong, on_device_.device());
  auto* next = table.data_ptr<int64_t>();
  for (std::size_t first = 0; first < counts_.size(); first += drawn_.size()) {
    for (const CohortForward::Dropout& dropout : dropouts_) {
      next = std::copy(drawn_.begin(), drawn_.end(), next);
      for (std::size_t i = 0; i < drawn_.size(); ++i) {
        drawn_[i] += DropWork::draws(counts_[first + i], dropout.width);
      }
    }
  }
  drawn_before_there_ = sent(table, on_device_.device());
}

// A number of each client's stream a step.
void CohortNoise::put_seeds() {
  seeds_.assign(counts_.size(), 0);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) seeds_[i] = streams_[i % streams_.size()].next();
  }
}

std::vector<at::Tensor> CohortNoise::masks(int64_t step) const {
  std::vector<at::Tensor> masks;
  for (const CohortForward::Dropout& dropout : dropouts_) {
    const at::Tensor& mask =
        masks.emplace_back(at::zeros({clients_, batch_, dropout.width}, on_device_));
    const DropoutRule rule(dropout.share);
    const int64_t at = step * std::ssize(dropouts_) + std::ssize(masks) - 1;
    const DropWork work{.purpose = static_cast<uint64_t>(Purpose::kDropout),
                        .threshold = rule.threshold,
                        .scale = rule.scale,
                        .batch = batch_,
                        .width = dropout.width,
                        .steps = dropout.steps,
                        .counts = counts_there_.data_ptr<int64_t>() + step * clients_,
                        .streams = keys_.data_ptr<int64_t>(),
                        .drawn = drawn_before_there_.data_ptr<int64_t>() + at * clients_,
                        .mask = mask.data_ptr<float>()};
    run(work, clients_ * work.blocks(), mask.device());
  }
  return masks;
}

CohortForward::StepOfClients CohortNoise::of_clients(int64_t step) const {
  const auto first = static_cast<std::size_t>(step * clients_);
  const auto n = static_cast<std::size_t>(clients_);
  return {std::span(counts_).subspan(first, n), std::span(seeds_).subspan(first, n)};
}

}  // namespace hanse
