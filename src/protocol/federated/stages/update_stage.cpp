#include "hanse/protocol/update_stage.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"

namespace hanse {

std::vector<StateBlock> Stages::state_blocks() const {
  std::vector<StateBlock> all;
  for (UpdateStage* const stage : updates) {
    const auto blocks = stage->state_blocks();
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  return all;
}

int64_t Stages::second_row_width() const {
  int64_t width = 0;
  for (UpdateStage* const stage : updates) width += stage->second_row_width();
  return width;
}

int64_t Stages::update_bytes(int64_t n_params) const {
  int64_t least = 4 * n_params;
  for (UpdateStage* const stage : updates) least = std::min(least, stage->update_bytes(n_params));
  return least;
}

void Stages::apply(const StagedUpdate& staged) const {
  StagedUpdate part = staged;
  std::size_t state = 0, row = 0;
  for (UpdateStage* const stage : updates) {
    part.state = staged.state.subspan(state, to_index(width_of(stage->state_blocks())));
    part.second_row = staged.second_row.subspan(row, to_index(stage->second_row_width()));
    stage->apply(part);
    state += part.state.size();
    row += part.second_row.size();
  }
}

void Stages::observe(std::span<const float> second_row) const {
  for (UpdateStage* const stage : updates) {
    const std::size_t width = to_index(stage->second_row_width());
    stage->observe(second_row.first(width));
    second_row = second_row.subspan(width);
  }
}

}  // namespace hanse
