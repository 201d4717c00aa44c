// The steps of SGD that online nodes make on their batches.
#include <algorithm>
#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/client/cohort_nodes.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/stream_fit.hpp"

namespace hanse {

namespace {

class SgdFit final : public StreamFit {
 public:
  SgdFit(Model& model, int64_t steps, double lr, const StepBatch& step)
      : model_(model), steps_(steps), lr_(lr), step_(step) {}

  void fit(int64_t, const Batch& batch, RandomStream& noise, std::span<float> row) override {
    for (int64_t step = 0; step < steps_; ++step) {
      const SampleRange used = step_.of(step, batch.rows);
      model_.sgd_step(row, part_of(batch, used, step_.sample_values, step_.label_values), noise,
                      lr_, 0);
    }
  }

 private:
  Model& model_;
  int64_t steps_;
  double lr_;
  StepBatch step_;
};

// Trains several nodes at once, on a device.
class CohortFit final : public StreamFit {
 public:
  CohortFit(Cohort& cohort, const CohortNodesSettings& settings, int64_t n_params)
      : cohort_(cohort),
        settings_(settings),
        width_(to_index(n_params)),
        rows_(to_index(settings.clients) * width_),
        places_(to_index(settings.steps * settings.clients * settings.batch)),
        counts_(to_index(settings.steps * settings.clients)),
        sizes_(counts_.size()) {}

  // One node has no stream of its own here: fit_all().
  void fit(int64_t node, const Batch& batch, RandomStream& noise, std::span<float> row) override {
    const Cohort::NoiseKey key{noise.next(), 0, static_cast<uint64_t>(node)};
    fit_all(node, {&batch, 1}, {&key, 1}, row);
  }

  void fit_all(int64_t first, std::span<const Batch> batches,
               std::span<const Cohort::NoiseKey> keys, std::span<float> rows) override {
    const auto nodes = std::ssize(batches);
    for (int64_t done = 0; done < nodes;) {
      const int64_t place = (first + done) % settings_.clients;
      const int64_t some = std::min(nodes - done, settings_.clients - place);
      const auto at = to_index(done), n = to_index(some);
      fit_cohort(to_index(place), batches.subspan(at, n), keys.subspan(at, n),
                 rows.subspan(at * width_, n * width_));
      done += some;
    }
  }

 private:
  // Trains the nodes that stand from `place` on; the others rest.
  void fit_cohort(std::size_t place, std::span<const Batch> batches,
                  std::span<const Cohort::NoiseKey> keys, std::span<float> rows) {
    std::fill(rows_.begin(), rows_.end(), 0.0F);
    std::fill(places_.begin(), places_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(sizes_.begin(), sizes_.end(), StepSize{.scale = 0});
    std::vector<Cohort::NoiseKey> streams(to_index(settings_.clients));
    const auto mine = std::span(rows_).subspan(place * width_, rows.size());
    std::copy(rows.begin(), rows.end(), mine.begin());
    std::copy(keys.begin(), keys.end(), streams.begin() + static_cast<std::ptrdiff_t>(place));
    for (std::size_t i = 0; i < batches.size(); ++i) put(place + i, batches[i]);
    cohort_.start({.rows = rows_, .noise = streams});
    cohort_.put_steps({.places = places_, .counts = counts_, .sizes = sizes_});
    cohort_.steps(0, settings_.steps, settings_.clients);
    cohort_.take_rows(rows_);
    std::copy(mine.begin(), mine.end(), rows.begin());
  }

  void put(std::size_t place, const Batch& batch) {
    const int64_t begin = static_cast<int64_t>(place) * settings_.batch;
    cohort_.put(begin, batch);
    for (int64_t step = 0; step < settings_.steps; ++step) {
      const SampleRange used = settings_.step.of(step, batch.rows);
      const std::size_t at = to_index(step * settings_.clients) + place;
      counts_[at] = used.size();
      sizes_[at] = {.rate = static_cast<float>(settings_.lr)};
      const auto to = places_.begin() + static_cast<std::ptrdiff_t>(at) * settings_.batch;
      std::fill(to, to + settings_.batch, begin);  // behind its samples stands the node's first
      std::iota(to, to + used.size(), begin + used.begin);
    }
  }

  Cohort& cohort_;
  CohortNodesSettings settings_;
  std::size_t width_;            // P
  std::vector<float> rows_;      // [C, P]
  std::vector<int64_t> places_;  // [steps, C, B] of the samples on the device
  std::vector<int64_t> counts_;  // [steps, C]
  std::vector<StepSize> sizes_;  // [steps, C]
};

}  // namespace

SampleRange StepBatch::of(int64_t step, int64_t all) const {
  if (rows == 0) return {0, all};
  const int64_t parts = (all + rows - 1) / rows;
  const int64_t first = step % parts * rows;
  return {first, std::min(first + rows, all)};
}

void StreamFit::fit_all(int64_t first, std::span<const Batch> batches,
                        std::span<const Cohort::NoiseKey> keys, std::span<float> rows) {
  const std::size_t width = batches.empty() ? 0 : rows.size() / batches.size();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    RandomStream noise(keys[i].seed, Purpose::kDropout, keys[i].round, keys[i].client);
    fit(first + static_cast<int64_t>(i), batches[i], noise, rows.subspan(i * width, width));
  }
}

std::unique_ptr<StreamFit> make_sgd_fit(Model& model, int64_t steps, double lr,
                                        const StepBatch& step) {
  return std::make_unique<SgdFit>(model, steps, lr, step);
}

std::unique_ptr<StreamFit> make_cohort_fit(Cohort& cohort, const CohortNodesSettings& settings,
                                           int64_t n_params) {
  return std::make_unique<CohortFit>(cohort, settings, n_params);
}

}  // namespace hanse
