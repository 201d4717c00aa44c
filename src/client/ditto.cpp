#include <algorithm>
#include <cmath>
#include <vector>

#include "hanse/client/local_update.hpp"

namespace hanse {

namespace {

// The global part is plain SGD; the personal one is pulled to the received model.
ClientOptions part_options(ClientOptions options, const char* kind) {
  options.kind = kind;
  options.mu = options.lambda;
  return options;
}

class Ditto final : public LocalUpdate {
 public:
  Ditto(const ClientOptions& options, const Federation& federation, Model& model)
      : global_(make_sgd(part_options(options, "sgd"), federation, model)),
        personal_(make_sgd(part_options(options, "prox"), federation, model)),
        received_(static_cast<std::size_t>(model.n_params())) {}

  int64_t state_width() const override { return static_cast<int64_t>(received_.size()) + 1; }

  ClientOutcome train(const ClientTask& task) override {
    std::copy(task.row.begin(), task.row.end(), received_.begin());
    ClientTask own = task;
    own.row = task.state.first(received_.size());
    own.anchor = received_;
    if (!has_model(task.state)) std::copy(received_.begin(), received_.end(), own.row.begin());
    task.state.back() = 1;
    const double own_loss = personal_->train(own).loss;
    ClientOutcome outcome = global_->train(task);
    if (!std::isfinite(own_loss)) outcome.loss = own_loss;  // ends the run, as the row's would
    return outcome;
  }

  bool keeps_own_model() const override { return true; }

  void own_model(const ClientTask& task) override {
    if (has_model(task.state)) std::copy_n(task.state.begin(), task.row.size(), task.row.begin());
  }

 private:
  // The state: v [P], and 1 behind it once v is there.
  static bool has_model(std::span<const float> state) { return state.back() != 0; }

  std::unique_ptr<LocalUpdate> global_;
  std::unique_ptr<LocalUpdate> personal_;
  std::vector<float> received_;  // [P] w
};

}  // namespace

std::unique_ptr<LocalUpdate> make_ditto(const ClientOptions& options, const Federation& federation,
                                        Model& model) {
  return std::make_unique<Ditto>(options, federation, model);
}

}  // namespace hanse
