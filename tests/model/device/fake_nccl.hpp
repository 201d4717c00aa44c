// A library in the place of NCCL and CUDA's runtime, for ranks that are threads, and tensors in the
// host's memory or on the pretended GPU. It carries its collectives out, and notes every call.
#pragma once

#include <string>
#include <vector>

namespace hanse::fake {

// What happens to the calls of this thread's rank from now on.
struct Faults {
  int device_error = 0;   // of cudaStreamQuery
  int call_error = 0;     // of every collective
  int async_error = 0;    // of ncclCommGetAsyncError
  int queries_to_go = 0;  // of the stream, until it has ended
};
Faults& faults();

// The calls of this thread's rank since the last clear_calls(): "Reduce n=5 int64 root=1 on
// cuda:1".
std::vector<std::string>& calls();

// Where the host has what a call is given, behind all that computes it; for tensors that lie in the
// host's memory just there.
extern void* (*place_of)(const void* given);

// The fake headers of LibTorch have these.
void choose_device(const std::string& device);
bool stream_has_ended();

}  // namespace hanse::fake
