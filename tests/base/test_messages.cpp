#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/progress.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

TEST(Error, IsOneLineOfWhatWhereAndHint) {
  EXPECT_STREQ(InvalidArgument("bad", "job.cfg:3", "try x").what(), "bad (job.cfg:3); hint: try x");
  EXPECT_STREQ(InvalidArgument("bad").what(), "bad");
  EXPECT_STREQ(IoError("bad", "", "try x").what(), "bad; hint: try x");
  EXPECT_STREQ(IoError("bad\nworse\r", "a\nb", "").what(), "bad worse  (a b)");
  EXPECT_STREQ(TrainingError("NaN", 7, 3, "smaller").what(),
               "NaN (client 7, round 3); hint: smaller");
  EXPECT_STREQ(CommError("gone", 2, 15).what(), "gone (rank 2, code 15)");
}

TEST(NumberText, IsShortAndASignlessNan) {
  EXPECT_EQ(number_text(0.25), "0.25");
  EXPECT_EQ(number_text(-1.0 / 3), "-0.333333");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  for (const double sign : {1.0, -1.0}) {
    EXPECT_EQ(number_text(std::copysign(std::numeric_limits<double>::quiet_NaN(), sign)), "nan");
  }
}

TEST(Error, KnowsItsExitStatus) {
  EXPECT_EQ(InvalidArgument("x").exit_status(), ExitStatus::kBadInput);
  EXPECT_EQ(NotCompiled("CUDA", "x").exit_status(), ExitStatus::kBadInput);
  EXPECT_EQ(IoError("x").exit_status(), ExitStatus::kFailed);
  EXPECT_EQ(CommError("x", 0, 0).exit_status(), ExitStatus::kFailed);
  EXPECT_EQ(TrainingError("x", 0, 1).exit_status(), ExitStatus::kFailed);
  EXPECT_STREQ(TrainingError("NaN", 7, 3, "smaller").called("client 'Zug'").what(),
               "NaN (client 'Zug', round 3); hint: smaller");
  EXPECT_EQ(AgreedError("x", ExitStatus::kStopped).exit_status(), ExitStatus::kStopped);
  EXPECT_EQ(static_cast<int>(ExitStatus::kDone), 0);
  EXPECT_EQ(static_cast<int>(ExitStatus::kFailed), 1);
  EXPECT_EQ(static_cast<int>(ExitStatus::kBadInput), 2);
  EXPECT_EQ(static_cast<int>(ExitStatus::kStopped), 75);
}

TEST(Log, OneRankSpeaksButAnyReportsErrors) {
  testing::internal::CaptureStderr();
  notice("one");
  warning("two");
  set_speaker(false);
  notice("three");
  warning("four");
  report_error("five");
  set_speaker(true);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "hanse: one\nhanse: warning: two\nhanse: error: five\n");
}

TEST(DurationText, RoundsToTheUnitsShown) {
  EXPECT_EQ(duration_text(0), "0.0 s");
  EXPECT_EQ(duration_text(1.24), "1.2 s");
  EXPECT_EQ(duration_text(9.94), "9.9 s");
  EXPECT_EQ(duration_text(9.96), "10 s");
  EXPECT_EQ(duration_text(42.4), "42 s");
  EXPECT_EQ(duration_text(59.7), "1 min 0 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(3599.7), "1 h 0 min");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "unknown");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::quiet_NaN()), "unknown");
}

// What `use(progress)` writes to a file.
template <class Use>
std::string printed(bool enabled, Use use) {
  std::FILE* file = std::tmpfile();
  {
    Progress progress(file, 10, enabled);
    use(progress);
  }
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Progress, PrintsTheLastStatusAndKeepsQuietBeforeItsTime) {
  ProgressStatus status{.round = 20, .rounds = 40, .loss = 0.25, .accuracy = 0.5, .evaluated = 20};
  const auto text_of = [&] {
    return printed(true, [&](Progress& progress) {
      progress.update(status);
      progress.finish(status);
    });
  };
  const std::string text = text_of();
  EXPECT_EQ(text.find("round 20/40  loss 0.2500  accuracy 50.00%  "), 0U) << text;
  EXPECT_NE(text.find(" rounds/s\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  status.evaluated = 15;
  EXPECT_EQ(text_of().find("round 20/40  loss 0.2500  accuracy 50.00% of round 15  "), 0U);
}

TEST(Progress, LeavesOutWhatIsNotKnownAndPrintsNothingWhenDisabled) {
  const auto finish = [](Progress& progress) { progress.finish({.round = 11, .rounds = 12}); };
  EXPECT_EQ(printed(true, finish).find("accuracy"), std::string::npos);
  EXPECT_EQ(printed(false, finish), "");
}

// The hint says what there is in its place, and the others are not listed.
TEST(OptionTable, AFormerChoiceHasAHintOfItsOwn) {
  std::string kind = "graph";
  OptionTable table;
  table.add_choice("model.kind", kind, {"mlp", "graph"}, "network").former = {
      {"script", "export it as a graph"}};
  expect_error<InvalidArgument>(
      [&] { table.set("model.kind", "script", "job.cfg:3"); },
      {"model.kind: unknown value 'script'", "job.cfg:3", "hint: export it as a graph"});
  expect_error<InvalidArgument>([&] { table.set("model.kind", "scrip", ""); },
                                {"known: mlp, graph"});
  EXPECT_EQ(kind, "graph");
}

}  // namespace
}  // namespace hanse
