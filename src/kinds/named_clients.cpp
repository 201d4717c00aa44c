#include "named_clients.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "lines.hpp"

namespace hanse {

NamedClients::NamedClients(int64_t clients, const Names& names) : clients_(clients) {
  for (int64_t i = 0; i < clients && !names.empty(); ++i) by_name_.emplace(names.at(i), i);
}

int64_t NamedClients::find(const std::string& name, const std::string& where) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  if (by_name_.empty()) {
    throw InvalidArgument(fmt::format("client '{}' is no number", name), where,
                          "the data name no clients: they are numbered from 0");
  }
  throw InvalidArgument(fmt::format("no client is called '{}'", name), where,
                        "clients are called, and numbered from 0, as in clients.csv");
}

bool names_a_client(const std::string& line) {
  const auto items = split_list(line);
  return items.size() > 1 && !number_in(items[0]);
}

std::vector<double> fields_of(const std::string& line, const std::string& form,
                              const NamedClients& clients, const std::string& where, bool all) {
  std::vector<double> numbers;
  const auto items = split_list(line);
  const bool by_name = names_a_client(line);
  if (by_name) numbers.push_back(static_cast<double>(clients.find(items[0], where)));
  try {
    if (items.size() != split_list(form).size()) throw InvalidArgument("");
    if (!by_name) numbers.push_back(static_cast<double>(parse_integer(items[0])));
    for (std::size_t i = 1; i < items.size(); ++i) numbers.push_back(parse_number(items[i]));
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' has not the numbers of a line", line), where,
                          "a line is: " + form);
  }
  const auto count = static_cast<double>(clients.count());
  if (numbers[0] >= 0 && (!all || numbers[0] < count)) return numbers;
  throw InvalidArgument(fmt::format("client {} is outside [0, {})", numbers[0], count), where);
}

std::vector<int64_t> numbers_of_clients(
    const std::string& path, const char* what, const char* form, int64_t clients,
    const Names& names,
    const std::function<int64_t(double number, const std::string& where)>& take) {
  constexpr int64_t kNone = -1;
  const NamedClients named(clients, names);
  std::vector<int64_t> numbers(to_index(clients), kNone);
  bool has_header = false;
  each_line(path, what, form, [&](const std::string& line, int64_t, const std::string& where) {
    if (!std::exchange(has_header, true)) {
      if (line == form) return;
      throw InvalidArgument("the header is missing", where,
                            fmt::format("the first line is: {}", form));
    }
    const auto row = fields_of(line, form, named, where);
    const int64_t number = take(row[1], where);
    int64_t& of_client = numbers[static_cast<std::size_t>(row[0])];
    if (of_client != kNone) throw InvalidArgument("a second line of this client", where);
    of_client = number;
  });
  const auto missing = std::ranges::find(numbers, kNone);
  if (missing == numbers.end()) return numbers;
  const auto client = missing - numbers.begin();
  const auto name = names.empty() ? std::string_view() : names.at(client);
  throw InvalidArgument(fmt::format("{} has no line", label_of("client", client, name)), path,
                        fmt::format("each client has one: {}", form));
}

}  // namespace hanse
