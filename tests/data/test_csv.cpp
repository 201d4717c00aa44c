#include <cstring>
#include <ctime>

#include <gtest/gtest.h>
#include <zlib.h>

#include "hanse/data/dataset.hpp"
#include "support.hpp"

namespace hanse {
namespace {

class CsvTest : public testing::Test {
 protected:
  Dataset read(const std::string& content) {
    return read_csv(folder_.write("table.csv", content), options_);
  }
  // `where` follows the file name: ":LINE" or ":LINE, column 'NAME'".
  void expect_bad(const std::string& content, const std::string& what, const std::string& where) {
    expect_invalid([&] { read(content); }, {what, "table.csv" + where});
  }
  TempFolder folder_;
  DataOptions options_{.kind = "csv", .client_column = ""};
};

TEST_F(CsvTest, ReadsFeaturesAndLabels) {
  const Dataset dataset = read("a,label,b\n1.5,0,-2\n3e2,2,+4\n0.25,1,.5\n");
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(dataset.storage, Storage::kFloat);
  EXPECT_EQ(features_of(dataset), (std::vector<float>{1.5F, -2, 300, 4, 0.25F, 0.5F}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(dataset.classes, 3);
  EXPECT_TRUE(dataset.groups.empty());
}

TEST_F(CsvTest, LineEndsBlanksAndByteOrderMark) {
  const std::string rows = "a,label\n1,0\n2,1";
  const auto expected = features_of(read(rows));
  for (const std::string& variant :
       {rows + "\n", rows + "\n\n\n", std::string("a,label\r\n1,0\r\n2,1\r\n\r\n"),
        "\xEF\xBB\xBF" + rows, std::string("a , label\n 1\t,0\n2,  1 \n")}) {
    const Dataset dataset = read(variant);
    EXPECT_EQ(features_of(dataset), expected) << variant;
    EXPECT_EQ(dataset.labels, (std::vector<int32_t>{0, 1})) << variant;
  }
}

TEST_F(CsvTest, QuotedFields) {
  options_.client_column = "who, where";
  const Dataset dataset =
      read("\"who, where\",\"x\",label\r\n\"a \"\"b\"\",\nc\",\"2\",0\r\n\"d\",3,\"1\"\r\n");
  EXPECT_EQ(dataset.group_names, (std::vector<std::string>{"a \"b\",\nc", "d"}));
  EXPECT_EQ(features_of(dataset), (std::vector<float>{2, 3}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{0, 1}));
}

TEST_F(CsvTest, LinesAreCountedThroughQuotedFields) {
  options_.client_column = "c";
  expect_bad("c,x,label\n\"a\nb\",1,0\nd,oops,1\n", "'oops' is not a number", ":4, column 'x'");
}

TEST_F(CsvTest, ClientsAreNumberedByFirstAppearance) {
  options_.client_column = "site";
  const Dataset dataset = read("site,x,label\nz,1,0\na,2,1\nz,3,0\n7,4,1\n");
  EXPECT_EQ(dataset.group_names, (std::vector<std::string>{"z", "a", "7"}));
  EXPECT_EQ(dataset.groups, (std::vector<int64_t>{0, 1, 0, 2}));
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{1}));
}

TEST_F(CsvTest, LabelsAreNumberedInSortedOrder) {
  const Dataset integers = read("x,label\n0,10\n0,-1\n0,9\n0,+10\n");
  EXPECT_EQ(integers.labels, (std::vector<int32_t>{2, 0, 1, 2}));
  EXPECT_EQ(integers.classes, 3);
  const Dataset text = read("x,label\n0,10\n0,dog\n0,9\n0,cat\n");
  EXPECT_EQ(text.labels, (std::vector<int32_t>{0, 3, 1, 2}));
  EXPECT_EQ(text.classes, 4);
}

TEST_F(CsvTest, EmptyLabelColumnMeansTheLastOne) {
  options_.label_column = "";
  const Dataset dataset = read("label,y\n7,1\n8,0\n");
  EXPECT_EQ(features_of(dataset), (std::vector<float>{7, 8}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 0}));
}

TEST_F(CsvTest, Regression) {
  options_.task = "regression";
  const Dataset dataset = read("label,x\n-0.5,1\n1e3,2\n");
  EXPECT_EQ(dataset.targets, (std::vector<float>{-0.5F, 1000}));
  EXPECT_TRUE(dataset.labels.empty());
  EXPECT_EQ(dataset.classes, 0);
  EXPECT_EQ(dataset.size(), 2);
  expect_bad("label,x\ncat,1\n", "'cat' is not a number", ":2, column 'label'");
}

TEST_F(CsvTest, ClassesKeepTheirNames) {
  const auto names = [&](const std::string& labels) {
    std::string text = "label,x\n";
    for (const char label : labels) text += std::string(1, label) + ",1\n";
    return read(text).class_names;
  };
  EXPECT_EQ(names("zaz"), (std::vector<std::string>{"a", "z"}));
  EXPECT_EQ(names("757"), (std::vector<std::string>{"5", "7"}));
  EXPECT_TRUE(names("2012").empty());
  EXPECT_EQ(read("label,x\n1,1\n-1,1\n").class_names, (std::vector<std::string>{"-1", "1"}));
}

TEST_F(CsvTest, FeatureColumnsTogetherHaveAShape) {
  const std::string text = "label,p0,p1,p2,p3\n1,0,64,128,255\n";
  const Dataset row = read(text);
  EXPECT_EQ(row.shape, std::vector<int64_t>{4});
  options_.shape = {1, 2, 2};
  const Dataset image = read(text);
  EXPECT_EQ(image.shape, options_.shape);
  EXPECT_EQ(features_of(image), features_of(row));
  options_.shape = {1, 2, 3};
  expect_invalid([&] { read(text); },
                 {"[1, 2, 3] has 6 values, the table 4 feature columns", "data.shape"});
  options_.shape = {int64_t{1} << 33, int64_t{1} << 33};
  expect_invalid([&] { read(text); }, {"the table 4 feature columns"});
}

TEST_F(CsvTest, SeveralColumnsAreSeveralLabels) {
  const std::string text = "hot,x,cold,y\n1,0.5,0,2\n0,1.5,0,3\n1,2.5,1,4\n";
  options_.label_column = "cold, hot";
  const Dataset labels = read(text);
  EXPECT_TRUE(labels.multi_label);
  EXPECT_EQ(labels.label_values, 2);
  EXPECT_EQ(labels.size(), 3);
  EXPECT_EQ(labels.targets, (std::vector<float>{0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(labels.class_names, (std::vector<std::string>{"cold", "hot"}));
  EXPECT_TRUE(labels.labels.empty());
  EXPECT_EQ(labels.classes, 0);
  EXPECT_EQ(features_of(labels), (std::vector<float>{0.5F, 2, 1.5F, 3, 2.5F, 4}));
  expect_bad("hot,x,cold\n1,0,2\n", "is 0 or 1, not '2'", ":2, column 'cold'");
  expect_bad("hot,x,cold\n1,0,yes\n", "'yes' is not a number", ":2, column 'cold'");
  options_.task = "regression";
  const Dataset numbers = read("hot,x,cold\n1.5,0,2\n");
  EXPECT_FALSE(numbers.multi_label);
  EXPECT_EQ(numbers.targets, (std::vector<float>{2, 1.5F}));
  EXPECT_TRUE(numbers.class_names.empty());
  expect_bad("hot,x\n1,0\n", "no column 'cold'", ":1");
  options_.label_column = "hot,hot";
  expect_invalid([&] { read(text); }, {"'hot' is named twice", "data.label-column"});
  options_.label_column = "a,b";  // one column of this name
  EXPECT_EQ(read("\"a,b\",x\n2.5,1\n").targets, std::vector<float>{2.5F});
}

TEST_F(CsvTest, BadCellsNameLineAndColumn) {
  const std::string head = "a,b,label\n1,2,0\n";
  expect_bad(head + "1,,0\n", "the cell is empty", ":3, column 'b'");
  expect_bad(head + "1,\"\",0\n", "the cell is empty", ":3, column 'b'");
  expect_bad(head + "1,2,\n", "the cell is empty", ":3, column 'label'");
  expect_bad(head + "nan,2,0\n", "'nan' is not finite", ":3, column 'a'");
  expect_bad(head + "1,-Inf,0\n", "'-Inf' is not finite", ":3, column 'b'");
  expect_bad(head + "1,1e39,0\n", "'1e39' is not finite", ":3, column 'b'");
  expect_bad(head + "1,1e999,0\n", "'1e999' is not finite", ":3, column 'b'");
  expect_bad(head + "1,2 3,0\n", "'2 3' is not a number", ":3, column 'b'");
  expect_bad(head + "0x10,2,0\n", "'0x10' is not a number", ":3, column 'a'");
  expect_bad(head + "1,2,0.5\n", "label '0.5' is not an integer", ":3, column 'label'");
  expect_bad(head + "1,2,nan\n", "label 'nan' is not", ":3, column 'label'");
}

TEST_F(CsvTest, WrongNumberOfFields) {
  const std::string head = "a,b,label\n1,2,0\n";
  expect_bad(head + "1,2\n", "has 2 fields, the header 3", ":3, column 'label'");
  expect_bad(head + "1,2,0,4\n", "has 4 fields, the header 3", ":3");
  expect_bad(head + "\n1,2,0\n", "has 1 fields, the header 3", ":3, column 'b'");
}

TEST_F(CsvTest, BadHeaders) {
  expect_bad("", "the file is empty", ":");
  expect_bad("a,label\n", "no row below the header", ":1");
  expect_bad("a,b,a,label\n1,2,3,0\n", "'a' stands twice", ":1");
  expect_bad(",a,label\n0,1,0\n", "column 1 has no name", ":1");
  expect_bad("a,Label\n1,0\n", "no column 'label'", ":1");
  expect_bad("label\n1\n", "no feature column", ":1");
}

// Their names are compared by hash: each with each would take minutes.
TEST_F(CsvTest, ManyColumns) {
  constexpr int64_t kColumns = 200'000;
  std::string head, row;
  for (int64_t i = 0; i < kColumns; ++i) {
    head += std::to_string(1'000'000 + i) + ",";
    row += "1,";
  }
  const std::clock_t start = std::clock();
  EXPECT_EQ(read(head + "label\n" + row + "0\n").sample_values(), kColumns);
  EXPECT_LT(std::clock() - start, 5 * CLOCKS_PER_SEC);
}

TEST_F(CsvTest, BadClientColumns) {
  options_.client_column = "site";
  expect_bad("sites,x,label\n1,1,1\n", "no column 'site'", ":1");
  expect_bad("site,label\n1,1\n", "no feature column", ":1");
  expect_bad("site,x,label\n,1,1\n", "the cell is empty", ":2, column 'site'");
  options_.label_column = "site";
  expect_bad("site,x,label\n1,1,1\n", "both label and client", ":1");
}

TEST_F(CsvTest, BadQuotes) {
  expect_bad("a,label\n\"1,0\n", "does not end", ":2");
  expect_bad("a,label\n\"1\"2,0\n", "follows a closing quote", ":2");
}

TEST_F(CsvTest, BadFileAndTask) {
  expect_invalid([&] { read_csv(folder_.file("none.csv"), options_); },
                 {"cannot open", folder_.file("none.csv")});
  expect_invalid([&] { read_csv(folder_.path(), options_); }, {"found a folder", folder_.path()});
  options_.task = "ranking";
  expect_invalid([&] { read("a,label\n1,0\n"); }, {"'ranking'", "data.task"});
}

TEST_F(CsvTest, ReadsGzip) {
  const std::string path = folder_.file("table.csv.gz");
  const gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "a,label\n1,0\n2,1\n");
  gzclose(file);
  EXPECT_EQ(features_of(read_csv(path, options_)), (std::vector<float>{1, 2}));
}

TEST_F(CsvTest, LargerThanOneBuffer) {
  std::string content = "x,y,label\n";
  constexpr int64_t kRows = 200000;  // 3 MB
  for (int64_t i = 0; i < kRows; ++i) {
    content +=
        std::to_string(i) + "," + std::to_string(-2 * i) + "," + std::to_string(i % 3) + "\n";
  }
  const Dataset dataset = read(content);
  ASSERT_EQ(dataset.size(), kRows);
  const auto values = features_of(dataset);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kRows); ++i) {
    ASSERT_EQ(values[2 * i], static_cast<float>(i));
    ASSERT_EQ(values[2 * i + 1], -2 * static_cast<float>(i));
    ASSERT_EQ(dataset.labels[i], static_cast<int32_t>(i % 3));
  }
}

TEST(CsvFixture, IsTheExampleOfTheReadme) {
  DataOptions options;
  options.client_column = "site";
  const Dataset dataset = read_csv(HANSE_DATA_FOLDER "/tiny.csv", options);
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(features_of(dataset), (std::vector<float>{0.5F, -2, 1, 3.25F, 2, 40, -0.125F, 7}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 0, 1, 0}));
  EXPECT_EQ(dataset.group_names, (std::vector<std::string>{"north", "south"}));
  EXPECT_EQ(dataset.groups, (std::vector<int64_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace hanse
