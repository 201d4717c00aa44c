// Clients with quadratic losses, where everything can be followed by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/model/model.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {

using Row = std::vector<float>;
using Numbers = std::vector<double>;

inline std::vector<Samples> random_clients(const std::vector<int>& sizes = {5, 1, 8}) {
  RandomStream random(3, Purpose::kData);
  const auto value = [&] { return static_cast<float>(random.normal()); };
  std::vector<Samples> clients;
  for (const int n : sizes) {
    Samples& samples = clients.emplace_back();
    for (int i = 0; i < n; ++i) {
      samples.x.push_back({value(), value(), value()});
      samples.y.push_back(3 * value());
    }
  }
  return clients;
}

// A linear regression without bias.
struct Regression {
  explicit Regression(std::vector<Samples> samples)
      : clients(std::move(samples)),
        comm(make_single_communicator()),
        federation(make_federation(*comm, clients)),
        model(make_model({.kind = "linear", .loss = "squared-error", .bias = false},
                         federation.sample_shape(), 0)) {}

  // F(w) = mean (<w, x> - y)^2 / 2 of the client and its gradient.
  double loss_and_gradient(std::size_t client, const Numbers& w, Numbers& gradient) const {
    const auto& [x, y] = clients[client];
    const auto n = static_cast<double>(y.size());
    double loss = 0;
    gradient.assign(w.size(), 0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      double error = -y[i];
      for (std::size_t j = 0; j < w.size(); ++j) error += w[j] * x[i][j];
      loss += error * error / 2 / n;
      for (std::size_t j = 0; j < w.size(); ++j) gradient[j] += error * x[i][j] / n;
    }
    return loss;
  }

  std::vector<Samples> clients;
  std::unique_ptr<Communicator> comm;
  Federation federation;
  std::unique_ptr<Model> model;
};

// What goes into one participation, and what comes out of it.
struct OneRound {
  Row row;
  Row state;
  Row control;
  Row change;
  ClientOutcome outcome = {};

  explicit OneRound(Row received) : OneRound(std::move(received), 0) { state.resize(row.size()); }
  OneRound(Row received, int64_t state_width)
      : row(std::move(received)),
        state(static_cast<std::size_t>(state_width)),
        control(row.size()),
        change(row.size(), 99) {}
  OneRound(const LocalUpdate& update, Row received)
      : OneRound(std::move(received), update.state_width()) {
    control.resize(static_cast<std::size_t>(update.control_returns() ? update.control_width() : 0));
    change.assign(static_cast<std::size_t>(update.control_width()), 99);
  }

  ClientTask task(int64_t client, int64_t round) {
    return {.client = client,
            .round = round,
            .seed = 9,
            .row = row,
            .state = state,
            .control = control,
            .control_change = change};
  }

  void train(LocalUpdate& update, int64_t client, int64_t round = 1) {
    outcome = update.train(task(client, round));
  }
};

// One object serves many clients: nothing but the task counts.
inline void expect_pure_function(LocalUpdate& update) {
  OneRound first(update, {1, 2, 3}), other(update, {-5, 4, 0}), again(update, {1, 2, 3});
  for (OneRound* round : {&first, &other, &again}) {
    std::iota(round->control.begin(), round->control.end(), -1.0F);
  }
  std::fill(again.change.begin(), again.change.end(), 7.0F);  // whatever stood there
  first.train(update, 2);
  other.train(update, 0);
  again.train(update, 2);
  EXPECT_EQ(first.row, again.row);
  EXPECT_EQ(first.state, again.state);
  EXPECT_EQ(first.change, again.change);
  EXPECT_NE(first.row, other.row);
}

inline void expect_close(const Row& row, const Numbers& expected, double tolerance) {
  ASSERT_EQ(row.size(), expected.size());
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], expected[i], tolerance) << i;
}

}  // namespace hanse
