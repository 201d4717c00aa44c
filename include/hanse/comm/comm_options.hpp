// How the ranks of a run exchange what they have: [comm] of a job.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

struct CommOptions {
  // exact | fast: the sum of the updates in 64-bit fixed point, the same bits whoever adds what, or
  // in float32, half the bytes, with bits that depend on the ranks and a planned schedule.
  std::string reduction = "exact";
  // auto | planned | shared: who trains whom is planned before the round, or left open until a rank
  // is free; auto leaves it open where that changes no bit.
  std::string dispatch = "auto";
  // auto | nccl | staged: sums and rows of ranks with GPUs by NCCL, or through the hosts' memory.
  std::string devices = "auto";
  // none | top-k | random-k | sign | quantize: updates as a link would bring them
  // (compression.hpp).
  std::string compress = "none";
  double keep = 0.01;             // top-k, random-k: entries, a share below 1 or a number
  int64_t bits = 4;               // quantize: of an entry, 2 to 16
  bool error_feedback = true;     // what a client has not sent is part of its next update
  double timeout_seconds = 1800;  // to wait for a rank that does not come; 0: forever
};

}  // namespace hanse
