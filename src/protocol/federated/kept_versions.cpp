#include "federated/kept_versions.hpp"

#include <algorithm>
#include <utility>

#include "hanse/comm/bcast_list.hpp"
#include "hanse/comm/common_memory.hpp"

namespace hanse {

KeptVersions::Row KeptVersions::free_row() {
  if (!free_.empty()) {
    Row row = std::move(free_.back());
    free_.pop_back();
    return row;
  }
  Row row;
  row.memory = share_memory(host_, static_cast<int64_t>(sizeof(float) * size_));
  row.values = {reinterpret_cast<float*>(row.memory.get()), size_};
  return row;
}

void KeptVersions::write(int64_t version, std::span<const float> model) {
  Row row = free_row();
  if (host_.rank() == 0) std::copy(model.begin(), model.end(), row.values.begin());
  host_.barrier();
  rows_.emplace(version, std::move(row));
}

void KeptVersions::update(int64_t version, std::span<const float> model,
                          std::span<const int64_t> kept) {
  const auto is_kept = [&](int64_t one) { return std::ranges::binary_search(kept, one); };
  std::erase_if(rows_, [&](auto& row) {
    if (is_kept(row.first)) return false;
    free_.push_back(std::move(row.second));
    return true;
  });
  if (is_kept(version) && !rows_.contains(version)) write(version, model);
}

TaskStarts KeptVersions::starts(const RoundPlan& plan, int64_t version,
                                std::span<const float> model) {
  update(version, model, plan.kept_versions());
  const auto start = [&](const TaskOrigin& origin) {
    const bool is_newest = origin.received == version;
    return TaskStart{.round = origin.received + 1,
                     .model = is_newest ? model : rows_.at(origin.received).values,
                     .repeat = origin.repeat,
                     .steps = origin.steps};
  };
  TaskStarts starts;
  for (const TaskOrigin& origin : plan.origins()) starts.entries.push_back(start(origin));
  for (const UpcomingTask& task : plan.ahead()) starts.ahead.push_back(start(task.origin));
  return starts;
}

void KeptVersions::visit(StateFields& fields) {
  std::vector<int64_t> versions;
  std::vector<float> models;
  for (const auto& [version, row] : rows_) {
    versions.push_back(version);
    models.insert(models.end(), row.values.begin(), row.values.end());
  }
  fields.all("numbers", versions);
  fields.all("models", models);
  if (!fields.loads()) return;
  loaded_ = std::move(versions);
  loaded_models_ = std::move(models);
}

void KeptVersions::share(Communicator& comm) {
  for (auto& [version, row] : rows_) free_.push_back(std::move(row));
  rows_.clear();
  bcast_list(comm, loaded_);
  loaded_models_.resize(loaded_.size() * size_);
  comm.bcast(std::span(loaded_models_), 0);
  for (std::size_t i = 0; i < loaded_.size(); ++i) {
    write(loaded_[i], std::span(loaded_models_).subspan(i * size_, size_));
  }
  loaded_.clear();
  loaded_models_ = std::vector<float>();  // {} would keep its memory
}

}  // namespace hanse
