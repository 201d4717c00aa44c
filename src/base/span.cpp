#include "hanse/base/span.hpp"

#include <utility>

#include "hanse/base/clock.hpp"
#include "hanse/base/simulated_time.hpp"
#include "nvtx_range.hpp"

namespace hanse {

namespace {

// A thread is a rank, in tests at least.
thread_local bool records = false;
thread_local std::vector<Span> spans;

}  // namespace

void record_spans(bool record) {
  records = record;
  spans.clear();
}

void add_span(const Span& span) {
  if (records) spans.push_back(span);
}

std::vector<Span> take_spans() { return std::exchange(spans, {}); }

InSpan::InSpan(const char* name, int64_t client, int64_t bytes)
    : span_{records && !time_is_declared() ? name : nullptr, 0, 0, client, bytes} {
  open_range(name, client >= 0 ? client : bytes);
  if (span_.name) span_.start_s = run_seconds();
}

InSpan::~InSpan() {
  close_range();
  if (!span_.name) return;
  span_.end_s = run_seconds();
  add_span(span_);
}

}  // namespace hanse
