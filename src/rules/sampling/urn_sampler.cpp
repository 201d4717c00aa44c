#include "urn_sampler.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

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
  set_bound(bound_of(a));
  awaits_bound_ = false;
}

void BoundedSampler::visit(StateFields& fields) {
  urn_.visit(fields);
  fields.one(name_, bound_);
  fields.one("awaits_bound", awaits_bound_);
}

}  // namespace hanse
