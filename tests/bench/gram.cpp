// How fast the Gram matrix of rows on several ranks is, beside the same product on one core's data:
//   mpirun -n 2 build/hanse-bench-gram [ROWS] [VALUES]      default: 100 rows of 10^6 values
// Prints for each of five repeats: seconds of the exchange and products, GF/s of all ranks, and the
// GF/s of as many bare cblas_dsyrk calls of the same shapes at once, one a rank, on data in place.
#include "hanse/sums/gram.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <cblas.h>

#include "hanse/base/clock.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "hanse/model/threads.hpp"

namespace hanse {
namespace {

// Seconds of the products that the busiest rank has to make, without reading or sending rows.
double bare_seconds(int64_t rows, int64_t values, int ranks) {
  constexpr int64_t kPiece = GramExchange::kPiece;
  const std::vector<double> panel(static_cast<std::size_t>(rows * kPiece), 0.5);
  std::vector<double> result(static_cast<std::size_t>(rows * rows));
  const double start_s = monotonic_seconds();
  for (int64_t done = 0; done < values / ranks; done += kPiece) {
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, static_cast<int>(rows),
                static_cast<int>(kPiece), 1, panel.data(), static_cast<int>(kPiece), 1,
                result.data(), static_cast<int>(rows));
  }
  return monotonic_seconds() - start_s;
}

int run(int64_t rows, int64_t values) {
  const MpiEnvironment environment;
  const auto comm = make_mpi_communicator();
  set_model_threads(1);
  std::vector<std::vector<float>> mine;
  std::vector<OwnedRow> owned;
  for (int64_t row = comm->rank(); row < rows; row += comm->size()) {
    mine.emplace_back(static_cast<std::size_t>(values), 0.25F + static_cast<float>(row));
    owned.push_back({row, {}});
  }
  for (std::size_t i = 0; i < mine.size(); ++i) owned[i].values = mine[i];
  GramExchange exchange(*comm, {{0, values}});
  const double operations =
      static_cast<double>(rows) * static_cast<double>(rows + 1) * static_cast<double>(values);
  for (int repeat = 0; repeat < 5; ++repeat) {
    comm->barrier();
    const double start_s = monotonic_seconds();
    exchange.gram(owned, rows);
    comm->barrier();
    const double seconds = monotonic_seconds() - start_s;
    const double bare =
        comm->allreduce_one(bare_seconds(rows, values, comm->size()), ReduceOp::kMax);
    if (comm->rank() == 0) {
      std::printf("%.4f %.1f %.1f\n", seconds, operations / seconds / 1e9, operations / bare / 1e9);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hanse

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) {
  return hanse::run(argc > 1 ? std::atoll(argv[1]) : 100, argc > 2 ? std::atoll(argv[2]) : 1000000);
}
