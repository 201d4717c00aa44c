// What a rank did when: phases, clients and messages, recorded for run.timeline.
#pragma once

#include <cstdint>
#include <vector>

namespace hanse {

struct Span {
  const char* name;       // a literal
  double start_s, end_s;  // of run_seconds()
  int64_t client = -1;
  int64_t bytes = -1;  // of a message, on this rank
};

// Does this thread record from now on? At first it does not.
void record_spans(bool record);
// Forgotten by a thread that does not record.
void add_span(const Span& span);
// What the thread has recorded since the last call, in the order in which it ended.
std::vector<Span> take_spans();

// A span for as long as the object lives. Cost where nothing is recorded: a comparison.
class InSpan {
 public:
  explicit InSpan(const char* name, int64_t client = -1, int64_t bytes = -1);
  ~InSpan();
  InSpan(const InSpan&) = delete;
  InSpan& operator=(const InSpan&) = delete;

 private:
  Span span_;
};

}  // namespace hanse
