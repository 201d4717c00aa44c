#include "watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/comm/mpi_environment.hpp"

namespace hanse {

namespace {

enum Tag : int { kQuestion, kAnswer };

constexpr double kAnswer_s = 2;               // for the others to answer
constexpr double kHeadStart_s = 0.05;         // of each rank over the next higher one ...
constexpr int kHeadStarts = 20;               // ... up to so many
constexpr double kBlocked_s = 3 * kAnswer_s;  // until the thread ends a rank that cannot ask
// For Patience:
constexpr double kUnsuspicious_s = 0.1;  // of a wait, before the watchdog may ask
constexpr long kShortestSleep_ns = 5'000;
constexpr long kLongestSleep_ns = 200'000;

constexpr std::size_t kNameLength = 256;
constexpr std::size_t kMostNamed = 8;

std::vector<std::string> host_names(MPI_Comm comm, int size) {
  std::vector<char> mine(kNameLength);
  gethostname(mine.data(), kNameLength - 1);
  std::vector<char> all(kNameLength * static_cast<std::size_t>(size));
  MPI_Allgather(mine.data(), kNameLength, MPI_CHAR, all.data(), kNameLength, MPI_CHAR, comm);
  std::vector<std::string> names;
  for (std::size_t at = 0; at < all.size(); at += kNameLength) names.emplace_back(&all[at]);
  return names;
}

}  // namespace

Watchdog::Watchdog(MPI_Comm comm) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  hosts_ = host_names(comm_, size_);
  answered_.resize(hosts_.size());
}

Watchdog::~Watchdog() {
  set_timeout(0, "");
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm_);
}

void Watchdog::set_timeout(double seconds, const std::string& way_on) {
  {
    const std::lock_guard lock(way_on_mutex_);
    way_on_ = way_on;
  }
  if (thread_.joinable() && seconds == timeout_s_) return;
  thread_ = {};  // the one before has ended
  timeout_s_ = seconds;
  waited_s_ = 0;
  if (seconds <= 0 || size_ == 1) return;
  // No signal is delivered to the thread: the ranks' handlers belong to the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { count(stop); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Watchdog::enter_phase(const char* phase, int64_t round) {
  phase_ = phase;
  round_ = round;
}

std::string Watchdog::hint() const {
  const std::lock_guard lock(way_on_mutex_);
  return "comm.timeout-seconds says how long ranks wait; 0: forever" +
         (way_on_.empty() ? "" : "; " + way_on_);
}

// The thread's loop. A tick counts for two at most, however long the process was stopped.
void Watchdog::count(const std::stop_token& stop) {
  const double tick_s = std::clamp(timeout_s_ / 10, 0.01, 1.0);
  uint64_t last_beat = 0;
  double last_s = monotonic_seconds();
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any ends;
  const std::chrono::duration<double> tick(tick_s);
  while (!ends.wait_for(lock, stop, tick, [&] { return stop.stop_requested(); })) {
    const uint64_t beat = beat_;
    const double now_s = monotonic_seconds();
    const bool same = beat % 2 == 1 && beat == last_beat;
    waited_s_ = same ? waited_s_ + std::min(now_s - last_s, 2 * tick_s) : 0;
    last_beat = beat;
    last_s = now_s;
    if (waited_s_ < timeout_s_ + kBlocked_s) continue;
    report_error(
        Error(fmt::format("rank {} on {} has waited {:.0f} s for other ranks, which do "
                          "not answer",
                          rank_, hosts_[static_cast<std::size_t>(rank_)], waited_s_.load()),
              place(), hint())
            .what());
    std::_Exit(static_cast<int>(ExitStatus::kFailed));
  }
}

void Watchdog::poll() {
  if (timeout_s_ <= 0) return;
  hear();
  if (yields_) return;
  const double head_start_s = kHeadStart_s * std::min(rank_, kHeadStarts);
  if (!question_ && waited_s_ >= timeout_s_ + head_start_s) ask_all();
  if (!question_ || monotonic_seconds() - asked_at_s_ <= kAnswer_s) return;
  // A rank that has answered may have stopped since: the second question finds it.
  const bool all_answered = std::count(answered_.begin(), answered_.end(), 1) == size_ - 1;
  if (all_answered && !asked_twice_) {
    std::fill(answered_.begin(), answered_.end(), 0);
    asked_twice_ = true;
    ask_all();
  } else {
    name_missing();
  }
}

void Watchdog::ask_all() {
  question_ = true;
  ++questions_;
  asked_at_s_ = monotonic_seconds();
  for (int rank = 0; rank < size_; ++rank) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == rank_) continue;
    MPI_Isend(&questions_, 1, MPI_INT64_T, rank, kQuestion, comm_, &request);
    MPI_Request_free(&request);
  }
}

void Watchdog::hear() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status);
    if (!there) return;
    int64_t question = 0;
    const int other = status.MPI_SOURCE;
    MPI_Recv(&question, 1, MPI_INT64_T, other, status.MPI_TAG, comm_, MPI_STATUS_IGNORE);
    const bool asks = status.MPI_TAG == kQuestion;
    if (asks || question == questions_) answered_[static_cast<std::size_t>(other)] = 1;
    if (!asks) continue;
    MPI_Send(&question, 1, MPI_INT64_T, other, kAnswer, comm_);
    if (!question_ || other < rank_) yields_ = true;
    question_ = true;
  }
}

// The rank that was waited for has come after all.
void Watchdog::forget() {
  question_ = false;
  yields_ = false;
  asked_twice_ = false;
  std::fill(answered_.begin(), answered_.end(), 0);
}

void Watchdog::name_missing() const {
  std::vector<std::string> missing;
  std::size_t count = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank == rank_ || answered_[at]) continue;
    if (++count <= kMostNamed) missing.push_back(fmt::format("rank {} on {}", rank, hosts_[at]));
  }
  if (count > kMostNamed) missing.push_back(fmt::format("{} more", count - kMostNamed));
  const std::string who = count > 0 ? join(missing, ", ") : "a rank";
  report_error(Error(fmt::format("{} did not come: rank {} has waited {:.0f} s", who, rank_,
                                 waited_s_.load()),
                     place(), hint())
                   .what());
  abort_all_ranks(static_cast<int>(ExitStatus::kFailed));
}

std::string Watchdog::place() const {
  return round_ > 0 ? fmt::format("round {}, {}", round_.load(), phase_.load()) : phase_.load();
}

void Patience::pause() {
  const double waited_s = monotonic_seconds() - start_s_;
  if (sleep_ns_ == 0) {
    sched_yield();
    if (waited_s > polls_s_) sleep_ns_ = kShortestSleep_ns;
    return;
  }
  if (waited_s > kUnsuspicious_s) watchdog_.poll();
  const timespec pause{0, sleep_ns_};
  nanosleep(&pause, nullptr);
  sleep_ns_ = std::min(2 * sleep_ns_, kLongestSleep_ns);
}

void Patience::renew() {
  start_s_ = monotonic_seconds();
  sleep_ns_ = 0;
}

}  // namespace hanse
