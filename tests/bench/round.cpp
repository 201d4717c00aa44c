// What a round costs beside its arithmetic: rounds of the trainer with the lines of their tables,
// in turn with the same training and the same exact sum in a bare loop, in one process; processor
// time.
//   hanse-bench-round JOB.cfg FOLDER [--section.key=value ...]
// FOLDER gets the tables. Prints the medians over run.rounds pairs, behind a tenth that warms up:
//   {"rounds": n, "seconds_per_round": x, "arithmetic_seconds": y, "share_beside": z}
// z is the median of 1 - arithmetic / round over the pairs.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include <fmt/format.h>

#include "bench_job.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/store/run_directory.hpp"
#include "hanse/sums/update_sum.hpp"

namespace {

using namespace hanse;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The arithmetic of a round: training of its participants and the exact sum of their updates.
class Arithmetic {
 public:
  Arithmetic(const Job& job, Assembly& assembly, std::span<const float> start)
      : seed_(static_cast<uint64_t>(job.run.seed)),
        federation_(assembly.federation),
        sampler_(make_sampler(job, federation_)),
        update_(make_update(job, federation_, *assembly.model, {})),
        theta_(start.begin(), start.end()),
        row_(start.begin(), start.end()),
        moved_(start.size()),
        sum_(std::ssize(start), 2 * sampler_->per_round(), Reduction::kExact) {}

  // Draws whom to train, which is no arithmetic.
  void draw(int64_t round) {
    RandomStream stream(seed_, Purpose::kSampling, static_cast<uint64_t>(round));
    clients_ = sampler_->draw(round, sampler_->per_round(), stream).clients;
  }

  void train(int64_t round) {
    const FlushSubnormals flush;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const int64_t next = i + 1 < clients_.size() ? clients_[i + 1] : -1;
      update_->train({.client = clients_[i],
                      .round = round,
                      .seed = seed_,
                      .row = row_,
                      .state = {},
                      .next = next});
      sum_.fold(row_, theta_, 1 / static_cast<double>(clients_.size()));
    }
    sum_.take(moved_);
    for (std::size_t i = 0; i < theta_.size(); ++i) theta_[i] += moved_[i];
    row_ = theta_;
  }

 private:
  uint64_t seed_;
  const Federation& federation_;
  std::unique_ptr<ClientSampler> sampler_;
  std::unique_ptr<LocalUpdate> update_;
  std::vector<int64_t> clients_;
  AlignedFloats theta_, row_, moved_;
  UpdateSum sum_;
};

void measure(const KeyedJob& job, const std::string& folder) {
  const auto comm = make_single_communicator();
  const auto assembly = assemble(job, *comm);
  Protocol& protocol = assembly->protocol();
  protocol.initialize_model();
  Arithmetic arithmetic(job, *assembly, protocol.model_row());
  auto directory = RunDirectory::create(folder, "", protocol.columns().of_round(0));
  const int64_t warm = job.run.rounds / 10;
  std::vector<double> rounds, bare, beside;
  for (int64_t round = 1; round <= warm + job.run.rounds; ++round) {
    arithmetic.draw(round);
    const double start_s = processor_seconds();
    arithmetic.train(round);
    const double between_s = processor_seconds();
    const RoundRecord record = protocol.round(false);
    if (record.failed) std::rethrow_exception(protocol.failure());
    directory.append_round(record);
    for (const TableLines& table : protocol.take_lines()) directory.append_lines(table);
    const double end_s = processor_seconds();
    if (round <= warm) continue;
    bare.push_back(between_s - start_s);
    rounds.push_back(end_s - between_s);
    beside.push_back(1 - bare.back() / rounds.back());
  }
  fmt::print(
      "{{\"rounds\": {}, \"seconds_per_round\": {:.9g}, \"arithmetic_seconds\": {:.9g}, "
      "\"share_beside\": {:.6g}}}\n",
      job.run.rounds, median(rounds), median(bare), median(beside));
}

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) try {
  if (argc < 3) throw InvalidArgument("hanse-bench-round needs a job file and a folder");
  const std::string folder = argv[2];
  std::vector<char*> words(argv, argv + argc);
  words.erase(words.begin() + 2);
  KeyedJob job(catalog());
  load_bench_job(argc - 1, words.data(), job);
  measure(job, folder);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hanse-bench-round: error: %s\n", error.what());
  return 2;
}
