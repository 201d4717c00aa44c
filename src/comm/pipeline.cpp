#include "pipeline.hpp"

#include <algorithm>

#include "mpi_messages.hpp"

namespace hanse {

namespace {

// The requests of a chunk.
std::span<MPI_Request> slot_of(std::vector<MPI_Request>& requests, int64_t chunk) {
  const std::size_t width = requests.size() / kWindow;
  return std::span(requests).subspan(static_cast<std::size_t>(chunk % kWindow) * width, width);
}

bool all_done(std::span<MPI_Request> requests, const char* operation, MPI_Comm comm) {
  int done = 0;
  check_mpi(
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
      operation, comm);
  return done != 0;
}

}  // namespace

int Chunks::length(int64_t i) const { return static_cast<int>(std::min(chunk, count - i * chunk)); }

Downward::Downward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks)
    : comm_(comm),
      place_(place),
      chunks_(chunks),
      receives_(kWindow, MPI_REQUEST_NULL),
      sends_(kWindow * place.children.size(), MPI_REQUEST_NULL) {
  if (place_.parent >= 0) receive();
}

// Keeps the window full.
void Downward::receive() {
  for (; posted_ < std::min(ready_ + kWindow, chunks_.size()); ++posted_) {
    check_mpi(MPI_Irecv(chunks_.begin(posted_), chunks_.length(posted_), chunks_.type,
                        place_.parent, kDownTag, comm_, slot_of(receives_, posted_).data()),
              "MPI_Irecv", comm_);
  }
}

bool Downward::advance() {
  const int64_t before = ready_ + sent_;
  while (ready_ < posted_ && all_done(slot_of(receives_, ready_), "MPI_Irecv", comm_)) {
    ++ready_;
    receive();
  }
  while (sent_ < ready_ && all_done(slot_of(sends_, sent_), "MPI_Isend", comm_)) {
    const auto requests = slot_of(sends_, sent_);
    for (std::size_t child = 0; child < requests.size(); ++child) {
      check_mpi(MPI_Isend(chunks_.begin(sent_), chunks_.length(sent_), chunks_.type,
                          place_.children[child], kDownTag, comm_, &requests[child]),
                "MPI_Isend", comm_);
    }
    ++sent_;
  }
  return ready_ + sent_ > before;
}

bool Downward::done() { return sent_ == chunks_.size() && all_done(sends_, "MPI_Isend", comm_); }

Upward::Upward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks, MPI_Op op,
               std::vector<std::byte>& scratch)
    : comm_(comm),
      place_(place),
      chunks_(chunks),
      op_(op),
      scratch_(scratch),
      receives_(kWindow * place.children.size(), MPI_REQUEST_NULL),
      sends_(kWindow, MPI_REQUEST_NULL) {
  const int64_t longest = std::min(chunks.chunk, chunks.count) * chunks.width;
  const auto needed = receives_.size() * static_cast<std::size_t>(longest);
  if (scratch_.size() < needed) scratch_.resize(needed);
  receive();
}

std::byte* Upward::slot(int64_t chunk, std::size_t child) {
  const int64_t at =
      chunk % kWindow * static_cast<int64_t>(place_.children.size()) + static_cast<int64_t>(child);
  return scratch_.data() + at * std::min(chunks_.chunk, chunks_.count) * chunks_.width;
}

void Upward::receive() {
  for (; posted_ < std::min(combined_ + kWindow, chunks_.size()); ++posted_) {
    const auto requests = slot_of(receives_, posted_);
    for (std::size_t child = 0; child < requests.size(); ++child) {
      check_mpi(MPI_Irecv(slot(posted_, child), chunks_.length(posted_), chunks_.type,
                          place_.children[child], kUpTag, comm_, &requests[child]),
                "MPI_Irecv", comm_);
    }
  }
}

bool Upward::combine_next() {
  if (combined_ == chunks_.size()) return false;
  if (!all_done(slot_of(receives_, combined_), "MPI_Irecv", comm_)) return false;
  for (std::size_t child = 0; child < place_.children.size(); ++child) {
    check_mpi(MPI_Reduce_local(slot(combined_, child), chunks_.begin(combined_),
                               chunks_.length(combined_), chunks_.type, op_),
              "MPI_Reduce_local", comm_);
  }
  ++combined_;
  receive();
  return true;
}

// One chunk at a time: the root may have to do with it.
bool Upward::advance() {
  const bool combined = combine_next();
  if (place_.parent < 0) {
    sent_ = combined_;
    return combined;
  }
  const int64_t before = sent_;
  while (sent_ < combined_ && all_done(slot_of(sends_, sent_), "MPI_Isend", comm_)) {
    check_mpi(MPI_Isend(chunks_.begin(sent_), chunks_.length(sent_), chunks_.type, place_.parent,
                        kUpTag, comm_, slot_of(sends_, sent_).data()),
              "MPI_Isend", comm_);
    ++sent_;
  }
  return combined || sent_ > before;
}

bool Upward::done() { return sent_ == chunks_.size() && all_done(sends_, "MPI_Isend", comm_); }

}  // namespace hanse
