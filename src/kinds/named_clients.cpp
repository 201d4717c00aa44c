#include "named_clients.hpp"

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

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

}  // namespace hanse
