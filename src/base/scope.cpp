#include "hanse/base/scope.hpp"

#include <atomic>
#include <exception>
#include <utility>

#include "hanse/base/clock.hpp"
#include "hanse/base/simulated_time.hpp"

#ifdef HANSE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace hanse {

namespace {

constexpr std::array<const char*, kPhases> kNames = {
    "set-up",   "reading", "draw", "broadcast",  "losses",     "training", "wait",
    "products", "reduce",  "step", "evaluation", "checkpoint", "output",   "rest"};

std::atomic<const char*> shown{kNames.front()};
static_assert(std::atomic<const char*>::is_always_lock_free);

struct PhaseClock {
  PhaseTotals totals = {};
  bool is_shown = false;
  Phase phase = Phase::kSetUp;
  double since_s = run_seconds();

  // Turns to the phase `next` and returns the moment.
  double turn(Phase next) {
    const double now_s = run_seconds();
    totals[static_cast<std::size_t>(phase)].seconds += now_s - since_s;
    phase = next;
    since_s = now_s;
    if (is_shown) shown.store(kNames[static_cast<std::size_t>(next)], std::memory_order_relaxed);
    return now_s;
  }
};

// A thread is a rank, in tests at least.
thread_local PhaseClock clock_of_thread;
// The innermost phase that the exception has left which is under way, or was the last.
thread_local Phase left_by_failure = Phase::kSetUp;
thread_local int unwound = 0;  // std::uncaught_exceptions() when it was noted
thread_local bool records = false;
thread_local std::vector<Span> spans;

#ifdef HANSE_NVTX

nvtxDomainHandle_t nvtx_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("hanse");
  return domain;
}

// `payload`: a number that stands beside the name; below 0: none.
void open_range(const char* name, int64_t payload = -1) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  if (payload >= 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    attributes.payload.llValue = payload;
  }
  nvtxDomainRangePushEx(nvtx_domain(), &attributes);
}

void close_range() { nvtxDomainRangePop(nvtx_domain()); }

#else

void open_range(const char*, int64_t = -1) {}
void close_range() {}

#endif

}  // namespace

const char* phase_name(Phase phase) { return kNames[static_cast<std::size_t>(phase)]; }

const char* shown_phase() { return shown; }

Phase failed_phase() { return unwound > 0 ? left_by_failure : clock_of_thread.phase; }

void begin_phases(double start_s) {
  clock_of_thread = {.is_shown = true, .since_s = start_s};
  clock_of_thread.totals.front().calls = 1;
}

PhaseTotals phase_totals() {
  clock_of_thread.turn(clock_of_thread.phase);
  return clock_of_thread.totals;
}

void record_spans(bool record) {
  records = record;
  spans.clear();
}

std::vector<Span> take_spans() { return std::exchange(spans, {}); }

Scope::Scope(Phase phase, double* total_s)
    : kind_(Kind::kPhase),
      outer_(clock_of_thread.phase),
      span_{phase_name(phase), clock_of_thread.turn(phase), 0},
      total_s_(total_s) {
  ++clock_of_thread.totals[static_cast<std::size_t>(phase)].calls;
  open_range(span_.name);
}

Scope::Scope(Phase phase, double& total_s, const double& apart_s) : Scope(phase, &total_s) {
  apart_s_ = &apart_s;
  apart_before_s_ = apart_s;
}

Scope::Scope(const char* name, int64_t client, int64_t bytes, double* total_s)
    : kind_(Kind::kName),
      span_{records && !time_is_declared() ? name : nullptr, 0, 0, client, bytes},
      total_s_(total_s) {
  open_range(name, client >= 0 ? client : bytes);
  if (span_.name || total_s_) span_.start_s = run_seconds();
}

Scope::Scope(double& total_s)
    : kind_(Kind::kTotal), span_{nullptr, run_seconds(), 0}, total_s_(&total_s) {}

Scope::~Scope() {
  const int unwinding = std::uncaught_exceptions();
  if (unwinding > unwound) left_by_failure = clock_of_thread.phase;
  unwound = unwinding;
  if (kind_ == Kind::kPhase) {
    span_.end_s = clock_of_thread.turn(outer_);
  } else if (span_.name || total_s_) {
    span_.end_s = run_seconds();
  }
  if (kind_ != Kind::kTotal) close_range();
  if (total_s_) *total_s_ += span_.end_s - span_.start_s;
  if (apart_s_) *total_s_ -= *apart_s_ - apart_before_s_;
  if (records && span_.name) spans.push_back(span_);
}

}  // namespace hanse
