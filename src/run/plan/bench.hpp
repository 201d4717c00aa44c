// Clients of a job, trained and evaluated on several threads at once, timed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "team.hpp"
#include "trial.hpp"

namespace hanse {

inline constexpr std::size_t kMostKnots = 5;  // sizes of clients that are measured

// Clients of about one size, measured.
struct Knot {
  int64_t position = 0;  // in the order of sizes
  std::vector<double> sizes;
  std::vector<double> seconds;

  // Without the first, which warms caches, where there are others. Not the median: where other
  // work has a share of the cores, rounds take the mean.
  static double mean(const std::vector<double>& values);
};

// A rank's threads with what each of them trains with. Thread 0 has the job's own model.
class Bench {
 public:
  // `parts` must outlive it.
  Bench(const Job& job, FederatedAssembly& parts, int64_t threads);

  // Participations of the median client, the largest, the smallest and those at the quartiles, for
  // two seconds once each size has been seen. All throw what training throws.
  std::vector<Knot> train();
  // Seconds a sample, by clients around the median for half a second.
  double evaluate();
  // A participation of the median client.
  double train_one();
  // What making the median client's own model takes, over a participation.
  double own_share();
  // measure(trial, thread) on all threads at once; the mean.
  double mean_s(const std::function<double(Trial&, int64_t)>& measure);
  Trial& first() { return *trials_.front(); }
  // A client whose batches are as large as any; the largest when each is one batch.
  int64_t whole_client() const;

 private:
  int64_t near(int64_t position, int64_t offset) const;
  std::vector<Knot> knots() const;

  FederatedAssembly& parts_;
  Team team_;
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<std::unique_ptr<LocalUpdate>> updates_;
  std::vector<std::unique_ptr<Trial>> trials_;
  std::vector<int64_t> by_size_;  // clients by the samples they process
};

}  // namespace hanse
