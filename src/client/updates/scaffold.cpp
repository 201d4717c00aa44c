
#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {

namespace {

class Scaffold final : public PassUpdate {
 public:
  Scaffold(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(options, federation, model,
                   {{.pulls = true, .looks_back = true, .keeps_start = true}},
                   {{"control", model.layout().n_trainable()}}),
        federation_(federation) {}

  int64_t control_width() const override { return state_width(); }
  // Zhao et al. 2025, Appendix E
  double feedback_scale(int64_t, int64_t, int64_t) const override { return 1; }

  // c - c_i
  void before(std::size_t, const ClientTask& task, std::span<float> pull) override {
    for (std::size_t i = 0; i < pull.size(); ++i) pull[i] = task.control[i] - task.state[i];
  }

  // c_i+ - c_i = (x - y) / (K lr) - c,  with momentum K = tau_i, the sum of the gradients' weights
  bool after(std::size_t, const ClientTask& task, std::span<const float> start,
             std::span<const float>) override {
    const int64_t samples = federation_.train(task.client).size();
    const auto inverse_path = static_cast<float>(1 / steps().path(task.round, samples, task.steps));
    for (std::size_t i = 0; i < task.control.size(); ++i) {
      const float change = (start[i] - task.row[i]) * inverse_path - task.control[i];
      task.control_change[i] = change;
      task.state[i] += change;
    }
    return false;
  }

 private:
  const Federation& federation_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_scaffold(const ClientOptions& options,
                                           const Federation& federation, Model& model) {
  return std::make_unique<Scaffold>(options, federation, model);
}

}  // namespace hanse
