// How the ranks of a run exchange rows: [comm] of a job.
#pragma once

#include <array>

namespace hanse {

// exact: every addend is rounded once to 64-bit fixed point (2^-44) and added as an integer, so the
// sum does not depend on who adds what in which order. 8 bytes a parameter on the wire; between
// hosts packed into as few as hold the values of a piece of the message, mostly 5 or 6.
// fast: float32 sums, 4 bytes a parameter; the bits depend on grouping and order, and need a
// planned schedule.
enum class Reduction { kExact, kFast };
constexpr auto choices_of(Reduction) { return std::array{"exact", "fast"}; }

// Who trains whom is planned before the round, or left open until a rank is free; auto leaves it
// open where that changes no bit.
enum class AskedDispatch { kAuto, kPlanned, kShared };
constexpr auto choices_of(AskedDispatch) { return std::array{"auto", "planned", "shared"}; }

// Sums and rows of ranks with GPUs travel by NCCL, or through the hosts' memory.
enum class DeviceLinks { kAuto, kNccl, kStaged };
constexpr auto choices_of(DeviceLinks) { return std::array{"auto", "nccl", "staged"}; }

// Does each rank's part of the updates' sum travel under masks that cancel in the sum? auto: in
// private rounds.
enum class AskedMasks { kAuto, kTrue, kFalse };
constexpr auto choices_of(AskedMasks) { return std::array{"auto", "true", "false"}; }

struct CommOptions {
  Reduction reduction = Reduction::kExact;  // of the updates
  AskedDispatch dispatch = AskedDispatch::kAuto;
  DeviceLinks devices = DeviceLinks::kAuto;
  AskedMasks masks = AskedMasks::kAuto;
  double timeout_seconds = 1800;  // to wait for a rank that does not come; 0: forever
};

}  // namespace hanse
