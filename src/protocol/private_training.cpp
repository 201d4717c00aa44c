#include "hanse/protocol/private_training.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "correlated_sums.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/private_sum.hpp"

namespace hanse {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A node of a tree has a number of its own among all rounds' nodes.
int64_t number_of(const TreeNode& node, int64_t first_round) {
  constexpr int kLevelBits = 48;
  return (static_cast<int64_t>(node.level) << kLevelBits) + first_round + node.end;
}

}  // namespace

PrivateTraining::PrivateTraining(PrivacySetup setup, Communicator& comm, int64_t n_params)
    : setup_(std::move(setup)),
      comm_(comm),
      rounds_(setup_.options, setup_.terms, setup_.rounds),
      integers_(to_index(n_params)) {
  if (rounds_.numerators().empty()) return;
  correlated_ = std::make_unique<CorrelatedSums>(rounds_.numerators(), setup_.seed, comm, n_params);
}

PrivateTraining::~PrivateTraining() = default;

RandomStream PrivateTraining::noise_stream(int64_t number, int64_t block) const {
  return {setup_.seed, Purpose::kNoise, static_cast<uint64_t>(number),
          static_cast<uint64_t>(block)};
}

void PrivateTraining::begin(UpdateSum& sum) {
  round_ = rounds_.next();
  counts_ = {};
  signal_ = kUnknown;
  const int64_t number = rounds_.finished() + 1;
  if (correlated_) correlated_->begin(number);
  if (round_.count_variance > 0 && comm_.rank() == 0) {
    RandomStream words(setup_.seed, Purpose::kCount, static_cast<uint64_t>(number));
    Noise(Mechanism::kDiscreteGaussian, round_.count_variance)
        .add(words, std::span(&counts_.within, 1));
  }
  if (setup_.options.is_distributed() || round_.variance == 0) return;
  const Noise noise(setup_.options.mechanism, round_.variance);
  const auto entries = sum.integers(0, sum.size());
  if (rounds_.tree_rounds() > 0) return add_tree(noise, entries);
  add_noise(
      noise, [&](int64_t block) { return noise_stream(number, block); }, comm_.rank(), comm_.size(),
      0, entries);
}

// The noise of a round is that of the nodes that come, less that of the nodes that go.
void PrivateTraining::add_tree(const Noise& noise, std::span<int64_t> entries) const {
  const int64_t length = rounds_.tree_rounds();
  const int64_t first = rounds_.finished() / length * length;
  const TreeStep step = tree_step(rounds_.finished() - first + 1);
  const auto add_node = [&](const TreeNode& node, std::span<int64_t> to) {
    const int64_t number = number_of(node, first);
    add_noise(
        noise, [&](int64_t block) { return noise_stream(number, block); }, comm_.rank(),
        comm_.size(), 0, to);
  };
  add_node(step.added, entries);
  if (step.removed.empty()) return;
  std::vector<int64_t> removed(entries.size());
  for (const TreeNode& node : step.removed) add_node(node, removed);
  add_encoded(removed, -1, entries);
}

FoldResult PrivateTraining::take(int64_t client, std::span<const float> update, UpdateSum& sum) {
  const ClippedUpdate clipped =
      clip_to_lattice(update, setup_.weight(client), round_.lattice, integers_);
  const FoldResult result{clipped.norm * clipped.norm, std::isfinite(clipped.norm)};
  if (!result.in_range) return result;
  ++counts_.updates;
  counts_.zeroed += clipped.is_zeroed ? 1 : 0;
  if (setup_.options.audit) counts_.clipped += clipped.is_clipped ? 1 : 0;
  if (round_.count_variance > 0) {
    counts_.within += AdaptiveClip::bit(clipped.norm, round_.lattice.clip());
  }
  if (setup_.options.is_distributed() && round_.variance > 0) {
    constexpr int kClientBits = 32;
    const auto stream = [&](int64_t block) {
      return noise_stream(rounds_.finished() + 1, client + (block << kClientBits));
    };
    add_noise(Noise(setup_.options.mechanism, round_.variance), stream, 0, 1, 0, integers_);
  }
  if (correlated_) {
    correlated_->add(integers_);
  } else {
    sum.add_integers(integers_);
  }
  return result;
}

void PrivateTraining::close(UpdateSum& sum) {
  if (correlated_) correlated_->encode(rounds_.finished() + 1, sum.integers(0, sum.size()));
}

// n, by which a sum becomes a mean: public, whoever came.
double PrivateTraining::divisor() const {
  return static_cast<double>(rounds_.expected()) * setup_.mean_weight;
}

void PrivateTraining::read(UpdateSum& sum, std::span<float> mean) {
  const double step = step_of_sum(round_.lattice, divisor());
  const auto entries = sum.integers(0, sum.size());
  if (correlated_) {
    const auto estimate = correlated_->decode(entries);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = static_cast<float>(step * estimate[i]);
    }
  } else {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = static_cast<float>(step * static_cast<double>(entries[i]));
    }
  }
  sum.clear();
  note_signal(mean);
}

// What is longer than the noise is expected to be is the updates'. It follows from the released
// sum, and tells no more than that.
void PrivateTraining::note_signal(std::span<const float> mean) {
  if (rounds_.options().correlation != Correlation::kNone || round_.deviation == 0) return;
  double squares = 0;
  for (const float entry : mean) squares += static_cast<double>(entry) * static_cast<double>(entry);
  const double noise = round_.deviation / divisor();
  squares /= noise * noise * static_cast<double>(mean.size());
  signal_ = std::sqrt(std::max(0.0, squares - 1));
}

void PrivateTraining::finish() {
  std::array all{counts_.within, counts_.updates, counts_.zeroed, counts_.clipped};
  comm_.allreduce(std::span(all), ReduceOp::kSum);
  last_ = {all[0], all[1], all[2], all[3]};
  rounds_.finish(setup_.options.is_distributed() ? last_.updates : 1, last_.within);
  if (comm_.rank() != 0) return;
  epsilon_ = rounds_.epsilon();
  if (last_.zeroed > 0) {
    warning(
        fmt::format("round {}: {} updates were left out, as no rounding kept them within the "
                    "clip",
                    rounds_.finished(), last_.zeroed));
  }
}

std::string PrivateTraining::end() const {
  const double most = setup_.options.max_epsilon;
  if (most == 0 || rounds_.next_epsilon() <= most) return "";
  return fmt::format("a further round would exceed privacy.max-epsilon = {}", most);
}

Metrics PrivateTraining::numbers() const {
  Metrics metrics{{"privacy_epsilon", epsilon_},
                  {"clip", round_.lattice.clip()},
                  {"noise_sd", round_.deviation},
                  {"signal_to_noise", signal_}};
  if (setup_.options.clip_kind == ClipKind::kAdaptive) {
    const auto twice = 2 * static_cast<double>(rounds_.expected());
    metrics.emplace_back("clipped_share", 0.5 - static_cast<double>(last_.within) / twice);
  }
  if (setup_.options.audit) {
    metrics.emplace_back("clipped_share_exact",
                         static_cast<double>(last_.clipped) / static_cast<double>(last_.updates));
  }
  return metrics;
}

void PrivateTraining::add_columns(Columns& columns) const {
  columns.add_to_rounds([this] { return numbers(); });
  columns.add_to_summary([this] {
    const PrivacyCost cost = rounds_.cost();
    const PrivateRound& round = round_;
    return Metrics{{"privacy_epsilon_rdp", cost.rdp.epsilon},
                   {"privacy_best_order", cost.rdp.order},
                   {"privacy_epsilon_zcdp", cost.zcdp.value_or(kUnknown)},
                   {"privacy_epsilon_pld", cost.pld.value_or(kUnknown)},
                   {"privacy_delta", setup_.options.delta},
                   {"privacy_noise_multiplier", rounds_.multiplier()},
                   {"privacy_update_multiplier", rounds_.update_multiplier()},
                   {"privacy_variance", static_cast<double>(round.variance)},
                   {"privacy_step_exponent", static_cast<double>(round.lattice.exponent)},
                   {"privacy_sensitivity", static_cast<double>(round.lattice.bound) *
                                               static_cast<double>(rounds_.terms().reach())},
                   {"privacy_seed_known", setup_.options.seed.of_system ? 0.0 : 1.0}};
  });
}

void PrivateTraining::collect() {
  if (correlated_) correlated_->collect();
}

void PrivateTraining::share() {
  auto position = rounds_.position();
  std::array numbers{position.finished, position.planned, static_cast<int64_t>(setup_.seed)};
  comm_.bcast(std::span(numbers), 0);
  comm_.bcast(std::span(&position.clip, 1), 0);
  setup_.seed = static_cast<uint64_t>(numbers[2]);
  rounds_.move_to({numbers[0], numbers[1], position.clip});
  if (correlated_) correlated_->share(setup_.seed);
}

void PrivateTraining::visit(StateFields& fields) {
  fields.part("rounds", rounds_);
  fields.one("epsilon", epsilon_);
  if (setup_.options.seed.of_system) {
    auto seed = static_cast<int64_t>(setup_.seed);
    fields.one("seed", seed);
    setup_.seed = static_cast<uint64_t>(seed);
  }
  if (correlated_) fields.part("correlated", *correlated_);
}

}  // namespace hanse
