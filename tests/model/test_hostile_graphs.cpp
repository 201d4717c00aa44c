// Graphs that are well written and wrong for LibTorch: one line before the first round, no crash,
// no memory beyond what the process can have.
#include <algorithm>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/graph_file.hpp"

namespace hanse {
namespace {

std::unique_ptr<Model> load(const std::string& path) {
  ModelOptions options = model_options("graph", "cross-entropy");
  options.path = path;
  return make_model(options, {4}, 3);
}

void expect_refused(const std::string& path, const std::string& part) {
  SCOPED_TRACE(part);
  expect_error<InvalidArgument>([&] { load(path); }, {part, path});
}

// The linear graph with nodes 9, 10, ... behind its own, the last of which its gradient needs.
GraphText with_nodes(const std::vector<std::string>& nodes) {
  GraphText graph = linear_graph();
  const int64_t last = 9 + std::ssize(nodes);
  graph.training += "," + graph_nodes(nodes) + "," +
                    graph_node("aten::sum", graph_value(last - 1)) + "," +
                    graph_node("aten::add", graph_value(8) + "," + graph_value(last), "Tensor");
  graph.outputs = fmt::format(R"({{"output":5,"gradients":[7,{}],"buffers":[]}})", last + 1);
  return graph;
}

// A node on W [3, 4] (0), b [3] (1), x [n, 4] (2) that LibTorch refuses for any of these rows.
struct Refused {
  const char* op;
  const char* args;
  const char* overload = "";
};

void expect_each_refused(std::initializer_list<Refused> cases) {
  for (const Refused& c : cases) {
    const std::string node = graph_node(c.op, c.args, c.overload);
    SCOPED_TRACE(node);
    expect_refused(written(with_nodes({node})), std::string("at ") + c.op);
  }
}

TEST(HostileGraph, ShapesDisagree) {
  expect_each_refused(
      {{"aten::mm", R"({"v":0},{"v":0})"},
       {"aten::bmm", R"({"v":0},{"v":0})"},
       {"aten::addmm", R"({"v":0},{"v":2},{"v":0})"},
       {"aten::add", R"({"v":0},{"v":1})", "Tensor"},
       {"aten::cat", R"([{"v":0},{"v":1}])"},
       {"aten::stack", R"([{"v":0},{"v":1}])"},
       {"aten::view", R"({"v":0},[5])"},
       {"aten::view", R"({"v":0},[-1,-1])"},
       {"aten::expand", R"({"v":0},[2,2])"},
       {"aten::dot", R"({"v":0},{"v":1})"},
       {"aten::_softmax_backward_data", R"({"v":0},{"v":1},0,{"dtype":"float32"})"},
       {"aten::convolution", R"({"v":0},{"v":0},null,[1,1],[0,0],[1,1],false,[0,0],1)"}});
}

TEST(HostileGraph, AxesAndPlacesAreOutOfRange) {
  expect_each_refused({{"aten::sum", R"({"v":0},[7])", "dim_IntList"},
                       {"aten::sum", R"({"v":0},[0,0])", "dim_IntList"},
                       {"aten::transpose", R"({"v":0},0,9)", "int"},
                       {"aten::permute", R"({"v":0},[0,0])"},
                       {"aten::unsqueeze", R"({"v":0},-9223372036854775808)"},
                       {"aten::select", R"({"v":0},0,99)", "int"},
                       {"aten::select", R"({"v":0},0,-9223372036854775808)", "int"},
                       {"aten::narrow", R"({"v":0},0,2,9)"},
                       {"aten::slice", R"({"v":0},0,0,3,0)", "Tensor"},
                       {"aten::cumsum", R"({"v":0},2)"},
                       {"aten::_softmax", R"({"v":0},5,false)"},
                       {"aten::diagonal", R"({"v":0},0,1,1)"}});
  const std::string places = graph_node("aten::full", "[2],99.0");
  const std::string whole = graph_node("aten::argmax", R"({"v":9},0,true)");  // int64 [1]: 0
  const std::string far = graph_node("aten::add", R"({"v":10},99)", "Scalar");
  for (const auto& node : {graph_node("aten::index_select", R"({"v":0},0,{"v":11})"),
                           graph_node("aten::embedding", R"({"v":0},{"v":11})"),
                           graph_node("aten::index", R"({"v":0},[{"v":11}])", "Tensor"),
                           graph_node("aten::gather", R"({"v":1},0,{"v":11})"),
                           graph_node("aten::scatter_add", R"({"v":1},0,{"v":11},{"v":1})")}) {
    SCOPED_TRACE(node);
    expect_refused(written(with_nodes({places, whole, far, node})), "fails on a batch of 2 at ");
  }
}

TEST(HostileGraph, ListsAreTooShort) {
  for (const auto& node : {graph_node("aten::reflection_pad1d", R"({"v":0},[])"),
                           graph_node("aten::reflection_pad1d", R"({"v":0},[1,1,1])"),
                           graph_node("aten::replication_pad1d", R"({"v":0},[])"),
                           graph_node("aten::_adaptive_avg_pool2d", R"({"v":0},[1,1,1])")}) {
    SCOPED_TRACE(node);
    expect_refused(written(with_nodes({node})), ": a list has ");
  }
  const std::string pool = R"({"v":9},[2,2],[],[0,0],[1,1],false)";  // strides as the window
  EXPECT_NE(
      load(written(with_nodes(
          {graph_node("aten::ones", "[1,1,4,4]"), graph_node("aten::max_pool2d_with_indices", pool),
           graph_node("item", R"({"v":10},0)"), graph_node("item", R"({"v":10},1)"),
           graph_node("aten::max_pool2d_with_indices_backward",
                      R"({"v":11},)" + pool + R"(,{"v":12})")}))),
      nullptr);
}

// z = x W^T + b with a gradient through pictures [1, 1, 4] of one row that grow to [1, 1, 8].
TEST(HostileGraph, ScalesLeaveThePicture) {
  const std::string picture = graph_node("aten::ones", "[1,1,4]");
  const auto nodes = [&](const std::string& out, const std::string& scale) {
    return std::vector<std::string>{
        picture, graph_node("aten::upsample_linear1d", R"({"v":9},[)" + out + "],false," + scale)};
  };
  EXPECT_NE(load(written(with_nodes(nodes("8", "2.0")))), nullptr);
  EXPECT_NE(load(written(with_nodes(nodes("7", "1.9")))), nullptr);
  EXPECT_NE(load(written(with_nodes(nodes("800", "null")))), nullptr);
  for (const char* scale : {"1e-12", "1.5"}) {
    expect_refused(written(with_nodes(nodes("8", scale))),
                   "at aten::upsample_linear1d: its arguments");
  }
}

TEST(HostileGraph, ViewsOfOneValueAreBounded) {
  expect_each_refused({{"aten::expand", R"({"v":0},[1099511627776,3,4])"},
                       {"aten::expand", R"({"v":0},[4611686018427387904,-1,-1])"},
                       {"aten::empty_strided", "[1099511627776],[0]"}});
  const std::string wide = graph_node("aten::expand", R"({"v":0},[10000000,3,4])");
  for (const char* parts : {R"(aten::unbind","overload":"int","args":[{"v":9},0)",
                            R"(aten::split","overload":"Tensor","args":[{"v":9},1,0)",
                            R"(aten::chunk","overload":"","args":[{"v":9},10000000,0)"}) {
    const std::string node = std::string(R"({"op":")") + parts + "]}";
    SCOPED_TRACE(node);
    expect_refused(written(with_nodes({wide, node, graph_node("item", R"({"v":10},0)")})),
                   ": its arguments do not fit");
  }
}

TEST(HostileGraph, ResultsAreSeveral) {
  for (const auto& node :
       {graph_node("aten::topk", R"({"v":0},99)"), graph_node("aten::topk", R"({"v":0},-1)"),
        graph_node("aten::_weight_norm_interface", R"({"v":0},{"v":2},0)"),
        graph_node("aten::_weight_norm_interface", R"({"v":0},{"v":1},2)")}) {
    SCOPED_TRACE(node);
    expect_refused(written(with_nodes({node, graph_node("item", R"({"v":9},0)")})),
                   "fails on a batch of 2 at aten::");
    expect_refused(written(with_nodes({node})), "aten::sum: value 9 is several tensors");
  }
  const std::string norm = graph_node("aten::_weight_norm_interface", R"({"v":0},{"v":1},0)");
  EXPECT_NE(load(written(with_nodes({norm, graph_node("item", R"({"v":9},0)")}))), nullptr);
}

TEST(HostileGraph, SizesAreHuge) {
  expect_each_refused({{"aten::zeros", "[4611686018427387904,4]"},
                       {"aten::ones", "[1099511627776]"},
                       {"aten::empty", "[1099511627776]", "memory_format"},
                       {"aten::repeat", R"({"v":0},[1099511627776,1])"},
                       {"aten::repeat", R"({"v":0},[4611686018427387904,4611686018427387904])"},
                       {"aten::arange", "1125899906842624"},
                       {"aten::linspace", "0,1,1125899906842624"},
                       {"aten::eye", "1099511627776"},
                       {"aten::tril_indices", "1099511627776,1099511627776"},
                       {"aten::constant_pad_nd", R"({"v":0},[0,1125899906842624])"},
                       {"aten::constant_pad_nd", R"({"v":0},[0,9223372036854775807])"},
                       {"hanse::keep", R"([1099511627776],0.5,"float")"},
                       {"hanse::keep", R"([4611686018427387904,4],0.5,"bool")"}});
}

TEST(HostileGraph, CountsAreNegative) {
  expect_each_refused({{"aten::zeros", "[-1]"},
                       {"aten::zeros", "[-9223372036854775808]"},
                       {"aten::full", "[2,-3],1.0"},
                       {"aten::narrow", R"({"v":0},0,0,-1)"},
                       {"aten::repeat", R"({"v":0},[-1,1])"},
                       {"aten::expand", R"({"v":0},[-2,4])"},
                       {"aten::eye", "-3"},
                       {"aten::arange", "-3"},
                       {"aten::tril_indices", "-1,2"},
                       {"aten::linspace", "0,1,-5"},
                       {"hanse::keep", R"([-2],0.5,"float")"}});
  for (const auto& node : {graph_node("aten::split", R"({"v":0},-1)", "Tensor"),
                           graph_node("aten::chunk", R"({"v":0},0)"),
                           graph_node("aten::split_with_sizes", R"({"v":0},[4,-1])")}) {
    expect_refused(written(with_nodes({node, graph_node("item", R"({"v":9},0)")})),
                   "fails on a batch of 2 at ");
  }
}

TEST(HostileGraph, TypesAreWrong) {
  expect_each_refused({{"aten::embedding", R"({"v":0},{"v":2})"},
                       {"aten::index", R"({"v":0},[{"v":2}])", "Tensor"},
                       {"aten::gather", R"({"v":0},0,{"v":2})"},
                       {"aten::where", R"({"v":0},{"v":0},{"v":0})", "self"},
                       {"aten::bitwise_and", R"({"v":0},{"v":0})", "Tensor"},
                       {"aten::embedding_dense_backward", R"({"v":0},{"v":1},3,-1,false)"}});
  for (const char* kwarg : {"\"dtype\":9", "\"dtype\":{\"memory_format\":\"preserve\"}",
                            "\"layout\":1", "\"memory_format\":4"}) {
    const std::string node =
        fmt::format(R"({{"op":"aten::_to_copy","args":[{{"v":0}}],"kwargs":{{{}}}}})", kwarg);
    expect_refused(written(with_nodes({node})), "aten::_to_copy: an argument is no ");
  }
  const std::string bools = graph_node("aten::gt", R"({"v":0},0)", "Scalar");
  expect_refused(
      written(with_nodes({bools, graph_node("aten::mm", R"({"v":0},{"v":4})"),
                          graph_node("aten::bitwise_and", R"({"v":9},{"v":0})", "Tensor")})),
      "at aten::bitwise_and");
  GraphText graph = linear_graph();
  graph.evaluation += "," + graph_node("aten::gt", R"({"v":4},0)", "Scalar");
  graph.evaluation_output = "5";
  expect_refused(written(graph), "its output is Bool [2, 3], not Float [2, 3]");
}

TEST(HostileGraph, TheProcessorWouldStop) {
  expect_refused(written(with_nodes({graph_node("aten::zeros", "[1,4,4,4]"),
                                     graph_node("aten::pixel_shuffle", R"({"v":9},4294967296)")})),
                 "at aten::pixel_shuffle: its arguments do not fit");
  GraphText norm = norm_graph();
  const std::string statistics = R"({"v":3},{"v":4},false)";
  norm.evaluation.replace(norm.evaluation.find(statistics), statistics.size(), "null,null,false");
  expect_refused(written(norm), "at aten::native_batch_norm: its arguments do not fit");
  const std::string places = graph_node("aten::argmax", R"({"v":0},0,true)");
  const std::string least = graph_node("aten::add", R"({"v":9},-9223372036854775808)", "Scalar");
  for (const char* op : {"aten::floor_divide", "aten::remainder", "aten::fmod"}) {
    for (const char* divisor : {"0", "-1"}) {
      const std::string node = graph_node(op, std::string(R"({"v":10},)") + divisor, "Scalar");
      SCOPED_TRACE(node);
      expect_refused(written(with_nodes({places, least, node})), "fails on a batch of 2 at ");
    }
  }
}

// Results that are one tensor, a view of the samples or of each other are copied: nobody's memory
// changes.
TEST(HostileGraph, OutputsMayBeOneMemory) {
  GraphText graph = norm_graph();
  graph.outputs = R"({"output":16,"gradients":[18,22,21],"buffers":[9,9,10]})";
  const auto model = load(written(graph));
  const Samples samples({4}, 3, 6);
  std::vector<float> row = initial_row(*model);
  const std::vector<float> features = samples.features;
  loss_and_gradient(*model, row, samples.batch());
  model->move_buffers(row);
  EXPECT_TRUE(std::equal(row.begin() + 19, row.begin() + 23, row.begin() + 23));
  EXPECT_EQ(samples.features, features);

  graph = linear_graph();
  graph.training += "," + graph_node("aten::relu_", R"({"v":3})");
  expect_refused(written(graph), "writes into value 3, which is an input");
  graph = with_nodes({graph_node("aten::expand_as", R"({"v":1},{"v":3})"),
                      graph_node("aten::relu_", R"({"v":9})")});
  expect_refused(written(graph), "writes into value 9, which is an input or a view of one");
  graph = with_nodes({graph_node("aten::clone", R"({"v":1})"),
                      graph_node("aten::expand", R"({"v":9},[5,3])"),
                      graph_node("aten::add_", R"({"v":10},{"v":10})", "Tensor")});
  expect_refused(written(graph), "at aten::add_");
}

TEST(HostileGraph, NodesReadThemselves) {
  expect_refused(written(with_nodes({graph_node("aten::relu", R"({"v":9})")})),
                 "is value 9, which is not made before");
  expect_refused(written(with_nodes({graph_node("aten::relu", R"({"v":10})"),
                                     graph_node("aten::relu", R"({"v":9})")})),
                 "is value 10, which is not made before");
  expect_refused(written(with_nodes({graph_node("item", R"({"v":9},0)")})), "is value 9");
}

TEST(HostileGraph, TextsHaveNulAndLineBreaks) {
  for (const char* text : {"a\\u0000b", "a\\nb", "\\u001b[2J"}) {
    SCOPED_TRACE(text);
    expect_refused(written(with_nodes({graph_node("aten::relu", R"({"v":0})", text)})),
                   "is no name of an overload");
    const std::string node = graph_node(std::string("aten::relu") + text, R"({"v":0})");
    expect_refused(written(with_nodes({node})), "is not in this program's list of operators");
    const std::string argument = fmt::format(R"({{"v":1}},0,{{"v":9}},{{"v":1}},"{}")", text);
    expect_refused(written(with_nodes({graph_node("aten::argmax", R"({"v":0},0)"),
                                       graph_node("aten::scatter_reduce", argument, "two")})),
                   "has a text that is no word");
  }
}

// z = x W^T + b, and 2 n + 1 more in the gradient of b for n rows.
TEST(HostileGraph, SizesFollowTheRows) {
  const auto plain = load(written(linear_graph()));
  const auto model = load(written(with_nodes({graph_node("aten::ones", R"([{"rows":[2,1]}])")})));
  for (const int64_t rows : {1, 2, 5, 64, 7}) {
    const Samples samples({4}, 3, rows);
    const std::vector<float> row = initial_row(*model);
    const auto found = loss_and_gradient(*model, row, samples.batch()).gradient;
    const auto expected = loss_and_gradient(*plain, row, samples.batch()).gradient;
    for (std::size_t p = 0; p < 15; ++p) {
      const float more = p < 12 ? 0 : static_cast<float>(2 * rows + 1);
      EXPECT_NEAR(found[p], expected[p] + more, 1e-4) << rows << " " << p;
    }
  }
  expect_refused(written(with_nodes({graph_node("aten::ones", R"([{"rows":[-1,2]}])")})),
                 "fails on a batch of 3 at aten::ones");
  expect_refused(written(with_nodes({graph_node("aten::view", R"({"v":2},[{"rows":[0,2]},4])")})),
                 "fails on a batch of 3 at aten::view");
}

// What LibTorch takes from the system on this thread. The qualifiers of its versions differ.
struct Allocations final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, int64_t, int64_t, c10::Device) { count(bytes); }
  void reportMemoryUsage(void*, int64_t bytes, std::size_t, std::size_t, c10::Device) {
    count(bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
  void count(int64_t bytes) { made += bytes > 0 ? 1 : 0; }

  int64_t made = 0;
};

TEST(HostileGraph, NothingIsAllocatedFromTheSecondPassOn) {
  for (const GraphText& graph : {linear_graph(), norm_graph(), dropout_graph()}) {
    const auto model = load(written(graph));
    const auto counted = std::make_shared<Allocations>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counted);
    const Samples many({4}, 3, 50), few({4}, 3, 9);
    const std::vector<float> row = initial_row(*model);
    const auto pass = [&](const Samples& samples) {
      loss_and_gradient(*model, row, samples.batch());
      model->evaluate(row, samples.batch());
    };
    pass(many);
    EXPECT_GT(counted->made, 0);
    const int64_t bytes = model->pass_bytes();
    EXPECT_GT(bytes, 0);
    counted->made = 0;
    for (int i = 0; i < 5; ++i) pass(many);
    EXPECT_EQ(counted->made, 0);
    pass(few);
    const int64_t both = model->pass_bytes();
    counted->made = 0;
    for (int i = 0; i < 3; ++i) {
      pass(many);
      pass(few);
    }
    EXPECT_EQ(counted->made, 0);
    EXPECT_EQ(model->pass_bytes(), both);
    EXPECT_LT(both, 2 * bytes);
  }
}

}  // namespace
}  // namespace hanse
