// Work of one rank that must not leave the others waiting when it fails.
#pragma once

#include <exception>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

// Runs `work` unless this rank has failed before; what it throws is kept in `failure`, until the
// end of the round, where all ranks hear of it. A CommError is let through: the ranks have lost
// each other already.
template <class Work>
void attempt(std::exception_ptr& failure, Work work) {
  if (failure) return;
  try {
    work();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {  // out of memory: the phase is known here alone
    failure = is_out_of_memory(error) ? std::make_exception_ptr(Error(out_of_memory_report()))
                                      : std::current_exception();
  } catch (...) {
    failure = std::current_exception();
  }
}

}  // namespace hanse
