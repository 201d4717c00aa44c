#include "stored_gradient.hpp"

#include <cmath>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/rules/privacy/private_steps.hpp"

namespace hanse {

namespace {

class MeanGradient final : public StoredGradient {
 public:
  explicit MeanGradient(Model& model) : model_(model) {}

  double find(std::span<const float> row, const Batch& batch, RandomStream& noise,
              std::span<float> gradient) override {
    return model_.loss_and_gradient(row, batch, noise, gradient);
  }

 private:
  Model& model_;
};

class NoisedGradient final : public StoredGradient {
 public:
  NoisedGradient(const ClientOptions& options, const Federation& federation, Model& model)
      : work_(options),
        steps_(options.private_steps),
        federation_(federation),
        model_(model),
        sizes_{federation.sample_values(), federation.label_form().values},
        sum_(to_index(model.layout().n_trainable())),
        integers_(sum_.size()) {}

  void start(const ClientTask& task) override {
    key_ = steps_->key_of(task.client, task.key());
    step_ = 0;
    const int64_t samples = federation_.train(task.client).size();
    expected_ = static_cast<double>(expected_batch(work_, samples));
  }

  double find(std::span<const float> row, const Batch& batch, RandomStream& noise,
              std::span<float> gradient) override {
    const StepNoise& of_step = steps_->noise;
    const double loss = model_.clipped_gradient(row, batch, sizes_, noise, of_step.clip, sum_);
    take_noised_mean(of_step, noise_key(key_, step_++), sum_, expected_, integers_, gradient);
    return std::isfinite(loss) ? loss : 0;  // whether a run goes on must not hang on a sample
  }

 private:
  LocalWork work_;
  std::shared_ptr<const PrivateSteps> steps_;
  const Federation& federation_;
  Model& model_;
  SampleSizes sizes_;
  CipherKey key_;  // of the client's steps
  int64_t step_ = 0;
  double expected_ = 1;            // samples of a batch
  std::vector<double> sum_;        // [trainable] of the clipped gradients
  std::vector<int64_t> integers_;  // likewise
};

}  // namespace

std::unique_ptr<StoredGradient> make_stored_gradient(const ClientOptions& options,
                                                     const Federation& federation, Model& model) {
  if (!options.private_steps) return std::make_unique<MeanGradient>(model);
  return std::make_unique<NoisedGradient>(options, federation, model);
}

}  // namespace hanse
