// A run's model, as its files have it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hanse/data/feature_record.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

struct TrainedModel {
  std::unique_ptr<Model> model;
  std::vector<float> row;  // [P]
};

// The file that `choice` names: auto, best, model, averaged, or a path. Throws InvalidArgument:
// there is none.
std::string chosen_file(const std::string& run, const std::string& choice);

// Builds the job's model for samples of the record, and reads its tensors from the file; adapters
// are added to their matrices; where clusters have copies, it is a ClusteredModel. Throws
// InvalidArgument: the file lacks one of them, or has it in another shape.
TrainedModel read_trained(const Job& job, const FeatureRecord& record, const std::string& file);

// Puts the copy of this cluster where models of one copy are. Throws InvalidArgument: there is
// none.
void take_copy(int64_t cluster, TrainedModel& trained);

// Does a client of this job keep tensors of its own, which the model's file does not have?
bool keeps_own_tensors(const Job& job);

// Puts the tensors of this client's own, of the run's last checkpoint, into the row. Throws
// InvalidArgument: an unknown client, or one that never took part; no checkpoint of the last round.
void take_own_tensors(const Job& job, const std::string& run, const std::string& client,
                      TrainedModel& trained);

// Throws InvalidArgument: the run has no client of that name, or number where they have none.
int64_t number_of_client(const std::string& run, const std::string& client);

}  // namespace hanse
