// Files of model.kind = graph: what is read, and that what is damaged or hostile is refused.
#include <fstream>
#include <tuple>

#include <gtest/gtest.h>

#include "graphs/graph_file.hpp"
#include "hanse/base/error.hpp"
#include "support/errors.hpp"
#include "support/graph_file.hpp"
#include "support/hidden_graph.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

class GraphFiles : public testing::Test {
 protected:
  std::string write(const std::string& bytes) {
    std::ofstream(folder_ / "net.graph", std::ios::binary) << bytes;
    return folder_ / "net.graph";
  }
  GraphFile read(const GraphText& graph) { return read_graph_file(write(graph.file())); }
  void expect_refused(const std::string& bytes, const std::string& part) {
    const std::string path = write(bytes);
    expect_error<InvalidArgument>([&] { read_graph_file(path); }, {part, path});
  }
  // The linear graph's note with `from` in the place of the first `to`.
  void expect_refused_with(const std::string& from, const std::string& to,
                           const std::string& part) {
    const GraphText graph = linear_graph();
    std::string note = graph.note();
    const std::size_t at = note.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    SCOPED_TRACE(to);
    expect_refused(graph.file(note.replace(at, from.size(), to)), part);
  }

  ScratchFolder folder_;
};

TEST_F(GraphFiles, HaveTheirNodesAndTensors) {
  const GraphFile file = read(norm_graph());
  EXPECT_EQ(file.sample, std::vector<int64_t>{4});
  EXPECT_EQ(file.output, std::vector<int64_t>{3});
  ASSERT_EQ(file.parameters.size(), 3U);
  EXPECT_EQ(file.parameters[2].name, "scale");
  EXPECT_EQ(file.parameters[2].tensor->bytes.size(), 16U);
  ASSERT_EQ(file.buffers.size(), 3U);
  EXPECT_FALSE(file.buffers[2].is_float());
  EXPECT_EQ(file.x(), 6);
  EXPECT_EQ(file.delta(), 7);
  EXPECT_EQ(file.training.output, 16);
  EXPECT_EQ(file.training.gradients, (std::vector<int64_t>{18, 22, 21}));
  EXPECT_EQ(file.training.backward, 9);  // the first that reads value 7
  const GraphNode& norm = file.training.nodes[3];
  EXPECT_EQ(norm.op, "aten::native_batch_norm");
  EXPECT_TRUE(norm.args[2].is(GraphArgument::Kind::kNone));
  EXPECT_EQ(norm.args[6].real, 0.25);
}

TEST_F(GraphFiles, SayUpToWhichBatchTheyWereCompared) {
  const GraphText graph = linear_graph();
  EXPECT_EQ(read(graph).compared, 0);
  EXPECT_EQ(
      read_graph_file(write(graph.file(R"({"compared":129,)" + graph.note().substr(1)))).compared,
      129);
}

TEST_F(GraphFiles, ArgumentsHaveTheirKinds) {
  GraphText graph = linear_graph();
  graph.evaluation +=
      "," + graph_node("aten::add", R"(1,1.0,true,"a",[[2],{"v":3}],{"rows":[3,-1]},)"
                                    R"({"f":"-inf"},{"dtype":"int64"},{"layout":"strided"},)"
                                    R"({"device":"cpu"},{"memory_format":"preserve"})");
  const auto args = read(graph).evaluation.nodes[2].args;
  using Kind = GraphArgument::Kind;
  const std::vector<Kind> kinds = {Kind::kInteger, Kind::kFloat,  Kind::kBool,        Kind::kText,
                                   Kind::kList,    Kind::kRows,   Kind::kFloat,       Kind::kDtype,
                                   Kind::kLayout,  Kind::kDevice, Kind::kMemoryFormat};
  ASSERT_EQ(args.size(), kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(args[i].kind, kinds[i]) << i;
  EXPECT_EQ(args[4].items[1].number, 3);
  EXPECT_EQ(args[5].a_row, 3);
  EXPECT_EQ(args[5].number, -1);
  EXPECT_TRUE(args[6].real < 0);
}

TEST_F(GraphFiles, ThatAreDamagedAreRefused) {
  const GraphText graph = linear_graph();
  const std::string whole = graph.file();
  expect_refused("", "the file is empty");
  expect_refused("short", "no safetensors");
  for (std::size_t size : {std::size_t{40}, whole.size() / 2, whole.size() - 1}) {
    expect_refused(whole.substr(0, size), "no safetensors");
  }
  expect_refused(graph.file("[1]"), "its graph is no JSON");
  expect_refused(graph.file("{"), "its graph is no JSON");
  expect_refused(safetensors_file("{}", ""), "have no note hanse.graph");
  expect_error<InvalidArgument>([] { read_graph_file("nowhere"); }, {"no such file: nowhere"});
}

TEST_F(GraphFiles, WithDamagedFieldsAreRefused) {
  expect_refused_with("\"format\":1", "\"format\":2", "its format is not 1");
  expect_refused_with("\"format\":1", "\"format\":\"1\"", "format is no whole number");
  expect_refused_with("\"format\":1", R"("format":1,"compared":"a")",
                      "compared is no whole number");
  expect_refused_with("\"sample\":[4]", "\"sample\":[0]", "sample has a side below 1");
  expect_refused_with("\"sample\":[4]", "\"sample\":[4000000000,4000000000]", "has no such shape");
  expect_refused_with("\"sample\":[4]", "\"sample\":[1.5]", "sample is no whole number");
  expect_refused_with("\"output\":[3]", "\"output\":[1,2,3]", "output has no such shape");
  expect_refused_with("\"tensor\":\"bias\"", "\"tensor\":\"other\"", "other is not among");
  expect_refused_with("\"trains\":true", "\"trains\":1", "trains of weight is no boolean");
  expect_refused_with("\"name\":\"bias\"", "\"name\":\"weight\"", "the name of two tensors");
  expect_refused_with("\"name\":\"bias\"", "\"name\":\"row\"", "the whole row's name");
  expect_refused_with("\"name\":\"bias\"", "\"name\":\"a/b\"", "'a/b' is no name of a tensor");
  expect_refused_with("\"name\":\"bias\"", "\"name\":\"a\\n\"", "is no name of a tensor");
  expect_refused_with("\"name\":\"bias\"", "\"name\":\"\"", "is no name of a tensor");
  expect_refused_with("\"graphs\"", "\"grafs\"", "the note has no graphs");
  expect_refused_with("\"gradients\":[7,8]", "\"gradients\":[7]", "no place for a gradient");
  expect_refused_with("\"buffers\":[]}}", "\"buffers\":[1]}}", "a buffer has no new value");
  expect_refused_with("\"outputs\":4", "\"outputs\":5", "the output is value 5, which is not made");
  expect_refused_with("\"output\":5", "\"output\":7", "the output is value 7");  // reads delta
  expect_refused_with("\"output\":5", "\"output\":3", "its output is the loss's gradient");
}

TEST_F(GraphFiles, WithDamagedNodesAreRefused) {
  expect_refused_with("{\"v\":3}", "{\"v\":4}", "node 1 of evaluation, aten::addmm is value 4");
  expect_refused_with("{\"v\":3}", "{\"v\":-1}", "is value -1, which is not made before");
  expect_refused_with("{\"v\":3}", "{\"v\":1e3}", "is no whole number");
  expect_refused_with("{\"v\":3}", "{\"w\":3}", "has an argument of another kind");
  expect_refused_with("{\"v\":3}", "{\"v\":3,\"f\":\"inf\"}", "has an argument of another kind");
  expect_refused_with("{\"v\":3}", "[[[[1]]]]", "has lists in lists");
  expect_refused_with("{\"v\":3}", "{\"dtype\":\"complex64\"}", "has dtype = 'complex64'");
  expect_refused_with("{\"v\":3}", "{\"device\":\"cuda\"}", "has device = 'cuda'");
  expect_refused_with("{\"v\":3}", "{\"rows\":[1]}", "has damaged rows");
  expect_refused_with("{\"v\":3}", "{\"rows\":[1,9000000000]}", "has damaged rows");
  expect_refused_with("{\"v\":3}", "{\"f\":\"big\"}", "has a damaged number");
  expect_refused_with("{\"v\":3}", "18446744073709551615", "is no whole number");
  expect_refused_with("\"args\":", "\"arks\":", "has no args");
  expect_refused_with("\"op\":\"aten::t\"", "\"op\":1", "op of node 0 of evaluation is no text");
  std::string zeros = "0";
  for (int i = 0; i < 100001; ++i) zeros += ",0";
  expect_refused_with("{\"v\":3}", "[" + zeros + "]", "has too many arguments");
}

TEST_F(GraphFiles, ThatNameOtherOperatorsAreRefused) {
  for (const std::string op : {"aten::from_file", "aten::set_", "aten::resize_", "aten::as_strided",
                               "aten::_reshape_alias", "aten::item", "aten::_local_scalar_dense",
                               "aten::rand", "aten::bernoulli_", "aten::save", "prim::Print",
                               "quantized::add", "aten::nonzero", "addmm", "aten::_", "aten::"}) {
    expect_refused_with("aten::addmm", op, "is not in this program's list of operators");
  }
}

TEST_F(GraphFiles, ThatDrawWhereTheyMustNotAreRefused) {
  GraphText graph = dropout_graph();
  expect_refused(dropout_graph("1.5").file(), "hanse::keep is damaged");
  expect_refused(dropout_graph("-0.5").file(), "hanse::keep is damaged");
  expect_refused(dropout_graph("\"a\"").file(), "hanse::keep is damaged");
  graph.evaluation += "," + graph_node("hanse::keep", R"([2],0.5,"float")");
  expect_refused(graph.file(), "its evaluation draws random numbers");
}

TEST_F(GraphFiles, WhoseTensorsLieElsewhereAreRefused) {
  const auto moved = [](const std::string& place) {
    GraphText graph = linear_graph();
    graph.tensors.replace(graph.tensors.find("[48,60]"), 7, place);
    return graph.file();
  };
  expect_refused(moved("[44,56]"), "its tensors do not meet at byte 48");  // inside of the weight
  expect_refused(moved("[0,12]"), "its tensors do not meet at byte 12");
  expect_refused(moved("[52,64]"), "shape and data_offsets of bias do not fit");
  expect_refused(moved("[48,9223372036854775807]"), "data_offsets of bias do not fit");
  expect_refused(moved("[60,48]"), "data_offsets of bias do not fit");
  expect_refused(moved("[-12,0]"), "data_offsets of bias is damaged");
  GraphText twice = linear_graph();
  twice.add("bias", "F32", "[3]", std::string(12, 'x'));
  expect_refused(twice.file(), "its tensors do not meet at byte 48");
}

TEST_F(GraphFiles, ThatNameATensorTwiceAreRefused) {
  const std::string also = R"("trains":true,"also":["bias"])";
  expect_refused_with("\"trains\":true", also, "bias is the name of two tensors");
  expect_refused_with("\"trains\":true", R"("trains":true,"also":["weight"])",
                      "weight is the name of two tensors");
  expect_refused_with("\"name\":\"bias\"", R"("name":"a\u0000b")", "is no name of a tensor");
}

TEST_F(GraphFiles, SayHowAMatrixIsUsed) {
  const GraphText graph = linear_graph();
  std::string note = graph.note();
  const std::string trains = "\"trains\":true";
  note.replace(note.find(trains), trains.size(), R"("trains":true,"uses":{"weight":"transposed"})");
  const GraphFile file = read_graph_file(write(graph.file(note)));
  EXPECT_EQ(file.parameters[0].uses.at("weight"), MatrixUse::kTransposed);
  EXPECT_TRUE(file.parameters[1].uses.empty());
  for (const char* uses : {R"({"weight":"other"})", R"({"bias":"embedding"})", R"({"weight":1})"}) {
    expect_refused_with(trains, trains + R"(,"uses":)" + uses, "uses of weight are damaged");
  }
  expect_refused_with(trains, trains + R"(,"uses":[])", "uses of weight are no object");
}

TEST_F(GraphFiles, SayWhatTheLastLayerReads) {
  const GraphText hidden = hidden_graph();
  const GraphFile file = read(hidden);
  EXPECT_EQ(file.representation, std::vector<int64_t>{4});
  EXPECT_EQ(file.representation_delta(), 6);
  EXPECT_EQ(file.evaluation.representation, 8);
  EXPECT_EQ(file.training.representation, 10);
  EXPECT_EQ(file.training.backward, 6);
  EXPECT_EQ(read(linear_graph()).representation_delta(), kNoValue);
  for (const auto& [from, to, part] :
       {std::tuple("\"representation\":[4]", "\"representation\":[2,4]", "representation has no"),
        {"\"representation\":[4]", "\"representation\":[0]", "side below 1"},
        {",\"representation\":8", "", "evaluation has no representation"},
        {",\"representation\":10", ",\"representation\":18", "the representation is value 18"},
        {",\"representation\":10", ",\"representation\":6", "its output is the loss's gradient"}}) {
    std::string note = hidden.note();
    ASSERT_NE(note.find(from), std::string::npos) << from;
    expect_refused(hidden.file(note.replace(note.find(from), std::string(from).size(), to)), part);
  }
}

TEST_F(GraphFiles, NeedAParameterThatTrains) {
  GraphText graph = linear_graph();
  std::string note = graph.note();
  for (std::size_t at = 0; (at = note.find("\"trains\":true", at)) != std::string::npos;) {
    note.replace(at, 13, "\"trains\":false");
  }
  expect_refused(graph.file(note), "none of its parameters trains");
}

TEST_F(GraphFiles, AllowTheFormsThatWriteInPlace) {
  EXPECT_TRUE(is_allowed_operator("aten::relu_"));
  EXPECT_TRUE(is_allowed_operator("aten::_softmax"));
  EXPECT_FALSE(is_allowed_operator("aten::relu__"));
  EXPECT_FALSE(is_allowed_operator("relu"));
}

}  // namespace
}  // namespace hanse
