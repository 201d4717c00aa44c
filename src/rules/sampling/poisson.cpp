#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "even_sampler.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/private_sum.hpp"
#include "hanse/rules/sampling/basic.hpp"

namespace hanse {

namespace {

// A rule of whole rounds, whose size is its own.
class RoundSampler : public EvenSampler {
 public:
  RoundSampler(const char* name, int64_t clients, int64_t per_round)
      : EvenSampler(clients, per_round), name_(name) {}

 protected:
  void require_round(int64_t n) const {
    if (n == per_round()) return;
    throw InvalidArgument(fmt::format("sampler {} draws whole rounds, and not {} of one", name_, n),
                          "sampler.kind");
  }
  void check_number(int64_t n, int64_t drawn) const override {
    require_round(n);
    if (drawn <= n) return;
    throw InvalidArgument(fmt::format("{} draws, at most {}", drawn, n), "draws");
  }

 private:
  const char* name_;
};

// A round's coins: a number below 2^kPoissonBits for each client, asked for in their order.
using Coin = std::function<int64_t(int64_t client)>;
using Coins = std::function<Coin(int64_t round)>;

class PoissonSampler final : public RoundSampler {
 public:
  PoissonSampler(int64_t clients, int64_t expected, int64_t most, Coins coins)
      : RoundSampler("poisson", clients, most),
        threshold_(poisson_threshold(expected, clients)),
        coins_(std::move(coins)) {}

  Draw draw(int64_t round, int64_t n, RandomStream&) override {
    require_round(n);
    std::vector<int64_t> chosen;
    const Coin coin = coins_(round);
    for (int64_t client = 0; client < clients(); ++client) {
      const bool is_drawn = coin(client) < threshold_;
      if (is_drawn && available_.contains(client)) chosen.push_back(client);
    }
    if (std::ssize(chosen) > n) {
      throw Error(
          fmt::format("a Poisson draw of {} clients has a probability below 2^-60", chosen.size()));
    }
    return even_draw(std::move(chosen));
  }

 private:
  Draw even_draw(std::vector<int64_t> chosen) const override {
    const double rate = std::ldexp(static_cast<double>(threshold_), -kPoissonBits);
    Draw draw = weighted(std::move(chosen), 1 / rate);
    draw.everyone = draw.everyone && rate == 1;  // else chance has decided
    return draw;
  }

  int64_t threshold_;
  Coins coins_;
};

class CyclicSampler final : public RoundSampler {
 public:
  CyclicSampler(int64_t clients, int64_t per_round, uint64_t seed)
      : RoundSampler("cyclic", clients, per_round), order_(to_index(clients)) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    RandomStream(seed, Purpose::kPoisson).shuffle(std::span(order_));
  }

  Draw draw(int64_t round, int64_t n, RandomStream&) override {
    require_round(n);
    // ((round - 1) K) mod M, of factors below 2^63.
    auto place = static_cast<int64_t>(static_cast<unsigned __int128>(round - 1) *
                                      static_cast<unsigned __int128>(n) %
                                      static_cast<unsigned __int128>(clients()));
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t client = order_[to_index(place)];
      if (available_.contains(client)) chosen.push_back(client);
      if (++place == clients()) place = 0;
    }
    return even_draw(std::move(chosen));
  }

 private:
  Draw even_draw(std::vector<int64_t> chosen) const override {
    const auto all = static_cast<double>(clients());
    return weighted(std::move(chosen), all / static_cast<double>(per_round()));
  }

  std::vector<int64_t> order_;
};

std::unique_ptr<ClientSampler> poisson_sampler(int64_t clients, int64_t expected, Coins coins) {
  check_per_round(expected, clients, false);
  const int64_t most = largest_cohort(
      {.attendance = Attendance::kPoisson, .clients = clients, .per_round = expected});
  return std::make_unique<PoissonSampler>(clients, expected, most, std::move(coins));
}

}  // namespace

std::unique_ptr<ClientSampler> make_poisson_sampler(int64_t clients, int64_t expected,
                                                    uint64_t seed) {
  return poisson_sampler(clients, expected, [seed](int64_t round) -> Coin {
    return [seed, round](int64_t client) {
      RandomStream stream(seed, Purpose::kPoisson, static_cast<uint64_t>(round),
                          static_cast<uint64_t>(client));
      return stream.below(int64_t{1} << kPoissonBits);
    };
  });
}

std::unique_ptr<ClientSampler> make_secret_poisson_sampler(int64_t clients, int64_t expected,
                                                           SecretWords words) {
  return poisson_sampler(clients, expected, [words = std::move(words)](int64_t) -> Coin {
    return [stream = words()](int64_t) mutable {
      return static_cast<int64_t>(stream.next() >> (64 - kPoissonBits));
    };
  });
}

std::unique_ptr<ClientSampler> make_cyclic_sampler(int64_t clients, int64_t per_round,
                                                   uint64_t seed) {
  check_per_round(per_round, clients, false);
  return std::make_unique<CyclicSampler>(clients, per_round, seed);
}

}  // namespace hanse
