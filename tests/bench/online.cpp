// What a round of Fed-Exp costs, and what it costs in a plain loop over nodes and models: the same
// streams, steps, mixtures and losses, one product at a time, in cblas and in at:: operators.
//   hanse-bench-online JOB.cfg [--section.key=value ...]
// prints {"rounds": n, "hanse": x, "cblas": y, "aten": z, "difference": d}: median seconds of
// processor time a round, and the largest difference of a parameter between the three at the end.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <ATen/ATen.h>
#include <cblas.h>
#include <fmt/format.h>
#include <time.h>

#include "bench_job.hpp"
#include "hanse/base/error.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/protocol/stream.hpp"
#include "hanse/run/assembly.hpp"

namespace {

using namespace hanse;

// Fed-Exp's listing; how a model learns, mixes and predicts is left to the loop's kind.
class Loop {
 public:
  Loop(const Job& job, Assembly& parts)
      : job_(job),
        n_(static_cast<int>(parts.federation.clients())),
        inputs_(static_cast<int>(parts.federation.sample_values())),
        outputs_(static_cast<int>(parts.federation.classes())),
        width_(outputs_ * (inputs_ + 1)),
        eta_(online_eta(job.online, n_, job.online.horizon)),
        stream_(parts.federation, {.horizon = job.online.horizon},
                static_cast<uint64_t>(job.run.seed)),
        theta_(static_cast<std::size_t>(n_ * width_)),
        gamma_(theta_.size()),
        log_weights_(static_cast<std::size_t>(n_ * n_)),
        batches_(static_cast<std::size_t>(n_)) {
    parts.protocol().initialize_model();
    const auto row = parts.protocol().model_row();
    std::copy(row.begin(), row.end(), theta_.begin());
  }
  virtual ~Loop() = default;

  void round(int64_t t) {
    for (int i = 0; i < n_; ++i) stream_.train(i, t, batches_[static_cast<std::size_t>(i)]);
    for (int i = 0; i < n_; ++i) {
      std::copy_n(row(theta_, i), width_, row(gamma_, i));
      learn(row(gamma_, i), batches_[static_cast<std::size_t>(i)]);
    }
    for (int i = 0; i < n_; ++i) mix(weights_of(i), row(theta_, i));
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        const double loss = loss_of(row(theta_, j), batches_[static_cast<std::size_t>(i)]);
        log_weights_[static_cast<std::size_t>(i * n_ + j)] -=
            eta_ * std::min(1.0, loss / job_.online.loss_scale);
      }
    }
  }

  const std::vector<float>& theta() const { return theta_; }

 protected:
  virtual void learn(float* row, const StreamBatch& batch) = 0;
  virtual void mix(const std::vector<float>& p, float* row) = 0;  // of the rows of gamma_
  virtual double loss_of(const float* row, const StreamBatch& batch) = 0;

  float* row(std::vector<float>& rows, int i) const { return rows.data() + i * width_; }
  std::vector<float> weights_of(int i) const {
    const double* log_weights = log_weights_.data() + i * n_;
    const double largest = *std::max_element(log_weights, log_weights + n_);
    std::vector<float> p;
    double sum = 0;
    for (int j = 0; j < n_; ++j) sum += std::exp(log_weights[j] - largest);
    for (int j = 0; j < n_; ++j) {
      p.push_back(static_cast<float>(std::exp(log_weights[j] - largest) / sum));
    }
    return p;
  }

  const Job& job_;
  int n_, inputs_, outputs_, width_;
  double eta_;
  Stream stream_;
  std::vector<float> theta_, gamma_;  // [N, P]
  std::vector<double> log_weights_;   // [N, N]
  std::vector<StreamBatch> batches_;
};

class CblasLoop final : public Loop {
 public:
  using Loop::Loop;

 private:
  // z [rows, outputs] = x W' + b
  void forward(const float* row, const StreamBatch& batch) {
    const int rows = static_cast<int>(batch.rows);
    z_.resize(static_cast<std::size_t>(rows * outputs_));
    for (int r = 0; r < rows; ++r) {
      std::copy_n(row + outputs_ * inputs_, outputs_, z_.data() + r * outputs_);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outputs_, inputs_, 1,
                batch.features.data(), inputs_, row, inputs_, 1, z_.data(), outputs_);
  }

  // Sum of the losses; z becomes the probabilities.
  double softmax(const StreamBatch& batch) {
    double loss = 0;
    for (int r = 0; r < static_cast<int>(batch.rows); ++r) {
      float* z = z_.data() + r * outputs_;
      const float largest = *std::max_element(z, z + outputs_);
      const float right = z[batch.labels[static_cast<std::size_t>(r)]] - largest;
      float sum = 0;
      for (int c = 0; c < outputs_; ++c) sum += z[c] = std::exp(z[c] - largest);
      for (int c = 0; c < outputs_; ++c) z[c] /= sum;
      loss += static_cast<double>(std::log(sum) - right);
    }
    return loss;
  }

  void learn(float* row, const StreamBatch& batch) override {
    const int rows = static_cast<int>(batch.rows);
    const auto rate = static_cast<float>(-job_.online.lr / static_cast<double>(rows));
    forward(row, batch);
    softmax(batch);
    for (int r = 0; r < rows; ++r) {
      z_[static_cast<std::size_t>(r * outputs_ + batch.labels[static_cast<std::size_t>(r)])] -= 1;
      cblas_saxpy(outputs_, rate, z_.data() + r * outputs_, 1, row + outputs_ * inputs_, 1);
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs_, inputs_, rows, rate, z_.data(),
                outputs_, batch.features.data(), inputs_, 1, row, inputs_);
  }

  void mix(const std::vector<float>& p, float* row) override {
    cblas_sgemv(CblasRowMajor, CblasTrans, n_, width_, 1, gamma_.data(), width_, p.data(), 1, 0,
                row, 1);
  }

  double loss_of(const float* row, const StreamBatch& batch) override {
    forward(row, batch);
    return softmax(batch) / static_cast<double>(batch.rows);
  }

  std::vector<float> z_;  // [rows, outputs]
};

class AtenLoop final : public Loop {
 public:
  using Loop::Loop;

 private:
  struct View {
    at::Tensor weight, bias, x, labels;
  };
  View view(const float* row, const StreamBatch& batch) const {
    auto* data = const_cast<float*>(row);
    const auto labels =
        at::from_blob(const_cast<int32_t*>(batch.labels.data()), {batch.rows}, at::kInt);
    return {at::from_blob(data, {outputs_, inputs_}),
            at::from_blob(data + outputs_ * inputs_, {outputs_}),
            at::from_blob(const_cast<float*>(batch.features.data()), {batch.rows, inputs_}),
            labels.to(at::kLong)};
  }

  void learn(float* row, const StreamBatch& batch) override {
    View v = view(row, batch);
    at::Tensor delta = at::softmax(at::linear(v.x, v.weight, v.bias), 1);
    delta.sub_(at::one_hot(v.labels, outputs_));
    const double rate = -job_.online.lr / static_cast<double>(batch.rows);
    v.weight.addmm_(delta.t(), v.x, 1, rate);
    v.bias.add_(delta.sum(0), rate);
  }

  void mix(const std::vector<float>& p, float* row) override {
    const auto share = at::from_blob(const_cast<float*>(p.data()), {n_});
    at::from_blob(row, {width_})
        .copy_(at::matmul(share, at::from_blob(gamma_.data(), {n_, width_})));
  }

  double loss_of(const float* row, const StreamBatch& batch) override {
    const View v = view(row, batch);
    return at::cross_entropy_loss(at::linear(v.x, v.weight, v.bias), v.labels).item<double>();
  }
};

// The time of this thread: all three use one, and other programs' turns do not count.
template <class Work>
double processor_seconds(Work work) {
  const auto now_s = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double start_s = now_s();
  work();
  return now_s() - start_s;
}

double median(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) try {
  KeyedJob job(catalog());
  load_bench_job(argc, argv, job);
  const at::NoGradGuard no_gradients;
  const auto comm = make_single_communicator();
  if (job.run.protocol != "online") {
    throw InvalidArgument("hanse-bench-online needs run.protocol = online");
  }
  const auto parts = assemble(job, *comm);
  Protocol& online = parts->protocol();
  CblasLoop cblas(job, *parts);
  AtenLoop aten(job, *parts);
  std::vector<double> hanse_s, cblas_s, aten_s;
  // By turns, so that what else the machine does hits all three; some rounds at a time, so that
  // each finds its rows in the caches.
  constexpr int64_t kTurn = 10;
  for (int64_t first = 1; first <= job.run.rounds; first += kTurn) {
    const int64_t end = std::min(first + kTurn, job.run.rounds + 1);
    const auto turn = [&](std::vector<double>& seconds, auto round) {
      for (int64_t t = first; t < end; ++t) {
        seconds.push_back(processor_seconds([&] { round(t); }));
      }
    };
    turn(hanse_s, [&](int64_t) { online.round(false); });
    turn(cblas_s, [&](int64_t t) { cblas.round(t); });
    turn(aten_s, [&](int64_t t) { aten.round(t); });
  }
  if (online.failure()) std::rethrow_exception(online.failure());
  const auto rows = online.model_row();
  fmt::print(
      "{{\"rounds\": {}, \"hanse\": {:.9g}, \"cblas\": {:.9g}, \"aten\": {:.9g}, "
      "\"difference\": {:.3g}}}\n",
      job.run.rounds, median(hanse_s), median(cblas_s), median(aten_s),
      std::max(largest_difference(rows, cblas.theta()), largest_difference(rows, aten.theta())));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hanse-bench-online: error: %s\n", error.what());
  return 2;
}
