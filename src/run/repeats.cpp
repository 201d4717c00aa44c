#include "repeats.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/protocol/evaluation.hpp"
#include "hanse/run/summary.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/checkpoint.hpp"
#include "protocols.hpp"

namespace hanse {

namespace {

using RunSummary = nlohmann::ordered_json;

// Null where the run in the folder has not come to an end.
RunSummary read_summary(const std::string& folder) {
  std::ifstream file(folder + "/summary.json");
  return file ? RunSummary::parse(file, nullptr, false) : RunSummary();
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
    if (summary.value("rounds", int64_t{-1}) == job.run.rounds) return RepeatProgress::kDone;
  }
  const auto ignore = [](const std::string&, const std::string&) {};
  return std::filesystem::exists(folder + "/job.cfg") &&
                 newest_checkpoint(folder + "/checkpoints", ignore)
             ? RepeatProgress::kBegun
             : RepeatProgress::kNothing;
}

std::string summarize_repeats(const Job& job) {
  std::vector<RunSummary> runs;
  for (int64_t repeat = 0; repeat < job.run.repeats; ++repeat) {
    runs.push_back(read_summary(repeat_folder(job, repeat)));
    if (!runs.back().is_object()) {
      throw IoError("no complete summary.json", repeat_folder(job, repeat), "resume the run");
    }
  }
  RunSummary all{{"name", job.run.name},
                 {"seed", job.run.seed},
                 {"repeats", job.run.repeats},
                 {"rounds", job.run.rounds}};
  Metrics metrics;
  double seconds = 0;
  for (const RunSummary& run : runs) {
    all["model_digests"].push_back(run.at("model_digest"));
    seconds += run.at("seconds").get<double>();
  }
  all["seconds"] = seconds;
  for (const char* key : {"ranks", "split", "held_out_split"}) {
    if (runs.front().contains(key)) all[key] = runs.front()[key];
  }
  const RunSummary of_first = runs.front().value("metrics", RunSummary::object());
  for (const auto& [name, value] : of_first.items()) {
    std::vector<double> values;
    for (const RunSummary& run : runs) {
      const RunSummary found = run.value("metrics", RunSummary::object());
      if (found.contains(name)) values.push_back(found[name].get<double>());
    }
    if (values.size() < runs.size()) continue;  // it was not finite in some
    add_over_repeats(metrics, name, values);
  }
  for (const auto& [name, value] : metrics) all["metrics"][name] = value;
  write_file(job.run.out + "/summary.json", all.dump(2) + "\n");
  return repeats_table(metrics, all.value("split", ""), all.value("held_out_split", ""),
                       job.run.repeats, job.run.out);
}

}  // namespace hanse
