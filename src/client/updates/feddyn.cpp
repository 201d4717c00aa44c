#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

class FedDyn final : public PassUpdate {
 public:
  FedDyn(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(options, federation, model,
                   {{.mu = options.second_order.alpha,
                     .pulls = true,
                     .looks_back = true,
                     .keeps_start = true}},
                   {{"regulariser", model.layout().n_trainable()}}),
        alpha_(static_cast<float>(options.second_order.alpha)) {}

  int64_t control_width() const override { return 1; }
  bool control_returns() const override { return false; }

  void before(std::size_t, const ClientTask& task, std::span<float> pull) override {
    for (std::size_t i = 0; i < pull.size(); ++i) pull[i] = -task.state[i];
  }

  bool after(std::size_t, const ClientTask& task, std::span<const float> start,
             std::span<const float>) override {
    for (std::size_t i = 0; i < task.state.size(); ++i) {
      task.state[i] -= alpha_ * (task.row[i] - start[i]);
    }
    if (!task.control_change.empty()) task.control_change.front() = 1;
    return false;
  }

 private:
  float alpha_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_feddyn(const ClientOptions& options, const Federation& federation,
                                         Model& model) {
  return std::make_unique<FedDyn>(options, federation, model);
}

}  // namespace hanse
