#include "online/online_scores.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double checked_loss(double loss, double scale, int64_t node, int64_t model, int64_t round) {
  try {
    const double unit = unit_loss(loss, scale == kUnscaled ? 1 : scale);  // refuses what is none
    return scale == kUnscaled ? loss : unit;
  } catch (const InvalidArgument& error) {
    const std::string what =
        fmt::format("model {} on a node's batch: {}", model, without_hint(error));
    if (!std::isfinite(loss)) throw Divergence(what, node, round, "a smaller online.lr may help");
    throw TrainingError(fmt::format("model {} on a node's batch: {}", model, error.what()), node,
                        round);
  }
}

OnlineScores::OnlineScores(int64_t nodes, Exchange exchange, bool classifies, double loss_scale)
    : nodes_(static_cast<std::size_t>(nodes)),
      has_peers_(exchange == Exchange::kAll),
      has_weights_(compares_models(exchange)),
      classifies_(classifies),
      book_(nodes, loss_scale > 0 ? loss_scale : 1),
      loss_sums_(nodes_),
      accuracy_sums_(nodes_),
      scored_(nodes_) {}

void OnlineScores::add_losses(std::span<const double> weights, std::span<const double> losses,
                              std::span<const double> own) {
  if (has_peers_) book_.add(weights, losses, own);
  mixed_loss_ = std::inner_product(losses.begin(), losses.end(), weights.begin(), 0.0) /
                static_cast<double>(nodes_);
}

void OnlineScores::add_round(int64_t round, std::span<const NodeReport> reports,
                             std::span<const int64_t> mixed) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const NodeReport& node = reports[i];
    double accuracy = std::numeric_limits<double>::quiet_NaN();
    if (node.samples > 0 && classifies_) {
      accuracy = node.correct / node.samples;
      accuracy_sums_[i] += accuracy;
      scored_[i] += 1;
    }
    loss_sums_[i] += node.loss;
    const auto id = static_cast<int64_t>(i);
    const double regret = has_peers_ ? book_.weighted(id) - book_.best_peer(id)
                                     : std::numeric_limits<double>::quiet_NaN();
    node_lines_ += fmt::format("{},{},{:.9g},{},{:.9g},{},{}\n", round, i, node.loss,
                               number_or_nothing(accuracy), loss_sums_[i],
                               number_or_nothing(regret), mixed[i]);
  }
}

void OnlineScores::add_weights(int64_t round, std::span<const double> weights) {
  if (!has_weights_ || nodes_ > static_cast<std::size_t>(RegretBook::kMostNodes)) return;
  for (std::size_t i = 0; i < nodes_; ++i) {
    weight_lines_ += fmt::format("{},{}", round, i);
    for (const double weight : weights.subspan(i * nodes_, nodes_)) {
      weight_lines_ += fmt::format(",{:.9g}", weight);
    }
    weight_lines_ += "\n";
  }
}

std::vector<TableLines> OnlineScores::take_lines() {
  std::vector<TableLines> tables;
  if (!node_lines_.empty()) {
    tables.push_back({"online.csv", "round,node,loss,accuracy,cumulative_loss,regret,mixed",
                      std::exchange(node_lines_, {})});
  }
  if (!weight_lines_.empty()) {
    std::string header = "round,node";
    for (std::size_t j = 0; j < nodes_; ++j) header += fmt::format(",p_{}", j);
    tables.push_back({"weights.csv", header, std::exchange(weight_lines_, {})});
  }
  return tables;
}

Metrics OnlineScores::metrics(int64_t completed, double eta) const {
  const auto rounds = static_cast<double>(completed);
  Metrics metrics{{"online_loss", mean(loss_sums_) / rounds}};
  std::vector<double> accuracies;
  for (std::size_t i = 0; i < nodes_; ++i) {
    if (scored_[i] > 0) accuracies.push_back(accuracy_sums_[i] / scored_[i]);
  }
  if (!accuracies.empty()) metrics.emplace_back("online_accuracy", mean(accuracies));
  if (!has_peers_) return metrics;
  std::vector<double> regrets, own, mixture;
  for (int64_t i = 0; i < static_cast<int64_t>(nodes_); ++i) {
    regrets.push_back(book_.weighted(i) - book_.best_peer(i));
    own.push_back(book_.own(i) - book_.best_peer(i));
    mixture.push_back(book_.weighted(i) - book_.best_mixture(i));
  }
  metrics.emplace_back("regret_mean", mean(regrets));
  metrics.emplace_back("regret_max", *std::max_element(regrets.begin(), regrets.end()));
  metrics.emplace_back("regret_own", mean(own));
  metrics.emplace_back("regret_mixture", mean(mixture));
  if (eta > 0) {
    metrics.emplace_back("regret_bound",
                         std::log(static_cast<double>(nodes_)) / eta + eta * rounds / 8);
  }
  return metrics;
}

void OnlineScores::visit(StateFields& fields) {
  fields.fixed("loss_sums", loss_sums_);
  fields.fixed("accuracy_sums", accuracy_sums_);
  fields.fixed("scored", scored_);
  fields.part("regret", book_);
}

}  // namespace hanse
