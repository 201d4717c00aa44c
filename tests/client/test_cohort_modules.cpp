// Networks of the user's own on a device: the clients one after the other, each with its
// parameters.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/cohort_cases.hpp"
#include "support/graph_file.hpp"
#include "support/pooled_graph.hpp"

namespace hanse {
namespace {

Case graph_of(const GraphText& graph) {
  Case c{.model = kind("graph")};
  if (graph.sample == "[1,12,12]") c.shape = {1, 12, 12};
  c.model.path = written(graph);
  return c;
}

// With the masks of the host, wherever they are applied.
TEST(CohortModules, EqualsSgdOfGraphs) {
  expect_agreement(graph_of(linear_graph()), "linear");
  expect_agreement(graph_of(dropout_graph()), "dropout");
  Case moving = graph_of(dropout_graph());
  moving.client.momentum = 0.9;
  moving.client.weight_decay = 0.1;
  moving.client.clip = 0.5;
  expect_agreement(moving, "with momentum");
  expect_agreement(graph_of(pooled_graph()), "max pooling");
  expect_evaluation(graph_of(linear_graph()), "linear");
  expect_evaluation(graph_of(dropout_graph()), "dropout");
}

// The clients' own batches move the running means, not the steps: neither decay nor the pull to the
// received row touches them.
TEST(CohortModules, EqualsSgdOfGraphsWithBuffers) {
  const Case norm = graph_of(picture_norm_graph());
  expect_agreement(norm, "batch norm");
  expect_evaluation(norm, "batch norm");
  Case moving = norm;
  moving.client.momentum = 0.9;
  moving.client.weight_decay = 0.1;
  moving.client.clip = 0.5;
  expect_agreement(moving, "with momentum");
  Case pulled = norm;
  pulled.client.kind = "prox";
  pulled.client.mu = 2;
  expect_agreement(pulled, "prox");
}

TEST(CohortModules, EqualsSgdOfPartsOfGraphs) {
  const auto part_of = [](const GraphText& graph, const TrainedPart& part) {
    Case c = graph_of(graph);
    c.part = part;
    return c;
  };
  expect_agreement(graph_of(linear_graph("false")), "frozen in its file");
  for (const GraphText& graph : {linear_graph(), dropout_graph(), picture_norm_graph()}) {
    const Case bias = part_of(graph, {.train = {"bias"}});
    expect_agreement(bias, "the bias");
    expect_evaluation(bias, "the bias");
    const Case adapters = part_of(graph, {.rank = 2, .layers = {"*"}});
    expect_agreement(adapters, "adapters");
    expect_evaluation(adapters, "adapters");
    expect_agreement(part_of(graph, {.train = {"bias"}, .rank = 1, .layers = {"*"}}), "both");
  }
}

// With adapters, too, whose own products are float32: of merged matrices, as cohorts have them; a
// split rounds other products.
TEST(CohortModules, EqualsSgdOfGraphsInBfloat16) {
  for (const GraphText& graph : {linear_graph(), dropout_graph(), picture_norm_graph()}) {
    Case c = graph_of(graph);
    c.model.precision = Precision::kBfloat16;
    expect_agreement(c, "bfloat16");
    expect_evaluation(c, "bfloat16");
    c.part = {.train = {"bias"}, .rank = 2, .layers = {"*"}, .scale = 2};
    c.part.path = AdapterPath::kMerged;
    expect_agreement(c, "adapters in bfloat16");
  }
}

}  // namespace
}  // namespace hanse
