// The lines of participation.csv: who took part in a round, and with what.
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "federated/findings.hpp"
#include "federated/parts/parts.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "hanse/protocol/turnout.hpp"

namespace hanse {

namespace {

constexpr int64_t kNone = -1;

// One participant in one round. NaN and kNone are written as nothing: they are not known, or mean
// nothing.
struct ParticipationLine {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  int64_t client = 0;
  double weight = kUnknown;   // coefficient of its update in the sum
  int64_t samples = kNone;    // that it trains on
  int64_t steps = kNone;      // that its optimizer made
  double seconds = kUnknown;  // of its training
  int64_t received = kNone;   // version of the model that it trained from
  int64_t staleness = kNone;  // versions between that one and the one that its update changed
  bool counted = true;        // is its update in the sum?
  // On the virtual clock:
  TaskState state = TaskState::kCounted;
  std::optional<TaskSpan> span = {};
};

// The line of a task on the virtual clock whose update is not in the sum.
ParticipationLine line_of(const UncountedTask& task, int64_t samples) {
  return {.client = task.client,
          .weight = 0,
          .samples = samples,
          .seconds = task.state == TaskState::kLost ? ParticipationLine::kUnknown : task.seconds(),
          .received = task.received,
          .staleness = task.staleness,
          .counted = false,
          .state = task.state,
          .span = task.span};
}

class ParticipationLines final : public RoundPart {
 public:
  explicit ParticipationLines(const PartsOf& of)
      : parts_(of.parts), seed_(of.settings.seed), timed_(of.parts.turnout != nullptr) {}

  void drawn(int64_t) override { weights_.clear(); }

  void weigh(RoundWeights& weights) override {
    const std::span<double> c = weights.coefficients;
    const bool by_layers = c.size() != weights.rows;
    weights_.assign(c.begin(), c.begin() + (by_layers ? 0 : std::ssize(weights.clients)));
  }

  // In the draw's order.
  void trained(const TrainedRound& round) override {
    const RoundTurnout& turnout = round.turnout;
    std::vector<ParticipationLine> lines(round.plan.size());
    for (std::size_t i = 0; i < round.plan.size(); ++i) {
      lines[to_index(round.plan.entries()[i].position)] = line_of(round, i);
    }
    constexpr std::size_t kLineBytes = 64;  // about
    lines_.reserve(lines_.size() + kLineBytes * lines.size());
    for (const ParticipationLine& line : lines) add(round.round, line);
    for (const UncountedTask& task : turnout.uncounted) {
      add(round.round, hanse::line_of(task, parts_.federation.train(task.client).size()));
    }
  }

  // The first call gives the header, though nobody has taken part.
  std::vector<TableLines> take_lines() override {
    if (lines_.empty() && has_header_) return {};
    has_header_ = true;
    std::string header = "round,client,weight,samples,steps,seconds,received,staleness,counted";
    if (timed_) header += ",state,start,arrival";
    return {{"participation.csv", header, std::exchange(lines_, {})}};
  }

 private:
  ParticipationLine line_of(const TrainedRound& round, std::size_t entry) const {
    const Assignment& task = round.plan.entries()[entry];
    const RoundTurnout& turnout = round.turnout;
    const auto position = to_index(task.position);
    const int64_t samples = parts_.federation.train(task.client).size();
    ParticipationLine line{.client = task.client, .samples = samples};
    line.counted = round.findings.trained(entry);
    if (!turnout.spans.empty()) line.span = turnout.spans[position];
    if (!line.counted) {
      line.weight = 0;
      return line;
    }
    if (!weights_.empty()) line.weight = weights_[position];
    line.staleness = turnout.times.staleness.empty() ? 0 : turnout.times.staleness[position];
    line.received = round.round - 1 - line.staleness;
    if (!parts_.update.sends_direction()) {
      const int64_t made = turnout.tasks.empty() ? 0 : turnout.tasks[position].steps;
      line.steps = parts_.update.steps().optimizer_steps(
          {.client = task.client, .round = line.received + 1, .seed = seed_, .steps = made},
          samples);
    }
    line.seconds = turnout.times.durations.empty() ? round.findings.of(entry, Findings::kSeconds)
                                                   : turnout.times.durations[position];
    return line;
  }

  void add(int64_t round, const ParticipationLine& line) {
    const auto put = [&](int64_t number) {
      const fmt::format_int digits(number);
      if (number != kNone) lines_.append(digits.data(), digits.size());
      lines_ += ',';
    };
    put(round);
    put(line.client);
    if (line.weight != weight_ || weight_text_.empty()) {  // often that of the line before
      weight_ = line.weight;
      weight_text_ = number_or_nothing(weight_) + ",";
    }
    lines_ += weight_text_;
    put(line.samples);
    put(line.steps);
    if (!std::isnan(line.seconds)) {
      fmt::format_to(std::back_inserter(lines_), "{:.6g}", line.seconds);
    }
    lines_ += ',';
    put(line.received);
    put(line.staleness);
    lines_ += line.counted ? '1' : '0';
    if (timed_) {
      constexpr auto kStates = choices_of(TaskState());
      lines_.append(",").append(kStates[static_cast<std::size_t>(line.state)]) += ',';
      if (line.span) append_seconds(lines_, line.span->start);
      lines_ += ',';
      if (line.span) append_seconds(lines_, line.span->known);
    }
    lines_ += '\n';
  }

  const FederatedTrainer::Parts& parts_;
  uint64_t seed_;
  bool timed_;  // there is a virtual clock, which knows of tasks
  bool has_header_ = false;
  std::vector<double> weights_;  // what updates count, in the draw's order; empty: by layers
  std::string lines_;
  double weight_ = 0;        // the last one that was written
  std::string weight_text_;  // its field
};

}  // namespace

std::unique_ptr<RoundPart> make_participation_lines(const PartsOf& of) {
  return std::make_unique<ParticipationLines>(of);
}

}  // namespace hanse
