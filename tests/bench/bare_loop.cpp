// What a round costs without a framework: the same kernels, steps, shuffle and batch gather for the
// same participants, and a float32 average; no ranks, no exact sum, no records.
//   hanse-bare-loop JOB.cfg [--section.key=value ...]
// prints {"rounds": n, "seconds_per_round_median": x}.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "bench_job.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/run/assembly.hpp"

namespace {

using namespace hanse;

// What the loop trains with.
struct Loop {
  const Federation& federation;
  std::unique_ptr<ClientSampler> sampler;
  std::unique_ptr<LocalUpdate> update;
};

double round_seconds(const Job& job, Loop& parts, int64_t round, AlignedFloats& theta,
                     AlignedFloats& row, AlignedFloats& average) {
  const double start_s = monotonic_seconds();
  const auto seed = static_cast<uint64_t>(job.run.seed);
  RandomStream stream(seed, Purpose::kSampling, static_cast<uint64_t>(round));
  const Draw draw = parts.sampler->draw(round, parts.sampler->per_round(), stream);
  double samples = 0;
  for (const int64_t client : draw.clients) {
    samples += static_cast<double>(parts.federation.train(client).size());
  }
  std::fill(average.begin(), average.end(), 0.0F);
  for (const int64_t client : draw.clients) {
    std::copy(theta.begin(), theta.end(), row.begin());
    parts.update->train({.client = client, .round = round, .seed = seed, .row = row, .state = {}});
    const auto weight =
        static_cast<float>(static_cast<double>(parts.federation.train(client).size()) / samples);
    for (std::size_t i = 0; i < row.size(); ++i) average[i] += weight * row[i];
  }
  theta.swap(average);
  return monotonic_seconds() - start_s;
}

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) try {
  KeyedJob job(catalog());
  load_bench_job(argc, argv, job);
  const auto comm = make_single_communicator();
  const auto assembly = assemble(job, *comm);
  const Federation& federation = assembly->federation;
  Loop parts{.federation = federation,
             .sampler = make_sampler(job, federation),
             .update = make_update(job, federation, *assembly->model, {})};
  assembly->protocol().initialize_model();
  const auto initial = assembly->protocol().model_row();
  AlignedFloats theta(initial.begin(), initial.end());
  AlignedFloats row(theta.size());
  AlignedFloats average(theta.size());
  std::vector<double> seconds;
  for (int64_t round = 1; round <= job.run.rounds; ++round) {
    seconds.push_back(round_seconds(job, parts, round, theta, row, average));
  }
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  fmt::print("{{\"rounds\": {}, \"seconds_per_round_median\": {:.9g}}}\n", job.run.rounds,
             seconds[seconds.size() / 2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hanse-bare-loop: error: %s\n", error.what());
  return 2;
}
