#include "hanse/protocol/online.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "attempt.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/mixing.hpp"

namespace hanse {

namespace {

int64_t checked_peers(int64_t peers, int64_t nodes) {
  if (peers > nodes) {
    throw InvalidArgument(
        fmt::format("{} peers are asked for, and there are {} nodes", peers, nodes), "online.peers",
        "0 mixes all of them");
  }
  return peers == 0 ? nodes : peers;
}

}  // namespace

OnlineTrainer::OnlineTrainer(Parts parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      stream_(parts.federation, settings_.stream, settings_.seed),
      nodes_(parts.federation.clients()),
      book_(nodes_, settings_.loss_scale > 0 ? settings_.loss_scale : 1),
      evaluator_(parts.federation, parts.model) {
  settings_.peers = checked_peers(settings_.peers, nodes_);
  const int64_t ranks = parts_.comm.size();
  begin_ = first_node(parts_.comm.rank(), ranks, nodes_);
  end_ = first_node(parts_.comm.rank() + 1, ranks, nodes_);
  const auto n = node_count();
  theta_.resize(n * static_cast<std::size_t>(parts_.model.n_params()));
  gamma_.resize(theta_.size());
  weights_.resize(n * n);
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), int64_t{0});
  parts_.rule.weigh(all, weights_);
  mixes_.assign(n, 1);
  mixed_.assign(n, 0);
  batches_.resize(static_cast<std::size_t>(end_ - begin_));
  numbers_.resize(n * (n + kNumbers));
  loss_sums_.resize(n);
  accuracy_sums_.resize(n);
  scored_.resize(n);
}

std::span<float> OnlineTrainer::row_of(std::vector<float>& rows, int64_t node) const {
  const auto width = static_cast<std::size_t>(parts_.model.n_params());
  return std::span(rows).subspan(static_cast<std::size_t>(node) * width, width);
}

std::span<double> OnlineTrainer::numbers_of(int64_t node) {
  const std::size_t width = node_count() + kNumbers;
  return std::span(numbers_).subspan(static_cast<std::size_t>(node) * width, width);
}

// Elements of each rank when a node has `width`.
std::vector<int64_t> OnlineTrainer::counts(int64_t width) const {
  const int64_t ranks = parts_.comm.size();
  std::vector<int64_t> result;
  for (int64_t r = 0; r < ranks; ++r) {
    result.push_back((first_node(r + 1, ranks, nodes_) - first_node(r, ranks, nodes_)) * width);
  }
  return result;
}

RandomStream OnlineTrainer::noise_of(int64_t node, int64_t t) const {
  return {settings_.seed, Purpose::kDropout, static_cast<uint64_t>(t), static_cast<uint64_t>(node)};
}

// Calls work(node, its batch) for this rank's nodes.
template <class Work>
void OnlineTrainer::for_my_nodes(Work work) {
  const PhaseTimer timer(train_s_);
  attempt(failure_, [&] {
    for (int64_t node = begin_; node < end_; ++node) {
      work(node, batches_[static_cast<std::size_t>(node - begin_)]);
    }
  });
}

void OnlineTrainer::initialize_model() {
  const bool one_model = parts_.rule.exchange() == Exchange::kMean;
  for (int64_t node = 0; node < nodes_; ++node) {
    RandomStream stream(settings_.seed, Purpose::kInitialize, 0,
                        static_cast<uint64_t>(one_model ? 0 : node));
    parts_.model.initialize(row_of(theta_, node), stream);
  }
  gamma_ = theta_;
}

RoundRecord OnlineTrainer::round(bool stop_requested) {
  const double start_s = monotonic_seconds();
  const double comm_before_s = parts_.comm.seconds();
  const int64_t bytes_before = parts_.comm.bytes_moved();
  train_s_ = wait_s_ = 0;
  receive();
  if (settings_.train_first) {
    train();
    mix();
    predict();
  } else {
    predict();
    train();
    mix();
  }
  RankReport mine{};
  mine.stop = stop_requested ? 1 : 0;
  mine.bytes = static_cast<double>(parts_.comm.bytes_moved() - bytes_before);
  mine.comm_s = parts_.comm.seconds() - comm_before_s - wait_s_;
  return report(mine, start_s);
}

void OnlineTrainer::receive() {
  for_my_nodes(
      [&](int64_t node, StreamBatch& batch) { stream_.train(node, round_number(), batch); });
}

// Gamma_i of this rank's nodes, and everybody's for rules that mix.
void OnlineTrainer::train() {
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const auto from = row_of(theta_, node);
    const auto row = row_of(gamma_, node);
    std::copy(from.begin(), from.end(), row.begin());
    RandomStream noise = noise_of(node, round_number());
    parts_.fit.fit(node, batch.view(), noise, row);
  });
  if (parts_.rule.exchange() == Exchange::kNone) return;
  {
    const PhaseTimer timer(wait_s_);
    parts_.comm.barrier();
  }
  parts_.comm.allgatherv(std::span(gamma_), counts(parts_.model.n_params()));
}

// theta_i = sum over S of p_ij Gamma_j; Gamma_i where the test of the last round says no.
void OnlineTrainer::mix() {
  const PhaseTimer timer(train_s_);
  RandomStream stream(settings_.seed, Purpose::kSampling, static_cast<uint64_t>(round_number()));
  parts_.rule.weigh(sample_peers(nodes_, settings_.peers, stream), weights_);
  const auto n = node_count();
  switch (parts_.rule.exchange()) {
    case Exchange::kNone: std::swap(theta_, gamma_); return;
    case Exchange::kMean: {
      const auto first = row_of(theta_, 0);
      mix_rows(std::span(weights_).first(n), gamma_, nodes_, first);
      for (int64_t node = 1; node < nodes_; ++node) {
        std::copy(first.begin(), first.end(), row_of(theta_, node).begin());
      }
      mixed_.assign(n, 1);
      return;
    }
    case Exchange::kAll: {
      auto shares = weights_;
      for (std::size_t i = 0; i < n; ++i) {
        if (mixes_[i]) continue;
        std::fill_n(shares.begin() + static_cast<std::ptrdiff_t>(i * n), n, 0.0);
        shares[i * n + i] = 1;
      }
      mix_rows(shares, gamma_, nodes_, theta_);
      mixed_ = mixes_;
    }
  }
}

void OnlineTrainer::predict() {
  if (parts_.rule.exchange() != Exchange::kAll) {
    predict_own();
    return;
  }
  predict_all();
  parts_.comm.allgatherv(std::span(numbers_), counts(nodes_ + kNumbers));
  const auto n = node_count();
  std::vector<double> losses;
  std::vector<double> own;
  for (int64_t node = 0; node < nodes_; ++node) {
    const auto numbers = numbers_of(node);
    losses.insert(losses.end(), numbers.begin(), numbers.begin() + nodes_);
    own.push_back(numbers[n + kOwnUnitLoss]);
    mixes_[static_cast<std::size_t>(node)] =
        may_mix(numbers[n + kGap], settings_.c, stream_.horizon());
  }
  if (parts_.comm.rank() == 0) {
    book_.add(weights_, losses, own);
    mixed_loss_ = std::inner_product(losses.begin(), losses.end(), weights_.begin(), 0.0) /
                  static_cast<double>(n);
  }
  parts_.rule.observe(losses);
}

// The loss of each node's own model.
void OnlineTrainer::predict_own() {
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const auto sums = parts_.model.evaluate(row_of(theta_, node), batch.view());
    const double loss = sums.loss / static_cast<double>(sums.samples);
    numbers_of(node)[node_count() + kOwnLoss] = loss;
    if (!std::isfinite(loss)) {
      throw TrainingError(fmt::format("a node's model has a loss of {}", loss), node,
                          round_number(), "a smaller online.lr may help");
    }
  });
  mixed_loss_ = std::numeric_limits<double>::quiet_NaN();
}

// The losses of all models on the batches of this rank's nodes.
void OnlineTrainer::predict_all() {
  const auto n = node_count();
  std::vector<double> losses(batches_.size() * n);
  {
    const PhaseTimer timer(train_s_);
    attempt(failure_, [&] {
      std::vector<Batch> views;
      for (const auto& batch : batches_) views.push_back(batch.view());
      parts_.model.cross_losses(settings_.score_estimates ? gamma_ : theta_, views, losses);
    });
  }
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const auto numbers = numbers_of(node);
    const double* found = losses.data() + static_cast<std::size_t>(node - begin_) * n;
    double own = found[node];
    if (settings_.score_estimates) {
      own = parts_.model.evaluate(row_of(theta_, node), batch.view()).loss /
            static_cast<double>(batch.rows);
    }
    numbers[n + kOwnLoss] = own;
    numbers[n + kOwnUnitLoss] = checked_loss(own, node, node);
    for (std::size_t j = 0; j < n; ++j) {
      numbers[j] = checked_loss(found[j], node, static_cast<int64_t>(j));
    }
    numbers[n + kGap] = settings_.c > 0 ? mixing_gap(node) : 0;
  });
}

double OnlineTrainer::checked_loss(double loss, int64_t node, int64_t model) const {
  try {
    return unit_loss(loss, settings_.loss_scale);
  } catch (const InvalidArgument& error) {
    throw TrainingError(fmt::format("model {} on a node's batch: {}", model, error.what()), node,
                        round_number());
  }
}

// sum_j p_ij (theta_j - Gamma_j) . grad L_i(Gamma_j)
double OnlineTrainer::mixing_gap(int64_t node) {
  gradient_.resize(static_cast<std::size_t>(parts_.model.n_params()));
  const Batch batch = batches_[static_cast<std::size_t>(node - begin_)].view();
  double gap = 0;
  for (int64_t j = 0; j < nodes_; ++j) {
    const double weight = weights_[static_cast<std::size_t>(node * nodes_ + j)];
    if (weight == 0) continue;
    const auto mixed = row_of(theta_, j);
    const auto own = row_of(gamma_, j);
    RandomStream noise = noise_of(node, round_number());
    parts_.model.loss_and_gradient(own, batch, noise, gradient_);
    double product = 0;
    for (std::size_t k = 0; k < gradient_.size(); ++k) {
      product += (static_cast<double>(mixed[k]) - static_cast<double>(own[k])) *
                 static_cast<double>(gradient_[k]);
    }
    gap += weight * product;
  }
  return gap;
}

// Each node's model on the round's test batch.
void OnlineTrainer::score(std::vector<NodeReport>& reports) {
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const bool same = stream_.tests_on_training(node, round_number());
    if (!same) stream_.test(node, round_number(), test_batch_);
    const Batch test = (same ? batch : test_batch_).view();
    EvaluationSums sums;
    if (test.rows > 0) sums = parts_.model.evaluate(row_of(theta_, node), test);
    reports[static_cast<std::size_t>(node - begin_)] = {
        .loss = numbers_of(node)[node_count() + kOwnLoss],
        .correct = sums.correct,
        .samples = static_cast<double>(sums.samples)};
  });
}

RoundRecord OnlineTrainer::report(RankReport mine, double start_s) {
  std::vector<NodeReport> own(batches_.size());
  score(own);
  mine.train_s = train_s_;
  mine.wait_s = wait_s_;
  mine.failed = failure_ ? 1 : 0;
  const int64_t bytes_before = parts_.comm.bytes_moved();
  const auto nodes = parts_.comm.gatherv(std::span<const NodeReport>(own), 0);
  const auto ranks = parts_.comm.gatherv(std::span<const RankReport>(&mine, 1), 0);
  RoundRecord record{.round = round_number(), .participants = nodes_};
  record.mixed_loss = mixed_loss_;
  double bytes = static_cast<double>(parts_.comm.bytes_moved() - bytes_before);
  for (const RankReport& rank : ranks) {
    record.train_s = std::max(record.train_s, rank.train_s);
    record.comm_s = std::max(record.comm_s, rank.comm_s);
    record.wait_s = std::max(record.wait_s, rank.wait_s);
    record.stop_requested |= rank.stop > 0;
    record.failed |= rank.failed > 0;
    bytes += rank.bytes;
  }
  record.bytes_sent = static_cast<int64_t>(bytes);
  for (const NodeReport& node : nodes) record.loss += node.loss / static_cast<double>(nodes_);
  if (!record.failed) tell_nodes(nodes);
  ++completed_;
  record.seconds = monotonic_seconds() - start_s;
  return record;
}

}  // namespace hanse
