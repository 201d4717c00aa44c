#include "hold_out.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "partition_stream.hpp"

namespace hanse {

namespace {

int64_t number_of(double wanted, int64_t clients) {
  if (!(wanted >= 0) || (wanted >= 1 && wanted != std::floor(wanted))) {
    throw InvalidArgument(fmt::format("cannot hold out {} clients", number_text(wanted)),
                          "federation.held-out", "a share below 1, or a whole number");
  }
  const double number = wanted < 1 ? std::round(wanted * static_cast<double>(clients)) : wanted;
  if (number >= static_cast<double>(clients)) {
    throw InvalidArgument(
        fmt::format("holding {} of {} clients out leaves nobody to train", number, clients),
        "federation.held-out", "hold fewer out");
  }
  return static_cast<int64_t>(number);
}

}  // namespace

void hold_out(std::vector<ClientRanges>& clients, int64_t& held_out, double wanted, uint64_t seed) {
  const int64_t there = static_cast<int64_t>(clients.size()) - held_out;
  const int64_t number = number_of(wanted, there);
  if (number == 0) return;
  std::vector<int64_t> order(static_cast<std::size_t>(there));
  std::iota(order.begin(), order.end(), 0);
  partition_stream(seed, PartitionStream::kHeldOut).shuffle(std::span<int64_t>(order));
  std::vector<char> chosen(order.size());
  for (int64_t i = 0; i < number; ++i) {
    chosen[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = 1;
  }
  std::vector<ClientRanges> last;
  std::size_t kept = 0;
  for (std::size_t c = 0; c < chosen.size(); ++c) {
    if (chosen[c]) {
      last.push_back(clients[c]);
    } else {
      clients[kept++] = clients[c];
    }
  }
  std::copy(last.begin(), last.end(), clients.begin() + static_cast<int64_t>(kept));
  held_out += number;
}

}  // namespace hanse
