// Evaluations of one model, for tests.
#pragma once

#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// Evaluates each client on one of the ranks; rank 0 has them all, in order.
inline EvaluationTable evaluate_all(Communicator& comm, const Federation& federation,
                                    Evaluator& model) {
  const EvaluationRequest request{
      .clients = evaluation_share(comm, federation, evaluated_clients(federation, {}, 0))};
  auto found = evaluate(federation, request, [&](std::size_t) -> Evaluator& { return model; });
  found.gather(comm, request.clients);
  return found;
}

inline ClientEvaluation evaluate_one(const Federation& federation, Evaluator& model,
                                     int64_t client) {
  return evaluate(federation, {{client}}, [&](std::size_t) -> Evaluator& { return model; })[0];
}

}  // namespace hanse
