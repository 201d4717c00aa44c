#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/model/distillation.hpp"

namespace hanse {

namespace {

class FedProto final : public PassUpdate {
 public:
  FedProto(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(options, federation, model, {{.looks_back = true}}),
        federation_(federation),
        model_(model),
        classes_(federation.label_form().classes),
        width_(model.representation_width()),
        counts_alike_(options.variant == UpdateVariant::kReference) {
    require_representation(model);
    if (classes_ > 0) return;
    throw InvalidArgument(fmt::format("fedproto sends means of classes, and the data has {}",
                                      federation.label_form().text()),
                          "client.update", "another client.update");
  }

  bool trains_side_by_side() const override { return false; }  // cohorts have no such loss
  int64_t control_width() const override { return classes_ * control_block(); }
  int64_t control_block() const override { return width_ + 1; }
  int64_t control_of_row() const override { return 0; }

  Received beside(const ClientTask& task) const override {
    return {.row = {}, .last = {}, .class_means = task.control};
  }

  bool after(std::size_t, const ClientTask& task, std::span<const float>,
             std::span<const float>) override {
    if (!task.control_change.empty()) send_means(task);
    return false;
  }

 private:
  // C_i^(j) (eq. 3), times its share of the client's samples, and behind it that share.
  void send_means(const ClientTask& task) {
    sums_.assign(task.control_change.size(), 0.0);
    double all = 0;
    represent(task, [&](const Batch& batch) {
      for (int64_t place = 0; place < batch.rows * values_of_label(); ++place) {
        if (batch.labels[place] < 0) continue;
        double* sum = sums_.data() + batch.labels[place] * control_block();
        const float* h = seen_.data() + place * width_;
        for (int64_t i = 0; i < width_; ++i) sum[i] += static_cast<double>(h[i]);
        sum[width_] += 1;
        all += 1;
      }
    });
    for (int64_t label = 0; label < classes_; ++label) {
      const double* sum = sums_.data() + label * control_block();
      const double n = sum[width_];
      const double by = counts_alike_ ? n : all;
      for (int64_t i = 0; n > 0 && i < control_block(); ++i) {
        task.control_change[to_index(label * control_block() + i)] =
            static_cast<float>(sum[i] / by);
      }
    }
  }

  int64_t values_of_label() const { return federation_.label_form().values; }

  // Calls f(batch) with the client's samples, whose representations by task.row are in seen_.
  template <class F>
  void represent(const ClientTask& task, F f) {
    const FlushSubnormals flush;
    for_each_batch(federation_, federation_.train(task.client), model_.evaluation_rows(), features_,
                   [&](const Batch& batch, int64_t) {
                     seen_.resize(to_index(batch.rows * values_of_label() * width_));
                     model_.represent(task.row, batch, seen_);
                     f(batch);
                   });
  }

  const Federation& federation_;
  Model& model_;
  int64_t classes_, width_;
  bool counts_alike_;
  std::vector<double> sums_;     // [classes, width + 1] of a client, then counts
  std::vector<float> features_;  // of a batch
  std::vector<float> seen_;      // [rows, positions, width] representations of a batch
};

}  // namespace

std::unique_ptr<LocalUpdate> make_fedproto(const ClientOptions& options,
                                           const Federation& federation, Model& model) {
  return std::make_unique<FedProto>(options, federation, model);
}

}  // namespace hanse
