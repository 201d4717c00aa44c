// Progress of a run: one line that updates on a terminal, a line every few seconds in a log file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace hanse {

struct ProgressStatus {
  int64_t round = 0;         // completed rounds
  int64_t rounds = 0;        // rounds of the whole run; 0: nobody knows
  double loss = 0;           // last mean training loss
  double accuracy = -1;      // last evaluated mean accuracy in [0, 1]; negative: not known
  int64_t evaluated = 0;     // the round of `accuracy`
  std::string samples = {};  // the samples of `accuracy`: "training "
};

class Progress {
 public:
  // Writes to `out`. `first_round` rounds were done before (a resumed run). `enabled` = false makes
  // an object that prints nothing (ranks other than 0).
  Progress(std::FILE* out, int64_t first_round, bool enabled);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Prints when the last print is old enough: 0.1 s on a terminal, 5 s elsewhere. Cost when
  // nothing is due: one clock read.
  void update(const ProgressStatus& status);
  // Prints the last status for good.
  void finish(const ProgressStatus& status);

 private:
  void print(const ProgressStatus& status, double now_s, bool last);

  std::FILE* out_;
  int64_t first_round_;
  bool enabled_;
  bool terminal_;
  bool open_line_ = false;
  double start_s_;
  double printed_s_;
};

// "1.2 s", "3 min 20 s", "2 h 5 min".
std::string duration_text(double seconds);

}  // namespace hanse
