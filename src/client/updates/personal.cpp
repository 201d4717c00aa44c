#include "hanse/client/personal.hpp"

#include <algorithm>

#include "hanse/base/error.hpp"
#include "hanse/client/passes.hpp"

namespace hanse {

namespace {

// Each pass starts from the received model with the client's parts in it.
std::vector<Pass> from_own_parts(std::vector<Pass> passes) {
  for (Pass& pass : passes) pass.moves_start = pass.looks_back = true;
  return passes;
}

std::vector<StateBlock> own_blocks(std::span<const RowPart> parts) {
  return {{"personal parts", total_size(parts)}, {"has personal parts", 1}};
}

class Personal final : public PassUpdate {
 public:
  Personal(std::unique_ptr<LocalUpdate> inner, std::vector<RowPart> parts)
      : Personal(dynamic_cast<PassUpdate&>(*inner), std::move(parts)) {
    owned_ = std::move(inner);
  }

  int64_t control_width() const override { return inner_.control_width(); }
  int64_t control_block() const override { return inner_.control_block(); }
  int64_t control_of_row() const override { return inner_.control_of_row(); }
  Received beside(const ClientTask& task) const override { return inner_.beside(inner_task(task)); }
  // Without the parts, as far as they move.
  int64_t sent_values(int64_t round, int64_t client, const ParameterLayout& layout) const override {
    int64_t sent = inner_.sent_values(round, client, layout);
    for (const RowPart& moved : inner_.movement().moved_in(round, layout)) {
      for (const RowPart& part : parts_) sent -= common_size(part, moved);
    }
    return sent;
  }
  bool counts_steps() const override { return inner_.counts_steps(); }
  bool trains_side_by_side() const override { return inner_.trains_side_by_side(); }
  double feedback_scale(int64_t round, int64_t samples, int64_t made) const override {
    return inner_.feedback_scale(round, samples, made);
  }

  void receive(std::span<const float> state, std::span<float> row) const override {
    if (block(state, kKnown).front() != 0) put(block(state, kParts), row);
  }

  bool keeps_own_model() const override { return true; }

  void own_model(const ClientTask& task) override { receive(task.state, task.row); }

  void before(std::size_t pass, const ClientTask& task, std::span<float> pull) override {
    receive(task.state, task.row);
    inner_.before(pass, inner_task(task), pull);
  }

  // To the update inside, what the steps start from is what it received.
  bool after(std::size_t pass, const ClientTask& task, std::span<const float> start,
             std::span<const float> received) override {
    if (inner_.passes()[pass].looks_back) inner_.after(pass, inner_task(task), start, start);
    take(received, received_);
    keep_parts(task, received_);
    return true;
  }

 private:
  Personal(PassUpdate& inner, std::vector<RowPart> parts)
      : PassUpdate(inner, from_own_parts(inner.passes()), own_blocks(parts)),
        inner_(inner),
        parts_(std::move(parts)),
        received_(static_cast<std::size_t>(own_blocks(parts_).front().width)) {}

  ClientTask inner_task(ClientTask task) const {
    task.state = task.state.first(static_cast<std::size_t>(inner_.state_width()));
    return task;
  }

  // Behind the steps: the parts in the row stay with the client, and the `received` ones stand
  // there again.
  void keep_parts(const ClientTask& task, std::span<const float> received) const {
    take(task.row, block(task.state, kParts));
    block(task.state, kKnown).front() = 1;
    put(received, task.row);
    // Others' values of these entries are no measure for the client's.
    if (control_of_row() == 0) return;
    clear(inner_task(task).state);
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

  std::unique_ptr<LocalUpdate> owned_;
  PassUpdate& inner_;  // the same
  std::vector<RowPart> parts_;
  std::vector<float> received_;  // values of the parts in the received model
};

}  // namespace

std::vector<RowPart> personal_parts(const ParameterLayout& layout,
                                    const std::vector<std::string>& patterns, bool all_may_stay) {
  std::vector<RowPart> parts = joined_parts(matching(layout.slots(), patterns, "client.personal"));
  if (!all_may_stay && parts.size() == 1 && parts[0].size() == layout.n_params()) {
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
