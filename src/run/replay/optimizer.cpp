#include <fmt/format.h>

#include "families.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/protocol/checked_rules.hpp"

namespace hanse {

namespace {

std::vector<float> to_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Json replay_optimizer(const Json& trace, const Job& job, bool checks) {
  const std::size_t n = field(trace, "theta", "trace").size();
  std::vector<float> theta = to_floats(numbers(trace, "theta", n, -INFINITY, "trace"));
  const auto n_params = static_cast<int64_t>(n);
  const int64_t clients = trace.contains("clients") ? clients_of(trace) : 1;
  const auto make = [&] { return make_optimizer(job, clients, n_params); };
  const auto round = std::make_shared<int64_t>(0);
  const auto optimizer = checks ? checked_optimizer("server.optimizer = " + job.server.optimizer,
                                                    make, n_params, round)
                                : make();
  return each_round(trace, [&](const Json& given, const std::string& where) -> Json {
    const auto update = to_floats(numbers(given, "update", n, -INFINITY, where));
    optimizer->step(theta, update, server_rate(job.server, ++*round));
    return {{"theta", theta}};
  });
}

}  // namespace hanse
