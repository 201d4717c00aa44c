#include "hanse/base/progress.hpp"

#include <cmath>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/mpirun.hpp"

namespace hanse {

std::string duration_text(double seconds) {
  if (!(seconds < 1e9)) return "unknown";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

namespace {

// mpirun reads its ranks' stderr through a pipe and writes it to its own: its stderr decides.
bool launcher_shows_terminal() {
  const int launcher = mpirun_process();
  if (launcher == 0) return false;
  struct stat status = {};
  const bool found = stat(fmt::format("/proc/{}/fd/2", launcher).c_str(), &status) == 0;
  constexpr unsigned kFirstPty = 136, kLastPty = 143, kConsole = 4;  // major device numbers
  const unsigned device = found && S_ISCHR(status.st_mode) ? major(status.st_rdev) : 0;
  return device == kConsole || (device >= kFirstPty && device <= kLastPty);
}

bool is_terminal(std::FILE* out) {
  return isatty(fileno(out)) != 0 || (out == stderr && launcher_shows_terminal());
}

}  // namespace

Progress::Progress(std::FILE* out, int64_t first_round, bool enabled)
    : out_(out),
      first_round_(first_round),
      enabled_(enabled),
      terminal_(is_terminal(out)),
      start_s_(monotonic_seconds()),
      printed_s_(start_s_) {}

Progress::~Progress() {
  if (open_line_) std::fputc('\n', out_);
}

void Progress::update(const ProgressStatus& status) {
  if (!enabled_) return;
  const double now_s = monotonic_seconds();
  if (now_s - printed_s_ < (terminal_ ? 0.1 : 5.0)) return;
  print(status, now_s, false);
}

void Progress::finish(const ProgressStatus& status) {
  if (enabled_) print(status, monotonic_seconds(), true);
}

void Progress::print(const ProgressStatus& status, double now_s, bool last) {
  const double elapsed_s = now_s - start_s_;
  const auto done = static_cast<double>(status.round - first_round_);
  const double rate = elapsed_s > 0 ? done / elapsed_s : 0;
  const auto left = static_cast<double>(status.rounds - status.round);
  std::string line = fmt::format("round {}", status.round);
  if (status.rounds > 0) line += fmt::format("/{}", status.rounds);
  if (!std::isnan(status.loss)) line += fmt::format("  loss {:.4f}", status.loss);
  if (status.accuracy >= 0) {
    line += fmt::format("  {}accuracy {:.2f}%", status.samples, 100 * status.accuracy);
    if (status.evaluated < status.round) line += fmt::format(" of round {}", status.evaluated);
  }
  line += fmt::format("  {:.1f} rounds/s", rate);
  if (!last && status.rounds > 0) line += fmt::format("  {} left", rate > 0 ? duration_text(left / rate) : "unknown");
  if (terminal_) {
    fmt::print(out_, "\r\033[K{}{}", line, last ? "\n" : "");
    open_line_ = !last;
  } else {
    fmt::print(out_, "{}\n", line);
  }
  std::fflush(out_);
  printed_s_ = now_s;
}

}  // namespace hanse
