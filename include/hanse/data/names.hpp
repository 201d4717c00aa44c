// Names of clients, classes and features.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/feature_record.hpp"

namespace hanse {

// Names of clients or of classes, one copy a host.
class Names {
 public:
  Names() = default;
  // The names that the first rank of the host gives, for all its ranks. Collective. Throws
  // AgreedError when there is no room.
  static Names share(const std::vector<std::string>& names, Communicator& host);

  // The names of these numbers, in this order. Cost: copies them.
  Names of(std::span<const int64_t> numbers) const;

  bool empty() const { return size_ == 0; }
  // REQUIRES: i < size. Empty when there are no names at all.
  std::string_view at(int64_t i) const;
  // XXH3 of all names, as text; empty when there are none.
  std::string digest() const;

 private:
  const int64_t* places() const { return reinterpret_cast<const int64_t*>(memory_.get()); }

  // [size + 1] places, then the characters: name i is [place i, place i + 1).
  std::shared_ptr<const std::byte> memory_;
  int64_t size_ = 0;
};

// What the data name: all of a kind, or none.
struct FederationNames {
  Names clients;  // those held out, too
  Names classes;
  std::shared_ptr<const int64_t> rows;  // [samples] places in the source; null: not kept
  // What was done to the features; null but on the first rank of a host.
  std::shared_ptr<const FeatureRecord> features;
};

// Throws InvalidArgument that shows the first name that is no UTF-8, which no JSON file can hold.
// `what` it names: "client"; `where` it stands.
void require_utf8(std::span<const std::string> names, const std::string& what,
                  const std::string& where);

// A client's or class's name for messages: "client 'Switzerland'", or "client 2" without a name.
// Bytes that are no text are shown as printable() does.
std::string label_of(const std::string& what, int64_t number, std::string_view name);

}  // namespace hanse
