#include "hanse/run/status.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/base/text.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/store/run_directory.hpp"
#include "json_text.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kTailBytes = 1 << 14;      // of a table, in which its last lines stand
constexpr std::size_t kLateRounds = 50;      // that the rate is of, or as many as the tail has
constexpr std::string_view kSeed = "seed-";  // runs of a study
constexpr int kDepth = 4;                    // of folders in which runs are looked for
constexpr double kFreshSeconds = 120;        // since a run has written, where locks say nothing
constexpr const char* kRunFiles[] = {"job.cfg", "rounds.csv", RunLock::kFile};
constexpr const char* kMainMetrics[] = {"common_accuracy", "online_accuracy", "regret",
                                        "accuracy_mean",   "common_loss",     "online_loss",
                                        "loss_mean"};

// The columns of a table and its last whole lines; a run may be writing one.
struct TableEnd {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> lines;

  // The field of a line; nothing where it has none, or no number.
  std::optional<double> number(const std::vector<std::string>& line,
                               const std::string& column) const {
    const auto place = std::ranges::find(columns, column) - columns.begin();
    if (place >= std::min(std::ssize(columns), std::ssize(line))) return std::nullopt;
    return number_in(line[to_index(place)]);
  }
};

TableEnd read_end(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TableEnd table;
  std::string line;
  if (!std::getline(file, line) || file.eof()) return table;
  table.columns = split_list(line);
  const auto begin = static_cast<int64_t>(file.tellg());
  file.seekg(0, std::ios::end);
  const int64_t from = std::max(begin, static_cast<int64_t>(file.tellg()) - kTailBytes);
  file.seekg(from - 1);
  std::getline(file, line);  // the rest of the line before
  while (std::getline(file, line) && !file.eof()) table.lines.push_back(split_list(line));
  return table;
}

bool is_run(const fs::path& folder) {
  std::error_code code;
  return std::ranges::any_of(kRunFiles,
                             [&](const char* name) { return fs::exists(folder / name, code); });
}

// seed-9 stands before seed-10.
bool by_number(const fs::path& a, const fs::path& b) {
  const auto part = [](const fs::path& path) {
    const std::string name = path.filename();
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    const auto number = number_in(std::string_view(name).substr(digits));
    return std::tuple(name.substr(0, digits), number.value_or(-1), name);
  };
  return part(a) < part(b);
}

// seed-3.log of a study whose run seed-3 was refused before it had a folder.
bool is_log_alone(const fs::path& path) {
  std::error_code code;
  const std::string name = path.stem();
  return path.extension() == ".log" && name.starts_with(kSeed) &&
         number_in(std::string_view(name).substr(kSeed.size())) &&
         !fs::exists(fs::path(path).replace_extension(), code);
}

void find_runs(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code code;
  if (is_log_alone(folder)) return found.push_back(folder);
  const bool own = is_run(folder);
  const fs::path inside = own ? folder / "repeats" : folder;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(inside, code)) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    const bool may_be = entry.is_directory(code) || is_log_alone(entry.path());
    if (may_be && !hidden) folders.push_back(entry.path());
  }
  std::ranges::sort(folders, by_number);
  const std::size_t before = found.size();
  for (const fs::path& one : depth > 0 ? folders : std::vector<fs::path>()) {
    find_runs(one, depth - 1, found);
  }
  if (own && found.size() == before) found.push_back(folder);
}

// Each run once: not by a link where it lies in the folder itself, and by the shortest one else.
std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> found;
  find_runs(folder, kDepth, found);
  std::error_code code;
  const fs::path start = fs::canonical(folder, code);
  const auto preferred = [&](const fs::path& run, const fs::path& own) {
    const fs::path inside = run.lexically_relative(folder);
    const bool is_link = (start / inside).lexically_normal() != own;
    return std::pair(is_link, std::distance(inside.begin(), inside.end()));
  };
  std::map<fs::path, fs::path> shown;  // by where the run lies
  for (const fs::path& run : found) {
    const fs::path own = fs::canonical(run, code);
    fs::path& best = shown.try_emplace(own, run).first->second;
    if (preferred(run, own) < preferred(best, own)) best = run;
  }
  std::erase_if(found, [&](const fs::path& run) { return shown[fs::canonical(run, code)] != run; });
  return found;
}

using Keys = std::map<std::string, std::string>;

Keys keys_of_job(const std::string& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return {};
  Keys keys;
  for (const auto& [key, value] : job_lines(path)) keys[key] = value;
  return keys;
}

std::string value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "" : found->second;
}

// Seconds since the run has last written a table.
double silent_s(const fs::path& folder) {
  double least = INFINITY;
  for (const char* name : {"rounds.csv", "evaluations.csv", "job.cfg", RunLock::kFile}) {
    std::error_code code;
    const auto written = fs::last_write_time(folder / name, code);
    if (code) continue;
    const std::chrono::duration<double> passed = fs::file_time_type::clock::now() - written;
    least = std::min(least, passed.count());
  }
  return least;
}

// Does a process write the run? Where the lock says nothing, since another host may hold it, one
// does that has written of late.
bool is_written(const fs::path& folder, double round_s) {
  const auto held = RunLock::is_taken(folder);
  return held.value_or(false) || (!held && silent_s(folder) < std::max(kFreshSeconds, 3 * round_s));
}

// Rounds a second over the last rounds, evaluations included.
double rate_of(const TableEnd& rounds) {
  const std::size_t count = std::min(kLateRounds, rounds.lines.size());
  double seconds = 0;
  for (const auto& line : std::span(rounds.lines).last(count)) {
    seconds += rounds.number(line, "seconds").value_or(0) +
               rounds.number(line, "seconds_evaluate").value_or(0);
  }
  return seconds > 0 ? static_cast<double>(count) / seconds : RunStatus::kUnknown;
}

// The metrics that may be a run's main one; the first that its evaluations have is.
std::vector<std::string> main_metrics(const Keys& keys) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name.empty()) return;
    if (value_of(keys, "evaluate.on") == "both") names.push_back("validation_" + name);
    names.push_back(name);
  };
  const std::string best = value_of(keys, "evaluate.best");
  const std::string target = value_of(keys, "run.target");
  add(best.substr(0, best.find(':')));
  add(std::string(trim(target.substr(0, target.find_first_of("<>=")))));
  names.insert(names.end(), std::begin(kMainMetrics), std::end(kMainMetrics));
  return names;
}

void read_metric(const fs::path& folder, const Keys& keys, RunStatus& status) {
  const TableEnd table = read_end(folder / "evaluations.csv");
  for (const std::string& name : main_metrics(keys)) {
    for (const auto& line : table.lines) {
      const auto value = table.number(line, name);
      if (!value) continue;
      status.metric = name;
      status.value = *value;
      status.evaluated = std::llround(table.number(line, "round").value_or(-1));
    }
    if (!status.metric.empty()) return;
  }
}

RunStatus status_of_log(const fs::path& log) {
  RunStatus status{.run = fs::path(log).replace_extension(), .state = "stopped"};
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!trim(line).empty()) last = line;
  }
  constexpr std::string_view kError = "error: ";
  if (const std::size_t at = last.find(kError); at != std::string::npos) {
    status.state = "failed";
    status.error = last.substr(at + kError.size());
  }
  return status;
}

RunStatus status_of(const fs::path& folder) {
  if (is_log_alone(folder)) return status_of_log(folder);
  RunStatus status{.run = folder, .state = "stopped"};
  std::error_code code;
  const Keys keys = keys_of_job(folder / "job.cfg");
  const TableEnd rounds = read_end(folder / "rounds.csv");
  const bool simulated = number_in(value_of(keys, "simulate.sample-us")).value_or(0) > 0;
  if (!rounds.lines.empty()) {
    status.rounds = std::llround(rounds.number(rounds.lines.back(), "round").value_or(0));
    if (!simulated) status.rate = rate_of(rounds);
  }
  if (!ends_itself(value_of(keys, "run.protocol"))) {
    status.of_rounds = std::llround(number_in(value_of(keys, "run.rounds")).value_or(-1));
  }
  read_metric(folder, keys, status);
  const double round_s = std::isnan(status.rate) ? 0 : 1 / status.rate;
  if (fs::exists(folder / "summary.json", code)) {
    status.state = "done";
  } else if (is_written(folder, round_s)) {
    status.state = "running";
    status.left_s = static_cast<double>(status.of_rounds - status.rounds) * round_s;
    if (std::isnan(status.rate) || status.of_rounds < 0) status.left_s = RunStatus::kUnknown;
  } else if (std::ifstream error(folder / RunDirectory::kFailure); error) {
    status.state = "failed";
    std::getline(error, status.error);
  }
  return status;
}

nlohmann::ordered_json json_of(const RunStatus& status) {
  nlohmann::ordered_json json{{"run", status.run}, {"state", status.state}};
  json["rounds"] = status.rounds;
  json["of_rounds"] = nullptr;
  if (status.of_rounds >= 0) json["of_rounds"] = status.of_rounds;
  json["rounds_per_second"] = status.rate;  // NaN is null in JSON
  json["seconds_left"] = status.left_s;
  json["metric"] = nullptr;
  if (!status.metric.empty()) json["metric"] = status.metric;
  json["value"] = status.value;
  json["evaluated_round"] = nullptr;
  if (status.evaluated >= 0) json["evaluated_round"] = status.evaluated;
  if (!status.error.empty()) json["error"] = status.error;
  return json;
}

using Row = std::array<std::string, 6>;

std::string rate_text(double rate) {
  if (std::isnan(rate)) return "-";
  return rate < 100 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

Row row_of(const RunStatus& status) {
  const bool knows_rounds = status.of_rounds >= 0;
  const std::string of = knows_rounds ? fmt::format(" of {}", status.of_rounds) : "";
  std::string last = status.error;
  if (!status.metric.empty()) {
    last = fmt::format("{} {:.4f} in round {}{}{}", status.metric, status.value, status.evaluated,
                       last.empty() ? "" : "; ", last);
  }
  return {printable(status.run),
          status.state,
          fmt::format("{}{}", status.rounds, of),
          rate_text(status.rate),
          std::isnan(status.left_s) ? "-" : duration_text(status.left_s),
          last.empty() ? "-" : printable(last)};
}

std::string table_of(const std::vector<RunStatus>& statuses) {
  std::vector<Row> rows{{"run", "state", "rounds", "a second", "left", "metric"}};
  for (const RunStatus& status : statuses) rows.push_back(row_of(status));
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      text += fmt::format("{:<{}}  ", row[c], widths[c]);
    }
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

std::vector<RunStatus> statuses_of(const std::string& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) {
    throw InvalidArgument(fs::exists(path, code) ? "this is no folder" : "no such folder", path,
                          "name the run.out of a run, or a folder of repeats or of a sweep");
  }
  const std::vector<fs::path> found = runs_in(path);
  if (found.empty()) {
    throw InvalidArgument("there is no run in the folder", path,
                          "name the run.out of a run, or a folder of repeats or of a sweep");
  }
  std::vector<RunStatus> statuses;
  for (const fs::path& folder : found) statuses.push_back(status_of(folder));
  return statuses;
}

std::string status_text(std::span<const std::string> paths, bool json) {
  std::vector<RunStatus> all;
  for (const std::string& path : paths) {
    for (RunStatus& status : statuses_of(path)) all.push_back(std::move(status));
  }
  if (!json) return table_of(all);
  auto array = nlohmann::ordered_json::array();
  for (const RunStatus& status : all) array.push_back(json_of(status));
  return json_dump(array, 2) + "\n";
}

}  // namespace hanse
