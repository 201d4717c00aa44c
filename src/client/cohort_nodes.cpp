#include "hanse/client/cohort_nodes.hpp"

#include <algorithm>
#include <numeric>

#include "hanse/base/index.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

namespace {

constexpr int64_t kEvaluationRows = 512;

}  // namespace

class CohortNodes::OnDevice final : public Model {
 public:
  OnDevice(Model& host, Cohort& cohort, int64_t clients, int64_t values, int64_t samples)
      : host_(host),
        cohort_(cohort),
        clients_(to_index(clients)),
        values_(values),
        places_(to_index(samples)) {
    layout_ = host.layout();
    gradient_flops_ = host.gradient_flops();
    std::iota(places_.begin(), places_.end(), int64_t{0});
  }

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override {
    return host_.loss_and_gradient(row, batch, noise, gradient);
  }
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override {
    return host_.sgd_step(row, batch, noise, lr, weight_decay);
  }
  void draw(std::span<float> row, RandomStream& stream) const override {
    host_.initialize(row, stream);
  }
  void forget_start() override { host_.forget_start(); }
  int64_t evaluation_rows() const override { return kEvaluationRows; }
  int64_t vocabulary() const override { return host_.vocabulary(); }

  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results) override {
    cohort_.put_theta(row);
    EvaluationSums sums;
    for (int64_t first = 0; first < batch.rows; first += std::ssize(places_)) {
      const int64_t rows = std::min(batch.rows - first, std::ssize(places_));
      cohort_.put(0, part_of(batch, {first, first + rows}, values_));
      sums += cohort_.evaluate(std::span(places_).first(to_index(rows)), results.from(first));
    }
    return sums;
  }

  // REQUIRES: batches that have room together, those of a rank's nodes.
  void cross_losses(std::span<const float> rows, std::span<const Batch> batches,
                    std::span<double> losses) override {
    if (batches.empty()) return;  // a rank without nodes
    std::vector<SampleRange> there;
    for (const Batch& batch : batches) {
      const int64_t begin = there.empty() ? 0 : there.back().end;
      cohort_.put(begin, batch);
      there.push_back({begin, begin + batch.rows});
    }
    const std::size_t width = to_index(n_params()), n = rows.size() / width;
    for (std::size_t first = 0; first < n; first += clients_) {
      const std::size_t some = std::min(n - first, clients_);
      cohort_.put_rows(rows.subspan(first * width, some * width));
      const auto found = cohort_.row_losses(there);
      for (std::size_t b = 0; b < there.size(); ++b) {
        std::copy_n(found.data() + b * clients_, some, &losses[b * n + first]);
      }
    }
  }

 private:
  Model& host_;
  Cohort& cohort_;
  std::size_t clients_;  // C
  int64_t values_;
  std::vector<int64_t> places_;  // [samples]
};

class CohortNodes::SideBySideFit final : public StreamFit {
 public:
  SideBySideFit(Cohort& cohort, const CohortNodesSettings& settings, int64_t n_params)
      : cohort_(cohort),
        settings_(settings),
        width_(to_index(n_params)),
        rows_(to_index(settings.clients) * width_),
        places_(to_index(settings.steps * settings.clients * settings.batch)),
        counts_(to_index(settings.steps * settings.clients)),
        rates_(counts_.size()) {}

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
  // Of nodes that stand from `place` on; the others rest.
  void fit_cohort(std::size_t place, std::span<const Batch> batches,
                  std::span<const Cohort::NoiseKey> keys, std::span<float> rows) {
    std::fill(rows_.begin(), rows_.end(), 0.0F);
    std::fill(places_.begin(), places_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(rates_.begin(), rates_.end(), 0.0F);
    std::vector<Cohort::NoiseKey> streams(to_index(settings_.clients));
    const auto mine = std::span(rows_).subspan(place * width_, rows.size());
    std::copy(rows.begin(), rows.end(), mine.begin());
    std::copy(keys.begin(), keys.end(), streams.begin() + static_cast<std::ptrdiff_t>(place));
    for (std::size_t i = 0; i < batches.size(); ++i) put(place + i, batches[i]);
    cohort_.start({.rows = rows_, .noise = streams});
    cohort_.put_steps({.places = places_, .counts = counts_, .rates = rates_});
    for (int64_t step = 0; step < settings_.steps; ++step) cohort_.step(step);
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
      rates_[at] = static_cast<float>(settings_.lr);
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
  std::vector<float> rates_;     // [steps, C]
};

CohortNodes::CohortNodes(Model& model, const Federation& federation, const ModelOptions& options,
                         const CohortNodesSettings& settings) {
  const int64_t samples = std::max(
      {settings.clients * settings.batch, settings.nodes * settings.batch, kEvaluationRows});
  cohort_ = torch_library().make_cohort(options, federation.sample_shape(), federation.classes(),
                                        {.device = settings.device,
                                         .clients = settings.clients,
                                         .batch = settings.batch,
                                         .samples = samples,
                                         .graphs = settings.graphs});
  model_ = std::make_unique<OnDevice>(model, *cohort_, settings.clients, federation.sample_values(),
                                      samples);
  fit_ = std::make_unique<SideBySideFit>(*cohort_, settings, model.n_params());
}

CohortNodes::~CohortNodes() = default;

Model& CohortNodes::model() { return *model_; }
StreamFit& CohortNodes::fit() { return *fit_; }

}  // namespace hanse
