#include "even_sampler.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

void EvenSampler::toggle(std::span<const int64_t> changed) {
  for (const int64_t client : changed) available_.toggle(client);
}

Draw EvenSampler::impose(int64_t n, std::span<const int64_t> draws) {
  check_number(n, std::ssize(draws));
  std::unordered_set<int64_t> seen;
  for (const int64_t client : draws) {
    const bool known = client >= 0 && client < clients();
    if (known && available_.contains(client) && seen.insert(client).second) continue;
    throw InvalidArgument(fmt::format("client {} is away or stands twice", client), "draws",
                          "these draws are without replacement");
  }
  return even_draw({draws.begin(), draws.end()});
}

int64_t EvenSampler::participants(int64_t n) const { return std::min(n, available_.size()); }

void EvenSampler::check_number(int64_t n, int64_t drawn) const {
  if (drawn == participants(n)) return;
  throw InvalidArgument(fmt::format("{} draws, expected {}", drawn, participants(n)), "draws");
}

Draw EvenSampler::even_draw(std::vector<int64_t> chosen) const {
  const auto drawn = static_cast<double>(chosen.size());
  return weighted(std::move(chosen), static_cast<double>(available_.size()) / drawn);
}

Draw EvenSampler::weighted(std::vector<int64_t> chosen, double weight) const {
  Draw draw;
  draw.clients = std::move(chosen);
  draw.everyone = static_cast<int64_t>(draw.size()) == available_.size();
  draw.counts.assign(draw.size(), 1);
  draw.probabilities.assign(draw.size(), 1 / static_cast<double>(available_.size()));
  draw.weights.assign(draw.size(), weight);
  return draw;
}

void EvenSampler::visit(StateFields& fields) {
  if (fields.loads()) available_ = ClientSet(clients());
}

}  // namespace hanse
