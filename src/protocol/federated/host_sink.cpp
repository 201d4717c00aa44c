#include "federated/host_sink.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/scope.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

HostSink::HostSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
                   SharedRows& rows)
    : UpdateSink(second, settings),
      sent_(parts.model),
      rows_(rows),
      clock_(*settings.clock),
      sum_(parts.model.n_params() * sum_rows(parts.rule),
           further_rows(parts.rule) +
               (parts.rule.last_updates ? parts.federation.clients() : settings.max_participants),
           reduction_of(settings), parts.comm),
      comm_(parts.comm),
      acting_(parts.acting),
      overlaps_(acting_.empty() && step_overlaps(parts.rule, parts.update, settings.server)) {
  if (rows_.training.empty()) rows_.training.emplace_back(sent_.size);
}

void HostSink::start(int64_t round, std::span<const float> origin) {
  origin_ = origin;
  restart();
  if (std::exchange(round_, round) != 0) return;  // the sum goes on
  for (RoundPart* part : acting_) part->opens(round, sum_);
}

void HostSink::go_on_from(std::span<const float> origin, const TakenNote& note) {
  if (origin.data() == origin_.data()) return;
  finish(note);
  origin_ = origin;
  restart();
}

ExchangeReport HostSink::hand_over(std::span<float> model, const SumStep& step) {
  ExchangeReport done{.sum_bytes = sum_.bytes(), .shares_model = overlaps_};
  if (overlaps_) {
    const ExchangeStep nothing = [](int64_t, std::span<float>) {};
    done.times = sum_.exchange(comm_, model, step.part ? step.part : nothing);
    return done;
  }
  {
    const Scope timer(done.times.reduce_s);
    for (RoundPart* part : acting_) part->closes(sum_);
    sum_.reduce(comm_, 0);
  }
  const Scope timer(done.times.step_s);
  round_ = 0;
  if (step.part) {
    rows_.step.resize(static_cast<std::size_t>(sum_.size()));
    bool is_read = false;
    for (auto part = acting_.rbegin(); part != acting_.rend(); ++part) {
      is_read = (*part)->reads(sum_, rows_.step) || is_read;
    }
    if (!is_read) read_sum(rows_.step);
    step.part(0, std::span(rows_.step).first(sent_.size));
  } else {
    sum_.clear();
  }
  for (RoundPart* part : acting_) part->finishes();
  return done;
}

std::unique_ptr<HostSink> make_host_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows) {
  for (RoundPart* part : parts.acting) {
    if (part->takes_updates()) return make_part_sink(parts, settings, second, rows, *part);
  }
  if (parts.rule.sign_share) return make_masked_sink(parts, settings, second, rows);
  if (parts.rule.after_training()) return make_kept_sink(parts, settings, second, rows);
  return make_fold_sink(parts, settings, second, rows);
}

}  // namespace hanse
