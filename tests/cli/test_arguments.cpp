#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/cli/program.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Words = std::vector<std::string>;

TEST(ParseCommand, VerbsWithTheirWords) {
  for (const char* verb : {"run", "resume", "plan", "check", "replay", "inspect"}) {
    const Command command = parse_command({verb, "target"});
    EXPECT_EQ(command.verb, verb);
    EXPECT_EQ(command.words, Words{"target"});
    EXPECT_TRUE(command.overrides.empty());
    EXPECT_EQ(command.plan.ranks, 0);
  }
  EXPECT_EQ(parse_command({"list"}).words, Words{});
  EXPECT_EQ(parse_command({"list", "samplers"}).words, Words{"samplers"});
}

TEST(ParseCommand, OptionsInOrderAndAnywhere) {
  const Command command = parse_command({"--run.rounds=3", "run", "--client.lr", "0.5", "job.cfg",
                                         "--run.rounds=4", "--run.out=a=b c"});
  EXPECT_EQ(command.verb, "run");
  EXPECT_EQ(command.words, Words{"job.cfg"});
  EXPECT_EQ(
      command.overrides,
      (Overrides{
          {"run.rounds", "3"}, {"client.lr", "0.5"}, {"run.rounds", "4"}, {"run.out", "a=b c"}}));
}

TEST(ParseCommand, AnEmptyValueEmptiesAnOption) {
  const Command command = parse_command({"run", "job.cfg", "--data.label-column=", "--run.name=a"});
  EXPECT_EQ(command.overrides, (Overrides{{"data.label-column", ""}, {"run.name", "a"}}));
  expect_error<InvalidArgument>(
      [] {
        parse_command({"plan", "job.cfg", "--ranks="});
      },
      {"--ranks", "'' is not an integer"});
}

TEST(ParseCommand, HelpAndVersion) {
  for (const Words& words : {Words{}, Words{"--help"}, Words{"-h"}, Words{"help"},
                             Words{"run", "--help"}, Words{"run", "job.cfg", "-h"}}) {
    EXPECT_EQ(parse_command(words).verb, "help");
  }
  EXPECT_EQ(parse_command({"--version"}).verb, "version");
}

TEST(ParseCommand, CasesOfAPrivacyTable) {
  const PrivacyQuery query = parse_command({"privacy", "job.cfg", "--rounds=10,200", "--per-round",
                                            "5", "--epsilon=0.5,2", "--json", "--bits"})
                                 .privacy;
  EXPECT_EQ(query.rounds, (std::vector<int64_t>{10, 200}));
  EXPECT_EQ(query.per_round, std::vector<int64_t>{5});
  EXPECT_EQ(query.epsilon, (std::vector<double>{0.5, 2}));
  EXPECT_TRUE(query.json);
  EXPECT_TRUE(query.bits);
  for (const char* bad : {"--rounds=0", "--rounds=1,,2", "--per-round=-1", "--epsilon=nan"}) {
    const std::string name = bad;
    expect_error<InvalidArgument>(
        [&] {
          parse_command({"privacy", "job.cfg", bad});
        },
        {name.substr(0, name.find('='))});
  }
  expect_error<InvalidArgument>(
      [] {
        parse_command({"plan", "job.cfg", "--bits"});
      },
      {"only hanse privacy takes this option"});
  // Elsewhere they are keys that somebody has not written out.
  expect_error<InvalidArgument>(
      [] {
        parse_command({"plan", "job.cfg", "--per-round=8"});
      },
      {"'per-round'", "did you mean sampler.per-round?"});
}

TEST(ParseCommand, MachinesOfAPlan) {
  const PlanOptions plan =
      parse_command({"plan", "job.cfg", "--ranks=8", "--hosts", "4", "--cores=0.5",
                     "--link-gbit=2.5", "--latency-us=0", "--json"})
          .plan;
  EXPECT_EQ(plan.ranks, 8);
  EXPECT_EQ(plan.hosts, 4);
  EXPECT_EQ(plan.cores, 0.5);
  EXPECT_EQ(plan.link_gbit, 2.5);
  EXPECT_EQ(plan.latency_us, 0);
  EXPECT_TRUE(plan.json);
  for (const char* bad : {"--ranks=x", "--ranks=0", "--ranks=-2", "--hosts=0", "--cores=0",
                          "--link-gbit=nan", "--latency-us=-1", "--ranks"}) {
    const std::string name = bad;
    expect_error<InvalidArgument>(
        [&] {
          parse_command({"plan", "job.cfg", bad});
        },
        {name.substr(0, name.find('='))});
  }
  for (const char* option : {"--ranks=8", "--cores=2", "--json"}) {
    const std::string name = option;
    expect_error<InvalidArgument>(
        [&] {
          parse_command({"run", "job.cfg", option});
        },
        {name.substr(0, name.find('=')), "only hanse plan"});
  }
}

void expect_refused(const Words& words, std::initializer_list<std::string> parts) {
  expect_error<InvalidArgument>([&] { parse_command(words); }, parts);
}

TEST(ParseCommand, SaysWhatIsMissingOrTooMuch) {
  expect_refused({"run"}, {"hanse run needs a job file", "hint: "});
  expect_refused({"resume"}, {"needs a run directory"});
  expect_refused({"replay"}, {"needs a trace file"});
  expect_refused({"inspect"}, {"needs an HDF5 file"});
  expect_refused({"publish", "run"}, {"needs a run directory and a new folder"});
  expect_refused({"run", "a.cfg", "b.cfg"}, {"unexpected argument 'b.cfg'"});
  expect_refused({"run", "a.cfg", "run.rounds=3"}, {"'run.rounds=3'", "--section.key=value"});
  expect_refused({"list", "a", "b"}, {"unexpected argument 'b'"});
  expect_refused({"run", "a.cfg", "--run.rounds"}, {"run.rounds", "hint: "});
}

TEST(ParseCommand, OptionsOfOneCommand) {
  EXPECT_EQ(parse_command({"replay", "trace.json", "--check"}).flag, "check");
  EXPECT_EQ(parse_command({"replay", "trace.json"}).flag, "");
  expect_refused({"run", "a.cfg", "--check"}, {"only hanse replay", "--check", "run.check-rules"});
  expect_refused({"replay", "trace.json", "--verify"}, {"only hanse inspect", "--verify"});
}

TEST(ParseCommand, NamesTheNearestOfWhatItKnows) {
  expect_refused({"rum", "a.cfg"}, {"unknown command 'rum'", "did you mean 'run'", "inspect"});
  expect_refused({"run", "a.cfg", "--run.round=3"},
                 {"unknown key 'run.round'", "(--run.round)", "did you mean 'run.rounds'"});
  expect_refused({"run", "a.cfg", "--rum.rounds=3"},
                 {"unknown section 'rum'", "did you mean 'run'"});
  expect_refused({"run", "a.cfg", "--rounds", "3"}, {"'rounds'", "did you mean run.rounds?"});
  expect_refused({"run", "a.cfg", "--lr=3"}, {"'lr'", "did you mean client.lr or server.lr"});
  expect_refused({"run", "a.cfg", "--learning-rate=3"}, {"client.lr or server.lr"});
  expect_refused({"run", "a.cfg", "--rank=3"}, {"--rank", "mpirun -n N"});
  expect_refused({"run", "a.cfg", "--sampler.k=full"}, {"unknown key 'sampler.k'"});  // no guessing
  expect_refused({"run", "a.cfg", "-x"}, {"'x'"});
}

TEST(ParseCommand, VerbsWithoutOptionsRefuseThem) {
  for (const char* verb : {"replay", "inspect", "list"}) {
    expect_refused({verb, "x", "--run.rounds=3"}, {verb, "takes no options", "--run.rounds"});
  }
}

}  // namespace
}  // namespace hanse
