#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "hanse/base/decay.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

int64_t local_steps(const ClientOptions& options, int64_t samples) {
  if (options.steps > 0) return options.steps;
  const int64_t batch = options.batch > 0 ? std::min(options.batch, samples) : samples;
  return options.epochs * ((samples + batch - 1) / batch);
}

double learning_rate(const ClientOptions& options, int64_t round) {
  return stepwise_decay(options.lr, options.lr_decay, options.lr_decay_every, round);
}

double propfair_slope(const PropfairOptions& options, double loss) {
  if (options.base <= 0) return 1;
  const double room = options.base - loss;  // M - F
  if (room >= PropfairOptions::kLeastRoom) return 1 / room;
  return 1 / (options.reference ? options.base : PropfairOptions::kLeastRoom);
}

namespace {

// Hands out a client's samples in mini-batches, in a fresh order every pass.
class BatchStream {
 public:
  explicit BatchStream(const Federation& federation) : federation_(federation) {}

  void start(SampleRange range, int64_t batch, RandomStream shuffle) {
    range_ = range;
    batch_ = batch > 0 ? std::min(batch, range.size()) : range.size();
    shuffle_ = shuffle;
    order_.resize(static_cast<std::size_t>(range.size()));
    std::iota(order_.begin(), order_.end(), 0);
    next_ = range.size();
    features_.resize(static_cast<std::size_t>(batch_ * federation_.sample_values()));
    labels_.resize(federation_.labels().empty() ? 0 : static_cast<std::size_t>(batch_));
    targets_.resize(federation_.targets().empty() ? 0 : static_cast<std::size_t>(batch_));
  }

  // The next batch; the last one of a pass may be smaller. Valid until the next call.
  Batch next() {
    if (next_ == range_.size()) {
      shuffle_.shuffle(std::span(order_));
      next_ = 0;
    }
    const auto chosen = upcoming();
    const auto rows = static_cast<int64_t>(chosen.size());
    federation_.gather(range_.begin, chosen, features_.data());
    next_ += rows;
    federation_.prefetch(range_.begin, upcoming());  // arrives while this batch is computed
    pick(federation_.labels(), chosen, labels_);
    pick(federation_.targets(), chosen, targets_);
    return {.features = features_.data(),
            .labels = labels_.empty() ? nullptr : labels_.data(),
            .targets = targets_.empty() ? nullptr : targets_.data(),
            .rows = rows};
  }

 private:
  // The rows of order_ that come next in this pass.
  std::span<const int32_t> upcoming() const {
    const int64_t rows = std::min(batch_, range_.size() - next_);
    return {order_.data() + next_, static_cast<std::size_t>(rows)};
  }

  template <class T>
  void pick(std::span<const T> all, std::span<const int32_t> chosen, std::vector<T>& out) const {
    if (all.empty()) return;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      out[i] = all[static_cast<std::size_t>(range_.begin + chosen[i])];
    }
  }

  const Federation& federation_;
  SampleRange range_;
  int64_t batch_ = 1;
  int64_t next_ = 0;  // first sample of order_ not handed out in this pass
  RandomStream shuffle_{0, Purpose::kShuffle};
  std::vector<int32_t> order_;   // [samples of the client]
  std::vector<float> features_;  // [batch, values of a sample]
  std::vector<int32_t> labels_;  // [batch]
  std::vector<float> targets_;   // [batch]
};

class Sgd final : public LocalUpdate {
 public:
  Sgd(const ClientOptions& options, const Federation& federation, Model& model)
      : options_(options), federation_(federation), model_(model), batches_(federation) {
    const auto n = static_cast<std::size_t>(model.n_params());
    if (options.momentum > 0) velocity_.resize(n);
    if (proximal()) origin_.resize(n);
    if (needs_gradient()) gradient_.resize(n);
  }

  ClientOutcome train(const ClientTask& task) override {
    const auto round = static_cast<uint64_t>(task.round);
    const auto client = static_cast<uint64_t>(task.client);
    const SampleRange range = federation_.train(task.client);
    RandomStream noise(task.seed, Purpose::kDropout, round, client);
    batches_.start(range, options_.batch,
                   RandomStream(task.seed, Purpose::kShuffle, round, client));
    std::fill(velocity_.begin(), velocity_.end(), 0.0F);
    if (proximal()) std::copy(task.row.begin(), task.row.end(), origin_.begin());
    const double lr = learning_rate(options_, task.round);
    const int64_t steps = local_steps(options_, range.size());
    ClientOutcome outcome;
    for (int64_t step = 0; step < steps; ++step) {
      const Batch batch = batches_.next();
      outcome.loss += needs_gradient()
                          ? gradient_step(task.row, batch, noise, lr)
                          : model_.sgd_step(task.row, batch, noise, lr, options_.weight_decay);
      outcome.samples += batch.rows;
    }
    outcome.loss /= static_cast<double>(steps);
    return outcome;
  }

 private:
  bool proximal() const { return options_.kind == "prox"; }
  bool needs_gradient() const {
    return options_.momentum > 0 || options_.clip > 0 || options_.propfair.base > 0 || proximal();
  }

  // h = s(F) g, the objective's gradient;
  // g <- h min(1, clip/|h|) + wd w + mu (w - theta);  v <- momentum v + g;  w <- w - lr v
  double gradient_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    const double slope = propfair_slope(options_.propfair, loss);
    const auto scale = static_cast<float>(slope * clip_scale(slope));
    const auto rate = static_cast<float>(lr);
    const auto decay = static_cast<float>(options_.weight_decay);
    const auto momentum = static_cast<float>(options_.momentum);
    const auto mu = static_cast<float>(options_.mu);
    for (std::size_t i = 0; i < row.size(); ++i) {
      float direction = scale * gradient_[i] + decay * row[i];
      if (!origin_.empty()) direction += mu * (row[i] - origin_[i]);
      if (!velocity_.empty()) direction = velocity_[i] = momentum * velocity_[i] + direction;
      row[i] -= rate * direction;
    }
    return loss;
  }

  double clip_scale(double slope) const {
    if (options_.clip <= 0) return 1;
    double squared = 0;
    for (const float g : gradient_) squared += static_cast<double>(g) * static_cast<double>(g);
    const double norm = slope * std::sqrt(squared);
    return norm > options_.clip ? options_.clip / norm : 1;
  }

  ClientOptions options_;
  const Federation& federation_;
  Model& model_;
  BatchStream batches_;
  std::vector<float> gradient_;  // [P] when something needs it
  std::vector<float> velocity_;  // [P] when there is momentum
  std::vector<float> origin_;    // [P] the received model, for the proximal term
};

}  // namespace

std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model) {
  return std::make_unique<Sgd>(options, federation, model);
}

}  // namespace hanse
