// Models of earlier rounds that clients still train from.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "federated/round_context.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// How the entries of a plan start, and the tasks of later rounds.
struct TaskStarts {
  std::vector<TaskStart> entries;  // empty: all start alike
  std::vector<TaskStart> ahead;

  // The model that the first entry starts from.
  std::span<const float> of_first(std::span<const float> newest) const {
    return entries.empty() ? newest : entries.front().model;
  }
};

// Every rank has the same ones. Memory: a row for each that is kept at once, which the ranks of a
// host share.
class KeptVersions : public Stateful {
 public:
  // `size`: floats of a model. `host`: comm.split(kByHost), which must outlive it.
  KeptVersions(Communicator& host, std::size_t size) : host_(host), size_(size) {}

  // How the entries of the plan start. Takes in `model`, of this version, if the plan will start
  // from it later, and forgets those from which no plan will. Collective, with the same arguments
  // on every rank. Valid until the next call, while `model` stays. Cost: a copy on each host.
  TaskStarts starts(const RoundPlan& plan, int64_t version, std::span<const float> model);

  // Brings what rank 0 has loaded to all ranks. Collective.
  void share(Communicator& comm);

 private:
  struct Row {
    std::shared_ptr<std::byte> memory;
    std::span<float> values;
  };

  void visit(StateFields& fields) override;
  void update(int64_t version, std::span<const float> model, std::span<const int64_t> kept);
  void write(int64_t version, std::span<const float> model);
  Row free_row();

  Communicator& host_;
  std::size_t size_;
  std::map<int64_t, Row> rows_;
  std::vector<Row> free_;
  std::vector<int64_t> loaded_;       // rank 0: versions of a state, not shared yet
  std::vector<float> loaded_models_;  // their rows
};

}  // namespace hanse
