#include "hanse/comm/communicator.hpp"

namespace hanse {

std::string bcast_text(Communicator& comm, const std::string& text, int root) {
  auto length = static_cast<int64_t>(text.size());
  comm.bcast(std::span(&length, 1), root);
  std::string result = text;
  result.resize(static_cast<std::size_t>(length));
  comm.bcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

}  // namespace hanse
