#include "hanse/kinds/adapter_ranks.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "lines.hpp"
#include "named_clients.hpp"

namespace hanse {

namespace {

constexpr const char* kForm = "client,rank";
constexpr double kMost = 1024;

int64_t rank_in(double number, int64_t most, const std::string& where) {
  if (!(number >= 1 && number <= kMost) || std::trunc(number) != number) {
    throw InvalidArgument(fmt::format("a rank of {:g} is no whole number in [1, 1024]", number),
                          where, "a line is: client,rank");
  }
  const auto rank = static_cast<int64_t>(number);
  if (rank <= most) return rank;
  throw InvalidArgument(fmt::format("a rank of {} is above client.lora = {}", rank, most), where,
                        "client.lora is the largest of the ranks");
}

}  // namespace

std::vector<int64_t> read_adapter_ranks(const std::string& path, int64_t clients,
                                        const Names& names, int64_t most) {
  const NamedClients named(clients, names);
  std::vector<int64_t> ranks(to_index(clients), 0);
  each_line(path, "ranks of the clients", kForm,
            [&](const std::string& line, int64_t, const std::string& where) {
              if (line == kForm) return;
              const std::vector<double> fields = fields_of(line, kForm, named, where);
              int64_t& rank = ranks[static_cast<std::size_t>(fields[0])];
              if (rank != 0) throw InvalidArgument("a second line of this client", where);
              rank = rank_in(fields[1], most, where);
            });
  for (int64_t client = 0; client < clients; ++client) {
    if (ranks[to_index(client)] != 0) continue;
    throw InvalidArgument(
        fmt::format("{} has no line", label_of("client", client, names.at(client))), path,
        "each client has one: client,rank");
  }
  return ranks;
}

}  // namespace hanse
