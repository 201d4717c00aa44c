// The objects of a job, put together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/protocol.hpp"

namespace hanse {

struct Job;
struct KeyedJob;
class ClusteredModel;
class FrozenCache;
class FrozenPart;
class PartModel;
struct PlanCase;
class PlanSheet;
struct RankGpu;

// A whole file of the run directory, written at the run's end.
struct ResultFile {
  std::string name;  // "statistics.json"
  std::string text;
};

// One rank's objects of a job: these, and those of its protocol. It owns them all, and nothing of
// them outlives it.
class Assembly {
 public:
  explicit Assembly(Communicator& comm);
  virtual ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  virtual Protocol& protocol() = 0;
  // Returns what writes, after every round, files that only this protocol has; null: there are
  // none. They begin in run.out, or continue those of the folder `from` after `completed` rounds.
  // Rank 0. Both throw IoError.
  virtual std::function<void()> round_writer(const KeyedJob& /*job*/, const std::string& /*from*/,
                                             int64_t /*completed*/) {
    return nullptr;
  }
  // On rank 0 at the end of a run without a model: its files, and its table for the terminal.
  virtual std::vector<ResultFile> result_files() const { return {}; }
  virtual std::string table() const { return ""; }
  // Fills in the job's needs for `hanse plan`, which trains with these objects and drops them.
  // Collective; the sheet counts on rank 0.
  virtual void plan(const PlanCase& plan, PlanSheet& sheet) = 0;

  std::unique_ptr<Communicator> host;
  Federation federation;                    // empty if there are no samples
  std::unique_ptr<Model> host_network;      // what a network on a GPU is made of; else null
  std::unique_ptr<Model> model;             // null if nothing is trained
  PartModel* part = nullptr;                // `model`, if a part of its tensors is trained
  std::shared_ptr<FrozenPart> frozen_part;  // where a GPU computes what is frozen; else null
  std::unique_ptr<FrozenCache> frozen;      // what passes take of `part`; null: they compute it
  ClusteredModel* clustered = nullptr;      // `model`, if clusters have copies of some tensors
  Model& client_model();                    // `model`, or that of one copy
  Model& network();                         // `model`, or what it is made of
  // Another of the same layout takes its place; returns the former one.
  std::unique_ptr<Model> replace_network(std::unique_ptr<Model> other);
  std::map<std::string, std::string> files;  // a digest by its key: "model.path"
  bool writes_participation = false;         // participation.csv
  std::string trained_on = "cpu";            // or a GPU with its libraries
  bool trains_on_gpu() const { return trained_on != "cpu"; }
  std::vector<std::string> greeting;  // lines for the user at the start
};

// Collective. Reads the data, builds model, rules and protocol of run.protocol; the ranks agree on
// errors. `given`: what this rank trains on, in the place of what the job chooses; null: that.
// Throws AgreedError.
std::unique_ptr<Assembly> assemble(const Job& job, Communicator& comm,
                                   const RankGpu* given = nullptr);

}  // namespace hanse
