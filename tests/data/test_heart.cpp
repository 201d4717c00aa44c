// The heart disease table: made by its program from UCI's files, and a federation of hospitals.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "hanse/data/federation.hpp"
#include "hanse/data/kinds.hpp"
#include "support.hpp"
#include "support/data_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

const std::string kFolder = data_folder("/heart");

std::string content(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Heart, TheTableIsWhatPrepareMakes) {
  const TempFolder folder;
  for (const auto& [name, option] : {std::pair<std::string, std::string>{"heart.csv", ""},
                                     {"heart-920.csv", "--all "},
                                     {"heart-scaled.csv", "--scaled "}}) {
    const std::string made = folder.file(name);
    const std::string command = "'" + kFolder + "/prepare' " + option + "'" + made + "'";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    const std::string committed = content(kFolder + "/" + name);
    EXPECT_FALSE(committed.empty());
    EXPECT_TRUE(content(made) == committed) << "run data/heart/prepare and commit " << name;
  }
}

TEST(Heart, AllPatients) {
  const auto alone = make_single_communicator();
  const auto federation = Federation::load({.kind = "csv",
                                            .path = kFolder + "/heart-920.csv",
                                            .test_fraction = 0,
                                            .client_column = "hospital"},
                                           {.partition = "by-column"}, 1, *alone);
  EXPECT_EQ(federation.sample_shape(), std::vector<int64_t>{15});
  const std::vector<int64_t> patients = {303, 294, 123, 200};
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_EQ(federation.train(c).size(), patients[static_cast<std::size_t>(c)]);
  }
  EXPECT_EQ(std::count(federation.labels().begin(), federation.labels().end(), 1), 509);
}

// The four files as they are give the tables that prepare makes of them.
TEST(Heart, RawFilesAreReadAsTheyAre) {
  const auto alone = make_single_communicator();
  const auto digest = [&](const DataOptions& data) {
    return Federation::load(data, {.partition = "by-column"}, 1, *alone).digest();
  };
  DataOptions raw{.kind = "csv", .path = kFolder + "/processed.*.data"};
  raw.label_column = "target";
  raw.label_above = 0;
  raw.category_columns = "cp,restecg";
  raw.drop_columns = "slope,ca,thal";
  raw.missing = MissingValues::kDrop;
  raw.test_fraction = 0.2;
  DataOptions made{.kind = "csv", .path = kFolder + "/heart.csv", .client_column = "hospital"};
  made.test_fraction = 0.2;
  EXPECT_EQ(digest(raw), digest(made));
  raw.standardize = made.standardize = Standardize::kClient;
  EXPECT_EQ(digest(raw), digest(made));
  // All patients: prepare takes the means of all of a hospital's patients.
  raw.missing = MissingValues::kMean;
  raw.test_fraction = made.test_fraction = 0;
  made.path = kFolder + "/heart-920.csv";
  EXPECT_EQ(digest(raw), digest(made));
}

TEST(Heart, FourHospitals) {
  DataOptions data{.kind = "csv", .path = kFolder + "/heart.csv", .client_column = "hospital"};
  data.test_fraction = 0;
  const auto alone = make_single_communicator();
  const auto federation = Federation::load(data, {.partition = "by-column"}, 1, *alone);
  ASSERT_EQ(federation.clients(), 4);
  EXPECT_EQ(federation.samples(), 740);
  EXPECT_EQ(federation.classes(), 2);
  EXPECT_EQ(federation.sample_shape(), std::vector<int64_t>{15});
  const std::vector<int64_t> patients = {303, 261, 46, 130};  // Cleveland, Hungary, Switzerland, VA
  const std::vector<int64_t> diseased = {139, 98, 45, 101};
  for (int64_t c = 0; c < 4; ++c) {
    const auto range = federation.train(c);
    EXPECT_EQ(range.size(), patients[static_cast<std::size_t>(c)]);
    const auto labels = federation.labels().subspan(static_cast<std::size_t>(range.begin),
                                                    static_cast<std::size_t>(range.size()));
    EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), diseased[static_cast<std::size_t>(c)]);
  }
}

// One patient by hand: the first line of processed.cleveland.data.
TEST(Heart, TheFirstPatient) {
  DataOptions data{.kind = "csv", .path = kFolder + "/heart.csv", .client_column = "hospital"};
  const Dataset dataset = read_dataset(data, 0, 0, 1);
  std::vector<float> first(15);
  std::memcpy(first.data(), dataset.features.data(), 15 * sizeof(float));
  //                        age sex cp 1-4      rest chol fbs ecg 0-2  thalach exang oldpeak
  const std::vector<float> expected{63, 1, 1, 0, 0, 0, 145, 233, 1, 0, 0, 1, 150, 0, 2.3F};
  EXPECT_EQ(first, expected);
  EXPECT_EQ(dataset.labels[0], 0);
  EXPECT_EQ(dataset.group_names,
            (std::vector<std::string>{"cleveland", "hungarian", "switzerland", "va"}));
}

}  // namespace
}  // namespace hanse
