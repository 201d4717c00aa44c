// The protocols, one row each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bounds.hpp"
#include "hanse/job/kind.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

// What a protocol reads: the sections `sections` without the keys `except`, and `keys`.
struct Reading {
  std::vector<std::string> sections;
  std::vector<std::string> keys = {};
  std::vector<std::string> except = {};

  bool reads(const std::string& key) const;
};

// What else a job's options mean under a protocol.
struct ProtocolTraits {
  bool has_rounds = false;        // of participants whose updates are mixed
  bool holds_out = false;         // clients may be evaluated that never train
  bool has_shared_model = false;  // that common test samples can be for
  bool reads_as_is = false;       // tables: nothing is filled, coded or standardized
  bool ends_itself = false;       // it has no number of rounds
};

struct ProtocolKind : KindRow<Job> {
  Reading reading;
  ProtocolTraits traits;
  std::optional<Bound> bound;  // that the protocol is; none: it trains as its options say
  std::unique_ptr<Assembly> (*assemble)(const Job& job, Communicator& comm,
                                        const RankGpu* given);
};

// The kind of run.protocol. Throws InvalidArgument for an unknown one.
const ProtocolKind& protocol_kind(const Job& job);

// Have clusters of clients copies of tensors in this job?
bool has_clusters(const Job& job);

// The rounds of the job for its user; 0: its protocol ends itself, nobody knows when.
int64_t told_rounds(const Job& job);

// Writes to the job what its assembly has decided, so that resumed runs do the same.
void settle_job(const Assembly& parts, Job& job);

}  // namespace hanse
