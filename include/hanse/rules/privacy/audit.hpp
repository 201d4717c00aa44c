// What runs with and without a client tell of it: a lower bound of epsilon.
#pragma once

#include <cstdint>
#include <vector>

namespace hanse {

// A score of each run's model, in runs with the client and in runs without it.
struct AuditScores {
  std::vector<double> with, without;
};

// The event that a score is above `threshold`, or with `is_above` false that it is not, and in how
// many of `runs` runs of each kind it came.
struct AuditEvent {
  double threshold = 0;
  bool is_above = true;
  int64_t runs = 0, with = 0, without = 0;
};

struct AuditBound {
  double epsilon = 0;  // at least; 0: nothing is shown
  AuditEvent event;    // that shows it
};

// The bounds of the probability of what came `count` times of `runs`, each wrong with probability
// `error` (Clopper and Pearson 1934). REQUIRES: 0 <= count <= runs, runs >= 1.
double least_probability(int64_t count, int64_t runs, double error);
double most_probability(int64_t count, int64_t runs, double error);

// An epsilon below which the runs cannot be (epsilon, delta)-private, right with probability
// `confidence`: the first half of the scores chooses the event, the second alone counts how often
// it came. An event of the runs with the client has P <= e^epsilon P' + delta, P' without it, and
// one of those without it the same the other way round. Both probabilities are bounded, with half
// of the error each. REQUIRES: as many scores with as without, 4 at least.
AuditBound audited_epsilon(const AuditScores& scores, double delta, double confidence);

// How often the second half's scores are above each threshold among them: the trade-off curve.
struct TradeOff {
  double threshold, without, with;  // false and true positives, of all
};
std::vector<TradeOff> trade_off(const AuditScores& scores);

}  // namespace hanse
