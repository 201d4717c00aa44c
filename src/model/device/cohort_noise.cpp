#include "device/cohort_noise.hpp"

#include <algorithm>

#include "device/kernels.hpp"
#include "device/upload.hpp"
#include "hanse/base/index.hpp"
#include "layers/dropout.hpp"

namespace hanse {

CohortNoise::CohortNoise(const std::vector<CohortForward::Dropout>& dropouts, int64_t seeds,
                         int64_t clients, int64_t batch, const at::TensorOptions& on_device)
    : dropouts_(dropouts), seeds_a_step_(to_index(seeds)), clients_(clients), batch_(batch) {
  keys_ = at::zeros({clients, 3}, on_device.dtype(at::kLong));
  for (const CohortForward::Dropout& dropout : dropouts_) {
    masks_.push_back(at::zeros({clients, batch, dropout.width}, on_device));
  }
}

void CohortNoise::start(std::span<const Cohort::NoiseKey> keys) {
  drawn_.assign(static_cast<std::size_t>(clients_), 0);
  streams_.assign(drawn_.size(), RandomStream(0, Purpose::kDropout));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    streams_[i] = RandomStream(keys[i].seed, Purpose::kDropout, keys[i].round, keys[i].client);
  }
  if (masks_.empty()) return;
  const at::Tensor table = staged({clients_, 3}, at::kLong, keys_.device());
  auto* next = reinterpret_cast<uint64_t*>(table.data_ptr<int64_t>());
  for (const Cohort::NoiseKey& key : keys) {
    for (const uint64_t part : {key.seed, key.round, key.client}) *next++ = part;
  }
  keys_.copy_(table, /*non_blocking=*/true);
}

std::vector<int64_t> CohortNoise::put_steps(std::span<const int64_t> counts) {
  counts_.assign(counts.begin(), counts.end());
  seeds_.assign(std::max<std::size_t>(seeds_a_step_, 1) * counts_.size(), 0);
  std::vector<int64_t> before;
  for (std::size_t first = 0; first < counts_.size(); first += drawn_.size()) {
    for (const CohortForward::Dropout& dropout : dropouts_) {
      before.insert(before.end(), drawn_.begin(), drawn_.end());
      for (std::size_t i = 0; i < drawn_.size(); ++i) {
        drawn_[i] += DropWork::draws(counts_[first + i], dropout.width);
      }
    }
    draw_seeds(first);
    for (std::size_t seed = 0; seed < seeds_a_step_; ++seed) {
      const auto own = seeds_.begin() + static_cast<int64_t>(seed * counts_.size() + first);
      before.insert(before.end(), own, own + clients_);
    }
  }
  return before;
}

// For the step whose counts begin at `first`.
void CohortNoise::draw_seeds(std::size_t first) {
  for (std::size_t i = 0; i < drawn_.size() && seeds_a_step_ > 0; ++i) {
    if (counts_[first + i] == 0) continue;
    streams_[i].seek(static_cast<uint64_t>(drawn_[i]));
    for (std::size_t seed = 0; seed < seeds_a_step_; ++seed) {
      seeds_[seed * counts_.size() + first + i] = streams_[i].next();
    }
    drawn_[i] += static_cast<int64_t>(seeds_a_step_);
  }
}

void CohortNoise::draw(const StepTable& table, int64_t clients) {
  for (std::size_t i = 0; i < masks_.size(); ++i) {
    const DropoutRule rule(dropouts_[i].share);
    const DropWork work{
        .purpose = static_cast<uint64_t>(Purpose::kDropout),
        .threshold = rule.threshold,
        .scale = rule.scale,
        .batch = batch_,
        .width = dropouts_[i].width,
        .steps = dropouts_[i].steps,
        .counts = table.counts().data_ptr<int64_t>(),
        .streams = keys_.data_ptr<int64_t>(),
        .drawn = table.drawn().data_ptr<int64_t>() + static_cast<int64_t>(i) * clients_,
        .mask = masks_[i].data_ptr<float>()};
    run(work, clients * work.blocks(), keys_.device());
  }
}

at::Tensor CohortNoise::seed_of(const StepTable& table, int64_t client) const {
  return table.drawn()[std::ssize(dropouts_)].narrow(0, client, 1);
}

CohortForward::StepOfClients CohortNoise::of_clients(int64_t step, int64_t clients,
                                                     int64_t seed) const {
  const std::size_t first = to_index(step * clients_), n = to_index(clients);
  return {std::span(counts_).subspan(first, n),
          std::span(seeds_).subspan(to_index(seed) * counts_.size() + first, n)};
}

}  // namespace hanse
