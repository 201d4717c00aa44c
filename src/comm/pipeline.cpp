#include "pipeline.hpp"

#include "mpi_support.hpp"
#include "packing.hpp"

namespace hanse {

namespace {

constexpr int64_t kWindow = 16;  // chunks that may be on their way on one link

// The requests of a chunk.
std::span<MPI_Request> slot_of(std::vector<MPI_Request>& requests, int64_t chunk) {
  const std::size_t width = requests.size() / kWindow;
  return std::span(requests).subspan(static_cast<std::size_t>(chunk % kWindow) * width, width);
}

std::span<int64_t> integers(const Chunks& chunks, int64_t chunk) {
  return {reinterpret_cast<int64_t*>(chunks.begin(chunk)),
          static_cast<std::size_t>(chunks.length(chunk))};
}

std::vector<int> parents(const TreePlace& place) {
  return place.parent < 0 ? std::vector<int>() : std::vector<int>{place.parent};
}

}  // namespace

Pipeline::Pipeline(MPI_Comm comm, const Chunks& chunks, std::vector<int> sources,
                   std::vector<int> targets, int tag)
    : comm_(comm),
      chunks_(chunks),
      sources_(std::move(sources)),
      targets_(std::move(targets)),
      tag_(tag),
      released_(chunks.size()),
      receives_(kWindow * sources_.size(), MPI_REQUEST_NULL),
      sends_(kWindow * targets_.size(), MPI_REQUEST_NULL),
      came_(sources_.size()) {}

Pipeline Pipeline::downward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks) {
  Pipeline result(comm, chunks, parents(place), place.children, kDownTag);
  if (place.parent < 0) result.released_ = 0;
  result.receive();
  return result;
}

Pipeline Pipeline::upward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks, MPI_Op op,
                          std::vector<std::byte>& scratch) {
  Pipeline result(comm, chunks, place.children, parents(place), kUpTag);
  result.op_ = op;
  result.sums_integers_ = op == MPI_SUM && chunks.type == MPI_INT64_T;
  result.packs_ = result.sums_integers_ && place.parent_elsewhere;
  const std::size_t slots = result.receives_.size() + (result.packs_ ? kWindow : 0);
  const std::size_t needed = slots * static_cast<std::size_t>(chunks.longest_bytes());
  if (scratch.size() < needed) scratch.resize(needed);
  result.scratch_ = scratch.data();
  result.receive();
  return result;
}

// Where a source's chunk is received; behind the last source, where a chunk is packed.
std::byte* Pipeline::slot(int64_t chunk, std::size_t source) const {
  if (op_ == MPI_OP_NULL) return chunks_.begin(chunk);
  const auto place = static_cast<int64_t>(source) * kWindow + chunk % kWindow;
  return scratch_ + place * chunks_.longest_bytes();
}

// Posts receives until the window is full.
void Pipeline::receive() {
  for (; posted_ < std::min(ready_ + kWindow, chunks_.size()); ++posted_) {
    const auto requests = slot_of(receives_, posted_);
    const int length = chunks_.length(posted_);
    for (std::size_t source = 0; source < sources_.size(); ++source) {
      check_mpi(MPI_Irecv(slot(posted_, source),
                          sums_integers_ ? length * static_cast<int>(chunks_.width) : length,
                          sums_integers_ ? MPI_BYTE : chunks_.type, sources_[source], tag_, comm_,
                          &requests[source]),
                "MPI_Irecv", comm_);
    }
  }
}

bool Pipeline::all_done(std::span<MPI_Request> requests, const char* operation,
                        MPI_Status* statuses) const {
  int done = 0;
  check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, statuses),
            operation, comm_);
  return done != 0;
}

// Adds the chunks that were received to this rank's own.
void Pipeline::combine(int64_t chunk) {
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    if (sums_integers_) {
      int bytes = 0;
      MPI_Get_count(&came_[source], MPI_BYTE, &bytes);
      add_packed(slot(chunk, source), bytes / chunks_.length(chunk), integers(chunks_, chunk));
    } else {
      check_mpi(MPI_Reduce_local(slot(chunk, source), chunks_.begin(chunk), chunks_.length(chunk),
                                 chunks_.type, op_),
                "MPI_Reduce_local", comm_);
    }
  }
}

void Pipeline::send(int64_t chunk) {
  const std::byte* data = chunks_.begin(chunk);
  int length = chunks_.length(chunk);
  MPI_Datatype type = chunks_.type;
  if (sums_integers_) {
    int64_t width = chunks_.width;
    if (packs_) {
      const auto values = integers(chunks_, chunk);
      width = packed_width(values);
      std::byte* packed = slot(chunk, sources_.size());
      pack(values, width, packed);
      data = packed;
    }
    length *= static_cast<int>(width);
    type = MPI_BYTE;
  }
  const auto requests = slot_of(sends_, chunk);
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    check_mpi(MPI_Isend(data, length, type, targets_[target], tag_, comm_, &requests[target]),
              "MPI_Isend", comm_);
  }
}

bool Pipeline::advance() {
  const int64_t before = ready_ + sent_;
  if (ready_ < released_ && all_done(slot_of(receives_, ready_), "MPI_Irecv", came_.data())) {
    if (op_ != MPI_OP_NULL) combine(ready_);
    ++ready_;
    receive();
  }
  while (sent_ < ready_ && all_done(slot_of(sends_, sent_), "MPI_Isend")) {
    send(sent_);
    ++sent_;
  }
  return ready_ + sent_ > before;
}

bool Pipeline::done() { return sent_ == chunks_.size() && all_done(sends_, "MPI_Isend"); }

}  // namespace hanse
