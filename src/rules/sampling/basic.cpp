#include "hanse/rules/sampling/basic.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

void ClientSampler::observe(const Draw&, const Feedback&) {}
void ClientSampler::save(State&) const {}
void ClientSampler::load(const State&) {}

namespace {

class UniformSampler final : public ClientSampler {
 public:
  UniformSampler(int64_t clients, int64_t per_round) : clients_(clients), per_round_(per_round) {}

  Draw draw(int64_t, RandomStream& stream) override {
    Draw draw;
    draw.clients.reserve(static_cast<std::size_t>(per_round_));
    std::unordered_set<int64_t> chosen;
    // Floyd: a uniform subset with one random number a member.
    for (int64_t top = clients_ - per_round_; top < clients_; ++top) {
      const int64_t pick = stream.below(top + 1);
      const int64_t client = chosen.insert(pick).second ? pick : top;
      if (client == top) chosen.insert(top);
      draw.clients.push_back(client);
    }
    stream.shuffle(std::span(draw.clients));
    draw.counts.assign(draw.size(), 1);
    draw.weights.assign(draw.size(),
                        static_cast<double>(clients_) / static_cast<double>(per_round_));
    return draw;
  }

  int64_t max_participants() const override { return per_round_; }

 private:
  int64_t clients_;
  int64_t per_round_;
};

class WeightedSampler final : public ClientSampler {
 public:
  WeightedSampler(std::span<const double> lambda, int64_t per_round)
      : cumulative_(lambda.size()), per_round_(per_round) {
    std::partial_sum(lambda.begin(), lambda.end(), cumulative_.begin());
  }

  Draw draw(int64_t, RandomStream& stream) override {
    Draw draw;
    std::unordered_map<int64_t, std::size_t> position;
    for (int64_t k = 0; k < per_round_; ++k) {
      const int64_t client = locate(stream.uniform() * cumulative_.back());
      const auto [found, fresh] = position.emplace(client, draw.size());
      if (fresh) {
        draw.clients.push_back(client);
        draw.counts.push_back(0);
      }
      ++draw.counts[found->second];
    }
    for (std::size_t i = 0; i < draw.size(); ++i) {
      draw.weights.push_back(static_cast<double>(draw.counts[i]) /
                             (static_cast<double>(per_round_) * probability(draw.clients[i])));
    }
    return draw;
  }

  int64_t max_participants() const override { return per_round_; }

 private:
  // The client whose interval of the cumulative sum holds u; intervals are half-open, so that a
  // client of weight 0 is never drawn.
  int64_t locate(double u) const {
    const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), u);
    if (at == cumulative_.end()) {  // u rounded up to the total: the last client with a weight
      return std::lower_bound(cumulative_.begin(), cumulative_.end(), cumulative_.back()) -
             cumulative_.begin();
    }
    return at - cumulative_.begin();
  }

  double probability(int64_t client) const {
    const auto c = static_cast<std::size_t>(client);
    const double below = c == 0 ? 0 : cumulative_[c - 1];
    return (cumulative_[c] - below) / cumulative_.back();
  }

  std::vector<double> cumulative_;  // [M]
  int64_t per_round_;
};

class FullSampler final : public ClientSampler {
 public:
  explicit FullSampler(int64_t clients) {
    all_.clients.resize(static_cast<std::size_t>(clients));
    std::iota(all_.clients.begin(), all_.clients.end(), int64_t{0});
    all_.counts.assign(all_.size(), 1);
    all_.weights.assign(all_.size(), 1.0);
  }

  Draw draw(int64_t, RandomStream&) override { return all_; }
  int64_t max_participants() const override { return static_cast<int64_t>(all_.size()); }

 private:
  Draw all_;
};

void check_per_round(int64_t per_round, int64_t clients) {
  if (per_round < 1 || per_round > clients) {
    throw InvalidArgument(fmt::format("per-round {} is outside [1, {}]", per_round, clients),
                          "sampler.per-round",
                          fmt::format("the federation has {} clients", clients));
  }
}

}  // namespace

std::unique_ptr<ClientSampler> make_uniform_sampler(int64_t clients, int64_t per_round) {
  check_per_round(per_round, clients);
  return std::make_unique<UniformSampler>(clients, per_round);
}

std::unique_ptr<ClientSampler> make_weighted_sampler(std::span<const double> lambda,
                                                     int64_t per_round) {
  check_per_round(per_round, static_cast<int64_t>(lambda.size()));
  return std::make_unique<WeightedSampler>(lambda, per_round);
}

std::unique_ptr<ClientSampler> make_full_sampler(int64_t clients) {
  return std::make_unique<FullSampler>(clients);
}

}  // namespace hanse
