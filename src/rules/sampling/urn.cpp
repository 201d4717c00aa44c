#include "urn.hpp"

#include <algorithm>
#include <numeric>

#include "hanse/base/products.hpp"

namespace hanse {

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

}  // namespace

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

}  // namespace hanse
