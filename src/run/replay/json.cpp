#include "json.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

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

// A number of items, each >= `low`, from an array of `expected` of them.
std::vector<double> numbers(const Json& object, const std::string& name, std::size_t expected,
                            double low, const std::string& where) {
  const Json& array = field(object, name, where);
  const std::string here = where + "." + name;
  if (!array.is_array() || array.size() != expected) {
    throw InvalidArgument(fmt::format("expected an array of {} numbers", expected), here);
  }
  std::vector<double> values;
  for (const Json& item : array) {
    values.push_back(number(item, here));
    if (!(values.back() >= low)) {
      throw InvalidArgument(fmt::format("{} is below {}", values.back(), low), here);
    }
  }
  return values;
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

std::vector<double> numbers_or(const Json& object, const std::string& name, std::size_t expected,
                               double absent, const std::string& where) {
  if (!object.contains(name)) return std::vector<double>(expected, absent);
  return numbers(object, name, expected, 0, where);
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

std::vector<int64_t> participants(const Json& round, int64_t clients, const std::string& where) {
  if (round.contains("participants")) {
    return ids(round.at("participants"), clients, false, where + ".participants");
  }
  std::vector<int64_t> all(static_cast<std::size_t>(clients));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

std::vector<double> shares_of_sizes(const Json& round, std::size_t count, bool needed, double total,
                                    const std::string& where) {
  auto sizes = needed ? numbers(round, "sizes", count, 0, where)
                      : numbers_or(round, "sizes", count, 1, where);
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  if (!(sum > 0)) throw InvalidArgument("sizes sum to 0", where + ".sizes");
  for (double& size : sizes) size /= total > 0 ? total : sum;
  return sizes;
}

Mix mix_of(Aggregator& rule, const RoundReport& report, const std::string& where) {
  try {
    return rule.mix(report);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(where + ": " + error.what());
  }
}

int64_t clients_of(const Json& trace) {
  return integer(field(trace, "clients", "trace"), 1, int64_t{1} << 40, "clients");
}

namespace {

std::string join_items(const Json& value) {
  std::string text;
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + to_text(item);
  return text;
}

}  // namespace

std::string to_text(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.17g}", value.get<double>());
  if (value.is_array()) return fmt::format("[{}]", join_items(value));
  if (!value.is_object()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += (text.empty() ? "\"" : ", \"") + key + "\": " + to_text(item);
  }
  return "{" + text + "}";
}

}  // namespace hanse
