// Tables as people have them: missing values, categories, truths, dates, and all faults at once.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/comm/agreement.hpp"
#include "hanse/data/federation.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

class TablesTest : public testing::Test {
 protected:
  using Rows = std::vector<std::vector<float>>;

  TablesTest() {
    data_.kind = "csv";
    data_.test_fraction = 0;
    data_.client_column = "site";
  }

  Federation load(const std::string& content) {
    data_.path = folder_.write("table.csv", content);
    testing::internal::CaptureStderr();
    try {
      Federation found = Federation::load(data_, options_, 1, *alone_);
      said_ = testing::internal::GetCapturedStderr();
      return found;
    } catch (...) {
      said_ = testing::internal::GetCapturedStderr();
      throw;
    }
  }

  // The features of all samples, in the order of the clients.
  Rows read(const std::string& content) {
    const Federation found = load(content);
    Rows rows;
    for (int64_t i = 0; i < found.samples(); ++i) {
      rows.emplace_back(to_index(found.sample_values()));
      found.copy({i, i + 1}, rows.back().data());
    }
    return rows;
  }

  void expect_bad(const std::string& content, std::initializer_list<std::string> parts) {
    expect_error<AgreedError>([&] { load(content); }, parts);
  }

  void expect_said(const std::string& part) {
    EXPECT_NE(said_.find(part), std::string::npos) << said_;
  }

  TempFolder folder_;
  DataOptions data_;
  FederationOptions options_{.partition = "by-column"};
  std::unique_ptr<Communicator> alone_ = make_single_communicator();
  std::string said_;  // on stderr
};

// ---- places in the source

TEST_F(TablesTest, SamplesKeepTheirPlacesInTheTable) {
  std::string text = "site,x,label\n";
  for (int i = 0; i < 30; ++i) {  // x is the place; rows 4, 14 and 24 are left out, and class 2
    text += fmt::format("{},{},{}\n", i % 3 == 0 ? "b" : "a", i % 10 == 4 ? "" : std::to_string(i),
                        i % 7 == 6 ? 2 : i % 2);
  }
  data_.missing = MissingValues::kDrop;
  data_.labels = {1, 0};
  data_.test_fraction = 0.3;
  data_.validation_fraction = 0.2;
  const uint64_t digest = load(text).digest();
  data_.rows = true;
  options_.held_out = HeldOut::parse("a");
  const Federation found = load(text);
  options_.held_out = {};
  EXPECT_EQ(load(text).digest(), digest);  // places change no data
  ASSERT_EQ(found.samples(), 23);
  for (int64_t i = 0; i < found.samples(); ++i) {
    float x = 0;
    found.copy({i, i + 1}, &x);
    EXPECT_EQ(row_of(found, i), static_cast<int64_t>(x));
  }
  data_.rows = false;
  EXPECT_EQ(row_of(load(text), 5), 5);
}

// ---- faults

TEST_F(TablesTest, AllFaultsAreToldAtOnceByLine) {
  expect_bad("site,x,y,label\na,1,,0\nb,oops,?,1\na,3,4,\nb,5\n\na,6,7,1\n",
             {"6 faults, all told above; the first: the cell is empty", ":2, column 'y'"});
  const char* lines[] = {":2, column 'y'",     ":3, column 'x'", ":3, column 'y'",
                         ":4, column 'label'", ":5, column 'y'", ":6"};
  std::size_t at = 0;
  for (const char* line : lines) {
    const std::size_t found = said_.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << " in " << said_;
    at = found;
  }
}

TEST_F(TablesTest, TwentyFaultsAreShown) {
  std::string table = "site,x,label\na,1,0\n";
  for (int i = 0; i < 25; ++i) table += "a,oops,0\n";
  expect_bad(table, {"25 faults, 20 of them told above", "'oops' is not a number"});
  EXPECT_EQ(std::count(said_.begin(), said_.end(), '\n'), 20);
  expect_said(":22, column 'x'");
  EXPECT_EQ(said_.find(":23, column"), std::string::npos);
}

TEST_F(TablesTest, AColumnOfDatesOrTextsIsOneFault) {
  expect_bad("site,day,sex,x,label\na,2024-01-31,f,1,0\nb,2024-02-01,m,,1\nb,2024-02-03,m,2,1\n",
             {"3 faults, all told above", "not a number but a date", ":2, column 'day'"});
  expect_said(":2, column 'sex'");
  expect_said(":3, column 'x'");
}

TEST_F(TablesTest, AnEncodingIsOneFaultOfTheFile) {
  expect_bad("site,x,label\nK\xF6ln,1,0\nK\xF6ln,2,0\nZ\xFCrich,3,1\n",
             {"'K\\xF6ln' is not UTF-8", ":2, column 'site'", "iconv"});
  EXPECT_EQ(said_, "");
  expect_bad("site,x,label\nK\xF6ln,1,0\nK\xF6ln,oops,0\n", {"2 faults", "is not UTF-8"});
}

TEST_F(TablesTest, DatesAreRefusedWithAHint) {
  for (const char* date : {"2024-01-31", "31.01.2024", "1/31/24", "2024-01-31T12:00:05Z",
                           "31-Jan-2024", "12:30", "Jan 31, 2024"}) {
    for (const Categories categories : {Categories::kRefuse, Categories::kOneHot}) {
      data_.categories = categories;
      expect_bad("site,x,label\na,\"" + std::string(date) + "\",0\n",
                 {"is not a number but a date", "column 'x'", "days since", "data.drop-columns"});
    }
  }
}

// ---- truths, and columns left out

TEST_F(TablesTest, TruthsAreNumbers) {
  EXPECT_EQ(read("site,x,label\na,True,0\na,FALSE,1\na,\"true\",0\na,2,1\n"),
            (Rows{{1}, {0}, {1}, {2}}));
  data_.standardize = Standardize::kAll;  // numbers that float32 does not hold are read twice
  const Rows rows = read("site,x,label\na,true,0\na,16777217,1\na,16777219,1\n");
  EXPECT_LT(rows[1][0], rows[2][0]);
}

TEST_F(TablesTest, ColumnsAreLeftOut) {
  data_.drop_columns = "note, when";
  EXPECT_EQ(read("when,site,x,note,label\n2024-01-31,a,1,hello,0\n,a,2,?,1\n"), (Rows{{1}, {2}}));
  data_.drop_columns = "site";
  expect_bad("site,x,label\na,1,0\n",
             {"column 'site' is left out, and is the label or the client"});
  data_.drop_columns = "sight";
  expect_bad("site,x,label\na,1,0\n", {"no column 'sight'", "data.drop-columns"});
}

TEST_F(TablesTest, ALabelMayBeCutInTwo) {
  data_.label_above = 0;
  const Federation found = load("site,x,label\na,1,0\na,2,3\na,3,1.0\na,4,-1\n");
  EXPECT_EQ(std::vector<int32_t>(found.labels().begin(), found.labels().end()),
            (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(found.classes(), 2);
  expect_bad("site,x,label\na,1,ill\n", {"label 'ill' is not a number", ":2, column 'label'"});
  data_.task = "regression";
  expect_bad("site,x,label\na,1,0\n", {"data.label-above"});
}

// ---- missing values

TEST_F(TablesTest, MissingValuesAreRefusedUnlessAskedFor) {
  for (const char* mark : {"", "?", "NA", "\"NA\"", "nan", "-", "unknown"}) {
    expect_bad("site,x,label\na,1,0\na," + std::string(mark) + ",1\n",
               {":3, column 'x'", "data.missing = mean"});
  }
}

TEST_F(TablesTest, MissingValuesBecomeTheMeanOfTrainingSamples) {
  const std::string table = "site,x,y,label\na,1,5,0\na,,6,0\na,3,7,0\nb,8,?,0\nb,unknown,9,0\n";
  data_.missing = MissingValues::kMean;
  EXPECT_EQ(read(table), (Rows{{1, 5}, {4, 6}, {3, 7}, {8, 6.75F}, {4, 9}}));
  expect_said("column 'x': 2 values are missing: 4, the mean of the samples that are trained on");
  expect_said("column 'y': 1 value is missing: 6.75, the mean");
  data_.missing = MissingValues::kMedian;
  EXPECT_EQ(read(table), (Rows{{1, 5}, {3, 6}, {3, 7}, {8, 6.5F}, {3, 9}}));
  expect_said("column 'x': 2 values are missing: 3, the median");
}

TEST_F(TablesTest, EachClientFillsWithItsOwnMeanWhereItStandardizesItself) {
  data_.missing = MissingValues::kMean;
  data_.standardize = Standardize::kClient;
  // a: 1, 2, 3. b knows no value, and takes all clients' mean.
  const Rows rows = read("site,x,y,label\na,1,1,0\na,,1,0\na,3,1,0\nb,,2,0\nb,,4,0\n");
  EXPECT_EQ(rows[1][0], 0);
  EXPECT_LT(rows[0][0], -1);
  EXPECT_EQ(rows[3][0], 0);
  expect_said("column 'x': 3 values are missing: 2 to 2, the clients' means");
}

TEST_F(TablesTest, SamplesForTestsAndClientsHeldOutAreNotLookedAt) {
  data_.missing = MissingValues::kMean;
  data_.test_fraction = 1;
  options_.held_out = HeldOut::parse("b");
  std::string table = "site,x,label\n";
  for (int i = 0; i < 6; ++i) table += fmt::format("a,{},0\n", 1 << i);
  table += "a,,0\nb,1000,0\nb,2000,0\nb,,0\n";
  const Federation found = load(table);
  const SampleRange train = found.train(0);
  double sum = 0, known = 0;
  float filled = 0, value = 0;
  for (int64_t i = 0; i < found.samples(); ++i) {
    found.copy({i, i + 1}, &value);
    const bool is_read =
        value >= 1000 || (value == std::floor(value) && value <= 32 &&
                          (static_cast<int>(value) & (static_cast<int>(value) - 1)) == 0);
    if (!is_read) filled = value;
    if (!is_read || i < train.begin || i >= train.end) continue;
    sum += static_cast<double>(value);
    ++known;
  }
  EXPECT_EQ(filled, static_cast<float>(sum / known));
}

TEST_F(TablesTest, AMissingValueIsACategoryOfItsOwn) {
  data_.missing = MissingValues::kCategory;
  data_.categories = Categories::kOneHot;
  // A number becomes the mean and a mark; a category has a column more.
  EXPECT_EQ(read("site,x,sex,z,label\na,1,f,5,0\na,,m,6,0\na,3,?,7,0\n"),
            (Rows{{1, 0, 1, 0, 0, 5}, {2, 1, 0, 1, 0, 6}, {3, 0, 0, 0, 1, 7}}));
  expect_said("column 'sex': 2 categories: f, m; 1 value is missing: a category of their own");
}

TEST_F(TablesTest, RowsThatMissAValueAreLeftOut) {
  data_.missing = MissingValues::kDrop;
  const Federation found = load("site,x,y,label\na,1,?,0\nb,2,3,1\nb,4,5,0\nc,6,,1\n");
  EXPECT_EQ(found.samples(), 2);
  EXPECT_EQ(found.clients(), 1);
  EXPECT_EQ(found.names().clients.at(0), "b");
  expect_said("2 of 4 rows miss a value, and are left out, and with them 2 clients: a, c");
  options_.held_out = HeldOut::parse("c");
  expect_bad("site,x,y,label\na,1,2,0\nb,2,3,1\nb,4,5,0\nc,6,,1\n",
             {"no sample of the client 'c' is left", "federation.held-out", "data.missing = drop"});
  options_.held_out = HeldOut::parse("d");
  expect_bad("site,x,y,label\na,1,2,0\nb,2,3,1\nb,4,5,0\nc,6,,1\n", {"no client is called 'd'"});
  options_.held_out = {};
  expect_bad("site,x,label\na,?,0\n", {"every row misses a value"});
}

TEST_F(TablesTest, AColumnWithoutAnyValueIsRefused) {
  data_.missing = MissingValues::kMean;
  expect_bad("site,x,y,label\na,1,,0\nb,2,,1\n",
             {"column 'y' has no value in any sample that is trained on", "data.drop-columns = y"});
}

TEST_F(TablesTest, LargeNumbersAreFilledBeforeTheyAreRounded) {
  data_.missing = MissingValues::kMean;
  data_.standardize = Standardize::kAll;
  const Rows rows = read("site,t,label\na,1700000000,0\na,?,0\na,1700000002,0\n");
  EXPECT_EQ(rows[1][0], 0);
  EXPECT_EQ(rows[0][0], -rows[2][0]);
  EXPECT_LT(rows[0][0], 0);
}

// ---- categories

TEST_F(TablesTest, TextIsRefusedUnlessAskedFor) {
  expect_bad("site,x,label\na,red,0\n",
             {"'red' is not a number", "data.categories = one-hot takes text, too"});
}

TEST_F(TablesTest, EachTextIsAColumn) {
  data_.categories = Categories::kOneHot;
  EXPECT_EQ(read("site,colour,x,label\na,red,7,0\nb, blue ,8,1\nb,red,9,0\n"),
            (Rows{{0, 1, 7}, {1, 0, 8}, {0, 1, 9}}));
  expect_said("column 'colour': 2 categories: blue, red");
}

TEST_F(TablesTest, NumbersAreCategoriesWhereTheColumnIsNamed) {
  data_.category_columns = "cp";
  EXPECT_EQ(read("site,cp,label\na,10,0\na,2.0,0\na,2,0\na,3+,0\n"),
            (Rows{{0, 1, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 1}}));
  expect_said("column 'cp': 3 categories: 2, 10, 3+");
  data_.category_columns = "label";
  expect_bad("site,cp,label\na,10,0\n", {"column 'label' is no feature"});
}

TEST_F(TablesTest, AMixtureOfNumbersAndTextIsAMistake) {
  data_.categories = Categories::kOneHot;
  expect_bad("site,x,label\na,1,0\na,1O,0\n",
             {"'1O' is not a number, and 1 above it is", "data.category-columns = x"});
  expect_bad("site,x,label\na,red,0\na,1,0\n",
             {"'1' is a number, and 'red' above is none", "data.category-columns = x"});
}

// Whatever stands first: the texts are few, and one line tells them.
TEST_F(TablesTest, ValuesBelowALimitOfDetection) {
  const std::string head = "site,x,label\n", text = "a,<0.01,0\n",
                    numbers = "a,5,0\na,6,1\na,7,0\n";
  const std::string hint = "half of the limit for example, or leave the cells empty";
  for (const auto categories : {Categories::kRefuse, Categories::kOneHot}) {
    data_.categories = categories;
    expect_bad(head + numbers + text + text, {"'<0.01' is not a number", ":5, column 'x'", hint});
    EXPECT_EQ(said_, "");
  }
  expect_bad(head + text + text + numbers, {"'<0.01' is not a number, and 3 of the column are",
                                            ":2, column 'x'", hint, "data.category-columns = x"});
  EXPECT_EQ(said_, "");  // one fault
}

// Decimal commas, units and the like in all texts: numbers in another spelling.
TEST_F(TablesTest, NumbersInAnotherSpellingAreNoCategories) {
  data_.categories = Categories::kOneHot;
  const std::pair<const char*, const char*> kCases[] = {
      {"\"95,5\"", "a number has a decimal point and no comma: 95.5"},
      {"\"1,234\"", "no comma: 1.234, or without the comma where it parts thousands"},
      {"\"1.234,5\"", "1234.5"},
      {"80 kg", "write the number alone: 80"},
      {"80kg", "write the number alone: 80"},
      {"\"7,5 mg/l\"", "write the number alone: 7.5"},
      {"45 %", "write the number alone: 45"},
      {"$1250", "write the number alone: 1250"},
      {"20 \u20AC", "write the number alone: 20"},
      {"1'234", "is none of a number: write 1234"},
      {"1 234 567", "1234567"},
      {"\u22125", "-5"}};
  for (const auto& [text, hint] : kCases) {
    const std::string row = "a," + std::string(text) + ",0\n";
    expect_bad("site,x,label\na,,0\n" + row + row, {"2 faults"});  // the empty cell
    expect_bad("site,x,label\n" + row + row,
               {"is a number in another spelling", ":2, column 'x'", hint,
                "data.category-columns = x makes all of them categories"});
  }
  data_.category_columns = "x";
  EXPECT_EQ(read("site,x,label\na,\"95,5\",0\na,\"1,5\",0\n"), (Rows{{0, 1}, {1, 0}}));
}

// Texts with digits that are categories.
TEST_F(TablesTest, CategoriesMayHaveNumbers) {
  data_.categories = Categories::kOneHot;
  for (const auto& [one, other] :
       std::vector<std::pair<std::string, std::string>>{{"1st", "2nd"},
                                                        {"18-25", "26-40"},
                                                        {"<50", ">=50"},
                                                        {"T1", "T2"},
                                                        {"10+", "20+"},
                                                        {"120/80", "140/90"},
                                                        {"1 yes", "2 no"},
                                                        {"2 of 3", "1 of 3"},
                                                        {"8 kg", "heavy"},
                                                        {"1.2.3", "1.2.4"},
                                                        {"\"1,2,3\"", "\"1,2\""},
                                                        {"12 34", "56 78"}}) {
    EXPECT_EQ(read("site,x,label\na," + one + ",0\na," + other + ",1\n")[0].size(), 2U) << one;
  }
}

// 20 levels, more than half of the rows: names of rows.
TEST_F(TablesTest, ATextForMostRowsIsNoCategory) {
  data_.categories = Categories::kOneHot;
  const auto table = [](int levels, int rows) {
    std::string text = "site,id,label\n";
    for (int i = 0; i < rows; ++i) text += fmt::format("a,p{},0\n", i % levels);
    return text;
  };
  EXPECT_EQ(read(table(19, 19)).size(), 19U);
  EXPECT_EQ(read(table(20, 40)).size(), 40U);
  expect_bad(table(20, 39), {"20 different texts in 39 rows, 'p0' the first, name rows",
                             ":2, column 'id'", "data.drop-columns = id leaves the column out"});
  data_.category_columns = "id";
  EXPECT_EQ(read(table(30, 30)).size(), 30U);
}

TEST_F(TablesTest, ANumberBelowATextThatIsNoNameIsNotComparedWithIt) {
  data_.categories = Categories::kOneHot;
  expect_bad("site,x,label\na,r\xF6t,0\na,3e-2,0\n", {"is not UTF-8", ":2, column 'x'"});
}

TEST_F(TablesTest, AMissingValueAboveTextIsNoNumber) {
  data_.categories = Categories::kOneHot;
  expect_bad("site,x,label\na,?,0\na,red,0\n", {"'?' is not a number", ":2, column 'x'"});
  EXPECT_EQ(said_, "");  // the only fault
}

TEST_F(TablesTest, UnknownIsACategoryAmongTexts) {
  data_.categories = Categories::kOneHot;
  data_.missing = MissingValues::kMean;
  EXPECT_EQ(read("site,x,y,label\na,unknown,1,0\na,red,-,0\n"), (Rows{{0, 1, 1}, {1, 0, 1}}));
  expect_said("'unknown' names a category as any text does");
}

TEST_F(TablesTest, CategoriesAreThoseOfClientsInTraining) {
  data_.categories = Categories::kOneHot;
  options_.held_out = HeldOut::parse("b");
  EXPECT_EQ(read("site,x,label\nb,blue,0\na,red,0\na,green,1\nb,red,1\n"),
            (Rows{{0, 0}, {0, 1}, {0, 1}, {1, 0}}));
  expect_said("2 categories: green, red; 1 sample has one that no client in training has");
}

TEST_F(TablesTest, MissingCategoriesBecomeSharesOrTheMostFrequent) {
  data_.categories = Categories::kOneHot;
  data_.missing = MissingValues::kMean;
  const std::string table = "site,x,label\na,r,0\na,g,0\na,r,0\na,r,0\na,,0\n";
  EXPECT_EQ(read(table).back(), (std::vector<float>{0.25F, 0.75F}));
  data_.missing = MissingValues::kMedian;
  EXPECT_EQ(read(table).back(), (std::vector<float>{0, 1}));
}

TEST_F(TablesTest, NamesOfSamplesAreNoCategories) {
  data_.categories = Categories::kOneHot;
  std::string table = "site,id,label\n";
  for (int i = 0; i < 1001; ++i) table += fmt::format("a,p{},0\n", i);
  expect_bad(table, {"more than 1000 categories", ":1002", "data.drop-columns = id"});
  data_.shape = {1, 1, 1};
  expect_bad("site,x,label\na,r,0\na,g,0\n", {"a shape holds no columns of categories"});
}

}  // namespace
}  // namespace hanse
