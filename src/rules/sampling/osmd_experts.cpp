#include "osmd_experts.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace hanse {

namespace {

constexpr double kSmallestScale = 1e-100;  // of an expert, before its numbers are brought up

}  // namespace

void OsmdExperts::Expert::push(double v, int64_t slot) {
  heap.push_back({v, slot});
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

void OsmdExperts::Expert::pop() {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  heap.pop_back();
}

OsmdExperts::OsmdExperts(Urn& urn, double alpha)
    : urn_(urn), alpha_(alpha), floor_(alpha / static_cast<double>(urn.clients())) {}

void OsmdExperts::start(std::size_t count) {
  experts_.assign(count, {});
  for (Expert& expert : experts_) expert.common = 1 / static_cast<double>(urn_.clients());
  urn_.reshape(static_cast<int64_t>(2 * count),
               std::vector<double>(static_cast<std::size_t>(urn_.rows()) * 2 * count));
}

void OsmdExperts::refresh_all() {
  urn_.refresh_all();
  rebuild_heaps();
}

// v of a client with a row; 0: at the floor. Its place in the tree is due.
void OsmdExperts::set(std::size_t e, int64_t slot, double v) {
  const auto row = urn_.row(slot);
  row[e] = v;
  row[experts_.size() + e] = v > 0 ? 1 : 0;
}

// The drawn clients' rows; who has none gets one that says what it was before.
std::vector<int64_t> OsmdExperts::slots_of(const Draw& draw) {
  std::vector<int64_t> slots;
  for (const int64_t client : draw.clients) {
    int64_t slot = urn_.slot(client);
    if (slot < 0) {
      slot = urn_.add(client);
      for (std::size_t e = 0; e < experts_.size(); ++e) {
        set(e, slot, experts_[e].common);
        if (experts_[e].common > 0) experts_[e].push(experts_[e].common, slot);
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
    // Never below what it was, which rounding might bring about.
    const double v = std::max(before, std::exp(raised[i] - highest) / experts_[e].scale);
    set(e, slots[i], v);
    if (before == 0 && v > 0) experts_[e].push(v, slots[i]);
  }
}

// All of the expert's p are divided by e^exponent before the drawn are raised, so that no number
// overflows. Where the floor is higher than anything that is left, everybody sinks to it.
void OsmdExperts::lower(std::size_t e, double exponent, std::vector<int64_t>& changed) {
  Expert& expert = experts_[e];
  const double factor = std::exp(-exponent);
  const bool all_sink = factor < floor_;
  expert.scale *= all_sink ? 1 : factor;
  if (!all_sink && expert.scale >= kSmallestScale) return;
  for (auto& entry : expert.heap) {
    entry.v = all_sink ? 0 : urn_.row(entry.slot)[e] * expert.scale;
    set(e, entry.slot, entry.v);
    changed.push_back(entry.slot);
  }
  expert.common *= all_sink ? 0 : expert.scale;
  expert.scale = 1;
  if (all_sink) expert.heap.clear();
  std::make_heap(expert.heap.begin(), expert.heap.end(), std::greater<>());
}

// Algorithm 2, by thresholds: p = max(floor, c p~) with c such that p sums to 1. Whoever would be
// below the floor sinks to it, the smallest first. True when nobody sank: only then are the sums
// exact, and p is scaled.
bool OsmdExperts::settle(std::size_t e, std::vector<int64_t>& changed) {
  Expert& expert = experts_[e];
  const auto alike = static_cast<double>(expert.common > 0 ? urn_.alike() : 0);
  double mass = expert.scale * (urn_.sum(static_cast<int64_t>(e)) + alike * expert.common);
  double above = urn_.sum(static_cast<int64_t>(experts_.size() + e)) + alike;
  // c p~ of a client, with c = (1 - (M - above) alpha/M) / mass.
  const auto sinks = [&](double v) {
    return (1 - alpha_ + above * floor_) / mass * expert.scale * v <= floor_;
  };
  if (alike > 0 && sinks(expert.common)) {
    expert.common = 0;
    return false;
  }
  bool sank = false;
  while (!expert.heap.empty()) {
    const auto [known, slot] = expert.heap.front();
    const double v = urn_.row(slot)[e];
    if (v == known && !sinks(v)) break;
    expert.pop();
    if (v == 0) continue;
    if (v != known) {
      expert.push(v, slot);
      continue;
    }
    mass -= expert.scale * v;
    above -= 1;
    set(e, slot, 0);
    changed.push_back(slot);
    sank = true;
  }
  if (sank) return false;
  if (above > 0) expert.scale *= (1 - alpha_ + above * floor_) / mass;
  return true;
}

void OsmdExperts::project(std::vector<int64_t> changed) {
  std::vector<bool> settled(experts_.size());
  for (std::size_t left = experts_.size(); left > 0;) {
    urn_.refresh(changed);
    changed.clear();
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      if (settled[e] || !settle(e, changed)) continue;
      settled[e] = true;
      --left;
    }
  }
}

void OsmdExperts::rebuild_heaps() {
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    experts_[e].heap.clear();
    for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
      const double v = urn_.row(slot)[e];
      if (v > 0) experts_[e].heap.push_back({v, slot});
    }
    std::make_heap(experts_[e].heap.begin(), experts_[e].heap.end(), std::greater<>());
  }
}

void OsmdExperts::save(State& state) const {
  std::vector<double> scales;
  std::vector<double> commons;
  for (const Expert& expert : experts_) {
    scales.push_back(expert.scale);
    commons.push_back(expert.common);
  }
  state.put("scale", std::span<const double>(scales));
  state.put("common", std::span<const double>(commons));
}

void OsmdExperts::load(const State& state) {
  const auto& scales = state.get<double>("scale");
  const auto& commons = state.get<double>("common");
  experts_.assign(scales.size(), {});
  for (std::size_t e = 0; e < scales.size(); ++e) {
    experts_[e].scale = scales[e];
    experts_[e].common = commons[e];
  }
  rebuild_heaps();
}

}  // namespace hanse
