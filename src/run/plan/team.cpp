#include "team.hpp"

#include <utility>

namespace hanse {

Team::Team(int64_t threads)
    : failures_(static_cast<std::size_t>(threads)), start_(threads), end_(threads) {
  for (int64_t thread = 1; thread < threads; ++thread) {
    threads_.emplace_back([this, thread] {
      for (;;) {
        start_.arrive_and_wait();
        if (!work_) return;
        attempt(thread);
        end_.arrive_and_wait();
      }
    });
  }
}

Team::~Team() {
  work_ = nullptr;
  start_.arrive_and_wait();
  for (std::thread& thread : threads_) thread.join();
}

void Team::attempt(int64_t thread) {
  try {
    (*work_)(thread);
  } catch (...) {
    failures_[static_cast<std::size_t>(thread)] = std::current_exception();
  }
}

void Team::run(const std::function<void(int64_t)>& work) {
  work_ = &work;
  start_.arrive_and_wait();
  attempt(0);
  end_.arrive_and_wait();
  const std::vector<std::exception_ptr> found =
      std::exchange(failures_, std::vector<std::exception_ptr>(failures_.size()));
  for (const std::exception_ptr& failure : found) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace hanse
