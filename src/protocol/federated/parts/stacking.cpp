#include "hanse/protocol/stacking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {

namespace {

// Rows of participants, as they come from the ranks.
class Stack {
 public:
  void add(const SentUpdate& one) {
    places_.push_back(one.place);
    coefficients_.push_back(one.coefficient);
    values_.insert(values_.end(), one.row.begin(), one.row.end());
    float* row = values_.data() + values_.size() - one.row.size();
    for (std::size_t i = 0; one.is_update && i < one.row.size(); ++i) row[i] += one.origin[i];
  }
  void clear() {
    places_.clear();
    coefficients_.clear();
    values_.clear();
  }

  // Brings all ranks' rows to rank 0, and from there to the others if they are to have them.
  void gather(Communicator& comm, bool to_all) {
    places_ = comm.gatherv(std::span<const int64_t>(places_), 0);
    coefficients_ = comm.gatherv(std::span<const double>(coefficients_), 0);
    values_ = comm.gatherv(std::span<const float>(values_), 0);
    if (!to_all) return;
    int64_t counts[2] = {std::ssize(places_), std::ssize(values_)};
    comm.bcast(std::span(counts), 0);
    places_.resize(to_index(counts[0]));
    coefficients_.resize(to_index(counts[0]));
    values_.resize(to_index(counts[1]));
    comm.bcast(std::span(places_), 0);
    comm.bcast(std::span(coefficients_), 0);
    comm.bcast(std::span(values_), 0);
  }

  // In the order of the draw, with coefficients times `factor`.
  std::vector<WeighedRow> rows(double factor) const {
    std::vector<std::size_t> order(places_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::size_t i) { return places_[i]; });
    std::vector<WeighedRow> rows;
    for (const std::size_t i : order) {
      const std::size_t width = values_.size() / places_.size();
      rows.push_back({factor * coefficients_[i], values_.data() + i * width});
    }
    return rows;
  }

 private:
  std::vector<int64_t> places_;  // in the draw
  std::vector<double> coefficients_;
  std::vector<float> values_;  // [rows, P]
};

class Stacking final : public RoundPart {
 public:
  explicit Stacking(const StackingCase& of) : of_(of) {}

  void drawn(int64_t round) override {
    round_ = round;
    gap_ = std::numeric_limits<double>::quiet_NaN();
  }

  void sees(const SentUpdate& one) override { stack_.add(one); }

  void closes(UpdateSum&) override {
    stack_.gather(of_.comm, of_.merges);
    if (of_.gap && of_.comm.rank() == 0) gap_ = of_.model.adapters().product_gap(stack_.rows(1));
  }

  // The server has stepped, so that the round counts: the next starts from fresh adapters.
  void stepped(int64_t, std::span<float> theta) override {
    rate_ = server_rate(of_.server, round_);
    if (of_.merges) of_.model.adapters().refresh(round_ + 1, theta);
  }

  void finishes() override {
    if (of_.merges) {
      of_.comm.bcast(std::span(&rate_, 1), 0);
      if (rate_ != 0) of_.model.adapters().merge(of_.host, stack_.rows(rate_));
    }
    rate_ = 0;
    stack_.clear();
  }

  void add_columns(Columns& columns) const override {
    if (!of_.gap) return;
    columns.add_to_rounds([this] { return Metrics{{"lora_gap", gap_}}; });
  }

  const char* name() const override { return of_.merges ? "base" : ""; }
  void collect() override {
    if (of_.merges && of_.comm.rank() == 0) base_ = of_.model.adapters().base();
  }
  void share() override {
    if (!of_.merges) return;
    auto size = std::ssize(base_);
    of_.comm.bcast(std::span(&size, 1), 0);
    base_.resize(to_index(size));
    of_.comm.bcast(std::span(base_), 0);
    of_.model.adapters().set_base(of_.host, base_);
    base_ = std::vector<float>();  // {} would keep its memory
  }

 private:
  void visit(StateFields& fields) override {
    if (of_.merges) fields.all("weights", base_);
  }

  StackingCase of_;
  Stack stack_;
  int64_t round_ = 0;  // rank 0's
  double rate_ = 0;    // rank 0's, of the step; 0: none yet
  double gap_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<float> base_;  // all W_0, around a checkpoint
};

}  // namespace

std::unique_ptr<RoundPart> make_stacking(const StackingCase& of) {
  return std::make_unique<Stacking>(of);
}

}  // namespace hanse
