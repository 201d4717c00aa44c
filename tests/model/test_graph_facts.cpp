// What a graph says of its network: how it ends, and which values it takes as integers.
#include <fstream>

#include <gtest/gtest.h>

#include "graphs/graph_facts.hpp"
#include "support/graph_file.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

class GraphFacts : public testing::Test {
 protected:
  // The linear graph's file: weight, bias and x are the values 0 to 2, the transposed weight and
  // the logits 3 and 4; `nodes` stand behind, and `output` is what evaluation gives.
  GraphFile read(const std::vector<std::string>& nodes, int64_t output,
                 const std::string& sample = "[4]") {
    GraphText graph = linear_graph();
    graph.sample = sample;
    for (const std::string& node : nodes) graph.evaluation += "," + node;
    graph.evaluation_output = std::to_string(output);
    std::ofstream(folder_ / "net.graph", std::ios::binary) << graph.file();
    return read_graph_file(folder_ / "net.graph");
  }
  std::string end_of(const std::vector<std::string>& nodes, int64_t output) {
    return last_activation(read(nodes, output).evaluation);
  }

  ScratchFolder folder_;
};

std::string converted(int64_t value, const std::string& type) {
  return R"({"op":"aten::_to_copy","args":[)" + graph_value(value) +
         R"(],"kwargs":{"dtype":{"dtype":")" + type + R"("}}})";
}

TEST_F(GraphFacts, AnActivationEndsANetworkInWhateverShape) {
  const auto softmax = graph_node("aten::_softmax", graph_value(4) + ",1,false");
  EXPECT_EQ(end_of({}, 4), "");
  EXPECT_EQ(end_of({softmax}, 5), "softmax");
  EXPECT_EQ(end_of({softmax}, 4), "");  // an output that is not the last value
  EXPECT_EQ(end_of({softmax, graph_node("aten::unsqueeze", graph_value(5) + ",2"),
                    graph_node("aten::transpose", graph_value(6) + ",1,2", "int"),
                    graph_node("aten::view", graph_value(7) + R"(,[{"rows":[1,0]},3])")},
                   8),
            "softmax");
  EXPECT_EQ(end_of({graph_node("aten::_log_softmax", graph_value(4) + ",1,false")}, 5),
            "log_softmax");
  EXPECT_EQ(end_of({graph_node("aten::sigmoid", graph_value(4))}, 5), "sigmoid");
  EXPECT_EQ(end_of({softmax, graph_node("aten::log", graph_value(5))}, 6), "");
}

TEST_F(GraphFacts, IntegersAreMadeOfSamplesOrOfTheirSlices) {
  const auto slice = [](int64_t axis, int64_t first, int64_t last, int64_t of = 2) {
    return graph_node("aten::slice", fmt::format("{},{},{},{}", graph_value(of), axis, first, last),
                      "Tensor");
  };
  const auto parts_of = [&](const std::vector<std::string>& nodes,
                            const std::string& sample = "[4]") {
    std::string text;
    for (const IntegerPart& part : integer_parts(read(nodes, 4, sample))) {
      text += fmt::format("{}-{} {};", part.first, part.last, part.type);
    }
    return text;
  };
  EXPECT_EQ(parts_of({}), "");
  EXPECT_EQ(parts_of({converted(2, "uint8")}), "0-4 uint8;");
  EXPECT_EQ(parts_of({converted(2, "float64"), converted(4, "int64")}), "");
  EXPECT_EQ(parts_of({slice(0, 0, INT64_MAX), slice(1, 1, 3, 5), converted(6, "int64"),
                      slice(1, 2, INT64_MAX), graph_node("aten::unsqueeze", graph_value(8) + ",1"),
                      converted(9, "int8")}),
            "1-3 int64;2-4 int8;");
  EXPECT_EQ(
      parts_of({graph_node("aten::select", graph_value(2) + ",1,3", "int"), converted(5, "int32")}),
      "3-4 int32;");
  EXPECT_EQ(parts_of({slice(0, 1, 3), converted(5, "int64")}), "");           // some of the rows
  EXPECT_EQ(parts_of({slice(1, 0, 1), converted(5, "uint8")}, "[2,2]"), "");  // of an image
  EXPECT_EQ(parts_of({converted(2, "uint8")}, "[2,2]"), "0-4 uint8;");
}

TEST_F(GraphFacts, TypesHaveTheirRanges) {
  const auto whole =
      whole_numbers_of({{0, 4, "uint8"}, {4, 6, "int8"}, {6, 7, "int64"}}, "a.graph");
  ASSERT_EQ(whole.size(), 3U);
  EXPECT_TRUE(whole[0].hold(0) && whole[0].hold(255) && !whole[0].hold(256) && !whole[0].hold(-1));
  EXPECT_TRUE(whole[1].hold(-128) && whole[1].hold(127) && !whole[1].hold(128));
  EXPECT_TRUE(whole[2].hold(1e18F) && !whole[2].hold(1e19F) && !whole[2].hold(37.4F));
  EXPECT_EQ(whole[0].what,
            "no whole number from 0 to 255, and the network converts it to uint8 (a.graph)");
  EXPECT_EQ(whole[2].what, "no whole number, and the network converts it to int64 (a.graph)");
}

}  // namespace
}  // namespace hanse
