#include "repeats.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "assemble/protocols.hpp"
#include "hanse/base/error.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/run/summary.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/checkpoint.hpp"
#include "json_text.hpp"

namespace hanse {

namespace {

using RunSummary = nlohmann::ordered_json;

// Null where the run in the folder has not come to an end.
RunSummary read_summary(const std::string& folder) {
  std::ifstream file(folder + "/summary.json");
  return file ? RunSummary::parse(file, nullptr, false) : RunSummary();
}

std::vector<RunSummary> read_summaries(const Job& job) {
  std::vector<RunSummary> runs;
  for (int64_t repeat = 0; repeat < job.run.repeats; ++repeat) {
    runs.push_back(read_summary(repeat_folder(job, repeat)));
    if (!runs.back().is_object()) {
      throw IoError("no complete summary.json", repeat_folder(job, repeat), "resume the run");
    }
  }
  return runs;
}

// The metrics of the repeats, each in the order of the first that has it.
std::vector<std::string> metrics_of(const std::vector<RunSummary>& runs) {
  std::vector<std::string> names;
  for (const RunSummary& run : runs) {
    const RunSummary found = run.value("metrics", RunSummary::object());
    for (const auto& [name, value] : found.items()) {
      if (std::ranges::count(names, name) == 0) names.push_back(name);
    }
  }
  return names;
}

// The metric of the repeats that have it: in others it was not finite, or a target was not reached.
std::vector<double> values_of(const std::vector<RunSummary>& runs, const std::string& name) {
  std::vector<double> values;
  for (const RunSummary& run : runs) {
    const RunSummary found = run.value("metrics", RunSummary::object());
    if (found.contains(name)) values.push_back(found[name].get<double>());
  }
  return values;
}

}  // namespace

bool has_repeats(const Job& job) {
  return job.run.repeats > 1 && protocol_kind(job).reading.reads("model.kind");
}

std::string repeat_folder(const Job& job, int64_t repeat) {
  return fmt::format("{}/repeats/{}", job.run.out, repeat + 1);
}

RepeatProgress repeat_progress(const Job& job, int64_t repeat) {
  const std::string folder = repeat_folder(job, repeat);
  if (const RunSummary summary = read_summary(folder); summary.is_object()) {
    const bool has_ended = summary.value("rounds", int64_t{-1}) == job.run.rounds;
    if (has_ended || summary.contains("diverged")) return RepeatProgress::kDone;
  }
  const auto ignore = [](const std::string&, const std::string&) {};
  return std::filesystem::exists(folder + "/job.cfg") &&
                 newest_checkpoint(folder + "/checkpoints", ignore)
             ? RepeatProgress::kBegun
             : RepeatProgress::kNothing;
}

std::string summarize_repeats(const Job& job) {
  const std::vector<RunSummary> runs = read_summaries(job);
  RunSummary all{{"name", job.run.name},
                 {"seed", job.run.seed},
                 {"repeats", job.run.repeats},
                 {"rounds", job.run.rounds}};
  double seconds = 0;
  for (const RunSummary& run : runs) {
    all["model_digests"].push_back(run.at("model_digest"));
    all["rounds_done"].push_back(run.at("rounds"));
    seconds += run.at("seconds").get<double>();
  }
  RepeatedMetrics found{.repeats = job.run.repeats,
                        .diverged = std::ranges::count_if(
                            runs, [](const RunSummary& run) { return run.contains("diverged"); })};
  if (found.diverged > 0) all["diverged"] = found.diverged;
  all["seconds"] = seconds;
  for (const char* key : {"ranks", "split", "held_out_split", "privacy"}) {
    if (runs.front().contains(key)) all[key] = runs.front()[key];
  }
  if (const auto one = runs.front().find("privacy"); one != runs.front().end()) {
    found.privacy = PrivacyReport{one->value("epsilon", INFINITY), one->at("delta"),
                                  one->at("accountant"), one->value("flaw", "")};
  }
  for (const std::string& name : metrics_of(runs)) {
    const std::vector<double> values = values_of(runs, name);
    add_over_repeats(found.metrics, name, values);
    found.n[name] = std::ssize(values);
  }
  if (!job.run.target.empty()) found.n.try_emplace("target_round", 0);
  for (const auto& [name, value] : found.metrics) all["metrics"][name] = value;
  all["n"] = found.n;
  write_file(job.run.out + "/summary.json", json_dump(all, 2) + "\n");
  return repeats_table(found, all.value("split", ""), all.value("held_out_split", ""), job.run.out);
}

}  // namespace hanse
