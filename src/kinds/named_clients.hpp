// Clients in the lines of files that a job names: by their numbers, or the names that the data
// have.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hanse/data/names.hpp"

namespace hanse {

class NamedClients {
 public:
  // `names` of clients, those held out too, or none; they must outlive the object.
  NamedClients(int64_t clients, const Names& names);
  int64_t count() const { return clients_; }

  // Throws InvalidArgument that says where.
  int64_t find(const std::string& name, const std::string& where) const;

 private:
  int64_t clients_;
  std::unordered_map<std::string_view, int64_t> by_name_;
};

bool names_a_client(const std::string& line);

// The numbers of a line, of which the first is that of a client, who may stand there by its name.
// `form`: "client,probability". `all`: must the number be one of a client? Throws InvalidArgument
// that says where.
std::vector<double> fields_of(const std::string& line, const std::string& form,
                              const NamedClients& clients, const std::string& where,
                              bool all = true);

// Reads a whole number for each client: a header like `form`, then a line for each client, whose
// number `take` checks. Throws InvalidArgument, with the line: another form, a client twice or not
// at all; and as `take`. `what`: "ranks of the clients".
std::vector<int64_t> numbers_of_clients(
    const std::string& path, const char* what, const char* form, int64_t clients,
    const Names& names,
    const std::function<int64_t(double number, const std::string& where)>& take);

}  // namespace hanse
