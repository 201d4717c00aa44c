// The protocols, one row each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hanse/job/kind.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

// The sections and keys that a protocol reads: those of `sections` without `except`, and `keys`.
struct Reading {
  std::vector<std::string> sections;
  std::vector<std::string> keys = {};
  std::vector<std::string> except = {};

  bool reads(const std::string& key) const;
};

struct ProtocolKind : KindRow<Job> {
  Reading reading;
  // Has every client a model of its own? None: that is a matter of the clients' options.
  std::optional<bool> own_models;
  std::unique_ptr<Assembly> (*assemble)(const Job& job, Communicator& comm);
};

// That of run.protocol. Throws InvalidArgument for an unknown one.
const ProtocolKind& protocol_kind(const Job& job);

}  // namespace hanse
