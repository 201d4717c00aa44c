#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/store/run_directory.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

namespace fs = std::filesystem;

const std::string kHeader =
    "round,clients,seconds,seconds_train,seconds_comm,seconds_wait,bytes_sent,loss,mixed_loss,"
    "seconds_evaluate\n";

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

RoundRecord record(int64_t round, double seconds) {
  return {.round = round,
          .participants = 3,
          .seconds = seconds,
          .train_s = 0.25,
          .comm_s = 0.125,
          .wait_s = 0,
          .bytes_sent = 100 * round,
          .loss = 1.0 / 3.0,
          .mixed_loss = 0.5,
          .evaluate_s = 0.75};
}

std::string line(int64_t round, const std::string& seconds) {
  return std::to_string(round) + ",3," + seconds + ",0.25,0.125,0," + std::to_string(100 * round) +
         ",0.333333333,0.5,0.75\n";
}

// A directory after `rounds` rounds that took 1, 2, 3, ... seconds.
RunDirectory made(const std::string& path, int64_t rounds) {
  auto directory = RunDirectory::create(path, "[run]\n");
  for (int64_t r = 1; r <= rounds; ++r) directory.append_round(record(r, static_cast<double>(r)));
  directory.flush();
  return directory;
}

TEST(ClaimOutput, MakesFoldersAndRefusesResults) {
  const ScratchFolder folder;
  {
    const RunLock lock = claim_output(folder / "a/b", false);
    EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  }
  write(folder / "a/b/notes.txt", "mine");
  claim_output(folder / "a/b", false);
  for (const char* name : {"job.cfg", "rounds.csv", "sampling.csv", "evaluations.csv",
                           "clients.csv", "summary.json", "model.h5", "checkpoints/x", "plots/x"}) {
    const std::string path = folder / (std::string("with ") + name);
    write(path + "/" + name, "");
    expect_error<InvalidArgument>([&] { claim_output(path, false); },
                                  {"holds a run's results", path, "--run.overwrite=true"});
    claim_output(path, true);
    EXPECT_TRUE(fs::exists(path + "/" + name));  // nothing is removed yet
  }
}

TEST(ClaimOutput, RefusesAFolderOfOtherThings) {
  const ScratchFolder folder;
  for (const char* name : {"first.cfg", "data/train.csv"}) {
    const std::string path = folder / (std::string("with ") + name[0]);
    write(path + "/" + name, "");
    expect_error<InvalidArgument>([&] { claim_output(path, false); },
                                  {"holds other things: ", path, "--run.overwrite=true"});
    claim_output(path, true);
    EXPECT_TRUE(fs::exists(path + "/" + name));
  }
}

TEST(ClaimOutput, RefusesAFolderThatAnotherRunWrites) {
  const ScratchFolder folder;
  const RunLock first = claim_output(folder.path(), false);
  for (const bool overwrite : {false, true}) {
    expect_error<InvalidArgument>([&] { claim_output(folder.path(), overwrite); },
                                  {"another run writes this folder", folder.path()});
  }
}

TEST(ClaimOutput, RefusesWhatIsNoFolder) {
  const ScratchFolder folder;
  write(folder / "file", "");
  expect_error<InvalidArgument>([&] { claim_output(folder / "file", true); }, {"is a file"});
  expect_error<InvalidArgument>([&] { claim_output(folder / "file/below", true); },
                                {"cannot write", "file/below"});
}

TEST(RunDirectory, CreateRemovesOnlyWhatARunLeaves) {
  const ScratchFolder folder;
  for (const char* name :
       {"job.cfg", "rounds.csv", "evaluations.csv", "clients.csv", "summary.json", "model.h5",
        "checkpoints/round-000001.h5", "plots/loss.png", "notes.txt", "other/file"}) {
    write(folder / name, "old");
  }
  const auto directory = RunDirectory::create(folder.path(), "[run]\nrounds = 3\n");
  EXPECT_EQ(content(folder / "job.cfg"), "[run]\nrounds = 3\n");
  EXPECT_EQ(content(folder / "rounds.csv"), kHeader);
  EXPECT_EQ(content(folder / "evaluations.csv"), "");
  EXPECT_EQ(content(folder / "notes.txt"), "old");
  EXPECT_EQ(content(folder / "other/file"), "old");
  EXPECT_TRUE(fs::is_empty(directory.checkpoints()));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"checkpoints", "evaluations.csv", "job.cfg",
                                                      "notes.txt", "other", "rounds.csv"}));
}

TEST(RunDirectory, WritesALineARoundAndALineAnEvaluation) {
  const ScratchFolder folder;
  auto directory = made(folder.path(), 2);
  EXPECT_EQ(content(folder / "rounds.csv"), kHeader + line(1, "1") + line(2, "2"));
  directory.append_evaluation(
      1, {{"loss_mean", 0.5}, {"improved", std::numeric_limits<double>::quiet_NaN()}});
  directory.append_evaluation(2, {{"loss_mean", 0.25}, {"improved", 1}});
  EXPECT_EQ(content(folder / "evaluations.csv"), "round,loss_mean,improved\n1,0.5,\n2,0.25,1\n");
  EXPECT_EQ(content(folder / "metrics.jsonl"),
            "{\"round\": 1, \"loss_mean\": 0.5}\n"
            "{\"round\": 2, \"loss_mean\": 0.25, \"improved\": 1}\n");
  auto other = made(folder / "other", 1);
  other.append_evaluation(1, {{"loss_mean", 0.5}},
                          {{"split", "test"}, {"held_out_split", "train"}});
  EXPECT_EQ(content(folder / "other/evaluations.csv"),
            "round,split,held_out_split,loss_mean\n1,test,train,0.5\n");
  EXPECT_EQ(content(folder / "other/metrics.jsonl"),
            "{\"round\": 1, \"split\": \"test\", \"held_out_split\": \"train\", \"loss_mean\": "
            "0.5}\n");
  const EvaluationTable clients{
      {.samples = 3, .loss = 0.5, .accuracy = 0.25, .auroc = 0.75, .asked = {.f1 = 0.5}},
      {.samples = 4, .loss = 1, .accuracy = 1, .client = 1},
      {.samples = 5,
       .loss = 2,
       .accuracy = 0,
       .auroc = 0,
       .asked = {.top5 = 1, .f1 = 0},
       .client = 2}};
  write(folder / "table.csv", "label,site,x\nu,\"a, b\",1\nu,\"a, b\",2\nw,c,3\nw,d,4\nu,d,5\n");
  const Federation federation = Federation::load(
      {.kind = "csv", .path = folder / "table.csv", .test_fraction = 0.5, .client_column = "site"},
      {.held_out = 1}, 2, *make_single_communicator());
  const auto name = [&](int64_t client) {
    const std::string text(federation.names().clients.at(client));
    return text == "a, b" ? "\"a, b\"" : text;
  };
  const std::string header = "client,name,split,held_out,samples,loss,accuracy";
  directory.write_clients(clients, federation, {.f1 = true});
  EXPECT_EQ(content(folder / "clients.csv"),
            header + ",auroc,f1\n0," + name(0) + "," + (federation.has_test(0) ? "test" : "train") +
                ",0,3,0.5,0.25,0.75,0.5\n1," + name(1) + "," +
                (federation.has_test(1) ? "test" : "train") + ",0,4,1,1,,\n2," + name(2) + "," +
                (federation.has_test(2) ? "test" : "train") + ",1,5,2,0,0,0\n");
  directory.write_clients(clients, Federation());  // bandits have no samples
  EXPECT_EQ(content(folder / "clients.csv"), header + "\n0,,,0,3,0.5,\n1,,,0,4,1,\n2,,,0,5,2,\n");
  directory.write_partition(federation);
  const std::string parts = content(folder / "partition.csv");
  for (const char* line : {",\"a, b\",0,u,1,1\n", ",c,1,w,1,0\n", ",d,0,u,", ",d,1,w,"}) {
    EXPECT_NE(parts.find(line), std::string::npos) << parts;
  }
  directory.write_summary("{}\n");
  EXPECT_EQ(content(folder / "summary.json"), "{}\n");
}

// The header has them from the start, before and behind a resume.
TEST(RunDirectory, PartsOfARunAddColumns) {
  const ScratchFolder folder;
  Columns columns;
  columns.add_to_rounds([] { return Metrics{{"tau", 0.5}}; }, 3);
  columns.add_to_clients([](int64_t client) {
    return Metrics{{"counted", client == 1 ? 7 : std::numeric_limits<double>::quiet_NaN()}};
  });
  const auto append = [&](RunDirectory& directory, int64_t round) {
    RoundRecord one = record(round, 1);
    one.more = columns.of_round(round);
    directory.append_round(one);
  };
  const auto with = [](std::string line, const std::string& more) {
    return line.insert(line.size() - 1, "," + more);
  };
  auto directory = RunDirectory::create(folder.path(), "", columns.of_round(0));
  EXPECT_EQ(content(folder / "rounds.csv"), with(kHeader, "tau"));
  for (int64_t round = 1; round <= 3; ++round) append(directory, round);
  directory.flush();
  const std::string two = with(kHeader, "tau") + with(line(1, "1"), "") + with(line(2, "1"), "");
  EXPECT_EQ(content(folder / "rounds.csv"), two + with(line(3, "1"), "0.5"));
  auto resumed = RunDirectory::reopen(folder.path(), folder.path(), 2, "", columns.of_round(0));
  for (int64_t round = 3; round <= 4; ++round) append(resumed, round);
  resumed.flush();
  EXPECT_EQ(content(folder / "rounds.csv"),
            two + with(line(3, "1"), "0.5") + with(line(4, "1"), "0.5"));
  expect_error<IoError>([&] { RunDirectory::reopen(folder.path(), folder.path(), 2, ""); },
                        {"rounds.csv", "other columns"});

  const EvaluationTable clients{{.client = 0}, {.client = 1}};
  resumed.write_clients(clients, Federation(), {}, columns);
  EXPECT_EQ(content(folder / "clients.csv"),
            "client,name,split,held_out,samples,loss,accuracy,counted\n"
            "0,,,0,0,0,,\n1,,,0,0,0,,7\n");
}

TEST(RunDirectory, SumsAndMedians) {
  const ScratchFolder folder;
  auto directory = RunDirectory::create(folder.path(), "");
  EXPECT_EQ(directory.round_seconds_median(), 0);
  EXPECT_EQ(directory.seconds(), 0);
  EXPECT_EQ(directory.bytes_per_round(), 0);
  directory.append_round(record(1, 8));
  EXPECT_EQ(directory.round_seconds_median(), 8);
  directory.append_round(record(2, 1));
  EXPECT_EQ(directory.round_seconds_median(), 4.5);
  directory.append_round(record(3, 2));
  EXPECT_EQ(directory.round_seconds_median(), 2);
  directory.append_round(record(4, 5));
  EXPECT_EQ(directory.round_seconds_median(), 3.5);
  EXPECT_EQ(directory.seconds(), 16);
  EXPECT_EQ(directory.bytes_per_round(), 250);
}

TEST(RunDirectory, ReopenCutsWhatCameAfterTheCheckpoint) {
  const ScratchFolder folder;
  {
    auto directory = made(folder.path(), 5);
    for (int64_t r = 1; r <= 5; r += 2) directory.append_evaluation(r, {{"loss_mean", 0.5}});
    directory.write_summary("{}");
  }
  write(folder / "rounds.csv", content(folder / "rounds.csv") + "6,3,6,0.");  // torn
  auto directory = RunDirectory::reopen(folder.path(), folder.path(), 4, "[run]\nrounds = 9\n");
  EXPECT_EQ(content(folder / "rounds.csv"),
            kHeader + line(1, "1") + line(2, "2") + line(3, "3") + line(4, "4"));
  EXPECT_EQ(content(folder / "evaluations.csv"), "round,loss_mean\n1,0.5\n3,0.5\n");
  const std::string first = "{\"round\": 1, \"loss_mean\": 0.5}\n";
  const std::string third = "{\"round\": 3, \"loss_mean\": 0.5}\n";
  EXPECT_EQ(content(folder / "metrics.jsonl"), first + third);
  EXPECT_EQ(content(folder / "job.cfg"), "[run]\nrounds = 9\n");
  EXPECT_FALSE(fs::exists(folder / "summary.json"));
  EXPECT_EQ(directory.last_evaluation(), 3);
  EXPECT_EQ(directory.round_seconds_median(), 2.5);
  EXPECT_EQ(directory.seconds(), 10);
  EXPECT_EQ(directory.bytes_per_round(), 250);
  directory.append_round(record(5, 7));
  directory.append_evaluation(5, {{"loss_mean", 0.125}});
  EXPECT_EQ(content(folder / "rounds.csv").substr(kHeader.size() + 4 * line(1, "1").size()),
            line(5, "7"));
  EXPECT_EQ(content(folder / "evaluations.csv"), "round,loss_mean\n1,0.5\n3,0.5\n5,0.125\n");
  EXPECT_EQ(content(folder / "metrics.jsonl"),
            first + third + "{\"round\": 5, \"loss_mean\": 0.125}\n");
}

// The evaluation of an early end is none of the run that goes on.
TEST(RunDirectory, ReopenCutsEvaluationsThatNoCheckpointIsBehind) {
  const ScratchFolder folder;
  {
    auto directory = made(folder.path(), 5);
    for (int64_t r = 1; r <= 5; r += 2) directory.append_evaluation(r, {{"loss_mean", 0.5}});
  }
  auto directory = RunDirectory::reopen(folder.path(), folder.path(), 5, "", {}, 3);
  EXPECT_EQ(content(folder / "evaluations.csv"), "round,loss_mean\n1,0.5\n3,0.5\n");
  EXPECT_EQ(directory.last_evaluation(), 3);
  EXPECT_EQ(directory.seconds(), 15);
}

TEST(RunDirectory, LinesOfOtherColumnsAreRefused) {
  const ScratchFolder folder;
  made(folder.path(), 3).append_evaluation(2, {{"loss_mean", 0.5}});
  auto directory = RunDirectory::reopen(folder.path(), folder.path(), 3, "");
  expect_error<IoError>(
      [&] {
        directory.append_evaluation(3, {{"loss_std", 0.5}});
      },
      {"evaluations.csv", "other columns", "another version"});
}

// A protocol's own tables, of which each appears with its first lines.
TEST(RunDirectory, TablesAreCutBehindTheCheckpointToo) {
  const ScratchFolder folder;
  {
    auto directory = made(folder.path(), 4);
    EXPECT_FALSE(fs::exists(folder / "sampling.csv"));
    directory.append_lines({"sampling.csv", "round,regret", "1,0.5\n2,0.75\n"});
    directory.append_lines({"sampling.csv", "round,regret", "3,\n"});
    directory.append_lines({"online.csv", "round,node,loss", "3,0,1\n3,1,2\n4,0,3\n4,1,4\n"});
    directory.append_lines({"sampling.csv", "round,regret", "4,1\n"});
    directory.flush();
  }
  write(folder / "sampling.csv", content(folder / "sampling.csv") + "5,2");  // torn
  auto directory = RunDirectory::reopen(folder.path(), folder.path(), 3, "");
  EXPECT_EQ(content(folder / "sampling.csv"), "round,regret\n1,0.5\n2,0.75\n3,\n");
  EXPECT_EQ(content(folder / "online.csv"), "round,node,loss\n3,0,1\n3,1,2\n");
  directory.append_lines({"sampling.csv", "round,regret", "4,9\n"});
  directory.flush();
  EXPECT_EQ(content(folder / "sampling.csv"), "round,regret\n1,0.5\n2,0.75\n3,\n4,9\n");
  RunDirectory::create(folder.path(), "");
  EXPECT_FALSE(fs::exists(folder / "sampling.csv"));
  EXPECT_FALSE(fs::exists(folder / "online.csv"));
}

TEST(RunDirectory, ReopenDropsATornLastLineOfACompletedRound) {
  const ScratchFolder folder;
  made(folder.path(), 2);
  std::string text = content(folder / "rounds.csv");
  text.pop_back();  // the newline of round 2
  write(folder / "rounds.csv", text);
  write(folder / "evaluations.csv", "round,loss_m");
  auto directory = RunDirectory::reopen(folder.path(), folder.path(), 2, "");
  EXPECT_EQ(content(folder / "rounds.csv"), kHeader + line(1, "1"));
  EXPECT_EQ(directory.last_evaluation(), -1);  // none
  directory.append_evaluation(3, {{"loss_mean", 1}});
  EXPECT_EQ(content(folder / "evaluations.csv"), "round,loss_mean\n3,1\n");
}

TEST(RunDirectory, ReopenElsewhereCopiesAndLeavesTheOldOne) {
  const ScratchFolder folder;
  made(folder / "old", 3).append_evaluation(2, {{"loss_mean", 0.5}});
  const std::string before = content(folder / "old/rounds.csv");
  const auto directory = RunDirectory::reopen(folder / "new", folder / "old", 2, "x");
  EXPECT_EQ(content(folder / "new/rounds.csv"), kHeader + line(1, "1") + line(2, "2"));
  EXPECT_EQ(content(folder / "old/rounds.csv"), before);
  EXPECT_EQ(directory.seconds(), 3);
  EXPECT_EQ(directory.last_evaluation(), 2);
}

TEST(RunDirectory, ReopenWithoutRoundsStartsAFileWithAHeader) {
  const ScratchFolder folder;
  made(folder.path(), 3);
  fs::remove(folder / "rounds.csv");
  auto directory = RunDirectory::reopen(folder.path(), folder.path(), 3, "");
  directory.append_round(record(4, 4));
  directory.flush();
  EXPECT_EQ(content(folder / "rounds.csv"), kHeader + line(4, "4"));
}

}  // namespace
}  // namespace hanse
