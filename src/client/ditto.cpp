#include <algorithm>
#include <cmath>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/side_by_side.hpp"

namespace hanse {

namespace {

// The global part is plain SGD; the personal one is pulled to the received model.
ClientOptions part_options(ClientOptions options, const char* kind) {
  options.kind = kind;
  options.mu = options.lambda;
  return options;
}

class Ditto final : public LocalUpdate, private SideBySide {
 public:
  Ditto(const ClientOptions& options, const Federation& federation, Model& model)
      : LocalUpdate({{"model", model.n_params()}, {"known", 1}}),
        global_(make_sgd(part_options(options, "sgd"), federation, model)),
        personal_(make_sgd(part_options(options, "prox"), federation, model)),
        lambda_(options.lambda),
        received_(static_cast<std::size_t>(model.n_params())) {
    if (global_->state_width() == 0) return;
    throw InvalidArgument("ditto's two models would need moments of their own",
                          "client.optimizer-state", "use fresh, or client.update = sgd or prox");
  }

  ClientOutcome train(const ClientTask& task) override {
    std::copy(task.row.begin(), task.row.end(), received_.begin());
    ClientTask own = task;
    own.row = block(task.state, "model");
    own.anchor = received_;
    if (!has_model(task.state)) std::copy(received_.begin(), received_.end(), own.row.begin());
    block(task.state, "known").front() = 1;
    const double own_loss = personal_->train(own).loss;
    ClientOutcome outcome = global_->train(task);
    if (!std::isfinite(own_loss)) outcome.loss = own_loss;  // ends the run, as the row's would
    return outcome;
  }

  bool keeps_own_model() const override { return true; }

  void own_model(const ClientTask& task) override {
    if (!has_model(task.state)) return;
    const auto model = block(task.state, "model");
    std::copy(model.begin(), model.end(), task.row.begin());
  }

  SideBySide* side_by_side() override { return global_->side_by_side() ? this : nullptr; }

 private:
  std::vector<CohortPass> passes() const override {
    return {{.mu = lambda_, .to_received = true, .moves_start = true, .looks_back = true}, {}};
  }

  void before(std::size_t pass, const ClientTask& task, std::span<float>) override {
    if (pass == 0) own_model(task);
  }

  bool after(std::size_t, const ClientTask& task, std::span<const float>,
             std::span<const float>) override {
    const auto model = block(task.state, "model");
    std::copy(task.row.begin(), task.row.end(), model.begin());
    block(task.state, "known").front() = 1;
    return false;
  }

  // "known" is 1 once "model", v, is there.
  bool has_model(std::span<const float> state) const { return block(state, "known")[0] != 0; }

  std::unique_ptr<LocalUpdate> global_;
  std::unique_ptr<LocalUpdate> personal_;
  double lambda_;
  std::vector<float> received_;  // [P] w
};

}  // namespace

std::unique_ptr<LocalUpdate> make_ditto(const ClientOptions& options, const Federation& federation,
                                        Model& model) {
  return std::make_unique<Ditto>(options, federation, model);
}

}  // namespace hanse
