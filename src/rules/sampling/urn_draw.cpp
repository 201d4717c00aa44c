#include "urn_draw.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// The client of draw j, from what has this mass together.
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

Draw with_replacement(const Urn& urn, int64_t count, const UrnLaw& law, const Pick& pick) {
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

Draw draw_from(Urn& urn, int64_t count, bool replacement, const UrnLaw& law, RandomStream& stream) {
  if (!urn.available().full() && urn.available().size() <= count) return everyone(urn, law);
  const auto by_chance = [&](int64_t, double total) {
    return urn.pick(stream.uniform() * total, law);
  };
  return replacement ? with_replacement(urn, count, law, by_chance)
                     : without_replacement(urn, count, law, by_chance);
}

Draw impose_on(Urn& urn, std::span<const int64_t> draws, int64_t count, bool replacement,
               const UrnLaw& law) {
  const bool all = !urn.available().full() && urn.available().size() <= count;
  const int64_t expected = all ? urn.available().size() : count;
  const auto number = static_cast<int64_t>(draws.size());
  const bool ended_early = !all && !replacement && number < count;
  if (number != expected && !ended_early) {
    throw InvalidArgument(fmt::format("{} draws, expected {}", draws.size(), expected), "draws");
  }
  std::vector<int64_t> sorted(draws.begin(), draws.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end() && (all || !replacement)) {
    throw InvalidArgument(fmt::format("client {} stands twice", *twice), "draws",
                          "these draws are without replacement");
  }
  const auto given = [&](int64_t j, double) {
    const int64_t client = draws[static_cast<std::size_t>(j)];
    const bool known = client >= 0 && client < urn.clients();
    if (!known || !urn.available().contains(client) || !(urn.mass(law, client) > 0)) {
      throw InvalidArgument(fmt::format("client {} cannot be drawn: it is away, or its "
                                        "probability is 0",
                                        client),
                            "draws");
    }
    return client;
  };
  for (int64_t j = 0; j < number; ++j) given(j, 0);
  if (all) return everyone(urn, law);
  if (ended_early) {
    double left = urn.available_mass(law);
    for (const int64_t client : draws) left -= urn.mass(law, client);
    if (left > 1e-9) {
      throw InvalidArgument(fmt::format("{} draws, expected {}", number, count), "draws",
                            "fewer end a draw only when nobody with mass is left");
    }
  }
  return replacement ? with_replacement(urn, count, law, given)
                     : without_replacement(urn, count, law, given);
}

}  // namespace hanse
