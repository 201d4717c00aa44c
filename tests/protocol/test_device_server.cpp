// The server's step of each entry, as kernels make it and as the host's optimizers do, bit for bit;
// and its parts on several ranks against all of it on one.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "model/device/work.hpp"
#include "support/devices.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

const std::vector<std::string> kOptimizers{"sgd", "momentum", "adagrad", "adam", "yogi"};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

ServerOptions options_of(const std::string& optimizer) {
  return {.optimizer = optimizer, .beta = 0.7, .beta2 = 0.85, .tau = 0.01};
}

// Every pair of a model's entry and an update.
struct Pairs {
  Row theta, update;
};

Pairs awkward_pairs() {
  const Row values{0,       -0.0F,    1,      -0.3F,
                   1e-3F,   1e20F,    -3e38F, std::numeric_limits<float>::denorm_min(),
                   -1e-41F, 0x1p-44F, kInf,   -kInf,
                   kNan};
  Pairs pairs;
  for (const float theta : values) {
    for (const float update : values) {
      pairs.theta.push_back(theta);
      pairs.update.push_back(update);
    }
  }
  return pairs;
}

void expect_same(const Row& got, const Row& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_same = std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(expected[i]);
    EXPECT_TRUE(is_same || (std::isnan(got[i]) && std::isnan(expected[i])))
        << what << ": " << got[i] << ", not " << expected[i] << " at " << i;
  }
}

// The formulas of server_optimizer.hpp, one operation a line.
void slow_step(const std::string& optimizer, float rate, float u, float& theta, float& m,
               float& v) {
  const float beta = 0.7F, beta2 = 0.85F, tau = 0.01F;
  if (optimizer == "sgd") {
    theta = theta + rate * u;
    return;
  }
  const float kept = beta * m;
  if (optimizer == "momentum") {
    m = kept + u;
    theta = theta + rate * m;
    return;
  }
  m = kept + (1.0F - beta) * u;
  const float square = u * u;
  const float share = (1.0F - beta2) * u * u;
  if (optimizer == "adagrad") v = v + square;
  if (optimizer == "adam") v = beta2 * v + share;
  if (optimizer == "yogi") {
    const float sign = v - square > 0 ? 1.0F : v - square < 0 ? -1.0F : 0.0F;
    v = v - share * sign;
  }
  const float step = rate * m;
  theta = theta + step / (std::sqrt(v) + tau);
}

TEST(StepWork, HasTheBitsOfTheFormulasAndOfTheHost) {
  for (const std::string& name : kOptimizers) {
    Pairs pairs = awkward_pairs();
    const auto n = std::ssize(pairs.theta);
    const auto optimizer = make_server_optimizer(options_of(name), n);
    Row on_host = pairs.theta, slow = pairs.theta, by_work = pairs.theta;
    Row m(slow.size()), v(slow.size(), 0.01F * 0.01F);
    Row first = m, second = v;
    for (int round = 0; round < 3; ++round) {
      auto step = optimizer->by_entry().value();
      step.rates.rate = 0.3F;
      optimizer->step(on_host, pairs.update, 0.3);
      const StepWork work{.step = step,
                          .exact = nullptr,
                          .fast = pairs.update.data(),
                          .theta = by_work.data(),
                          .first = step.states() > 0 ? first.data() : nullptr,
                          .second = step.states() > 1 ? second.data() : nullptr};
      for (int64_t i = 0; i < n; ++i) work(i);
      for (std::size_t i = 0; i < slow.size(); ++i) {
        slow_step(name, 0.3F, pairs.update[i], slow[i], m[i], v[i]);
      }
      expect_same(on_host, slow, name + " on the host");
      expect_same(by_work, slow, name + " by the kernel's function");
      std::rotate(pairs.update.begin(), pairs.update.begin() + 5, pairs.update.end());
    }
    const auto states = optimizer->entry_states();
    if (!states[0].empty()) expect_same(first, Row(states[0].begin(), states[0].end()), name);
    if (!states[1].empty()) expect_same(second, Row(states[1].begin(), states[1].end()), name);
  }
}

TEST(StepWork, TakesAFixedPointSumAndItsScale) {
  const std::vector<int64_t> sums{int64_t{3} << 42, -1, 0, (int64_t{1} << 62) + 12345};
  Row theta{1, 1, 1, 1};
  const StepWork work{
      .step = {.rates = {.rate = 2}, .scale = 0.5F}, .exact = sums.data(), .theta = theta.data()};
  for (int64_t i = 0; i < 4; ++i) work(i);
  EXPECT_EQ(theta, (Row{1.75F, 1, 1, 1 + static_cast<float>(0x1p18)}));
}

Row random_row(int64_t n, uint64_t key) {
  RandomStream stream(key, Purpose::kData);
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) x = static_cast<float>(stream.normal());
  return row;
}

struct Stepped {
  Row theta, first, second;
};

// Three rounds, in which every rank adds its update; before the last one as after a checkpoint.
Stepped step_on_ranks(int ranks, int64_t n, const std::string& name, Reduction reduction,
                      const std::string& device) {
  Stepped result;
  run_threads(ranks, [&](Communicator& comm) {
    const bool is_root = comm.rank() == 0;
    const auto devices = torch_library().make_staged_communicator(comm);
    const auto server = torch_library().make_device_server(comm, *devices, n, device);
    const auto sum = torch_library().make_device_sum(n, 12, reduction, device);
    auto optimizer = make_server_optimizer(options_of(name), n);
    const auto states = [&] { return is_root ? optimizer->entry_states() : EntryStates(); };
    const auto on_device = [&](Row row) {
      return at::from_blob(row.data(), {std::ssize(row)}, at::kFloat).clone().to(device);
    };
    at::Tensor theta = on_device(random_row(n, 99));
    for (int round = 0; round < 3; ++round) {
      for (int client = comm.rank(); client < 4; client += ranks) {
        const auto key = static_cast<uint64_t>(10 * round + client);
        sum->fold(on_device(random_row(n, key)).unsqueeze(0), {}, std::vector<double>{0.25});
      }
      auto step = optimizer->by_entry().value();
      step.rates.rate = 0.1F * static_cast<float>(round + 1);
      step.scale = 0.75F;
      server->step(step, states(), *sum, theta);
      if (round != 1) continue;
      server->collect(states());
      State state;
      optimizer->save(state);
      optimizer = make_server_optimizer(options_of(name), n);
      if (is_root) optimizer->load(state);
      server->forget();
    }
    server->collect(states());
    if (!is_root) return;
    const at::Tensor row = theta.cpu();
    result.theta.assign(row.data_ptr<float>(), row.data_ptr<float>() + n);
    result.first.assign(states()[0].begin(), states()[0].end());
    result.second.assign(states()[1].begin(), states()[1].end());
  });
  return result;
}

Stepped step_on_host(int64_t n, const std::string& name) {
  const auto optimizer = make_server_optimizer(options_of(name), n);
  Stepped result{.theta = random_row(n, 99)};
  for (int round = 0; round < 3; ++round) {
    UpdateSum sum(n, 12, Reduction::kExact);
    for (int client = 0; client < 4; ++client) {
      sum.add(random_row(n, static_cast<uint64_t>(10 * round + client)), 0.25);
    }
    Row update(static_cast<std::size_t>(n));
    sum.take(update);
    for (float& u : update) u *= 0.75F;
    optimizer->step(result.theta, update, 0.1F * static_cast<float>(round + 1));
  }
  const auto states = optimizer->entry_states();
  result.first.assign(states[0].begin(), states[0].end());
  result.second.assign(states[1].begin(), states[1].end());
  return result;
}

// Also with fewer entries than ranks, and with parts of unequal length.
TEST(DeviceServer, HasTheBitsOfTheHostOnAnyNumberOfRanks) {
  for (const std::string& device : test_devices()) {
    for (const std::string& name : kOptimizers) {
      for (const int64_t n : {1, 2, 7, 64}) {
        const Stepped expected = step_on_host(n, name);
        for (int ranks = 1; ranks <= 4; ++ranks) {
          const Stepped got = step_on_ranks(ranks, n, name, Reduction::kExact, device);
          const std::string what = name + " of " + std::to_string(n) + " on " +
                                   std::to_string(ranks) + " ranks on " + device;
          expect_same(got.theta, expected.theta, what);
          expect_same(got.first, expected.first, what);
          expect_same(got.second, expected.second, what);
        }
      }
    }
  }
}

TEST(DeviceServer, StepsAlongFloatSums) {
  for (const std::string& device : test_devices()) {
    const Stepped expected = step_on_host(7, "adam");
    const Stepped got = step_on_ranks(3, 7, "adam", Reduction::kFast, device);
    for (std::size_t i = 0; i < got.theta.size(); ++i) {
      EXPECT_NEAR(got.theta[i], expected.theta[i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace hanse
