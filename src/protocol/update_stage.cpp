#include "hanse/protocol/update_stage.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

UpdateStages::UpdateStages(std::vector<std::unique_ptr<UpdateStage>> stages)
    : stages_(std::move(stages)) {
  std::erase(stages_, nullptr);
}

std::vector<StateBlock> UpdateStages::state_blocks() const {
  std::vector<StateBlock> all;
  for (const auto& stage : stages_) {
    const auto blocks = stage->state_blocks();
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  return all;
}

int64_t UpdateStages::second_row_width() const {
  int64_t width = 0;
  for (const auto& stage : stages_) width += stage->second_row_width();
  return width;
}

int64_t UpdateStages::update_bytes(int64_t n_params) const {
  int64_t least = UpdateStage::update_bytes(n_params);
  for (const auto& stage : stages_) least = std::min(least, stage->update_bytes(n_params));
  return least;
}

void UpdateStages::apply(const StagedUpdate& staged) {
  StagedUpdate part = staged;
  std::size_t state = 0, row = 0;
  for (const auto& stage : stages_) {
    part.state = staged.state.subspan(state, to_index(width_of(stage->state_blocks())));
    part.second_row = staged.second_row.subspan(row, to_index(stage->second_row_width()));
    stage->apply(part);
    state += part.state.size();
    row += part.second_row.size();
  }
}

void UpdateStages::observe(std::span<const float> second_row) {
  for (const auto& stage : stages_) {
    const std::size_t width = to_index(stage->second_row_width());
    stage->observe(second_row.first(width));
    second_row = second_row.subspan(width);
  }
}

}  // namespace hanse
