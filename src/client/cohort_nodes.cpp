#include "hanse/client/cohort_nodes.hpp"

#include <algorithm>
#include <numeric>

#include "hanse/base/index.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

namespace {

constexpr int64_t kEvaluationRows = 512;

// Samples from first of a batch.
Batch part_of(const Batch& batch, int64_t first, int64_t rows, int64_t values) {
  return {.features = batch.features + first * values,
          .labels = batch.labels == nullptr ? nullptr : batch.labels + first,
          .targets = batch.targets == nullptr ? nullptr : batch.targets + first,
          .rows = rows};
}

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
      cohort_.put(0, part_of(batch, first, rows, values_));
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
        places_(to_index(settings.clients * settings.batch)),
        counts_(to_index(settings.clients)),
        rates_(counts_.size()) {}

  void fit(int64_t node, const Batch& batch, RandomStream& noise, std::span<float> row) override {
    fit_all(node, {&batch, 1}, {&noise, 1}, row);
  }

  void fit_all(int64_t first, std::span<const Batch> batches, std::span<RandomStream> noise,
               std::span<float> rows) override {
    const auto nodes = std::ssize(batches);
    for (int64_t done = 0; done < nodes;) {
      const int64_t place = (first + done) % settings_.clients;
      const int64_t some = std::min(nodes - done, settings_.clients - place);
      const auto at = to_index(done), n = to_index(some);
      fit_cohort(place, batches.subspan(at, n), noise.subspan(at, n),
                 rows.subspan(at * width_, n * width_));
      done += some;
    }
  }

 private:
  // Of nodes that stand from `place` on; the others rest.
  void fit_cohort(int64_t place, std::span<const Batch> batches, std::span<RandomStream> noise,
                  std::span<float> rows) {
    const auto first = rows_.begin() + place * std::ssize(rows) / std::ssize(batches);
    std::fill(rows_.begin(), rows_.end(), 0.0F);
    std::copy(rows.begin(), rows.end(), first);
    std::fill(places_.begin(), places_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(rates_.begin(), rates_.end(), 0.0F);
    std::vector<RandomStream> streams(counts_.size(), RandomStream(0, Purpose::kDropout));
    for (std::size_t i = 0; i < batches.size(); ++i) put(to_index(place) + i, batches[i]);
    std::copy(noise.begin(), noise.end(), streams.begin() + place);
    cohort_.start({.rows = rows_});
    cohort_.put_steps({.places = places_, .counts = counts_, .rates = rates_});
    for (int64_t step = 0; step < settings_.steps; ++step) cohort_.step(0, streams);
    cohort_.take_rows(rows_);
    std::copy_n(first, rows.size(), rows.begin());
    std::copy_n(streams.begin() + place, noise.size(), noise.begin());
  }

  void put(std::size_t place, const Batch& batch) {
    const int64_t begin = static_cast<int64_t>(place) * settings_.batch;
    cohort_.put(begin, batch);
    counts_[place] = batch.rows;
    rates_[place] = static_cast<float>(settings_.lr);
    const auto to = places_.begin() + begin;
    std::fill(to, to + settings_.batch, begin);  // behind its samples stands its first
    std::iota(to, to + batch.rows, begin);
  }

  Cohort& cohort_;
  CohortNodesSettings settings_;
  std::size_t width_;            // P
  std::vector<float> rows_;      // [C, P]
  std::vector<int64_t> places_;  // [C, B] of the samples on the device
  std::vector<int64_t> counts_;  // [C]
  std::vector<float> rates_;     // [C]
};

CohortNodes::CohortNodes(Model& model, const Federation& federation, const ModelOptions& options,
                         const CohortNodesSettings& settings) {
  const int64_t samples = std::max(
      {settings.clients * settings.batch, settings.nodes * settings.batch, kEvaluationRows});
  cohort_ = torch_library().make_cohort(options, federation.sample_shape(), federation.classes(),
                                        {.device = settings.device,
                                         .clients = settings.clients,
                                         .batch = settings.batch,
                                         .samples = samples});
  model_ = std::make_unique<OnDevice>(model, *cohort_, settings.clients, federation.sample_values(),
                                      samples);
  fit_ = std::make_unique<SideBySideFit>(*cohort_, settings, model.n_params());
}

CohortNodes::~CohortNodes() = default;

Model& CohortNodes::model() { return *model_; }
StreamFit& CohortNodes::fit() { return *fit_; }

}  // namespace hanse
