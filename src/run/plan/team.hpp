// Threads that do the same at the same time, again and again.
#pragma once

#include <barrier>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace hanse {

class Team {
 public:
  // The caller is thread 0; `threads` - 1 are started. REQUIRES: threads >= 1.
  explicit Team(int64_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int64_t size() const { return static_cast<int64_t>(failures_.size()); }
  // work(thread) on all threads, begun together; returns when all have ended. Throws what the
  // lowest of them threw.
  void run(const std::function<void(int64_t)>& work);

 private:
  void attempt(int64_t thread);

  std::vector<std::exception_ptr> failures_;
  std::barrier<> start_;
  std::barrier<> end_;
  const std::function<void(int64_t)>* work_ = nullptr;  // null: it is over
  std::vector<std::thread> threads_;
};

}  // namespace hanse
