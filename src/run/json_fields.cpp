#include "json_fields.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "json_text.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostClients = int64_t{1} << 30;
constexpr int64_t kKeptOfAClient = 16;     // bytes, by a rule
constexpr int64_t kPrintedOfAClient = 64;  // bytes, of each round: its numbers, and their texts

void require_room(int64_t clients, int64_t bytes_each, const std::string& where) {
  require_memory(clients * bytes_each, fmt::format("what stands for {} clients takes", clients),
                 where, "name the clients of each round");
}

}  // namespace

const Json& field(const Json& object, const std::string& name, const std::string& where) {
  if (!object.is_object() || !object.contains(name)) {
    throw InvalidArgument(fmt::format("field '{}' is missing", name), where);
  }
  return object.at(name);
}

double number(const Json& value, const std::string& where) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    throw InvalidArgument(fmt::format("{} is not a finite number", value.dump()), where);
  }
  return value.get<double>();
}

std::vector<double> numbers(const Json& array, std::size_t expected, double low,
                            const std::string& where) {
  if (!array.is_array() || array.size() != expected) {
    throw InvalidArgument(fmt::format("expected an array of {} numbers", expected), where);
  }
  std::vector<double> values;
  for (const Json& item : array) {
    values.push_back(number(item, where));
    if (!(values.back() >= low)) {
      throw InvalidArgument(fmt::format("{} is below {}", values.back(), low), where);
    }
  }
  return values;
}

std::vector<double> numbers(const Json& object, const std::string& name, std::size_t expected,
                            double low, const std::string& where) {
  return numbers(field(object, name, where), expected, low, where + "." + name);
}

int64_t integer(const Json& value, int64_t low, int64_t high, const std::string& where) {
  if (!value.is_number_integer() || value.get<int64_t>() < low || value.get<int64_t>() >= high) {
    throw InvalidArgument(fmt::format("{} is no integer in [{}, {})", value.dump(), low, high),
                          where);
  }
  return value.get<int64_t>();
}

const Json& rounds_of(const Json& trace) {
  const Json& rounds = field(trace, "rounds", "trace");
  if (!rounds.is_array()) throw InvalidArgument("expected an array of rounds", "rounds");
  return rounds;
}

Json each_round(const Json& trace,
                const std::function<Json(const Json& round, const std::string& where)>& replay) {
  Json results = Json::array();
  for (const Json& round : rounds_of(trace)) {
    const auto where = fmt::format("rounds[{}]", results.size());
    if (!round.is_object()) throw InvalidArgument("expected an object", where);
    results.push_back(replay(round, where));
  }
  return {{"rounds", results}};
}

std::vector<int64_t> ids(const Json& array, int64_t clients, bool repeats,
                         const std::string& where) {
  if (!array.is_array()) {
    throw InvalidArgument("expected an array of client ids", where);
  }
  std::vector<int64_t> found;
  for (const Json& item : array) found.push_back(integer(item, 0, clients, where));
  auto sorted = found;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (!repeats && twice != sorted.end()) {
    throw InvalidArgument(fmt::format("client {} stands twice", *twice), where);
  }
  return found;
}

std::vector<int64_t> clients_in(const Json& round, const std::string& name, int64_t clients,
                                const std::string& where) {
  if (round.contains(name)) return ids(round.at(name), clients, false, where + "." + name);
  require_room(clients, kPrintedOfAClient, where);
  std::vector<int64_t> all(to_index(clients));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

std::vector<int64_t> whole_numbers(const Json& object, const std::string& name,
                                   std::size_t expected, const std::string& where) {
  numbers(object, name, expected, 0, where);  // so many of them
  std::vector<int64_t> found;
  for (const Json& one : object.at(name)) {
    found.push_back(integer(one, 0, INT64_MAX, where + "." + name));
  }
  return found;
}

int64_t clients_of(const Json& trace) {
  const int64_t clients = integer(field(trace, "clients", "trace"), 1, kMostClients + 1, "clients");
  require_room(clients, kKeptOfAClient, "clients");
  return clients;
}

Json to_rows(std::span<const double> values, std::size_t n) {
  Json rows = Json::array();
  for (; !values.empty(); values = values.subspan(n)) rows.push_back(values.first(n));
  return rows;
}

std::string to_text(const nlohmann::ordered_json& value) {
  if (value.is_number_float()) return fmt::format("{:.17g}", value.get<double>());
  if (!value.is_structured()) return json_dump(value);
  std::vector<std::string> items;
  for (const auto& [key, item] : value.items()) {
    items.push_back((value.is_object() ? json_dump(key) + ": " : "") + to_text(item));
  }
  const std::string text = fmt::format("{}", fmt::join(items, ", "));
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::optional<std::string> first_difference(const Json& one, const Json& other,
                                            const std::string& where) {
  if (one.type() != other.type() || one.size() != other.size() || !one.is_structured()) {
    const std::string first = to_text(one), second = to_text(other);
    if (first == second) return std::nullopt;
    return fmt::format("{} is {}, but {}", where, first, second);
  }
  for (const auto& [key, item] : one.items()) {
    const std::string here = one.is_array()  ? fmt::format("{}[{}]", where, key)
                             : where.empty() ? key
                                             : where + "." + key;
    if (!one.is_array() && !other.contains(key)) return here + " is missing";
    const Json& theirs = one.is_array() ? other[std::stoul(key)] : other[key];
    if (auto found = first_difference(item, theirs, here)) return found;
  }
  return std::nullopt;
}

}  // namespace hanse
