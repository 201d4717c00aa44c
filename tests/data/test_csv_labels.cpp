// Which labels are classes, and which clients' names are names.
#include <gtest/gtest.h>

#include "hanse/data/dataset.hpp"
#include "support.hpp"

namespace hanse {
namespace {

using Texts = std::vector<std::string>;
using Labels = std::vector<int32_t>;

class CsvLabelsTest : public testing::Test {
 protected:
  Dataset read(const std::string& content) {
    return read_csv(folder_.write("table.csv", content), options_);
  }
  // A table of one label a row, from line 2 on.
  Dataset read_labels(const Texts& labels) {
    std::string table = "x,label\n";
    for (const std::string& label : labels) table += "0," + label + "\n";
    return read(table);
  }
  Dataset read_clients(const Texts& clients) {
    std::string table = "site,x,label\n";
    for (const std::string& client : clients) table += client + ",0,1\n";
    options_.client_column = "site";
    return read(table);
  }
  void expect_bad_labels(const Texts& labels, const Texts& parts) {
    expect_invalid([&] { read_labels(labels); }, parts);
  }
  // What is said on stderr of a table that is read.
  std::string said(const std::function<void()>& work) {
    testing::internal::CaptureStderr();
    work();
    return testing::internal::GetCapturedStderr();
  }
  void expect_said(const std::string& said, const Texts& parts) {
    for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), parts.empty() ? 0 : 1) << said;
  }

  TempFolder folder_;
  DataOptions options_{.kind = "csv", .client_column = ""};
};

// SNOMED codes, identifiers of 64 bits and longer ones: a double stands for several of them.
TEST_F(CsvLabelsTest, LongIntegersStayApart) {
  const Texts codes = {"900000000000207008",
                       "900000000000207009",
                       "73211009",
                       "44054006",
                       "9007199254740993",
                       "9007199254740992",
                       "18446744073709551615",
                       "18446744073709551616",
                       "123456789012345678901234567890",
                       "-123456789012345678901234567890",
                       "-123456789012345678901234567891"};
  const Dataset dataset = read_labels(codes);
  EXPECT_EQ(dataset.labels, (Labels{6, 7, 3, 2, 5, 4, 8, 9, 10, 1, 0}));
  EXPECT_EQ(dataset.classes, 11);
  EXPECT_EQ(dataset.class_names[6], "900000000000207008");
  EXPECT_EQ(dataset.class_names[0], "-123456789012345678901234567891");
}

TEST_F(CsvLabelsTest, AnIntegerIsOneClassHoweverItIsWritten) {
  const Dataset dataset = read_labels({"7", "+7", "007", "7.0", "7e0", "\"7\"", "-0", "0",
                                       "900000000000207008", "900000000000207008.0"});
  EXPECT_EQ(dataset.labels, (Labels{1, 1, 1, 1, 1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(dataset.class_names, (Texts{"0", "7", "900000000000207008"}));
}

TEST_F(CsvLabelsTest, AMissingLabelIsNoClass) {
  for (const char* mark : {"NA", "na", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "Null",
                           "?", "<NA>", "#N/A", "\\N", "NaT", "1.#QNAN", "#DIV/0!"}) {
    const Texts parts = {"the label is missing: '" + std::string(mark) + "'",
                         "table.csv:4, column 'label'", "fill it in or remove the row"};
    expect_bad_labels({"0", "1", mark, "11"}, parts);
    expect_bad_labels({"cat", "dog", mark, "cat"}, parts);
  }
  for (const char* mark : {"none", "None", "-", "--", ".", "missing", "unknown"}) {
    expect_bad_labels({"0", "1", mark, "11"},
                      {"the label is missing: '" + std::string(mark) + "', among 3 whole numbers",
                       "table.csv:4, column 'label'", "remove the row"});
  }
  expect_bad_labels({"0", "", "1"}, {"the cell is empty", "table.csv:3, column 'label'"});
}

// Later ones as well, when the name is known by quotes.
TEST_F(CsvLabelsTest, AMarkInQuotesIsAName) {
  Dataset dataset;
  expect_said(said([&] {
                dataset = read_labels({"DE", "\"NA\"", "ZA", "\"NA\""});
              }),
              {"table.csv, column 'label': 'NA' names a class"});
  EXPECT_EQ(dataset.class_names, (Texts{"DE", "NA", "ZA"}));
  EXPECT_EQ(dataset.labels, (Labels{0, 1, 2, 1}));
  expect_bad_labels({"DE", "\"NA\"", "NA"}, {"the label is missing: 'NA'", "table.csv:4"});
  expect_said(said([&] {
                read_clients({"DE", "\"NA\""});
              }),
              {"table.csv, column 'site': 'NA' names a client"});
}

TEST_F(CsvLabelsTest, NoneAmongNamesIsAClassAndSaid) {
  Dataset dataset;
  expect_said(said([&] {
                dataset = read_labels({"severe", "none", "mild"});
              }),
              {"table.csv, column 'label': 'none' names a class"});
  EXPECT_EQ(dataset.class_names, (Texts{"mild", "none", "severe"}));
  expect_said(said([&] { dataset = read_labels({"+", "\"-\"", "+"}); }), {});
  EXPECT_EQ(dataset.class_names, (Texts{"+", "-"}));
  expect_said(said([&] { dataset = read_labels({"Na", "Cl"}); }), {"'Na' names a class"});
  EXPECT_EQ(dataset.class_names, (Texts{"Cl", "Na"}));  // sodium
}

TEST_F(CsvLabelsTest, AWordAmongIntegersIsRefused) {
  expect_bad_labels({"0", "1", "1O", "11"},
                    {"label '1O' is no number, and the 3 others are", "table.csv:4", "in quotes"});
  expect_bad_labels({"\"0\"", "\"1\"", "\"NULLA\""}, {"'NULLA' is no number", "table.csv:4"});
  expect_bad_labels({"\"0\"", "\"1\"", "\"NA\""}, {"the label is missing: 'NA'", "table.csv:4"});
  expect_bad_labels({"1", "2", "0x10"}, {"'0x10' is no number", "table.csv:4"});
  for (const auto& [label, number] : std::vector<std::pair<std::string, std::string>>{
           {"1_000", "1000"}, {"\u22121", "-1"}, {"3\u00A0", "3"}, {"1 000", "1000"}}) {
    // Words that number more than one are refused as well when they are meant to be numbers.
    expect_bad_labels({"1", label, "B", "C"},
                      {"is no number as it is written", "table.csv:3", "write " + number});
  }
}

TEST_F(CsvLabelsTest, IntegersAndNamesAreSaidAndKeepTheIntegersInOrder) {
  Dataset dataset;
  expect_said(said([&] {
                dataset = read_labels({"10", "B", "2", "A", "0"});
              }),
              {"column 'label': 3 of the classes are numbers and 2 are none ('B')"});
  EXPECT_EQ(dataset.labels, (Labels{2, 4, 1, 3, 0}));
  EXPECT_EQ(dataset.class_names, (Texts{"0", "2", "10", "A", "B"}));
  expect_said(said([&] {
                dataset = read_labels({"10", "\"other\"", "2"});
              }),
              {"2 of the classes are numbers and 1 are none ('other')"});
  EXPECT_EQ(dataset.class_names, (Texts{"2", "10", "other"}));
}

// UCI's Adult writes "<=50K." in its test part.
TEST_F(CsvLabelsTest, NamesThatDifferByLittleAreSaid) {
  Dataset dataset;
  expect_said(said([&] {
                dataset = read_labels({"<=50K", ">50K", "<=50K.", ">50K."});
              }),
              {"warning: ", "column 'label': '<=50K' and '<=50K.', '>50K' and '>50K.', alike"});
  EXPECT_EQ(dataset.classes, 4);
  expect_said(said([&] { read_labels({"Cat", "cat"}); }), {"'Cat' and 'cat'"});
  expect_said(said([&] { read_labels({"cat", "cat\u00A0"}); }), {"'cat' and 'cat\u00A0'"});
  expect_said(said([&] { read_labels({"a", "A", "b"}); }), {});           // letters
  expect_said(said([&] { read_labels({"7", "7.0", "007", "8"}); }), {});  // numbers
}

TEST_F(CsvLabelsTest, ClientsAreTexts) {
  Dataset dataset;
  expect_said(
      said([&] {
        dataset = read_clients({"7", "7.0", "8", "900000000000207008", "900000000000207009"});
      }),
      {"column 'site': '7' and '7.0', alike", "a client of its own"});
  EXPECT_EQ(dataset.group_names,
            (Texts{"7", "7.0", "8", "900000000000207008", "900000000000207009"}));
  for (const char* mark : {"NA", "n/a", "NaN", "null", "?", "<NA>"}) {
    expect_invalid(
        [&] {
          read_clients({"a", mark});
        },
        {"the client is missing: '" + std::string(mark) + "'", "table.csv:3, column 'site'",
         "in quotes is a name"});
  }
  expect_said(said([&] { read_clients({"a", "None"}); }), {"'None' names a client"});
}

TEST_F(CsvLabelsTest, NamesAreUtf8) {
  expect_bad_labels({"K\xC3\xB6ln", "K\xF6ln"},
                    {"'K\\xF6ln' is not UTF-8", "table.csv:3, column 'label'", "UTF-8"});
  expect_invalid([&] { read_clients({"Z\xFCrich"}); }, {"UTF-8", "table.csv:2, column 'site'"});
  options_.client_column = "";
  expect_invalid(
      [&] {
        read(
            "gr\xF6\xDF"
            "e,label\n1,0\n");
      },
      {"is not UTF-8", "table.csv:1"});
}

TEST_F(CsvLabelsTest, MissingNumbersAreNamed) {
  options_.task = "regression";
  for (const char* mark : {"NA", "?", "none", "-", "nan"}) {
    expect_bad_labels({"1.5", mark},
                      {"'" + std::string(mark) + "' is not a number", "table.csv:3, column 'label'",
                       "fill it in or remove the row"});
  }
}

}  // namespace
}  // namespace hanse
