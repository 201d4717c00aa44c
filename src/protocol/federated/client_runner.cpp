#include "federated/client_runner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "hanse/base/index.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

ClientRunner::ClientRunner(const RunnerParts& parts, const FederatedSettings& settings,
                           int64_t sink_state)
    : parts_(parts),
      settings_(settings),
      stage_state_(to_index(width_of(parts.stages.state_blocks()))),
      sink_state_(to_index(sink_state)) {
  const std::size_t width = own_state() + stage_state_ + sink_state_;
  if (width == 0) return;
  states_ = std::make_unique<ClientStateStore>(static_cast<int64_t>(width), settings_.state_bytes,
                                               settings_.state_folder);
}

ClientTask ClientRunner::task_of(const RoundContext& round, int64_t client, std::span<float> state,
                                 std::span<float> change) const {
  return {.client = client,
          .round = round.number,
          .repeat = round.repeat,
          .seed = settings_.seed,
          .row = {},
          .state = state.first(own_state()),
          .control = round.control,
          .control_change = change,
          .steps = round.steps,
          .squares = settings_.squares};
}

std::span<float> ClientRunner::state_of(int64_t client) const {
  return states_ ? states_->row(client) : std::span<float>();
}

std::vector<float> ClientRunner::state_copy(int64_t client) const {
  if (!has_state(client)) return std::vector<float>(own_state() + stage_state_ + sink_state_);
  const auto kept = states_->existing_row(client);
  return {kept.begin(), kept.end()};
}

void ClientRunner::bring_shown() {
  const LocalUpdate& update = parts_.update;
  if (update.shown_block().empty()) return;
  constexpr double kNotHere = -std::numeric_limits<double>::infinity();
  shown_.assign(to_index(parts_.federation.clients()), kNotHere);
  for (const int64_t client : states_->clients()) {
    const auto block =
        state_block(update.state_blocks(), states_->existing_row(client), update.shown_block());
    shown_[to_index(client)] = static_cast<double>(block.front());
  }
  parts_.comm.reduce(std::span(shown_), ReduceOp::kMax, 0);
  std::ranges::replace(shown_, kNotHere, std::nan(""));
}

void ClientRunner::add_columns(Columns& columns) const {
  if (parts_.update.shown_block().empty()) return;
  columns.add_to_clients([this](int64_t client) {
    const bool is_known = client < std::ssize(shown_);
    return Metrics{{std::string(parts_.update.shown_block()),
                    is_known ? shown_[to_index(client)] : std::nan("")}};
  });
}

}  // namespace hanse
