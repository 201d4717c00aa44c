#include "run_failure.hpp"

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"
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

std::string way_on_text(const std::string& folder, int64_t round) {
  const std::string word = shell_word(folder);
  if (round >= 0) return fmt::format("`hanse resume {}` goes on after round {}", word, round);
  return fmt::format("`hanse run {} --run.out={} --run.overwrite=true` starts again",
                     shell_word(folder + "/job.cfg"), word);
}

std::string with_hint(const std::string& text, const std::string& hint) {
  if (hint.empty()) return text;
  return text + (text.find("; hint: ") == std::string::npos ? "; hint: " : "; ") + hint;
}

std::exception_ptr with_way_on(std::exception_ptr failure, const std::string& hint) {
  if (!failure) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const IoError& error) {
    return std::make_exception_ptr(IoError(with_hint(error.what(), hint)));
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
