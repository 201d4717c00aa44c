#include "run_failure.hpp"

#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

std::exception_ptr named_failure(std::exception_ptr failure, const Federation& federation) {
  if (!failure) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const TrainingError& error) {
    return std::make_exception_ptr(error.called(client_label(federation, error.client())));
  } catch (const InvalidArgument& error) {
    return std::make_exception_ptr(Error(error.what()));
  } catch (...) {
    return failure;
  }
}

void agree_running(Communicator& comm, const std::exception_ptr& failure) {
  try {
    agree(comm, failure);
  } catch (const AgreedError& error) {
    throw AgreedError(error.what(), ExitStatus::kFailed);
  }
}

}  // namespace hanse
