#include "hanse/run/evaluated_on.hpp"

#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

namespace {

EvaluatedOn evaluated_on(const Federation& federation, int64_t begin, int64_t end, EvaluateOn on) {
  EvaluatedOn found{.validation = on == EvaluateOn::kValidation};
  for (int64_t client = begin; client < end; ++client) {
    ++(evaluated_apart(federation, client, on) ? found.apart : found.training);
  }
  return found;
}

}  // namespace

std::string EvaluatedOn::split() const {
  if (apart > 0 && training > 0) return "mixed";
  return apart > 0 ? validation ? "validation" : "test" : training > 0 ? "train" : "";
}

std::string EvaluatedOn::prefix() const { return split_prefix(split()); }

std::string split_prefix(const std::string& split) {
  if (split == "test" || split == "validation") return split + " ";
  return split == "train" ? "training " : "";
}

EvaluatedOn clients_evaluated_on(const Federation& federation, EvaluateOn on) {
  return evaluated_on(federation, 0, federation.clients(), on);
}

EvaluatedOn held_out_evaluated_on(const Federation& federation, EvaluateOn on) {
  const int64_t validation = federation.clients();
  const int64_t tests = validation + federation.validation_clients();
  return on == EvaluateOn::kValidation
             ? evaluated_on(federation, validation, tests, on)
             : evaluated_on(federation, tests, federation.clients() + federation.held_out(), on);
}

}  // namespace hanse
