#include "pipeline.hpp"

#include "mpi_messages.hpp"

namespace hanse {

namespace {

constexpr int64_t kWindow = 16;  // chunks that may be on their way on one link

// The requests of a chunk.
std::span<MPI_Request> slot_of(std::vector<MPI_Request>& requests, int64_t chunk) {
  const std::size_t width = requests.size() / kWindow;
  return std::span(requests).subspan(static_cast<std::size_t>(chunk % kWindow) * width, width);
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
      sends_(kWindow * targets_.size(), MPI_REQUEST_NULL) {}

Pipeline Pipeline::downward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks) {
  Pipeline result(comm, chunks, parents(place), place.children, kDownTag);
  if (place.parent < 0) result.released_ = 0;
  result.receive();
  return result;
}

Pipeline Pipeline::upward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks, MPI_Op op,
                          std::vector<std::byte>& scratch) {
  Pipeline result(comm, chunks, place.children, parents(place), kUpTag);
  const int64_t longest = std::min(chunks.chunk, chunks.count) * chunks.width;
  const auto needed = result.receives_.size() * static_cast<std::size_t>(longest);
  if (scratch.size() < needed) scratch.resize(needed);
  result.op_ = op;
  result.scratch_ = scratch.data();
  result.receive();
  return result;
}

// Where a source's chunk comes in.
std::byte* Pipeline::slot(int64_t chunk, std::size_t source) const {
  if (op_ == MPI_OP_NULL) return chunks_.begin(chunk);
  const auto sources = static_cast<int64_t>(sources_.size());
  const int64_t at = chunk % kWindow * sources + static_cast<int64_t>(source);
  return scratch_ + at * std::min(chunks_.chunk, chunks_.count) * chunks_.width;
}

// Keeps the window full.
void Pipeline::receive() {
  for (; posted_ < std::min(ready_ + kWindow, chunks_.size()); ++posted_) {
    const auto requests = slot_of(receives_, posted_);
    for (std::size_t source = 0; source < sources_.size(); ++source) {
      check_mpi(MPI_Irecv(slot(posted_, source), chunks_.length(posted_), chunks_.type,
                          sources_[source], tag_, comm_, &requests[source]),
                "MPI_Irecv", comm_);
    }
  }
}

bool Pipeline::all_done(std::span<MPI_Request> requests, const char* operation) const {
  int done = 0;
  check_mpi(
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
      operation, comm_);
  return done != 0;
}

bool Pipeline::advance() {
  const int64_t before = ready_ + sent_;
  if (ready_ < released_ && all_done(slot_of(receives_, ready_), "MPI_Irecv")) {
    for (std::size_t source = 0; op_ != MPI_OP_NULL && source < sources_.size(); ++source) {
      check_mpi(MPI_Reduce_local(slot(ready_, source), chunks_.begin(ready_),
                                 chunks_.length(ready_), chunks_.type, op_),
                "MPI_Reduce_local", comm_);
    }
    ++ready_;
    receive();
  }
  while (sent_ < ready_ && all_done(slot_of(sends_, sent_), "MPI_Isend")) {
    const auto requests = slot_of(sends_, sent_);
    for (std::size_t target = 0; target < targets_.size(); ++target) {
      check_mpi(MPI_Isend(chunks_.begin(sent_), chunks_.length(sent_), chunks_.type,
                          targets_[target], tag_, comm_, &requests[target]),
                "MPI_Isend", comm_);
    }
    ++sent_;
  }
  return ready_ + sent_ > before;
}

bool Pipeline::done() { return sent_ == chunks_.size() && all_done(sends_, "MPI_Isend"); }

}  // namespace hanse
