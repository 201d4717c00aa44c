// trace-sampler.json and trace-aggregator.json: what the rules of a run were told, for replays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/protocol/federated.hpp"
#include "hanse/run/job.hpp"

namespace hanse {

// Two traces that `hanse replay` accepts, whole after every round. Rank 0.
class Traces {
 public:
  static constexpr const char* kNames[] = {"trace-sampler.json", "trace-aggregator.json"};

  // Begins both in `folder`, or goes on with those of `from` after `completed` rounds; later rounds
  // are cut. `participation`: the share of clients in a round. Throws IoError.
  Traces(const Job& job, const ClientSampler& sampler, const Federation& federation,
         double participation, const std::string& folder, const std::string& from,
         int64_t completed);
  ~Traces();

  void append(const RoundTrace& round);

 private:
  class File;
  std::unique_ptr<File> sampler_;
  std::unique_ptr<File> aggregator_;
};

}  // namespace hanse
