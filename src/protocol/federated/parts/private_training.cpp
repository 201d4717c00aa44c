#include "hanse/protocol/private_training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "federated/parts/correlated_sums.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/private_sum.hpp"

namespace hanse {

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// What is left of [0, n_params) without these parts, which are in order.
std::vector<RowPart> rest_of(std::span<const RowPart> parts, int64_t n_params) {
  std::vector<RowPart> rest;
  int64_t begin = 0;
  const auto add_until = [&](int64_t end) {
    if (begin < end) rest.push_back({begin, end});
  };
  for (const RowPart& part : parts) {
    add_until(part.begin);
    begin = part.end;
  }
  add_until(n_params);
  return rest;
}

std::span<int64_t> part_of(std::span<int64_t> row, const RowPart& part) {
  return row.subspan(to_index(part.begin), to_index(part.size()));
}

}  // namespace

PrivateTraining::PrivateTraining(PrivacySetup setup, Communicator& comm, int64_t n_params)
    : setup_(std::move(setup)),
      comm_(comm),
      worker_(comm.rank()),
      workers_(comm.size()),
      rounds_(setup_.options, setup_.terms, setup_.rounds),
      secret_(setup_.key),
      sent_(rest_of(setup_.kept, n_params)),
      integers_(to_index(n_params)) {
  setup_.key = {};
  if (rounds_.correlated().numerators().empty()) return;
  correlated_ = std::make_unique<CorrelatedSums>(rounds_.correlated().numerators(), comm, n_params);
}

PrivateTraining::~PrivateTraining() = default;

CipherStream PrivateTraining::draw_words() const {
  return CipherStream(secret_.key(RoundSecret::Use::kDraw));
}

void PrivateTraining::joins(int64_t worker, int64_t workers) {
  worker_ = worker;
  workers_ = workers;
}

void PrivateTraining::add_own(const CipherKey& key, std::span<int64_t> entries) const {
  if (worker_ >= 0) add(key, worker_, workers_, entries);
}

void PrivateTraining::add(const CipherKey& key, int64_t worker, int64_t workers,
                          std::span<int64_t> entries) const {
  const Noise noise(setup_.options.mechanism, round_.share_variance);
  for (const RowPart& part : sent_) {
    add_noise(noise, key, worker, workers, part.begin, part_of(entries, part));
  }
}

void PrivateTraining::opens(int64_t /*round*/, UpdateSum& sum) {
  round_ = rounds_.next();
  counts_ = {};
  signal_ = kNoNumber;
  if (correlated_) correlated_->begin(secret_.key(RoundSecret::Use::kMask));
  if (round_.count_variance > 0 && worker_ == 0) {
    CipherStream words(secret_.key(RoundSecret::Use::kCount));
    Noise(Mechanism::kDiscreteGaussian, round_.count_variance)
        .add(words, std::span(&counts_.within, 1));
  }
  const auto entries = sum.integers(0, sum.size());
  if (rounds_.correlated().tree_rounds() > 0) return add_tree(entries);
  if (setup_.options.is_distributed()) return;
  add_own(secret_.key(RoundSecret::Use::kNoise), entries);
}

// The noise of a round is that of the node that comes, less that of the nodes that go: the last
// ones that came.
void PrivateTraining::add_tree(std::span<int64_t> entries) {
  const TreeStep step = tree_step(rounds_.finished() % rounds_.correlated().tree_rounds() + 1);
  const CipherKey added = secret_.key(RoundSecret::Use::kNoise);
  add_own(added, entries);
  if (!step.removed.empty()) {
    std::vector<int64_t> removed(entries.size());
    for (std::size_t i = 0; i < step.removed.size(); ++i) {
      add_own(nodes_.back(), removed);
      nodes_.pop_back();
    }
    add_encoded(removed, -1, entries);
  }
  nodes_.push_back(added);
}

// Adds the shares of those who did not come, by blocks over the ranks that train.
void PrivateTraining::fill_up(std::span<int64_t> entries) const {
  const CipherKey noise = secret_.key(RoundSecret::Use::kNoise);
  for (int64_t place = last_.updates; place < rounds_.shares(); ++place) {
    add_own(noise.derived(static_cast<uint64_t>(place)), entries);
  }
}

// What the client of an audit sends.
std::span<const float> PrivateTraining::audited(const SummedUpdate& one) {
  const Canary& canary = *setup_.options.canary;
  if (canary.taken != nullptr) {
    const std::size_t known = std::max(canary.taken->size(), to_index(one.client) + 1);
    canary.taken->resize(known);
    ++(*canary.taken)[to_index(one.client)];
  }
  if (one.client != canary.client) return one.update;
  canary_.assign(one.update.size(), 0);
  // Longer than the clip, which then has the last word.
  canary_[to_index(sent_.back().end - 1)] =
      static_cast<float>(2 * canary.sign * round_.lattice.clip());
  return canary_;
}

FoldResult PrivateTraining::take(const SummedUpdate& one, UpdateSum& sum) {
  const auto update = setup_.options.canary ? audited(one) : one.update;
  const ClippedUpdate clipped =
      clip_to_lattice(update, setup_.weight(one.client), round_.lattice, integers_);
  const bool is_finite = std::isfinite(clipped.norm);
  ++counts_.updates;
  counts_.zeroed += clipped.is_zeroed || !is_finite ? 1 : 0;
  if (setup_.options.audit) counts_.clipped += clipped.is_clipped ? 1 : 0;
  if (round_.count_variance > 0) {
    counts_.within += AdaptiveClip::bit(clipped.norm, round_.lattice.clip());
  }
  for (const RowPart& part : setup_.kept) std::ranges::fill(part_of(integers_, part), 0);
  if (setup_.options.is_distributed() && one.place < rounds_.shares()) {
    const CipherKey noise = secret_.key(RoundSecret::Use::kNoise);
    add(noise.derived(static_cast<uint64_t>(one.place)), 0, 1, integers_);
  }
  if (correlated_) {
    correlated_->add(integers_);
  } else {
    sum.add_integers(integers_);
  }
  return {is_finite ? clipped.norm * clipped.norm : 0, true};
}

void PrivateTraining::closes(UpdateSum& sum) {
  std::array all{counts_.within, counts_.updates, counts_.zeroed, counts_.clipped};
  comm_.allreduce(std::span(all), ReduceOp::kSum);
  last_ = {all[0], all[1], all[2], all[3]};
  const auto entries = sum.integers(0, sum.size());
  if (setup_.options.is_distributed()) fill_up(entries);
  if (correlated_) correlated_->encode(entries);
}

// n, by which a sum becomes a mean: public, whoever came.
double PrivateTraining::divisor() const {
  return static_cast<double>(rounds_.expected()) * setup_.mean_weight;
}

bool PrivateTraining::reads(UpdateSum& sum, std::span<float> mean) {
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
  return true;
}

// What is longer than the noise is expected to be is the updates'. It follows from the released
// sum, and tells no more than that.
void PrivateTraining::note_signal(std::span<const float> mean) {
  if (rounds_.options().correlation != Correlation::kNone || round_.deviation == 0) return;
  double squares = 0, entries = 0;
  for (const float entry : mean) squares += static_cast<double>(entry) * static_cast<double>(entry);
  for (const RowPart& part : sent_) entries += static_cast<double>(part.size());
  const double noise = round_.deviation / divisor();
  squares /= noise * noise * entries;
  signal_ = std::sqrt(std::max(0.0, squares - 1));
}

void PrivateTraining::finishes() {
  rounds_.finish(last_.within);
  forget();
  if (comm_.rank() != 0) return;
  epsilon_ = rounds_.epsilon_at_most(0);
  if (last_.zeroed == 0 || std::exchange(has_told_, true)) return;
  warning(
      fmt::format("round {}: {} of the updates are not finite, or no rounding kept them within the "
                  "clip: they count as zero; where this happens again it is not told",
                  rounds_.finished(), last_.zeroed));
}

// Overwrites the keys that no further round needs.
void PrivateTraining::forget() {
  secret_.move_on();
  const int64_t tree = rounds_.correlated().tree_rounds();
  if (tree > 0 && rounds_.finished() % tree == 0) nodes_.clear();
  if (!rounds_.is_over()) return;
  secret_.set({});
  nodes_.clear();
  if (correlated_) correlated_->forget();
}

std::string PrivateTraining::end() const {
  const double most = rounds_.limit();
  if (rounds_.is_over() || rounds_.finished() >= setup_.rounds) return "";
  if (most == 0 || rounds_.epsilon_at_most(1) <= most) return "";
  return fmt::format("a further round would exceed privacy.{} = {}",
                     setup_.options.max_epsilon > 0 ? "max-epsilon" : "epsilon", most);
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
  // A column of every run: a resume may begin to ask for it.
  const double exact = static_cast<double>(last_.clipped) / static_cast<double>(last_.updates);
  metrics.emplace_back("clipped_share_exact", setup_.options.audit ? exact : kNoNumber);
  return metrics;
}

void PrivateTraining::add_columns(Columns& columns) const {
  columns.add_to_rounds([this] { return numbers(); });
  columns.add_to_summary([this] {
    const PrivacyCost cost = rounds_.cost();
    const PrivateRound& round = round_;
    return Metrics{{"privacy_epsilon_rdp", cost.rdp.epsilon},
                   {"privacy_best_order", cost.rdp.order},
                   {"privacy_epsilon_zcdp", cost.zcdp.value_or(kNoNumber)},
                   {"privacy_epsilon_pld", cost.pld.value_or(kNoNumber)},
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
  std::array numbers{position.finished, position.planned, std::ssize(nodes_)};
  comm_.bcast(std::span(numbers), 0);
  comm_.bcast(std::span(&position.clip, 1), 0);
  rounds_.move_to({numbers[0], numbers[1], position.clip});
  auto present = secret_.present().words();
  comm_.bcast(std::span(present), 0);
  secret_.set(CipherKey::of_words(present));
  nodes_.resize(to_index(numbers[2]));
  auto nodes = words_of(nodes_);
  comm_.bcast(std::span(nodes), 0);
  nodes_ = keys_of(nodes);
  if (correlated_) correlated_->share();
}

// A run whose noise was found for an epsilon goes beyond it by another limit alone.
void PrivateTraining::require_limit() const {
  const int64_t further = setup_.rounds - rounds_.finished();
  const double most = rounds_.limit();
  if (further <= 0 || most == 0 || setup_.options.max_epsilon > 0 || rounds_.is_over()) return;
  const double epsilon = rounds_.epsilon_after(further);
  if (epsilon <= most) return;
  throw InvalidArgument(
      fmt::format("{} rounds would cost an epsilon of {:.4g}, and the noise was found for "
                  "privacy.epsilon = {}",
                  setup_.rounds, epsilon, most),
      "run.rounds",
      fmt::format("privacy.max-epsilon = {:.4g} lets the run go so far",
                  std::ceil(1000 * epsilon) / 1000));
}

void PrivateTraining::visit(StateFields& fields) {
  fields.part("rounds", rounds_);
  fields.one("epsilon", epsilon_);
  fields.part("secret", secret_);
  visit_keys("nodes", nodes_, fields);
  if (correlated_) fields.part("correlated", *correlated_);
  if (fields.loads()) require_limit();
}

}  // namespace hanse
