// The declarations of a simulated run: [simulate] of a job.
#pragma once

#include <cstdint>

namespace hanse {

struct SimulateOptions {
  double sample_us = 0;  // of training, for each sample; 0: clients are trained
  int64_t hosts = 1;     // that ranks lie on
  double cores = 0;      // of a host; 0: one for each thread of its ranks
  double link_gbit = 10;
  double latency_us = 20;
  double memory_gbit = 20;  // between the ranks of a host
  double memory_latency_us = 1;

  bool is_on() const { return sample_us > 0; }
};

}  // namespace hanse
