// Lines of files of which the first number is that of a client, who may stand there by its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hanse/data/names.hpp"

namespace hanse {

// The clients by the names that the data have, which must outlive it.
class NamedClients {
 public:
  NamedClients(int64_t clients, const Names& names);
  int64_t count() const { return clients_; }

  // Throws InvalidArgument that says where.
  int64_t find(const std::string& name, const std::string& where) const;

 private:
  int64_t clients_;
  std::unordered_map<std::string_view, int64_t> by_name_;
};

bool names_a_client(const std::string& line);

// The numbers of a line like `form`. `all`: must the first be a client's? Throws InvalidArgument
// that says where.
std::vector<double> fields_of(const std::string& line, const std::string& form,
                              const NamedClients& clients, const std::string& where,
                              bool all = true);

}  // namespace hanse
