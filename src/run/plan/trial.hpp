// One client at a time on scratch rows: what a rank does in a round, timed.
#pragma once

#include <vector>

#include "hanse/base/aligned.hpp"
#include "../federated_assembly.hpp"

namespace hanse {

class Trial {
 public:
  // Trains from the trainer's model. `parts`, `model` and `update` must outlive it.
  Trial(const FederatedAssembly& parts, Model& model, LocalUpdate& update, Reduction reduction);

  // Each returns its seconds.
  double train(int64_t client);  // and fold the update
  double make_own_model(int64_t client);
  double evaluate(int64_t client);
  double copy();  // a row
  double add();   // a sum to another
  // Steps the server by the sum of the updates folded so far. REQUIRES: rank 0.
  double step_server(ServerOptimizer& optimizer, double rate);

  // Of its rows.
  double bytes() const;

 private:
  ClientTask task_of(int64_t client);

  const FederatedAssembly& parts_;
  Model& model_;
  LocalUpdate& update_;
  std::span<const float> theta_;  // [P]
  AlignedFloats row_;             // [P]
  std::vector<float> state_;      // [state width]
  std::vector<float> control_;    // [control width] when it returns
  std::vector<float> change_;     // [control width]
  UpdateSum sum_;
  UpdateSum control_sum_;
  std::vector<int64_t> others_;  // [P] for add()
  std::vector<int64_t> total_;   // [P]
  RowEvaluator evaluator_;
};

}  // namespace hanse
