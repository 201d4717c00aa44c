// trace-sampler.json and trace-aggregator.json: what the rules of a run were given, for replays.
#pragma once

#include <cstdint>
#include <string>

#include "assemble.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

// A header, a line a round, and an end that every further line is written over.
struct TraceFile {
  GrowingFile file;
  bool empty;  // no line of a round
};

// Two traces that `hanse replay` accepts, whole after every round. Rank 0.
class Traces final : public RoundWriter {
 public:
  static constexpr const char* kNames[] = {"trace-sampler.json", "trace-aggregator.json"};

  // Begins both in run.out, or continues those of the folder `from` after `completed` rounds; later
  // rounds are cut. `parts` must outlive the object. Throws IoError.
  Traces(const KeyedJob& job, const FederatedAssembly& parts, const std::string& from,
         int64_t completed);

  void append_round() override;

 private:
  const FederatedAssembly& parts_;
  TraceFile sampler_;
  TraceFile aggregator_;
};

}  // namespace hanse
