#include "hanse/protocol/online.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "attempt.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/client/evaluator.hpp"
#include "online/online_scores.hpp"
#include "online/peers.hpp"

namespace hanse {

namespace {

// Works with models: adds its time to `seconds`, keeps what it throws in `failure`.
template <class Work>
void compute(double& seconds, std::exception_ptr& failure, Work work) {
  const Scope phase(Phase::kTraining, seconds);
  const FlushSubnormals flush;
  attempt(failure, work);
}

int64_t checked_peers(int64_t peers, int64_t nodes) {
  if (peers > nodes) {
    throw InvalidArgument(
        fmt::format("{} peers are asked for, and there are {} nodes", peers, nodes), "online.peers",
        "0 mixes all of them");
  }
  return peers == 0 ? nodes : peers;
}

// Elements of each of the communicator's ranks when each of `nodes` has `width`.
std::vector<int64_t> counts_of(const Communicator& comm, int64_t nodes, int64_t width) {
  const int64_t ranks = comm.size();
  std::vector<int64_t> result;
  for (int64_t r = 0; r < ranks; ++r) {
    result.push_back((first_node(r + 1, ranks, nodes) - first_node(r, ranks, nodes)) * width);
  }
  return result;
}

// The random stream of a node's dropout in round t.
RandomStream noise_of(uint64_t seed, int64_t node, int64_t t) {
  return {seed, Purpose::kDropout, static_cast<uint64_t>(t), static_cast<uint64_t>(node)};
}

}  // namespace

OnlineTrainer::OnlineTrainer(Parts parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      stream_(parts.federation, settings_.stream, settings_.seed),
      nodes_(parts.federation.clients()) {
  settings_.peers = checked_peers(settings_.peers, nodes_);
  const int64_t ranks = parts_.comm.size();
  begin_ = first_node(parts_.comm.rank(), ranks, nodes_);
  end_ = first_node(parts_.comm.rank() + 1, ranks, nodes_);
  const auto n = node_count();
  const ParameterLayout& layout = parts_.model.layout();
  if (descends() && layout.n_trainable() < layout.n_params()) {
    throw InvalidArgument("omni-fedge moves models by gradients alone, and this one has buffers",
                          "model.kind", "group norm has no buffers");
  }
  theta_.resize(n * static_cast<std::size_t>(parts_.model.n_params()));
  gamma_.resize(theta_.size());
  mixture_ =
      std::make_unique<PeerMixture>(parts_.rule, nodes_, settings_.in_place, parts_.mix_rows);
  scores_ = std::make_unique<OnlineScores>(nodes_, parts_.rule.exchange(),
                                           parts_.federation.classes() > 0, settings_.loss_scale);
  batches_.resize(static_cast<std::size_t>(end_ - begin_));
  numbers_.resize(n * (n + kNumbers));
}

OnlineTrainer::~OnlineTrainer() = default;

std::span<float> OnlineTrainer::row_of(std::vector<float>& rows, int64_t node) const {
  const auto width = static_cast<std::size_t>(parts_.model.n_params());
  return std::span(rows).subspan(static_cast<std::size_t>(node) * width, width);
}

std::span<double> OnlineTrainer::numbers_of(int64_t node) {
  const std::size_t width = node_count() + kNumbers;
  return std::span(numbers_).subspan(static_cast<std::size_t>(node) * width, width);
}

// Calls work(node, its batch) for this rank's nodes.
template <class Work>
void OnlineTrainer::for_my_nodes(Work work) {
  compute(train_s_, failure_, [&] {
    for (int64_t node = begin_; node < end_; ++node) {
      work(node, batches_[static_cast<std::size_t>(node - begin_)]);
    }
  });
}

void OnlineTrainer::initialize_model() {
  const bool one_model = parts_.rule.exchange() == Exchange::kMean;
  for (int64_t node = 0; node < nodes_; ++node) {
    RandomStream stream(settings_.model_seed.value_or(settings_.seed), Purpose::kInitialize, 0,
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
  for_my_nodes(
      [&](int64_t node, StreamBatch& batch) { stream_.train(node, round_number(), batch); });
  if (descends()) {
    predict();
    descend();
  } else if (settings_.train_first) {
    train();
    mix();
    predict();
  } else {
    predict();
    train();
    mix();
  }
  const std::vector<NodeReport> own = score();
  RoundRecord record =
      report({.train_s = train_s_,
              .comm_s = parts_.comm.seconds() - comm_before_s - wait_s_,
              .wait_s = wait_s_,
              .stop = stop_requested ? 1.0 : 0.0,
              .failed = failure_ ? 1.0 : 0.0,
              .bytes = static_cast<double>(parts_.comm.bytes_moved() - bytes_before)},
             own);
  ++completed_;
  record.seconds = monotonic_seconds() - start_s;
  return record;
}

// Makes Gamma_i of this rank's nodes, and everybody's for rules that mix.
void OnlineTrainer::train() {
  std::vector<Batch> views;
  std::vector<Cohort::NoiseKey> keys;
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const auto from = row_of(theta_, node);
    std::copy(from.begin(), from.end(), row_of(gamma_, node).begin());
    views.push_back(batch.view());
    keys.push_back({settings_.seed, static_cast<uint64_t>(round_number()),
                    static_cast<uint64_t>(node)});  // of noise_of()
  });
  const auto width = static_cast<std::size_t>(parts_.model.n_params());
  const auto rows =
      std::span(gamma_).subspan(static_cast<std::size_t>(begin_) * width, views.size() * width);
  compute(train_s_, failure_, [&] { parts_.fit.fit_all(begin_, views, keys, rows); });
  if (parts_.rule.exchange() == Exchange::kNone) return;
  {
    const Scope phase(Phase::kWait, wait_s_);
    parts_.comm.barrier();
  }
  parts_.comm.allgatherv(std::span(gamma_),
                         counts_of(parts_.comm, nodes_, parts_.model.n_params()));
}

void OnlineTrainer::mix() {
  const Scope phase(Phase::kTraining, train_s_);
  RandomStream stream(settings_.seed, Purpose::kSampling, static_cast<uint64_t>(round_number()));
  mixture_->weigh(sample_peers(nodes_, settings_.peers, stream));
  mixture_->mix(gamma_, theta_);
}

void OnlineTrainer::descend() {
  std::vector<int64_t> all(node_count());
  std::iota(all.begin(), all.end(), int64_t{0});
  mixture_->weigh(all);
  for (const RowPart part : peer_steps(parts_.model)) {
    PeerGradients gradients(parts_.model, nodes_, part);
    for_my_nodes([&](int64_t node, StreamBatch& batch) {
      const RandomStream noise = noise_of(settings_.seed, node, round_number());
      try {
        gradients.add(node, batch.view(), theta_, mixture_->weights(), noise);
      } catch (const InvalidArgument& error) {
        throw Divergence(without_hint(error), node, round_number(), "a smaller online.lr may help");
      }
    });
    gradients.step(parts_.comm, settings_.lr, theta_);
  }
}

void OnlineTrainer::predict() {
  if (!compares_models(parts_.rule.exchange())) {
    predict_own();
    return;
  }
  predict_all();
  parts_.comm.allgatherv(std::span(numbers_), counts_of(parts_.comm, nodes_, nodes_ + kNumbers));
  const auto n = node_count();
  std::vector<double> losses;
  std::vector<double> own;
  for (int64_t node = 0; node < nodes_; ++node) {
    const auto numbers = numbers_of(node);
    losses.insert(losses.end(), numbers.begin(), numbers.begin() + nodes_);
    own.push_back(numbers[n + kOwnUnitLoss]);
    mixture_->allow(node, may_mix(numbers[n + kGap], settings_.c, stream_.horizon()));
  }
  if (parts_.comm.rank() == 0) scores_->add_losses(mixture_->weights(), losses, own);
  mixture_->observe(losses);
}

// Takes the loss of each node's own model.
void OnlineTrainer::predict_own() {
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const auto sums = parts_.model.evaluate(row_of(theta_, node), batch.view());
    const double loss = sums.loss / static_cast<double>(sums.samples);
    numbers_of(node)[node_count() + kOwnLoss] = loss;
    if (!std::isfinite(loss)) {
      throw Divergence(fmt::format("a node's model has a loss of {}", number_text(loss)), node,
                       round_number(), "a smaller online.lr may help");
    }
  });
}

// Takes the losses of all models on the batches of this rank's nodes.
void OnlineTrainer::predict_all() {
  const auto n = node_count();
  std::vector<double> losses(batches_.size() * n);
  compute(train_s_, failure_, [&] {
    std::vector<Batch> views;
    for (const auto& batch : batches_) views.push_back(batch.view());
    parts_.model.cross_losses(settings_.score_estimates ? gamma_ : theta_, views, losses);
  });
  for_my_nodes([&](int64_t node, StreamBatch& batch) {
    const auto numbers = numbers_of(node);
    const double* found = losses.data() + static_cast<std::size_t>(node - begin_) * n;
    const auto checked = [&](double loss, int64_t model) {
      const double scale = descends() ? kUnscaled : settings_.loss_scale;
      return checked_loss(loss, scale, node, model, round_number());
    };
    double own = found[node];
    if (settings_.score_estimates) {
      own = parts_.model.evaluate(row_of(theta_, node), batch.view()).loss /
            static_cast<double>(batch.rows);
    }
    numbers[n + kOwnLoss] = own;
    numbers[n + kOwnUnitLoss] = checked(own, node);
    for (std::size_t j = 0; j < n; ++j) {
      numbers[j] = checked(found[j], static_cast<int64_t>(j));
    }
    numbers[n + kGap] = settings_.c > 0 ? mixing_gap(node) : 0;
  });
}

// sum_j p_ij (theta_j - Gamma_j) . grad L_i(Gamma_j)
double OnlineTrainer::mixing_gap(int64_t node) {
  std::vector<float> gradient(static_cast<std::size_t>(parts_.model.n_params()));
  const Batch batch = batches_[static_cast<std::size_t>(node - begin_)].view();
  double gap = 0;
  for (int64_t j = 0; j < nodes_; ++j) {
    const double weight = mixture_->weight(node, j);
    if (weight == 0) continue;
    const auto mixed = row_of(theta_, j);
    const auto own = row_of(gamma_, j);
    RandomStream noise = noise_of(settings_.seed, node, round_number());
    parts_.model.loss_and_gradient(own, batch, noise, gradient);
    double product = 0;
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      product += (static_cast<double>(mixed[k]) - static_cast<double>(own[k])) *
                 static_cast<double>(gradient[k]);
    }
    gap += weight * product;
  }
  return gap;
}

// Scores each node's model on the round's test batch.
std::vector<NodeReport> OnlineTrainer::score() {
  std::vector<NodeReport> reports(batches_.size());
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
  return reports;
}

RoundRecord OnlineTrainer::report(const RankReport& mine, std::span<const NodeReport> own) {
  const int64_t bytes_before = parts_.comm.bytes_moved();
  const auto nodes = parts_.comm.gatherv(own, 0);
  const auto ranks = parts_.comm.gatherv(std::span<const RankReport>(&mine, 1), 0);
  RoundRecord record{.round = round_number(), .participants = nodes_};
  record.mixed_loss = scores_->mixed_loss();
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
  if (!record.failed) scores_->add_round(round_number(), nodes, mixture_->mixed());
  return record;
}

std::vector<TableLines> OnlineTrainer::take_lines() { return with_classes(scores_->take_lines()); }

Metrics OnlineTrainer::metrics() const {
  return scores_->metrics(completed_, settings_.peers == nodes_ ? settings_.eta : 0);
}

EvaluationTable OnlineTrainer::evaluate() {
  RowEvaluator evaluator(parts_.federation, parts_.model);
  std::vector<int64_t> nodes;
  EvaluationRequest request{.clients = {}, .asked = settings_.asked};
  for (const int64_t node : evaluated_clients(parts_.federation, settings_.asked, completed_)) {
    if (node < begin_ || node >= end_) continue;
    nodes.push_back(node);
    request.clients.push_back(stream_.source(node, std::max<int64_t>(completed_, 1)));
  }
  ClassCounts counts(parts_.federation.classes(), settings_.asked);
  const auto model_of = [&](std::size_t i) -> Evaluator& {
    return evaluator.at(row_of(theta_, nodes[i]));
  };
  auto found = hanse::evaluate(parts_.federation, request, model_of, &counts);
  keep(settings_.asked, counts, parts_.comm);
  if (parts_.comm.rank() == 0) scores_->add_weights(completed_, mixture_->weights());
  found.gather(parts_.comm, nodes);
  return found;
}

// Rules that mix leave every model on every rank; others bring them there now.
void OnlineTrainer::collect() {
  if (parts_.rule.exchange() != Exchange::kNone) return;
  parts_.comm.allgatherv(std::span(theta_),
                         counts_of(parts_.comm, nodes_, parts_.model.n_params()));
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

void OnlineTrainer::visit(StateFields& fields) {
  fields.one("rounds", completed_);
  fields.fixed("theta", theta_);
  if (keeps_estimates()) fields.fixed("gamma", gamma_);
  fields.same(*mixture_);
  fields.same(*scores_);
}

void OnlineTrainer::resume(const State& state) {
  load_everywhere(*this, state, parts_.comm);
  if (parts_.fit.remembers()) replay_stream();
}

// Gives the fit of each of this rank's nodes the batches of the completed rounds once more.
void OnlineTrainer::replay_stream() {
  std::vector<float> row(static_cast<std::size_t>(parts_.model.n_params()));
  StreamBatch batch;
  for (int64_t node = begin_; node < end_; ++node) {
    for (int64_t t = 1; t <= completed_; ++t) {
      stream_.train(node, t, batch);
      RandomStream noise = noise_of(settings_.seed, node, t);
      parts_.fit.fit(node, batch.view(), noise, row);
    }
  }
}

}  // namespace hanse
