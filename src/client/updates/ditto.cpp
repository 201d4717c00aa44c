#include <algorithm>

#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

// A pass of the client's own model, which is pulled to the received one, then one of plain SGD.
class Ditto final : public PassUpdate {
 public:
  Ditto(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(
            options, federation, model,
            {{.mu = options.lambda, .to_received = true, .moves_start = true, .looks_back = true},
             {}},
            {{"model", model.n_params()}, {"known", 1}}) {}

  bool keeps_own_model() const override { return true; }

  // "known" is 1 once "model", v, is there.
  void own_model(const ClientTask& task) override {
    if (block(task.state, "known")[0] == 0) return;
    const auto model = block(task.state, "model");
    std::copy(model.begin(), model.end(), task.row.begin());
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
};

}  // namespace

std::unique_ptr<LocalUpdate> make_ditto(const ClientOptions& options, const Federation& federation,
                                        Model& model) {
  return std::make_unique<Ditto>(options, federation, model);
}

}  // namespace hanse
