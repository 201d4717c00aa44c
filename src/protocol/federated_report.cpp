// What a federated trainer tells of its rounds, and its state.
#include <utility>

#include "hanse/protocol/federated.hpp"
#include "kept_updates.hpp"

namespace hanse {

// The draw's part of the trace.
void FederatedTrainer::describe_draw() {
  const ClientSet& there = participation_->sampler().available();
  const auto foreseen = participation_->sampler_foresaw();
  trace_.draw = participation_->drawn();
  trace_.foreseen.assign(foreseen.begin(), foreseen.end());
  trace_.samples.clear();
  for (const int64_t client : trace_.draw.clients) {
    trace_.samples.push_back(static_cast<double>(parts_.federation.train(client).size()));
  }
  trace_.everyone_there = there.full();
  trace_.available.clear();
  for (int64_t k = 0; !there.full() && k < there.size(); ++k) {
    trace_.available.push_back(there.select(k));
  }
}

Metrics FederatedTrainer::metrics() const {
  const ClientSampler& sampler = participation_->sampler();
  return sampler.even() ? Metrics() : summarize_probabilities(sampler);
}

std::vector<TableLines> FederatedTrainer::take_lines() {
  auto tables = directions_.take_lines();
  if (!sampling_lines_.empty()) {
    tables.push_back({"sampling.csv", Participation::kHeader, std::exchange(sampling_lines_, {})});
  }
  return tables;
}

std::vector<std::string> FederatedTrainer::round_columns() const {
  std::vector<std::string> columns{"seconds_broadcast", "seconds_reduce", "seconds_step",
                                   "bytes_broadcast", "bytes_reduce"};
  if (settings_.round_seconds > 0) columns.emplace_back("left_out");
  if (keeps_updates()) {
    for (auto& column : DirectionReport::columns()) columns.push_back(std::move(column));
  }
  return columns;
}

// Of the round, for those columns. Rank 0.
std::vector<double> FederatedTrainer::round_values() const {
  const ExchangeTimes& times = traffic_.times;
  std::vector<double> values{times.broadcast_s, times.reduce_s, times.step_s,
                             static_cast<double>(traffic_.broadcast_bytes),
                             static_cast<double>(traffic_.reduce_bytes)};
  if (settings_.round_seconds > 0) values.push_back(static_cast<double>(left_out_));
  if (keeps_updates()) {
    for (const double value : directions_.values()) values.push_back(value);
  }
  return values;
}

std::vector<double> FederatedTrainer::decision() const { return parts_.aggregator.decision(); }

void FederatedTrainer::save(State& state) const {
  state.put("model", std::span(theta_));
  state.put("rounds", completed_);
  const auto put = [&](const char* name, const auto& part) {
    State own;
    part.save(own);
    state.put_part(name, own);
  };
  if (!control_.empty()) state.put("control", std::span(control_));
  put("participation", *participation_);
  put("aggregator", parts_.aggregator);
  put("optimizer", *parts_.optimizer);
}

void FederatedTrainer::load(const State& state) {
  model_is_shared_ = false;
  if (is_server()) {
    state.get_into<float>("model", theta_);
    completed_ = state.get_one<int64_t>("rounds");
    if (!control_.empty()) state.get_into<float>("control", control_);
    participation_->load(state.part("participation"));
    parts_.aggregator.load(state.part("aggregator"));
    parts_.optimizer->load(state.part("optimizer"));
  }
  parts_.comm.bcast(std::span(&completed_, 1), 0);
}

}  // namespace hanse
