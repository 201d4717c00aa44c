#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/base/digest.hpp"
#include "hanse/cli/program.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "hanse/config.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/run/catalog.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ListText, MentionsEveryOptionWithDefaultRangeAndHelp) {
  const std::string text = list_text("");
  const KeyedJob job(catalog());
  for (const Option& option : job.table.options()) {
    const std::string value = option.default_text.empty() ? "(empty)" : option.default_text;
    const std::string range = option.range.empty() ? "" : "  " + option.range;
    EXPECT_TRUE(has(text, "    " + option.key + " = " + value + range + "\n        " + option.help))
        << option.key;
  }
}

TEST(ListText, MentionsEveryNameOfEveryFamily) {
  const std::string all = list_text("");
  for (const KindFamily& family : catalog()) {
    const std::string section = family.key.substr(0, family.key.find('.'));
    const std::string own = list_text(family.name);
    EXPECT_TRUE(has(list_text(section), own));
    EXPECT_TRUE(has(all, own));
    for (const auto& entry : family.rows) {
      EXPECT_TRUE(has(own, "  " + entry.name)) << entry.name;
      EXPECT_TRUE(has(own, entry.summary)) << entry.name;
    }
  }
  EXPECT_TRUE(has(list_text("comm"), "comm.reduction"));
  EXPECT_FALSE(has(list_text("comm"), "client.lr"));
}

TEST(ListText, NamesTheNearestKind) {
  expect_error<InvalidArgument>([] { list_text("sampler s"); },
                                {"unknown kind 'sampler s'", "did you mean 'samplers'", "models"});
}

// An entry of its own for every key; a kind's name stands in bold.
TEST(ManualPage, HasEveryKeyAndKind) {
  const std::string page = manual_page();
  const auto dashed = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2) {
      text.insert(at, "\\");
    }
    return text;
  };
  const KeyedJob job(catalog());
  for (const Option& option : job.table.options()) {
    EXPECT_TRUE(has(page, "\n.B " + dashed(option.key) + "=")) << option.key;
  }
  for (const KindFamily& family : catalog()) {
    for (const auto& row : family.rows) {
      EXPECT_TRUE(has(page, "\n.B " + dashed(row.name) + "\n")) << row.name;
    }
  }
  EXPECT_EQ(page.find("\n-"), std::string::npos);
}

TEST(UsageText, HasEveryCommandAndStatus) {
  const std::string text = usage_text();
  for (const Verb& verb : kVerbs) {
    EXPECT_TRUE(has(text, fmt::format("\n  hanse {} ", verb.name))) << verb.name;
  }
  for (const char* status : {"0 done", "1 failed", "2 bad", "75 stopped"}) {
    EXPECT_TRUE(has(text, status)) << status;
  }
}

TEST(VersionText, NamesTheLibraries) {
  const std::string text =
      version_text({.program = "a build, in /b", .mpi_library = "/l/libmpi.so.40 (named)"});
  for (const auto& [name, version] : {std::pair<const char*, std::string>{"hanse", kVersion},
                                      {"mpi", MpiEnvironment::library_version()},
                                      {"libtorch", torch_library().version()},
                                      {"hdf5", kHdf5Version},
                                      {"program", "a build, in /b"},
                                      {"mpi from", "/l/libmpi.so.40 (named)"}}) {
    EXPECT_FALSE(version.empty()) << name;
    EXPECT_TRUE(has(text, fmt::format("{:<9} {}\n", name, version))) << text;
  }
}

// What the program prints and returns.
struct Printed {
  std::string out;
  std::string err;
  ExitStatus status;
};

Printed execute(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const ExitStatus status = execute_command(arguments, {});
  return {testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr(), status};
}

TEST(ExecuteCommand, TextsGoToStdoutWithoutMpi) {
  const Printed help = execute({"--help"});
  EXPECT_EQ(help.out, usage_text());
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(help.status, ExitStatus::kDone);
  EXPECT_EQ(execute({"--version"}).out, version_text({}));
  EXPECT_EQ(execute({"list", "samplers"}).out, list_text("samplers"));
}

TEST(ExecuteCommand, ErrorsAreOneLineAndStatusTwo) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"rum"},
                                                    {"run"},
                                                    {"run", "/no/such.cfg"},
                                                    {"list", "x"},
                                                    {"inspect", "/no/such.h5"},
                                                    {"replay", "/no/such.json"},
                                                    {"resume", "/no/such"},
                                                    {"plan", "/no/such.cfg"}}) {
    const Printed printed = execute(arguments);
    EXPECT_EQ(printed.out, "");
    EXPECT_EQ(printed.status, ExitStatus::kBadInput) << arguments.front();
    EXPECT_EQ(printed.err.find("hanse: error: "), 0U) << printed.err;
    EXPECT_EQ(printed.err.find('\n'), printed.err.size() - 1) << printed.err;
  }
}

}  // namespace
}  // namespace hanse
