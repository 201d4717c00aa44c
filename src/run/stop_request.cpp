#include "hanse/run/stop_request.hpp"

#include <csignal>
#include <initializer_list>

namespace hanse {

namespace {

volatile std::sig_atomic_t requested = 0;

void remember(int signal) {
  requested = 1;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, not a death
}

bool stop_requested() { return requested != 0; }

}  // namespace hanse
