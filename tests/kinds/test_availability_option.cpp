// sampler.availability: every form it has, and where a schedule is wrong.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/kinds/samplers.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

Ids sorted_changes(const Availability& availability, int64_t round) {
  Ids changed = availability(round, 1);
  std::sort(changed.begin(), changed.end());
  return changed;
}

struct Schedule {
  explicit Schedule(const std::string& text) : path(folder / "who.csv") {
    std::ofstream(path, std::ios::binary) << text;
  }
  ScratchFolder folder;
  std::string path;
};

TEST(AvailabilityOption, EveryFormMakesItsAvailability) {
  EXPECT_FALSE(make_availability("always", 5));
  EXPECT_EQ(sorted_changes(make_availability("1", 5), 1), Ids());
  EXPECT_EQ(make_availability("0.25", 300)(9, 4), make_independent_availability(300, 0.25)(9, 4));
  const auto single = make_availability("blocks(2)", 5);  // [0, 2), [2, 5), a round each
  EXPECT_EQ(sorted_changes(single, 1), (Ids{2, 3, 4}));
  EXPECT_EQ(sorted_changes(single, 2), (Ids{0, 1, 2, 3, 4}));
  const auto longer = make_availability("blocks( 2 , 3 )", 5);
  EXPECT_EQ(sorted_changes(longer, 3), (Ids{2, 3, 4}));
  EXPECT_EQ(sorted_changes(longer, 4), (Ids{0, 1, 2, 3, 4}));
}

TEST(AvailabilityOption, ReadsASchedule) {
  const Schedule schedule("client,first round,last round\n# a comment\n2, 2 ,3\n\n0,1,4\r\n2,5,5");
  check_availability(schedule.path);
  const auto availability = make_availability(schedule.path, 3);
  const std::vector<Ids> changes{{2}, {2}, {}, {2}, {0, 2}, {2}};
  for (std::size_t round = 1; round <= changes.size(); ++round) {
    EXPECT_EQ(sorted_changes(availability, static_cast<int64_t>(round)), changes[round - 1])
        << round;
  }
  const Schedule empty("# nobody is named\n");
  EXPECT_EQ(sorted_changes(make_availability(empty.path, 3), 1), Ids());
}

TEST(AvailabilityOption, NamesFileAndLineOfABadSchedule) {
  const auto refused = [](const std::string& line, std::initializer_list<std::string> parts) {
    const Schedule schedule("client,first,last\n0,1,2\n" + line + "\n1,1,1\n");
    const auto message = message_of<InvalidArgument>([&] { make_availability(schedule.path, 3); });
    expect_parts(message, parts);
    expect_parts(message, {schedule.path + ":3"});
  };
  refused("1,2", {"'1,2' is not three whole numbers", "client,first round,last round"});
  refused("1,2,3,4", {"three whole numbers"});
  refused("1,2,x", {"three whole numbers"});
  refused("1,2.5,3", {"three whole numbers"});
  refused("one,2,3", {"three whole numbers"});
  refused("client,first,last", {"three whole numbers"});  // a header stands on the first line
  refused("3,1,2", {"client 3 is outside [0, 3)"});
  refused("-1,1,2", {"client -1 is outside [0, 3)"});
  refused("1,0,2", {"rounds 0 to 2", "count from 1"});
  refused("1,3,2", {"rounds 3 to 2"});
}

TEST(AvailabilityOption, RefusesWhatItDoesNotKnow) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    const auto message = message_of<InvalidArgument>([&] { check_availability(text); });
    expect_parts(message, parts);
    expect_parts(message, {"sampler.availability", "always", "blocks(n, rounds)"});
  };
  refused("", {"''"});
  refused("sometimes", {"'sometimes'"});
  refused("/no/such.csv", {"'/no/such.csv'"});
  refused("/tmp", {"'/tmp'"});
  refused("0", {"0 is not in (0, 1]"});
  refused("1.5", {"1.5 is not in (0, 1]"});
  refused("-0.5", {"-0.5 is not in (0, 1]"});
  refused("nan", {"'nan'"});
  refused("blocks(2", {"'blocks(2'"});
  for (const char* text : {"blocks()", "blocks(0)", "blocks(2,0)", "blocks(1,2,3)", "blocks(x)",
                           "blocks(1.5)", "blocks(-1)"}) {
    refused(text, {text, "whole numbers of at least 1"});
  }
  expect_error<InvalidArgument>([] { make_availability("blocks(6)", 5); },
                                {"6 blocks of 5 clients", "sampler.availability"});
  expect_error<InvalidArgument>([] { make_availability("/no/such.csv", 5); },
                                {"cannot read", "/no/such.csv"});
}

}  // namespace
}  // namespace hanse
