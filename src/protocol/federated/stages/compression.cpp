#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

namespace {

using Entries = std::span<float>;

int64_t bytes_of_bits(int64_t bits) { return (bits + 7) / 8; }

RandomStream stream_of(const StagedUpdate& staged) {
  return {staged.seed, Purpose::kCompression, static_cast<uint64_t>(staged.round),
          static_cast<uint64_t>(staged.client)};
}

int64_t kept_entries(double keep, int64_t n) {
  if (keep >= 1 && keep != std::floor(keep)) {
    throw InvalidArgument(fmt::format("{} is neither a share nor a number", keep), "comm.keep",
                          "a share below 1, or a whole number");
  }
  const double wanted = keep < 1 ? std::round(keep * static_cast<double>(n)) : keep;
  return static_cast<int64_t>(
      std::clamp(wanted, 1.0, static_cast<double>(std::max<int64_t>(n, 1))));
}

// NaN counts as the largest: it is always sent, so that the server sees it and the run ends.
float magnitude(float value) { return std::isnan(value) ? INFINITY : std::abs(value); }

// Turns values that are to be sent into those that arrive.
class Compressor {
 public:
  virtual ~Compressor() = default;
  virtual void compress(Entries values, const StagedUpdate& staged) const = 0;
  virtual int64_t bytes(int64_t n) const = 0;  // of a message of n values
};

class TopK final : public Compressor {
 public:
  explicit TopK(double keep) : keep_(keep) {}

  void compress(Entries values, const StagedUpdate&) const override {
    const int64_t k = kept_entries(keep_, std::ssize(values));
    if (values.empty()) return;
    std::vector<int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    const auto before = [&](int64_t a, int64_t b) {
      const float left = magnitude(values[to_index(a)]), right = magnitude(values[to_index(b)]);
      return left != right ? left > right : a < b;
    };
    std::nth_element(order.begin(), order.begin() + k - 1, order.end(), before);
    for (auto i = to_index(k); i < order.size(); ++i) values[to_index(order[i])] = 0;
  }

  int64_t bytes(int64_t n) const override {
    const auto place_bits = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(n - 1)));
    return bytes_of_bits(kept_entries(keep_, n) * (32 + place_bits));
  }

 private:
  double keep_;
};

class RandomK final : public Compressor {
 public:
  RandomK(double keep, bool scales) : keep_(keep), scales_(scales) {}

  // Floyd's draw of k of n; the server knows the stream.
  void compress(Entries values, const StagedUpdate& staged) const override {
    const int64_t n = std::ssize(values), k = kept_entries(keep_, n);
    std::vector<char> chosen(values.size());
    RandomStream stream = stream_of(staged);
    for (int64_t j = n - k; j < n; ++j) {
      char& drawn = chosen[to_index(stream.below(j + 1))];
      (drawn ? chosen[to_index(j)] : drawn) = 1;
    }
    const auto scale =
        static_cast<float>(scales_ ? static_cast<double>(n) / static_cast<double>(k) : 1.0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = chosen[i] ? scale * values[i] : 0;
  }

  int64_t bytes(int64_t n) const override { return 4 * kept_entries(keep_, n); }

 private:
  double keep_;
  bool scales_;
};

class Sign final : public Compressor {
 public:
  void compress(Entries values, const StagedUpdate&) const override {
    double sum = 0;
    int64_t entries = 0;
    for (const float value : values) {
      sum += std::abs(static_cast<double>(value));
      entries += value != 0 ? 1 : 0;
    }
    if (entries == 0) return;
    const auto size = static_cast<float>(sum / static_cast<double>(entries));
    for (float& value : values) {
      if (value != 0) value = std::copysign(size, value);
    }
  }

  int64_t bytes(int64_t n) const override { return bytes_of_bits(n) + 4; }
};

class Quantize final : public Compressor {
 public:
  Quantize(int64_t bits, bool draws)
      : bits_(bits), levels_(static_cast<double>((int64_t{1} << (bits - 1)) - 1)), draws_(draws) {}

  void compress(Entries values, const StagedUpdate& staged) const override {
    double largest = 0;
    for (const float value : values) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    if (!(largest > 0) || std::isinf(largest)) return;
    RandomStream stream = stream_of(staged);
    for (float& value : values) {
      const double level = std::abs(static_cast<double>(value)) / largest * levels_;
      const double whole = std::floor(level + (draws_ ? stream.uniform() : 0.5));
      value =
          std::copysign(static_cast<float>(std::min(whole, levels_) * largest / levels_), value);
    }
  }

  int64_t bytes(int64_t n) const override { return bytes_of_bits(n * bits_) + 4; }

 private:
  int64_t bits_;
  double levels_;  // above 0
  bool draws_;
};

// Null: nothing is compressed.
std::unique_ptr<Compressor> make_compressor(const CompressionOptions& options) {
  const bool feedback = options.error_feedback;
  switch (options.compress) {
    case Compress::kNone: break;
    case Compress::kTopK: return std::make_unique<TopK>(options.keep);
    case Compress::kRandomK: return std::make_unique<RandomK>(options.keep, !feedback);
    case Compress::kSign: return std::make_unique<Sign>();
    case Compress::kQuantize: return std::make_unique<Quantize>(options.bits, !feedback);
  }
  return nullptr;
}

class Compression final : public UpdateStage {
 public:
  Compression(const CompressionOptions& options, const ParameterLayout& layout)
      : compressor_(make_compressor(options)),
        feedback_(options.error_feedback),
        n_(layout.n_trainable()),
        buffers_(layout.n_params() - layout.n_trainable()) {
    kept_entries(options.keep, n_);
  }

  std::vector<StateBlock> state_blocks() const override {
    if (!feedback_) return {};
    return {{"left out", n_}};
  }

  void apply(const StagedUpdate& staged) override {
    const Entries sent = staged.update.first(to_index(n_));
    if (!feedback_) return compressor_->compress(sent, staged);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] += staged.state[i];
      staged.state[i] = sent[i];
    }
    compressor_->compress(sent, staged);
    for (std::size_t i = 0; i < sent.size(); ++i) staged.state[i] -= sent[i];
  }

  int64_t update_bytes(int64_t) const override { return compressor_->bytes(n_) + 4 * buffers_; }

 private:
  std::unique_ptr<const Compressor> compressor_;
  bool feedback_;
  int64_t n_, buffers_;
};

}  // namespace

std::unique_ptr<UpdateStage> make_compression(const CompressionOptions& options,
                                              const ParameterLayout& layout) {
  if (options.compress == Compress::kNone) return nullptr;
  return std::make_unique<Compression>(options, layout);
}

}  // namespace hanse
