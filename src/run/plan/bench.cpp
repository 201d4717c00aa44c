#include "bench.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calibration.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/threads.hpp"

namespace hanse {

namespace {

constexpr double kTraining_s = 2;      // of training clients, once each size has been seen
constexpr double kEvaluation_s = 0.5;  // of evaluating clients

constexpr double kQuantiles[kMostKnots] = {0.5, 1, 0, 0.75, 0.25};  // of the sizes

}  // namespace

double Knot::mean(const std::vector<double>& values) {
  const std::ptrdiff_t first = values.size() > 1 ? 1 : 0;
  return std::accumulate(values.begin() + first, values.end(), 0.0) /
         static_cast<double>(static_cast<std::ptrdiff_t>(values.size()) - first);
}

Bench::Bench(const Job& job, FederatedAssembly& parts, int64_t threads)
    : parts_(parts),
      team_(threads),
      models_(static_cast<std::size_t>(threads)),
      updates_(models_.size()),
      trials_(models_.size()),
      by_size_(static_cast<std::size_t>(trained_clients(parts))) {
  const auto reduction = job.comm.reduction == "fast" ? Reduction::kFast : Reduction::kExact;
  team_.run([&](int64_t thread) {
    const auto t = static_cast<std::size_t>(thread);
    if (thread > 0) {
      set_model_threads(job.run.threads);
      models_[t] =
          make_model(job.model, parts.federation.sample_shape(), parts.federation.classes());
      updates_[t] = make_update(job, parts.federation, *models_[t]);
    }
    trials_[t] = std::make_unique<Trial>(parts, thread > 0 ? *models_[t] : *parts.model,
                                         thread > 0 ? *updates_[t] : *parts.update, reduction);
  });
  std::iota(by_size_.begin(), by_size_.end(), 0);
  std::stable_sort(by_size_.begin(), by_size_.end(),
                   [&](int64_t a, int64_t b) { return work_of(parts, a) < work_of(parts, b); });
}

double Bench::mean_s(const std::function<double(Trial&, int64_t)>& measure) {
  std::vector<double> seconds(trials_.size());
  team_.run([&](int64_t thread) {
    const auto t = static_cast<std::size_t>(thread);
    seconds[t] = measure(*trials_[t], thread);
  });
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

// The client so many behind a position, from the end on before it.
int64_t Bench::near(int64_t position, int64_t offset) const {
  const auto clients = static_cast<int64_t>(by_size_.size());
  int64_t at = position + offset % clients;
  if (at >= clients) at = clients - 1 - offset % clients;
  return by_size_[static_cast<std::size_t>(std::clamp<int64_t>(at, 0, clients - 1))];
}

int64_t Bench::whole_client() const {
  const auto enough = std::find_if(by_size_.begin(), by_size_.end(), [&](int64_t client) {
    return parts_.client.batch > 0 && parts_.federation.train(client).size() >= parts_.client.batch;
  });
  return enough == by_size_.end() ? by_size_.back() : *enough;
}

std::vector<Knot> Bench::knots() const {
  std::vector<Knot> knots;
  std::vector<int64_t> seen;
  for (const double q : kQuantiles) {
    const auto last = static_cast<double>(by_size_.size() - 1);
    const auto position = static_cast<int64_t>(std::floor(q * last));
    const int64_t size = work_of(parts_, by_size_[static_cast<std::size_t>(position)]);
    if (std::find(seen.begin(), seen.end(), size) != seen.end()) continue;
    seen.push_back(size);
    knots.push_back({position, {}, {}});
  }
  return knots;
}

// Sizes in turn, other clients each time: a round meets clients whose samples are in no cache. A
// size that would take too long, by the median client, is left out.
std::vector<Knot> Bench::train() {
  std::vector<Knot> all = knots();
  const double start_s = monotonic_seconds();
  for (int64_t pass = 0;; ++pass) {
    for (Knot& knot : all) {
      if (pass > 0 && monotonic_seconds() - start_s > kTraining_s) return all;
      const auto size = static_cast<double>(work_of(parts_, near(knot.position, 0)));
      const Knot& middle = all.front();
      if (&knot != &middle && middle.seconds[0] * size / middle.sizes[0] > kTraining_s) {
        continue;
      }
      const auto client = [&](int64_t thread) {
        return near(knot.position, pass * team_.size() + thread);
      };
      knot.seconds.push_back(
          mean_s([&](Trial& trial, int64_t thread) { return trial.train(client(thread)); }));
      double sizes = 0;
      for (int64_t t = 0; t < team_.size(); ++t)
        sizes += static_cast<double>(work_of(parts_, client(t)));
      knot.sizes.push_back(sizes / static_cast<double>(team_.size()));
    }
  }
}

double Bench::evaluate() {
  double seconds = 0;
  double samples = 0;
  const double start_s = monotonic_seconds();
  for (int64_t pass = 0;; ++pass) {
    const auto client = [&](int64_t thread) {
      return near(static_cast<int64_t>(by_size_.size() / 2), pass * team_.size() + thread);
    };
    const double found =
        mean_s([&](Trial& trial, int64_t thread) { return trial.evaluate(client(thread)); });
    if (pass == 1) seconds = samples = 0;  // the first warms caches
    seconds += found * static_cast<double>(team_.size());
    for (int64_t t = 0; t < team_.size(); ++t) {
      samples += static_cast<double>(samples_evaluated(parts_, client(t)));
    }
    if (monotonic_seconds() - start_s > kEvaluation_s) break;
  }
  return seconds / samples;
}

double Bench::train_one() {
  const int64_t client = near(static_cast<int64_t>(by_size_.size() / 2), 0);
  return mean_s([&](Trial& trial, int64_t) { return trial.train(client); });
}

double Bench::own_share() {
  const int64_t client = near(static_cast<int64_t>(by_size_.size() / 2), 0);
  const double own_s = mean_s([&](Trial& trial, int64_t) { return trial.make_own_model(client); });
  return own_s / train_one();
}

}  // namespace hanse
