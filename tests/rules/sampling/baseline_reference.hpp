// The rules of the baselines over all clients, written as their formulas, and what drives a sampler
// beside them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// A sampler's rule over all clients, written as its formula.
struct Slow {
  explicit Slow(int64_t clients) : m(static_cast<double>(clients)) {}
  virtual ~Slow() = default;
  virtual std::vector<double> p() const = 0;
  // Client i was drawn counts[i] times, with probability q[i] each.
  virtual void observe(const std::vector<int64_t>& counts, const std::vector<double>& q,
                       const std::vector<double>& a, const std::vector<double>& losses) = 0;
  double m;
};

struct SlowMabs : Slow {
  SlowMabs(int64_t clients, double mixing, double rate)
      : Slow(clients), eta(mixing), delta(rate), log_w(static_cast<std::size_t>(clients)) {}

  std::vector<double> p() const override {
    const long double most = *std::max_element(log_w.begin(), log_w.end());
    long double total = 0;
    for (const long double x : log_w) total += std::exp(x - most);
    std::vector<double> p;
    for (const long double x : log_w) {
      p.push_back(static_cast<double>((1 - eta) * std::exp(x - most) / total + eta / m));
    }
    return p;
  }
  void observe(const std::vector<int64_t>& counts, const std::vector<double>& q,
               const std::vector<double>& a, const std::vector<double>&) override {
    const auto before = p();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      for (int64_t n = 0; n < counts[i]; ++n)
        log_w[i] += delta * a[i] / (before[i] * before[i] * q[i]);
    }
  }
  double eta;
  double delta;
  std::vector<long double> log_w;
};

struct SlowVrb : Slow {
  SlowVrb(int64_t clients, double mixing, double most)
      : Slow(clients), theta(mixing), bound(most), w(static_cast<std::size_t>(clients)) {}

  std::vector<double> p() const override {
    const double gamma = bound * m / theta;
    double total = 0;
    for (const double x : w) total += std::sqrt(x + gamma);
    std::vector<double> p;
    for (const double x : w) {
      p.push_back(total > 0 ? (1 - theta) * std::sqrt(x + gamma) / total + theta / m : 1 / m);
    }
    return p;
  }
  void observe(const std::vector<int64_t>& counts, const std::vector<double>& q,
               const std::vector<double>& a, const std::vector<double>& losses) override {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const double square = by_losses ? losses[i] * losses[i] : a[i];
      w[i] += static_cast<double>(counts[i]) * square / q[i];
      if (running) bound = std::max(bound, (by_losses ? 1.5 : 1) * square);
    }
  }
  double theta;
  double bound;
  std::vector<double> w;
  bool by_losses = false;
  bool running = false;
};

struct SlowAvare : Slow {
  SlowAvare(int64_t clients, int64_t per_round, double start, double settling)
      : Slow(clients),
        k(static_cast<double>(per_round)),
        c(start),
        delta(settling),
        h(static_cast<std::size_t>(clients)) {}

  double epsilon() const {
    return 1 / (std::pow(c, 1 - delta / 3) * std::pow(c + k * (t - 1), delta / 3));
  }
  // Lemma 1 (eqs. 11, 12 and 14).
  std::vector<double> p() const override {
    auto sorted = h;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    if (sorted.front() == 0) return std::vector<double>(h.size(), 1 / m);
    double sum = 0;
    double lambda = 0;
    double last = 0;  // h of the rank rho
    for (std::size_t i = 1; i <= h.size(); ++i) {
      sum += sorted[i - 1];
      const double left = 1 - (m - static_cast<double>(i)) * epsilon();
      if (sorted[i - 1] < epsilon() * sum / left) continue;
      lambda = sum / left;
      last = sorted[i - 1];
    }
    std::vector<double> p;
    for (const double x : h) p.push_back(x >= last ? x / lambda : epsilon());
    return p;
  }
  void observe(const std::vector<int64_t>& counts, const std::vector<double>&,
               const std::vector<double>& a, const std::vector<double>&) override {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) h[i] = std::sqrt(a[i]);
    }
    t += 1;
  }
  double k;
  double c;
  double delta;
  double t = 1;
  std::vector<double> h;
};

// What clients might report: sizes over some decades, falling with the rounds; zeros and ties.
struct Reports {
  Reports(int64_t clients, int64_t round) : a(static_cast<std::size_t>(clients)), losses(a) {
    RandomStream stream(3, Purpose::kData, static_cast<uint64_t>(round));
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double size = std::exp(static_cast<double>(i % 5) - 2 + 2 * stream.normal());
      a[i] = size / std::sqrt(static_cast<double>(round));
      if (stream.below(20) == 0) a[i] = 0;
      if (stream.below(10) == 0) a[i] = 0.25;
      losses[i] = stream.normal() * size;
    }
  }
  std::vector<double> a;
  std::vector<double> losses;
};

template <class T>
std::vector<T> at(const std::vector<T>& values, const std::vector<int64_t>& clients) {
  std::vector<T> chosen;
  for (const int64_t client : clients) chosen.push_back(values[static_cast<std::size_t>(client)]);
  return chosen;
}

inline Draw play(ClientSampler& sampler, int64_t round) {
  RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(round));
  Draw draw = sampler.draw(round, sampler.per_round(), stream);
  const Reports reports(sampler.clients(), round);
  const auto a = at(reports.a, draw.clients);
  const auto losses = at(reports.losses, draw.clients);
  sampler.observe(draw, {a, losses});
  return draw;
}

inline std::vector<double> probabilities(const ClientSampler& sampler) {
  std::vector<double> p;
  for (int64_t client = 0; client < sampler.clients(); ++client) {
    p.push_back(sampler.probability(client));
  }
  return p;
}

// Clients that come or go before a round: each with probability 1/5 in every fourth.
inline std::vector<int64_t> changes(int64_t clients, int64_t round) {
  std::vector<int64_t> changed;
  RandomStream stream(2, Purpose::kAvailability, static_cast<uint64_t>(round));
  for (int64_t client = 0; round % 4 == 0 && client < clients; ++client) {
    if (stream.below(5) == 0) changed.push_back(client);
  }
  return changed;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                        double tolerance, int64_t round) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance) << "client " << i << " in round " << round;
  }
  ASSERT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), 1, 1e-12) << "in round " << round;
}

inline void compare(ClientSampler& sampler, Slow& slow, int64_t rounds, bool churn = false,
                    double tolerance = 1e-12) {
  const int64_t m = sampler.clients();
  std::vector<bool> here(static_cast<std::size_t>(m), true);
  for (int64_t round = 1; round <= rounds; ++round) {
    const auto changed = churn ? changes(m, round) : std::vector<int64_t>{};
    for (const int64_t client : changed) here[static_cast<std::size_t>(client)].flip();
    sampler.toggle(changed);
    auto q = slow.p();
    ASSERT_NO_FATAL_FAILURE(expect_near(probabilities(sampler), q, tolerance, round));
    double available = 0;
    for (std::size_t i = 0; i < q.size(); ++i) available += here[i] ? q[i] : 0;
    for (double& x : q) x /= available;
    const Draw draw = play(sampler, round);
    if (draw.everyone || draw.size() == 0) continue;
    std::vector<int64_t> counts(q.size());
    for (std::size_t i = 0; i < draw.size(); ++i) {
      counts[static_cast<std::size_t>(draw.clients[i])] = draw.counts[i];
    }
    const Reports reports(m, round);
    slow.observe(counts, q, reports.a, reports.losses);
  }
}

}  // namespace hanse
