#include "own_columns.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "hanse/base/clock.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

namespace {

struct TrialBlock {
  explicit TrialBlock(const ColumnTrial& trial)
      : values(to_index(trial.participants * width_of(trial))),
        weights(to_index(trial.participants), 1 / static_cast<double>(trial.participants)),
        step(to_index(width_of(trial))) {
    RandomStream stream(1, Purpose::kData);
    for (double& value : values) value = stream.normal();
  }
  static int64_t width_of(const ColumnTrial& trial) {
    return std::min(trial.n_params, RowExchange::kPiece);
  }

  std::vector<double> values, weights, step;
};

}  // namespace

std::unique_ptr<ColumnFunction> make_tried_columns(const Job& job, int64_t clients,
                                                   const ColumnTrial& trial, Communicator& comm) {
  std::unique_ptr<ColumnFunction> columns;
  std::string file;
  agree_on(comm, [&] {
    columns = own_columns_of(job, clients);
    file = file_digest_hex(job.aggregator.own.path, 0);
  });
  const std::string hint = "each rank computes some columns: copy it to the ranks' hosts";
  require_same(comm, "files of aggregator.path", file, hint);
  TrialBlock block(trial);
  agree_on(comm, [&] { columns->step(block.values, block.weights, block.step); });
  require_same(comm, "results of columns() on a trial block",
               digest_hex(std::as_bytes(std::span(block.step))),
               "use one Python, one numpy and one family of processors on all hosts");
  return columns;
}

double seconds_of_columns(ColumnFunction& columns, const ColumnTrial& trial) {
  TrialBlock block(trial);
  const double start_s = monotonic_seconds();
  columns.step(block.values, block.weights, block.step);
  return (monotonic_seconds() - start_s) * static_cast<double>(trial.n_params) /
         static_cast<double>(block.step.size());
}

}  // namespace hanse
