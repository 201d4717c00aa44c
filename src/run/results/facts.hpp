// What a checkpoint says of the data, and of what a run is made of beside them: files, such as a
// network of the user's own, and the GPU that trains; so that a resumed run goes on with the same.
#pragma once

#include <string>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

class Federation;

// The digest of samples, labels, clients and test parts, as 16 hexadecimal digits.
std::string data_digest(const Federation& federation);

// Clients, samples, their shape, classes, the digest, and digests of the names.
State data_facts(const Federation& federation);

// Throws InvalidArgument when the federation is not the one of `facts`, and says in what they
// differ; `where` is the data's path.
void require_same_data(const Federation& federation, const State& facts, const std::string& where);

// What has a digest beside files: tensors that a run makes anew when it is resumed.
inline constexpr const char* kFrozenParameters = "frozen parameters";

// Notes the digest of the file that `key` names; none where `path` is empty. Collective. Throws
// AgreedError: the file cannot be read, or the hosts have different ones.
void note_file(const std::string& key, const std::string& path, Communicator& comm,
               Assembly& assembly);

// The same of a file that is made of several.
void note_files(const std::string& key, const std::vector<std::string>& paths, Communicator& comm,
                Assembly& assembly);

// A text a file, its digest by its key, and what trains.
State part_facts(const Assembly& assembly);

// Throws InvalidArgument that names the key of what is not that of the checkpoint `state`.
void require_same_parts(const Assembly& assembly, const State& state);

}  // namespace hanse
