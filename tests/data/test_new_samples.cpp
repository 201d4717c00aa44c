// What a run records of its features, and new data that are prepared by it.
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "hanse/data/federation.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/new_samples.hpp"
#include "support.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Three clinics, the last one held out: a level that it alone has, holes in a column of numbers and
// in one of categories, and numbers that float32 cannot hold.
const std::vector<std::string> kHeader = {"site", "age", "kind", "code", "smokes", "ill"};
const Rows kVisits = {{"north", "51", "a", "1600000001", "true", "0"},
                      {"north", "", "b", "1600000005", "false", "1"},
                      {"north", "64.5", "b", "1600000002", "true", "1"},
                      {"south", "49", "", "1600000009", "true", "0"},
                      {"south", "70", "a", "1600000004", "false", "1"},
                      {"south", "?", "b", "1600000003", "true", "0"},
                      {"east", "33", "c", "1600000031", "false", "0"},
                      {"east", "", "a", "1600000017", "true", "1"},
                      {"east", "80", "", "1600000021", "true", "1"}};

std::string csv(const std::vector<std::string>& header, const Rows& rows) {
  std::string text = fmt::format("{}\n", fmt::join(header, ","));
  for (const auto& row : rows) text += fmt::format("{}\n", fmt::join(row, ","));
  return text;
}

// The columns in the opposite order.
Rows turned(Rows rows) {
  for (auto& row : rows) std::ranges::reverse(row);
  return rows;
}

class NewSamplesTest : public testing::Test {
 protected:
  NewSamplesTest() {
    data_.kind = "csv";
    data_.path = folder_.write("visits.csv", csv(kHeader, kVisits));
    data_.label_column = "ill";
    data_.client_column = "site";
    data_.test_fraction = 0;
    data_.missing = MissingValues::kMean;
    data_.categories = Categories::kOneHot;
    federation_.held_out = HeldOut::parse("east");
  }

  Federation load() const {
    testing::internal::CaptureStderr();
    const auto alone = make_single_communicator();
    Federation found = Federation::load(data_, federation_, 1, *alone);
    testing::internal::GetCapturedStderr();
    return found;
  }

  std::vector<std::vector<float>> read(const std::string& path, const FeatureRecord& record,
                                       const std::string& client = "",
                                       UnknownLevels unknown = UnknownLevels::kRefuse) {
    DataOptions data = data_;
    data.path = path;
    const auto samples = open_new_samples(data, record, preparation_of(record, client), unknown);
    names_ = samples->names();
    std::vector<std::vector<float>> found;
    texts_.clear();
    std::vector<float> values(record.values.size());
    std::vector<std::string> texts;
    while (samples->next(values, texts)) {
      found.push_back(values);
      texts_.push_back(texts);
    }
    return found;
  }

  void expect_refused(const std::string& table, const std::vector<std::string>& parts) {
    const FeatureRecord record = *load().names().features;
    const std::string path = folder_.write("new.csv", table);
    expect_invalid([&] { read(path, record); }, parts);
  }

  TempFolder folder_;
  DataOptions data_;
  FederationOptions federation_;
  std::vector<std::string> names_;
  Rows texts_;
};

class SameSamples : public NewSamplesTest,
                    public testing::WithParamInterface<std::tuple<MissingValues, Standardize>> {};

// Each client's own rows, from the table as it is, become the client's samples of the run bit by
// bit, by the record's text alone.
TEST_P(SameSamples, AsInTheRun) {
  std::tie(data_.missing, data_.standardize) = GetParam();
  const Federation run = load();
  const std::string text = features_text(*run.names().features);
  const FeatureRecord record = read_features(text, "features.csv");
  EXPECT_EQ(features_text(record), text);
  EXPECT_EQ(run.held_out(), 1);
  auto header = kHeader;
  std::ranges::reverse(header);
  for (int64_t client = 0; client < 3; ++client) {
    const std::string name(run.names().clients.at(client));
    Rows own;
    for (const auto& row : kVisits) {
      if (row[0] == name) own.push_back(row);
    }
    const std::string path = folder_.write("own.csv", csv(header, turned(own)));
    const auto found = read(path, record, record.is_by_client() ? name : "");
    ASSERT_EQ(found.size(), 3U);
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<float> expected(to_index(run.sample_values()));
      const int64_t sample = run.train(client).begin + i;
      run.copy({sample, sample + 1}, expected.data());
      EXPECT_EQ(found[to_index(i)], expected) << name << " " << i;
    }
    EXPECT_EQ(texts_[2], (std::vector<std::string>{"2", own[2][5], name}));
  }
  EXPECT_EQ(names_, (std::vector<std::string>{"id", "ill", "site"}));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SameSamples,
    testing::Combine(testing::Values(MissingValues::kMean, MissingValues::kMedian,
                                     MissingValues::kCategory),
                     testing::Values(Standardize::kNone, Standardize::kClient, Standardize::kAll)),
    [](const auto& way) {
      return name_of(std::get<0>(way.param)) + "_" + name_of(std::get<1>(way.param));
    });

TEST_F(NewSamplesTest, TheRecordTellsWhatWasDone) {
  data_.missing = MissingValues::kCategory;
  data_.drop_columns = "code";
  const FeatureRecord record = *load().names().features;
  std::vector<std::string> names;
  for (int64_t i = 0; i < std::ssize(record.values); ++i) names.push_back(value_name(record, i));
  EXPECT_EQ(names, (std::vector<std::string>{"age", "age missing", "kind=a", "kind=b",
                                             "kind missing", "smokes"}));
  EXPECT_EQ(record.foreign, (std::vector<std::pair<std::string, std::string>>{{"kind", "c"}}));
  EXPECT_EQ(record.label_columns, std::vector<std::string>{"ill"});
  EXPECT_EQ(record.client_column, "site");
  EXPECT_EQ(record.dropped, std::vector<std::string>{"code"});
  EXPECT_EQ(record.labels.classes, 2);
  ASSERT_EQ(record.preparations.size(), 1U);
  const std::vector<double> fills = {(51 + 64.5 + 49 + 70) / 4, 1, 0, 0, 1, 4.0 / 6};
  EXPECT_EQ(record.preparations[0].fills, fills);
}

TEST_F(NewSamplesTest, ColumnsBesideTheModelsPassThrough) {
  const FeatureRecord record = *load().names().features;
  const std::string path =
      folder_.write("new.csv", "smokes,note,id,code,kind,age\ntrue,\"x, y\",p-7,1600000001,a,50\n");
  EXPECT_EQ(read(path, record).size(), 1U);
  EXPECT_EQ(names_, (std::vector<std::string>{"id", "note"}));
  EXPECT_EQ(texts_[0], (std::vector<std::string>{"p-7", "x, y"}));
}

TEST_F(NewSamplesTest, WhatDoesNotFitIsRefused) {
  expect_refused("age,kind,code\n50,a,1\n",
                 {"no column 'smokes', which the model reads", "new.csv:1"});
  expect_refused("age,kind\n50,a\n", {"no columns code, smokes, which the model reads"});
  const std::string header = "age,kind,code,smokes\n";
  expect_refused(header + "50,z,1,true\n", {"does not know the category 'z'", "new.csv:2",
                                            "column 'kind'", "--unknown=missing"});
  expect_refused(header + "50,a,1\n", {"the row has 3 fields, the header 4", "new.csv:2"});
  expect_refused(header + "fifty,a,1,true\n", {"'fifty' is not a number", "column 'age'"});
  expect_refused(header + "1e60,a,1,true\n", {"'1e60' is not finite in float32"});
  expect_refused(header, {"there is no row below the header"});
  expect_refused("age,age,kind,code,smokes\n", {"column 'age' stands twice"});
}

TEST_F(NewSamplesTest, UnknownLevelsMayCountAsMissing) {
  const FeatureRecord record = *load().names().features;
  const std::string path =
      folder_.write("new.csv", "age,kind,code,smokes\n50,z,1,true\n50,,1,true\n50,c,1,true\n");
  const auto rows = read(path, record, "", UnknownLevels::kMissing);
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_EQ(rows[2][1] + rows[2][2], 0);  // a level that only a held-out client has
}

TEST_F(NewSamplesTest, WithoutFillingsMissingValuesAreRefused) {
  data_.missing = MissingValues::kDrop;
  federation_.held_out = {};
  expect_refused("age,kind,code,smokes\n,a,1,true\n", {"the cell is empty", "column 'age'"});
  expect_refused("age,kind,code,smokes\nNA,a,1,true\n", {"the value is missing: 'NA'"});
}

TEST_F(NewSamplesTest, AClientIsNamedWhereEachHasItsOwn) {
  data_.standardize = Standardize::kClient;
  const FeatureRecord record = *load().names().features;
  expect_invalid([&] { preparation_of(record, ""); }, {"--client", "north, south"});
  expect_invalid([&] { preparation_of(record, "norht"); }, {"did you mean 'north'?"});
}

// Clients without names have numbers, which change where others are held out.
TEST_F(NewSamplesTest, NumbersOfClientsAreThoseOfTheRun) {
  data_.client_column = "";
  data_.drop_columns = "site,kind,code";
  data_.standardize = Standardize::kClient;
  federation_ = {.clients = 3, .partition = "iid", .held_out = HeldOut::parse("name:0")};
  const Federation run = load();
  const FeatureRecord& record = *run.names().features;
  for (int64_t client = 0; client < 3; ++client) {
    const Preparation& own = preparation_of(record, std::to_string(client));
    // Standardized features of a client have the mean 0: of these means it is the raw one's.
    double mean = 0;
    for (int64_t i = run.train(client).begin; i < run.train(client).end; ++i) {
      std::vector<float> sample(2);
      run.copy({i, i + 1}, sample.data());
      const double raw =
          static_cast<double>(sample[1]) * own.scales[1].deviation + own.scales[1].mean;
      EXPECT_NEAR(std::abs(raw - 0.5), 0.5, 1e-6) << client;  // smokes is 0 or 1
      mean += static_cast<double>(sample[1]);
    }
    EXPECT_NEAR(mean, 0, 1e-6);
  }
}

TEST_F(NewSamplesTest, ConvertedDataKeepTheRecord) {
  data_.standardize = Standardize::kAll;
  const std::string text = features_text(*load().names().features);
  testing::internal::CaptureStderr();
  write_hanse_file(folder_.file("visits.h5"), data_, federation_, 1);
  testing::internal::GetCapturedStderr();
  data_.kind = "hanse";
  data_.path = folder_.file("visits.h5");
  data_.standardize = Standardize::kNone;
  const FeatureRecord record = *load().names().features;
  EXPECT_EQ(features_text(record), text);
  data_.path.clear();  // a model of such data reads tables
  EXPECT_EQ(read(folder_.file("visits.csv"), record).size(), 9U);
}

TEST(Features, DamagedTablesAreRefused) {
  const std::string header = "role,input,column,level,client,filled,origin,mean,deviation\n";
  const std::string shape = header + "shape,,,2,,,,,\n";
  const auto refuse = [](const std::string& text, const std::string& part) {
    expect_invalid([&] { read_features(text, "features.csv"); }, {part, "features.csv:"});
  };
  refuse("", "no table of features");
  refuse("a,b\n", "no table of features");
  refuse(header, "shape of a sample");
  refuse(shape + "number,0,a\n", "9 fields");
  refuse(shape + "number,1,a,,,,,,\n", "their order");
  refuse(shape + "number,0,a,,,,,1,0\n", "deviation is not positive");
  refuse(shape + "number,0,a,,,,,1,2\nnumber,1,b,,,,,,\n", "others none");
  refuse(shape + "number,0,a,,x,,,1,2\nnumber,1,b,,y,,,1,2\n", "their order");
  refuse(shape + "gift,0,,,,,,,\n", "unknown role 'gift'");
  refuse(shape + "classes,-1,,,,,,,\n", "no count");
  refuse(shape + "number,0,a,,,,,1,2\n", "there are 1 inputs, and a sample has 2");
  refuse(shape + "label_values,0,,,,,,,\n", "a label has no value");
  refuse(header + "shape,,,0,,,,,\n", "not positive");
}

}  // namespace
}  // namespace hanse
