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
  OnDevice(Model& host, Cohort& cohort, int64_t clients, const Federation& federation,
           int64_t samples)
      : host_(host),
        cohort_(cohort),
        clients_(to_index(clients)),
        sizes_{federation.sample_values(), federation.label_form().values},
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
    for (int64_t first = 0; first < batch.rows; first += std::ssize(places_)) {
      const int64_t rows = std::min(batch.rows - first, std::ssize(places_));
      cohort_.put(0, part_of(batch, {first, first + rows}, sizes_.features, sizes_.labels));
      cohort_.evaluate(std::span(places_).first(to_index(rows)), results.from(first));
    }
    EvaluationSums sums;
    for (const EvaluationSums& part : cohort_.take_evaluations()) sums += part;
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
  SampleSizes sizes_;
  std::vector<int64_t> places_;  // [samples]
};

CohortNodes::CohortNodes(Model& model, const Federation& federation, const ModelOptions& options,
                         const CohortNodesSettings& settings) {
  const int64_t samples = std::max(
      {settings.clients * settings.batch, settings.nodes * settings.batch, kEvaluationRows});
  cohort_ = torch_library().make_cohort(options, federation.sample_shape(), federation.label_form(),
                                        {.device = settings.device,
                                         .clients = settings.clients,
                                         .batch = settings.batch,
                                         .samples = samples,
                                         .starts = settings.starts,
                                         .part = settings.part});
  model_ = std::make_unique<OnDevice>(model, *cohort_, settings.clients, federation, samples);
  fit_ = make_cohort_fit(*cohort_, settings, model.n_params());
}

CohortNodes::~CohortNodes() = default;

Model& CohortNodes::model() { return *model_; }
StreamFit& CohortNodes::fit() { return *fit_; }

}  // namespace hanse
