#include "hanse/run/evaluated_on.hpp"

#include "hanse/data/federation.hpp"

namespace hanse {

std::string EvaluatedOn::split() const {
  if (test > 0 && training > 0) return "mixed";
  return test > 0 ? "test" : training > 0 ? "train" : "";
}

std::string EvaluatedOn::prefix() const { return split_prefix(split()); }

std::string split_prefix(const std::string& split) {
  return split == "test" ? "test " : split == "train" ? "training " : "";
}

EvaluatedOn evaluated_on(const Federation& federation, int64_t begin, int64_t end) {
  EvaluatedOn found;
  for (int64_t client = begin; client < end; ++client) {
    ++(federation.has_test(client) ? found.test : found.training);
  }
  return found;
}

}  // namespace hanse
