// Several files of one table.
#include <filesystem>

#include <gtest/gtest.h>

#include "hanse/data/dataset.hpp"
#include "support.hpp"

namespace hanse {
namespace {

class CsvFilesTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(folder_.file(name)).parent_path());
    folder_.write(name, content);
  }
  Dataset read_all(const std::string& pattern) {
    testing::internal::CaptureStderr();
    try {
      Dataset dataset = read_csv(folder_.file(pattern), options_);
      said_ = testing::internal::GetCapturedStderr();
      return dataset;
    } catch (...) {
      testing::internal::GetCapturedStderr();
      throw;
    }
  }
  using Names = std::vector<std::string>;
  TempFolder folder_;
  DataOptions options_{.kind = "csv", .client_column = ""};
  std::string said_;  // on stderr
};

TEST_F(CsvFilesTest, ColumnsAreMatchedByTheirNames) {
  put("a.csv", "x,y,label\n1,2,0\n");
  put("b.csv", "label;y;x\n1;4;3\n0;6;\"5\"\n");
  put("c.csv", "x,y,label\n7,8,1\n");
  const Dataset dataset = read_all("*.csv");
  EXPECT_EQ(features_of(dataset), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(dataset.group_names, (Names{"a", "b", "c"}));
  EXPECT_NE(said_.find(folder_.file("b.csv") + ": the columns are separated by ';'"),
            std::string::npos)
      << said_;
  EXPECT_NE(said_.find(folder_.file("b.csv") + ": the columns stand in another order than in " +
                       folder_.file("a.csv")),
            std::string::npos)
      << said_;
}

TEST_F(CsvFilesTest, RemarksNameTheFilesThatTheyAreAbout) {
  for (const char* name : {"b.csv", "c.csv", "d.csv"}) put(name, "x;label\n1;0\n2;1\n");
  put("a.csv", "x,label\n1,0\n");
  read_all("*.csv");
  EXPECT_EQ(said_, "hanse: " + folder_.file("b.csv") +
                       " and 2 other files: the columns are separated by ';'\n");
}

TEST_F(CsvFilesTest, OtherColumnsAreRefusedByName) {
  put("a.csv", "x,chol,label\n1,2,0\n");
  put("b.csv", "label,x,Chol\n0,1,2\n");
  expect_invalid([&] { read_all("*.csv"); }, {"column 'chol' of " + folder_.file("a.csv") +
                                                  " is not in " + folder_.file("b.csv"),
                                              "in any order: is it 'Chol'?"});
  put("b.csv", "label,x,chol,age\n0,1,2,3\n");
  expect_invalid([&] { read_all("*.csv"); }, {"column 'age' of " + folder_.file("b.csv")});
  put("b.csv", "label,x,chol\n0,oops,2\n");  // the place in its own file
  expect_invalid([&] { read_all("*.csv"); },
                 {"'oops' is not a number", folder_.file("b.csv") + ":2, column 'x'"});
}

TEST_F(CsvFilesTest, AStarIsNotHiddenFiles) {
  const std::string text = "x,label\n1,0\n2,1\n";
  for (const char* name : {"north.csv", "south.csv", ".north.csv", "notes.txt"}) put(name, text);
  put("._south.csv", std::string("\0\5\26\7", 4));
  put("folder.csv/x", text);
  const Dataset dataset = read_all("*.csv");
  EXPECT_EQ(dataset.group_names, (Names{"north", "south"}));
  EXPECT_EQ(dataset.unread, (Names{"2 hidden files"}));
  EXPECT_EQ(read_all(".n*.csv").group_names, (Names{"orth"}));  // who writes the dot means it
}

TEST_F(CsvFilesTest, AFolderForEachClient) {
  const std::string text = "x,label\n1,0\n2,1\n";
  for (const char* name : {"sites/south/data.csv", "sites/north/data.csv", "sites/.old/data.csv",
                           "sites/empty/notes.txt", "sites/data.csv"}) {
    put(name, text);
  }
  const Dataset dataset = read_all("sites/*/data.csv");
  EXPECT_EQ(dataset.group_names, (Names{"north", "south"}));
  EXPECT_EQ(dataset.unread, (Names{"1 folder without data.csv", "1 hidden folder"}));
  EXPECT_EQ(read_all("sites/n*h/data.csv").group_names, (Names{"ort"}));
  expect_invalid([&] { read_all("*/*/data.csv"); }, {"several stars", "sites/*/data.csv"});
}

}  // namespace
}  // namespace hanse
