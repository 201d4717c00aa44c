#include "urn_sampler.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "hanse/base/stop_request.hpp"

namespace hanse {

namespace {

// Every available client weighs at least `floor`; a row weighs its product with `excess` more.
struct Parts {
  double floor;                // 0 when nobody is alike
  std::vector<double> excess;  // [width + 1]
};

Parts parts_of(const Urn& urn, const UrnLaw& law) {
  Parts parts{urn.alike() > 0 ? law.common : 0, law.coefficients};
  parts.excess.push_back(law.individual - parts.floor);
  return parts;
}

constexpr int64_t kDrawsUnasked = 1024;

// The client of draw j, among those who have this mass together.
using Pick = std::function<int64_t(int64_t j, double mass)>;

Draw everyone(const Urn& urn, const UrnLaw& law) {
  Draw draw;
  draw.everyone = true;
  const double total = urn.available_mass(law);
  for (int64_t k = 0; k < urn.available().size(); ++k) {
    draw.clients.push_back(urn.available().select(k));
    draw.probabilities.push_back(urn.mass(law, draw.clients.back()) / total);
  }
  draw.counts.assign(draw.size(), 1);
  draw.weights.assign(draw.size(), 1);
  return draw;
}

Draw with_replacement(Urn& urn, int64_t count, const UrnLaw& law, const Pick& pick) {
  Draw draw;
  const double total = urn.available_mass(law);
  if (!(total > 0)) return draw;
  std::unordered_map<int64_t, std::size_t> position;
  for (int64_t j = 0; j < count; ++j) {
    if (j % kDrawsUnasked == 0) leave_if_stopped();
    const int64_t client = pick(j, total);
    const auto [found, fresh] = position.emplace(client, draw.size());
    if (fresh) {
      draw.clients.push_back(client);
      draw.counts.push_back(0);
      draw.probabilities.push_back(urn.mass(law, client) / total);
    }
    ++draw.counts[found->second];
  }
  for (std::size_t i = 0; i < draw.size(); ++i) {
    draw.weights.push_back(static_cast<double>(draw.counts[i]) /
                           (static_cast<double>(count) * draw.probabilities[i]));
  }
  return draw;
}

Draw without_replacement(Urn& urn, int64_t count, const UrnLaw& law, const Pick& pick) {
  Draw draw;
  const double total = urn.available_mass(law);
  std::vector<double> conditional;  // p_(j) of the j-th
  for (int64_t j = 0; j < count; ++j) {
    const double left = urn.available().size() == 0 ? 0 : urn.available_mass(law);
    if (!(left > 0)) break;
    const int64_t client = pick(j, left);
    const double weight = urn.mass(law, client);
    draw.clients.push_back(client);
    draw.probabilities.push_back(weight / total);
    conditional.push_back(weight / left);
    urn.hide(client);
  }
  urn.unhide(draw.clients);
  draw.counts.assign(draw.size(), 1);
  const auto k = static_cast<double>(draw.size());
  for (std::size_t i = 0; i < draw.size(); ++i) {
    draw.weights.push_back((1 / conditional[i] + k - static_cast<double>(i + 1)) / k);
  }
  return draw;
}

}  // namespace

Urn::Urn(int64_t clients, int64_t width, bool all_rows)
    : width_(width), all_rows_(all_rows), available_(clients), present_(width + 1) {
  if (!all_rows) return;
  rows_.resize(static_cast<std::size_t>(clients * width));
  refresh_all();
}

int64_t Urn::slot(int64_t client) const {
  if (all_rows_) return client;
  const auto found = slots_.find(client);
  return found == slots_.end() ? -1 : found->second;
}

int64_t Urn::client_of(int64_t slot) const {
  return all_rows_ ? slot : clients_[static_cast<std::size_t>(slot)];
}

int64_t Urn::add(int64_t client) {
  const int64_t slot = rows();
  slots_.emplace(client, slot);
  clients_.push_back(client);
  rows_.resize(rows_.size() + wide());
  present_.grow(slot + 1);
  if (absent_) absent_->grow(slot + 1);
  return slot;
}

// Puts the row and a count of 1, or zeros.
void Urn::put_leaf(SumTree& tree, int64_t slot, bool there) {
  const auto leaf = tree.leaf(slot);
  if (there) {
    std::copy_n(&rows_[offset(slot)], wide(), leaf.begin());
  } else {
    std::fill(leaf.begin(), leaf.end(), 0.0);
  }
  leaf.back() = there ? 1 : 0;
}

void Urn::put_leaves(int64_t slot) {
  const bool here = available_.contains(client_of(slot));
  put_leaf(present_, slot, here);
  if (absent_) put_leaf(*absent_, slot, !here);
}

void Urn::refresh(std::span<const int64_t> slots) {
  for (const int64_t slot : slots) put_leaves(slot);
  present_.refresh(slots);
  if (absent_) absent_->refresh(slots);
}

void Urn::refresh_all() {
  present_.grow(rows());
  if (absent_) absent_->grow(rows());
  for (int64_t slot = 0; slot < rows(); ++slot) put_leaves(slot);
  present_.refresh_all();
  if (absent_) absent_->refresh_all();
}

void Urn::reshape(int64_t width) {
  rows_.assign(static_cast<std::size_t>(rows() * width), 0);
  width_ = width;
  present_ = SumTree(width + 1);
  if (absent_) absent_.emplace(width + 1);
  refresh_all();
}

double Urn::sum(int64_t column) const {
  const auto c = static_cast<std::size_t>(column);
  return present_.total()[c] + (absent_ ? absent_->total()[c] : 0);
}

void Urn::toggle(std::span<const int64_t> clients) {
  if (!absent_) {
    absent_.emplace(width_ + 1);
    absent_->grow(rows());
  }
  flip(clients);
}

void Urn::flip(std::span<const int64_t> clients) {
  std::vector<int64_t> slots;
  for (const int64_t client : clients) {
    available_.toggle(client);
    if (slot(client) >= 0) slots.push_back(slot(client));
  }
  refresh(slots);
}

void Urn::hide(int64_t client) {
  available_.toggle(client);
  const int64_t at = slot(client);
  if (at < 0) return;
  put_leaf(present_, at, false);
  present_.refresh(std::span(&at, 1));
}

double Urn::mass(const UrnLaw& law, int64_t client) const {
  const int64_t at = slot(client);
  if (at < 0) return law.common;
  const auto numbers = row(at);
  return std::max(0.0, std::inner_product(numbers.begin(), numbers.end(), law.coefficients.begin(),
                                          law.individual));
}

double Urn::available_mass(const UrnLaw& law) const {
  const Parts parts = parts_of(*this, law);
  return parts.floor * static_cast<double>(available_.size()) +
         std::max(0.0, inner_product(present_.total(), parts.excess));
}

int64_t Urn::pick(double target, const UrnLaw& law) const {
  const Parts parts = parts_of(*this, law);
  const double even = parts.floor * static_cast<double>(available_.size());
  if (target < even || present_.total().back() == 0) {
    const auto k = static_cast<int64_t>(target / parts.floor);
    return available_.select(std::min(k, available_.size() - 1));
  }
  return client_of(present_.find(target - even, parts.excess));
}

void Urn::call_back() {
  available_ = ClientSet(clients());
  absent_.reset();
  refresh_all();
}

void Urn::visit(StateFields& fields) {
  fields.one("urn/width", width_);
  fields.all("urn/rows", rows_);
  if (!all_rows_) fields.all("urn/clients", clients_);
  if (!fields.loads()) return;
  slots_.clear();
  for (const int64_t client : clients_) slots_.emplace(client, std::ssize(slots_));
  present_ = SumTree(width_ + 1);
  call_back();
}

Draw UrnSampler::draw(int64_t, int64_t n, RandomStream& stream) {
  const UrnLaw now = law();
  if (takes_everyone(n)) return everyone(urn_, now);
  const auto draw = replacement_ ? with_replacement : without_replacement;
  return draw(urn_, n, now,
              [&](int64_t, double total) { return urn_.pick(stream.uniform() * total, now); });
}

Draw UrnSampler::impose(int64_t n, std::span<const int64_t> draws) {
  const UrnLaw now = law();
  const bool all = takes_everyone(n);
  const int64_t expected = all ? available().size() : n;
  const int64_t number = std::ssize(draws);
  const bool ended_early = !all && !replacement_ && number < expected;
  if (number != expected && !ended_early) {
    throw InvalidArgument(fmt::format("{} draws, expected {}", number, expected), "draws");
  }
  std::vector<int64_t> sorted(draws.begin(), draws.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end() && (all || !replacement_)) {
    throw InvalidArgument(fmt::format("client {} stands twice", *twice), "draws",
                          "these draws are without replacement");
  }
  double left = urn_.available_mass(now);
  for (const int64_t client : draws) {
    const bool known = client >= 0 && client < clients();
    if (!known || !available().contains(client) || !(urn_.mass(now, client) > 0)) {
      throw InvalidArgument(
          fmt::format("client {} cannot be drawn: it is away, or its probability is 0", client),
          "draws");
    }
    left -= urn_.mass(now, client);
  }
  if (all) return everyone(urn_, now);
  if (ended_early && left > 1e-9) {
    throw InvalidArgument(fmt::format("{} draws, expected {}", number, expected), "draws",
                          "fewer end a draw only when nobody with mass is left");
  }
  const auto draw = replacement_ ? with_replacement : without_replacement;
  return draw(urn_, number, now,
              [&](int64_t j, double) { return draws[static_cast<std::size_t>(j)]; });
}

double BoundedSampler::bound_of(std::span<const double> a) const {
  return a.empty() ? 0 : *std::max_element(a.begin(), a.end());
}

void BoundedSampler::observe_all(std::span<const double> a) {
  set_bound(bound_of(heard(a)));
  awaits_bound_ = false;
}

void BoundedSampler::visit(StateFields& fields) {
  urn_.visit(fields);
  fields.one(name_, bound_);
  fields.one("awaits_bound", awaits_bound_);
}

}  // namespace hanse
