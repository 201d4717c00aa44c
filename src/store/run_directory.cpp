#include "hanse/store/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "client_lines.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/client_history.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

// The files of every protocol, and those of single ones. The first are tables, which a resume cuts
// behind its round.
constexpr const char* kResults[] = {"rounds.csv",
                                    "sampling.csv",
                                    "participation.csv",
                                    "evaluations.csv",
                                    "decisions.csv",
                                    "online.csv",
                                    "weights.csv",
                                    "bandit.csv",
                                    "directions.csv",
                                    "classes.csv",
                                    "metrics.jsonl",
                                    "clients.csv",
                                    "confusion.csv",
                                    RunDirectory::kScores,
                                    RunDirectory::kBestScores,
                                    ClientHistory::kFile,
                                    "best.h5",
                                    "job.cfg",
                                    "partition.csv",
                                    RunDirectory::kFeatures,
                                    "summary.json",
                                    RunDirectory::kFailure,
                                    "model.h5",
                                    "averaged.h5",
                                    "state_dict.pt",
                                    "model.safetensors",
                                    "checkpoints",
                                    "plots",
                                    "tensorboard",
                                    "timeline.json",
                                    "repeats"};
constexpr auto kTables = std::span(kResults).first<11>();
// The tables of which an evaluation writes lines.
constexpr const char* kOfEvaluations[] = {"evaluations.csv", "decisions.csv", "classes.csv",
                                          "metrics.jsonl"};
// The files that a resume copies.
constexpr auto kCarried = std::span(kResults).first<17>();

// Clients in partition.csv: beyond, the rows of a picture cannot be distinguished.
constexpr int64_t kMostPartitionClients = 1000;

constexpr std::string_view kJsonRound = "{\"round\": ";  // a line of metrics.jsonl

int64_t round_of(const std::string& line) {
  const std::size_t begin = line.starts_with(kJsonRound) ? kJsonRound.size() : 0;
  return parse_integer(line.substr(begin, line.find_first_of(",}") - begin));
}

// Keeps the header and the lines whose first field is at most `last`; drops a torn last line.
void cut_table(const std::string& path, int64_t last) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return;
  std::string kept;
  std::string line;
  const bool has_header = path.ends_with(".csv");
  for (bool header = has_header; std::getline(file, line) && !file.eof(); header = false) {
    if (!header) {
      try {
        if (round_of(line) > last) break;
      } catch (const InvalidArgument&) {
        break;
      }
    }
    kept += line + "\n";
  }
  file.close();
  write_file(path, kept);
}

// The lines behind a table's header.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) lines.push_back(line);
  return lines;
}

// The columns of rounds.csv in every run; those of a protocol follow.
constexpr const char* kRoundHeader =
    "round,clients,seconds,seconds_train,seconds_comm,seconds_wait,bytes_sent,loss,mixed_loss,"
    "seconds_evaluate";

constexpr std::string_view kUpdateBytes = "bytes_updates";  // a column of some protocols

// "round,loss,accuracy"
std::string header_of(const Metrics& columns, std::string header = "round") {
  for (const auto& [name, value] : columns) header += "," + name;
  return header;
}

// A metric's name in JSON: names are printable and have no quotes.
std::string json_name(const std::string& name) {
  std::string written;
  for (const char c : name) written += c == '\\' ? std::string(2, c) : std::string(1, c);
  return written;
}

// A resumed run of another version may have written other columns.
void require_header(const std::string& path, const std::string& header) {
  std::string found;
  std::getline(std::ifstream(path), found);
  if (found == header) return;
  throw IoError("the table has other columns than this program writes", path,
                "the run is of another version of Hanse: resume it with that one");
}

// A user's notes, a batch system's files, and the lock.
bool may_lie_beside_a_run(const fs::path& path) {
  constexpr std::array kNotes = {".txt", ".log", ".out", ".err"};
  return path.filename() == RunLock::kFile ||
         std::find(kNotes.begin(), kNotes.end(), path.extension()) != kNotes.end();
}

// Without a checkpoint or repeats, a run cannot be resumed.
std::string ways_on(const std::string& path) {
  const auto ignore = [](const std::string&, const std::string&) {};
  const bool resumes =
      fs::exists(path + "/repeats") || newest_checkpoint(path + "/checkpoints", ignore);
  return (resumes ? fmt::format("go on with `hanse resume {}`, ", shell_word(path)) : "") +
         "choose another run.out, or pass --run.overwrite=true to replace them";
}

}  // namespace

RunLock claim_output(const std::string& path, bool overwrite) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path)) {
    throw InvalidArgument("the output is a file, not a folder", path, "choose another run.out");
  }
  RunLock lock = RunLock::take(path, 0);
  if (overwrite) return lock;
  for (const char* name : kResults) {
    if (!fs::exists(fs::path(path) / name)) continue;
    throw InvalidArgument("the output directory holds a run's results", path, ways_on(path));
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (may_lie_beside_a_run(entry.path())) continue;
    throw InvalidArgument(
        "the output directory holds other things: " + entry.path().filename().string(), path,
        "choose another run.out, or pass --run.overwrite=true, which leaves "
        "them there");
  }
  return lock;
}

void RunDirectory::clear(const std::string& path) {
  // First the files that make the older run one that has ended, or that can go on.
  for (const char* name : {"summary.json", "job.cfg"}) fs::remove(fs::path(path) / name);
  for (const char* name : kResults) fs::remove_all(fs::path(path) / name);
}

RunDirectory RunDirectory::create(const std::string& path, const std::string& job_text,
                                  const Metrics& round_columns) {
  clear(path);
  return RunDirectory(path, job_text, round_columns);
}

RunDirectory RunDirectory::reopen(const std::string& path, const std::string& from,
                                  int64_t completed, const std::string& job_text,
                                  const Metrics& round_columns, int64_t evaluated) {
  fs::create_directories(path);
  if (!fs::equivalent(path, from)) {
    for (const char* name : kCarried) {
      const auto source = fs::path(from) / name;
      constexpr auto kHow = fs::copy_options::overwrite_existing;
      if (fs::exists(source)) fs::copy(source, fs::path(path) / name, kHow);
    }
  }
  for (const char* name : {"summary.json", kFailure}) fs::remove(fs::path(path) / name);
  for (const char* name : kTables) cut_table(fs::path(path) / name, completed);
  for (const char* name : kOfEvaluations) {
    cut_table(fs::path(path) / name, std::min(completed, evaluated));
  }
  return RunDirectory(path, job_text, round_columns);
}

RunDirectory::RunDirectory(std::string path, const std::string& job_text,
                           const Metrics& round_columns)
    : path_(std::move(path)) {
  fs::create_directories(checkpoints());
  write_file(file("job.cfg"), job_text);
  const auto updates = std::ranges::find(round_columns, kUpdateBytes, &Metrics::value_type::first);
  if (updates != round_columns.end()) update_bytes_ = 0;
  const auto at = std::ranges::count(std::string_view(kRoundHeader), ',') + 1 +
                  (updates - round_columns.begin());  // the place of that column
  for (const std::string& line : lines_of(file("rounds.csv"))) {
    const auto fields = split_list(line);
    if (fields.size() < 8) continue;
    if (update_bytes_ && std::ssize(fields) > at)
      *update_bytes_ += parse_number(fields[to_index(at)]);
    round_seconds_.push_back(static_cast<float>(parse_number(fields[2])));
    bytes_ += parse_number(fields[6]);
  }
  const auto evaluations = lines_of(file("evaluations.csv"));
  if (!evaluations.empty()) last_evaluation_ = round_of(evaluations.back());
  table("rounds.csv", header_of(round_columns, kRoundHeader));
  GrowingFile(file("evaluations.csv"), "ae");  // exists from the start, without columns
  flush();
}

GrowingFile& RunDirectory::table(const std::string& name, const std::string& header) {
  const auto [entry, is_new] = tables_.try_emplace(name, file(name), "ae");
  GrowingFile& table = entry->second;
  if (is_new && table.empty()) {
    table.append(header + "\n");
  } else if (is_new) {
    require_header(file(name), header);
  }
  return table;
}

void RunDirectory::append_round(const RoundRecord& record) {
  std::string line = fmt::format("{},{},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{},{:.6g}", record.round,
                                 record.participants, record.seconds, record.train_s, record.comm_s,
                                 record.wait_s, record.bytes_sent, number_or_nothing(record.loss),
                                 number_or_nothing(record.mixed_loss), record.evaluate_s);
  for (const auto& [name, value] : record.more) {
    line.append(",").append(counted_or_nothing(value));
    if (update_bytes_ && name == kUpdateBytes) *update_bytes_ += value;
  }
  table("rounds.csv").append(line + "\n");
  round_seconds_.push_back(static_cast<float>(record.seconds));
  bytes_ += static_cast<double>(record.bytes_sent);
}

void RunDirectory::append_evaluation(
    int64_t round, const Metrics& metrics,
    const std::vector<std::pair<std::string, std::string>>& splits) {
  std::string header = "round";
  std::string line = fmt::format("{}", round);
  std::string json = fmt::format("{}{}", kJsonRound, round);
  for (const auto& [name, split] : splits) {
    header += "," + name;
    line += "," + split;
    json += fmt::format(R"(, "{}": "{}")", name, split);
  }
  for (const auto& [name, value] : metrics) {
    line.append(",").append(number_or_nothing(value));
    if (std::isfinite(value)) {
      json += fmt::format(R"(, "{}": {})", json_name(name), number_or_nothing(value));
    }
  }
  table("evaluations.csv", header_of(metrics, header)).append(line + "\n");
  tables_.try_emplace("metrics.jsonl", file("metrics.jsonl"), "ae")
      .first->second.append(json + "}\n");
  flush();
}

void RunDirectory::append_decision(int64_t round, std::span<const double> decision) {
  std::string header = "round";
  std::string line = fmt::format("{}", round);
  for (std::size_t c = 0; c < decision.size(); ++c) {
    header += fmt::format(",p_{}", c);
    line += fmt::format(",{:.9g}", decision[c]);
  }
  GrowingFile& decisions = table("decisions.csv", header);
  decisions.append(line + "\n");
  decisions.flush();
}

void RunDirectory::append_lines(const TableLines& lines) {
  table(lines.file, lines.header).append(lines.lines);
}

void RunDirectory::write_clients(const EvaluationTable& clients, const Federation& federation,
                                 const AskedMetrics& asked, const Columns& added) {
  const ClientLines lines(federation, asked, added);
  write_lines(file("clients.csv"), lines.header(), clients.size(),
              [&](std::size_t i) { return lines.line(clients[i]); });
}

void RunDirectory::write_scores(const char* name, const SampleTable& samples,
                                const Federation& federation) {
  write_lines(file(name), SampleTable::header(federation), samples.parts(),
              [&](std::size_t i) { return samples.lines(i, federation); });
}

void RunDirectory::write_partition(const Federation& federation) {
  if (federation.classes() == 0) return;
  const bool validates = federation.validation_samples() + federation.validation_clients() > 0;
  std::string text =
      fmt::format("client,name,label,class,train,test{}\n", validates ? ",validation" : "");
  const int64_t clients =
      std::min(federation.clients() + federation.held_out(), kMostPartitionClients);
  for (int64_t client = 0; client < clients; ++client) {
    const std::string name = csv_field(federation.names().clients.at(client));
    struct Counts {
      int64_t train = 0, validation = 0, test = 0;
    };
    std::map<int32_t, Counts> counts;
    const auto count = [&](SampleRange range, int64_t Counts::*which) {
      for (const int32_t label : labels_of(federation, range)) {
        if (label >= 0) ++(counts[label].*which);
      }
    };
    count(federation.train(client), &Counts::train);
    if (federation.has_validation(client)) {
      count(federation.validation(client), &Counts::validation);
    }
    if (federation.has_test(client) && !is_for_validation(federation, client)) {
      count(federation.test(client), &Counts::test);
    }
    for (const auto& [label, own] : counts) {
      text += fmt::format("{},{},{},{},{},{}{}\n", client, name, label,
                          csv_field(federation.names().classes.at(label)), own.train, own.test,
                          validates ? fmt::format(",{}", own.validation) : "");
    }
  }
  write_file(file("partition.csv"), text);
}

void RunDirectory::write_features(const FederationNames& names) {
  if (names.features) write_file(file(kFeatures), features_text(*names.features));
}

void RunDirectory::write_summary(const std::string& json) {
  write_file(file("summary.json"), json);
}

void RunDirectory::note_failure(const std::exception_ptr& failure) noexcept {
  std::error_code code;
  if (!fs::exists(file("job.cfg"), code)) return;  // it was removed, and nothing is to be noted
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    std::ofstream(file(kFailure)) << error.what() << "\n";
  } catch (...) {
  }
}

void RunDirectory::flush() {
  for (auto& [name, table] : tables_) table.flush();
}

void RunDirectory::flush_each_second() {
  if (monotonic_seconds() - flushed_s_ <= 1) return;
  flush();
  flushed_s_ = monotonic_seconds();
}

void RunDirectory::sync() {
  for (auto& [name, table] : tables_) table.sync();
}

double RunDirectory::round_seconds_median() const {
  if (round_seconds_.empty()) return 0;
  auto sorted = round_seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double upper = *middle;
  if (sorted.size() % 2 == 1) return upper;
  return (*std::max_element(sorted.begin(), middle) + upper) / 2;
}

double RunDirectory::seconds() const {
  return std::accumulate(round_seconds_.begin(), round_seconds_.end(), 0.0);
}

double RunDirectory::bytes_per_round() const {
  return round_seconds_.empty() ? 0 : bytes_ / static_cast<double>(round_seconds_.size());
}

}  // namespace hanse
