// Federations with samples that a test chooses.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/support.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// Training samples of one client: x [n][d], y [n].
struct Samples {
  std::vector<std::vector<float>> x;
  std::vector<float> y;
};

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
