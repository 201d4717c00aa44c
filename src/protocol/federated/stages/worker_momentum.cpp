#include "hanse/protocol/worker_momentum.hpp"

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class WorkerMomentum final : public UpdateStage {
 public:
  WorkerMomentum(double beta, int64_t n_trainable)
      : keep_(static_cast<float>(beta)), share_(1 - keep_), n_trainable_(n_trainable) {}

  std::vector<StateBlock> state_blocks() const override {
    return {{"worker_momentum", n_trainable_}};
  }
  void apply(const StagedUpdate& staged) override {
    float* update = staged.update.data();
    float* momentum = staged.state.data();
    for (std::size_t i = 0; i < staged.state.size(); ++i) {
      momentum[i] = keep_ * momentum[i] + share_ * update[i];
      update[i] = momentum[i];
    }
  }

 private:
  float keep_, share_;
  int64_t n_trainable_;
};

}  // namespace

std::unique_ptr<UpdateStage> make_worker_momentum(double beta, const ParameterLayout& layout) {
  if (beta == 0) return nullptr;
  return std::make_unique<WorkerMomentum>(beta, layout.n_trainable());
}

}  // namespace hanse
