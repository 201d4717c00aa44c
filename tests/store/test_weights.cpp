// Files of weights from Python: what is read, and that what is damaged or code is refused.
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/store/weights.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"
#include "support/weight_file.hpp"

namespace hanse {
namespace {

const std::vector<float> kFour = {1, -2.5F, 3, 0.25F};
const std::string kFourBytes = bytes_of_numbers(kFour);

class Weights : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  WeightFile read(const std::string& bytes) { return read_weights(write("file", bytes)); }
  void expect_refused(const std::string& bytes, std::initializer_list<std::string> parts) {
    const std::string path = write("bad", bytes);
    expect_error<InvalidArgument>([&] { read_weights(path); }, parts);
    expect_error<InvalidArgument>([&] { read_weights(path); }, {path});
  }

  ScratchFolder folder_;
};

std::string names_of(const WeightFile& file) {
  std::string names;
  for (const NamedTensor& tensor : file.tensors) names += tensor.name + " ";
  return names;
}

TEST_F(Weights, OrderedAndPlainDictionariesAndParametersAreRead) {
  for (const bool ordered : {true, false}) {
    const std::string tensor = pickled(PickledTensor{});
    const WeightFile file = read(torch_file(
        pickled({{"a.w", tensor}, {"b", pickled_parameter(pickled(PickledTensor{.key = "1"}))}},
                ordered),
        {kFourBytes, kFourBytes}));
    ASSERT_EQ(names_of(file), "a.w b ");
    EXPECT_EQ(file.tensors[0].shape, (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(file.tensors[0].values, kFour);
    EXPECT_EQ(file.tensors[1].values, kFour);
  }
}

TEST_F(Weights, ViewsAreReadByTheirStrides) {
  const PickledTensor turned{.strides = {1, 2}};
  const PickledTensor part{.offset = 1, .shape = {3}, .strides = {1}};
  const WeightFile file =
      read(torch_file(pickled({{"t", pickled(turned)}, {"p", pickled(part)}}), {kFourBytes}));
  EXPECT_EQ(file.tensors[0].values, (std::vector<float>{1, 3, -2.5F, 0.25F}));
  EXPECT_EQ(file.tensors[1].values, (std::vector<float>{-2.5F, 3, 0.25F}));
}

TEST_F(Weights, OtherFloatingPointNumbersBecomeFloat32AndIntegersAreLeftOut) {
  const auto one = [](const std::string& key, const std::string& storage) {
    return pickled(
        PickledTensor{.key = key, .storage = storage, .stored = 3, .shape = {3}, .strides = {1}});
  };
  const WeightFile file = read(torch_file(
      pickled({{"d", one("0", "DoubleStorage")},
               {"h", one("1", "HalfStorage")},
               {"b", one("2", "BFloat16Storage")},
               {"n", one("3", "LongStorage")}}),
      {bytes_of_numbers<double>({1, 0.1, -3}), bytes_of_numbers<uint16_t>({0x3c00, 0xc100, 1}),
       bytes_of_numbers<uint16_t>({0x3f80, 0xc020, 0x7f80}),
       bytes_of_numbers<int64_t>({1, 2, 3})}));
  ASSERT_EQ(names_of(file), "d h b ");
  EXPECT_EQ(file.tensors[0].values, (std::vector<float>{1, 0.1F, -3}));
  EXPECT_EQ(file.tensors[1].values, (std::vector<float>{1, -2.5F, 0x1p-24F}));
  EXPECT_EQ(file.tensors[2].values, (std::vector<float>{1, -2.5F, INFINITY}));
}

TEST_F(Weights, WhatIsLeftOutAndWhatFloat32LacksAreNoted) {
  const auto one = [](const std::string& key, const std::string& storage) {
    return pickled(
        PickledTensor{.key = key, .storage = storage, .stored = 1, .shape = {1}, .strides = {1}});
  };
  const std::string infinite = bytes_of_numbers<double>({INFINITY});
  const WeightFile saved = read(torch_file(
      pickled({{"c", one("0", "CharStorage")},
               {"n", one("1", "LongStorage")},
               {"d", one("2", "DoubleStorage")},
               {"i", one("3", "DoubleStorage")}}),
      {"a", bytes_of_numbers<int64_t>({1}), bytes_of_numbers<double>({-1e300}), infinite}));
  using Names = std::map<std::string, std::string>;
  EXPECT_EQ(saved.left_out, (Names{{"c", "int8"}, {"n", "int64"}}));
  EXPECT_EQ(saved.too_large, (std::map<std::string, double>{{"d", -1e300}}));
  const WeightFile safe =
      read(safetensors_file(R"({"c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("d":{"dtype":"F64","shape":[2],"data_offsets":[1,17]},)"
                            R"("z":{"dtype":"BOOL","shape":[1],"data_offsets":[17,18]}})",
                            "a" + bytes_of_numbers<double>({1, 1e39}) + "b"));
  EXPECT_EQ(safe.left_out, (Names{{"c", "uint8"}, {"z", "bool"}}));
  EXPECT_EQ(safe.too_large, (std::map<std::string, double>{{"d", 1e39}}));
}

TEST_F(Weights, ACheckpointMayHaveOneDictionaryOfTensors) {
  const std::string inner = pickled({{"w", pickled(PickledTensor{})}});
  const std::string optimizer = pickled({{"state", pickled({{"0", inner}})}}, false);
  EXPECT_EQ(names_of(read(torch_file(
                pickled({{"epoch", "K\3"}, {"optimizer", optimizer}, {"model", inner}}, false),
                {kFourBytes}))),
            "w ");
  expect_refused(torch_file(pickled({{"model", inner}, {"ema", inner}}, false), {kFourBytes}),
                 {"several dictionaries of tensors: model, ema"});
  expect_refused(torch_file(pickled({{"epoch", "K\3"}}, false), {}), {"but: epoch"});
}

TEST_F(Weights, TiedTensorsAreOne) {
  const std::string tensor = pickled(PickledTensor{});
  const WeightFile file =
      read(torch_file(pickled({{"embedding", tensor}, {"head", tensor}}), {kFourBytes}));
  EXPECT_EQ(names_of(file), "embedding ");
  EXPECT_EQ(file.same.at("head"), "embedding");
}

TEST_F(Weights, CodeIsNamedAndNeverRun) {
  const std::string path = folder_ / "made";
  const std::string call = "cposix\nsystem\n(" + pickled("touch " + path) + "tR";
  expect_refused(torch_file(call, {}), {"the file holds posix.system, no dictionary of tensors"});
  expect_refused(torch_file(pickled({{"w", pickled(PickledTensor{})}, {"x", call}}), {kFourBytes}),
                 {"x is made by posix.system, which is not read"});
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Weights, TensorsLieWithinTheirStorage) {
  const auto refused = [&](const PickledTensor& tensor, const std::string& part) {
    expect_refused(torch_file(pickled({{"w", pickled(tensor)}}), {kFourBytes}), {part, "w"});
  };
  refused({.stored = 5}, "the storage");
  refused({.offset = 1}, "the shape");
  refused({.offset = -1}, "the shape");
  refused({.strides = {3, 1}}, "the shape");
  refused({.strides = {-1, 1}}, "the shape");
  refused({.shape = {1 << 30, 1 << 30, 1 << 30}, .strides = {0, 0, 0}}, "the shape");
  refused({.shape = {-2, -2}}, "the shape");
  refused({.storage = "ComplexFloatStorage"}, "numbers of torch.ComplexFloatStorage");
  refused({.key = "7"}, "it has no data/7");
}

TEST_F(Weights, DamagedPicklesAreRefused) {
  const std::string good = pickled({{"w", pickled(PickledTensor{})}});
  for (std::size_t length = 0; length < good.size(); ++length) {
    expect_refused(torch_file(good.substr(0, length), {kFourBytes}), {"no state dict"});
  }
  for (const std::string bad : {"I1\n", "\x80\1", "t", "a", "}K\1s", "h\1", "K\1K\1R", "(K\1d"}) {
    expect_refused(torch_file(bad, {}), {"its pickle is damaged"});
  }
  std::string file = torch_file(good, {kFourBytes});
  file[file.find(kFourBytes)] ^= 1;
  expect_refused(file, {"net/data/0 is damaged"});
  expect_refused("\x80\x02\x8a\x0al\xfc\x9c" + std::string(9, '.'), {"before torch 1.6"});
  expect_refused("", {"no readable model"});
}

const std::string kGoodHeader =
    R"({"__metadata__":{"tied":"b"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("h":{"dtype":"BF16","shape":[],"data_offsets":[16,18]},)"
    R"("n":{"dtype":"I8","shape":[0,3],"data_offsets":[18,18]}})";
const std::string kGoodBytes = kFourBytes + bytes_of_numbers<uint16_t>({0xc020});

TEST_F(Weights, SafetensorsAreRead) {
  const WeightFile file = read(safetensors_file(kGoodHeader, kGoodBytes));
  ASSERT_EQ(names_of(file), "b h ");
  EXPECT_EQ(file.tensors[0].values, kFour);
  EXPECT_EQ(file.tensors[1].values, std::vector<float>{-2.5F});
  EXPECT_EQ(file.same.at("tied"), "b");
}

TEST_F(Weights, SafetensorsThatDoNotFitAreRefused) {
  const auto changed = [&](const std::string& what, const std::string& by) {
    std::string header = kGoodHeader;
    header.replace(header.find(what), what.size(), by);
    return safetensors_file(header, kGoodBytes);
  };
  expect_refused(changed("[2,2]", "[2,3]"), {"shape and data_offsets of b"});
  expect_refused(changed("[2,2]", "[4294967296,4294967296]"), {"shape and data_offsets of b"});
  expect_refused(changed("[2,2]", "[-2,-2]"), {"shape of b is damaged"});
  expect_refused(changed("[0,16]", "[16,0]"), {"shape and data_offsets of b"});
  expect_refused(changed("[0,16]", "[2,18]"), {"do not meet at byte 0"});
  expect_refused(changed("[18,18]", "[19,19]"), {"shape and data_offsets of n"});
  expect_refused(changed("BF16", "F8_E4M3"), {"h has numbers of type F8_E4M3"});
  expect_refused(changed("\"dtype\":\"F32\"", "\"d\":0"), {"b has no dtype"});
  expect_refused(safetensors_file(kGoodHeader, kGoodBytes + "x"), {"its tensors end at byte 18"});
  expect_refused(safetensors_file(kGoodHeader, kFourBytes), {"shape and data_offsets of h"});
  expect_refused(safetensors_file("{\"b\":", ""), {"its header is no JSON"});
  expect_refused(number_bytes(1ULL << 62, 8) + "{}", {"promises a header"});
}

TEST_F(Weights, AnIndexNamesShardsBesideIt) {
  write("one", safetensors_file(kGoodHeader, kGoodBytes));
  write("two", torch_file(pickled({{"w", pickled(PickledTensor{})},
                                   {"no", pickled(PickledTensor{.key = "1"})}}),
                          {kFourBytes, kFourBytes}));
  const std::string index = write("i", R"({"weight_map": {"b": "one", "h": "one", "w": "two"}})");
  EXPECT_EQ(names_of(read_weights(index)), "b h w ");
  EXPECT_EQ(weight_files(index),
            (std::vector<std::string>{index, folder_ / "one", folder_ / "two"}));
  for (const std::string away : {"../one", "/etc/passwd", "..", ""}) {
    expect_refused(R"({"weight_map": {"b": ")" + away + R"("}})", {"b lies in no file beside it"});
  }
  expect_refused(R"({"weight_map": {"b": "bad"}})", {"a shard is an index itself"});
  expect_refused("{}", {"it has no weight_map"});
  EXPECT_NE(message_of<InvalidArgument>([&] {
              read_weights(write("i", R"({"weight_map": {"b": "missing"}})"));
            }).find("no such file"),
            std::string::npos);
}

TEST_F(Weights, WhatIsWrittenIsReadAgain) {
  ParameterLayout layout;
  layout.add("a.w", {2, 1}, 1);
  layout.add("b", {}, 1);
  layout.carry({"count", {1}, {7}});
  layout.tie("a.w", "tied");
  const std::string bytes = safetensors(layout, std::vector<float>{1, 2, 3});
  const WeightFile file = read(bytes);
  ASSERT_EQ(names_of(file), "a.w b tied ");
  EXPECT_EQ(file.tensors[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(file.tensors[1].values, std::vector<float>{3});
  EXPECT_EQ(file.tensors[2].values, (std::vector<float>{1, 2}));
  EXPECT_NE(bytes.find(R"("count":{"dtype":"I64","shape":[1],"data_offsets":[0,8]})"),
            std::string::npos);
}

}  // namespace
}  // namespace hanse
