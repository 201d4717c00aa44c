// What clients keep between rounds: control variates, personal models, curvature pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hanse {

// A named part of a client's state; the parts of a row stand one behind the other.
struct StateBlock {
  std::string name;
  int64_t width;  // floats
};
int64_t width_of(const std::vector<StateBlock>& blocks);

// The part of that name of a client's row; empty when there is none.
template <class Float>
std::span<Float> state_block(const std::vector<StateBlock>& blocks, std::span<Float> row,
                             std::string_view name) {
  for (const StateBlock& block : blocks) {
    const auto width = static_cast<std::size_t>(block.width);
    if (block.name == name) return row.first(width);
    row = row.subspan(width);
  }
  return {};
}

// One row of `width` float32 for every client that has taken part, on the rank that trained
// it last. A row is zero when it is created, at the client's first participation. Up to
// `memory_limit_bytes` rows lie in anonymous memory; the rows after them in a file in `folder`,
// which is unlinked as soon as it is open: nothing is left when a run is killed.
class ClientStateStore {
 public:
  // REQUIRES: width >= 0. No memory is taken before the first row.
  ClientStateStore(int64_t width, int64_t memory_limit_bytes, std::string folder);
  ~ClientStateStore();
  ClientStateStore(const ClientStateStore&) = delete;
  ClientStateStore& operator=(const ClientStateStore&) = delete;

  int64_t width() const { return width_; }

  // The client's row [width], zeros when it is created; stays where it is until drop(), whatever
  // other clients come and go. Throws IoError when the file cannot grow (disk full).
  std::span<float> row(int64_t client);
  // The row of a client that has one. REQUIRES: contains(client).
  std::span<const float> existing_row(int64_t client) const;
  // Forgets the client's row, whose memory the next new client gets: nobody may use a span of it
  // any more. REQUIRES: contains(client). Cost: constant; no memory goes back to the system.
  void drop(int64_t client);
  bool contains(int64_t client) const { return index_.count(client) != 0; }

  // take_back() makes all rows what they were at the last mark(), which row() then keeps of each
  // row that it gives. renew_mark() marks anew where there is a mark. REQUIRES: no drop() between
  // a mark and take_back(). Memory: a copy of those rows.
  void mark();
  void renew_mark() {
    if (marked_) mark();
  }
  void take_back();

  // Clients that have a row, ascending.
  std::vector<int64_t> clients() const;

 private:
  float* new_row();
  void add_slab();

  int64_t width_;
  int64_t rows_in_memory_;  // rows that fit below the limit
  std::string folder_;
  int file_ = -1;
  int64_t file_bytes_ = 0;
  std::vector<std::shared_ptr<std::byte>> slabs_;
  float* next_row_ = nullptr;  // of the last slab's rows that nobody has
  int64_t rows_left_ = 0;      // so many
  std::unordered_map<int64_t, float*> index_;
  std::vector<float*> free_;  // rows of clients that were dropped
  bool marked_ = false;
  // What rows were at the mark; none: the client had none.
  std::unordered_map<int64_t, std::optional<std::vector<float>>> before_;
};

// Throws InvalidArgument, with the numbers, when the states of all `clients` could not be kept:
// they exceed the memory of `ranks` stores and the room on the disk of `folder` (or of its nearest
// parent that is there). To be asked before the first round.
void require_state_room(int64_t width, int64_t clients, int64_t ranks, int64_t memory_limit_bytes,
                        const std::string& folder);

}  // namespace hanse
