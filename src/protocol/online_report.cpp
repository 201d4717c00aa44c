// What an online run tells and keeps: lines, metrics, evaluations, state.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/protocol/online.hpp"

namespace hanse {

namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

// A line a node for online.csv.
void OnlineTrainer::tell_nodes(const std::vector<NodeReport>& reports) {
  const bool peers = parts_.rule.exchange() == Exchange::kAll;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const NodeReport& node = reports[i];
    double accuracy = std::numeric_limits<double>::quiet_NaN();
    if (node.samples > 0 && parts_.federation.classes() > 0) {
      accuracy = node.correct / node.samples;
      accuracy_sums_[i] += accuracy;
      scored_[i] += 1;
    }
    loss_sums_[i] += node.loss;
    const auto id = static_cast<int64_t>(i);
    const double regret =
        peers ? book_.weighted(id) - book_.best_peer(id) : std::numeric_limits<double>::quiet_NaN();
    node_lines_ += fmt::format("{},{},{:.9g},{},{:.9g},{},{}\n", round_number(), i, node.loss,
                               number_or_nothing(accuracy), loss_sums_[i],
                               number_or_nothing(regret), mixed_[i]);
  }
}

// A line a node for weights.csv.
void OnlineTrainer::tell_weights() {
  if (parts_.rule.exchange() != Exchange::kAll || nodes_ > RegretBook::kMostNodes) return;
  const auto n = node_count();
  for (std::size_t i = 0; i < n; ++i) {
    weight_lines_ += fmt::format("{},{}", completed_, i);
    for (std::size_t j = 0; j < n; ++j)
      weight_lines_ += fmt::format(",{:.9g}", weights_[i * n + j]);
    weight_lines_ += "\n";
  }
}

std::vector<TableLines> OnlineTrainer::take_lines() {
  std::vector<TableLines> tables;
  if (!node_lines_.empty()) {
    tables.push_back({"online.csv", "round,node,loss,accuracy,cumulative_loss,regret,mixed",
                      std::exchange(node_lines_, {})});
  }
  if (!weight_lines_.empty()) {
    std::string header = "round,node";
    for (int64_t j = 0; j < nodes_; ++j) header += fmt::format(",p_{}", j);
    tables.push_back({"weights.csv", header, std::exchange(weight_lines_, {})});
  }
  return tables;
}

Metrics OnlineTrainer::metrics() const {
  const auto rounds = static_cast<double>(completed_);
  Metrics metrics{{"online_loss", mean(loss_sums_) / rounds}};
  std::vector<double> accuracies;
  for (std::size_t i = 0; i < node_count(); ++i) {
    if (scored_[i] > 0) accuracies.push_back(accuracy_sums_[i] / scored_[i]);
  }
  if (!accuracies.empty()) metrics.emplace_back("online_accuracy", mean(accuracies));
  if (parts_.rule.exchange() != Exchange::kAll) return metrics;
  std::vector<double> regrets, own, mixture;
  for (int64_t i = 0; i < nodes_; ++i) {
    regrets.push_back(book_.weighted(i) - book_.best_peer(i));
    own.push_back(book_.own(i) - book_.best_peer(i));
    mixture.push_back(book_.weighted(i) - book_.best_mixture(i));
  }
  metrics.emplace_back("regret_mean", mean(regrets));
  metrics.emplace_back("regret_max", *std::max_element(regrets.begin(), regrets.end()));
  metrics.emplace_back("regret_own", mean(own));
  metrics.emplace_back("regret_mixture", mean(mixture));
  if (settings_.eta > 0 && settings_.peers == nodes_) {
    metrics.emplace_back("regret_bound", std::log(static_cast<double>(nodes_)) / settings_.eta +
                                             settings_.eta * rounds / 8);
  }
  return metrics;
}

std::vector<ClientEvaluation> OnlineTrainer::evaluate() {
  const int64_t t = std::max<int64_t>(completed_, 1);
  std::vector<ClientEvaluation> mine;
  for (int64_t node = begin_; node < end_; ++node) {
    mine.push_back(evaluate_client(parts_.federation, evaluator_.at(row_of(theta_, node)),
                                   stream_.source(node, t)));
  }
  if (parts_.comm.rank() == 0) tell_weights();
  return parts_.comm.gatherv(std::span<const ClientEvaluation>(mine), 0);
}

// Rules that mix leave every model on every rank.
void OnlineTrainer::collect() {
  if (parts_.rule.exchange() != Exchange::kNone) return;
  parts_.comm.allgatherv(std::span(theta_), counts(parts_.model.n_params()));
}

ParameterLayout OnlineTrainer::model_layout() const {
  ParameterLayout layout;
  for (int64_t node = 0; node < nodes_; ++node) {
    for (const auto& slot : parts_.model.layout().slots()) {
      layout.add(fmt::format("node{}/{}", node, slot.name), slot.shape, slot.fan_in);
    }
  }
  return layout;
}

void OnlineTrainer::save(State& state) const {
  state.put("rounds", completed_);
  state.put("theta", std::span(theta_));
  if (keeps_estimates()) state.put("gamma", std::span(gamma_));
  state.put("memory", std::span<const double>(parts_.rule.memory()));
  state.put("weights", std::span(weights_));
  state.put("mixes", std::span(mixes_));
  state.put("loss_sums", std::span(loss_sums_));
  state.put("accuracy_sums", std::span(accuracy_sums_));
  state.put("scored", std::span(scored_));
  State book;
  book_.save(book);
  state.put_part("regret", book);
}

void OnlineTrainer::load(const State& state) {
  if (parts_.comm.rank() == 0) {
    completed_ = state.get_one<int64_t>("rounds");
    state.get_into<float>("theta", theta_);
    if (keeps_estimates()) state.get_into<float>("gamma", gamma_);
    state.get_into<double>("memory", parts_.rule.memory());
    state.get_into<double>("weights", weights_);
    state.get_into<int64_t>("mixes", mixes_);
    state.get_into<double>("loss_sums", loss_sums_);
    state.get_into<double>("accuracy_sums", accuracy_sums_);
    state.get_into<double>("scored", scored_);
    book_.load(state.part("regret"));
  }
  parts_.comm.bcast(std::span(&completed_, 1), 0);
  parts_.comm.bcast(std::span(theta_), 0);
  if (keeps_estimates()) parts_.comm.bcast(std::span(gamma_), 0);
  parts_.comm.bcast(parts_.rule.memory(), 0);
  parts_.comm.bcast(std::span(weights_), 0);
  parts_.comm.bcast(std::span(mixes_), 0);
  if (parts_.fit.remembers()) relive_stream();
}

// Gives the fit of each of this rank's nodes the batches of the completed rounds once more.
void OnlineTrainer::relive_stream() {
  std::vector<float> row(static_cast<std::size_t>(parts_.model.n_params()));
  StreamBatch batch;
  for (int64_t node = begin_; node < end_; ++node) {
    for (int64_t t = 1; t <= completed_; ++t) {
      stream_.train(node, t, batch);
      RandomStream noise = noise_of(node, t);
      parts_.fit.fit(node, batch.view(), noise, row);
    }
  }
}

}  // namespace hanse
