// trace-sampler.json and trace-aggregator.json: what the rules of a run were given, for replays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "assemble.hpp"
#include "hanse/job/keyed_job.hpp"

namespace hanse {

// Two traces that `hanse replay` accepts, whole after every round. Rank 0.
class Traces final : public RoundWriter {
 public:
  static constexpr const char* kNames[] = {"trace-sampler.json", "trace-aggregator.json"};

  // Begins both in run.out, or continues those of the folder `from` after `completed` rounds; later
  // rounds are cut. `parts` must outlive the object. Throws IoError.
  Traces(const KeyedJob& job, const FederatedAssembly& parts, const std::string& from,
         int64_t completed);
  ~Traces() override;

  void append_round() override;

 private:
  class File;
  const FederatedAssembly& parts_;
  std::unique_ptr<File> sampler_;
  std::unique_ptr<File> aggregator_;
};

}  // namespace hanse
