#include "hanse/comm/agreement.hpp"

#include <climits>

#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

namespace {

// How this rank describes its failure.
AgreedError describe(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return {error.what(), error.exit_status()};
  } catch (const AgreedError& error) {
    return error;
  } catch (const std::exception& error) {
    return {is_out_of_memory(error) ? out_of_memory_report() : first_line(error),
            ExitStatus::kFailed};
  }
}

}  // namespace

void agree(Communicator& comm, std::exception_ptr failure) {
  const int64_t mine = failure ? comm.rank() : comm.size();
  const int64_t first = comm.allreduce_one(mine, ReduceOp::kMin);
  if (first == comm.size()) return;
  const auto root = static_cast<int>(first);
  std::string what;
  int64_t status = 0;
  if (root == comm.rank()) {
    const AgreedError error = describe(failure);
    what = error.what();
    status = static_cast<int64_t>(error.exit_status());
    if (root > 0) {
      char host[HOST_NAME_MAX + 1] = "";
      gethostname(host, HOST_NAME_MAX);
      what += fmt::format(" [rank {} on {}]", root, host);
    }
  }
  comm.bcast(std::span(&status, 1), root);
  bcast_list(comm, what, root);
  throw AgreedError(what, static_cast<ExitStatus>(status));
}

void agree_on(Communicator& comm, const std::function<void()>& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (const CommError&) {
    throw;  // the collectives themselves are broken
  } catch (...) {
    failure = std::current_exception();
  }
  agree(comm, failure);
}

void require_same(Communicator& comm, const std::string& what, const std::string& text,
                  const std::string& hint) {
  std::string first = text;
  bcast_list(comm, first);
  agree_on(comm, [&] {
    if (text == first) return;
    const auto brief = [](const std::string& value) {
      return value.size() <= 60 ? value : "digest " + digest_hex(std::as_bytes(std::span(value)));
    };
    throw InvalidArgument(
        fmt::format("ranks have different {}: '{}' and '{}'", what, brief(first), brief(text)), "",
        hint);
  });
}

}  // namespace hanse
