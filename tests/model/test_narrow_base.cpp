// Frozen tensors of graphs in bfloat16, and adapters whose matrices are never formed.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>

#include <c10/util/BFloat16.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "hanse/base/short_floats.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/part_model.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/graph_file.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Token table E [5, 4] (value 0), M [4, 4] (1), x [2] (2), delta (3): z = (sum of E's rows) M E',
// with the table in both places, as a tied head has it.
GraphText tied_graph() {
  GraphText graph;
  graph.sample = "[2]";
  graph.output = "[5]";
  graph.add_parameter("table", "[5,4]", spread_values(20));
  std::vector<float> mix = spread_values(16);
  for (float& value : mix) value *= 0.3F;  // no bfloat16 numbers
  graph.add_parameter("mix", "[4,4]", mix);
  const auto v = graph_value;
  const auto node = [](const std::string& op, const std::vector<std::string>& args,
                       const std::string& overload = "") {
    return graph_node(op, graph_nodes(args), overload);
  };
  const auto forward = [&](int64_t first) {
    return std::vector<std::string>{node("aten::to", {v(2), R"({"dtype":"int64"})"}, "dtype"),
                                    node("aten::embedding", {v(0), v(first)}),
                                    node("aten::sum", {v(first + 1), "[1]"}, "dim_IntList"),
                                    node("aten::mm", {v(first + 2), v(1)}),
                                    node("aten::t", {v(0)}),
                                    node("aten::mm", {v(first + 3), v(first + 4)})};
  };
  graph.evaluation = graph_nodes(forward(3));
  graph.evaluation_output = "8";
  std::vector<std::string> nodes = forward(4);  // 4 ... 9
  for (const std::string& one :
       {node("aten::t", {v(7)}), node("aten::mm", {v(10), v(3)}), node("aten::t", {v(11)}),
        node("aten::t", {v(8)}), node("aten::mm", {v(3), v(13)}), node("aten::t", {v(6)}),
        node("aten::mm", {v(15), v(14)}), node("aten::transpose", {v(1), "0", "1"}, "int"),
        node("aten::mm", {v(14), v(17)}), node("aten::unsqueeze", {v(18), "1"}),
        node("aten::expand", {v(19), R"([{"rows":[1,0]},2,4])"}),
        node("aten::embedding_dense_backward", {v(20), v(4), "5", "-1", "false"}),
        node("aten::add", {v(12), v(21)}, "Tensor")}) {
    nodes.push_back(one);
  }
  graph.training = graph_nodes(nodes);
  graph.outputs = R"({"output":9,"gradients":[22,16],"buffers":[]})";
  return graph;
}

// z = (x * 2 W') + b: W is in an operator that is no product.
GraphText scaled_graph() {
  GraphText graph = linear_graph();
  const auto v = graph_value;
  graph.evaluation =
      graph_nodes({graph_node("aten::mul", v(0) + ",2.0", "Scalar"), graph_node("aten::t", v(3)),
                   graph_node("aten::addmm", v(1) + "," + v(2) + "," + v(4))});
  graph.evaluation_output = "5";
  return graph;
}

// W [3, 4] (value 0), M [3, 3] (1), b [3] (2), x [4] (3), delta (4): z = (M' W x')' + b, whose
// matrices stand before what they multiply.
GraphText columns_graph() {
  GraphText graph;
  graph.add_parameter("weight", "[3,4]", spread_values(12));
  graph.add_parameter("mix", "[3,3]", spread_values(9));
  graph.add_parameter("bias", "[3]", {0.5F, -1, 0.25F});
  const auto node = [](const std::string& op, const std::vector<std::string>& args,
                       const std::string& overload = "") {
    return graph_node(op, graph_nodes(args), overload);
  };
  const auto v = graph_value;
  const auto forward = [&](int64_t first) {
    return std::vector<std::string>{
        node("aten::t", {v(3)}),         node("aten::mm", {v(0), v(first)}),
        node("aten::t", {v(1)}),         node("aten::mm", {v(first + 2), v(first + 1)}),
        node("aten::t", {v(first + 3)}), node("aten::add", {v(first + 4), v(2)}, "Tensor")};
  };
  graph.evaluation = graph_nodes(forward(4));
  graph.evaluation_output = "9";
  std::vector<std::string> nodes = forward(5);  // 5 ... 10
  for (const std::string& one :
       {node("aten::t", {v(4)}), node("aten::mm", {v(6), v(4)}), node("aten::mm", {v(1), v(11)}),
        node("aten::mm", {v(13), v(3)}), node("aten::sum", {v(4), "[0]"}, "dim_IntList")}) {
    nodes.push_back(one);
  }
  graph.training = graph_nodes(nodes);
  graph.outputs = R"({"output":10,"gradients":[14,12,15],"buffers":[]})";
  return graph;
}

struct Part {
  GraphText graph;
  TrainedPart part;
  std::vector<int64_t> shape;
  int64_t classes;
};

std::unique_ptr<PartModel> made(const Part& of, const std::vector<Model::StartPart>& start = {}) {
  ModelOptions options = model_options("graph", "cross-entropy");
  options.path = written(of.graph);
  auto model = std::make_unique<PartModel>(make_model(options, of.shape, of.classes), of.part);
  if (!start.empty()) model->start_whole_from(start);
  model->hold(*make_single_communicator(), 1);
  return model;
}

// The frozen tensors of a model, rounded.
std::vector<Model::StartPart> rounded_start(const PartModel& model) {
  std::vector<float> row(static_cast<std::size_t>(model.n_params()));
  const NamedRow whole = model.whole(row, false);
  std::vector<Model::StartPart> parts;
  for (const ParameterSlot& slot : whole.layout.slots()) {
    if (!slot.frozen || slot.name.find("lora") != std::string::npos) continue;
    Model::StartPart part{slot.offset, {}};
    for (int64_t i = 0; i < slot.size; ++i) {
      const float value = whole.row[static_cast<std::size_t>(slot.offset + i)];
      part.values.push_back(bfloat16_value(bfloat16_bits(value)));
    }
    parts.push_back(part);
  }
  return parts;
}

std::vector<float> moved(const PartModel& model) {
  std::vector<float> row = initial_row(model);
  RandomStream stream(9, Purpose::kData);
  for (float& value : row) value += static_cast<float>(0.3 * stream.normal());
  return row;
}

TrainedPart adapters(AdapterPath path, std::vector<std::string> train = {}) {
  return {.train = std::move(train), .rank = 2, .layers = {"*"}, .scale = 2, .path = path};
}

Part tied(TrainedPart part) { return {tied_graph(), std::move(part), {2}, 5}; }
Part columns(TrainedPart part) { return {columns_graph(), std::move(part), {4}, 3}; }
Part linear(TrainedPart part) { return {linear_graph(), std::move(part), {4}, 3}; }

void expect_same_steps(PartModel& one, PartModel& other, const Batch& batch) {
  std::vector<float> row = moved(one), same = row;
  for (int step = 0; step < 4; ++step) {
    RandomStream noise = noise_stream(), twin = noise_stream();
    EXPECT_EQ(one.sgd_step(row, batch, noise, 0.1, 0.01),
              other.sgd_step(same, batch, twin, 0.1, 0.01));
    EXPECT_EQ(row, same);
    EXPECT_EQ(one.evaluate(row, batch).loss, other.evaluate(same, batch).loss);
  }
  EXPECT_EQ(one.whole(row, true).row, other.whole(same, true).row);
  EXPECT_EQ(one.whole(row, false).row, other.whole(same, false).row);
}

// As LibTorch rounds.
TEST(NarrowBase, RoundsToTheNearestEven) {
  std::vector<float> values = {
      0.0F,    -0.0F,    1.0F,   1.00390625F, 1.01171875F,
      3.3e38F, -3.4e38F, 1e-45F, 65504.5F,    std::numeric_limits<float>::infinity()};
  RandomStream stream(4, Purpose::kData);
  for (int i = 0; i < 10000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(stream.below(int64_t{1} << 32))));
  }
  for (const float value : values) {
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bfloat16_value(bfloat16_bits(value))));
    } else {
      EXPECT_EQ(bfloat16_bits(value), c10::BFloat16(value).x) << value;
    }
  }
}

// The run of float32 that starts from the rounded file, bit for bit.
TEST(NarrowBase, HasTheBitsOfARoundedStart) {
  const Samples tokens({2}, 5, 7, 3, 5), numbers({4}, 3, 7);
  for (const AdapterPath path : {AdapterPath::kMerged, AdapterPath::kSplit}) {
    for (Part of : {tied(adapters(path)), tied({.train = {"mix"}}), linear(adapters(path)),
                    tied(adapters(path, {"*.lora_B"})), linear({.train = {"bias"}})}) {
      const auto wide = made(of);
      const auto start = rounded_start(*wide);
      of.part.narrow = true;
      const auto narrow = made(of);
      EXPECT_TRUE(memory_of(*narrow).is_narrow);
      const auto expected = [&] {
        Part other = of;
        other.part.narrow = false;
        return made(other, start);
      }();
      const Batch batch = (of.classes == 5 ? tokens : numbers).batch();
      expect_same_steps(*narrow, *expected, batch);
      if (of.classes != 5 || of.part.rank == 0) continue;  // whose values are bfloat16 numbers
      EXPECT_NE(narrow->whole(moved(*narrow), true).row, wide->whole(moved(*wide), true).row);
    }
  }
}

// A model that reads its row in one piece has the rounded values in it.
TEST(NarrowBase, OfAModelThatReadsItsRowInOnePieceIsRounded) {
  const auto part_of = [](bool narrow) {
    auto model = std::make_unique<PartModel>(
        make_model(small_options("mlp", "cross-entropy"), small_shape("mlp"), 3),
        TrainedPart{.rank = 2, .layers = {"*"}, .narrow = narrow});
    return model;
  };
  const auto narrow = part_of(true), wide = part_of(false), start = part_of(false);
  wide->hold(*make_single_communicator(), 1);
  start->start_whole_from(rounded_start(*wide));
  for (PartModel* model : {narrow.get(), start.get()}) model->hold(*make_single_communicator(), 1);
  EXPECT_FALSE(memory_of(*narrow).is_narrow);
  EXPECT_EQ(memory_of(*narrow).shared_bytes, memory_of(*wide).shared_bytes);
  expect_same_steps(*narrow, *start, Samples(small_shape("mlp"), 3, 7).batch());
}

TEST(NarrowBase, IsTheSameOnAllRanksOfAHost) {
  Part of = tied(adapters(AdapterPath::kAuto));
  of.part.narrow = true;
  const auto alone = made(of);
  const std::vector<float> row = moved(*alone);
  const auto expected = alone->whole(row, true).row;
  run_threads(3, [&](Communicator& host) {
    ModelOptions options = model_options("graph", "cross-entropy");
    options.path = written(of.graph);
    PartModel model(make_model(options, of.shape, of.classes), of.part);
    model.hold(host, 1);
    EXPECT_EQ(model.start_digest(), alone->start_digest());
    EXPECT_EQ(model.whole(row, true).row, expected);
  });
}

TEST(Split, IsTheMergedMatrixButForRounding) {
  const Samples tokens({2}, 5, 7, 3, 5), numbers({4}, 3, 7);
  for (const auto& of : {tied, linear, columns}) {
    const auto merged = made(of(adapters(AdapterPath::kMerged)));
    const auto split = made(of(adapters(AdapterPath::kSplit)));
    EXPECT_EQ(merged->adapters().split_count(), 0);
    EXPECT_EQ(split->adapters().split_count(), split->adapters().count());
    const Batch batch = (of == tied ? tokens : numbers).batch();
    const std::vector<float> row = moved(*split);
    const auto found = loss_and_gradient(*split, row, batch);
    const auto expected = loss_and_gradient(*merged, row, batch);
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
    expect_close(merged->layout(), found.gradient, expected.gradient, 1e-5);
    const double loss = merged->evaluate(row, batch).loss;
    EXPECT_NEAR(split->evaluate(row, batch).loss, loss, 1e-5 * loss);
    // Not that of W_0 alone.
    EXPECT_GT(std::abs(merged->evaluate(initial_row(*merged), batch).loss - loss), 1e-2);
  }
}

// The mask of a mini-batch is the same on both paths.
TEST(Split, DropsTheSameInputs) {
  const Samples numbers({4}, 3, 7);
  TrainedPart part = adapters(AdapterPath::kMerged);
  part.dropout = 0.5;
  const auto merged = made(linear(part));
  part.path = AdapterPath::kSplit;
  const auto split = made(linear(part));
  const std::vector<float> row = moved(*split);
  const auto found = loss_and_gradient(*split, row, numbers.batch());
  const auto expected = loss_and_gradient(*merged, row, numbers.batch());
  EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
  expect_close(merged->layout(), found.gradient, expected.gradient, 1e-5);
}

TEST(Split, NeedsProductsAndLookUps) {
  const auto of = [](AdapterPath path) { return Part{scaled_graph(), adapters(path), {4}, 3}; };
  EXPECT_EQ(made(of(AdapterPath::kAuto))->adapters().split_count(), 0);
  EXPECT_EQ(made(linear(adapters(AdapterPath::kAuto)))->adapters().split_count(), 1);
  expect_error<InvalidArgument>(
      [&] { made(of(AdapterPath::kSplit)); },
      {"weight has a use that is no product and no look-up", "client.lora-path", "auto or merged"});
}

// Bytes of the host's shared memory that this process has touched, and of its own copies of pages.
struct Touched {
  double shared = 0, own = 0;
};
Touched touched() {
  Touched found;
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool counts = false;
  while (std::getline(maps, line)) {
    std::istringstream words(line);
    std::string first;
    double kib = 0;
    words >> first >> kib;
    if (first.find('-') != std::string::npos)
      counts = line.find("memfd:hanse") != std::string::npos;
    if (!counts) continue;
    if (first == "Rss:") found.shared += 1024 * kib;
    if (first == "Anonymous:") found.own += 1024 * kib;
  }
  found.shared -= found.own;
  return found;
}

GraphText wide_graph(int64_t out, int64_t in) {
  GraphText graph = linear_graph();
  graph.tensors = graph.bytes = graph.parameters = "";
  graph.sample = fmt::format("[{}]", in);
  graph.output = fmt::format("[{}]", out);
  graph.add_parameter("weight", fmt::format("[{},{}]", out, in), spread_values(out * in));
  graph.add_parameter("bias", fmt::format("[{}]", out), spread_values(out));
  return graph;
}

// What `hanse plan` says is what the pages say.
TEST(NarrowBase, TakesTheMemoryThatItSays) {
  constexpr int64_t kOut = 400, kIn = 4000;
  const Samples samples({kIn}, kOut, 2);
  for (const bool narrow : {false, true}) {
    for (const AdapterPath path : {AdapterPath::kMerged, AdapterPath::kSplit}) {
      Part of{wide_graph(kOut, kIn), adapters(path), {kIn}, kOut};
      of.part.narrow = narrow;
      const auto model = made(of);
      std::vector<float> row = initial_row(*model);
      RandomStream noise = noise_stream();
      model->sgd_step(row, samples.batch(), noise, 0.1, 0);
      const Touched found = touched();
      const auto shared = static_cast<double>(memory_of(*model).shared_bytes);
      const auto own = static_cast<double>(memory_of(*model).own_bytes);
      EXPECT_EQ(shared, (narrow ? 2 : 4) * (kOut * kIn + kOut));
      EXPECT_EQ(own, path == AdapterPath::kSplit ? 0 : 4 * kOut * kIn);
      EXPECT_NEAR(found.shared, shared, 0.02 * shared);
      EXPECT_NEAR(found.own, own, 0.02 * 4 * kOut * kIn);
    }
  }
}

double allocated_bytes() {
  const struct mallinfo2 all = mallinfo2();
  return static_cast<double>(all.uordblks + all.hblkhd);
}

// What the file gives lies in the host's memory alone, beside what passes take.
TEST(NarrowBase, HasNoCopyOfItsOwn) {
  constexpr int64_t kOut = 400, kIn = 4000;
  for (const bool narrow : {false, true}) {
    Part of{wide_graph(kOut, kIn), adapters(AdapterPath::kSplit), {kIn}, kOut};
    of.part.narrow = narrow;
    const double before = allocated_bytes();
    const auto model = made(of);
    const double own = allocated_bytes() - before - static_cast<double>(model->pass_bytes());
    EXPECT_LT(own, 0.1 * 4 * kOut * kIn) << narrow;
  }
}

}  // namespace
}  // namespace hanse
