// A subset of the clients 0, ..., M-1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// Knows its k-th member. Memory: M/8 bytes and a fiftieth more; a change or a selection costs
// O(log M).
class ClientSet {
 public:
  // All clients.
  explicit ClientSet(int64_t clients);

  int64_t clients() const { return clients_; }
  int64_t size() const { return size_; }
  bool full() const { return size_ == clients_; }
  bool contains(int64_t client) const { return (word(client) >> (client % 64) & 1U) != 0; }

  // Takes the client in, or out.
  void toggle(int64_t client);

  // The member with k smaller members. REQUIRES: 0 <= k < size().
  int64_t select(int64_t k) const;

 private:
  uint64_t word(int64_t client) const { return words_[static_cast<std::size_t>(client / 64)]; }

  int64_t clients_;
  int64_t size_;
  std::vector<uint64_t> words_;   // a bit a client
  std::vector<int64_t> members_;  // Fenwick tree over the members of each 512 clients
};

}  // namespace hanse
