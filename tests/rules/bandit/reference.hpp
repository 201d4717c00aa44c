// Fed-GO-UCB's second phase, word for word (Algorithm 1): dense matrices, one turn after another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <Eigen/Dense>

#include "hanse/base/random.hpp"
#include "hanse/rules/bandit/linear.hpp"

namespace hanse {

// A bandit of random features; nothing is like anything else.
struct TestBandit {
  int64_t clients;
  int64_t rounds;
  int64_t arms;
  int64_t dimension;
  std::vector<double> features;  // [arms, dimension]
  std::vector<double> base;
  std::vector<double> values;
  std::vector<double> noise;  // [rounds, clients]
};

inline TestBandit random_bandit(int64_t clients, int64_t rounds, int64_t arms, int64_t dimension,
                                uint64_t seed) {
  RandomStream stream(seed, Purpose::kArms, 99);
  const auto normals = [&](int64_t n, double deviation) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& value : values) value = deviation * stream.normal();
    return values;
  };
  return {clients,
          rounds,
          arms,
          dimension,
          normals(arms * dimension, 1),
          normals(arms, 0.5),
          normals(arms, 1),
          normals(clients * rounds, 0.1)};
}

struct Play {
  std::vector<int64_t> picks;  // in playing order
  std::vector<int64_t> syncs;  // steps from 1
  double scalars = 0;
  std::vector<int64_t> dictionary;  // its size after each synchronization
};

// The clients of a policy one after another; `uniform` is for dictionaries.
inline Play play_policy(BanditPolicy& policy, const TestBandit& bandit,
                        const std::function<double()>& uniform = {}) {
  std::vector<double> total(static_cast<std::size_t>(policy.row_width()));
  std::vector<std::unique_ptr<BanditClient>> clients(static_cast<std::size_t>(bandit.clients));
  std::vector<std::vector<int64_t>> history(clients.size());
  const auto start = [&] {
    for (std::size_t c = 0; c < clients.size(); ++c) {
      clients[c] = policy.make_client(static_cast<int64_t>(c));
    }
  };
  start();
  Play play;
  for (int64_t t = 1; t <= bandit.clients * bandit.rounds; ++t) {
    BanditClient& client = *clients[static_cast<std::size_t>((t - 1) % bandit.clients)];
    const Turn turn = client.next();
    client.play(turn, bandit.values[static_cast<std::size_t>(turn.arm)] +
                          bandit.noise[static_cast<std::size_t>(t - 1)]);
    play.picks.push_back(turn.arm);
    history[static_cast<std::size_t>((t - 1) % bandit.clients)].push_back(turn.arm);
    if (!turn.triggers) continue;
    play.syncs.push_back(t);
    for (std::size_t c = 0; c < clients.size(); ++c) {
      policy.add(clients[c]->own(), static_cast<int64_t>(c), total);
    }
    const auto members = policy.members();
    std::vector<int64_t> drawn(members.size());
    for (const auto& arms : history) {
      if (!drawn.empty()) policy.draw(arms, uniform, drawn);
    }
    std::copy(drawn.begin(), drawn.end(), members.begin());
    play.scalars += policy.know(total);
    play.dictionary.push_back(policy.dictionary());
    start();
  }
  return play;
}

inline Play play_literally(const TestBandit& bandit, const UcbOptions& options) {
  using Matrix = Eigen::MatrixXd;
  using Vector = Eigen::VectorXd;
  const auto d = bandit.dimension;
  const auto n = static_cast<std::size_t>(bandit.clients);
  const Eigen::Map<const Matrix> phi(bandit.features.data(), d, bandit.arms);
  const Vector w0 = Vector::LinSpaced(d, -1, 2);  // any: the picks do not depend on it
  const Matrix prior = options.lambda * Matrix::Identity(d, d);
  const auto logdet = [](const Matrix& m) { return m.ldlt().vectorD().array().log().sum(); };

  Matrix global_sigma = prior;
  Vector global_b = Vector::Zero(d);
  std::vector<Matrix> sigma(n, prior), new_sigma(n, Matrix::Zero(d, d));
  std::vector<Vector> b(n, global_b), new_b(n, global_b);
  std::vector<int64_t> own(n, 0);
  Play play;
  for (int64_t t = 1; t <= bandit.clients * bandit.rounds; ++t) {
    const auto i = static_cast<std::size_t>((t - 1) % bandit.clients);
    const Matrix inverse = sigma[i].fullPivLu().inverse();
    const Vector centre = inverse * b[i] + options.lambda * inverse * w0;  // (5)
    const double growth = logdet(sigma[i]) - static_cast<double>(d) * std::log(options.lambda);
    const double radius =
        options.sqrt_beta >= 0
            ? options.sqrt_beta
            : options.sigma * std::sqrt(growth + 2 * std::log(1 / options.delta)) +
                  std::sqrt(options.lambda) * options.radius;
    int64_t arm = 0;
    double most = -INFINITY;
    for (int64_t a = 0; a < bandit.arms; ++a) {
      const Vector g = phi.col(a);
      const double bound = bandit.base[static_cast<std::size_t>(a)] + g.dot(centre - w0) +
                           radius * std::sqrt(g.dot(inverse * g));
      if (bound > most) {
        most = bound;
        arm = a;
      }
    }
    const auto a = static_cast<std::size_t>(arm);
    const Vector g = phi.col(arm);
    const double y = bandit.values[a] + bandit.noise[static_cast<std::size_t>(t - 1)];
    const Matrix outer = g * g.transpose();
    const Vector target = g * (g.dot(w0) + y - bandit.base[a]);
    sigma[i] += outer;
    new_sigma[i] += outer;
    b[i] += target;
    new_b[i] += target;
    ++own[i];
    play.picks.push_back(arm);
    if (!(static_cast<double>(own[i]) * (logdet(sigma[i]) - logdet(sigma[i] - new_sigma[i])) >
          options.gamma)) {
      continue;
    }
    play.syncs.push_back(t);
    for (std::size_t c = 0; c < n; ++c) {
      global_sigma += new_sigma[c];
      global_b += new_b[c];
    }
    for (std::size_t c = 0; c < n; ++c) {
      sigma[c] = global_sigma;
      b[c] = global_b;
      new_sigma[c].setZero();
      new_b[c].setZero();
      own[c] = 0;
    }
  }
  return play;
}

}  // namespace hanse
