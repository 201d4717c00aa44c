// Training that has left the numbers that can be added up: what is said of it.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "hanse/base/error.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

class ClientRunner;
struct RoundContext;

// A client in training whose loss or update is no finite number, or more than the sum takes.
class Divergence final : public TrainingError {
 public:
  Divergence(const std::string& what, int64_t client, int64_t round, const std::string& hint)
      : TrainingError(what, client, round, hint), what_(what), hint_(hint), round_(round) {}
  // The same with one more hint in front.
  TrainingError hinting(const std::string& more) const {
    return {what_, client(), round_, more + "; " + hint_};
  }

 private:
  std::string what_, hint_;
  int64_t round_;
};
Divergence diverged(const std::string& what, int64_t client, int64_t round);

// Throws Divergence that names the tensor where a buffer, as a client has trained it in `row`, has
// moved by more than enters the sum with this coefficient, or is not finite. With `is_update` the
// row is what it has moved by. Cost: O(buffers).
void check_buffers(const RoundContext& round, int64_t client, double coefficient,
                   const ParameterLayout& layout, std::span<const float> row, bool is_update,
                   double limit);

// A failure that is a Divergence, and whose cause is not the client's training, but the model that
// it has received in this round, or large features. Any other stays as it is, also null.
std::exception_ptr explained(const std::exception_ptr& failure, const Federation& federation,
                             const Model& model, const RoundContext& round, ClientRunner& runner);

}  // namespace hanse
