#include "hanse/client/personal.hpp"

#include <algorithm>

#include "hanse/base/error.hpp"
#include "hanse/client/side_by_side.hpp"

namespace hanse {

namespace {

class Personal final : public LocalUpdate, private SideBySide {
 public:
  Personal(std::unique_ptr<LocalUpdate> inner, std::vector<RowPart> parts)
      : LocalUpdate(inner->state_blocks()), inner_(std::move(inner)), parts_(std::move(parts)) {
    int64_t size = 0;
    for (const RowPart& part : parts_) size += part.size();
    received_.resize(static_cast<std::size_t>(size));
    state_.push_back({kParts, size});
    state_.push_back({kKnown, 1});
  }

  int64_t control_width() const override { return inner_->control_width(); }

  ClientOutcome train(const ClientTask& task) override {
    take(task.row, received_);
    receive(task.state, task.row);
    const ClientOutcome outcome = inner_->train(inner_task(task));
    keep_parts(task, received_);
    return outcome;
  }

  SideBySide* side_by_side() override { return inner_->side_by_side() ? this : nullptr; }

  void receive(std::span<const float> state, std::span<float> row) const override {
    if (block(state, kKnown).front() != 0) put(block(state, kParts), row);
  }

  bool keeps_own_model() const override { return true; }

  void own_model(const ClientTask& task) override { receive(task.state, task.row); }

 private:
  std::vector<CohortPass> passes() const override {
    auto passes = inner_->side_by_side()->passes();
    for (CohortPass& pass : passes) pass.moves_start = pass.looks_back = true;
    return passes;
  }

  void before(std::size_t pass, const ClientTask& task, std::span<float> pull) override {
    receive(task.state, task.row);
    inner_->side_by_side()->before(pass, inner_task(task), pull);
  }

  // To the update inside, what the steps start from is what it received.
  bool after(std::size_t pass, const ClientTask& task, std::span<const float> start,
             std::span<const float> received) override {
    inner_->side_by_side()->after(pass, inner_task(task), start, start);
    take(received, received_);
    keep_parts(task, received_);
    return true;
  }

  ClientTask inner_task(ClientTask task) const {
    task.state = task.state.first(static_cast<std::size_t>(inner_->state_width()));
    return task;
  }

  // Behind the steps: the parts in the row stay with the client, and the `received` ones stand
  // there again.
  void keep_parts(const ClientTask& task, std::span<const float> received) const {
    take(task.row, block(task.state, kParts));
    block(task.state, kKnown).front() = 1;
    put(received, task.row);
    // Others' values of these entries are no measure for the client's.
    if (inner_->control_width() > 0) clear(inner_task(task).state);
    clear(task.control_change);
  }

  // Behind inner's state: the parts' values, and 1 once they are there.
  static constexpr const char* kParts = "personal parts";
  static constexpr const char* kKnown = "has personal parts";

  // Calls work(the part's entries of row, place of its values among all parts').
  template <class Row, class Work>
  void for_parts(Row row, Work work) const {
    std::size_t at = 0;
    for (const RowPart& part : parts_) {
      const auto size = static_cast<std::size_t>(part.size());
      work(row.subspan(static_cast<std::size_t>(part.begin), size), at);
      at += size;
    }
  }

  void take(std::span<const float> row, std::span<float> values) const {
    for_parts(row, [&](std::span<const float> part, std::size_t at) {
      std::copy(part.begin(), part.end(), values.begin() + static_cast<std::ptrdiff_t>(at));
    });
  }
  void put(std::span<const float> values, std::span<float> row) const {
    for_parts(row, [&](std::span<float> part, std::size_t at) {
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), part.size(), part.begin());
    });
  }
  // What scaffold keeps and sends ends before the buffers.
  void clear(std::span<float> row) const {
    for (const RowPart& part : parts_) {
      const auto end = std::min(part.end, static_cast<int64_t>(row.size()));
      if (part.begin < end) std::fill(row.begin() + part.begin, row.begin() + end, 0.0F);
    }
  }

  std::unique_ptr<LocalUpdate> inner_;
  std::vector<RowPart> parts_;
  std::vector<float> received_;  // values of the parts in the received model
};

}  // namespace

std::vector<RowPart> personal_parts(const ParameterLayout& layout,
                                    const std::vector<std::string>& patterns) {
  std::vector<RowPart> parts;
  for (const ParameterSlot& slot : matching(layout.slots(), patterns, "client.personal")) {
    if (parts.empty() || parts.back().end != slot.offset) {
      parts.push_back({slot.offset, slot.offset});
    }
    parts.back().end = slot.offset + slot.size;
  }
  if (parts.size() == 1 && parts[0].size() == layout.n_params()) {
    throw InvalidArgument("all tensors would stay with the clients", "client.personal",
                          "run.protocol = local trains every client alone");
  }
  return parts;
}

std::unique_ptr<LocalUpdate> make_personal(std::unique_ptr<LocalUpdate> inner,
                                           std::vector<RowPart> parts) {
  return std::make_unique<Personal>(std::move(inner), std::move(parts));
}

}  // namespace hanse
