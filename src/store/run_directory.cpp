#include "hanse/store/run_directory.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "hanse/store/atomic_file.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

// The files of every protocol; those of one alone stay among them.
constexpr const char* kResults[] = {
    "job.cfg",       "rounds.csv",   "sampling.csv", "evaluations.csv", "decisions.csv",
    "online.csv",    "weights.csv",  "bandit.csv",   "directions.csv",  "clients.csv",
    "partition.csv", "summary.json", "model.h5",     "state_dict.pt",   "checkpoints",
    "plots",         "tensorboard"};
// Cut behind the round of a resume.
constexpr const char* kTables[] = {"rounds.csv",    "sampling.csv",  "evaluations.csv",
                                   "decisions.csv", "online.csv",    "weights.csv",
                                   "bandit.csv",    "directions.csv"};
constexpr const char* kRoundsHeader =
    "round,clients,seconds,seconds_train,seconds_comm,seconds_wait,bytes_sent,loss,mixed_loss,"
    "seconds_evaluate";

// Clients in partition.csv: beyond, nobody tells the rows of a picture apart.
constexpr int64_t kMostPartitionClients = 1000;

void write_text(const std::string& path, const std::string& text) {
  TemporaryFile file(path + ".tmp");
  Descriptor(file.path(), O_WRONLY).write_at(0, text);
  file.publish(path);
}

// Keeps the header and the lines whose first field is at most `last`; a torn last line goes.
void cut_csv(const std::string& path, int64_t last) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return;
  std::string kept;
  std::string line;
  for (bool header = true; std::getline(file, line) && !file.eof(); header = false) {
    if (!header) {
      try {
        if (parse_integer(line.substr(0, line.find(','))) > last) break;
      } catch (const InvalidArgument&) {
        break;
      }
    }
    kept += line + "\n";
  }
  file.close();
  write_text(path, kept);
}

std::FILE* open_append(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (!file) throw IoError("cannot write: " + errno_text(), path);
  return file;
}

void append(std::FILE* file, const std::string& path, const std::string& text) {
  if (std::fputs(text.c_str(), file) < 0) {
    throw IoError("cannot write: " + errno_text(), path, "is the disk full?");
  }
}

std::string decision_header(std::size_t clients) {
  std::string header = "round";
  for (std::size_t c = 0; c < clients; ++c) header += fmt::format(",p_{}", c);
  return header;
}

Metrics round_scalars(const RoundRecord& record, const std::vector<std::string>& columns) {
  Metrics scalars{{"clients", static_cast<double>(record.participants)},
                  {"seconds", record.seconds},
                  {"seconds_train", record.train_s},
                  {"seconds_comm", record.comm_s},
                  {"seconds_wait", record.wait_s},
                  {"bytes_sent", static_cast<double>(record.bytes_sent)},
                  {"loss", record.loss},
                  {"mixed_loss", record.mixed_loss},
                  {"seconds_evaluate", record.evaluate_s}};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    scalars.emplace_back(columns[i], record.more[i]);
  }
  return scalars;
}

void check_written(std::FILE* file, const std::string& path) {
  if (std::fflush(file) != 0 || std::ferror(file)) {
    throw IoError("cannot write: " + errno_text(), path, "is the disk full?");
  }
}

}  // namespace

void check_output(const std::string& path, bool overwrite) {
  std::error_code code;
  if (fs::exists(path) && !fs::is_directory(path)) {
    throw InvalidArgument("the output is a file, not a folder", path, "choose another run.out");
  }
  if (!overwrite) {
    for (const char* name : kResults) {
      if (fs::exists(fs::path(path) / name)) {
        throw InvalidArgument("the output directory holds a run's results", path,
                              "choose another run.out, go on with `hanse resume`, or pass "
                              "--run.overwrite=true");
      }
    }
  }
  fs::create_directories(path, code);
  if (code || access(path.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument(
        "cannot write to the output directory: " + (code ? code.message() : errno_text()), path,
        "choose another run.out");
  }
}

RunDirectory RunDirectory::create(const std::string& path, const std::string& job_text,
                                  const std::vector<std::string>& round_columns) {
  for (const char* name : kResults) fs::remove_all(fs::path(path) / name);
  RunDirectory directory(path);
  fs::create_directories(directory.checkpoints());
  write_text(directory.file("job.cfg"), job_text);
  directory.open_logs(round_columns);
  return directory;
}

RunDirectory RunDirectory::reopen(const std::string& path, const std::string& from,
                                  int64_t completed, const std::string& job_text,
                                  const std::vector<std::string>& round_columns) {
  RunDirectory directory(path);
  fs::create_directories(directory.checkpoints());
  if (!fs::equivalent(path, from)) {
    const auto copy = [&](const char* name) {
      const auto source = fs::path(from) / name;
      if (fs::exists(source)) {
        fs::copy_file(source, fs::path(path) / name, fs::copy_options::overwrite_existing);
      }
    };
    for (const char* name : kTables) copy(name);
    copy("clients.csv");
    fs::remove_all(directory.file("tensorboard"));
    if (const auto events = fs::path(from) / "tensorboard"; fs::exists(events)) {
      fs::copy(events, directory.file("tensorboard"));
    }
  }
  fs::remove(directory.file("summary.json"));
  for (const char* name : kTables) cut_csv(directory.file(name), completed);
  write_text(directory.file("job.cfg"), job_text);
  directory.read_rounds();
  directory.open_logs(round_columns);
  return directory;
}

void RunDirectory::open_logs(const std::vector<std::string>& round_columns) {
  std::string header = kRoundsHeader;
  round_columns_ = round_columns;
  for (const std::string& column : round_columns) header += "," + column;
  if (!fs::exists(file("rounds.csv"))) write_text(file("rounds.csv"), header + "\n");
  rounds_.reset(open_append(file("rounds.csv")));
  std::ifstream lines(file("evaluations.csv"));
  for (std::string line; std::getline(lines, line);) {
    if (!evaluations_empty_) last_evaluation_ = parse_integer(line.substr(0, line.find(',')));
    evaluations_empty_ = false;
  }
  evaluations_.reset(open_append(file("evaluations.csv")));
}

// Seconds and bytes of the rounds before a resume.
void RunDirectory::read_rounds() {
  std::ifstream lines(file("rounds.csv"));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const auto fields = split_list(line);
    if (fields.size() < 8) continue;
    round_seconds_.push_back(static_cast<float>(parse_number(fields[2])));
    bytes_ += parse_number(fields[6]);
  }
}

void RunDirectory::write_events(int64_t completed) {
  events_.emplace(file("tensorboard"), completed);
}

void RunDirectory::append_round(const RoundRecord& record) {
  std::string line = fmt::format("{},{},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{},{:.6g}", record.round,
                                 record.participants, record.seconds, record.train_s, record.comm_s,
                                 record.wait_s, record.bytes_sent, number_or_nothing(record.loss),
                                 number_or_nothing(record.mixed_loss), record.evaluate_s);
  for (const double value : record.more) line += "," + number_or_nothing(value);
  append(rounds_.get(), file("rounds.csv"), line + "\n");
  round_seconds_.push_back(static_cast<float>(record.seconds));
  bytes_ += static_cast<double>(record.bytes_sent);
  if (events_) events_->append(record.round, "round", round_scalars(record, round_columns_));
}

void RunDirectory::append_evaluation(int64_t round, const Metrics& metrics) {
  std::string header = "round";
  std::string line = fmt::format("{}", round);
  for (const auto& [name, value] : metrics) {
    header += "," + name;
    line += fmt::format(",{}", number_or_nothing(value));
  }
  const std::string text = evaluations_empty_ ? header + "\n" + line : line;
  evaluations_empty_ = false;
  append(evaluations_.get(), file("evaluations.csv"), text + "\n");
  if (events_) events_->append(round, "evaluation", metrics);
  flush();
}

void RunDirectory::append_decision(int64_t round, std::span<const double> decision) {
  const std::string path = file("decisions.csv");
  if (!decisions_) {
    const bool is_new = !fs::exists(path);
    decisions_.reset(open_append(path));
    if (is_new) append(decisions_.get(), path, decision_header(decision.size()) + "\n");
  }
  std::string line = fmt::format("{}", round);
  for (const double p : decision) line += fmt::format(",{:.9g}", p);
  append(decisions_.get(), path, line + "\n");
  check_written(decisions_.get(), path);
}

void RunDirectory::append_lines(const TableLines& table) {
  const std::string path = file(table.file);
  File& open = tables_[table.file];
  if (!open) {
    const bool is_new = !fs::exists(path);
    open.reset(open_append(path));
    if (is_new) append(open.get(), path, table.header + "\n");
  }
  append(open.get(), path, table.lines);
}

void RunDirectory::write_clients(std::span<const ClientEvaluation> clients, bool classification) {
  std::string text = "client,samples,loss,accuracy\n";
  for (std::size_t c = 0; c < clients.size(); ++c) {
    text += fmt::format("{},{},{:.9g},{}\n", c, static_cast<int64_t>(clients[c].samples),
                        clients[c].loss,
                        classification ? fmt::format("{:.9g}", clients[c].accuracy) : "");
  }
  write_text(file("clients.csv"), text);
}

void RunDirectory::write_partition(const Federation& federation) {
  if (federation.classes() == 0) return;
  std::string text = "client,label,train,test\n";
  const int64_t clients =
      std::min(federation.clients() + federation.held_out(), kMostPartitionClients);
  for (int64_t client = 0; client < clients; ++client) {
    std::map<int32_t, std::pair<int64_t, int64_t>> counts;
    const SampleRange train = federation.train(client);
    const SampleRange test = federation.test(client);
    const auto labels = [&](SampleRange range) {
      return federation.labels().subspan(static_cast<std::size_t>(range.begin),
                                         static_cast<std::size_t>(range.size()));
    };
    for (const int32_t label : labels(train)) ++counts[label].first;
    if (test.begin >= train.end) {  // else it has no test samples of its own
      for (const int32_t label : labels(test)) ++counts[label].second;
    }
    for (const auto& [label, count] : counts) {
      text += fmt::format("{},{},{},{}\n", client, label, count.first, count.second);
    }
  }
  write_text(file("partition.csv"), text);
}

void RunDirectory::write_summary(const std::string& json) {
  write_text(file("summary.json"), json);
}

void RunDirectory::flush() {
  check_written(rounds_.get(), file("rounds.csv"));
  check_written(evaluations_.get(), file("evaluations.csv"));
  for (const auto& [name, table] : tables_) check_written(table.get(), file(name));
  if (events_) events_->flush();
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
