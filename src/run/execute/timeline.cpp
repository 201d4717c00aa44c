#include "timeline.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>

#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/comm/agreement.hpp"
#include "json_text.hpp"

namespace hanse {

namespace {

constexpr double kFlush_s = 0.2;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Removes the last bracket, and what a kill has torn. Returns time 0 of the file, in seconds since
// the epoch; 0: there is no file to go on with.
double reopen(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  int64_t whole = 0;  // bytes of whole events
  double zero_s = 0;
  while (std::getline(file, line)) {
    if (file.eof() || (line != "[" && !line.ends_with(","))) break;
    whole += std::ssize(line) + 1;
    if (line.find("epoch_seconds") == std::string::npos) continue;
    line.pop_back();
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object()) zero_s = event["args"].value("epoch_seconds", 0.0);
  }
  file.close();
  if (zero_s > 0) std::filesystem::resize_file(path, static_cast<std::uintmax_t>(whole));
  return zero_s;
}

template <class Number>
void append(std::string& text, Number value) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// "12.345" microseconds.
void append_microseconds(std::string& text, double seconds) {
  const int64_t ns = std::llround(1e9 * std::max(0.0, seconds));
  append(text, ns / 1000);
  const int64_t rest = ns % 1000;
  text += rest < 10 ? ".00" : rest < 100 ? ".0" : ".";
  append(text, rest);
}

std::string meta(const char* name, int rank, const nlohmann::json& arguments) {
  return json_dump({{"ph", "M"}, {"name", name}, {"pid", 0}, {"tid", rank}, {"args", arguments}}) +
         ",\n";
}

}  // namespace

Timeline::Timeline(const std::string& path, const std::string& run_name, Communicator& comm,
                   const Federation& federation)
    : comm_(comm), federation_(federation) {
  double zero_s = 0;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    zero_s = reopen(path);
    const bool goes_on = zero_s > 0;
    file_ = std::make_unique<GrowingFile>(path, goes_on ? "ae" : "we");
    if (goes_on) return;
    zero_s = wall_seconds();
    file_->append("[\n" + meta("process_name", 0, {{"name", run_name}, {"epoch_seconds", zero_s}}));
  });
  comm.bcast(std::span(&zero_s, 1), 0);
  // Simulated ranks have one time, and a resumed one begins anew.
  zero_s_ = run_seconds() - (time_is_simulated() ? 0 : wall_seconds() - zero_s);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string mine =
      meta("thread_name", comm.rank(), {{"name", fmt::format("rank {} on {}", comm.rank(), host)}});
  const auto all = comm.gatherv(std::span(mine.data(), mine.size()), 0);
  if (file_) file_->append({all.begin(), all.end()});
  record_spans(true);
}

Timeline::~Timeline() { record_spans(false); }

bool Timeline::is_due() const { return monotonic_seconds() - flushed_s_ > kFlush_s; }

void Timeline::flush() {
  std::string mine;
  for (const Span& span : take_spans()) {
    mine += R"({"ph":"X","pid":0,"tid":)";
    append(mine, comm_.rank());
    mine += R"(,"ts":)";
    append_microseconds(mine, span.start_s - zero_s_);
    mine += R"(,"dur":)";
    append_microseconds(mine, span.end_s - span.start_s);
    mine += R"(,"name":)";
    if (span.client >= 0) {
      mine += json_dump(client_label(federation_, span.client));
    } else {
      mine.append("\"").append(span.name).append("\"");
    }
    if (span.bytes >= 0) {
      mine += R"(,"args":{"bytes":)";
      append(mine, span.bytes);
      mine += "}";
    }
    mine += "},\n";
  }
  const auto all = comm_.gatherv(std::span<const char>(mine.data(), mine.size()), 0);
  flushed_s_ = monotonic_seconds();
  if (!file_) return;
  file_->append({all.begin(), all.end()});
  file_->flush();
}

void Timeline::close() {
  flush();
  if (!file_) return;
  // Every event ends with a comma; the last one is this.
  file_->append(R"({"ph":"M","name":"process_labels","pid":0,"args":{"labels":"whole"}})"
                "\n]\n");
  file_->flush();
}

}  // namespace hanse
