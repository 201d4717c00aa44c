#include <cstring>
#include <ctime>

#include <gtest/gtest.h>
#include <zlib.h>

#include "hanse/data/dataset.hpp"
#include "support.hpp"
#include "support/data_folder.hpp"

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
  const Dataset text = read("x,label\n0,rat\n0,dog\n0,Owl\n0,cat\n");
  EXPECT_EQ(text.labels, (std::vector<int32_t>{3, 2, 0, 1}));
  EXPECT_EQ(text.classes, 4);
}

TEST_F(CsvTest, EmptyLabelColumnMeansTheLastOne) {
  options_.label_column = "";
  const Dataset dataset = read("label,y\n7,1\n8,0\n");
  EXPECT_EQ(features_of(dataset), (std::vector<float>{7, 8}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 0}));
}

TEST_F(CsvTest, RegressionReadsTargets) {
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
  expect_bad(head + "nan,2,0\n", "'nan' is not a number", ":3, column 'a'");
  expect_bad(head + "1,-Inf,0\n", "'-Inf' is not finite", ":3, column 'b'");
  expect_bad(head + "1,1e39,0\n", "'1e39' is not finite", ":3, column 'b'");
  expect_bad(head + "1,1e999,0\n", "'1e999' is not finite", ":3, column 'b'");
  expect_bad(head + "1,2 3,0\n", "'2 3' is not a number", ":3, column 'b'");
  expect_bad(head + "0x10,2,0\n", "'0x10' is not a number", ":3, column 'a'");
  expect_bad(head + "1,2,0.5\n", "label '0.5' is not an integer", ":3, column 'label'");
  expect_bad(head + "1,2,nan\n", "the label is missing: 'nan'", ":3, column 'label'");
}

TEST_F(CsvTest, WrongNumberOfFields) {
  const std::string head = "a,b,label\n1,2,0\n";
  expect_bad(head + "1,2\n", "has 2 fields, the header 3", ":3, column 'label'");
  expect_bad(head + "1,2,0,4\n", "has 4 fields, the header 3", ":3");
  expect_bad(head + "\n1,2,0\n", "the line is blank", ":3");
  expect_bad(head + "1,5,2,0\n", "numbers have a decimal point", ":3");
}

TEST_F(CsvTest, BadHeadersAreRefused) {
  expect_bad("", "the file is empty", ":");
  expect_bad("a,label\n", "no row below the header", ":1");
  expect_bad("a,b,a,label\n1,2,3,0\n", "'a' stands twice", ":1");
  expect_bad(",a,label\n0,1,0\n", "column 1 has no name", ":1");
  expect_bad("a,Label\n1,0\n", "no column 'label'", ":1");
  expect_bad("label\n1\n", "no feature column", ":1");
  expect_bad("a,label,\n1,0,\n", "does every line end in a separator?", ":1");
  expect_bad("a label\n1 0\n", "separate the columns by commas", ":1");
  expect_bad("\na,label\n1,0\n", "the first line is blank", ":1");
  expect_bad("[{\"a\": 1, \"label\": 0}]\n", "the file is JSON", ":1");
  expect_bad("@RELATION iris\n\n@DATA\n", "the file is ARFF", ":1");
  expect_bad("age,2020,lable\n1,2,0\n", "there is no column 'label'", ":1");
}

// The first sample became the names of the columns.
TEST_F(CsvTest, ATableWithoutAHeader) {
  const std::string flowers = "5.0,3.4,1.4,0.20,setosa\n5.0,3.4,1.4,0.21,virginica\n";
  const std::string what = "'5.0,3.4,1.4,...' looks like a sample";
  for (const char* label : {"", "label", "setosa"}) {
    options_.label_column = label;
    const std::string again = flowers + flowers;  // so that the label stands below as well
    expect_bad(again, what, ":1");
    expect_bad(again, "put a line of names above it, such as x1,x2,x3,x4,label", ":1");
  }
  options_.label_column = "0";  // a place, one may think
  expect_bad("0,5.1,3.5\n1,4.9,3.0\n", "'0,5.1,3.5' looks like a sample", ":1");
  options_.label_column = "";
  expect_bad("5.1,5.1,1\n5,4,0\n", "looks like a sample", ":1");
  expect_bad("5.1,5.1.1,1\n5,4,0\n", "looks like a sample", ":1");  // as pandas calls the second
  expect_bad("5.1,?,a\n5,4,b\n", "looks like a sample", ":1");
  expect_bad("\"5.1\",\"3\",\"a\"\n5,4,b\n", "looks like a sample", ":1");
  expect_bad("5;4;3;2;1;a\n", "names above it, such as x1,x2,x3,...,x5,label", ":1");
  options_.client_column = "north";
  expect_bad("north,5.1,3.5,1\nsouth,4.9,3.0,0\n", "looks like a sample", ":1");
  options_.client_column = "site";
  expect_bad("north,5.1,3.5,1\nsouth,4.9,3.0,0\n", "there is no column 'site'", ":1");
  options_.client_column = "";
  options_.task = "regression";
  expect_bad("5.1,3.5,0.7\n4.9,3.0,0.2\n", "looks like a sample", ":1");
}

TEST_F(CsvTest, ColumnsMayBeCalledByNumbers) {
  const Dataset years = read("2019,2020,label\n1,2,a\n3,4,b\n");
  EXPECT_EQ(years.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read("id,2019,2020,label\n1,2,3,0\n").shape, (std::vector<int64_t>{3}));
  options_.label_column = "";
  expect_bad("2019,2020,label\n1,2,a\n", "set data.label-column = label", ":1");
  testing::internal::CaptureStderr();
  EXPECT_EQ(features_of(read("0,1,2\n7,8,1\n9,6,0\n")), (std::vector<float>{7, 8, 9, 6}));
  options_.label_column = "4";
  EXPECT_EQ(read("1,2,3,4\n7,8,9,1\n").shape, (std::vector<int64_t>{3}));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("table.csv: the columns are called 0 to 2, and the first line is no sample"),
            std::string::npos)
      << said;
}

TEST_F(CsvTest, OtherSeparatorsAndLineEnds) {
  const std::string table = "a,site,label\n1.5,\"x,y;z\",0\n-2,n,1\n";
  options_.client_column = "site";
  for (const char separator : {';', '\t', '|'}) {
    for (const char* start : {"", "sep=?\n"}) {
      std::string other = start + table;
      for (std::size_t i = 0; i < other.size(); ++i) {
        if ((other[i] == ',' && other[i - 1] != 'x') || other[i] == '?') other[i] = separator;
      }
      testing::internal::CaptureStderr();
      const Dataset dataset = read(other);
      const std::string said = testing::internal::GetCapturedStderr();
      EXPECT_NE(said.find("the columns are separated by "), std::string::npos) << said;
      EXPECT_EQ(features_of(dataset), (std::vector<float>{1.5F, -2})) << other;
      EXPECT_EQ(dataset.group_names, (std::vector<std::string>{"x,y;z", "n"}));
    }
  }
  for (const bool after_mark : {false, true}) {
    std::string old = (after_mark ? "\xEF\xBB\xBF" : "") + table;
    std::ranges::replace(old, '\n', '\r');
    EXPECT_EQ(features_of(read(old)), (std::vector<float>{1.5F, -2}));
    expect_bad(old + "1,n,0,0\r", "has 4 fields", ":4");
  }
  expect_bad("sep=;\na;site;label\n1;n;x\nb;n;x\n", "'b' is not a number", ":4");
  options_.client_column = "";
  expect_bad("a;b;label\n1,5;2;0\n", "a number has a decimal point and no comma: 1.5",
             ":2, column 'a'");
  expect_bad("a;b;label\n1.234,5;2;0\n", "a number has a decimal point and no comma", ":2");
  testing::internal::CaptureStderr();
  EXPECT_EQ(read("\"a, mm\";b, mm;label\n1;2;0\n").shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(read("p|q,r|s|t,label\n1,2,0\n").shape, (std::vector<int64_t>{2}));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST_F(CsvTest, HintsForTextsThatLookLikeNumbers) {
  for (const auto& [text, hint] : std::vector<std::pair<std::string, std::string>>{
           {"\"1,5\"", "no comma: 1.5"},
           {"\u22125", "write -5"},
           {"5\u00A0", "a character in it, seen or not, is none of a number: write 5"},
           {"1\u202F000", "write 1000"},
           {"1_000", "write 1000"},
           {"0x10", "in decimal digits"},
           {"NA", "fill it in or remove the row"},
           {"+-5", "only the client column and class labels may be text"}}) {
    expect_bad("a,label\n1,0\n" + text + ",0\n", "is not a number", ":3, column 'a'");
    expect_bad("a,label\n1,0\n" + text + ",0\n", hint, ":3, column 'a'");
  }
  EXPECT_EQ(features_of(read("a,b,c,label\n1e-400,-0.0,+2.5e-3,0\n")),
            (std::vector<float>{0, 0, 0.0025F}));
}

// 40 seconds are one number in float32, and 40 once they are centred.
TEST_F(CsvTest, LargeWholeNumbersAreCentredBeforeTheyAreRounded) {
  std::string table = "t,x,label\n";
  for (int i = 0; i < 40; ++i) {
    table += std::to_string(1700000000 + i) + "," + std::to_string(0.1 * i) + ",0\n";
  }
  testing::internal::CaptureStderr();
  EXPECT_TRUE(read(table).precise.empty());
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "table.csv, column 't': 39 of 40 numbers are not exact in float32, 40 different "
                "ones become 1; data.standardize centres them before that"),
            std::string::npos);
  options_.standardize = Standardize::kAll;
  testing::internal::CaptureStderr();
  const Dataset dataset = read(table);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(dataset.precise.size(), 1U);
  EXPECT_EQ(dataset.precise[0].feature, 0);
  ASSERT_EQ(dataset.precise[0].values.size(), 40U);
  EXPECT_EQ(dataset.precise[0].values[39], 1700000039.0);
}

TEST_F(CsvTest, RoundedTargetsAreSaid) {
  options_.task = "regression";
  options_.standardize = Standardize::kAll;
  testing::internal::CaptureStderr();
  read("x,label\n1,16777217\n2,5\n");
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "column 'label': 1 of 2 numbers is not exact in float32"),
            std::string::npos);
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

TEST_F(CsvTest, BadClientColumnsAreRefused) {
  options_.client_column = "site";
  expect_bad("sites,x,label\n1,1,1\n", "no column 'site'", ":1");
  expect_bad("site,label\n1,1\n", "no feature column", ":1");
  expect_bad("site,x,label\n,1,1\n", "the cell is empty", ":2, column 'site'");
  options_.label_column = "site";
  expect_bad("site,x,label\n1,1,1\n", "both label and client", ":1");
}

TEST_F(CsvTest, BadQuotesAreRefused) {
  expect_bad("a,label\n\"1,0\n", "does not end", ":2");
  expect_bad("a,label\n\"1\"2,0\n", "follows a closing quote", ":2");
}

TEST_F(CsvTest, BadFileAndTaskAreRefused) {
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
  const Dataset dataset = read_csv(data_folder("/tiny.csv"), options);
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(features_of(dataset), (std::vector<float>{0.5F, -2, 1, 3.25F, 2, 40, -0.125F, 7}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 0, 1, 0}));
  EXPECT_EQ(dataset.group_names, (std::vector<std::string>{"north", "south"}));
  EXPECT_EQ(dataset.groups, (std::vector<int64_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace hanse
