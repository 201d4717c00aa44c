// Federations with samples that a test chooses.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/support.hpp"
#include "hanse/base/random.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// Training samples of one client: x [n][d], y [n].
struct Samples {
  std::vector<std::vector<float>> x;
  std::vector<float> y;
};

// Linear regressions of clients with so many samples each, of different scale, and targets that no
// common model meets.
inline std::vector<Samples> rivals(const std::vector<int>& sizes) {
  RandomStream random(8, Purpose::kData);
  std::vector<Samples> clients;
  for (const int n : sizes) {
    const auto c = static_cast<double>(clients.size());
    Samples& samples = clients.emplace_back();
    for (int i = 0; i < n; ++i) {
      const double x = (0.5 + 0.3 * c) * random.normal();
      const double z = (1.7 - 0.3 * c) * random.normal();
      samples.x.push_back({static_cast<float>(x), static_cast<float>(z)});
      samples.y.push_back(static_cast<float>((c - 2) * x + (3 - c) * z));
    }
  }
  return clients;
}

// Client c has exactly the samples clients[c]. Classification: y in {0, 1}, both of them somewhere.
inline Federation make_federation(Communicator& host, const std::vector<Samples>& clients,
                                  const std::string& task = "regression") {
  std::string text = "label,client";
  for (std::size_t j = 0; j < clients.front().x.front().size(); ++j) text += fmt::format(",x{}", j);
  for (std::size_t c = 0; c < clients.size(); ++c) {
    for (std::size_t i = 0; i < clients[c].x.size(); ++i) {
      text += fmt::format("\n{},{}", clients[c].y[i], c);
      for (const float value : clients[c].x[i]) text += fmt::format(",{}", value);
    }
  }
  const TempFolder folder;
  DataOptions data;
  data.kind = "csv";
  data.path = folder.write("samples.csv", text + "\n");
  data.client_column = "client";
  data.task = task;
  data.test_fraction = 0;
  FederationOptions options;
  options.partition = "by-column";
  return Federation::load(data, options, 1, host);
}

}  // namespace hanse
