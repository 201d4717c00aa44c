// Adapters in PEFT's format.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/model/peft.hpp"
#include "hanse/model/tensor_files.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

using nlohmann::json;

const json kConfig = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}, {"bias", "none"}};

NamedAdapter adapter(ParameterSlot matrix, int64_t rank) {
  NamedAdapter made{.matrix = std::move(matrix), .a = {}, .b = {}};
  for (int64_t i = 0; i < rank * made.matrix.shape[1]; ++i) {
    made.a.push_back(static_cast<float>(100 + i));
  }
  for (int64_t i = 0; i < rank * made.matrix.shape[0]; ++i) {
    made.b.push_back(static_cast<float>(500 + i));
  }
  return made;
}

// A dense layer, a square one that is stored the other way round, and an embedding that is tied to
// a head.
std::vector<NamedAdapter> some_adapters() {
  const ParameterSlot dense{.name = "a.fc.weight", .shape = {3, 5}};
  const ParameterSlot square{.name = "c_proj.weight",
                             .shape = {4, 4},
                             .uses = {{"c_proj.weight", MatrixUse::kTransposed}}};
  const ParameterSlot tied{.name = "wte.weight",
                           .shape = {7, 3},
                           .also = {"head.weight"},
                           .uses = {{"wte.weight", MatrixUse::kEmbedding}}};
  return {adapter(dense, 2), adapter(square, 2), adapter(tied, 2)};
}

void write_folder(const std::string& folder, const PeftText& text) {
  std::ofstream(folder + "/adapter_config.json") << text.config;
  std::ofstream(folder + "/adapter_model.safetensors", std::ios::binary) << text.tensors;
}

TEST(Peft, WhatIsWrittenIsReadAgain) {
  const ScratchFolder folder;
  const auto ours = some_adapters();
  ParameterLayout all;
  all.append({.name = "a.fc.weight", .shape = {3, 5}});
  all.append({.name = "b.head.weight", .shape = {3, 5}});
  write_folder(folder.path(), write_peft(ours, {2, 6, true}, 0.1, all));
  const PeftFile file = read_peft(folder.path());
  EXPECT_EQ(file.config.rank, 2);
  EXPECT_EQ(file.config.alpha, 6);
  EXPECT_TRUE(file.config.root);
  EXPECT_NEAR(file.config.scale(), 6 / std::sqrt(2.0), 1e-12);
  std::vector<std::string> modules;
  for (const PeftAdapter& one : file.adapters) modules.push_back(one.module);
  EXPECT_EQ(modules, (std::vector<std::string>{"a.fc", "c_proj", "head", "wte"}));
  const auto same = [](const PeftAdapter& theirs, const NamedAdapter& of) {
    const OwnFactors found =
        own_factors(theirs, of.matrix.shape, of.matrix.use_as(theirs.module + ".weight"));
    EXPECT_EQ(found.a, of.a) << theirs.module;
    EXPECT_EQ(found.b, of.b) << theirs.module;
  };
  same(file.adapters[0], ours[0]);
  same(file.adapters[1], ours[1]);
  same(file.adapters[2], ours[2]);
  same(file.adapters[3], ours[2]);
  // Theirs of a layer that is stored the other way round: A = (ours B)'.
  EXPECT_EQ(file.adapters[1].a[1], ours[1].b[2]);
  EXPECT_EQ(file.adapters[1].b[1], ours[1].a[4]);
  EXPECT_TRUE(file.adapters[3].is_embedding);
  EXPECT_EQ(file.adapters[3].in, 7);
  EXPECT_FALSE(file.adapters[2].is_embedding);
}

// What PEFT makes of them is in the configuration.
TEST(Peft, ConfigurationsTellTheScaleAndHowLayersAreStored) {
  const auto ours = some_adapters();
  const ParameterLayout all;
  const auto config = [&](std::size_t count, bool root) {
    return json::parse(write_peft(std::span(ours).first(count), {2, 6, root}, 0.1, all).config);
  };
  const json turned = config(2, true), dense = config(1, false);
  EXPECT_EQ(turned["r"], 2);
  EXPECT_EQ(turned["lora_alpha"], 6);
  EXPECT_EQ(turned["lora_dropout"], 0.1);
  EXPECT_EQ(turned["use_rslora"], true);
  EXPECT_EQ(turned["fan_in_fan_out"], true);
  EXPECT_EQ(dense["use_rslora"], false);
  EXPECT_EQ(dense["fan_in_fan_out"], false);
}

// PEFT saves the matrices of embeddings with their adapters.
TEST(Peft, MatricesBesideAdaptersAreKept) {
  const ScratchFolder folder;
  ParameterLayout layout;
  layout.append({.name = "base_model.model.m.lora_embedding_A", .shape = {2, 3}});
  layout.append({.name = "base_model.model.m.lora_embedding_B", .shape = {4, 2}});
  layout.append({.name = "base_model.model.m.base_layer.weight", .shape = {3, 4}});
  std::vector<float> row;
  for (int i = 0; i < 26; ++i) row.push_back(static_cast<float>(i));
  write_folder(folder.path(), {kConfig.dump(), safetensors(layout, row)});
  const PeftFile file = read_peft(folder.path());
  ASSERT_EQ(file.adapters.size(), 1U);
  EXPECT_EQ(file.adapters[0].base.shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(file.adapters[0].base.values.front(), 14);
}

// PEFT takes a name for the end of longer ones: where that meets another module, a pattern.
TEST(Peft, TargetsMeetNoOtherModule) {
  const auto ours = some_adapters();
  ParameterLayout other, none;
  other.append({.name = "b.head.weight", .shape = {3, 5}});
  none.append({.name = "ahead.weight", .shape = {3, 5}});
  const auto targets = [&](const ParameterLayout& all) {
    return json::parse(write_peft(ours, {2, 2, false}, 0, all).config)["target_modules"];
  };
  EXPECT_EQ(targets(other), "a\\.fc|c_proj|head|wte");
  EXPECT_EQ(targets(none), (json{"a.fc", "c_proj", "head", "wte"}));
}

TEST(Peft, ConfigurationsThatAreMoreThanLoraAreRefused) {
  const auto read = [](json change) {
    json config = kConfig;
    config.update(change);
    return peft_config(config.dump(), "here.json");
  };
  EXPECT_EQ(read(json::object()).scale(), 3);
  EXPECT_EQ(read({{"rank_pattern", {{"fc", 2}}}, {"alpha_pattern", {{"fc", 6}}}}).rank, 2);
  EXPECT_EQ(read({{"modules_to_save", nullptr}, {"use_dora", false}}).rank, 2);
  for (const auto& [change, words] : std::vector<std::pair<json, std::string>>{
           {{{"peft_type", "ADALORA"}}, "peft_type is \"ADALORA\""},
           {{{"use_dora", true}}, "use_dora"},
           {{{"bias", "lora_only"}}, "biases"},
           {{{"modules_to_save", {"head"}}}, "modules_to_save"},
           {{{"rank_pattern", {{"fc", 4}}}}, "rank_pattern"},
           {{{"alpha_pattern", {{"fc", 4}}}}, "alpha_pattern"},
           {{{"init_lora_weights", "pissa_niter_4"}}, "pissa"},
           {{{"lora_bias", true}}, "lora_bias"},
           {{{"r", 0}}, "r is no"},
           {{{"r", 1.5}}, "r is no"},
           {{{"lora_alpha", "x"}}, "lora_alpha"},
           {{{"lora_alpha", 0}}, "lora_alpha"}}) {
    expect_error<InvalidArgument>([&] { read(change); }, {words, "here.json"});
  }
  expect_error<InvalidArgument>([] { peft_config("[1]", "here.json"); }, {"no JSON object"});
}

TEST(Peft, DamagedTensorsAreRefused) {
  const ScratchFolder folder;
  const auto refused = [&](const std::vector<ParameterSlot>& slots, const char* words) {
    ParameterLayout layout;
    for (const ParameterSlot& slot : slots) layout.append(slot);
    const std::vector<float> row(static_cast<std::size_t>(layout.n_params()), 1.0F);
    write_folder(folder.path(), {kConfig.dump(), safetensors(layout, row)});
    expect_error<InvalidArgument>([&] { read_peft(folder.path()); }, {words});
  };
  refused({{.name = "m.lora_A.weight", .shape = {2, 3}}}, "m has one factor alone");
  refused({{.name = "m.lora_A.weight", .shape = {3, 2}}}, "shape [3, 2], and r is 2");
  refused({{.name = "m.weight", .shape = {2, 3}}}, "m.weight is no factor");
  refused({{.name = "m.lora_A.weight", .shape = {2, 3}},
           {.name = "m.lora_embedding_B", .shape = {3, 2}}},
          "two kinds");
  const PeftAdapter odd{
      .module = "m", .in = 3, .out = 5, .a = std::vector<float>(6), .b = std::vector<float>(10)};
  expect_error<InvalidArgument>(
      [&] {
        own_factors(odd, {3, 4}, MatrixUse::kDense);
      },
      {"m has 3 inputs and 5 outputs", "[3, 4]"});
  // By its shapes, where they say it.
  EXPECT_EQ(own_factors(odd, {3, 5}, MatrixUse::kDense).a.size(), 10U);
  expect_error<InvalidArgument>(
      [&] {
        own_factors(odd, {5, 3}, MatrixUse::kTransposed);
      },
      {"m has"});
  std::filesystem::remove(folder.path() + "/adapter_config.json");
  expect_error<InvalidArgument>([&] { read_peft(folder.path()); }, {"adapter_config.json"});
}

}  // namespace
}  // namespace hanse
