// One client at a time, trained and evaluated in rows of its own, timed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/client/evaluator.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

class ClientProbe {
 public:
  // Clients start from `theta`. All must outlive the object.
  ClientProbe(const Federation& federation, Model& model, LocalUpdate& update,
              std::span<const float> theta);

  // Each returns its seconds.
  double train(int64_t client);
  double make_own_model(int64_t client);
  double evaluate(int64_t client);
  double copy();  // of a row
  double add();   // of a row of int64 to another

 private:
  ClientTask task_of(int64_t client);

  const Federation& federation_;
  LocalUpdate& update_;
  std::span<const float> theta_;  // [P]
  AlignedFloats row_;             // [P]
  std::vector<float> state_;      // [state width]
  std::vector<float> control_;    // [control width] when it returns
  std::vector<float> change_;     // [control width]
  RowEvaluator evaluator_;
};

}  // namespace hanse
