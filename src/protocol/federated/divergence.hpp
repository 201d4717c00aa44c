// Training that has left the range of numbers that can be added up, and its message.
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
  // This error with one more hint in front.
  TrainingError hinting(const std::string& more) const {
    return {what_, client(), round_, more + "; " + hint_};
  }

 private:
  std::string what_, hint_;
  int64_t round_;
};
Divergence diverged(const std::string& what, int64_t client, int64_t round);

// Throws Divergence that names the tensor where a buffer in `row`, as a client has trained it, is
// not finite or has moved by more than enters the sum with this coefficient. With `is_update` the
// row is the movement itself. Cost: O(buffers).
void check_buffers(const RoundContext& round, int64_t client, double coefficient,
                   const ParameterLayout& layout, std::span<const float> row, bool is_update,
                   double limit);

// Says of a Divergence that its cause is not the client's training, but the model received in this
// round or large features, where that is so. Any other failure stays as it is, also null.
std::exception_ptr explained(const std::exception_ptr& failure, const Federation& federation,
                             const Model& model, const RoundContext& round, ClientRunner& runner);

}  // namespace hanse
