#include "hanse/rules/attack/options.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

constexpr const char* kForms = "a number, a share below 1, or ids: 3, 7 (a single one: 3,)";

InvalidArgument no_clients(std::string_view text) {
  return InvalidArgument(fmt::format("'{}' names no clients", text), "", kForms);
}

std::vector<int64_t> ids_of(std::string_view text) {
  std::vector<int64_t> ids;
  for (const std::string& item : split_list(text)) {
    if (item.empty()) continue;
    const auto id = number_in(item);
    if (!id || *id < 0 || *id != std::floor(*id) || *id > 1e15) throw no_clients(text);
    ids.push_back(static_cast<int64_t>(*id));
  }
  std::ranges::sort(ids);
  if (std::ranges::adjacent_find(ids) != ids.end()) {
    throw InvalidArgument(fmt::format("'{}' names a client twice", text), "", kForms);
  }
  return ids;
}

// As many as the options say of so many. A share that is a whole number of clients but for rounding
// is that number.
int64_t count_of(const AttackingClients& who, int64_t clients) {
  if (who.number >= 1) return static_cast<int64_t>(who.number);
  return static_cast<int64_t>(std::ceil(who.number * static_cast<double>(clients) * (1 - 1e-12)));
}

}  // namespace

AttackingClients AttackingClients::parse(std::string_view text) {
  if (text.find(',') != std::string_view::npos) {
    AttackingClients found{.ids = ids_of(text)};
    if (found.none()) throw no_clients(text);
    return found;
  }
  const auto number = number_in(text);
  if (number && std::isfinite(*number) && *number >= 0 && *number <= 1e15 &&
      (*number < 1 || *number == std::floor(*number))) {
    return {.number = *number};
  }
  throw no_clients(text);
}

std::string AttackingClients::text() const {
  if (ids.empty()) return fmt::format("{}", number);
  return fmt::format("{}{}", fmt::join(ids, ","), ids.size() == 1 ? "," : "");
}

int64_t idle_attackers(const AttackOptions& options) {
  if (!options.is_on() || !options.idle) return 0;
  return static_cast<int64_t>(options.clients.number);
}

std::vector<int64_t> attacking_clients(const AttackOptions& options, int64_t clients,
                                       uint64_t seed) {
  if (!options.is_on()) return {};
  const std::vector<int64_t>& ids = options.clients.ids;
  if (!ids.empty() && ids.back() >= clients) {
    throw InvalidArgument(fmt::format("there is no client {} among {}", ids.back(), clients),
                          "attack.clients", "ids count from 0");
  }
  const int64_t count = ids.empty() ? count_of(options.clients, clients) : std::ssize(ids);
  if (count >= clients) {
    throw InvalidArgument(
        fmt::format("{} of {} clients attack, and none is honest", count, clients),
        "attack.clients", "let fewer attack");
  }
  if (!ids.empty()) return ids;
  std::vector<int64_t> all(to_index(clients));
  std::iota(all.begin(), all.end(), int64_t{0});
  if (options.idle) return {all.end() - count, all.end()};
  RandomStream(seed, Purpose::kAttack, 0).shuffle(std::span(all));
  all.resize(to_index(count));
  std::ranges::sort(all);
  return all;
}

double attacking_share(const AttackOptions& options, int64_t clients, uint64_t seed) {
  return static_cast<double>(attacking_clients(options, clients, seed).size()) /
         static_cast<double>(clients);
}

}  // namespace hanse
