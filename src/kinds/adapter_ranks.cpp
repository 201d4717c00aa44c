#include "hanse/kinds/adapter_ranks.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "named_clients.hpp"

namespace hanse {

namespace {

constexpr const char* kForm = "client,rank";
constexpr double kMost = 1024;

int64_t rank_in(double number, int64_t most, const std::string& where) {
  if (!(number >= 1 && number <= kMost) || std::trunc(number) != number) {
    throw InvalidArgument(fmt::format("a rank of {:g} is no whole number in [1, 1024]", number),
                          where, fmt::format("a line is: {}", kForm));
  }
  const auto rank = static_cast<int64_t>(number);
  if (rank <= most) return rank;
  throw InvalidArgument(fmt::format("a rank of {} is above client.lora = {}", rank, most), where,
                        "client.lora is the largest of the ranks");
}

}  // namespace

std::vector<int64_t> read_adapter_ranks(const std::string& path, int64_t clients,
                                        const Names& names, int64_t most) {
  return numbers_of_clients(
      path, "ranks of the clients", kForm, clients, names,
      [&](double number, const std::string& where) { return rank_in(number, most, where); });
}

}  // namespace hanse
