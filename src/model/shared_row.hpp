// A whole row of which ranks train a part, in the memory of their host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/model/trained_part.hpp"

namespace hanse {

struct SharedRow {
  std::shared_ptr<float> start;      // [size] of all ranks
  std::shared_ptr<float> own;        // [size] the same, and this rank's changes
  std::shared_ptr<uint16_t> narrow;  // the narrow tensors, at their `own` places
};

// Bytes on a host of a row of `size` values of which the tensors of `narrow` are bfloat16.
int64_t shared_row_bytes(int64_t size, std::span<const PartTensor> narrow);

// `draw` writes the row on the first rank. Of narrow tensors start and own have nothing, which must
// not be read. Collective. Throws AgreedError: what draw throws, or no room.
SharedRow share_row(Communicator& host, int64_t size, std::span<const PartTensor> narrow,
                    const std::function<void(std::span<float>)>& draw);

// Writes a row, with narrow tensors widened, into `to`, which may end behind the last of these.
void read_shared_row(const float* start, const uint16_t* narrow_values,
                     std::span<const PartTensor> narrow, std::span<float> to);

// A digest of all that share_row() has made.
std::string shared_row_digest(const float* start, int64_t size, std::span<const PartTensor> narrow);

// Rounds tensors of a row to the nearest bfloat16 numbers.
void round_to_bfloat16(std::span<const PartTensor> tensors, std::span<float> row);

}  // namespace hanse
