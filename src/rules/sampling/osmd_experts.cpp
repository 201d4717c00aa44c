#include "osmd_experts.hpp"

#include <algorithm>
#include <cmath>

namespace hanse {

constexpr double kSmallestScale = 1e-100;  // of an expert, before its numbers are brought up

OsmdExperts::OsmdExperts(Urn& urn, double alpha)
    : urn_(urn), alpha_(alpha), floor_(alpha / static_cast<double>(urn.clients())) {}

void OsmdExperts::start(std::size_t count) {
  scales_.assign(count, 1);
  commons_.assign(count, 1 / static_cast<double>(urn_.clients()));
  heaps_.assign(count, {});
  urn_.reshape(static_cast<int64_t>(2 * count));
}

void OsmdExperts::refresh_all() {
  urn_.refresh_all();
  rebuild_heaps();
}

void OsmdExperts::set(std::size_t e, int64_t slot, double v) {
  const auto row = urn_.row(slot);
  row[e] = v;
  row[size() + e] = v > 0 ? 1 : 0;
}

std::vector<int64_t> OsmdExperts::slots_of(const Draw& draw) {
  std::vector<int64_t> slots;
  for (const int64_t client : draw.clients) {
    int64_t slot = urn_.slot(client);
    if (slot < 0) {
      slot = urn_.add(client);
      for (std::size_t e = 0; e < size(); ++e) {
        set(e, slot, commons_[e]);
        if (commons_[e] > 0) heaps_[e].emplace(commons_[e], slot);
      }
    }
    slots.push_back(slot);
  }
  return slots;
}

void OsmdExperts::raise(std::size_t e, std::span<const double> raised,
                        std::span<const int64_t> slots, std::vector<int64_t>& changed) {
  const double highest = std::max(0.0, *std::max_element(raised.begin(), raised.end()));
  if (highest > 0) lower(e, highest, changed);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const double before = urn_.row(slots[i])[e];
    // It is never below what it was, which rounding might bring about.
    const double v = std::max(before, std::exp(raised[i] - highest) / scales_[e]);
    set(e, slots[i], v);
    if (before == 0 && v > 0) heaps_[e].emplace(v, slots[i]);
  }
}

// Divides all of the expert's p by e^exponent before the drawn are raised, so that no number
// overflows. Where the floor is higher than anything that is left, everybody sinks to it.
void OsmdExperts::lower(std::size_t e, double exponent, std::vector<int64_t>& changed) {
  const double factor = std::exp(-exponent);
  const bool all_sink = factor < floor_;
  double& scale = scales_[e];
  scale *= all_sink ? 1 : factor;
  if (!all_sink && scale >= kSmallestScale) return;
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
    const double v = urn_.row(slot)[e];
    if (v == 0) continue;
    set(e, slot, all_sink ? 0 : v * scale);
    changed.push_back(slot);
  }
  commons_[e] *= all_sink ? 0 : scale;
  scale = 1;
  rebuild_heap(e);
}

// Algorithm 2, by thresholds: p = max(floor, c p~) with c such that p sums to 1. Whoever would be
// below the floor sinks to it, the smallest first. True when nobody sank: only then are the sums
// exact, and p is scaled.
bool OsmdExperts::settle(std::size_t e, std::vector<int64_t>& changed) {
  double& scale = scales_[e];
  double& common = commons_[e];
  const auto alike = static_cast<double>(common > 0 ? urn_.alike() : 0);
  double mass = scale * (urn_.sum(static_cast<int64_t>(e)) + alike * common);
  double above = urn_.sum(static_cast<int64_t>(size() + e)) + alike;
  // c p~ of a client, with c = (1 - (M - above) alpha/M) / mass.
  const auto sinks = [&](double v) {
    return (1 - alpha_ + above * floor_) / mass * scale * v <= floor_;
  };
  if (alike > 0 && sinks(common)) {
    common = 0;
    return false;
  }
  bool sank = false;
  while (!heaps_[e].empty()) {
    const auto [known, slot] = heaps_[e].top();
    const double v = urn_.row(slot)[e];
    if (v == known && !sinks(v)) break;
    heaps_[e].pop();
    if (v == 0) continue;
    if (v != known) {
      heaps_[e].emplace(v, slot);
      continue;
    }
    mass -= scale * v;
    above -= 1;
    set(e, slot, 0);
    changed.push_back(slot);
    sank = true;
  }
  if (sank) return false;
  if (above > 0) scale *= (1 - alpha_ + above * floor_) / mass;
  return true;
}

void OsmdExperts::project(std::vector<int64_t> changed) {
  std::vector<bool> settled(size());
  for (std::size_t left = size(); left > 0;) {
    urn_.refresh(changed);
    changed.clear();
    for (std::size_t e = 0; e < size(); ++e) {
      if (settled[e] || !settle(e, changed)) continue;
      settled[e] = true;
      --left;
    }
  }
}

void OsmdExperts::rebuild_heap(std::size_t e) {
  std::vector<Entry> above;
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
    const double v = urn_.row(slot)[e];
    if (v > 0) above.emplace_back(v, slot);
  }
  heaps_[e] = Heap(std::greater<>(), std::move(above));
}

void OsmdExperts::rebuild_heaps() {
  heaps_.resize(size());
  for (std::size_t e = 0; e < size(); ++e) rebuild_heap(e);
}

void OsmdExperts::visit(StateFields& fields) {
  fields.all("scale", scales_);
  fields.all("common", commons_);
  if (fields.loads()) rebuild_heaps();
}

}  // namespace hanse
