#include "hanse/client/second_order.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conjugate_gradients.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/rules/newton/symmetric.hpp"

namespace hanse {

namespace {

constexpr int64_t kChunk = 256;  // samples, for the memory of a network's activations

// f(x) = mean loss on the client's training samples + weight_decay/2 |x|^2, and its derivatives.
// Samples pass in chunks of one size, sums over chunks are float64 in their order: the bits do not
// depend on who else trained here. Memory: the samples as floats, and two rows.
class LocalObjective {
 public:
  // Throws InvalidArgument, naming `update`, when the model has no Hessian. `federation` and
  // `model` must outlive the object.
  LocalObjective(const ClientOptions& options, const Federation& federation, Model& model,
                 const std::string& update)
      : weight_decay_(options.weight_decay),
        federation_(federation),
        model_(model),
        product_(to_index(model.n_params())),
        direction_(product_.size()) {
    if (model.has_hessian()) return;
    throw InvalidArgument(
        fmt::format("{} needs the Hessian of the loss, {}", update, model.why_no_hessian()),
        "client.update",
        "use model.kind = linear, mlp, a cnn without dropout or lenet, or another update");
  }

  // Everything below is about this client at this row [P], which must stay where it is.
  void move_to(int64_t client, std::span<const float> row) {
    row_ = row;
    range_ = federation_.train(client);
    features_.resize(to_index(samples() * federation_.sample_values()));
    federation_.copy(range_, features_.data());
  }

  int64_t samples() const { return range_.size(); }
  std::size_t size() const { return product_.size(); }  // P

  // gradient [P] <- grad f; returns the mean loss, without the penalty.
  double gradient(std::span<double> gradient) {
    std::copy(row_.begin(), row_.end(), gradient.begin());
    RandomStream no_dropout(0, Purpose::kDropout);
    double loss = 0;
    sum_over_chunks(gradient, [&](const Batch& batch, double share) {
      loss += share * model_.loss_and_gradient(row_, batch, no_dropout, product_);
    });
    return loss;
  }

  // out [P] <- hess f v
  void hessian_vector(std::span<const double> v, std::span<double> out) {
    std::transform(v.begin(), v.end(), direction_.begin(),
                   [](double value) { return static_cast<float>(value); });
    std::copy(v.begin(), v.end(), out.begin());
    sum_over_chunks(out, [&](const Batch& batch, double) {
      model_.hessian_vector(row_, batch, direction_, product_);
    });
  }

 private:
  // out <- the penalty's share of it, weight_decay out, + sum over chunks of their share of the
  // samples times derivative(batch, share), which leaves its mean over the batch in product_.
  template <class Derivative>
  void sum_over_chunks(std::span<double> out, Derivative derivative) {
    for (double& value : out) value *= weight_decay_;
    const float* features = features_.data();
    for (int64_t begin = range_.begin; begin < range_.end; begin += kChunk) {
      const SampleRange chunk{begin, std::min(begin + kChunk, range_.end)};
      const Batch batch = batch_of(federation_, chunk, features);
      features += chunk.size() * federation_.sample_values();
      const double share = static_cast<double>(batch.rows) / static_cast<double>(samples());
      derivative(batch, share);
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] += share * static_cast<double>(product_[i]);
      }
    }
  }

  double weight_decay_;
  const Federation& federation_;
  Model& model_;
  std::span<const float> row_;
  SampleRange range_;
  std::vector<float> features_;   // [samples, values of a sample]
  std::vector<float> product_;    // [P] of a chunk
  std::vector<float> direction_;  // [P]
};

class FedNew final : public LocalUpdate {
 public:
  FedNew(const ClientOptions& options, const Federation& federation, Model& model)
      : LocalUpdate({{"dual", model.n_params()}, {"direction", model.n_params()}},
                    RoundSteps(options)),
        options_(options.second_order),
        objective_(options, federation, model, "fednew"),
        wanted_(objective_.size()),
        direction_(objective_.size()) {}

  int64_t control_width() const override { return static_cast<int64_t>(wanted_.size()); }
  bool sends_direction() const override { return true; }

  ClientOutcome train(const ClientTask& task) override {
    const std::span<const float> mean = task.control;  // y
    const std::span<float> dual = block(task.state, "dual");
    const std::span<float> own = block(task.state, "direction");  // y_i
    const double rho = options_.rho;
    objective_.move_to(task.client, task.row);
    const double loss = objective_.gradient(wanted_);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      dual[i] += static_cast<float>(rho) * (own[i] - mean[i]);
      wanted_[i] += rho * static_cast<double>(mean[i]) - static_cast<double>(dual[i]);
    }
    direction_.assign(own.begin(), own.end());
    solve();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      own[i] = static_cast<float>(direction_[i]);
      task.control_change[i] = own[i] - mean[i];  // their weights sum to 1: y becomes the mean y_i
      task.row[i] = -own[i];
    }
    return {.loss = loss, .samples = objective_.samples()};
  }

 private:
  // (H_i + (alpha + rho) I) y_i = g_i - lambda_i + rho y
  void solve() {
    const double shift = options_.alpha + options_.rho;
    const auto damped = [&](std::span<const double> v, std::span<double> out) {
      objective_.hessian_vector(v, out);
      for (std::size_t i = 0; i < v.size(); ++i) out[i] += shift * v[i];
    };
    conjugate_gradients(damped, wanted_, options_.tolerance, options_.iterations, direction_);
  }

  SecondOrderOptions options_;
  LocalObjective objective_;
  std::vector<double> wanted_;     // [P] the right-hand side
  std::vector<double> direction_;  // [P] y_i
};

class FedNl final : public LocalUpdate {
 public:
  FedNl(const ClientOptions& options, const Federation& federation, Model& model)
      : LocalUpdate({{"hessian", packed_size(model.n_params())}, {"known", 1}},
                    RoundSteps(options)),
        options_(options.second_order),
        objective_(options, federation, model, "fednl"),
        d_(model.n_params()),
        gradient_(objective_.size()),
        columns_(gradient_.size() * gradient_.size()),
        packed_(to_index(packed_size(d_))) {}

  int64_t control_width() const override { return packed_size(d_) + 1; }
  bool control_returns() const override { return false; }
  bool sends_direction() const override { return true; }

  ClientOutcome train(const ClientTask& task) override {
    objective_.move_to(task.client, task.row);
    const double loss = objective_.gradient(gradient_);
    measure_hessian();
    float& known = block(task.state, "known").front();
    const bool whole = known == 0 && options_.hessian_start == HessianStart::kHessian;
    task.control_change.back() = correct(block(task.state, "hessian"), task.control_change, whole);
    known = 1;
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      task.row[i] = static_cast<float>(-gradient_[i]);
    }
    return {.loss = loss, .samples = objective_.samples()};
  }

 private:
  // packed_ <- hess f_i, column by column; what rounding left of asymmetry is averaged out.
  void measure_hessian() {
    const std::size_t d = gradient_.size();
    std::vector<double> unit(d);
    for (std::size_t j = 0; j < d; ++j) {
      unit[j] = 1;
      objective_.hessian_vector(unit, std::span(columns_).subspan(j * d, d));
      unit[j] = 0;
    }
    double* next = packed_.data();
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = i; j < d; ++j) *next++ = (columns_[i * d + j] + columns_[j * d + i]) / 2;
    }
  }

  // Moves H_i [P (P + 1)/2] towards packed_ and leaves by how much in `change`. Returns l_i.
  float correct(std::span<float> h, std::span<float> change, bool whole) {
    for (std::size_t i = 0; i < h.size(); ++i) packed_[i] -= static_cast<double>(h[i]);
    const double distance = whole ? 0 : frobenius_norm(packed_, d_);
    if (!whole) compress();
    const double rate = whole ? 1 : options_.hessian_rate;
    for (std::size_t i = 0; i < h.size(); ++i) {
      const float before = h[i];
      h[i] = static_cast<float>(static_cast<double>(before) + rate * packed_[i]);
      change[i] = h[i] - before;
    }
    return static_cast<float>(distance);
  }

  void compress() {
    if (options_.compressor == Compressor::kRank) return compress_rank(packed_, d_, options_.rank);
    compress_top(packed_, options_.top > 0 ? options_.top : 8 * d_);
  }

  SecondOrderOptions options_;
  LocalObjective objective_;
  int64_t d_;                     // P
  std::vector<double> gradient_;  // [P]
  std::vector<double> columns_;   // [P, P] of the Hessian
  std::vector<double> packed_;    // [P (P + 1)/2]
};

}  // namespace

std::unique_ptr<LocalUpdate> make_fednew(const ClientOptions& options, const Federation& federation,
                                         Model& model) {
  return std::make_unique<FedNew>(options, federation, model);
}

std::unique_ptr<LocalUpdate> make_fednl(const ClientOptions& options, const Federation& federation,
                                        Model& model) {
  if (model.n_params() > kMostNewtonParameters) {
    throw InvalidArgument(
        fmt::format("fednl keeps a Hessian a client: it takes up to {} parameters, the model has "
                    "{}",
                    kMostNewtonParameters, model.n_params()),
        "client.update", "client.update = fednew has no such bound");
  }
  return std::make_unique<FedNl>(options, federation, model);
}

}  // namespace hanse
