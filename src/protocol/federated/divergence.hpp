// Training that has left the range of numbers that can be added up, and its message.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

class Attackers;
class ClientRunner;
struct RoundContext;

// A client's loss or update is no finite number, or more than the sum takes.
Divergence diverged(const std::string& what, int64_t client, int64_t round);

// Throws Divergence where the rule's factor of a step is no finite float32.
void require_finite_factor(double factor, int64_t round);

// Throws Divergence that names the tensor where a buffer in `row`, as a client has trained it, is
// not finite or has moved by more than enters the sum with this coefficient. With `is_update` the
// row is the movement itself. Cost: O(buffers).
void check_buffers(const RoundContext& round, int64_t client, double coefficient,
                   const ParameterLayout& layout, std::span<const float> row, bool is_update,
                   double limit);

// Says of a client's Divergence that its cause is not the client's training, but the model received
// in this round, for which nobody is to blame, or large features, where that is so. Any other
// failure stays as it is, also null.
std::exception_ptr explained(const std::exception_ptr& failure, const Federation& federation,
                             const Model& model, const RoundContext& round, ClientRunner& runner);

// Says of an honest client's Divergence among attackers that these may be behind it, and names
// nobody: from the second round on, where the model that it received has heard of them. Any other
// failure stays as it is, also null.
std::exception_ptr cleared(const std::exception_ptr& failure, const Attackers& attackers,
                           int64_t round);

}  // namespace hanse
