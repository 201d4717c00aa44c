// Evaluations of one model, for tests.
#pragma once

#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// Evaluates each client on one of the ranks; rank 0 has them all, in order.
inline std::vector<ClientEvaluation> evaluate_all(Communicator& comm, const Federation& federation,
                                                  Evaluator& model) {
  const EvaluationRequest request{
      .clients = evaluation_share(comm, federation, evaluated_clients(federation, {}, 0))};
  const auto found =
      evaluate(federation, request, [&](std::size_t) -> Evaluator& { return model; });
  return gather_evaluations(comm, request.clients, found);
}

inline ClientEvaluation evaluate_one(const Federation& federation, Evaluator& model,
                                     int64_t client) {
  return evaluate(federation, {{client}}, [&](std::size_t) -> Evaluator& { return model; }).front();
}

}  // namespace hanse
