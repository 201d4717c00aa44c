#include "divergence_guard.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble/protocols.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/finite.hpp"

namespace hanse {

namespace {

// What the failure says, without hints.
std::string sentence_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return without_hint(error);
  }
}

}  // namespace

bool stops_at_divergence(const Job& job) {
  return job.run.on_divergence == OnDivergence::kStop &&
         protocol_kind(job).reading.reads("run.on-divergence");
}

void DivergenceGuard::keep() {
  if (!stops_) return;
  protocol_.collect();
  if (ClientStateStore* states = protocol_.client_states()) states->mark();
  if (comm_.rank() != 0) return;
  before_ = State();
  protocol_.save(before_);
}

bool DivergenceGuard::takes_back(bool failed, const std::exception_ptr& failure) {
  if (!stops_) return false;
  const std::string reason = failed ? reason_of_failure(failure) : reason_of_model();
  if (reason.empty()) {
    if (!failed) keep();
    return false;
  }
  found_ = {protocol_.completed_rounds(), reason};
  protocol_.take_lines();  // of the round
  protocol_.forget_failure();
  if (ClientStateStore* states = protocol_.client_states()) states->take_back();
  protocol_.resume(before_);
  return true;
}

// That of the first rank that has failed; empty where it is an error.
std::string DivergenceGuard::reason_of_failure(const std::exception_ptr& failure) {
  const int64_t is_error = failure && !is_divergence(protocol_.failure());
  if (comm_.allreduce_one(is_error, ReduceOp::kMax) != 0) return "";
  const int64_t first =
      comm_.allreduce_one<int64_t>(failure ? comm_.rank() : comm_.size(), ReduceOp::kMin);
  std::string reason;
  if (first == comm_.rank()) reason = sentence_of(failure);
  bcast_list(comm_, reason, static_cast<int>(first));
  return reason;
}

// Empty: the model is finite.
std::string DivergenceGuard::reason_of_model() {
  protocol_.collect();
  std::string reason;
  if (comm_.rank() == 0) {
    const auto row = protocol_.model_row();
    if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) {
      reason = fmt::format("the model behind the server's step is not finite: {} (round {})",
                           not_finite(protocol_.model_layout(), row), protocol_.completed_rounds());
    }
  }
  bcast_list(comm_, reason);
  return reason;
}

std::string DivergenceGuard::text() const {
  return fmt::format("the training has diverged in round {}: {}", found_.round, found_.reason);
}

void DivergenceGuard::visit(StateFields& fields) {
  fields.one("round", found_.round);
  State words;
  words.put_text("reason", found_.reason);
  fields.part("words", words);
  if (fields.loads()) found_.reason = words.get_text("reason");
}

}  // namespace hanse
