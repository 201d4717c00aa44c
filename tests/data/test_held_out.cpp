// Clients held out by number, share or name.
#include <gtest/gtest.h>

#include "hanse/data/federation.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

class HeldOutTest : public testing::Test {
 protected:
  // Four clients: north, 3, each and name:x, with 2 to 5 samples.
  Federation load(const std::string& held_out, const std::string& partition = "by-column") {
    std::string table = "site,x,label\n";
    int samples = 2;
    for (const char* site : {"north", "3", "each", "name:x"}) {
      for (int i = 0; i < samples; ++i) table += std::string(site) + ",1," + "01"[i % 2] + "\n";
      ++samples;
    }
    return Federation::load({.kind = "csv",
                             .path = folder_.write("table.csv", table),
                             .test_fraction = 0,
                             .client_column = "site"},
                            {.clients = 3,
                             .partition = partition,
                             .held_out = HeldOut::parse(held_out),
                             .validation_clients = validation_},
                            1, *alone_);
  }

  std::vector<std::string> names_of(const Federation& federation) {
    std::vector<std::string> names;
    for (int64_t c = 0; c < federation.clients() + federation.held_out(); ++c) {
      names.emplace_back(federation.names().clients.at(c));
    }
    return names;
  }

  using Names = std::vector<std::string>;
  TempFolder folder_;
  HeldOut validation_;
  std::unique_ptr<Communicator> alone_ = make_single_communicator();
};

TEST_F(HeldOutTest, NamesSayWho) {
  const Federation one = load("north");
  EXPECT_EQ(one.clients(), 3);
  EXPECT_EQ(names_of(one), (Names{"3", "each", "name:x", "north"}));
  EXPECT_EQ(one.train(3).size(), 2);
  const Federation some = load("name:3, name:name:x");
  EXPECT_EQ(some.held_out(), 2);
  EXPECT_EQ(names_of(some), (Names{"north", "each", "3", "name:x"}));
  EXPECT_EQ(names_of(load("name:each")).back(), "each");
  EXPECT_EQ(load("1").held_out(), 1);  // a number of clients
  EXPECT_EQ(load("0.5").held_out(), 2);
}

TEST_F(HeldOutTest, NamesAreThoseForValidationToo) {
  validation_ = HeldOut::parse("north");
  const Federation both = load("name:3");
  EXPECT_EQ(both.validation_clients(), 1);
  EXPECT_EQ(names_of(both), (Names{"each", "name:x", "north", "3"}));
  expect_error<AgreedError>([&] { load("north"); },
                            {"no client is called 'north'", "validation-clients"});
}

TEST_F(HeldOutTest, ClientsWithoutNamesHaveNumbers) {
  const Federation last = load("name:1", "iid");
  EXPECT_EQ(last.held_out(), 1);
  expect_error<AgreedError>([&] { load("name:3", "iid"); },
                            {"no client is called '3'", "known: 0, 1, 2"});
}

TEST_F(HeldOutTest, NamesWithCommasStandInQuotes) {
  const std::string table =
      "site,x,label\n\"St. Mary's, London\",1,0\nnorth,1,1\n\"a \"\"b\"\"\",2,0\n";
  const auto load = [&](const std::string& held_out) {
    return Federation::load({.kind = "csv",
                             .path = folder_.write("commas.csv", table),
                             .test_fraction = 0,
                             .client_column = "site"},
                            {.partition = "by-column", .held_out = HeldOut::parse(held_out)}, 1,
                            *alone_);
  };
  EXPECT_EQ(names_of(load("\"St. Mary's, London\"")).back(), "St. Mary's, London");
  EXPECT_EQ(load("north, \"St. Mary's, London\"").held_out(), 2);
  EXPECT_EQ(names_of(load("\"a \"\"b\"\"\"")).back(), "a \"b\"");
  expect_error<AgreedError>([&] { load("St. Mary's, London"); },
                            {"no client is called 'St. Mary's'",
                             "a name with a comma stands in quotes: \"St. Mary's, "
                             "London\""});
  for (const char* text : {"\"a, b\",north", "north,\" b\"", "\"a \"\"b\"\"\"", "name:3,north"}) {
    EXPECT_EQ(HeldOut::parse(HeldOut::parse(text).text()).names, HeldOut::parse(text).names);
    EXPECT_EQ(HeldOut::parse(text).text(), text);
  }
  for (const char* text : {"\"open", "\"a\" b", "\"\"", "north,", "a,,b"}) {
    EXPECT_THROW(HeldOut::parse(text), InvalidArgument) << text;
  }
}

TEST_F(HeldOutTest, NamesThatAreNotThereAreRefused) {
  expect_error<AgreedError>(
      [&] { load("nord"); },
      {"no client is called 'nord'", "federation.held-out", "did you mean 'north'?"});
  expect_error<AgreedError>([&] { load("north,name:3,name:each,name:name:x"); },
                            {"holding 4 of 4 clients out leaves nobody to train"});
}

TEST(HeldOut, NumbersAreNoNames) {
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{{"north,3", "written name:3"},
                                                        {"-1", "not in [0, inf)"},
                                                        {"each", "scripts/sweep"},
                                                        {"name:", "a name is empty"}}) {
    try {
      HeldOut::parse(text);
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(HeldOut, ItsTextIsReadAgain) {
  for (const char* text : {"0", "0.25", "7", "north", "a b,name:3,name:each,name:name:x"}) {
    EXPECT_EQ(HeldOut::parse(text).text(), text);
  }
}

}  // namespace
}  // namespace hanse
